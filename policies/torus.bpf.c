/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * torus: Plan 9's scheduler on one queue for each CPU, with pushes to neighbours on a torus.
 *
 * Each CPU runs the algorithm of plan9.h on its own queue. A new process goes to the least loaded of its
 * creator's CPU and that CPU's neighbours. Every check_period_ns, a CPU that runs one process and has others
 * waiting looks at its neighbours. It pushes a process to an idle neighbour at once, or else to a neighbour
 * whose load is lower by `margin` percent.
 *
 * No CPU steals or looks further than its neighbours, so an idle CPU is not the target of all others at once.
 * Processes wired to a CPU never move.
 *
 * Good for: many CPUs, since no lock is shared; even run times of equal processes.
 * Bad for: work on one spot of a large torus, which spreads by one neighbour a check; a CPU may idle for up
 * to a check's period.
 * Source: "Plan 9 multi-queue scheduler: stats and updates" (9atom, 2014).
 *
 * Different here: a wired process is one that may run on one CPU only. The timer of an idle CPU stops. Load
 * is the average number of runnable processes over load_window_ns, and no process is pushed to a CPU that has
 * as many at the moment.
 */
#include "include/cpu_array.h"
#include "include/pass_on.h"
#include "include/plan9.h"
#include "include/torus_neighbours.h"

char _license[] SEC("license") = "GPL";

/* Waiting processes that a push examines for one that may move. */
#define MAX_LOOK 64
/* The unit of loads. */
#define LOAD_ONE (1ULL << 20)

u64 check_period_ns PARAM("ns, 10000..1000000000: time between a CPU's looks at its neighbours") = 500000;
u32 margin PARAM("percent, 1..100: a neighbour's load must be lower by so much") = 25;
u64 load_window_ns PARAM("ns, 1000000..100000000000: time over which loads are averaged") = 1000000000;

/* Pushes to idle neighbours, to less loaded ones, and new processes placed on a neighbour. */
u64 nr_pushed_idle, nr_pushed_load, nr_forks_moved;

struct cpu {
	struct bpf_timer timer;
	u64 load;
	/* Time of the last change of `load`. */
	u64 updated;
	u32 armed;
	bool running;
	u32 level;
	struct neighbours beside;
} CPU_ALIGNED;

CPU_MAP(cpu)

/* Returns the number of runnable processes of a CPU. */
static __always_inline u32 nr_runnable(struct cpu *c, u32 cpu)
{
	s32 waiting = scx_bpf_dsq_nr_queued(cpu);

	return c->running + (waiting > 0 ? waiting : 0);
}

static __always_inline void update_load(struct cpu *c, u32 cpu)
{
	u64 now = bpf_ktime_get_ns(), window = load_window_ns / 1000, us;

	us = now > c->updated ? (now - c->updated) / 1000 : 0;
	if (us > window)
		us = window;
	c->updated = now;
	if (window)
		c->load = (c->load * (window - us) + nr_runnable(c, cpu) * LOAD_ONE * us) / window;
}

/*
 * Pushes the first waiting process of a queue that may run on `cpu` to the queue `to`. Returns whether there
 * was one.
 */
static __always_inline bool push(u32 from, u32 cpu, u64 to)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	bool pushed = false;
	s32 i;

	if (!bpf_iter_scx_dsq_new(&it, from, 0)) {
		bpf_for(i, 0, MAX_LOOK) {
			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || p->migration_disabled)
				continue;
			/*
			 * In a queue the process keeps its level and its place. A local DSQ runs it at once.
			 */
			if (to == cpu)
				pushed = scx_bpf_dsq_move_vtime(&it, p, to, 0);
			else
				pushed = scx_bpf_dsq_move(&it, p, to, 0);
			if (pushed)
				break;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return pushed;
}

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

static int check(void *map, u32 *key, struct cpu *c)
{
	u32 cpu = *key;

	update_load(c, cpu);
	if (c->running && scx_bpf_dsq_nr_queued(cpu) > 0)
		balance(c, cpu);
	/* The timer of an idle CPU starts again with the next process that runs there. */
	if (c->running || scx_bpf_dsq_nr_queued(cpu) > 0)
		bpf_timer_start(&c->timer, check_period_ns, BPF_F_TIMER_CPU_PIN);
	else
		c->armed = 0;
	return 0;
}

/* Processes that wait in the queue of a CPU that goes may have run elsewhere. */
static __always_inline void pass_on_all(s32 cpu)
{
	pass_on(cpu);
}

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

		if (!o || !bpf_cpumask_test_cpu(other, p->cpus_ptr))
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

void SCX_OP(torus_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct plan9_task *t = plan9_task(p);
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);

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

void SCX_OP(torus_dispatch, s32 cpu, struct task_struct *prev)
{
	struct plan9_task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? plan9_task(prev) : NULL;
	struct cpu *c = cpu_of(cpu);

	if (t && c) {
		plan9_account(t, true);
		t->level = plan9_level(prev, t, 1, nr_runnable(c, cpu));
	}
	/* The running process goes on if all waiting ones are of lower levels. */
	if ((!t || plan9_highest(cpu) >= (s32)t->level) && scx_bpf_dsq_move_to_local(cpu))
		return;
	if (t)
		prev->scx.slice = quantum_ns;
	else if (scx_bpf_dsq_nr_queued(cpu) > 0)
		pass_on(cpu);
}

void SCX_OP(torus_tick, struct task_struct *p)
{
	struct plan9_task *t = plan9_task(p);

	if (t && plan9_highest(scx_bpf_task_cpu(p)) > (s32)t->level)
		p->scx.slice = 0;
}

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

s32 SCX_OP(torus_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return plan9_init_task(p);
}

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
