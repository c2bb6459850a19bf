/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * p9: Plan 9's scheduler, one queue of 20 priority levels for all CPUs.
 *
 * Processes that mostly wait have a high level and run first. The level follows from the CPU time
 * that a process used recently, compared with its fair share (plan9.h).
 *
 * Data structures: one dispatch queue (DSQ) that all CPUs share, ordered by level and then by
 * arrival.
 * Wake-up: a random idle CPU is woken. In Plan 9, idle CPUs watch the queue, and any of them may
 * see the process first.
 * Enqueue: the process gets a new level and is inserted behind the processes of that level. If no
 * CPU is idle and the CPU that wakes the process runs a process of a lower level, the running
 * process is preempted.
 * Dispatch: the CPU prefers processes that last ran on this CPU, that have never run, or that have
 * not changed CPUs for move_ns. The CPU takes the first preferred process in the queue. If there is
 * none and the CPU would otherwise be idle, it takes the first process in the queue. A running
 * process continues if all preferred processes have lower levels.
 * Tick: the running process is preempted if the first waiting process has a higher level.
 * Locks: the lock of the DSQ.
 *
 * Good for: short waits of interactive processes on a few CPUs. No CPU idles while a process waits.
 * Bad for: many CPUs, processes that depend on warm caches, and equal run times of equal processes.
 * All CPUs share one lock, and a process runs on any free CPU.
 * Source: the scheduler with which "Plan 9 multi-queue scheduler: stats and updates" (9atom, 2014)
 * compares. Levels and decay are those of Plan 9.
 *
 * Different here: the usage of a process is tracked in continuous time instead of ticks. The load
 * is the current number of runnable processes instead of its average over a second. Ticks are those
 * of the machine instead of 100 per second.
 */
#include "include/cpu_array.h"
#include "include/hotplug.h"
#include "include/plan9.h"

char _license[] SEC("license") = "GPL";

/* ID of the shared DSQ. */
#define QUEUE 0
/* Number of waiting processes that one dispatch examines. */
#define MAX_LOOK 256

const volatile u64 move_ns PARAM("ns, 0..100000000000: after a move to another CPU, only that CPU prefers the process for this long; 0: all CPUs may take it") = 100000000;

/* Number of processes that were preempted by a process of a higher level. */
u64 nr_preempted;
/* Number of runnable processes. */
static u64 nr_runnable;

/* The process that a CPU runs. */
struct cpu {
	/* Whether the CPU runs a process of this policy. */
	bool running;
	/* Level of that process. */
	u32 level;
} CPU_ALIGNED;

CPU_VARIABLES(cpu)

/*
 * Claims a random idle CPU on which the process may run. A claim removes the CPU from the kernel's
 * idle mask. Returns the CPU, or -1 if all such CPUs are busy.
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

/* Claims an idle CPU for the woken process, or keeps the previous CPU. */
s32 SCX_OP(p9_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = first_to_see(p);

	return cpu >= 0 ? cpu : prev_cpu;
}

/*
 * Inserts a process into the queue. Wakes an idle CPU for the process. If no CPU is idle, preempts
 * the process that the waking CPU runs, if that process has a lower level.
 */
void SCX_OP(p9_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct plan9_task *t = plan9_task(p);
	u32 this_cpu = bpf_get_smp_processor_id(), cpu = scx_bpf_task_cpu(p);
	struct cpu *this, *at = cpu_of(cpu);
	s32 idle;

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (!t || woken_by_gone_cpu(p, quantum_ns, enq_flags))
		return;
	plan9_account(t, false);
	t->level = plan9_level(p, t, scx_bpf_nr_cpu_ids(), nr_runnable);
	plan9_insert(p, t, QUEUE, enq_flags);
	/*
	 * If the CPU of a woken process runs no process, ops.select_cpu() has chosen this idle CPU.
	 * The CPU is about to call ops.dispatch(), so it needs no kick.
	 */
	if ((enq_flags & SCX_ENQ_WAKEUP) && at && !at->running)
		return;
	idle = first_to_see(p);
	if (idle >= 0) {
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
		return;
	}
	/* In Plan 9, an interrupt that wakes a process checks the queue before it returns. */
	this = cpu_of(this_cpu);
	if ((enq_flags & SCX_ENQ_WAKEUP) && this && this->running && this->level < t->level &&
	    bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr)) {
		__sync_fetch_and_add(&nr_preempted, 1);
		scx_bpf_kick_cpu(this_cpu, SCX_KICK_PREEMPT);
	}
}

/*
 * Takes the first waiting process that has at least level `level` and that this CPU prefers: the
 * process last ran on this CPU, has never run, or has not changed CPUs for move_ns. If there is no
 * such process and `idle` is set, takes the first process in the queue. Returns whether it took a
 * process.
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

/* Runs the next waiting process, or lets the running process continue with a new quantum. */
void SCX_OP(p9_dispatch, s32 cpu, struct task_struct *prev)
{
	struct plan9_task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? plan9_task(prev) : NULL;

	if (t) {
		plan9_account(t, true);
		t->level = plan9_level(prev, t, scx_bpf_nr_cpu_ids(), nr_runnable);
	}
	/* The running process continues if all waiting ones have lower levels. */
	if (runproc(cpu, t ? t->level : 0, !t))
		return;
	if (t)
		prev->scx.slice = quantum_ns;
}

/* Preempts the running process if a process of a higher level waits. */
void SCX_OP(p9_tick, struct task_struct *p)
{
	struct plan9_task *t = plan9_task(p);

	if (t && plan9_highest(QUEUE) > (s32)t->level) {
		__sync_fetch_and_add(&nr_preempted, 1);
		p->scx.slice = 0;
	}
}

/* Counts a process that becomes runnable. */
void SCX_OP(p9_runnable, struct task_struct *p, u64 enq_flags)
{
	__sync_fetch_and_add(&nr_runnable, 1);
}

/*
 * Records the level of the process that starts to run. If the process changed CPUs, records the
 * time.
 */
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

/* Charges the CPU time of the process and records that the CPU runs no process. */
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

/* Counts a process that is no longer runnable. */
void SCX_OP(p9_quiescent, struct task_struct *p, u64 deq_flags)
{
	__sync_fetch_and_add(&nr_runnable, -1);
}

/* Creates the state of a new process. */
s32 SCX_OP(p9_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return plan9_init_task(p);
}

/* Creates the shared queue. */
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
