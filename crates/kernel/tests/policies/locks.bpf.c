/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * locks: a policy that schedules all tasks on one DSQ and counts insertions. The counter is in the
 * third value of an array map. A bpf_spin_lock protects it.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 3

struct counted {
	u64 before;
	struct bpf_spin_lock lock;
	u64 n;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, struct counted);
} counts SEC(".maps");

u64 nr_queued;

void SCX_OP(locks_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 key = 2;
	struct counted *counted = bpf_map_lookup_elem(&counts, &key);

	if (counted) {
		bpf_spin_lock(&counted->lock);
		nr_queued = ++counted->n;
		bpf_spin_unlock(&counted->lock);
	}
	scx_bpf_dsq_insert(p, QUEUE, 1000000, enq_flags);
}

void SCX_OP(locks_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(locks_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(locks_ops,
	.enqueue = (void *)locks_enqueue,
	.dispatch = (void *)locks_dispatch,
	.init = (void *)locks_init,
	.name = "locks");
