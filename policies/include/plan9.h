/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Plan 9's process priorities: 20 levels, of which the highest runs first, and round robin within a
 * level.
 *
 * A process has a base level, 10 for nice 0. Nice values change it by one level for every two
 * steps. The process also has a usage: the share of a CPU that it used recently, averaged with a
 * time constant of gain_ns. Its level is
 *
 *     min(base level, fair share / usage)
 *
 * so a process that uses a half of its fair share has level 2, and one that uses a tenth has level
 * 10.
 *
 * A queue is a dispatch queue (DSQ) whose key orders processes by level and then by arrival. It has
 * one lock.
 */
#ifndef PLAN9_H
#define PLAN9_H

#include "scx.h"

/* Number of levels; level 0 is the lowest. */
#define PLAN9_LEVELS 20
/* Base level of nice 0. */
#define PLAN9_NORMAL 10
/* Position of the level in the key that orders a queue; the arrival time is in the bits below. */
#define PLAN9_SHIFT 58
/* A whole CPU, in the fixed-point unit of usages and shares. */
#define PLAN9_ONE (1ULL << 32)

const volatile u64 quantum_ns PARAM("ns, 1000000..10000000000: time slice of a process among those of its level") = 100000000;
const volatile u64 gain_ns PARAM("ns, 1000000..1000000000000: time constant of the usage average; the longer, the longer past CPU time counts") = 30000000000;

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
	/* Time at which the process started to run on that CPU. */
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
 * Updates the usage of a process to the current time. `ran` is whether the process has run since
 * the last update.
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
 * Returns the level of a process. Its fair share is that of `nr_cpus` CPUs among `nr_runnable`
 * processes, including this one.
 */
static __always_inline u32 plan9_level(struct task_struct *p, struct plan9_task *t, u64 nr_cpus, u64 nr_runnable)
{
	/* static_prio is 100 for nice -20 and 120 for nice 0. */
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

/* Returns the highest level among the processes that wait in a queue, or -1 if it is empty. */
static __always_inline s32 plan9_highest(u64 queue)
{
	struct task_struct *first = scx_bpf_dsq_peek(queue);

	return first ? PLAN9_LEVELS - 1 - (s32)(first->scx.dsq_vtime >> PLAN9_SHIFT) : -1;
}

#endif
