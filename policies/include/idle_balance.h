/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Load balancing of CFS in Linux 4.20.
 *
 * A CPU that is about to become idle searches for the busiest CPU and pulls a task from it. It
 * searches domain by domain: its core, its last-level cache (LLC), its node, the machine. The CPU
 * does not search at all if its average idle period is shorter than the cost of a migration
 * (migration_cost_ns). Before each domain, the CPU adds up the time of the search so far and the
 * expected time for this domain. If the sum exceeds the CPU's average idle period, the search ends.
 * Independently, a timer moves one task from the busiest to the least busy CPU every balance_ns.
 *
 * Simplified: this code compares single CPUs, but CFS compares groups of CPUs. The load of a CPU is
 * its number of tasks. A task that has just run may be pulled, although its data is still in the
 * cache.
 */
#ifndef IDLE_BALANCE_H
#define IDLE_BALANCE_H

#include "cfs_rq.h"
#include "pass_on.h"

const volatile u64 balance_ns PARAM("ns, 100000..10000000000: period of the balancing timer, which moves at most one task") = 16000000;
u64 migration_cost_ns PARAM("ns, 0..1000000000: a CPU whose average idle period is shorter does not pull when it is about to idle") = 500000;
u32 idle_balance PARAM("level, 0..2: domains in which a CPU about to idle searches: 0 none, 1 nodes and machine, 2 all") = 2;

/*
 * Counters, in this order: tasks that CPUs pulled before they became idle, tasks that the timer
 * moved, and searches that were skipped because idle periods were too short.
 */
u64 nr_pulled, nr_balanced, nr_declined;

/* Takes the first task of another CPU's queue that may run on this CPU. Defined by the policy. */
static __always_inline bool take(u32 from);
/* Updates the bitmaps after a task moved between two queues. Defined by overloaded.h. */
static __always_inline void moved(u32 from, u32 to);

/*
 * Updates the average idle period of a CPU that becomes idle or busy. Called from
 * ops.update_idle().
 */
static __always_inline void note_idle_time(struct cpu *c, bool idle)
{
	u64 now = bpf_ktime_get_ns();

	if (idle) {
		c->idle_since = now;
		return;
	}
	c->avg_idle += ((s64)(now - c->idle_since) - (s64)c->avg_idle) >> 3;
	if (c->avg_idle > 2 * migration_cost_ns)
		c->avg_idle = 2 * migration_cost_ns;
}

/*
 * Pulls a task for a CPU that is about to become idle. Returns whether it pulled a task. The loop
 * ends with `break`, because with `return` clang generates code that the verifier rejects.
 */
static __always_inline bool pull(struct cpu *c, u32 cpu, u32 nr_cpus)
{
	bool pulled = false;
	u64 spent = 0;
	u32 level, i;

	if (c->avg_idle < migration_cost_ns) {
		__sync_fetch_and_add(&nr_declined, 1);
		return false;
	}
	bpf_for(level, idle_balance == 1 ? NODE : CORE, LEVELS) {
		u64 start = bpf_ktime_get_ns(), took;
		s32 busiest = -1, most = 0;

		if (c->avg_idle < spent + c->cost[level]) {
			__sync_fetch_and_add(&nr_declined, 1);
			break;
		}
		bpf_for(i, 0, nr_cpus) {
			s32 n = i != cpu && in_domain(level, i, cpu) ? waiting(i) : 0;

			if (n > most) {
				most = n;
				busiest = i;
			}
		}
		took = bpf_ktime_get_ns() - start;
		c->cost[level] = took > c->cost[level] ? took : c->cost[level] - c->cost[level] / 128;
		spent += took;
		if (busiest >= 0 && take(busiest)) {
			__sync_fetch_and_add(&nr_pulled, 1);
			pulled = true;
			break;
		}
	}
	return pulled;
}

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

/*
 * Runs when the timer expires. Moves the first waiting task of the busiest CPU to the least busy
 * CPU, if the busiest CPU has at least two more runnable tasks.
 */
static int balance(void *map, u32 *key, struct balance_timer *timer)
{
	s32 most = -1, least = 1 << 30, busiest = 0, idlest = 0;
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	struct cfs_task *t;
	u32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		s32 n = nr_running(cpu);

		if (n > most) {
			most = n;
			busiest = cpu;
		}
		if (n < least && is_online(cpu)) {
			least = n;
			idlest = cpu;
		}
	}
	if (most >= least + 2) {
		if (!bpf_iter_scx_dsq_new(&it, busiest, 0)) {
			p = bpf_iter_scx_dsq_next(&it);
			t = p ? cfs_task_of(p) : NULL;
			if (t)
				scx_bpf_dsq_move_set_vtime(&it, vtime_on(p, t, idlest));
			if (t && bpf_cpumask_test_cpu(idlest, p->cpus_ptr) && scx_bpf_dsq_move_vtime(&it, p, idlest, 0)) {
				t->cpu = idlest;
				__sync_fetch_and_add(&nr_balanced, 1);
				moved(busiest, idlest);
				scx_bpf_kick_cpu(idlest, SCX_KICK_IDLE);
			}
		}
		bpf_iter_scx_dsq_destroy(&it);
	}
	bpf_timer_start(&timer->timer, balance_ns, 0);
	return 0;
}

/* Starts the timer. Called when the policy is loaded. */
static __always_inline s32 balance_start(void)
{
	u32 key = 0;
	struct balance_timer *first = bpf_map_lookup_elem(&balance_timers, &key);

	if (!first)
		return -EINVAL;
	online_init();
	bpf_timer_init(&first->timer, &balance_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&first->timer, balance);
	return bpf_timer_start(&first->timer, balance_ns, 0);
}

#endif
