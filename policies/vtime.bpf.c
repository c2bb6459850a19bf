/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vtime: one queue for all CPUs, ordered by weighted virtual time.
 *
 * Each task's virtual time advances by the time it ran divided by its weight; the one furthest behind runs next. A
 * task that slept keeps at most one slice of credit, so that it comes soon after waking and cannot monopolise a CPU.
 * A waking task takes an idle CPU at once if there is one.
 *
 * Good for: fair shares by nice over the whole machine; short waits for tasks that sleep much.
 * Bad for: cache affinity, many CPUs (one queue, one lock); a wake-up never preempts.
 * Source: weighted fair queueing as scx_simple of the kernel's tools/sched_ext shows it; own code.
 */
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time a task runs before the next one has its turn") = 5000000;

/* Virtual time of the task that ran last: where new and long-asleep tasks join. */
static u64 vtime_now;

static __always_inline bool before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/*
 * Virtual time with what was used of the slice; 100 is the weight of nice 0. The slice of a task that came with the policy
 * was the kernel's, and longer.
 */
static __always_inline u64 vtime_of(struct task_struct *p)
{
	u64 used = p->scx.slice < slice_ns ? slice_ns - p->scx.slice : 0;

	return p->scx.dsq_vtime + used * 100 / p->scx.weight;
}

s32 SCX_OP(vtime_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

void SCX_OP(vtime_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime;
	s32 cpu;

	if (woken_by_gone_cpu(p, slice_ns, enq_flags))
		return;
	if (before(vtime, vtime_now - slice_ns))
		vtime = vtime_now - slice_ns;
	scx_bpf_dsq_insert_vtime(p, QUEUE, slice_ns, vtime, enq_flags);
	/* One that made way, or that was given no choice of CPUs, may run on an idle one. */
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

void SCX_OP(vtime_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *first;
	u64 vtime;

	if (!prev || !(prev->scx.flags & SCX_TASK_QUEUED)) {
		scx_bpf_dsq_move_to_local(QUEUE);
		return;
	}
	/* It goes on while it is the furthest behind. */
	first = scx_bpf_dsq_peek(QUEUE);
	vtime = vtime_of(prev);
	if (first && !before(vtime, first->scx.dsq_vtime) && scx_bpf_dsq_move_to_local(QUEUE))
		return;
	prev->scx.dsq_vtime = vtime;
	prev->scx.slice = slice_ns;
}

void SCX_OP(vtime_running, struct task_struct *p)
{
	if (before(vtime_now, p->scx.dsq_vtime))
		vtime_now = p->scx.dsq_vtime;
}

void SCX_OP(vtime_stopping, struct task_struct *p, bool runnable)
{
	p->scx.dsq_vtime = vtime_of(p);
}

void SCX_OP(vtime_enable, struct task_struct *p)
{
	p->scx.dsq_vtime = vtime_now;
}

s32 SCX_OP_SLEEPABLE(vtime_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(vtime_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)vtime_select_cpu,
	.enqueue = (void *)vtime_enqueue,
	.dispatch = (void *)vtime_dispatch,
	.running = (void *)vtime_running,
	.stopping = (void *)vtime_stopping,
	.enable = (void *)vtime_enable,
	.init = (void *)vtime_init,
	.name = "vtime");
