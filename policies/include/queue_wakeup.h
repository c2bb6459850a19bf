/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Choice of a CPU for a woken task in mqs and pmqs: an idle CPU, or the CPU where it preempts the
 * running task.
 *
 * Goodness is the value by which the policies compare tasks (goodness.h). A part of a task's
 * goodness, the affinity bonus PROC_CHANGE_PENALTY, counts only on the CPU on which the task ran
 * last. Every CPU publishes the goodness of its running task without this bonus (cpu_queue.h). The
 * pool of a CPU is the set of CPUs that a search considers (queue_choice.h).
 */
#ifndef QUEUE_WAKEUP_H
#define QUEUE_WAKEUP_H

#include "online.h"
#include "queue_choice.h"

/* Which idle CPU find_idle() returns: the first one, or the one that has been idle longest. */
enum idle_choice { FIRST_IDLE, LONGEST_IDLE };

/* Returns whether a CPU is idle. */
static __always_inline bool is_idle(s32 cpu)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool found = bpf_cpumask_test_cpu(cpu, idle);

	scx_bpf_put_idle_cpumask(idle);
	return found;
}

/* Returns an idle CPU in the range from `begin` to `end` - 1 on which the task may run, or -1. */
static __always_inline s32 find_idle(struct task_struct *p, s32 begin, s32 end, enum idle_choice choice)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	s32 found = -1, cpu;
	u64 since = 0;

	if (!bpf_cpumask_empty(idle)) {
		bpf_for(cpu, begin, end) {
			struct cpu_ctx *c = cpu_ctx(cpu);

			if (!bpf_cpumask_test_cpu(cpu, idle) || !is_online(cpu) || !may_run(p, cpu))
				continue;
			if (choice == FIRST_IDLE) {
				found = cpu;
				break;
			}
			if (found >= 0 && c->idle_since >= since)
				continue;
			since = c->idle_since;
			found = cpu;
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	return found;
}

/*
 * Finds a CPU whose running task the woken task should preempt, because the woken task's goodness
 * is higher by more than 1. Returns -1 if there is no such CPU.
 *
 * Tries the CPUs in the pool of `home`, the CPU in whose queue the task would wait. The CPUs are
 * tried in ascending order of the goodness that they publish for their running tasks. For CPUs
 * other than `home`, PROC_CHANGE_PENALTY is added to this goodness, because the running task has
 * the affinity bonus there and the woken task does not. Skips a CPU whose queue is locked, or where
 * the exact comparison shows that the woken task does not preempt.
 */
static __always_inline s32 lowest_beaten(struct task_struct *p, struct task_ctx *t, s32 home)
{
	s32 limit = -0x7fffffff, limit_cpu = -1, own = na_goodness(p, t), begin = pool_begin(home), end = pool_end(home), i;

	bpf_for(i, 0, MAX_REMOTE_TRIES) {
		s32 lowest = own, target = -1, cpu;
		bool beaten;
		struct mq *q;

		bpf_for(cpu, begin, end) {
			s32 na = mq_of(cpu)->curr_na_goodness + (cpu == home ? 0 : PROC_CHANGE_PENALTY);

			if (na >= lowest || na < limit || (na == limit && cpu <= limit_cpu) || !may_run(p, cpu))
				continue;
			lowest = na;
			target = cpu;
		}
		if (target < 0)
			break;
		limit = lowest;
		limit_cpu = target;
		q = mq_of(target);
		if (!try_lock(q))
			continue;
		beaten = q->running && preemption_goodness(p, t, target) > 1;
		unlock(q);
		if (beaten)
			return target;
		__sync_fetch_and_add(&nr_changed, 1);
	}
	return -1;
}

/*
 * Returns the CPU in whose queue a task should wait: its last CPU or, if that is offline or not
 * allowed, another CPU.
 */
static __always_inline s32 home_of(struct task_struct *p, struct task_ctx *t)
{
	s32 home = t->last_cpu;

	if (!may_run(p, home))
		home = bpf_cpumask_any_distribute(p->cpus_ptr);
	if (!is_online(home))
		home = scx_bpf_task_cpu(p);
	return home;
}

/*
 * Puts a woken task into the queue of a CPU where it preempts the running task. If it preempts no
 * task, it waits in the queue of CPU `home`.
 */
static __always_inline void preempt_or_wait(struct task_struct *p, struct task_ctx *t, s32 home, u64 enq_flags)
{
	s32 cpu = lowest_beaten(p, t, home);

	put_on(p, t, cpu >= 0 ? cpu : home, enq_flags);
	if (cpu >= 0) {
		__sync_fetch_and_add(&nr_preempted, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/* Returns the previous CPU, because ops.enqueue() chooses the CPU. */
s32 SCX_OP(mq_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

#endif
