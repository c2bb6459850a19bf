/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Credit for sleep, as in Linux 2.6.22.
 *
 * A task earns credit while it sleeps and spends it while it runs. A task with full credit, which
 * is one second, gains five priority levels, and a task without credit loses five. The more credit
 * a task has, the more slowly it spends the credit. A task that repeatedly sleeps for at least an
 * eighth of its run time keeps its credit. A task that sleeps less loses all of its credit over
 * time. The wait for the CPU after a wake-up counts as sleep, too. If an interrupt woke the task,
 * the whole wait counts. If another task woke the task, 30 % of the wait counts. After a sleep in
 * which the task waited for a disk, the wait for the CPU does not count.
 */
#ifndef SLEEP_AVG_H
#define SLEEP_AVG_H

#include "scx.h"

#ifndef MS
#define MS 1000000ULL
#endif
/*
 * Largest bonus, in levels. The level of a task improves by bonus - MAX_BONUS / 2, a number from -5
 * to 5.
 */
#define MAX_BONUS 10
/* Linux scheduling policy whose tasks get no credit. */
#define SCHED_BATCH 3
/* State of a task in an uninterruptible sleep, which counts as waiting for a disk. */
#define TASK_UNINTERRUPTIBLE 2
/* Percentage of the wait for the CPU that is credited as sleep if another task woke the task. */
#define ON_RUNQUEUE_WEIGHT 30
/*
 * Interactive tasks of one level run in turns, which are shorter than their timeslices.
 * MIN_TIMESLICE is the shortest turn on a machine with one CPU, in ns. With n CPUs, turns are n
 * times as long (granularity()).
 */
#define MIN_TIMESLICE (5 * MS)

const volatile u64 max_sleep_ns PARAM("ns, 1000000..100000000000: full credit") = 1000 * MS;
const volatile u64 initial_sleep_ns PARAM("ns, 0..100000000000: credit that a task without a parent inherits, as if from a shell") = 1000 * MS;
const volatile u32 child_pct PARAM("percent, 0..100: share of its parent's bonus that a child starts with") = 95;
const volatile s32 interactive_delta PARAM("levels, -10..10: levels that a task of nice 0 must gain to count as interactive") = 2;

/* Credit of one task. Times are in ns. */
struct sleep_avg {
	/* Sleep that is credited and not spent yet. */
	u64 credit;
	/* Time up to which the run time of the running task has been charged to its credit. */
	u64 run_at;
	/* Time at which the task fell asleep, or 0 if it does not sleep. */
	u64 slept_at;
	/* Time at which the task was woken, or 0 after it has run. */
	u64 woken_at;
	/* Percentage of the task's wait for the CPU after the wake-up that is credited. */
	u32 wait_pct;
	/* Whether the current or last sleep of the task is a disk wait. */
	bool disk;
};

/* Returns the bonus: 0 without credit, up to 10 with full credit. */
static __always_inline u32 bonus_of(struct sleep_avg *s)
{
	u64 bonus = s->credit * MAX_BONUS / max_sleep_ns;

	return bonus > MAX_BONUS ? MAX_BONUS : bonus;
}

/* Returns the level of a task, 0 to 39, which follows from its nice value and credit. */
static __always_inline u32 level_of(struct task_struct *p, struct sleep_avg *s)
{
	s32 level = p->static_prio - 100 - ((s32)bonus_of(s) - MAX_BONUS / 2);

	return level < 0 ? 0 : level > 39 ? 39 : level;
}

/*
 * Returns the number of levels that a task must gain by its credit to count as interactive. The
 * number grows with the nice value. With the default interactive_delta, it is -3 for nice -20: a
 * task that loses three levels still counts as interactive. For nice 19 it is 6. No task can gain
 * more than 5, so no task of nice 19 is interactive.
 */
static __always_inline s32 interactive_gain(struct task_struct *p)
{
	return (s32)((u32)(p->static_prio - 100) / 4) - MAX_BONUS / 2 + interactive_delta;
}

/* Returns whether a task of a given level counts as interactive. */
static __always_inline bool is_interactive(struct task_struct *p, u32 level)
{
	return (s32)level <= p->static_prio - 100 - interactive_gain(p);
}

/*
 * Returns for how long an interactive task runs at a time while other tasks of its level wait. The
 * more credit the task has, the shorter this time is.
 */
static __always_inline u64 granularity(struct sleep_avg *s)
{
	u32 lost = MAX_BONUS - bonus_of(s);

	return (MIN_TIMESLICE << (lost ? lost - 1 : 0)) * scx_bpf_nr_cpu_ids();
}

/*
 * Charges the run time of the running task to its credit. Returns for how long the task ran since
 * the last call, in ns.
 */
static __always_inline u64 spend(struct sleep_avg *s, u64 now)
{
	u64 ran = now - s->run_at, cost;
	u32 bonus = bonus_of(s);

	if ((s64)ran < 0)
		return 0;
	s->run_at = now;
	cost = ran / (bonus ? bonus : 1);
	s->credit = s->credit > cost ? s->credit - cost : 0;
	return ran;
}

/*
 * Adds sleep to the credit. A single long sleep raises the credit only to the amount at which the
 * task just counts as interactive. Disk waits never raise the credit above that amount.
 */
static __always_inline void credit(struct task_struct *p, struct sleep_avg *s, u64 slept)
{
	s32 levels = MAX_BONUS / 2 + interactive_gain(p) + 1;
	u64 ceiling = levels > 0 ? (u64)levels * max_sleep_ns / MAX_BONUS - 1 : 0;

	if (p->policy == SCHED_BATCH)
		return;
	if (slept > ceiling && s->credit < ceiling) {
		s->credit = ceiling;
		s->wait_pct = 0;
	} else if (s->disk && s->credit + slept > ceiling) {
		s->credit = s->credit > ceiling ? s->credit : ceiling;
	} else {
		s->credit += slept;
	}
	if (s->credit > max_sleep_ns)
		s->credit = max_sleep_ns;
}

/* Adds the sleep of a woken task to its credit. */
static __always_inline void credit_sleep(struct task_struct *p, struct sleep_avg *s, u64 now, bool by_task)
{
	s->wait_pct = s->disk ? 0 : by_task ? ON_RUNQUEUE_WEIGHT : 100;
	credit(p, s, s->slept_at ? now - s->slept_at : 0);
	s->slept_at = 0;
	s->woken_at = now;
}

/* Adds the wait for the CPU to the credit when a woken task first runs. */
static __always_inline void credit_wait(struct task_struct *p, struct sleep_avg *s, u64 now)
{
	u64 waited = now - s->woken_at;

	if (s->woken_at && s->wait_pct && (s64)waited > 0)
		credit(p, s, waited * s->wait_pct / 100);
	s->woken_at = 0;
}

/*
 * Computes the credit of a child from the credit of its parent. The result is rounded down to a
 * whole number of levels, so the credit decreases with each generation.
 */
static __always_inline u64 child_credit(u64 parent)
{
	u64 bonus = parent * MAX_BONUS / max_sleep_ns;

	return (bonus > MAX_BONUS ? MAX_BONUS : bonus) * child_pct / 100 * (max_sleep_ns / MAX_BONUS);
}

#endif
