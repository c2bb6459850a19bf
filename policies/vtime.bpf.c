/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vtime: one queue for all CPUs, ordered by weighted virtual time.
 *
 * While a task runs, its virtual time advances by run time * 100 / weight. The weight follows from
 * the nice value and is 100 for nice 0. The task with the lowest virtual time runs next, so over
 * time every task gets CPU time in proportion to its weight. The virtual time of a sleeping task
 * stands still, so it becomes lower than that of other tasks. When the task wakes up, its virtual
 * time is raised until it is at most one slice below that of the running tasks. The task therefore
 * runs soon but cannot keep others off the CPU for long.
 *
 * Data structures: one dispatch queue (DSQ) that all CPUs share, in the order of virtual time.
 * Wake-up: the kernel's default search looks for an idle CPU. If the search finds one, the task is
 * inserted into the local DSQ of that CPU, and the CPU runs it at once.
 * Enqueue: every other task is inserted into the queue by its virtual time, and one idle CPU is
 * woken.
 * Dispatch: the first task of the queue runs, unless the running task has a lower virtual time.
 * Tick: there is no callback. The kernel ends the slice of a task after slice_ns.
 * Locks: the lock of the DSQ.
 *
 * Good for: fair shares by nice over the whole machine, and short waits for tasks that sleep much.
 * Bad for: many CPUs, tasks that depend on warm caches, and urgent wake-ups. All CPUs share one
 * queue and one lock, and a woken task never preempts another.
 * Source: weighted fair queueing, as in scx_simple of the kernel's tools/sched_ext. The code is our
 * own.
 */
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

/* ID of the shared DSQ. */
#define QUEUE 0

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time slice of a task") = 5000000;

/*
 * Global virtual time: the highest virtual time at which a task started to run. New tasks start
 * with this virtual time.
 */
static u64 vtime_now;

/* Returns whether virtual time `a` is before `b`. The subtraction handles overflow. */
static __always_inline bool before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/*
 * Returns a task's virtual time, including the used part of its current slice. A slice longer than
 * slice_ns counts as unused, because the kernel granted it before the policy was loaded.
 */
static __always_inline u64 vtime_of(struct task_struct *p)
{
	u64 used = p->scx.slice < slice_ns ? slice_ns - p->scx.slice : 0;

	return p->scx.dsq_vtime + used * 100 / p->scx.weight;
}

/* Looks for an idle CPU and, if there is one, lets the woken task run there at once. */
s32 SCX_OP(vtime_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

/* Inserts a task into the shared queue by its virtual time and wakes an idle CPU. */
void SCX_OP(vtime_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime;
	s32 cpu;

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (woken_by_gone_cpu(p, slice_ns, enq_flags))
		return;
	if (before(vtime, vtime_now - slice_ns))
		vtime = vtime_now - slice_ns;
	scx_bpf_dsq_insert_vtime(p, QUEUE, slice_ns, vtime, enq_flags);
	/* If the kernel did not call ops.select_cpu(), no idle CPU was woken for this task yet. */
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Runs the task with the lowest virtual time: the first task of the queue or the running task. */
void SCX_OP(vtime_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *first;
	u64 vtime;

	if (!prev || !(prev->scx.flags & SCX_TASK_QUEUED)) {
		scx_bpf_dsq_move_to_local(QUEUE);
		return;
	}
	/* The running task continues if no waiting task has a lower or equal virtual time. */
	first = scx_bpf_dsq_peek(QUEUE);
	vtime = vtime_of(prev);
	if (first && !before(vtime, first->scx.dsq_vtime) && scx_bpf_dsq_move_to_local(QUEUE))
		return;
	prev->scx.dsq_vtime = vtime;
	prev->scx.slice = slice_ns;
}

/* Raises the global virtual time to the virtual time of the task that starts to run. */
void SCX_OP(vtime_running, struct task_struct *p)
{
	if (before(vtime_now, p->scx.dsq_vtime))
		vtime_now = p->scx.dsq_vtime;
}

/* Adds the used part of the slice to the virtual time of a task that stops running. */
void SCX_OP(vtime_stopping, struct task_struct *p, bool runnable)
{
	p->scx.dsq_vtime = vtime_of(p);
}

/*
 * Called when the policy starts to schedule a task. Sets the task's virtual time to the global
 * virtual time.
 */
void SCX_OP(vtime_enable, struct task_struct *p)
{
	p->scx.dsq_vtime = vtime_now;
}

/* Creates the shared queue. */
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
