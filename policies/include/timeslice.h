/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Timeslices of Linux 2.6.22, and where a task goes when one ends.
 *
 * The length follows from the nice value. At the end of its timeslice a task goes to the expired array. A
 * task that counts as interactive goes back to the active one, unless the expired tasks starve. Interactive
 * tasks of a level also take turns within their timeslices.
 */
#ifndef TIMESLICE_H
#define TIMESLICE_H

#include "prio_array.h"
#include "sleep_avg.h"

const volatile u64 starvation_ns PARAM("ns, 0..100000000000: wait of expired tasks, for each task of the CPU, that ends favours") = 1000 * MS;

u64 nr_expired;
/*
 * Interactive tasks that went back to the active array, and those that did not because the expired tasks
 * starve.
 */
u64 nr_reinserted;
u64 nr_starving;
/* Turns that ended within a timeslice. */
u64 nr_turns;
/* Bonus of the task whose level was set last, -5 to 5. */
s32 last_bonus;

struct task_ctx {
	struct prio_node node;
	struct sleep_avg sleep;
	/* Rest of the timeslice, now and when the current turn began, ns. */
	u64 left;
	u64 turn;
	u32 array;
	u32 level;
	bool placed;
	bool head;
	bool yielded;
	bool moves;
	bool sync;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} tasks SEC(".maps");

static __always_inline u64 timeslice(struct task_struct *p)
{
	u64 above = 140 - p->static_prio;

	return above * (p->static_prio < 120 ? 20 : 5) * MS;
}

static __always_inline struct task_ctx *task_ctx_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static __always_inline struct prio_node *prio_node_of(struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);

	return t ? &t->node : NULL;
}

static __always_inline void charge(struct task_ctx *t, u64 now)
{
	u64 ran = spend(&t->sleep, now);

	t->node.ran_at = now;
	t->left = t->left > ran ? t->left - ran : 0;
}

static __always_inline void set_level(struct task_struct *p, struct task_ctx *t)
{
	t->level = level_of(p, &t->sleep);
	last_bonus = (s32)bonus_of(&t->sleep) - MAX_BONUS / 2;
}

static __always_inline void woken(struct task_struct *p, struct task_ctx *t, bool by_task)
{
	credit_sleep(p, &t->sleep, scx_bpf_now(), by_task);
	set_level(p, t);
}

static __always_inline bool starving(struct task_struct *p, struct prio_rq *rq, u64 now)
{
	if (!rq->expired_since)
		return false;
	return now - rq->expired_since >= starvation_ns * (rq->nr_queued + 1) ||
	       (u32)p->static_prio > rq->best_expired;
}

/* For ops.dispatch() and ops.enqueue(): decides where a task that stays runnable is queued. */
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
 * For ops.tick(): returns whether the task's turn is over. It goes behind its equals, with the rest of its
 * timeslice.
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
