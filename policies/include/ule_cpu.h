/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The runqueue of a CPU in ule: a queue of interactive threads, which is ordered by priority, and a
 * calendar of batch threads.
 *
 * The calendar has two days: batch threads are inserted relative to `day`, and taken from `taken`.
 * `day` advances by one each day_ns, but stays until all threads of `taken` have run.
 */
#ifndef ULE_CPU_H
#define ULE_CPU_H

#include "cpu_array.h"
#include "interactivity.h"

/* ID of a CPU's queue of batch threads. That of its interactive threads is the CPU's number. */
#define BATCH_QUEUE(cpu) ((1ULL << 16) | (u32)(cpu))
/* A key of a queue has a priority or a day in the upper bits, and the arrival in the lower. */
#define SHIFT 24
/* Number of days by which the best and the worst batch priority differ. */
#define DAYS 64

const volatile u64 slice_ns PARAM("ns, 1000000..10000000000: time slice of a thread on a CPU with at most one other") = 94000000;
const volatile u64 day_ns PARAM("ns, 100000..1000000000: length of a day of the calendar of batch threads, a tick of FreeBSD's statistics clock") = 7874000;

struct cpu {
	/* Priority of the running thread, or IDLE_PRI. */
	u32 pri;
	bool running;
	/* Day at which batch threads are inserted, and day from which they are taken. */
	u64 day, taken;
	/* Time at which the next day may begin, ns. */
	u64 next_day;
	/* Number of insertions, which orders threads of the same priority or day. */
	u64 arrivals;
	/* Last run of the timer in which the CPU gave or received a thread. */
	u64 balanced;
} CPU_ALIGNED;

CPU_VARIABLES(cpu)

/* Returns the number of threads of a CPU, including the running one. */
static __always_inline s32 load_of(s32 cpu)
{
	return cpu_of(cpu)->running + scx_bpf_dsq_nr_queued(cpu) + scx_bpf_dsq_nr_queued(BATCH_QUEUE(cpu));
}

/* Returns the slice of a thread on a CPU. */
static __always_inline u64 slice_of(s32 cpu)
{
	s32 others = load_of(cpu) - 1;

	return others <= 1 ? slice_ns : others >= 6 ? slice_ns / 6 : slice_ns / others;
}

/* Returns the rest of a thread's slice on a CPU. A thread that has used up its slice gets another. */
static __always_inline u64 left_of(struct thread *t, s32 cpu)
{
	u64 slice = slice_of(cpu);

	if (t->slice_used >= slice)
		t->slice_used = 0;
	return slice - t->slice_used;
}

/* Returns the place of a thread in the queue of its kind. `front` puts it before its equals. */
static __always_inline u64 key_of(struct thread *t, struct cpu *c, bool front)
{
	u64 order = front ? 0 : ++c->arrivals & ((1ULL << SHIFT) - 1);

	if (t->pri < BATCH_PRI)
		return ((u64)t->pri << SHIFT) + order;
	if (front)
		return c->taken << SHIFT;
	return ((c->day + (t->pri - BATCH_PRI) * DAYS / BATCH_RANGE) << SHIFT) + order;
}

static __always_inline u64 queue_of(struct thread *t, s32 cpu)
{
	return t->pri < BATCH_PRI ? (u64)cpu : BATCH_QUEUE(cpu);
}

#endif
