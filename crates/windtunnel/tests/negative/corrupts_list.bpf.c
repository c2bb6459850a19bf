/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * corrupts_list: writes into the head of its list.
 * expected message with --sanitize: special-field: store of 8 bytes
 * expected message without --sanitize: none
 */
#include "base.h"

struct note {
	struct bpf_list_node node;
	u64 pid;
};

private(NOTES) struct bpf_spin_lock lock;
private(NOTES) struct bpf_list_head notes __contains(note, node);

void SCX_OP(bad_running, struct task_struct *p)
{
	u64 *words = (u64 *)&notes;
	struct note *note = bpf_obj_new(struct note);

	if (!note)
		return;
	note->pid = p->pid;
	bpf_spin_lock(&lock);
	bpf_list_push_back(&notes, &note->node);
	bpf_spin_unlock(&lock);

	barrier_var(words);
	words[1] = 0; /* violation */
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
