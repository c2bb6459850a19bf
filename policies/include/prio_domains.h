/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Balancing of priority arrays over domains: groups of CPUs with numbers in sequence, and the machine. Each CPU balances
 * at intervals that double while all is even, longer ones while it is busy; tasks that ran lately stay where they are
 * unless balancing has failed because of that. Load is the number of tasks.
 */
#ifndef PRIO_DOMAINS_H
#define PRIO_DOMAINS_H

#include "prio_balance.h"

#define MS 1000000ULL

const volatile u32 group_cpus PARAM("CPUs, 1..1024: those that balance among themselves first") = 1024;
u64 min_interval_ns PARAM("ns, 100000..100000000000: between balancings, least") = 1 * MS;
u64 max_interval_ns PARAM("ns, 100000..100000000000: between balancings, most") = 4 * MS;
u32 busy_factor PARAM("times, 1..1000: longer intervals of busy CPUs") = 64;
u32 imbalance_pct PARAM("percent, 100..1000: load of another CPU, of the own, from which tasks are pulled") = 125;
u64 cache_hot_ns PARAM("ns, 0..1000000000: a task that ran so lately stays where its caches are") = 5 * MS;
u32 cache_nice_tries PARAM("times, 0..100: failed balancings until that is ignored") = 1;

/* Balancings that found all even; that found a queue to pull from but only warm tasks in it. */
u64 nr_balanced;
u64 nr_failed;

/* Balancing of one CPU: in its group, and over the machine. */
struct domain {
	u64 next;
	u64 interval;
	u32 failed;
	bool due;
};
struct domains {
	struct domain level[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct domains);
} domains SEC(".maps");

static __always_inline bool may_pull(struct prio_rq *to, struct prio_node *node)
{
	return to->warm || scx_bpf_now() - node->ran_at >= cache_hot_ns;
}

static __always_inline u32 load_of(s32 cpu)
{
	struct prio_rq *rq = prio_rq_of(cpu);

	return rq ? rq->nr_queued + (rq->curr_level != PRIO_NONE) : 0;
}

/* The allowed CPU with least to do, of equals the nearest after `cpu`. */
static __always_inline s32 find_idlest(struct task_struct *p, s32 cpu)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), least = ~0U, i;
	s32 idlest = cpu;

	bpf_for(i, 0, nr_cpus) {
		s32 other = ((u32)cpu + i) % nr_cpus;
		u32 load = load_of(other);

		if (load < least && bpf_cpumask_test_cpu(other, p->cpus_ptr)) {
			least = load;
			idlest = other;
		}
	}
	return idlest;
}

/* Pulls what makes this CPU and the busiest of its domain even; the tasks pulled. */
static __always_inline u32 load_balance(s32 cpu, struct prio_rq *rq, struct domain *domain, u32 level, u32 running)
{
	u32 first = level ? 0 : (u32)cpu / group_cpus * group_cpus, nr_cpus = scx_bpf_nr_cpu_ids();
	u32 last = !level && first + group_cpus < nr_cpus ? first + group_cpus : nr_cpus;
	u32 own = rq->nr_queued + running, most = own, total = 0, n = 0, pulled = 0, other, i;
	u32 average, surplus, missing;
	s32 busiest = -1;

	bpf_for(i, first, last) {
		other = i == (u32)cpu ? own : load_of(i);
		total += other;
		n++;
		if (other > most) {
			most = other;
			busiest = i;
		}
	}
	if (busiest < 0 || most < own + 2 || most * 100ULL < own * (u64)imbalance_pct) {
		__sync_fetch_and_add(&nr_balanced, 1);
		domain->interval = domain->interval * 2 < max_interval_ns ? domain->interval * 2 : max_interval_ns;
		domain->failed = 0;
		return 0;
	}
	average = total / (n ? n : 1);
	surplus = most - average;
	missing = average > own ? average - own : 1;
	rq->warm = domain->failed > cache_nice_tries;
	pulled = pull_to_array(cpu, busiest, surplus < missing ? surplus : missing);
	rq->warm = false;
	if (pulled) {
		domain->failed = 0;
		domain->interval = min_interval_ns;
	} else {
		domain->failed++;
		__sync_fetch_and_add(&nr_failed, 1);
	}
	return pulled;
}

/* ops.tick(): marks what a busy CPU has to balance now. */
static __always_inline bool domains_due(struct domains *own, u64 now)
{
	bool due = false;
	u32 level;

	bpf_for(level, 0, 2) {
		struct domain *domain = &own->level[level & 1];

		if (level && group_cpus >= scx_bpf_nr_cpu_ids())
			break;
		if (!domain->next) {
			domain->interval = min_interval_ns;
			domain->next = now + domain->interval * busy_factor;
		}
		if ((s64)(now - domain->next) < 0)
			continue;
		domain->next = now + domain->interval * busy_factor;
		domain->due = due = true;
	}
	return due;
}

#endif
