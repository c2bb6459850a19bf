/* SPDX-License-Identifier: GPL-2.0-only */
/* unseen: a policy with an error in a callback that runs only if a CPU goes offline. */
#include "../../../../policies/include/scx.h"

char _license[] SEC("license") = "GPL";

void SCX_OP(unseen_cpu_offline, s32 cpu)
{
	struct task_struct *first = bpf_task_from_pid(1);

	scx_bpf_kick_cpu(scx_bpf_task_cpu(first), 0); /* violation */
	bpf_task_release(first);
}

SCX_OPS(unseen_ops, .cpu_offline = (void *)unseen_cpu_offline, .name = "unseen");
