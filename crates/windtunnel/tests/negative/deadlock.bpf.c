/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * deadlock: acquires a lock that it already holds.
 * expected message with --sanitize: deadlock: bpf_spin_lock of the lock that is already held
 * expected message without --sanitize: is already held
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
	bpf_spin_lock(&g->lock); /* violation */
	g->count++;
	bpf_spin_unlock(&g->lock);
	bpf_spin_unlock(&g->lock);
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
