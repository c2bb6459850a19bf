/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * key_out_of_bounds: passes a key on the stack that is smaller than the keys of the map.
 * expected message with --sanitize: stack-out-of-bounds: load of 64 bytes
 * expected message without --sanitize: none
 */
#include "base.h"

struct wide {
	u64 words[8];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, struct wide);
	__type(value, u64);
} wide SEC(".maps");

void SCX_OP(bad_running, struct task_struct *p)
{
	u64 key = p->pid;

	use(bpf_map_lookup_elem(&wide, &key)); /* violation */
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
