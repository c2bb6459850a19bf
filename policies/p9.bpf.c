/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * p9: Plan 9's scheduler, one queue of 20 priority levels for all CPUs.
 *
 * All processes wait in one structure with one lock. A CPU takes the first process that ran there last, has
 * not run yet, or has not moved for a while. If there is none, it takes the first of all. The level of a
 * process follows from what it used lately of its fair share (plan9.h), so processes that mostly wait come
 * first.
 *
 * A process runs until its quantum is over and another one of its level waits. At a tick or after an
 * interrupt it also gives way to a process of a higher level.
 *
 * Good for: no CPU idles while a process waits; short waits for interactive processes on a few CPUs.
 * Bad for: many CPUs, since there is one lock; caches, since a process runs where there is room; even run
 * times.
 * Source: "Plan 9 multi-queue scheduler: stats and updates" (9atom, 2014), its baseline; levels and decay as
 * in Plan 9.
 *
 * Different here: the share of a process is kept in continuous time, not in ticks. The load is the number of
 * runnable processes at the moment, not the average over a second. Ticks are those of the machine, not 100 a
 * second.
 */
#include "include/cpu_array.h"
#include "include/hotplug.h"
#include "include/plan9.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0
/* Waiting processes that a choice examines for one that ran here. */
#define MAX_LOOK 256

const volatile u64 move_ns PARAM("ns, 0..100000000000: a process that moved this lately is left to its CPU first; 0: to none") = 100000000;

/* Processes that were preempted by one of a higher level. */
u64 nr_preempted;
/* Number of runnable processes. */
static u64 nr_runnable;

struct cpu {
	bool running;
	u32 level;
} CPU_ALIGNED;

CPU_VARIABLES(cpu)

/*
 * Returns a random idle CPU, or -1. In Plan 9 idle CPUs watch the queue, and any of them may be the first to
 * see a process.
 */
static __always_inline s32 first_to_see(struct task_struct *p)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), start = bpf_get_prandom_u32() % nr_cpus, i;
	s32 found = -1;

	bpf_for(i, 0, nr_cpus) {
		s32 cpu = (start + i) % nr_cpus;

		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && scx_bpf_test_and_clear_cpu_idle(cpu)) {
			found = cpu;
			break;
		}
	}
	return found;
}

s32 SCX_OP(p9_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = first_to_see(p);

	return cpu >= 0 ? cpu : prev_cpu;
}

void SCX_OP(p9_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct plan9_task *t = plan9_task(p);
	u32 this_cpu = bpf_get_smp_processor_id(), cpu = scx_bpf_task_cpu(p);
	struct cpu *this, *at = cpu_of(cpu);
	s32 idle;

	if (!t || woken_by_gone_cpu(p, quantum_ns, enq_flags))
		return;
	plan9_account(t, false);
	t->level = plan9_level(p, t, scx_bpf_nr_cpu_ids(), nr_runnable);
	plan9_insert(p, t, QUEUE, enq_flags);
	/* A process that was woken on an idle CPU is found there by ops.dispatch(). */
	if ((enq_flags & SCX_ENQ_WAKEUP) && at && !at->running)
		return;
	idle = first_to_see(p);
	if (idle >= 0) {
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
		return;
	}
	/* The interrupt that woke the process ends with a look at the queue. */
	this = cpu_of(this_cpu);
	if ((enq_flags & SCX_ENQ_WAKEUP) && this && this->running && this->level < t->level &&
	    bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr)) {
		__sync_fetch_and_add(&nr_preempted, 1);
		scx_bpf_kick_cpu(this_cpu, SCX_KICK_PREEMPT);
	}
}

/*
 * Runs the first process of `level` or above that ran here last, has not run yet, or has not moved for a
 * while. If there is no such process and the CPU is about to idle, it runs the first of all.
 */
static __always_inline bool runproc(s32 cpu, s32 level, bool idle)
{
	struct bpf_iter_scx_dsq it;
	u64 now = bpf_ktime_get_ns();
	bool found = false;
	u32 i;

	if (!bpf_iter_scx_dsq_new(&it, QUEUE, 0)) {
		bpf_for(i, 0, MAX_LOOK) {
			struct task_struct *p = bpf_iter_scx_dsq_next(&it);
			struct plan9_task *t = p ? plan9_task(p) : NULL;

			if (!t || (s32)t->level < level)
				break;
			if ((t->cpu >= 0 && t->cpu != cpu && now - t->moved < move_ns) ||
			    !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
				continue;
			found = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0);
			if (found)
				break;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return found || (idle && scx_bpf_dsq_move_to_local(QUEUE));
}

void SCX_OP(p9_dispatch, s32 cpu, struct task_struct *prev)
{
	struct plan9_task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? plan9_task(prev) : NULL;

	if (t) {
		plan9_account(t, true);
		t->level = plan9_level(prev, t, scx_bpf_nr_cpu_ids(), nr_runnable);
	}
	/* The running process goes on if all waiting ones are of lower levels. */
	if (runproc(cpu, t ? t->level : 0, !t))
		return;
	if (t)
		prev->scx.slice = quantum_ns;
}

void SCX_OP(p9_tick, struct task_struct *p)
{
	struct plan9_task *t = plan9_task(p);

	if (t && plan9_highest(QUEUE) > (s32)t->level) {
		__sync_fetch_and_add(&nr_preempted, 1);
		p->scx.slice = 0;
	}
}

void SCX_OP(p9_runnable, struct task_struct *p, u64 enq_flags)
{
	__sync_fetch_and_add(&nr_runnable, 1);
}

void SCX_OP(p9_running, struct task_struct *p)
{
	struct plan9_task *t = plan9_task(p);
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);

	if (!t || !c)
		return;
	plan9_account(t, false);
	if (t->cpu != (s32)cpu)
		t->moved = bpf_ktime_get_ns();
	t->cpu = cpu;
	c->running = true;
	c->level = t->level;
}

void SCX_OP(p9_stopping, struct task_struct *p, bool runnable)
{
	struct plan9_task *t = plan9_task(p);
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);

	if (t)
		plan9_account(t, true);
	if (c)
		c->running = false;
}

void SCX_OP(p9_quiescent, struct task_struct *p, u64 deq_flags)
{
	__sync_fetch_and_add(&nr_runnable, -1);
}

s32 SCX_OP(p9_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return plan9_init_task(p);
}

s32 SCX_OP_SLEEPABLE(p9_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(p9_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)p9_select_cpu,
	.enqueue = (void *)p9_enqueue,
	.dispatch = (void *)p9_dispatch,
	.tick = (void *)p9_tick,
	.runnable = (void *)p9_runnable,
	.running = (void *)p9_running,
	.stopping = (void *)p9_stopping,
	.quiescent = (void *)p9_quiescent,
	.init_task = (void *)p9_init_task,
	.init = (void *)p9_init,
	.name = "p9");
