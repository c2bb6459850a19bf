/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Records whether the task that runs on a CPU is waking other tasks through a futex.
 *
 * The flags of a wake-up do not show whether a task or an interrupt causes the wake-up. A task
 * causes every wake-up through a futex.
 */
#ifndef FUTEX_WAKER_H
#define FUTEX_WAKER_H

#include "prio_array.h"

/* Sets prio_rq.waking of this CPU. */
static __always_inline int task_wakes(bool waking)
{
	struct prio_rq *rq = prio_rq_of(bpf_get_smp_processor_id());

	if (rq)
		rq->waking = waking;
	return 0;
}

SEC("fentry/futex_wake") int futex_wakes(void *ctx) { return task_wakes(true); }
SEC("fexit/futex_wake") int futex_woke(void *ctx) { return task_wakes(false); }

#endif
