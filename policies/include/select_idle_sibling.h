/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selection of a CPU for a woken task, as in CFS of Linux 4.20.
 *
 * The search has two steps:
 *
 * - Choose a target: the waker's CPU or the woken task's previous CPU. If the waker and the woken
 *   task (the wakee) both wake many different tasks, the target is the previous CPU.
 * - Look for an idle CPU near the target, in this order: the target, the previous CPU, another CPU
 *   on which the task ran recently, a CPU of an idle core, a bounded number of CPUs of the
 *   last-level cache (LLC), and the other threads of the target's core.
 *
 * If no CPU is idle, the task is queued at the target. The load of a CPU is its number of runnable
 * tasks.
 */
#ifndef SELECT_IDLE_SIBLING_H
#define SELECT_IDLE_SIBLING_H

#include "cfs_rq.h"

#define SECOND 1000000000ULL
/* Highest number of LLCs; a power of two, because indices are masked with MAX_LLCS - 1. */
#define MAX_LLCS 64

/* For each LLC, 1 if the LLC may have an idle core. A core is idle if all of its CPUs are idle. */
static u32 has_idle_cores[MAX_LLCS];

/* Returns the has_idle_cores entry for a CPU's LLC. */
static __always_inline u32 *idle_cores_of(u32 cpu)
{
	return &has_idle_cores[llc_of[cpu & (MAX_CPUS - 1)] & (MAX_LLCS - 1)];
}

/* Returns whether all CPUs of a CPU's core are idle. */
static __always_inline bool all_idle(u32 cpu)
{
	const struct cpumask *mask = scx_bpf_get_idle_smtmask();
	bool idle = bpf_cpumask_test_cpu(cpu, mask);

	scx_bpf_put_idle_cpumask(mask);
	return idle;
}

/*
 * If all CPUs of this CPU's core are idle, records that the LLC has an idle core. Called from
 * ops.update_idle().
 */
static __always_inline void note_idle_core(u32 cpu)
{
	u32 *cores = idle_cores_of(cpu);

	if (!*cores && next_in(next_of_core, cpu) != cpu && all_idle(cpu))
		*cores = 1;
}

/*
 * Records which task a waker wakes, and counts how often this is another task than the last time.
 */
static __always_inline void record_wakee(struct cfs_task *waker, struct task_struct *p)
{
	u64 now = bpf_ktime_get_ns();

	if (now - waker->decayed > SECOND) {
		waker->flips /= 2;
		waker->decayed = now;
	}
	if (waker->last_wakee != p->pid) {
		waker->last_wakee = p->pid;
		waker->flips++;
	}
}

/*
 * Returns whether the waker and the woken task wake so many different tasks that they should not
 * all run in one LLC, which has `factor` CPUs.
 */
static __always_inline bool wake_wide(struct cfs_task *waker, struct cfs_task *w, u32 factor)
{
	u32 more = waker->flips, less = w->flips;

	if (more < less) {
		more = w->flips;
		less = waker->flips;
	}
	return less >= factor && more >= less * factor;
}

/*
 * Chooses between the waking CPU and the previous CPU. Returns the waking CPU in three cases:
 *
 * - The waking CPU is idle (an interrupt wakes the task), and the previous CPU is busy and in the
 *   same LLC.
 * - The only task of the waking CPU is the waker, which is about to sleep (`sync`).
 * - The waking CPU has about two tasks fewer than the previous CPU.
 *
 * Otherwise returns the previous CPU.
 */
static __always_inline s32 wake_affine(s32 this_cpu, s32 prev_cpu, bool sync)
{
	s32 here = nr_running(this_cpu);

	if (!here && in_domain(LLC, this_cpu, prev_cpu))
		return nr_running(prev_cpu) ? this_cpu : prev_cpu;
	if (sync && here == 1)
		return this_cpu;
	/*
	 * As in Linux, the load of the previous CPU is multiplied by 100 + (117 - 100) / 2 percent,
	 * which favours the waking CPU. 117 is the imbalance_pct of an LLC.
	 */
	return (here - sync + 1) * 100 < (nr_running(prev_cpu) - 1) * 108 ? this_cpu : prev_cpu;
}

/*
 * Claims a CPU for the task if the CPU is idle and the task may run there. A claim removes the CPU
 * from the kernel's idle mask, so no other wake-up selects the CPU. Returns whether it claimed the
 * CPU.
 */
static __always_inline bool claim(struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && scx_bpf_test_and_clear_cpu_idle(cpu);
}

/* Claims a CPU of an idle core in the target's LLC. Returns the CPU, or -1 if no core is idle. */
static __always_inline s32 claim_idle_core(struct task_struct *p, s32 target, u32 nr_cpus)
{
	s32 cpu = target, found = -1;
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		if (all_idle(cpu) && claim(p, cpu)) {
			found = cpu;
			break;
		}
		cpu = next_in(next_of_llc, cpu);
		if (cpu == target)
			break;
	}
	if (found < 0)
		*idle_cores_of(target) = 0;
	return found;
}

/*
 * Claims an idle CPU of the target's LLC, or returns -1. The shorter the average idle period of
 * `this` (the CPU that executes the search), the fewer CPUs are examined.
 */
static __always_inline s32 claim_idle_cpu(struct task_struct *p, struct cpu *this, s32 target, u32 nr_cpus, u32 size)
{
	u64 start = bpf_ktime_get_ns(), span = size * (this->avg_idle / 512), looks = 4;
	s32 cpu = target, found = -1;
	u32 i;

	if (span > 4 * (this->scan_cost + 1))
		looks = span / (this->scan_cost + 1);
	bpf_for(i, 0, nr_cpus) {
		if (!looks--)
			break;
		if (claim(p, cpu)) {
			found = cpu;
			break;
		}
		cpu = next_in(next_of_llc, cpu);
		if (cpu == target)
			break;
	}
	this->scan_cost += ((s64)(bpf_ktime_get_ns() - start) - (s64)this->scan_cost) >> 3;
	return found;
}

/* Claims another idle CPU (hardware thread) of the target's core, or returns -1. */
static __always_inline s32 claim_idle_sibling(struct task_struct *p, s32 target, u32 nr_cpus)
{
	s32 cpu = target, found = -1;
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		cpu = next_in(next_of_core, cpu);
		if (cpu == target)
			break;
		if (claim(p, cpu)) {
			found = cpu;
			break;
		}
	}
	return found;
}

/* Claims an idle CPU near the target. Returns the target if no CPU is idle. */
static __always_inline s32 select_idle_sibling(struct task_struct *p, struct cfs_task *w, struct cpu *this, s32 prev,
					       s32 target, u32 nr_cpus, u32 llc_size)
{
	s32 cpu;

	if (claim(p, target))
		return target;
	if (prev != target && in_domain(LLC, prev, target) && claim(p, prev))
		return prev;
	cpu = w->recent_cpu;
	if (cpu >= 0 && cpu != prev && cpu != target && in_domain(LLC, cpu, target) && claim(p, cpu)) {
		w->recent_cpu = prev;
		return cpu;
	}
	if (*idle_cores_of(target)) {
		cpu = claim_idle_core(p, target, nr_cpus);
		if (cpu >= 0)
			return cpu;
	}
	cpu = claim_idle_cpu(p, this, target, nr_cpus, llc_size);
	if (cpu < 0)
		cpu = claim_idle_sibling(p, target, nr_cpus);
	return cpu >= 0 ? cpu : target;
}

/* Claims an idle CPU for a new task. If no CPU is idle, returns the CPU with the fewest tasks. */
static __always_inline s32 find_idlest_cpu(struct task_struct *p, s32 prev_cpu, u32 nr_cpus)
{
	s32 idlest = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0), least = 1 << 30;
	u32 i;

	if (idlest >= 0)
		return idlest;
	idlest = prev_cpu;
	bpf_for(i, 0, nr_cpus) {
		s32 cpu = (prev_cpu + i) % nr_cpus, n = nr_running(cpu);

		if (n < least && is_online(cpu) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
			least = n;
			idlest = cpu;
		}
	}
	return idlest;
}

/* Selects the CPU of a woken task, as select_task_rq_fair() does for a wake-up. */
static __always_inline s32 select_cpu_for_wakeup(struct task_struct *p, s32 prev_cpu, u64 wake_flags, u32 llc_size)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 this_cpu = bpf_get_smp_processor_id(), nr_cpus = scx_bpf_nr_cpu_ids();
	struct cfs_task *w = cfs_task_of(p), *waker = current ? cfs_task_of(current) : NULL;
	struct cpu *this = cpu_of(this_cpu);
	s32 target = prev_cpu;

	if (!w || !this)
		return prev_cpu;
	if (waker)
		record_wakee(waker, p);
	if (bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr) && !(waker && wake_wide(waker, w, llc_size))) {
		if ((s32)this_cpu != prev_cpu)
			target = wake_affine(this_cpu, prev_cpu, wake_flags & SCX_WAKE_SYNC);
		if (waker)
			waker->recent_cpu = this_cpu;
	}
	return select_idle_sibling(p, w, this, prev_cpu, target, nr_cpus, llc_size);
}

#endif
