/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Timeslices of Linux 2.6.22, and the priority array that a task enters when its timeslice ends.
 *
 * The nice value determines the length of a timeslice. At the end of its timeslice a task goes to
 * the expired array (prio_array.h). An interactive task, which is a task that sleeps much
 * (sleep_avg.h), goes back to the active array instead, unless the expired tasks starve.
 * Interactive tasks of the same level alternate several times within their timeslices. The time for
 * which such a task runs at once is called its turn. After each turn, the task goes to the end of
 * its level.
 */
#ifndef TIMESLICE_H
#define TIMESLICE_H

#include "prio_array.h"
#include "sleep_avg.h"

const volatile u64 starvation_ns PARAM("ns, 0..100000000000: wait of the expired tasks, for each task of the CPU, after which interactive tasks expire, too") = 1000 * MS;

/* Number of timeslices that ended. */
u64 nr_expired;
/* Number of times that an interactive task went back to the active array. */
u64 nr_reinserted;
/*
 * Number of times that an interactive task went to the expired array because the tasks there
 * starved.
 */
u64 nr_starving;
/* Number of turns that ended before the timeslice ended. */
u64 nr_turns;
/*
 * Number of levels, -5 to 5, that credit for sleep (sleep_avg.h) adds to the task whose level was
 * computed last. Experiments read this variable.
 */
s32 last_bonus;

/* State of one task. */
struct task_ctx {
	struct prio_node node;
	struct sleep_avg sleep;
	/* Part of the timeslice that is left, in ns. */
	u64 left;
	/* Part of the timeslice that was left when the current turn began, in ns. */
	u64 turn;
	/* Array that the task enters next. */
	u32 array;
	/* Level of that array that the task enters next. */
	u32 level;
	/*
	 * Whether ops.dispatch() has already chosen `array` and `level`. If so, ops.enqueue() uses
	 * these values.
	 */
	bool placed;
	/* Whether the task enters its level at the front. */
	bool head;
	/* Whether the task has yielded since place() was last called. */
	bool yielded;
	/* Whether the task moves to an idle CPU when it is next enqueued. */
	bool moves;
	/* Whether the waker is about to sleep (SCX_WAKE_SYNC). */
	bool sync;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} tasks SEC(".maps");

/*
 * Returns the length of a task's timeslice, in ns: 800 ms for nice -20, 100 ms for nice 0, 5 ms for
 * nice 19.
 */
static __always_inline u64 timeslice(struct task_struct *p)
{
	u64 above = 140 - p->static_prio;

	return above * (p->static_prio < 120 ? 20 : 5) * MS;
}

/* Returns the state of a task, or NULL if it has none. */
static __always_inline struct task_ctx *task_ctx_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* Returns the array node of a task, or NULL if it has none. */
static __always_inline struct prio_node *prio_node_of(struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);

	return t ? &t->node : NULL;
}

/* Charges the running task for the time since the last charge. */
static __always_inline void charge(struct task_ctx *t, u64 now)
{
	u64 ran = spend(&t->sleep, now);

	t->node.ran_at = now;
	t->left = t->left > ran ? t->left - ran : 0;
}

/* Computes the level of a task from its credit. */
static __always_inline void set_level(struct task_struct *p, struct task_ctx *t)
{
	t->level = level_of(p, &t->sleep);
	last_bonus = (s32)bonus_of(&t->sleep) - MAX_BONUS / 2;
}

/*
 * Sets the state of a new task. Parent and child share what is left of the parent's timeslice. The
 * child starts with a part of the parent's credit. `parent` is NULL if there is no parent with a
 * state.
 */
static __always_inline void new_task(struct task_struct *p, struct task_ctx *t, struct task_ctx *parent)
{
	t->left = timeslice(p);
	t->sleep.credit = child_credit(initial_sleep_ns);
	if (parent) {
		t->left = parent->left = parent->left / 2 + 1;
		t->sleep.credit = child_credit(parent->sleep.credit);
	}
	t->turn = t->left;
	t->level = level_of(p, &t->sleep);
}

/* Adds the sleep of a woken task to its credit, and computes its level. */
static __always_inline void woken(struct task_struct *p, struct task_ctx *t, bool by_task)
{
	credit_sleep(p, &t->sleep, scx_bpf_now(), by_task);
	set_level(p, t);
}

/*
 * Returns whether the tasks in a CPU's expired array starve: they have waited too long, or one of
 * them has a better nice value than task `p`.
 */
static __always_inline bool starving(struct task_struct *p, struct prio_rq *rq, u64 now)
{
	if (!rq->expired_since)
		return false;
	return now - rq->expired_since >= starvation_ns * (rq->nr_queued + 1) ||
	       (u32)p->static_prio > rq->best_expired;
}

/*
 * Chooses the array and level that a runnable task enters. Called from ops.dispatch() and
 * ops.enqueue().
 */
static __always_inline void place(struct task_struct *p, struct task_ctx *t, struct prio_rq *rq, u64 now)
{
	u32 active = rq->active & 1;
	bool expires = t->yielded;

	t->array = active;
	t->head = !t->yielded && t->turn;
	if (!t->left) {
		t->left = timeslice(p);
		set_level(p, t);
		t->head = false;
		__sync_fetch_and_add(&nr_expired, 1);
		if (!rq->expired_since)
			rq->expired_since = now;
		expires = !is_interactive(p, t->level);
		if (!expires && starving(p, rq, now)) {
			__sync_fetch_and_add(&nr_starving, 1);
			expires = true;
		}
		if (!expires)
			__sync_fetch_and_add(&nr_reinserted, 1);
	}
	if (expires) {
		t->array = !active;
		if ((u32)p->static_prio < rq->best_expired)
			rq->best_expired = p->static_prio;
	}
	if (!t->head)
		t->turn = t->left;
	t->yielded = false;
	t->placed = true;
}

/*
 * Returns whether the turn of an interactive task has ended. If so, the task must go to the end of
 * its level, and keeps the part of its timeslice that is left. Called from ops.tick().
 */
static __always_inline bool turn_over(struct task_struct *p, struct task_ctx *t)
{
	u64 turn = granularity(&t->sleep);

	if (!is_interactive(p, t->level) || t->left < turn || t->turn < t->left + turn)
		return false;
	__sync_fetch_and_add(&nr_turns, 1);
	t->turn = 0;
	return true;
}

#endif
