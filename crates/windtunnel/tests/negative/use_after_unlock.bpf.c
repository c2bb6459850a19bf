/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * use_after_unlock: reads an object of a list after releasing the lock. From then on, other CPUs
 * may remove the object.
 * expected message with --sanitize: use-after-unlock: load of 8 bytes
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
	struct note *note = bpf_obj_new(struct note);
	struct bpf_list_node *first;

	if (!note)
		return;
	note->pid = p->pid;
	bpf_spin_lock(&lock);
	bpf_list_push_back(&notes, &note->node);
	first = bpf_list_front(&notes);
	bpf_spin_unlock(&lock);
	if (first)
		use(*(volatile u64 *)&container_of(first, struct note, node)->pid); /* violation */
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
