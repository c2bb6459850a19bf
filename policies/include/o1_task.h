/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * State of a task of o1: its timeslice, its level, and the priority array (prio_array.h) that it
 * enters next.
 *
 * The level of a task is its nice value plus 20, plus a penalty. A task wants the CPU while it runs
 * or waits to run (load_history.h). It gets a penalty if it recently wanted the CPU for a larger
 * part of the time than its fair share. On a CPU with n tasks, the fair share is 1 / (n + 1), which
 * leaves a share for a task that wakes up. Tasks of nice batch_nice and above are batch tasks. They
 * get no penalty, but 24 is added to their levels (higher levels are worse).
 */
#ifndef O1_TASK_H
#define O1_TASK_H

#define TICK_NS 10000000
#include "load_history.h"
#include "prio_balance.h"

/* Number that is added to the level of a batch task. Higher levels are worse. */
#define BATCH_LEVELS 24

const volatile u64 slice_max_ns PARAM("ns, 1000000..10000000000: timeslice at nice -20") = 300000000;
const volatile u64 slice_min_ns PARAM("ns, 1000000..10000000000: timeslice at nice 19; between -20 and 19 it falls linearly") = 10000000;
const volatile u64 batch_slice_ns PARAM("ns, 1000000..10000000000: timeslice of batch work") = 400000000;
const volatile s32 batch_nice PARAM("nice, -20..20: tasks of this nice value and above are batch work; 20: none is") = 19;
u32 max_penalty PARAM("levels, 0..23: largest penalty, for a task that always wants the CPU") = 21;

/* Counters, in this order: timeslices that ended, and computations of a level with a penalty. */
u64 nr_expired, nr_penalised;

/* State of one task. */
struct task_ctx {
	struct prio_node node;
	/* Part of the timeslice that is left, in ns. */
	u64 left;
	/* Time up to which the running task has been charged. */
	u64 run_at;
	struct load_history load;
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
	/* Whether the task is new and has not been enqueued yet. */
	bool forked;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} tasks SEC(".maps");

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

/*
 * Returns whether the balancer may pull a task. The result is always true, because o1 does not care
 * whether the data of the task is still in a cache.
 */
static __always_inline bool may_pull(struct prio_rq *to, struct prio_node *node)
{
	return true;
}

/* Returns the nice value of a task. */
static __always_inline s32 nice_of(struct task_struct *p)
{
	return p->static_prio - 120;
}

/* Returns whether a task is batch work. */
static __always_inline bool is_batch(struct task_struct *p)
{
	return nice_of(p) >= batch_nice;
}

/* Returns the length of a task's timeslice, in ns. */
static __always_inline u64 timeslice(struct task_struct *p)
{
	if (is_batch(p))
		return batch_slice_ns;
	return slice_min_ns + (slice_max_ns - slice_min_ns) * (u64)(19 - nice_of(p)) / 39;
}

/* Charges the running task for the time since the last charge. */
static __always_inline void charge(struct task_ctx *t, u64 now)
{
	u64 ran = now - t->run_at;

	if ((s64)ran < 0)
		return;
	t->left = t->left > ran ? t->left - ran : 0;
	t->run_at = now;
}

/* Records whether a task wants the CPU from now on. */
static __always_inline void set_wants(struct task_struct *p, bool wants)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	load_update(&t->load, scx_bpf_now());
	t->load.wants = wants;
}

/*
 * Divides the rest of the parent's timeslice between the parent and its new child. The child
 * inherits the load history.
 */
static __always_inline void inherit(struct task_ctx *child, struct task_ctx *parent)
{
	child->left = parent->left = parent->left / 2 + 1;
	load_update(&parent->load, scx_bpf_now());
	child->load = parent->load;
	child->load.wants = false;
}

/* Returns the level that a task has on the CPU with runqueue `rq`. */
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
 * Chooses the array and level that a runnable task enters. If the task's timeslice is used up, the
 * task gets a new timeslice and enters the expired array.
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
