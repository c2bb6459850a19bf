/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * out_of_bounds: stores beyond the end of an array element, into the next element.
 * expected message with --sanitize: out-of-bounds: store of 8 bytes
 * expected message without --sanitize: none
 */
#include "base.h"

struct slots {
	u64 slot[3];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, struct slots);
} slots_map SEC(".maps");

void SCX_OP(bad_running, struct task_struct *p)
{
	u32 key = 0, at = p->pid % 2 ? 1 : 3;
	struct slots *slots = bpf_map_lookup_elem(&slots_map, &key);

	if (!slots)
		return;
	barrier_var(at);
	slots->slot[at] = p->pid; /* violation */
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
