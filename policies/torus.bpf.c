/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * torus: Plan 9's scheduler on one queue for each CPU, with pushes to neighbours on a torus.
 *
 * Each CPU runs Plan 9's algorithm (plan9.h) on its own queue. Processes move only between
 * neighbours. The CPUs form a two-dimensional torus, in which each has four neighbours
 * (torus_neighbours.h).
 *
 * Data structures: for each CPU a dispatch queue (DSQ), ordered by level and then by arrival, a
 * timer, and a load average.
 * Fork: a new process goes to its creator's CPU or to a neighbour of that CPU, whichever has the
 * fewest runnable processes.
 * Wake-up: a process stays with its previous CPU.
 * Enqueue: the process gets a new level and is inserted behind the processes of that level. The
 * process preempts the running process if that has a lower level.
 * Dispatch: the CPU takes the first process of its queue, unless the running process has a higher
 * level.
 * Tick: the running process is preempted if the first waiting process has a higher level.
 * Timer: every check_period_ns, a CPU that runs one process and has others waiting examines its
 * neighbours. The CPU pushes a waiting process to the first idle neighbour. If no neighbour is
 * idle, the CPU pushes a process to the neighbour with the lowest load, if that load is lower than
 * its own by at least `margin` percent.
 * Locks: the lock of each DSQ. A CPU acquires the lock of another CPU's DSQ only to push a process
 * there.
 *
 * No CPU takes processes from other CPUs, and no CPU looks further than its neighbours. An idle CPU
 * therefore gets processes only from its neighbours, and not from all CPUs at once. A process that
 * is bound to one CPU (wired, in Plan 9) never moves.
 *
 * Good for: many CPUs, and equal run times of equal processes. No lock is shared by all CPUs.
 * Bad for: a load that starts in one corner of a large torus, because each check moves a process by
 * one neighbour only. A CPU may idle for up to check_period_ns while processes wait elsewhere.
 * Source: "Plan 9 multi-queue scheduler: stats and updates" (9atom, 2014).
 *
 * Different here: a wired process is one with an affinity to a single CPU. The timer of an idle CPU
 * stops. The load of a CPU is the average number of its runnable processes over load_window_ns. A
 * CPU pushes no process to a neighbour that currently has at least as many runnable processes as
 * the CPU itself.
 */
#include "include/pass_on.h"
#include "include/torus_cpu.h"

char _license[] SEC("license") = "GPL";

u64 check_period_ns PARAM("ns, 10000..1000000000: interval at which a CPU compares itself with its neighbours") = 500000;
u32 margin PARAM("percent, 1..100: how much lower a neighbour's load must be for a push") = 25;

/*
 * Counters, in this order: pushes to idle neighbours, pushes to neighbours with a lower load, and
 * new processes that started on a neighbour of their creator's CPU.
 */
u64 nr_pushed_idle, nr_pushed_load, nr_forks_moved;

/*
 * Pushes a waiting process to an idle neighbour. If no neighbour is idle, pushes a process to the
 * neighbour with the lowest load, if that is low enough (`margin`).
 */
static __always_inline void balance(struct cpu *c, u32 cpu)
{
	u64 least = c->load * (100 - (margin <= 100 ? margin : 100)) / 100;
	s32 target = -1, i;

	bpf_for(i, 0, c->beside.nr) {
		u32 other = neighbour(&c->beside, i), runnable;
		struct cpu *o = cpu_of(other);

		if (!o || !is_online(other))
			continue;
		runnable = nr_runnable(o, other);
		if (!runnable) {
			if (push(cpu, other, SCX_DSQ_LOCAL_ON | other)) {
				__sync_fetch_and_add(&nr_pushed_idle, 1);
				return;
			}
			continue;
		}
		update_load(o, other);
		if (o->load <= least && runnable < nr_runnable(c, cpu)) {
			least = o->load;
			target = other;
		}
	}
	if (target >= 0 && push(cpu, target, target))
		__sync_fetch_and_add(&nr_pushed_load, 1);
}

/*
 * Runs when a CPU's timer expires. Tries to push a process if the CPU is running one and has
 * another one waiting, and restarts the timer.
 */
static int check(void *map, u32 *key, struct cpu *c)
{
	u32 cpu = *key;

	update_load(c, cpu);
	if (c->running && scx_bpf_dsq_nr_queued(cpu) > 0)
		balance(c, cpu);
	/* The timer of an idle CPU stops. ops.running() starts it again. */
	if (c->running || scx_bpf_dsq_nr_queued(cpu) > 0)
		bpf_timer_start(&c->timer, check_period_ns, BPF_F_TIMER_CPU_PIN);
	else
		c->armed = 0;
	return 0;
}

/* Moves all processes out of the queue of a CPU that goes offline. See pass_on.h. */
static __always_inline void pass_on_all(s32 cpu)
{
	pass_on(cpu);
}

/*
 * Places a new process on its creator's CPU or a neighbour of that CPU, whichever has the fewest
 * runnable processes. A woken process stays with its previous CPU.
 */
s32 SCX_OP(torus_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 creator = bpf_get_smp_processor_id(), best = creator, least, i;
	struct cpu *c = cpu_of(creator);

	if (!(wake_flags & SCX_WAKE_FORK) || !c)
		return prev_cpu;
	least = bpf_cpumask_test_cpu(creator, p->cpus_ptr) ? nr_runnable(c, creator) : -1U;
	bpf_for(i, 0, c->beside.nr) {
		u32 other = neighbour(&c->beside, i), runnable;
		struct cpu *o = cpu_of(other);

		if (!o || !is_online(other) || !bpf_cpumask_test_cpu(other, p->cpus_ptr))
			continue;
		runnable = nr_runnable(o, other);
		if (runnable < least) {
			least = runnable;
			best = other;
		}
	}
	if (least == -1U)
		return prev_cpu;
	if (best != creator)
		__sync_fetch_and_add(&nr_forks_moved, 1);
	return best;
}

/*
 * Inserts a process into the queue of its CPU, and preempts the running process if that has a lower
 * level.
 */
void SCX_OP(torus_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct plan9_task *t = plan9_task(p);
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (!t || !c || woken_by_gone_cpu(p, quantum_ns, enq_flags))
		return;
	plan9_account(t, false);
	t->level = plan9_level(p, t, 1, nr_runnable(c, cpu) + 1);
	plan9_insert(p, t, cpu, enq_flags);
	if (!c->running)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	else if ((enq_flags & SCX_ENQ_WAKEUP) && c->level < t->level)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Runs the first waiting process, or lets the running process continue with a new quantum. */
void SCX_OP(torus_dispatch, s32 cpu, struct task_struct *prev)
{
	struct plan9_task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? plan9_task(prev) : NULL;
	struct cpu *c = cpu_of(cpu);

	if (t && c) {
		plan9_account(t, true);
		t->level = plan9_level(prev, t, 1, nr_runnable(c, cpu));
	}
	/* The running process continues if all waiting ones have lower levels. */
	if ((!t || plan9_highest(cpu) >= (s32)t->level) && scx_bpf_dsq_move_to_local(cpu))
		return;
	if (t)
		prev->scx.slice = quantum_ns;
	else if (scx_bpf_dsq_nr_queued(cpu) > 0)
		pass_on(cpu);
}

/* Preempts the running process if a process of a higher level waits. */
void SCX_OP(torus_tick, struct task_struct *p)
{
	struct plan9_task *t = plan9_task(p);

	if (t && plan9_highest(scx_bpf_task_cpu(p)) > (s32)t->level)
		p->scx.slice = 0;
}

/* Records which process the CPU runs, and starts the CPU's timer if it is stopped. */
void SCX_OP(torus_running, struct task_struct *p)
{
	struct plan9_task *t = plan9_task(p);
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);

	if (!t || !c)
		return;
	plan9_account(t, false);
	update_load(c, cpu);
	c->running = true;
	c->level = t->level;
	if (!c->armed) {
		c->armed = 1;
		bpf_timer_start(&c->timer, check_period_ns, BPF_F_TIMER_CPU_PIN);
	}
}

/* Charges the CPU time of the process and records that the CPU runs no process. */
void SCX_OP(torus_stopping, struct task_struct *p, bool runnable)
{
	struct plan9_task *t = plan9_task(p);
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);

	if (t)
		plan9_account(t, true);
	if (c) {
		update_load(c, cpu);
		c->running = false;
	}
}

/* Creates the state of a new process. */
s32 SCX_OP(torus_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return plan9_init_task(p);
}

/*
 * Creates each CPU's queue, neighbours and timer. Fails if torus_rows does not divide the number of
 * CPUs.
 */
s32 SCX_OP_SLEEPABLE(torus_init)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), rows = rows_of_torus(nr_cpus);
	s32 cpu, ret;

	if (!nr_cpus || nr_cpus > MAX_CPUS)
		return -E2BIG;
	if (!rows)
		return -EINVAL;
	online_init();
	bpf_for(cpu, 0, nr_cpus) {
		struct cpu *c = cpu_of(cpu);

		if (!c)
			return -ENOENT;
		find_neighbours(&c->beside, cpu, nr_cpus, rows);
		bpf_timer_init(&c->timer, &cpus, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&c->timer, check);
		ret = scx_bpf_create_dsq(cpu, -1);
		if (ret)
			return ret;
	}
	return 0;
}

SCX_OPS(torus_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)torus_select_cpu,
	.enqueue = (void *)torus_enqueue,
	.dispatch = (void *)torus_dispatch,
	.tick = (void *)torus_tick,
	.running = (void *)torus_running,
	.stopping = (void *)torus_stopping,
	.init_task = (void *)torus_init_task,
	.init = (void *)torus_init,
	.name = "torus");
