/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Plan 9's priorities: 20 levels, higher first, and turns within a level.
 *
 * A process has a base level (10, changed by nice) and a decaying average of its use of a CPU (over
 * `gain_ns`). Its level is its fair share divided by that use, and at most its base level: a process that
 * uses half of its fair share is at 2, and one that uses a tenth is at 10. A queue is a DSQ ordered by level
 * and then by arrival, with one lock.
 */
#ifndef PLAN9_H
#define PLAN9_H

#include "scx.h"

#define PLAN9_LEVELS 20
#define PLAN9_NORMAL 10
/* The level is in the highest bits of the key that orders a queue. */
#define PLAN9_SHIFT 58
/* The unit of shares of a CPU. */
#define PLAN9_ONE (1ULL << 32)

const volatile u64 quantum_ns PARAM("ns, 1000000..10000000000: turn of a process among those of its level") = 100000000;
const volatile u64 gain_ns PARAM("ns, 1000000..1000000000000: how long CPU time counts against a process") = 30000000000;

struct plan9_task {
	/* Share of a CPU that was used lately, in PLAN9_ONE. */
	u64 usage;
	u64 updated;
	u32 level;
	/* The CPU it ran on last, or -1, and when it moved there. */
	s32 cpu;
	u64 moved;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct plan9_task);
} plan9_tasks SEC(".maps");

static __always_inline struct plan9_task *plan9_task(struct task_struct *p)
{
	return bpf_task_storage_get(&plan9_tasks, p, NULL, 0);
}

static __always_inline s32 plan9_init_task(struct task_struct *p)
{
	struct plan9_task *t = bpf_task_storage_get(&plan9_tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	t->usage = 0;
	t->updated = bpf_ktime_get_ns();
	t->level = PLAN9_NORMAL;
	t->cpu = -1;
	return 0;
}

/* Updates the use of the CPU to now. `ran` says whether the process has run since the last update. */
static __always_inline void plan9_account(struct plan9_task *t, bool ran)
{
	u64 now = bpf_ktime_get_ns(), whole = gain_ns / 1000, us;

	us = now > t->updated ? (now - t->updated) / 1000 : 0;
	t->updated += us * 1000;
	if (us > whole)
		us = whole;
	if (ran)
		t->usage = PLAN9_ONE - (PLAN9_ONE - t->usage) * (whole - us) / whole;
	else
		t->usage = t->usage * (whole - us) / whole;
}

/* Returns the level of a process if `nr_cpus` CPUs serve `nr_runnable` processes, this one included. */
static __always_inline u32 plan9_level(struct task_struct *p, struct plan9_task *t, u64 nr_cpus, u64 nr_runnable)
{
	/* Nice -20 is 100; two of nice are a level. */
	s32 base = 2 * PLAN9_NORMAL - (u32)(p->static_prio - 100) / 2;
	u64 share = PLAN9_ONE, ratio;

	if (base < 0)
		base = 0;
	if (base > PLAN9_LEVELS - 1)
		base = PLAN9_LEVELS - 1;
	if (nr_runnable > nr_cpus)
		share = PLAN9_ONE * nr_cpus / nr_runnable;
	if (!t->usage)
		return base;
	ratio = (share + t->usage / 2) / t->usage;
	return ratio < base ? ratio : base;
}

static __always_inline void plan9_insert(struct task_struct *p, struct plan9_task *t, u64 queue, u64 enq_flags)
{
	u64 key = ((u64)(PLAN9_LEVELS - 1 - t->level) << PLAN9_SHIFT) + bpf_ktime_get_ns();

	scx_bpf_dsq_insert_vtime(p, queue, quantum_ns, key, enq_flags);
}

/* Returns the highest level of the processes that wait in a queue, or -1. */
static __always_inline s32 plan9_highest(u64 queue)
{
	struct task_struct *first = scx_bpf_dsq_peek(queue);

	return first ? PLAN9_LEVELS - 1 - (s32)(first->scx.dsq_vtime >> PLAN9_SHIFT) : -1;
}

#endif
