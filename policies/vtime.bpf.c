/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vtime: one queue for all CPUs, ordered by weighted virtual time.
 *
 * The virtual time of a task advances by the time it ran, divided by its weight. The task that is furthest
 * behind runs next. A task that slept keeps at most one slice of credit: it runs soon after it wakes up, and
 * cannot keep others off the CPU for longer. A woken task takes an idle CPU at once if there is one.
 *
 * Good for: fair shares by nice over the whole machine; short waits for tasks that sleep much.
 * Bad for: caches; many CPUs, since there is one queue and one lock; a wake-up never preempts.
 * Source: weighted fair queueing, as in scx_simple of the kernel's tools/sched_ext; own code.
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
 * Returns a task's virtual time, with the part of the slice that it has used. The weight of nice 0 is 100. A
 * task that runs when the policy is loaded still has a slice of the kernel, which is longer.
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
	/* ops.select_cpu() is not called for all tasks that come here: another CPU may be idle. */
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
	/* The running task goes on while no other is further behind. */
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
