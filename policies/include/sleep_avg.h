/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sleep as credit, as in Linux 2.6.22.
 *
 * Up to a second of sleep is worth five levels up, and none of it five levels down. Running spends credit,
 * the slower the more there is: a task that sleeps for an eighth of its run time keeps all of it, and one
 * that sleeps less loses all. The wait for the CPU after a wake-up is credited, too: in full if an interrupt
 * woke the task, by 30 % if another task did.
 */
#ifndef SLEEP_AVG_H
#define SLEEP_AVG_H

#include "scx.h"

#ifndef MS
#define MS 1000000ULL
#endif
#define MAX_BONUS 10
#define SCHED_BATCH 3
#define TASK_UNINTERRUPTIBLE 2
/* Percent of the wait for the CPU that is credited if a task woke the sleeper. */
#define ON_RUNQUEUE_WEIGHT 30
/* Shortest turn among interactive tasks of a level, for each CPU of the machine. */
#define MIN_TIMESLICE (5 * MS)

const volatile u64 max_sleep_ns PARAM("ns, 1000000..100000000000: most sleep that is credited") = 1000 * MS;
const volatile u64 initial_sleep_ns PARAM("ns, 0..100000000000: credit of who starts the tasks that have no parent: a shell") = 1000 * MS;
const volatile u32 child_pct PARAM("percent, 0..100: share of its parent's bonus that a child starts with") = 95;
const volatile s32 interactive_delta PARAM("levels, -10..10: gain from which a task of nice 0 counts as interactive") = 2;

struct sleep_avg {
	u64 credit;
	u64 run_at;
	u64 slept_at;
	/*
	 * When the task was woken, or 0 after it has run, and percent of its wait for the CPU that is
	 * credited.
	 */
	u64 woken_at;
	u32 wait_pct;
	/* The task sleeps on a disk. */
	bool disk;
};

/* Returns 0 for a hog, up to 10 for a task with full credit. */
static __always_inline u32 bonus_of(struct sleep_avg *s)
{
	u64 bonus = s->credit * MAX_BONUS / max_sleep_ns;

	return bonus > MAX_BONUS ? MAX_BONUS : bonus;
}

static __always_inline u32 level_of(struct task_struct *p, struct sleep_avg *s)
{
	s32 level = p->static_prio - 100 - ((s32)bonus_of(s) - MAX_BONUS / 2);

	return level < 0 ? 0 : level > 39 ? 39 : level;
}

/*
 * Returns the levels that a task must gain to count as interactive. Nice 19 can hardly gain them, nice -20
 * always has them.
 */
static __always_inline s32 interactive_gain(struct task_struct *p)
{
	return (s32)((u32)(p->static_prio - 100) / 4) - MAX_BONUS / 2 + interactive_delta;
}

static __always_inline bool is_interactive(struct task_struct *p, u32 level)
{
	return (s32)level <= p->static_prio - 100 - interactive_gain(p);
}

/* Returns the length of a turn among interactive tasks of a level: the more credit, the shorter. */
static __always_inline u64 granularity(struct sleep_avg *s)
{
	u32 lost = MAX_BONUS - bonus_of(s);

	return (MIN_TIMESLICE << (lost ? lost - 1 : 0)) * scx_bpf_nr_cpu_ids();
}

/* Spends the credit of a running task. Returns how long it ran since the last call, in ns. */
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

/* Credits sleep. One long sleep makes a task just interactive, and sleep on a disk never more than that. */
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

/* Credits the sleep of a task that wakes up. */
static __always_inline void credit_sleep(struct task_struct *p, struct sleep_avg *s, u64 now, bool by_task)
{
	s->wait_pct = s->disk ? 0 : by_task ? ON_RUNQUEUE_WEIGHT : 100;
	credit(p, s, s->slept_at ? now - s->slept_at : 0);
	s->slept_at = 0;
	s->woken_at = now;
}

/* Credits the wait for the CPU of a woken task that runs for the first time. */
static __always_inline void credit_wait(struct task_struct *p, struct sleep_avg *s, u64 now)
{
	u64 waited = now - s->woken_at;

	if (s->woken_at && s->wait_pct && (s64)waited > 0)
		credit(p, s, waited * s->wait_pct / 100);
	s->woken_at = 0;
}

/*
 * Returns the credit of a child by that of its parent: whole levels, so that it shrinks with each generation.
 */
static __always_inline u64 child_credit(u64 parent)
{
	u64 bonus = parent * MAX_BONUS / max_sleep_ns;

	return (bonus > MAX_BONUS ? MAX_BONUS : bonus) * child_pct / 100 * (max_sleep_ns / MAX_BONUS);
}

#endif
