/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Quanta that are counted in ticks, as in Linux 2.4: a running task loses the CPU when its counter
 * of ticks reaches 0.
 *
 * Linux 2.4 charged a whole tick to the task that was running at the timer interrupt. A tick of
 * Linux 2.4 had the length tick_ns. The ticks of the kernel that runs the policy may be shorter. A
 * policy therefore adds up the lengths of these ticks, and decrements the counter each time the sum
 * reaches tick_ns.
 */
#ifndef QUANTUM_H
#define QUANTUM_H

#include "tick_period.h"

/*
 * Slice to pass to the kernel, in ns. This slice is longer than every quantum. A quantum ends when
 * the task's counter reaches 0, never because of the slice.
 */
#define NO_SLICE_END 1000000000ULL

const volatile u64 tick_ns PARAM("ns, 1000000..100000000: length of one tick of a task's counter") = 10000000;

/* Returns the nice value of a task. */
static __always_inline s32 nice_of(const struct task_struct *p)
{
	return p->static_prio - 120;
}

/* Gives half of a parent's ticks to its new child. */
static __always_inline void split_ticks(s32 *parent, s32 *child)
{
	*child = (*parent + 1) >> 1;
	*parent >>= 1;
}

/*
 * Gives the remaining ticks of an exiting child back to its parent, which can have at most `most`
 * ticks.
 */
static __always_inline void return_ticks(s32 *parent, s32 child, s32 most)
{
	*parent += child;
	if (*parent > most)
		*parent = most;
}

#endif
