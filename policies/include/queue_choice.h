/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The search for the task to run in mqs and pmqs: first in the CPU's own queue, then in other
 * queues, if these publish a higher goodness.
 *
 * Goodness is the value by which tasks are chosen (goodness.h). A part of a task's goodness, the
 * affinity bonus, counts only on the CPU on which the task ran last. Each queue publishes the
 * highest goodness of its tasks for other CPUs, without this bonus (`na`). The policy defines the
 * pool of a CPU, which is the set of CPUs whose queues the CPU reads. The policy also defines when
 * a task is overdue, which means that the task has waited too long. Large functions are global,
 * because the verifier checks a global function only once, instead of at every call.
 */
#ifndef QUEUE_CHOICE_H
#define QUEUE_CHOICE_H

#include "cpu_queue.h"

/* Highest number of searches in one call of ops.dispatch(). */
#define MAX_TRIES 16
/* Highest number of other queues from which one search tries to take a task. */
#define MAX_REMOTE_TRIES 16
/* Goodness of an overdue task. The goodness of other tasks is always lower. */
#define GOODNESS_OVERDUE 900

/*
 * Counters, in this order: tasks taken from other queues, and those of them that were taken after
 * the CPU had skipped a better queue.
 */
u64 nr_remote, nr_next_best;
/*
 * Number of times that a queue was skipped because it no longer had a task of the published
 * goodness.
 */
u64 nr_changed;
/* Number of tasks that searches examined. */
u64 nr_examined;

/* Returns the first CPU of a CPU's pool. Defined by the policy. */
static s32 pool_begin(s32 cpu);
/* Returns the last CPU of a CPU's pool, plus 1. Defined by the policy. */
static s32 pool_end(s32 cpu);
/* Returns whether a task that began to wait at time `since` is overdue. Defined by the policy. */
static bool overdue(u64 since);

/* Result of a search. */
struct scan {
	/* Goodness of the best task, with its affinity bonus on the CPU that searches. */
	s32 best;
	/* pid of that task, or 0 if no task is better than the initial `best`. */
	s32 pid;
	/*
	 * Highest and second highest goodness without affinity bonus, and the pid of the task with
	 * the highest.
	 */
	s32 first, second, first_pid;
	/* Time at which the longest-waiting task began to wait. */
	u64 oldest_since;
	/* Time at which the best task began to wait, if that task is overdue, else ~0. */
	u64 overdue_since;
};
/* Initial value for a search for a task that is better than `goodness`. */
#define SCAN_FROM(goodness)                                                                        \
	{ .best = (goodness), .first = GOODNESS_IDLE, .second = GOODNESS_IDLE, .oldest_since = ~0ULL, .overdue_since = ~0ULL }

/*
 * Searches a queue for a task whose goodness on `cpu` exceeds s->best. The affinity bonus counts
 * only in the CPU's own queue. `mm` is the memory map that is loaded on the CPU.
 */
__noinline int scan(s32 queue, s32 cpu, u64 mm, struct scan *s)
{
	struct task_struct *p;

	if (!s)
		return 0;
	bpf_for_each_dsq(it, p, queue) {
		struct task_ctx *t = task_ctx(p);
		s32 na, weight;

		__sync_fetch_and_add(&nr_examined, 1);
		if (!t)
			continue;
		na = na_goodness(p, t);
		if (na > s->first) {
			s->second = s->first;
			s->first = na;
			s->first_pid = p->pid;
		} else if (na > s->second) {
			s->second = na;
		}
		weight = queue == cpu ? goodness(p, t, cpu, mm) : na;
		if (queue == cpu && t->waits_since < s->oldest_since)
			s->oldest_since = t->waits_since;
		/*
		 * The overdue task that has waited longest runs first. The order of the queue would
		 * be unfair: a task that wakes up enters at the front. If it wakes up often, it
		 * would always overtake the others.
		 */
		if (queue == cpu && overdue(t->waits_since)) {
			if (t->waits_since < s->overdue_since && may_run(p, cpu)) {
				s->overdue_since = t->waits_since;
				s->best = GOODNESS_OVERDUE;
				s->pid = p->pid;
			}
			continue;
		}
		if (weight > s->best && may_run(p, cpu)) {
			s->best = weight;
			s->pid = p->pid;
		}
	}
	return 0;
}

/*
 * Moves the task with a given pid, which a search found, from a queue to this CPU. Returns false if
 * another CPU has taken the task.
 */
__noinline bool take(s32 queue, s32 pid)
{
	struct task_struct *p;
	bool taken = false;

	bpf_for_each_dsq(it, p, queue) {
		if (p->pid == pid) {
			taken = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0);
			break;
		}
	}
	return taken;
}

/* Computes and publishes the highest goodness without affinity bonus of a queue. */
__noinline int refresh_max(s32 cpu)
{
	struct scan s = SCAN_FROM(GOODNESS_IDLE);
	struct mq *q = mq_of(cpu);

	scan(cpu, cpu, 0, &s);
	q->max_na_goodness = s.first;
	return 0;
}

/*
 * Recalculates the counters of all tasks (goodness.h), and with them the published goodness of all
 * queues.
 */
__noinline int recalculate(void)
{
	s32 cpu;

	__sync_fetch_and_add(&epoch, 1);
	bpf_for(cpu, 0, nr_cpus)
		refresh_max(cpu);
	__sync_fetch_and_add(&nr_recalculations, 1);
	return 0;
}

/* Results of take_remote(). */
enum { NOTHING_BETTER, TAKEN, LOCKED };

/*
 * Takes a task from another queue of the pool, if that queue publishes a goodness above `best`, the
 * goodness of the best task so far. Tries the queues in descending order of published goodness.
 * Returns TAKEN if it took a task. Otherwise returns LOCKED if it skipped a queue because of its
 * lock, else NOTHING_BETTER.
 */
__noinline s32 take_remote(s32 cpu, s32 best)
{
	s32 otherwise = NOTHING_BETTER;
	s32 limit = 0x7fffffff, limit_cpu = -1, begin = pool_begin(cpu), end = pool_end(cpu), i, other;

	bpf_for(i, 0, MAX_REMOTE_TRIES) {
		struct scan s = SCAN_FROM(best);
		s32 highest = best, from = -1;
		bool taken = false;
		struct mq *q;

		/*
		 * Finds the queue with the highest published goodness among the queues that have
		 * not been tried.
		 */
		bpf_for(other, begin, end) {
			q = mq_of(other);
			if (other == cpu)
				continue;
			s32 max = q->max_na_goodness;

			if (max > highest && (max < limit || (max == limit && other > limit_cpu))) {
				highest = max;
				from = other;
			}
		}
		if (from < 0)
			break;
		q = mq_of(from);
		limit = highest;
		limit_cpu = from;
		if (!try_lock(q)) {
			otherwise = LOCKED;
			continue;
		}
		scan(from, cpu, 0, &s);
		if (s.pid)
			taken = take(from, s.pid);
		if (taken)
			q->max_na_goodness = s.pid == s.first_pid ? s.second : s.first;
		else
			q->max_na_goodness = s.first;
		unlock(q);
		if (taken) {
			__sync_fetch_and_add(&nr_remote, 1);
			if (i)
				__sync_fetch_and_add(&nr_next_best, 1);
			return TAKEN;
		}
		__sync_fetch_and_add(&nr_changed, 1);
	}
	return otherwise;
}

#endif
