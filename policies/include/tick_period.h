/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The length of a timer tick, for policies that count ticks.
 *
 * ops.tick() is called only while a task of the policy runs, so an idle CPU has had no call for longer than a
 * tick. On a virtual CPU a tick may be late, and the next one then seems to follow early. So the period is
 * the shortest time that TICK_WINDOW ticks in a row took on any CPU, divided by their number. Until a CPU has
 * had so many, it is the shortest time between two calls.
 */
#ifndef TICK_PERIOD_H
#define TICK_PERIOD_H

#include "scx.h"

#define TICK_WINDOW 16

/* Ticks of one CPU. */
struct ticks {
	u64 last;
	/* When the window began, and the number of ticks since. */
	u64 begun;
	u32 nr;
};

static u64 period_ns;
/* period_ns is that of a whole window. */
static bool period_known;

/* For ops.tick(): returns the period as far as it is known, and at most `longest`. */
static __always_inline u64 tick_period(struct ticks *ticks, u64 now, u64 longest)
{
	u64 since = now - ticks->last;

	ticks->last = now;
	if (!ticks->nr)
		ticks->begun = now;
	if (ticks->nr++ == TICK_WINDOW) {
		since = (now - ticks->begun) / TICK_WINDOW;
		ticks->begun = now;
		ticks->nr = 1;
		if (!period_known && since <= longest) {
			period_known = true;
			period_ns = since;
		}
	} else if (period_known) {
		return period_ns;
	}
	if (!period_ns || since < period_ns)
		period_ns = since < longest ? since : longest;
	return period_ns;
}

#endif
