/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * queued: a policy that counts for woken tasks how often ops.enqueue() runs on the task's CPU, and
 * how often on another CPU. ops.select_cpu() returns an idle CPU if there is one. These macros
 * change the policy:
 *
 * ALLOW   sets SCX_OPS_ALLOW_QUEUED_WAKEUP
 * ONLINE  has callbacks for CPU hotplug
 * DIRECT  ops.select_cpu() inserts the task into the local DSQ of the idle CPU
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 3
#define SCX_OPS_ALLOW_QUEUED_WAKEUP (1ULL << 5)

u64 nr_on_task_cpu, nr_elsewhere, nr_selected, nr_waking, nr_direct;

s32 SCX_OP(queued_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

#ifdef DIRECT
	if (is_idle) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, 5000000, 0);
		nr_direct++;
	}
#endif
	return cpu;
}

void SCX_OP(queued_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (enq_flags & SCX_ENQ_WAKEUP) {
		if (scx_bpf_task_cpu(p) == (s32)bpf_get_smp_processor_id())
			nr_on_task_cpu++;
		else
			nr_elsewhere++;
		if (enq_flags & SCX_ENQ_CPU_SELECTED)
			nr_selected++;
	}
	scx_bpf_dsq_insert(p, QUEUE, 5000000, enq_flags);
}

void SCX_OP(queued_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(queued_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

#ifdef ONLINE
void SCX_OP(queued_cpu_online, s32 cpu)
{
}

void SCX_OP(queued_cpu_offline, s32 cpu)
{
}
#endif

SCX_OPS(queued_ops,
	.select_cpu = (void *)queued_select_cpu,
	.enqueue = (void *)queued_enqueue,
	.dispatch = (void *)queued_dispatch,
	.init = (void *)queued_init,
#ifdef ONLINE
	.cpu_online = (void *)queued_cpu_online,
	.cpu_offline = (void *)queued_cpu_offline,
#endif
#ifdef ALLOW
	.flags = SCX_OPS_ALLOW_QUEUED_WAKEUP,
#endif
	.name = "queued");
