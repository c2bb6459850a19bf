/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * calls_under_lock: calls a kfunc with a lock held.
 * expected message with --sanitize: call-under-lock: scx_bpf_kick_cpu called while a lock is held
 * expected message without --sanitize: none
 */
#include "base.h"

struct guarded {
	struct bpf_spin_lock lock;
	u32 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct guarded);
} guarded SEC(".maps");

void SCX_OP(bad_running, struct task_struct *p)
{
	u32 key = 0;
	struct guarded *g = bpf_map_lookup_elem(&guarded, &key);

	if (!g)
		return;
	bpf_spin_lock(&g->lock);
	scx_bpf_kick_cpu(0, SCX_KICK_IDLE); /* violation */
	bpf_spin_unlock(&g->lock);
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
