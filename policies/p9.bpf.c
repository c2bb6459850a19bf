/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * p9: Plan 9's scheduler, one queue of 20 priority levels for all CPUs.
 *
 * Every CPU takes the process of the highest level from one shared structure under one lock. Levels follow from what a
 * process used lately against its fair share (see plan9.h), so that those which mostly wait come first. A process goes on
 * until its quantum is over and another of its level waits, or, at a tick or after an interrupt, one of a higher level.
 *
 * Good for: no CPU idles while a process waits; short waits for interactive processes on a few CPUs.
 * Bad for: many CPUs (one lock), caches (a process runs where there is room), even run times.
 * Source: "Plan 9 multi-queue scheduler: stats and updates" (9atom, 2014), its baseline; levels and decay as in Plan 9.
 * Different here: the share is kept in continuous time, not in ticks; the load is the number of runnable processes now,
 * not its average over a second; a CPU's first look at processes that ran there last is left out; ticks are the
 * machine's, not 100 a second.
 */
#include "include/plan9.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0
#define MAX_CPUS 1024

/* Processes sent away for one of a higher level. */
u64 nr_preempted;
/* Runnable processes. */
static u64 nr_runnable;

struct cpu {
	bool running;
	u32 level;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* All that matters is that an idle CPU, if there is one, comes and looks. */
s32 SCX_OP(p9_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;

	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

void SCX_OP(p9_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct plan9_task *t = plan9_task(p);
	u32 this_cpu = bpf_get_smp_processor_id();
	struct cpu *this;
	s32 idle;

	if (!t)
		return;
	plan9_account(t, false);
	t->level = plan9_level(p, t, scx_bpf_nr_cpu_ids(), nr_runnable);
	plan9_insert(p, t, QUEUE, enq_flags);
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0) {
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
		return;
	}
	/* The interrupt that readied it ends with a look at the queue. */
	this = bpf_map_lookup_elem(&cpus, &this_cpu);
	if ((enq_flags & SCX_ENQ_WAKEUP) && this && this->running && this->level < t->level &&
	    bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr)) {
		__sync_fetch_and_add(&nr_preempted, 1);
		scx_bpf_kick_cpu(this_cpu, SCX_KICK_PREEMPT);
	}
}

void SCX_OP(p9_dispatch, s32 cpu, struct task_struct *prev)
{
	struct plan9_task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? plan9_task(prev) : NULL;

	if (t) {
		plan9_account(t, true);
		t->level = plan9_level(prev, t, scx_bpf_nr_cpu_ids(), nr_runnable);
	}
	/* It goes on if all that wait are of lower levels. */
	if ((!t || plan9_highest(QUEUE) >= (s32)t->level) && scx_bpf_dsq_move_to_local(QUEUE))
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
	struct cpu *c = bpf_map_lookup_elem(&cpus, &cpu);

	if (!t || !c)
		return;
	plan9_account(t, false);
	c->running = true;
	c->level = t->level;
}

void SCX_OP(p9_stopping, struct task_struct *p, bool runnable)
{
	struct plan9_task *t = plan9_task(p);
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = bpf_map_lookup_elem(&cpus, &cpu);

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
