/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Load balancing of priority arrays (prio_array.h) in two domains, as in Linux 2.6.22: the group of
 * a CPU, and the machine.
 *
 * A CPU has a current load, 128 for each runnable task, and a load average. When a CPU that is not
 * idle compares itself with others, it uses the larger of the two values as its own load, and the
 * smaller of the two values as the load of each other CPU. A short load peak therefore moves no
 * task. A task that ran recently is not pulled, because its data is in the cache of its CPU. If
 * balancing fails repeatedly because all tasks ran recently, they may be pulled, too. If balancing
 * still fails, the CPU makes the busiest CPU move its running task to an idle CPU (active
 * balancing).
 *
 * Simplified: balancing over the machine compares CPUs instead of groups, and the load is the
 * number of tasks instead of their weight.
 */
#ifndef PRIO_DOMAINS_H
#define PRIO_DOMAINS_H

/*
 * The runqueues are in a map. If they were global variables, the verifier would exceed its limit of
 * instructions in load_balance().
 */
#define PRIO_RQS CPU_MAP
#include "prio_balance.h"

#ifndef MS
#define MS 1000000ULL
#endif
/* Load of one task. */
#define LOAD_SCALE 128
/* Longest interval between balancings while all tasks of the busiest CPU are bound to that CPU. */
#define MAX_PINNED_INTERVAL (512 * MS)

const volatile u32 group_of[MAX_CPUS] PARAM("group, 0..1023: group of each CPU; a CPU balances within its group first");
u64 min_interval_ns PARAM("ns, 100000..100000000000: shortest interval between two balancings; 8 times longer for the machine") = 1 * MS;
u64 max_interval_ns PARAM("ns, 100000..100000000000: longest interval between two balancings; 8 times longer for the machine") = 4 * MS;
u32 busy_factor PARAM("times, 1..1000: factor by which the intervals of busy CPUs are longer; half of it for the machine") = 64;
u32 imbalance_pct PARAM("percent, 100..1000: load of another CPU, relative to the own one, from which tasks are pulled") = 125;
u64 cache_hot_ns PARAM("ns, 0..1000000000: a task that ran within this time is not pulled, because its cache is warm") = 5 * MS;
u32 cache_nice_tries PARAM("times, 0..100: failed balancings after which tasks with warm caches are pulled; 1 more for the machine") = 1;
bool newidle PARAM("0..1: whether a CPU about to idle pulls tasks from other CPUs") = true;
bool wake_affine PARAM("0..1: whether a woken task may go to the CPU of its waker") = true;

/*
 * Counters, in this order: balancings that found even loads, balancings that found no task to pull
 * because all were bound or had run recently, and active balancings.
 */
u64 nr_balanced, nr_failed, nr_active;
/*
 * Whether there are several groups. If there is only one, it contains all CPUs of the machine, so
 * the machine is not balanced as a second domain.
 */
static bool grouped;

/* State of a CPU's balancing in one domain. */
struct domain {
	/* Time of the last balancing. */
	u64 last;
	/* Current interval between balancings, in ns. */
	u64 interval;
	/* Number of consecutive balancings that failed because the tasks had run recently. */
	u32 failed;
	/* Whether the next ops.dispatch() should balance this domain. */
	bool due;
};
/* The two domains of a CPU: its group (level 0) and the machine (level 1). */
struct domains {
	struct domain level[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct domains);
} domains SEC(".maps");

/* Returns the domains of a CPU, or NULL if its number is invalid. */
static __always_inline struct domains *domains_of(s32 cpu)
{
	u32 key = cpu;

	return bpf_map_lookup_elem(&domains, &key);
}

/*
 * Why a CPU balances: its interval has passed while it is busy, its interval has passed while it is
 * idle, or it is about to become idle.
 */
enum why { BUSY, IDLE, NEWLY_IDLE };

/*
 * Returns whether a task may be pulled: either it has not run recently, or the current pull also
 * takes tasks whose data is still in the cache.
 */
static __always_inline bool may_pull(struct prio_rq *to, struct prio_node *node)
{
	to->allowed = true;
	return to->warm || scx_bpf_now() - node->ran_at >= cache_hot_ns;
}

/* Returns the number of runnable tasks of a CPU, including the running one. */
static __always_inline u32 nr_running(struct prio_rq *rq)
{
	return rq->nr_queued + (rq->curr_level != PRIO_NONE);
}

/* Returns the number of runnable tasks of the CPU with a given number. */
static __always_inline u32 load_of(s32 cpu)
{
	struct prio_rq *rq = prio_rq_of(cpu);

	return rq ? nr_running(rq) : 0;
}

/* Returns whether two CPUs are in the same group. */
static __always_inline bool same_group(u32 cpu, u32 other)
{
	return group_of[cpu & (MAX_CPUS - 1)] == group_of[other & (MAX_CPUS - 1)];
}

/*
 * Returns whether a woken task should go to the CPU of its waker instead of its previous CPU. The
 * waker's CPU must be allowed and in the same group, and its load must not be too high:
 *
 *     tasks of the waker's CPU + 1 <= 112 % of the tasks of the previous CPU
 *
 * 112 % follows from the default imbalance_pct. A waker that is about to sleep (`sync`) is not
 * counted in the load of its CPU. If the two CPUs together have at most one task, another condition
 * suffices: the waker's CPU has no more tasks than the previous CPU.
 */
static __always_inline bool is_affine(struct task_struct *p, s32 this_cpu, s32 prev_cpu, bool sync)
{
	u32 load = load_of(prev_cpu), this_load = load_of(this_cpu);

	if (!wake_affine || !same_group(this_cpu, prev_cpu) || !bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr))
		return false;
	if (sync && this_load)
		this_load--;
	return (this_load <= load && this_load + load <= 1) ||
	       100 * (this_load + 1) <= (100 + (imbalance_pct - 100) / 2) * load;
}

/*
 * Returns the allowed CPU with the fewest tasks. Among CPUs with equally few tasks, returns the
 * first one at or after `cpu`.
 */
static __always_inline s32 find_idlest(struct task_struct *p, s32 cpu)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), least = ~0U, i;
	s32 idlest = cpu;

	bpf_for(i, 0, nr_cpus) {
		s32 other = ((u32)cpu + i) % nr_cpus;
		u32 load = load_of(other);

		if (load < least && is_online(other) && bpf_cpumask_test_cpu(other, p->cpus_ptr)) {
			least = load;
			idlest = other;
		}
	}
	return idlest;
}

/*
 * Returns the load to move from a CPU with load `most` to a CPU with load `own`, or 0 if the loads
 * are even. `average` is the average load of the domain. If the load to move is less than that of
 * one task, returns the load of one task in two cases: if the loads differ by at least two tasks,
 * or if the two CPUs together would be busy for more of the time after the move. A CPU with a load
 * of at least one task (LOAD_SCALE) counts as busy all the time. A CPU with a lower load counts as
 * busy for the part load / LOAD_SCALE of the time.
 */
static __always_inline u32 imbalance_of(u32 most, u32 own, u32 average)
{
	u32 surplus, missing, move;

	if (most <= LOAD_SCALE || own >= average || 100ULL * most <= (u64)imbalance_pct * own)
		return 0;
	surplus = most - average < most - LOAD_SCALE ? most - average : most - LOAD_SCALE;
	missing = average - own;
	move = surplus < missing ? surplus : missing;
	if (move >= LOAD_SCALE)
		return move;
	surplus = most - LOAD_SCALE < LOAD_SCALE ? most - LOAD_SCALE : LOAD_SCALE;
	return most - own >= 2 * LOAD_SCALE || own < surplus ? LOAD_SCALE : 0;
}

/*
 * Starts active balancing: makes the busiest CPU move its running task to an idle CPU. Does so only
 * if that task may run on this CPU. Returns whether it started active balancing.
 */
static __always_inline bool active_balance(s32 cpu, s32 busiest)
{
	struct task_struct *curr = scx_bpf_cpu_curr(busiest);
	struct prio_rq *rq = prio_rq_of(busiest);

	if (!curr || !rq || !bpf_cpumask_test_cpu(cpu, curr->cpus_ptr))
		return false;
	rq->push = true;
	__sync_fetch_and_add(&nr_active, 1);
	scx_bpf_kick_cpu(busiest, SCX_KICK_PREEMPT);
	return true;
}

/*
 * Pulls tasks from the busiest CPU of the domain until the loads of the two CPUs are even. Returns
 * the number of pulled tasks. Called from ops.dispatch().
 */
__noinline int load_balance(s32 cpu, u32 level, u32 why)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), total = 0, n = 0, most = 0, own, move, i;
	struct prio_rq *rq = prio_rq_of(cpu);
	struct domains *all = domains_of(cpu);
	struct domain *domain;
	s32 busiest = -1;
	u32 pulled;
	u64 limit;

	if (!rq || !all)
		return 0;
	level &= 1;
	domain = &all->level[level];
	own = nr_running(rq) * LOAD_SCALE;
	if (why != IDLE && own < rq->load_avg)
		own = rq->load_avg;
	bpf_for(i, 0, nr_cpus) {
		struct prio_rq *other;
		u32 load;

		if (i == (u32)cpu || (!level && !same_group(cpu, i)))
			continue;
		other = prio_rq_of(i);
		if (!other)
			break;
		load = nr_running(other) * LOAD_SCALE;
		if (why != IDLE && load > other->load_avg)
			load = other->load_avg;
		total += load;
		n++;
		if (load > most && other->nr_queued) {
			most = load;
			busiest = i;
		}
	}
	move = busiest >= 0 && most > own ? imbalance_of(most, own, (total + own) / (n + 1)) : 0;
	limit = max_interval_ns << (3 * level);
	if (!move)
		goto even;
	rq->warm = domain->failed > cache_nice_tries + level;
	rq->allowed = false;
	pulled = pull_to_array(cpu, busiest, move / LOAD_SCALE);
	rq->warm = false;
	if (pulled) {
		domain->failed = 0;
		domain->interval = min_interval_ns << (3 * level);
		return pulled;
	}
	__sync_fetch_and_add(&nr_failed, 1);
	if (why == NEWLY_IDLE)
		return 0;
	if (rq->allowed && ++domain->failed <= cache_nice_tries + level + 2) {
		domain->interval = min_interval_ns << (3 * level);
		return 0;
	}
	if (active_balance(cpu, busiest)) {
		domain->failed = cache_nice_tries + level + 1;
	} else if (!rq->allowed && limit < MAX_PINNED_INTERVAL) {
		limit = MAX_PINNED_INTERVAL;
	}
	goto back_off;
even:
	__sync_fetch_and_add(&nr_balanced, 1);
	domain->failed = 0;
back_off:
	if (why != NEWLY_IDLE)
		domain->interval = domain->interval * 2 < limit ? domain->interval * 2 : limit;
	return 0;
}

/*
 * Returns whether the time between two balancings of a domain is over. For a CPU that is busy
 * (`busy`), this time is longer.
 */
static __always_inline bool domain_due(struct domain *domain, u32 level, bool busy, u64 now)
{
	u64 factor = !busy ? 1 : level ? (busy_factor + 1) / 2 : busy_factor;

	if (!domain->interval)
		domain->interval = min_interval_ns << (3 * (level & 1));
	if (!domain->last)
		domain->last = now;
	return (s64)(now - domain->last - domain->interval * factor) >= 0;
}

/*
 * Updates the CPU's load average, and marks the domains that should be balanced now. Returns
 * whether it marked a domain. Called from ops.tick().
 */
static __always_inline bool domains_tick(struct domains *own, struct prio_rq *rq, u64 now)
{
	bool due = false;
	u32 level, load = nr_running(rq) * LOAD_SCALE;

	rq->load_avg = (rq->load_avg + load + (load > rq->load_avg)) / 2;
	bpf_for(level, 0, 2) {
		struct domain *domain = &own->level[level & 1];

		if (level && !grouped)
			break;
		if (domain_due(domain, level, true, now)) {
			domain->last = now;
			domain->due = due = true;
		}
	}
	return due;
}

/*
 * Pulls tasks from other CPUs, in each domain that is due. A CPU without tasks (`task` is NULL)
 * also pulls when it is about to idle, and that is when it has run a task (`prev`) until now.
 * Called from ops.dispatch().
 */
static __always_inline void domains_balance(struct domains *own, struct prio_rq *rq, s32 cpu, void *task,
					    struct task_struct *prev, u64 now)
{
	u32 level;

	bpf_for(level, 0, 2) {
		struct domain *domain = &own->level[level & 1];
		bool idles = !task && !rq->nr_queued;

		if (level && !grouped)
			break;
		if (domain->due) {
			domain->due = false;
			load_balance(cpu, level, BUSY);
		} else if (idles && prev) {
			if (newidle && !level)
				load_balance(cpu, level, NEWLY_IDLE);
		} else if (idles && domain_due(domain, level, false, now)) {
			domain->last = now;
			load_balance(cpu, level, IDLE);
		}
	}
}

/* Finds out whether there are several groups. Called when the policy is loaded. */
static __always_inline void domains_init(void)
{
	u32 cpu;

	online_init();
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids())
		if (!same_group(0, cpu))
			grouped = true;
}

#endif
