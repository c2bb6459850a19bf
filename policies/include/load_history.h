/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A history of the time for which a task wanted the CPU: a ring buffer with one entry for each of
 * the last periods.
 *
 * A task wants the CPU while it runs and while it waits to run, but not while it sleeps. The
 * history covers the past periods in the buffer and the part of the current period that has passed.
 */
#ifndef LOAD_HISTORY_H
#define LOAD_HISTORY_H

#include "scx.h"

/* Capacity of the ring buffer. */
#define RING_MAX 8

const volatile u32 ring_entries PARAM("entries, 1..8: number of periods in the history") = 4;
const volatile u64 ring_period_ns PARAM("ns, 1000000..10000000000: length of a period") = 1000000000;

/* History of one task. */
struct load_history {
	/* Time for which the task wanted the CPU in each period, in ns. */
	u64 ring[RING_MAX];
	/* Sum of all entries of `ring`. */
	u64 used;
	/* Number of the current period. */
	u64 period;
	/* Time up to which the history is complete (time of the last update). */
	u64 known;
	/* Whether the task has wanted the CPU since the last update. */
	bool wants;
};

/*
 * Ends the periods that are over at time `now`. For each such period, adds the time that is not
 * counted yet to the entry of the period, if the task wanted the CPU during that time. Then clears
 * the entry of the next period.
 */
__noinline int load_end_periods(struct load_history *h, u64 now)
{
	u64 period = now / ring_period_ns;
	u32 i, at;

	if (!h)
		return 0;
	/* If more periods are over than the ring buffer has entries, skips the oldest of them. */
	if (h->period + ring_entries < period) {
		h->period = period - ring_entries;
		h->known = h->period * ring_period_ns;
	}
	bpf_for(i, 0, RING_MAX) {
		u64 end = (h->period + 1) * ring_period_ns;

		at = h->period % ring_entries;
		if (h->period >= period || at >= RING_MAX)
			break;
		if (h->wants && end > h->known) {
			h->ring[at] += end - h->known;
			h->used += end - h->known;
		}
		h->known = end;
		h->period++;
		at = h->period % ring_entries;
		if (at >= RING_MAX)
			break;
		h->used -= h->ring[at];
		h->ring[at] = 0;
	}
	return 0;
}

/* Updates the history to the current time. */
static __always_inline void load_update(struct load_history *h, u64 now)
{
	u32 at;

	if (now >= (h->period + 1) * ring_period_ns)
		load_end_periods(h, now);
	at = h->period % ring_entries;
	if (h->wants && now > h->known && at < RING_MAX) {
		h->ring[at] += now - h->known;
		h->used += now - h->known;
	}
	h->known = now;
}

/* Returns the share of the history in which the task wanted the CPU, in thousandths. */
static __always_inline u64 load_permille(struct load_history *h, u64 now)
{
	u64 window = (ring_entries - 1) * ring_period_ns + now % ring_period_ns;
	u64 load = h->used * 1000 / (window > ring_period_ns ? window : ring_period_ns);

	return load < 1000 ? load : 1000;
}

/* Starts the history of a new task. */
static __always_inline void load_init(struct load_history *h, u64 now)
{
	h->known = now;
	h->period = now / ring_period_ns;
}

#endif
