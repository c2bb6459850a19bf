/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Balancing of priority arrays over two domains, as in Linux 2.6.22: the CPUs of a group, and the machine.
 *
 * Each CPU balances at intervals that double while loads are even, and that are longer while it is busy. A
 * task adds 128 to the load. A busy CPU takes the smaller of the load now and its average for other CPUs, and
 * the larger one for itself. A task that ran lately stays where it is, unless balancing has failed because of
 * such tasks. If it fails more often, the running task of the busiest CPU is fetched.
 *
 * Left out: balancing over the machine compares CPUs, not groups, and load is the number of tasks, not their
 * weight.
 */
#ifndef PRIO_DOMAINS_H
#define PRIO_DOMAINS_H

/* With variables instead of a map, the verifier would not finish load_balance(). */
#define PRIO_RQS CPU_MAP
#include "prio_balance.h"

#ifndef MS
#define MS 1000000ULL
#endif
/* Load of one task. */
#define LOAD_SCALE 128
/* Longest interval while all tasks of the busiest CPU are bound to it. */
#define MAX_PINNED_INTERVAL (512 * MS)

const volatile u32 group_of[MAX_CPUS] PARAM("group, 0..1023: of each CPU; those of one group balance among themselves first");
u64 min_interval_ns PARAM("ns, 100000..100000000000: between balancings, least; 8 times that over the machine") = 1 * MS;
u64 max_interval_ns PARAM("ns, 100000..100000000000: between balancings, most; 8 times that over the machine") = 4 * MS;
u32 busy_factor PARAM("times, 1..1000: longer intervals of busy CPUs; half of that over the machine") = 64;
u32 imbalance_pct PARAM("percent, 100..1000: load of another CPU, of the own, from which tasks are pulled") = 125;
u64 cache_hot_ns PARAM("ns, 0..1000000000: a task that ran so lately stays where its caches are") = 5 * MS;
u32 cache_nice_tries PARAM("times, 0..100: failed balancings until that is ignored; 1 more over the machine") = 1;
bool wake_affine PARAM("0..1: a wake-up may go to the waker's CPU") = true;

/*
 * Balancings that found loads even; those that found only warm or bound tasks to pull; running tasks that
 * were fetched.
 */
u64 nr_balanced, nr_failed, nr_active;
/* There are several groups, so the machine is a domain of its own. */
static bool grouped;

/* State of a CPU's balancing in one domain. */
struct domain {
	u64 last;
	u64 interval;
	u32 failed;
	bool due;
};
/* The group of a CPU, and the machine. */
struct domains {
	struct domain level[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct domains);
} domains SEC(".maps");

/* Why a CPU balances. */
enum why { BUSY, IDLE, NEWLY_IDLE };

static __always_inline bool may_pull(struct prio_rq *to, struct prio_node *node)
{
	to->allowed = true;
	return to->warm || scx_bpf_now() - node->ran_at >= cache_hot_ns;
}

static __always_inline u32 nr_running(struct prio_rq *rq)
{
	return rq->nr_queued + (rq->curr_level != PRIO_NONE);
}

static __always_inline u32 load_of(s32 cpu)
{
	struct prio_rq *rq = prio_rq_of(cpu);

	return rq ? nr_running(rq) : 0;
}

static __always_inline bool same_group(u32 cpu, u32 other)
{
	return group_of[cpu & (MAX_CPUS - 1)] == group_of[other & (MAX_CPUS - 1)];
}

/*
 * Returns whether a woken task goes to the CPU of the waker: it does if that CPU has less to do, the task
 * included.
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

/* Returns the allowed CPU with the least to do; of equals the next one after `cpu`. */
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
 * Load to be moved from a CPU with `most` to one with `own`, where `average` is the domain's; 0: they are
 * even. Where what is missing is less than a task, a task moves if the difference is two, or if more CPU
 * power is used then: a CPU uses all of its own with one task, and load of less than a task uses so much
 * less.
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

/* Fetches the running task of the busiest CPU, if it may run here. */
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
 * For ops.dispatch(): pulls as many tasks as make this CPU and the busiest one of its domain even. Returns
 * their number.
 */
__noinline int load_balance(s32 cpu, u32 level, u32 why)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), total = 0, n = 0, most = 0, own, move, i;
	struct prio_rq *rq = prio_rq_of(cpu);
	struct domain *domain;
	struct domains *all;
	u32 key = cpu, pulled;
	u64 limit;
	s32 busiest = -1;

	all = bpf_map_lookup_elem(&domains, &key);
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

/* Returns whether balancing of the domain is due, on a busy or an idle CPU. */
static __always_inline bool domain_due(struct domain *domain, u32 level, bool busy, u64 now)
{
	u64 factor = !busy ? 1 : level ? (busy_factor + 1) / 2 : busy_factor;

	if (!domain->interval)
		domain->interval = min_interval_ns << (3 * (level & 1));
	if (!domain->last)
		domain->last = now;
	return (s64)(now - domain->last - domain->interval * factor) >= 0;
}

/* For ops.tick(): updates the load average and marks domains that are due. Returns whether there are any. */
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

/* Finds out whether there are several groups, when the policy is loaded. */
static __always_inline void domains_init(void)
{
	u32 cpu;

	online_init();
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids())
		if (!same_group(0, cpu))
			grouped = true;
}

#endif
