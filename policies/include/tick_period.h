/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The length of a timer tick, for policies that count ticks. ops.tick() comes at each tick while one of our tasks runs, so an idle
 * CPU has had none for longer; and where a tick was late (a virtual CPU that had to wait), the next one, in time, seems to come soon
 * after. So it is the shortest time that TICK_WINDOW ticks in a row took on any CPU; until one has had so many, the shortest between two.
 */
#ifndef TICK_PERIOD_H
#define TICK_PERIOD_H

#include "scx.h"

#define TICK_WINDOW 16

/* Of a CPU. */
struct ticks {
	u64 last;
	/* When the window began, and ticks since. */
	u64 begun;
	u32 nr;
};

static u64 period_ns;
/* It is from a whole window. */
static bool period_known;

/* ops.tick(): the period as far as it is known, `longest` at most. */
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
