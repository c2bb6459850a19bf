/* SPDX-License-Identifier: GPL-2.0-only */
/* reschedule_idle of Linux 2.4: which CPU is to choose anew when a task has come into the queue of all CPUs. */
#ifndef RESCHEDULE_IDLE_H
#define RESCHEDULE_IDLE_H

#include "goodness.h"

/* Wake-ups that preempted. */
u64 nr_preempted;

/* The CPU it ran on last if that is idle, else the one idle longest, else where it is better by most, and more than 1. */
static __always_inline void reschedule_idle(struct task_struct *p, struct task_ctx *t)
{
	s32 cpu = t->last_cpu, oldest = -1, target = -1, most = 1;
	const struct cpumask *idle;
	u64 since = 0;

	if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && scx_bpf_test_and_clear_cpu_idle(cpu)) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	idle = scx_bpf_get_idle_cpumask();
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		struct cpu_ctx *c = cpu_ctx(cpu);

		if (!c || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (bpf_cpumask_test_cpu(cpu, idle)) {
			if (oldest < 0 || c->idle_since < since) {
				oldest = cpu;
				since = c->idle_since;
			}
		} else if (oldest < 0) {
			s32 better = preemption_goodness(p, t, cpu);

			if (better > most) {
				most = better;
				target = cpu;
			}
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	if (oldest >= 0 && scx_bpf_test_and_clear_cpu_idle(oldest)) {
		scx_bpf_kick_cpu(oldest, SCX_KICK_IDLE);
	} else if (target >= 0) {
		__sync_fetch_and_add(&nr_preempted, 1);
		scx_bpf_kick_cpu(target, SCX_KICK_PREEMPT);
	}
}

#endif
