/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The multi-queue scheduler (MQS, PMQS): goodness on runqueues of the CPUs, in pools of `poolsize` neighbours.
 *
 * The includer defines `poolsize`, `max_wait_ms` (0: none), and LONGEST_IDLE if wake-ups are to look for the CPU idle longest.
 * A queue's lock is a word that others only ever try to take. Nobody waits for it, its own CPU least of all: what must be
 * consistent is under the DSQ's lock, and a task that another CPU has taken is a move that fails.
 */
#ifndef MULTI_QUEUE_H
#define MULTI_QUEUE_H

#include "goodness.h"
#define CPU_QUEUES
#include "hotplug.h"

#define MAX_TRIES 16
#define MAX_REMOTE_TRIES 16
/* Goodness of a task that has waited too long: higher than any counter and nice value give. */
#define GOODNESS_OVERDUE 900
#define NOBODY 0x7fff

/* Tasks taken from other queues, and those of them for which better queues had been skipped. */
u64 nr_remote, nr_next_best;
/* Queues skipped because they were locked, or because they did not hold what they promised. */
u64 nr_busy, nr_changed;
/* Tasks looked at by choices; wake-ups on idle CPUs outside of the pool, and wake-ups that preempted. */
u64 nr_examined, nr_idle_outside, nr_preempted;
/* Tasks that had waited too long when they were taken. */
u64 nr_overdue;

/* The runqueue of a CPU: its DSQ has the CPU's number. On cache lines of its own. */
struct mq {
	u32 holders;
	/* Highest goodness without affinity of the tasks that wait, for others to read without the lock. */
	s32 max_na_goodness;
	/* When it was last released: it is busy to who comes from before that. */
	u64 free_at;
	/* Of what runs here: 0 or 1, and its goodness without affinity (NOBODY if nothing does). */
	s32 running;
	s32 curr_na_goodness;
	/* When the turn of what runs here began, and since when the task that had waited longest at the last choice waits. */
	u64 turn_since;
	u64 oldest_since;
	/* The balancer's; the deviation is from the mean, in thousandths, before it moved anything. */
	s64 load;
	s64 deviation_milli;
	s32 kind;
} __attribute__((aligned(128)));
struct mq mqs[MAX_CPUS];

static __always_inline struct mq *mq_of(s32 cpu)
{
	return &mqs[cpu & (MAX_CPUS - 1)];
}

static __always_inline bool overdue(u64 since)
{
	return max_wait_ms && scx_bpf_now() > since + (u64)max_wait_ms * 1000000;
}

static __always_inline u32 pool_of(s32 cpu)
{
	u32 size = poolsize;

	return (u32)cpu / (size ? size : 1);
}

static __always_inline s32 pool_begin(s32 cpu)
{
	return pool_of(cpu) * (poolsize ? poolsize : 1);
}

static __always_inline s32 pool_end(s32 cpu)
{
	u32 end = pool_begin(cpu) + (poolsize ? poolsize : 1);

	return end < (u32)nr_cpus ? end : nr_cpus;
}

static __always_inline bool try_lock(struct mq *q)
{
	if (bpf_ktime_get_ns() >= q->free_at && __sync_bool_compare_and_swap(&q->holders, 0, 1))
		return true;
	__sync_fetch_and_add(&nr_busy, 1);
	return false;
}

static __always_inline void unlock(struct mq *q)
{
	q->free_at = bpf_ktime_get_ns();
	__sync_fetch_and_add(&q->holders, -1);
}

static __always_inline void raise_max(struct mq *q, s32 na)
{
	if (q->max_na_goodness < na)
		q->max_na_goodness = na;
}

/* What a look through a queue finds. */
struct scan {
	/* The best task for the CPU: its goodness there, its pid. */
	s32 best;
	s32 pid;
	/* Highest two of goodness without affinity, and whose the first is. */
	s32 first, second, first_pid;
	/* When the task that has waited longest began to wait. */
	u64 oldest_since;
	/* The same for the best task if it is overdue, else ~0. */
	u64 overdue_since;
};
#define SCAN_FROM(goodness)                                                                        \
	{ .best = (goodness), .first = GOODNESS_IDLE, .second = GOODNESS_IDLE, .oldest_since = ~0ULL, .overdue_since = ~0ULL }

/*
 * Looks through `queue` for `cpu`, with affinity if it is its own. A global function, as those below: the verifier looks at it once,
 * not at every state in which it may be called.
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
		 * The longest wait comes first among overdue tasks. In the queue's order, tasks that wake up often would pass the
		 * others for ever, since they come in at the front.
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

/* Takes the task that a look through `queue` has found; false if it is gone. */
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

/* Sets max_na_goodness from what waits. */
__noinline int refresh_max(s32 cpu)
{
	struct scan s = SCAN_FROM(GOODNESS_IDLE);
	struct mq *q = mq_of(cpu);

	scan(cpu, cpu, 0, &s);
	q->max_na_goodness = s.first;
	return 0;
}

/* The counters of all tasks, wherever they are. */
__noinline int recalculate(void)
{
	s32 cpu;

	__sync_fetch_and_add(&epoch, 1);
	bpf_for(cpu, 0, nr_cpus)
		refresh_max(cpu);
	__sync_fetch_and_add(&nr_recalculations, 1);
	return 0;
}

enum { NOTHING_BETTER, TAKEN, LOCKED };

/*
 * Phase 2: a task of another queue of the pool that beats `best`, the best of the own one. TAKEN, or LOCKED if a queue that
 * promised one was locked.
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

		/* The next best after those tried. */
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

/* Lets the best task run: true when that is settled. */
static __always_inline bool choose(s32 cpu, struct task_struct *prev, struct mq *q, u64 mm)
{
	struct scan s = SCAN_FROM(GOODNESS_IDLE);
	struct task_ctx *of_prev = NULL;
	bool done = true;
	s32 remote;

	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
		of_prev = task_ctx(prev);
		/* A task about to move is none of this queue's. */
		if (of_prev && of_prev->move_to)
			of_prev = NULL;
		if (of_prev)
			s.best = prev_goodness(prev, of_prev, cpu);
	}
	__sync_fetch_and_add(&q->holders, 1);
	scan(cpu, cpu, mm, &s);
	q->oldest_since = s.oldest_since;
	q->max_na_goodness = s.pid && s.pid == s.first_pid ? s.second : s.first;
	unlock(q);
	remote = take_remote(cpu, s.best);
	if (remote == TAKEN) {
		q->max_na_goodness = s.first;
		return true;
	}
	/* Before it goes idle it looks again at queues that were locked. */
	if (s.best == GOODNESS_IDLE)
		return remote != LOCKED;
	if (!s.best) {
		recalculate();
		done = false;
	} else if (s.pid) {
		done = take(cpu, s.pid);
		if (done && s.best == GOODNESS_OVERDUE)
			__sync_fetch_and_add(&nr_overdue, 1);
	} else if (of_prev) {
		q->turn_since = scx_bpf_now();
		keep_running(prev, of_prev);
	}
	return done;
}

static __always_inline bool is_idle(s32 cpu)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool found = bpf_cpumask_test_cpu(cpu, idle);

	scx_bpf_put_idle_cpumask(idle);
	return found;
}

/* An idle CPU of `begin`..`end` for the task; or -1. */
static __always_inline s32 find_idle(struct task_struct *p, s32 begin, s32 end)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	s32 found = -1, cpu;
#ifdef LONGEST_IDLE
	u64 since = 0;
#endif

	if (!bpf_cpumask_empty(idle)) {
		bpf_for(cpu, begin, end) {
			if (!bpf_cpumask_test_cpu(cpu, idle) || !is_online(cpu) || !may_run(p, cpu))
				continue;
#ifdef LONGEST_IDLE
			struct cpu_ctx *c = cpu_ctx(cpu);

			if (found >= 0 && c->idle_since >= since)
				continue;
			since = c->idle_since;
			found = cpu;
#else
			found = cpu;
			break;
#endif
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	return found;
}

/*
 * The CPU of the pool whose task the new one beats and has the lowest goodness without affinity, or the next lowest if that
 * one's queue is locked or has changed; or -1.
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

/* Its affinity is to the CPU in whose queue it is. */
static __always_inline void put_on(struct task_struct *p, struct task_ctx *t, s32 cpu, u64 enq_flags)
{
	struct mq *q = mq_of(cpu);

	t->last_cpu = cpu;
	t->waits_since = scx_bpf_now();
	scx_bpf_dsq_insert_vtime(p, cpu, NO_SLICE_END, place_in_queue(t), enq_flags);
	raise_max(q, na_goodness(p, t));
}

/* The queue for a task, and who has to look at it (reschedule_idle). */
void SCX_OP(mq_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx(p);
	s32 home, cpu, move_to;
	bool yielded;

	if (!t) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, NO_SLICE_END, enq_flags);
		return;
	}
	if (woken_by_gone_cpu(p, NO_SLICE_END, enq_flags))
		return;
	yielded = t->yielded;
	move_to = t->move_to - 1;
	t->yielded = false;
	t->move_to = 0;
	if (move_to >= 0 && is_online(move_to) && may_run(p, move_to)) {
		put_on(p, t, move_to, enq_flags & ~SCX_ENQ_LAST);
		scx_bpf_kick_cpu(move_to, SCX_KICK_IDLE);
		return;
	}
	home = t->last_cpu;
	if (!may_run(p, home))
		home = bpf_cpumask_any_distribute(p->cpus_ptr);
	if (!is_online(home))
		home = scx_bpf_task_cpu(p);
	if (yielded) {
		put_on(p, t, home, enq_flags);
		return;
	}
	cpu = is_idle(home) ? home : -1;
	if (cpu < 0)
		cpu = find_idle(p, pool_begin(home), pool_end(home));
	if (cpu < 0) {
		cpu = find_idle(p, 0, nr_cpus);
		if (cpu >= 0)
			__sync_fetch_and_add(&nr_idle_outside, 1);
	}
	if (cpu >= 0) {
		put_on(p, t, cpu, enq_flags);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	cpu = lowest_beaten(p, t, home);
	put_on(p, t, cpu >= 0 ? cpu : home, enq_flags);
	if (cpu >= 0) {
		__sync_fetch_and_add(&nr_preempted, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/* The task waits where it ran; enqueue() finds it a CPU. */
s32 SCX_OP(mq_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void SCX_OP(mq_dispatch, s32 cpu, struct task_struct *prev)
{
	s32 i;

	bpf_for(i, 0, MAX_TRIES) {
		if (choose(cpu, prev, mq_of(cpu), cpu_ctx(cpu)->mm))
			return;
	}
}

/* What others see of the task that runs. */
static __always_inline void show_running(struct task_struct *p, s32 running)
{
	struct task_ctx *t = task_ctx(p);
	struct mq *q = mq_of(scx_bpf_task_cpu(p));

	if (!t)
		return;
	q->running = running;
	q->curr_na_goodness = running ? na_goodness(p, t) : NOBODY;
}

/* Who has had its nice value's turn makes way for a task that has waited too long. */
static __always_inline void end_long_turn(struct task_struct *p)
{
	struct mq *q = mq_of(scx_bpf_task_cpu(p));

	if (overdue(q->oldest_since) && scx_bpf_now() - q->turn_since >= nice_to_ticks(nice_of(p)) * tick_ns)
		scx_bpf_task_set_slice(p, 0);
}

void SCX_OP(mq_tick, struct task_struct *p)
{
	goodness_tick(p);
	show_running(p, 1);
	end_long_turn(p);
}

void SCX_OP(mq_running, struct task_struct *p)
{
	struct mq *q = mq_of(scx_bpf_task_cpu(p));

	goodness_running(p);
	show_running(p, 1);
	q->turn_since = scx_bpf_now();
}

void SCX_OP(mq_stopping, struct task_struct *p, bool runnable)
{
	show_running(p, 0);
}

/* Its queue holds tasks that ran elsewhere, too: they were to begin here. */
static __always_inline void pass_on_all(s32 cpu)
{
	pass_on(cpu);
}

static __always_inline s32 mq_init_queues(void)
{
	s32 cpu, ret;

	nr_cpus = scx_bpf_nr_cpu_ids();
	if (nr_cpus > MAX_CPUS)
		return -E2BIG;
	online_init();
	bpf_for(cpu, 0, nr_cpus) {
		struct mq *q = mq_of(cpu);

		q->max_na_goodness = GOODNESS_IDLE;
		q->curr_na_goodness = NOBODY;
		ret = scx_bpf_create_dsq(cpu, -1);
		if (ret)
			return ret;
	}
	return 0;
}

#define MQ_CALLBACKS                                                                               \
	GOODNESS_CALLBACKS,                                                                        \
	HOTPLUG_CALLBACKS,                                                                         \
	.select_cpu = (void *)mq_select_cpu,                                                       \
	.enqueue = (void *)mq_enqueue,                                                             \
	.dispatch = (void *)mq_dispatch,                                                           \
	.tick = (void *)mq_tick,                                                                   \
	.running = (void *)mq_running,                                                             \
	.stopping = (void *)mq_stopping

#endif
