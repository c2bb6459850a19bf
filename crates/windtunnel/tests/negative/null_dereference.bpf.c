/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * null_dereference: stores through the result of a map look-up without testing it for NULL.
 * expected message with --sanitize: null-dereference: store of 8 bytes
 * expected message without --sanitize: store through a NULL pointer
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
	u32 key = 77;

	*(volatile u64 *)bpf_map_lookup_elem(&counters, &key) = 1; /* violation */
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
