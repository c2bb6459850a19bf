/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Choice of a CPU for a woken task, as in reschedule_idle() of Linux 2.4 and 2.5.
 *
 * The choice depends on the task that each CPU runs, and on the time at which each idle CPU became
 * idle. The callbacks in this header keep this state up to date. The policy defines goodness(), the
 * value by which tasks are compared. The task with the highest goodness should run. A task is
 * identified by its slot, the index of its list node (run_list.h).
 */
#ifndef RESCHEDULE_IDLE_H
#define RESCHEDULE_IDLE_H

#include "online.h"
#include "run_list.h"
#include "tick_period.h"

/* State of one CPU. */
struct cpu_ctx {
	/*
	 * Memory map of the last task that had one. It stays loaded while the CPU idles or runs a
	 * kernel thread (active_mm in Linux).
	 */
	u64 mm;
	/* Time at which the CPU last became idle. */
	u64 idle_since;
	/* Times of the CPU's ticks, from which tick_period() computes the length of a tick. */
	struct ticks ticks;
	/* Slot of the running task, or HEAD. */
	u32 curr;
	bool idle;
} __attribute__((aligned(64)));
/* States of all CPUs. */
static struct cpu_ctx cpu_ctxs[MAX_CPUS];
/* Number of CPUs, set in ops.init(). */
static s32 nr_cpus;

/* Returns the state of a CPU. */
static __always_inline struct cpu_ctx *cpu_ctx(s32 cpu)
{
	return &cpu_ctxs[cpu & (MAX_CPUS - 1)];
}

/*
 * Returns the goodness of a task on a CPU whose loaded memory map is `mm`. Defined by the policy.
 */
static s32 goodness(struct node *n, s32 cpu, u64 mm);

/*
 * Returns the CPU on which a waiting task should run, or -1 if the task must wait. Chooses the
 * task's last CPU if that is idle, else the CPU that has been idle longest. If no CPU is idle,
 * chooses the CPU where goodness(waiting task) - goodness(running task) is largest, but only if
 * this difference exceeds 1. If the waiting task preempts a running task, sets `preempts`. The
 * caller holds the lock of the list.
 */
static __always_inline s32 reschedule_idle(u32 slot, bool *preempts)
{
	struct node *n = node_at(slot);
	s32 cpu, oldest = -1, target = -1, most = 1;
	u64 since = 0;

	*preempts = false;
	if (may_run(slot, n->last_cpu) && cpu_ctx(n->last_cpu)->idle)
		return n->last_cpu;
	bpf_for(cpu, 0, nr_cpus) {
		struct cpu_ctx *c = cpu_ctx(cpu);

		if (!may_run(slot, cpu))
			continue;
		if (c->idle) {
			if (oldest < 0 || c->idle_since < since) {
				oldest = cpu;
				since = c->idle_since;
			}
		} else if (oldest < 0 && c->curr && c->curr != slot) {
			struct node *curr = node_at(c->curr);
			s32 better = goodness(n, cpu, curr->mm) - goodness(curr, cpu, curr->mm);

			if (better > most) {
				most = better;
				target = cpu;
			}
		}
	}
	if (oldest >= 0)
		return oldest;
	*preempts = target >= 0;
	return target;
}

/* Records the task that the CPU runs and its memory map. */
void SCX_OP(list_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *c = cpu_ctx(cpu);
	u32 slot = task_slot(p);
	struct node *n = node_at(slot);

	c->curr = slot;
	c->idle = false;
	if (!slot)
		return;
	n->cpu = cpu;
	n->last_cpu = cpu;
	n->expired = false;
	if (n->mm)
		c->mm = n->mm;
}

/* Records that the CPU runs no task of the policy. */
void SCX_OP(list_stopping, struct task_struct *p, bool runnable)
{
	cpu_ctx(scx_bpf_task_cpu(p))->curr = HEAD;
}

/* Records whether the CPU is idle, and the time at which it became idle. */
void SCX_OP(list_update_idle, s32 cpu, bool idle)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	c->idle = idle && is_online(cpu);
	if (idle)
		c->idle_since = scx_bpf_now();
}

/* Records that a CPU is online and idle. */
void SCX_OP(list_cpu_online, s32 cpu)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	set_online(cpu, true);
	c->idle_since = scx_bpf_now();
	c->idle = true;
}

/*
 * Records that a CPU goes offline. After this call the CPU becomes idle once more.
 * list_update_idle() then does not record it as idle, so that no task is placed there.
 */
void SCX_OP(list_cpu_offline, s32 cpu)
{
	set_online(cpu, false);
	cpu_ctx(cpu)->idle = false;
}

/* Initializes the state of all CPUs. */
s32 SCX_OP_SLEEPABLE(list_init)
{
	s32 cpu;

	nr_cpus = scx_bpf_nr_cpu_ids();
	online_init();
	/*
	 * The kernel does not call ops.update_idle() for CPUs that are already idle. All online
	 * CPUs are therefore assumed to be idle.
	 */
	bpf_for(cpu, 0, nr_cpus)
		cpu_ctx(cpu)->idle = is_online(cpu);
	return 0;
}

/* Entries for the callback table of the policy. */
#define CPU_STATE_CALLBACKS                                                                        \
	.running = (void *)list_running,                                                           \
	.stopping = (void *)list_stopping,                                                         \
	.update_idle = (void *)list_update_idle,                                                   \
	.cpu_online = (void *)list_cpu_online,                                                     \
	.cpu_offline = (void *)list_cpu_offline,                                                   \
	.init = (void *)list_init

#endif
