/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Callbacks of a policy that chooses tasks by goodness (goodness.h) from one queue for all CPUs. A
 * CPU runs the task with the highest goodness.
 *
 * The policy defines insert_waiting(), which inserts a task into the queue, and choose(), which
 * searches the queue.
 */
#ifndef ONE_QUEUE_H
#define ONE_QUEUE_H

#include "goodness.h"
#include "hotplug.h"

/*
 * Highest number of calls of choose() in one call of ops.dispatch(). A search is repeated if
 * another CPU takes the task that was found, and after a recalculation.
 */
#define MAX_TRIES 8

/* Number of tasks examined by calls of choose(). */
u64 nr_examined;

/* Gives new ticks to all tasks. Each task applies the recalculation when it is next examined. */
static __always_inline void recalculate(void)
{
	__sync_fetch_and_add(&epoch, 1);
	__sync_fetch_and_add(&nr_recalculations, 1);
}

/* Inserts a task into the queue. Defined by the policy. */
static void insert_waiting(struct task_struct *p, struct task_ctx *t, u64 enq_flags);

/*
 * Runs the best task: a waiting one, or the running task `prev`. Returns false if the search must
 * be repeated. `prev_ctx` is the state of `prev`, or NULL if `prev` cannot continue. `best` is the
 * goodness of `prev`, or GOODNESS_IDLE if `prev` cannot continue. `mm` is the memory map that is
 * loaded on the CPU. Defined by the policy.
 */
static bool choose(s32 cpu, struct task_struct *prev, struct task_ctx *prev_ctx, s32 best, u64 mm);

/* Number of wake-ups that preempted a task. */
u64 nr_preempted;

/*
 * Wakes or preempts a CPU for a woken task, as in reschedule_idle() of Linux 2.4. Chooses the
 * task's last CPU if this CPU is idle, else the CPU that has been idle longest. If no CPU is idle,
 * chooses the CPU where goodness(woken task) - goodness(running task) is largest, but only if this
 * difference exceeds 1.
 */
static __always_inline void reschedule_idle(struct task_struct *p, struct task_ctx *t)
{
	s32 cpu = t->last_cpu, oldest = -1, target = -1, most = 1;
	const struct cpumask *idle;
	u64 since = 0;

	idle = scx_bpf_get_idle_cpumask();
	if (may_run(p, cpu) && bpf_cpumask_test_cpu(cpu, idle) && is_online(cpu)) {
		scx_bpf_put_idle_cpumask(idle);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	bpf_for(cpu, 0, nr_cpus) {
		struct cpu_ctx *c = cpu_ctx(cpu);

		if (!may_run(p, cpu))
			continue;
		if (bpf_cpumask_test_cpu(cpu, idle)) {
			if (!is_online(cpu))
				continue;
			if (oldest < 0 || c->idle_since < since) {
				oldest = cpu;
				since = c->idle_since;
			}
		} else if (oldest < 0) {
			s32 better = preemption_goodness(p, t, cpu);

			if (better > most) {
				most = better;
				target = cpu;
			}
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	if (oldest >= 0) {
		scx_bpf_kick_cpu(oldest, SCX_KICK_IDLE);
	} else if (target >= 0) {
		__sync_fetch_and_add(&nr_preempted, 1);
		scx_bpf_kick_cpu(target, SCX_KICK_PREEMPT);
	}
}

/* Returns the previous CPU, because ops.enqueue() chooses the CPU. */
s32 SCX_OP(queue_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

/*
 * Inserts a task into the queue. Then wakes or preempts a CPU for the task, unless the task
 * yielded.
 */
void SCX_OP(queue_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx(p);
	bool yielded;

	if (!t) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, NO_SLICE_END, enq_flags);
		return;
	}
	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (woken_by_gone_cpu(p, NO_SLICE_END, enq_flags))
		return;
	yielded = t->yielded;
	t->yielded = false;
	insert_waiting(p, t, enq_flags);
	if (!yielded)
		reschedule_idle(p, t);
}

/* Chooses a task for the CPU. */
void SCX_OP(queue_dispatch, s32 cpu, struct task_struct *prev)
{
	s32 i;

	bpf_for(i, 0, MAX_TRIES) {
		struct task_ctx *prev_ctx = NULL;

		if (prev && prev->scx.flags & SCX_TASK_QUEUED)
			prev_ctx = task_ctx(prev);
		if (choose(cpu, prev, prev_ctx, prev_ctx ? prev_goodness(prev, prev_ctx, cpu) : GOODNESS_IDLE,
			   cpu_ctx(cpu)->mm))
			return;
	}
}

/* Charges a tick to the running task. */
void SCX_OP(queue_tick, struct task_struct *p)
{
	goodness_tick(p);
}

/* Records that a task starts to run. */
void SCX_OP(queue_running, struct task_struct *p)
{
	goodness_running(p);
}

/* Entries for the callback table of the policy. */
#define ONE_QUEUE_CALLBACKS                                                                        \
	GOODNESS_CALLBACKS,                                                                        \
	.select_cpu = (void *)queue_select_cpu,                                                    \
	.enqueue = (void *)queue_enqueue,                                                          \
	.dispatch = (void *)queue_dispatch,                                                        \
	.tick = (void *)queue_tick,                                                                \
	.running = (void *)queue_running

#endif
