/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measures the length of a timer tick, for policies that count ticks.
 *
 * The time between two calls of ops.tick() is not always one tick. The time is longer if the CPU
 * was idle, because an idle CPU has no ticks. The time is shorter if the first of the two ticks
 * came late, which happens on virtual CPUs. The length of a tick is therefore the mean over
 * TICK_WINDOW consecutive ticks of a CPU. Until a CPU has had TICK_WINDOW ticks, the shortest time
 * between two calls is used instead.
 */
#ifndef TICK_PERIOD_H
#define TICK_PERIOD_H

#include "scx.h"

/* Number of ticks over which the period is measured. */
#define TICK_WINDOW 16

/* Times of the ticks of one CPU. */
struct ticks {
	/* Time of the last tick. */
	u64 last;
	/* Start of the current window of TICK_WINDOW ticks. */
	u64 begun;
	/* Number of ticks in the window. */
	u32 nr;
};

/* Best measurement of the length of a tick so far, or 0 before the first measurement. */
static u64 period_ns;
/* Whether period_ns was measured over a whole window. */
static bool period_known;

/*
 * Returns the best measurement of the length of a tick so far, but at most `longest`. Called from
 * ops.tick().
 */
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
