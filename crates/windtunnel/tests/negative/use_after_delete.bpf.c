/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * use_after_delete: stores to the value of an element that it has deleted.
 * expected message with --sanitize: use-after-free: store of 8 bytes
 * expected message without --sanitize: none
 */
#include "base.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

void SCX_OP(bad_running, struct task_struct *p)
{
	u32 key = 1;
	u64 zero = 0, *value;

	bpf_map_update_elem(&counters, &key, &zero, BPF_ANY);
	value = bpf_map_lookup_elem(&counters, &key);
	if (!value)
		return;
	bpf_map_delete_elem(&counters, &key);
	*(volatile u64 *)value = 1; /* violation */
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
