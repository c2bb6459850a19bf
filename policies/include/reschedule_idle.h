/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a task that wakes up runs, as reschedule_idle() of Linux 2.4 and 2.5 decided it, and the state of the
 * CPUs that this takes: what each runs, and since when it is idle.
 *
 * The includer defines goodness().
 */
#ifndef RESCHEDULE_IDLE_H
#define RESCHEDULE_IDLE_H

#include "online.h"
#include "run_list.h"
#include "tick_period.h"

struct cpu_ctx {
	/* Memory map of the last task that had one (active_mm). */
	u64 mm;
	u64 idle_since;
	struct ticks ticks;
	/* Slot of the running task, or HEAD. */
	u32 curr;
	bool idle;
} __attribute__((aligned(64)));
static struct cpu_ctx cpu_ctxs[MAX_CPUS];
/* Set in ops.init(). */
static s32 nr_cpus;

static __always_inline struct cpu_ctx *cpu_ctx(s32 cpu)
{
	return &cpu_ctxs[cpu & (MAX_CPUS - 1)];
}

/* Returns how much a task deserves a CPU whose last task had the memory map `mm`. */
static s32 goodness(struct node *n, s32 cpu, u64 mm);

/*
 * Returns the CPU that a waiting task should take, in this order: its last one if that is idle, the one that
 * has been idle longest, the one whose running task it beats by most and by more than 1. Returns -1 if there
 * is no such CPU. The caller holds the lock of the list.
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

void SCX_OP(list_stopping, struct task_struct *p, bool runnable)
{
	cpu_ctx(scx_bpf_task_cpu(p))->curr = HEAD;
}

void SCX_OP(list_update_idle, s32 cpu, bool idle)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	c->idle = idle && is_online(cpu);
	if (idle)
		c->idle_since = scx_bpf_now();
}

void SCX_OP(list_cpu_online, s32 cpu)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	set_online(cpu, true);
	c->idle_since = scx_bpf_now();
	c->idle = true;
}

/* The CPU goes idle once more after this, and no task may be sent to it then. */
void SCX_OP(list_cpu_offline, s32 cpu)
{
	set_online(cpu, false);
	cpu_ctx(cpu)->idle = false;
}

s32 SCX_OP_SLEEPABLE(list_init)
{
	s32 cpu;

	nr_cpus = scx_bpf_nr_cpu_ids();
	online_init();
	/* ops.update_idle() is not called for CPUs that are idle already: all online ones are taken to be. */
	bpf_for(cpu, 0, nr_cpus)
		cpu_ctx(cpu)->idle = is_online(cpu);
	return 0;
}

#define CPU_STATE_CALLBACKS                                                                        \
	.running = (void *)list_running,                                                           \
	.stopping = (void *)list_stopping,                                                         \
	.update_idle = (void *)list_update_idle,                                                   \
	.cpu_online = (void *)list_cpu_online,                                                     \
	.cpu_offline = (void *)list_cpu_offline,                                                   \
	.init = (void *)list_init

#endif
