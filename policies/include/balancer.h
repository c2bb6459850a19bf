/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The load balancers of the pooled multi-queue scheduler (pmqs.bpf.c): IP (initial placement)
 * places a task at exec, and a timer runs LBC or LBP, which move waiting tasks between queues.
 *
 * The load of a queue is the number of its tasks, including the running one. With
 * use_na_goodness=1, the load is the sum of the tasks' goodness without the affinity bonus
 * (goodness.h). Goodness is the value by which CPUs choose tasks. A queue is balanced if its load
 * differs from the average load by at most a tolerance. Otherwise it has a surplus or a deficit.
 * Tasks move from queues with a surplus to queues with a deficit. A pool is a group of neighbouring
 * CPUs (pmqs.bpf.c).
 *
 * - LBC has a tolerance of 0. It moves tasks within pools first, then between pools.
 * - LBP has a tolerance of `tolerance` percent. It moves tasks between pools only.
 */
#ifndef BALANCER_H
#define BALANCER_H

#include "queue_wakeup.h"

/* Values of the parameter `balancer`. */
enum { LBOFF, IP, LBC, LBP };
/* State of a queue; the values of mq.kind. */
enum { BALANCED, SURPLUS, DEFICIT };

const volatile u32 balancer PARAM("number, 0..3: 0 LBOFF (none), 1 IP (placement at exec), 2 LBC (all CPUs), 3 LBP (between pools)") = LBOFF;
u32 use_na_goodness PARAM("0..1: load of a queue; 0: its length; 1: the sum of its tasks' goodness without affinity bonus") = 0;
u32 interval_ms PARAM("ms, 1..60000: time between two runs of LBC or LBP") = 600;
u32 tolerance PARAM("%, 0..100: LBP: a queue within this distance of the average is balanced") = 10;

/*
 * Counters, in this order: runs of the balancer, tasks that the balancer moved, tasks that it moved
 * to another pool, and tasks that IP moved at exec.
 */
u64 nr_balancings, nr_balanced, nr_balanced_pools, nr_placed;

/*
 * Statistics of all runs of the balancer: the total load of all queues (load_*), the number of
 * tasks moved (moved_*), and the number of tasks moved as a percentage of the load
 * (moved_percent_*). Values with `milli` in their names are in thousandths: of a task, or of a
 * percent.
 */
u64 load_mean_milli, load_max, moved_last, moved_mean_milli, moved_max, moved_percent_mean_milli, moved_percent_max_milli;
/* Sums over all runs, for the means. */
static u64 load_sum, percent_milli_sum;

/* Returns the number of a CPU's pool. Defined by the policy. */
static u32 pool_of(s32 cpu);

/* The timer, which must be in a map. */
struct balance_timer {
	struct bpf_timer timer;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct balance_timer);
} balance_timers SEC(".maps");

/* Returns the amount that a task adds to the load of its queue. */
static __always_inline s64 weight_of(struct task_struct *p, struct task_ctx *t)
{
	return use_na_goodness ? na_goodness(p, t) : 1;
}

/* Returns the load of a CPU's queue. */
static __noinline s64 load_of(s32 cpu)
{
	struct mq *q = mq_of(cpu);
	struct task_struct *p;
	s64 load;

	if (!use_na_goodness)
		return q->running + scx_bpf_dsq_nr_queued(cpu);
	load = q->running ? q->curr_na_goodness : 0;
	bpf_for_each_dsq(it, p, cpu) {
		struct task_ctx *t = task_ctx(p);

		if (t)
			load += na_goodness(p, t);
	}
	return load;
}

/*
 * Moves tasks from queue `from` to queue `to` until one of the queues is balanced, or until no
 * further move would bring the loads of the two queues closer together. `total` is the load of all
 * queues, and `nr` the number of CPUs that are online, so the average load is total / nr.
 */
static __noinline void move_tasks(s32 from, s32 to, s64 total, s64 nr)
{
	struct mq *f = mq_of(from), *d = mq_of(to);
	struct task_struct *p;
	/*
	 * The moved tasks are counted in a global variable, whose value the verifier does not
	 * track. With a local variable, the verifier would check every iteration of the loop
	 * separately.
	 */
	u64 before = nr_balanced, moved;
	s64 within = balancer == LBP ? tolerance : 0;

	bpf_for_each_dsq(it, p, from) {
		struct task_ctx *t = task_ctx(p);
		s64 weight;

		if (f->load * nr * 100 <= total * (100 + within) || d->load * nr * 100 >= total * (100 - within))
			break;
		if (!t || realtime(p) || !may_run(p, to))
			continue;
		weight = weight_of(p, t);
		if (weight >= f->load - d->load)
			continue;
		/* The task enters queue `to` at the front. */
		t->place = next_front();
		scx_bpf_dsq_move_set_vtime(&it, t->place);
		if (!scx_bpf_dsq_move_vtime(&it, p, to, 0))
			continue;
		t->last_cpu = to;
		f->load -= weight;
		d->load += weight;
		raise_max(d, na_goodness(p, t));
		__sync_fetch_and_add(&nr_balanced, 1);
	}
	moved = nr_balanced - before;
	if (!moved)
		return;
	refresh_max(from);
	scx_bpf_kick_cpu(to, SCX_KICK_IDLE);
	if (pool_of(from) != pool_of(to))
		__sync_fetch_and_add(&nr_balanced_pools, moved);
}

/*
 * Moves tasks from each queue with a surplus to queues with a deficit. Moves tasks only between
 * queues of different pools if `across` is set, and only between queues of the same pool if not.
 */
static __noinline void move_all(bool across, s64 total, s64 nr)
{
	s32 from, to;

	bpf_for(from, 0, nr_cpus) {
		struct mq *f = mq_of(from), *d;

		if (f->kind != SURPLUS)
			continue;
		bpf_for(to, 0, nr_cpus) {
			d = mq_of(to);
			if (d->kind == DEFICIT && (pool_of(from) != pool_of(to)) == across)
				move_tasks(from, to, total, nr);
		}
	}
}

/* Adds a run of the balancer to the statistics. */
static __noinline void record_run(u64 load, u64 moved)
{
	u64 percent_milli = load ? moved * 100000 / load : 0, nr;

	nr = ++nr_balancings;
	load_sum += load;
	percent_milli_sum += percent_milli;
	load_mean_milli = load_sum * 1000 / nr;
	moved_mean_milli = nr_balanced * 1000 / nr;
	moved_percent_mean_milli = percent_milli_sum / nr;
	moved_last = moved;
	if (load_max < load)
		load_max = load;
	if (moved_max < moved)
		moved_max = moved;
	if (moved_percent_max_milli < percent_milli)
		moved_percent_max_milli = percent_milli;
}

/* Runs the balancer when the timer expires: computes the loads of all queues, then moves tasks. */
static int balance(void *map, int *key, struct balance_timer *b)
{
	s64 nr = 0, total = 0, within = balancer == LBP ? tolerance : 0;
	u64 moved = nr_balanced;
	struct mq *q;
	s32 cpu;

	bpf_for(cpu, 0, nr_cpus) {
		q = mq_of(cpu);
		/* No task moves from or to a CPU that is offline. */
		q->kind = BALANCED;
		if (!is_online(cpu))
			continue;
		q->load = load_of(cpu);
		total += q->load;
		nr++;
	}
	bpf_for(cpu, 0, nr_cpus) {
		q = mq_of(cpu);
		if (!is_online(cpu))
			continue;
		q->deviation_milli = q->load * 1000 - (s64)((u64)total * 1000 / (u64)nr);
		q->kind = q->load * nr * 100 > total * (100 + within)	? SURPLUS :
			  q->load * nr * 100 < total * (100 - within) ? DEFICIT :
									  BALANCED;
	}
	if (balancer == LBC)
		move_all(false, total, nr);
	move_all(true, total, nr);
	record_run(total, nr_balanced - moved);
	bpf_timer_start(&b->timer, (u64)interval_ms * 1000000, 0);
	return 0;
}

/* Starts the timer if the balancer is LBC or LBP. Called when the policy is loaded. */
static __always_inline s32 balancer_init(void)
{
	u32 key = 0;
	struct balance_timer *b = bpf_map_lookup_elem(&balance_timers, &key);

	if (!b)
		return -ESRCH;
	if (balancer < LBC)
		return 0;
	bpf_timer_init(&b->timer, &balance_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&b->timer, balance);
	return bpf_timer_start(&b->timer, (u64)interval_ms * 1000000, 0);
}

/*
 * Runs IP (initial placement): at exec, moves the task to the CPU with the shortest queue. The task
 * itself does not count in the length of its own queue.
 */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(initial_placement, struct task_struct *p)
{
	struct task_ctx *t = task_ctx(p);
	s32 own = bpf_get_smp_processor_id(), best = own, cpu;
	s64 shortest;

	if (balancer != IP || !t)
		return 0;
	shortest = scx_bpf_dsq_nr_queued(own);
	bpf_for(cpu, 0, nr_cpus) {
		struct mq *q = mq_of(cpu);
		s64 length = q->running + scx_bpf_dsq_nr_queued(cpu);

		if (length < shortest && is_online(cpu) && may_run(p, cpu)) {
			shortest = length;
			best = cpu;
		}
	}
	if (best != own) {
		t->move_to = best + 1;
		__sync_fetch_and_add(&nr_placed, 1);
		scx_bpf_kick_cpu(own, SCX_KICK_PREEMPT);
	}
	return 0;
}

#endif
