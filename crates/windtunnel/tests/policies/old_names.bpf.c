/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * old_names: a policy for Linux 6.12 to 6.16. With the macro FLAGS, it also sets a flag of Linux 6.14.
 */
#include "../../../../policies/include/scx.h"

char _license[] SEC("license") = "GPL";

const volatile u64 slice_ns PARAM("ns: time slice") = 5000000;

void scx_bpf_dispatch(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym;

void SCX_OP(old_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dispatch(p, SCX_DSQ_GLOBAL, slice_ns, enq_flags);
}

SCX_OPS(old_ops, .enqueue = (void *)old_enqueue,
#ifdef FLAGS
	.flags = SCX_OPS_ENQ_MIGRATION_DISABLED,
#endif
	.name = "old_names");
