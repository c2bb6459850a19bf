/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Plan 9's process priorities: 20 levels, the highest of which runs first, and round robin among
 * the processes of a level.
 *
 * A process has a base level, which is 10 for nice 0 and falls by one level for every two nice
 * values. A process also has a usage. This is the share of a CPU that the process used recently, an
 * exponential average with the time constant gain_ns. The level of the process is
 *
 *     min(base level, fair share / usage)
 *
 * For example, a process that uses half of its fair share has level 2. A process that uses a tenth
 * of its fair share has level 10 if its base level is not lower. The fair share is the number of
 * CPUs that share the queue, divided by the number of runnable processes of the queue. It is at
 * most one CPU.
 *
 * Processes wait in dispatch queues (DSQs), ordered by level and then by time of arrival.
 */
#ifndef PLAN9_H
#define PLAN9_H

#include "scx.h"

/* Number of levels; level 0 is the lowest. */
#define PLAN9_LEVELS 20
/* Base level of nice 0. */
#define PLAN9_NORMAL 10
/*
 * The key that orders a queue has the level in the bits from PLAN9_SHIFT up, and the time of
 * arrival in the lower bits.
 */
#define PLAN9_SHIFT 58
/* Usage of one whole CPU. Usages and shares are fixed-point numbers with 32 fraction bits. */
#define PLAN9_ONE (1ULL << 32)

const volatile u64 quantum_ns PARAM("ns, 1000000..10000000000: time slice of a process while others of its level wait") = 100000000;
const volatile u64 gain_ns PARAM("ns, 1000000..1000000000000: time constant of the average of past CPU use; a larger value forgets more slowly") = 30000000000;

/* State of one process. */
struct plan9_task {
	/* Share of a CPU used recently, in units of PLAN9_ONE. */
	u64 usage;
	/* Time of the last update of `usage`. */
	u64 updated;
	/* Current level; 0 is the lowest. */
	u32 level;
	/* CPU on which the process ran last, or -1. */
	s32 cpu;
	/* Time at which the process moved to that CPU. */
	u64 moved;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct plan9_task);
} plan9_tasks SEC(".maps");

/* Returns the state of a process, or NULL if it has none. */
static __always_inline struct plan9_task *plan9_task(struct task_struct *p)
{
	return bpf_task_storage_get(&plan9_tasks, p, NULL, 0);
}

/* Creates the state of a new process. */
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

/*
 * Updates the usage of a process to the current time. `ran` is true if the process has run for the
 * whole time since the last update, and false if it has not run.
 */
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

/*
 * Returns the level of a process whose fair share is nr_cpus / nr_runnable. nr_runnable includes
 * the process.
 */
static __always_inline u32 plan9_level(struct task_struct *p, struct plan9_task *t, u64 nr_cpus, u64 nr_runnable)
{
	/* The static_prio of a task is 120 + nice, so nice -20 has 100. */
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

/* Inserts a process into a queue behind the waiting processes of its level. */
static __always_inline void plan9_insert(struct task_struct *p, struct plan9_task *t, u64 queue, u64 enq_flags)
{
	u64 key = ((u64)(PLAN9_LEVELS - 1 - t->level) << PLAN9_SHIFT) + bpf_ktime_get_ns();

	scx_bpf_dsq_insert_vtime(p, queue, quantum_ns, key, enq_flags);
}

/*
 * Returns the highest level among the processes that wait in a queue, or -1 if the queue is empty.
 */
static __always_inline s32 plan9_highest(u64 queue)
{
	struct task_struct *first = scx_bpf_dsq_peek(queue);

	return first ? PLAN9_LEVELS - 1 - (s32)(first->scx.dsq_vtime >> PLAN9_SHIFT) : -1;
}

#endif
