/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The choice of a task in mqs and pmqs: a search of the CPU's own queue, then a comparison with the
 * published goodness of the other queues.
 *
 * The policy defines which other queues a CPU reads (its pool), and which tasks have waited too
 * long (are overdue). Large functions are global, because the verifier checks a global function
 * once, instead of for every state in which it is called.
 */
#ifndef QUEUE_CHOICE_H
#define QUEUE_CHOICE_H

#include "cpu_queue.h"

/* Highest number of choices in one ops.dispatch(). */
#define MAX_TRIES 16
/* Highest number of other queues that one choice tries to take a task from. */
#define MAX_REMOTE_TRIES 16
/* Goodness of an overdue task: higher than counter and nice value can make it. */
#define GOODNESS_OVERDUE 900

/*
 * Counters, in this order: tasks taken from other queues, and how many of them were taken after a
 * better queue had been skipped.
 */
u64 nr_remote, nr_next_best;
/*
 * Number of queues that were skipped because they no longer had a task of the published goodness.
 */
u64 nr_changed;
/* Number of tasks that choices examined. */
u64 nr_examined;

/* Returns the first CPU of a CPU's pool. Defined by the policy. */
static s32 pool_begin(s32 cpu);
/* Returns the CPU after the last one of a CPU's pool. Defined by the policy. */
static s32 pool_end(s32 cpu);
/* Returns whether a task that waits since a given time is overdue. Defined by the policy. */
static bool overdue(u64 since);

/* Result of a search. */
struct scan {
	/* Goodness of the best task on the searching CPU. */
	s32 best;
	/* pid of that task, or 0 if none is better than the initial `best`. */
	s32 pid;
	/* Highest and second highest goodness without affinity, and the pid of the first. */
	s32 first, second, first_pid;
	/* Time since which the longest waiting task waits. */
	u64 oldest_since;
	/* Time since which the best task waits if it is overdue, else ~0. */
	u64 overdue_since;
};
/* Initial value for a search for a task that is better than `goodness`. */
#define SCAN_FROM(goodness)                                                                        \
	{ .best = (goodness), .first = GOODNESS_IDLE, .second = GOODNESS_IDLE, .oldest_since = ~0ULL, .overdue_since = ~0ULL }

/*
 * Searches a queue for a task that `cpu` prefers to s->best. The affinity bonus counts in the CPU's
 * own queue only.
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
		 * Among overdue tasks, the one that waits longest comes first. In the order of the
		 * queue, tasks that wake up often would overtake the others again and again,
		 * because they enter at the front.
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

/* Moves the task that a search has found to this CPU. Returns false if the task has gone. */
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

/* Publishes the highest goodness without affinity of a queue. */
__noinline int refresh_max(s32 cpu)
{
	struct scan s = SCAN_FROM(GOODNESS_IDLE);
	struct mq *q = mq_of(cpu);

	scan(cpu, cpu, 0, &s);
	q->max_na_goodness = s.first;
	return 0;
}

/* Recalculates the counters of all tasks and the published goodness of all queues. */
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
 * Takes a task from another queue of the pool, if its published goodness exceeds `best`, the
 * goodness of the best task so far. Queues are tried from the highest published goodness down.
 * Returns TAKEN, or LOCKED if it took none and one of the queues was locked, or NOTHING_BETTER.
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
		 * Finds the queue with the highest published goodness among those that were not
		 * tried yet.
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
