/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracking of the CPUs that are online.
 *
 * The kernel unloads a policy without ops.cpu_online() and ops.cpu_offline() when a CPU goes online
 * or offline. A policy with these callbacks stays loaded and must handle three situations:
 *
 * - Tasks in the queue of a CPU that goes offline. The kernel moves a task
 *   that last ran on this CPU to another CPU as soon as it runs (balance_push()). But the CPU can
 *   no longer run a task that last ran on another CPU, so the policy must move such tasks away
 *   (pass_on.h).
 * - A kick that never completes. The last action of a CPU that goes offline is to wake the task
 *   that waits for its shutdown. A call of scx_bpf_kick_cpu() for this wake-up would begin with an
 *   interrupt that the CPU sends to itself. The CPU no longer handles interrupts, so the kick would
 *   stay pending. When the kernel unloads the policy, it would wait for this kick for ever.
 *   woken_by_gone_cpu() therefore inserts that task without a kick.
 * - An offline CPU in the idle mask. The kernel's mask of idle CPUs can contain an offline CPU,
 *   because a CPU goes idle before it is offline. A policy that only reads the mask must also check
 *   is_online(). A policy that claims idle CPUs with scx_bpf_pick_idle_cpu() needs no check: it
 *   gets the offline CPU at most once, because a claim removes the CPU from the mask. In
 *   this one case, the policy kicks the offline CPU instead of an online one.
 */
#ifndef ONLINE_H
#define ONLINE_H

#include "cpu_array.h"

/*
 * Records which CPUs are offline. Every wake-up reads this state, but the state rarely changes. It
 * therefore shares no cache line with other variables, whose changes would slow down the reads.
 */
static struct {
	/* Whether any CPU has been offline at some time since the policy was loaded. */
	bool any;
	/* For each CPU, whether it is offline. */
	bool cpus[MAX_CPUS];
} offline CPU_ALIGNED;

/* Returns whether a CPU is online. */
static __always_inline bool is_online(u32 cpu)
{
	return !offline.cpus[cpu & (MAX_CPUS - 1)];
}

/* Records that a CPU is online (`now` is true) or offline. */
static __always_inline void set_online(u32 cpu, bool now)
{
	offline.cpus[cpu & (MAX_CPUS - 1)] = !now;
	if (!now)
		offline.any = true;
}

/* Reads from the kernel which CPUs are online. Called when the policy is loaded. */
static __always_inline void online_init(void)
{
	const struct cpumask *mask = scx_bpf_get_online_cpumask();
	u32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids())
		set_online(cpu, bpf_cpumask_test_cpu(cpu, mask));
	scx_bpf_put_cpumask(mask);
}

/* Returns whether the current CPU is going offline and no longer handles interrupts. */
static __always_inline bool is_gone(u32 this_cpu)
{
	const struct cpumask *mask = scx_bpf_get_online_cpumask();
	bool gone = !bpf_cpumask_test_cpu(this_cpu, mask);

	scx_bpf_put_cpumask(mask);
	return gone;
}

/*
 * Handles a wake-up by a CPU that no longer handles interrupts: inserts the woken task into the
 * local dispatch queue of the task's CPU, without a kick. Does nothing for other wake-ups. Returns
 * whether it inserted the task. Called from ops.enqueue().
 */
static __always_inline bool woken_by_gone_cpu(struct task_struct *p, u64 slice, u64 enq_flags)
{
	u32 this_cpu = bpf_get_smp_processor_id();

	if (!offline.any || is_online(this_cpu) || !is_gone(this_cpu))
		return false;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice, enq_flags | SCX_ENQ_PREEMPT);
	return true;
}

#endif
