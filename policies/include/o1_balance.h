/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Balancing of busy CPUs in o1. At a fixed interval, a busy CPU compares the lengths of the queues.
 * If another queue is much longer than its own, the CPU requests a pull at a tick (pull_due()), and
 * carries out the pull when it next reschedules (pull_half()).
 */
#ifndef O1_BALANCE_H
#define O1_BALANCE_H

#include "o1_task.h"

u64 busy_interval_ns PARAM("ns, 1000000..100000000000: interval at which busy CPUs compare queue lengths") = 250000000;
u32 imbalance_pct PARAM("percent, 100..1000: length of another queue, relative to the own one, from which tasks are pulled") = 125;
u32 pull_max PARAM("tasks, 0..32: most tasks that one pull of a busy CPU moves; 0: it never pulls") = 8;

/*
 * Returns whether another queue is so much longer than the queue of this CPU that the CPU should
 * pull tasks. Does so only once per interval. Called from ops.tick().
 */
static __always_inline bool pull_due(s32 cpu, struct prio_rq *rq, u64 now)
{
	struct prio_rq *other;
	s32 busiest;

	if (!rq->next_balance)
		rq->next_balance = now + busy_interval_ns;
	if ((s64)(now - rq->next_balance) < 0)
		return false;
	rq->next_balance = now + busy_interval_ns;
	busiest = find_busiest(cpu, rq->nr_queued + 1);
	other = busiest < 0 ? NULL : prio_rq_of(busiest);
	if (!other || !pull_max)
		return false;
	return (other->nr_queued + 1) * 100ULL >= (rq->nr_queued + 1) * (u64)imbalance_pct;
}

/*
 * Pulls half of the tasks that the longest queue has more than this CPU's. Called from
 * ops.dispatch().
 */
static __always_inline void pull_half(s32 cpu, struct prio_rq *rq)
{
	s32 busiest = find_busiest(cpu, rq->nr_queued + 1);

	if (busiest >= 0) {
		struct prio_rq *other = prio_rq_of(busiest);
		u32 more = other ? (other->nr_queued - rq->nr_queued) / 2 : 0;

		pull_to_array(cpu, busiest, more < pull_max ? more : pull_max);
	}
}

#endif
