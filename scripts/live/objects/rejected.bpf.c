/* SPDX-License-Identifier: GPL-2.0-only */
/* A policy that the verifier must reject: it reads through a pointer that may be NULL. */
#include "scx.h"

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

void SCX_OP(rejected_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 key = 0;
	u64 *count = bpf_map_lookup_elem(&counts, &key);

	*count += 1;
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS(rejected_ops,
	.enqueue = (void *)rejected_enqueue,
	.name = "rejected");
