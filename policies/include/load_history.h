/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How much of the last periods a task wanted the CPU, running or waiting for it: a ring with an entry a period.
 *
 * Waiting counts, since who waits wants; only sleep is free. The newest period has only begun, so the window is the full
 * periods before it and what there is of it.
 */
#ifndef LOAD_HISTORY_H
#define LOAD_HISTORY_H

#include "scx.h"

#define RING_MAX 8

const volatile u32 ring_entries PARAM("entries, 1..8: periods that are remembered") = 4;
const volatile u64 ring_period_ns PARAM("ns, 1000000..10000000000: length of a period") = 1000000000;

struct load_history {
	u64 ring[RING_MAX];
	/* Sum of the ring; number of the newest period. */
	u64 used;
	u64 period;
	/* Up to when the ring is kept, and whether the task wants the CPU since then. */
	u64 known;
	bool wants;
};

/* Ends the periods before the present one. */
__noinline int load_end_periods(struct load_history *h, u64 now)
{
	u64 period = now / ring_period_ns;
	u32 i, at;

	if (!h)
		return 0;
	/* What is older than the ring is forgotten. */
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

/* Brings the ring up to now. */
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

/* The part of the remembered time in which the task wanted the CPU, in thousandths. */
static __always_inline u64 load_permille(struct load_history *h, u64 now)
{
	u64 window = (ring_entries - 1) * ring_period_ns + now % ring_period_ns;
	u64 load = h->used * 1000 / (window > ring_period_ns ? window : ring_period_ns);

	return load < 1000 ? load : 1000;
}

static __always_inline void load_init(struct load_history *h, u64 now)
{
	h->known = now;
	h->period = now / ring_period_ns;
}

#endif
