/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracking of the CPUs that are online.
 *
 * The kernel unloads a policy without ops.cpu_online() and ops.cpu_offline() when a CPU goes online
 * or offline. A policy with these callbacks stays loaded and must handle three situations:
 *
 * - Tasks in the queue of a CPU that goes offline. The CPU first runs what waits in its queues, and
 *   the kernel (balance_push()) moves those tasks to other CPUs. The CPU cannot take a task that
 *   ran elsewhere last, so the policy must move it away (pass_on.h).
 * - A kick that never completes. The last action of the CPU is to wake the task that waits for its
 *   shutdown. scx_bpf_kick_cpu() would first send an interrupt to the CPU itself, which no longer
 *   handles interrupts. The kick would stay pending, and the kernel would wait for it when it
 *   unloads the policy. woken_by_gone_cpu() therefore inserts that task without a kick.
 * - An offline CPU in the idle mask. The mask can contain an offline CPU, because the CPU goes idle
 *   before it is gone. A policy that only reads the mask must also check is_online(). A policy that
 *   claims idle CPUs with scx_bpf_pick_idle_cpu() gets the offline CPU at most once, and then wakes
 *   no CPU that time.
 */
#ifndef ONLINE_H
#define ONLINE_H

#include "cpu_array.h"

/* State that every wake-up reads. It has cache lines of its own, because it rarely changes. */
static struct {
	/* Whether a CPU is offline or has been offline since the policy was loaded. */
	bool any;
	/* Whether each CPU is offline. */
	bool cpus[MAX_CPUS];
} offline CPU_ALIGNED;

/* Returns whether a CPU is online. */
static __always_inline bool is_online(u32 cpu)
{
	return !offline.cpus[cpu & (MAX_CPUS - 1)];
}

/* Records whether a CPU is online. */
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

/* Returns whether the CPU that runs this code no longer handles interrupts. */
static __always_inline bool is_gone(u32 this_cpu)
{
	const struct cpumask *mask = scx_bpf_get_online_cpumask();
	bool gone = !bpf_cpumask_test_cpu(this_cpu, mask);

	scx_bpf_put_cpumask(mask);
	return gone;
}

/*
 * Inserts a task into the local DSQ of its CPU, without a kick, if the waking CPU no longer handles
 * interrupts. Returns whether it did. Called from ops.enqueue().
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
