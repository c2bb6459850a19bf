/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A simple load balancer for priority arrays (prio_array.h), which treats all CPUs as equally near.
 *
 * A CPU pulls tasks from the priority arrays of a busier CPU. It takes tasks of the expired array
 * before tasks of the active array. The last run of an expired task was earlier, so less of its
 * data is still in the cache of the busier CPU. Within an array, the CPU takes tasks of the best
 * level first.
 */
#ifndef PRIO_BALANCE_H
#define PRIO_BALANCE_H

#include "prio_array.h"

/* Number of tasks that CPUs pulled before they became idle. */
u64 nr_idle_pulls;
/* Number of tasks that busy CPUs pulled because of an imbalance. */
u64 nr_busy_pulls;

/* Highest number of tasks of one level that a pull examines. */
#define PULL_LOOK 32

/* Returns the other CPU with the most waiting tasks, or -1 if it has at most `above`. */
static __always_inline s32 find_busiest(s32 cpu, u32 above)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), i;
	s32 busiest = -1;

	bpf_for(i, 1, nr_cpus) {
		s32 other = ((u32)cpu + i) % nr_cpus;
		struct prio_rq *rq = prio_rq_of(other);

		if (rq && rq->nr_queued > above) {
			above = rq->nr_queued;
			busiest = other;
		}
	}
	return busiest;
}

/*
 * Moves a task from the arrays of CPU `from` to this CPU's local DSQ. Returns whether there was a
 * task that may run on this CPU.
 */
static __always_inline bool pull_to_local(s32 from)
{
	struct prio_rq *rq = prio_rq_of(from);
	u32 turn, i;

	if (!rq)
		return false;
	bpf_for(turn, 0, 2) {
		u32 array = (turn ? rq->active : !rq->active) & 1;
		u64 bits = rq->bitmap[array];

		bpf_for(i, 0, PRIO_LEVELS) {
			u32 level;

			if (!bits)
				break;
			level = first_bit(bits) & 63;
			bits &= ~(1ULL << level);
			if (scx_bpf_dsq_move_to_local(prio_dsq(from, array, level))) {
				__sync_fetch_and_add(&nr_idle_pulls, 1);
				return true;
			}
		}
	}
	return false;
}

/*
 * Pulls a task from the busiest CPU. If none of the tasks there may run on this CPU, tries all
 * other CPUs. Returns whether it pulled a task.
 */
static __always_inline bool pull_idle(s32 cpu)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), i;
	s32 busiest = find_busiest(cpu, 0);

	if (busiest < 0)
		return false;
	if (pull_to_local(busiest))
		return true;
	bpf_for(i, 1, nr_cpus) {
		s32 other = ((u32)cpu + i) % nr_cpus;
		struct prio_rq *rq = prio_rq_of(other);

		if (rq && rq->nr_queued && pull_to_local(other))
			return true;
	}
	return false;
}

/* Returns the array node of a task, or NULL if it has none. Defined by the policy. */
static __always_inline struct prio_node *prio_node_of(struct task_struct *p);
/* Returns whether the task may be pulled now. Defined by the policy. */
static __always_inline bool may_pull(struct prio_rq *to, struct prio_node *node);

/*
 * Moves up to `budget` tasks from a level of another CPU's array to the same level of this CPU's
 * expired array. Returns the number of tasks that it moved. The function is global (not static), so
 * the verifier checks it only once, and not for every value of `budget`.
 */
__noinline u32 pull_level(s32 cpu, s32 from, u32 array, u32 level, u32 budget)
{
	struct prio_rq *to = prio_rq_of(cpu), *rq = prio_rq_of(from);
	struct bpf_iter_scx_dsq it;
	u32 pulled = 0, i;

	if (!to || !rq)
		return 0;
	if (!bpf_iter_scx_dsq_new(&it, prio_dsq(from, array, level), 0)) {
		bpf_for(i, 0, PULL_LOOK) {
			struct task_struct *p = bpf_iter_scx_dsq_next(&it);
			struct prio_node *node = p ? prio_node_of(p) : NULL;

			if (!p || pulled >= budget)
				break;
			if (!node || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || !may_pull(to, node))
				continue;
			if (!scx_bpf_dsq_move(&it, p, prio_dsq(cpu, !to->active, level), 0))
				continue;
			prio_moved(rq, from, to, cpu, node);
			__sync_fetch_and_or(&to->bitmap[!(to->active & 1)], 1ULL << (level & 63));
			pulled++;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return pulled;
}

/*
 * Moves up to `budget` tasks from another CPU to this CPU's expired array. Returns the number of
 * tasks that it moved. Called from ops.dispatch().
 */
static __always_inline u32 pull_to_array(s32 cpu, s32 from, u32 budget)
{
	struct prio_rq *to = prio_rq_of(cpu), *rq = prio_rq_of(from);
	u32 pulled = 0, turn, i;

	if (!to || !rq)
		return 0;
	bpf_for(turn, 0, 2) {
		u32 array = (turn ? rq->active : !rq->active) & 1;
		u64 bits = rq->bitmap[array];

		bpf_for(i, 0, PRIO_LEVELS) {
			u32 level;

			if (!bits || pulled >= budget)
				break;
			level = first_bit(bits) & 63;
			bits &= ~(1ULL << level);
			pulled += pull_level(cpu, from, array, level, budget - pulled);
		}
	}
	__sync_fetch_and_add(&nr_busy_pulls, pulled);
	return pulled;
}

/* Length of a tick in ns, unless the policy defines TICK_NS before it includes this header. */
#ifndef TICK_NS
#define TICK_NS 1000000
#endif

const volatile u64 idle_interval_ns PARAM("ns, 100000..1000000000: interval at which a timer looks for work for idle CPUs") = TICK_NS;

/* The timer, which must be in a map. */
struct timer_value {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_value);
} idle_timer SEC(".maps");

/*
 * Wakes as many idle CPUs as there are waiting tasks, so that they pull tasks. An idle CPU has no
 * tick, so it does not look for tasks itself. CPUs that are offline or run a task of another
 * scheduling class do not count as idle.
 */
static int look_for_work(void *map, u32 *key, struct timer_value *value)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	s32 nr_cpus = scx_bpf_nr_cpu_ids(), cpu;
	u32 waiting = 0;

	bpf_for(cpu, 0, nr_cpus) {
		struct prio_rq *rq = prio_rq_of(cpu);

		if (rq)
			waiting += rq->nr_queued;
	}
	bpf_for(cpu, 0, nr_cpus) {
		struct prio_rq *rq = prio_rq_of(cpu);

		if (!waiting)
			break;
		if (rq && rq->curr_level == PRIO_NONE && is_online(cpu) && bpf_cpumask_test_cpu(cpu, idle)) {
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
			waiting--;
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	bpf_timer_start(&value->timer, idle_interval_ns, 0);
	return 0;
}

/* Starts the timer. Called when the policy is loaded. */
static __always_inline s32 look_for_work_start(void)
{
	struct timer_value *value;
	u32 key = 0;

	value = bpf_map_lookup_elem(&idle_timer, &key);
	if (!value)
		return -ESRCH;
	bpf_timer_init(&value->timer, &idle_timer, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&value->timer, look_for_work);
	return bpf_timer_start(&value->timer, idle_interval_ns, 0);
}

#endif
