/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A task of o1: its timeslice, its level, and the array and list that it enters next.
 *
 * The level of a task is nice + 20, plus a penalty if it used more of the CPU lately than its fair share. The
 * fair share is that of the tasks of the CPU and one more, which may wake up. Batch work is 24 levels further
 * down.
 */
#ifndef O1_TASK_H
#define O1_TASK_H

#define TICK_NS 10000000
#include "load_history.h"
#include "prio_balance.h"

#define BATCH_LEVELS 24

const volatile u64 slice_max_ns PARAM("ns, 1000000..10000000000: timeslice at nice -20") = 300000000;
const volatile u64 slice_min_ns PARAM("ns, 1000000..10000000000: timeslice at nice 19; between the two it falls evenly") = 10000000;
const volatile u64 batch_slice_ns PARAM("ns, 1000000..10000000000: timeslice of batch work") = 400000000;
const volatile s32 batch_nice PARAM("nice, -20..20: from here on it is batch work; 20: nothing is") = 19;
u32 max_penalty PARAM("levels, 0..23: most that a hog's priority falls; a third of them all") = 21;

/* Timeslices that ended, and penalties above 0 that were given. */
u64 nr_expired, nr_penalised;

struct task_ctx {
	struct prio_node node;
	/* Rest of the timeslice, ns. */
	u64 left;
	/* Time up to which the running task has been charged. */
	u64 run_at;
	struct load_history load;
	/*
	 * Where the task is queued next. ops.dispatch() decides this for the task that it replaces (placed).
	 */
	u32 array;
	u32 level;
	bool placed;
	/* The task enters its list at the front. */
	bool head;
	bool yielded;
	/* The task is new and has not been queued. */
	bool forked;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} tasks SEC(".maps");

static __always_inline struct task_ctx *task_ctx_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static __always_inline struct prio_node *prio_node_of(struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);

	return t ? &t->node : NULL;
}

/* A task may be pulled wherever its data is cached. */
static __always_inline bool may_pull(struct prio_rq *to, struct prio_node *node)
{
	return true;
}

static __always_inline s32 nice_of(struct task_struct *p)
{
	return p->static_prio - 120;
}

static __always_inline bool is_batch(struct task_struct *p)
{
	return nice_of(p) >= batch_nice;
}

static __always_inline u64 timeslice(struct task_struct *p)
{
	if (is_batch(p))
		return batch_slice_ns;
	return slice_min_ns + (slice_max_ns - slice_min_ns) * (u64)(19 - nice_of(p)) / 39;
}

/* Charges the running task for the time up to now. */
static __always_inline void charge(struct task_ctx *t, u64 now)
{
	u64 ran = now - t->run_at;

	if ((s64)ran < 0)
		return;
	t->left = t->left > ran ? t->left - ran : 0;
	t->run_at = now;
}

/* Returns the level of a task that is about to wait on a CPU. */
static __always_inline u32 level_of(struct task_struct *p, struct task_ctx *t, struct prio_rq *rq)
{
	u32 level = nice_of(p) + 20, penalty;
	u64 now, use, fair;

	if (is_batch(p)) {
		level += BATCH_LEVELS;
		return level < PRIO_LEVELS ? level : PRIO_LEVELS - 1;
	}
	now = scx_bpf_now();
	load_update(&t->load, now);
	use = load_permille(&t->load, now);
	fair = 1000 / (rq->nr_queued + 2);
	if (use <= fair)
		return level;
	penalty = ((use - fair) * max_penalty + 999 - fair) / (1000 - fair);
	if (penalty)
		__sync_fetch_and_add(&nr_penalised, 1);
	level += penalty;
	return level < PRIO_LEVELS ? level : PRIO_LEVELS - 1;
}

/*
 * Decides where a task that stays runnable is queued. With its timeslice used up, it enters the expired array
 * with a new one.
 */
static __always_inline void place(struct task_struct *p, struct task_ctx *t, struct prio_rq *rq)
{
	u32 active = rq->active & 1;

	t->array = active;
	t->head = !t->yielded;
	if (!t->left) {
		t->left = timeslice(p);
		t->level = level_of(p, t, rq);
		t->array = !active;
		t->head = false;
		__sync_fetch_and_add(&nr_expired, 1);
	}
	t->yielded = false;
	t->placed = true;
}

#endif
