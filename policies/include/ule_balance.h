/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Load balancing in ule: a CPU without threads steals one, and a timer moves threads from CPUs with
 * many threads to CPUs with few.
 */
#ifndef ULE_BALANCE_H
#define ULE_BALANCE_H

#include "online.h"
#include "ule_cpu.h"

/* Most pairs of CPUs between which one run of the timer moves threads. */
#define MAX_PAIRS 64

const volatile u64 balance_ns PARAM("ns, 1000000..100000000000: mean time between two runs of the timer") = SECOND_NS;
u32 steal_thresh PARAM("threads, 2..1000: an idle CPU takes threads from CPUs with this many") = 2;

/* LLC of each CPU, set by the profile. */
const volatile u32 llc_of[MAX_CPUS];

/* Number of threads that idle CPUs stole, and that the timer moved. */
u64 nr_stolen, nr_balanced;

struct balance_timer {
	struct bpf_timer timer;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct balance_timer);
} balance_timers SEC(".maps");
/* Number of runs of the timer. */
static u64 timer_runs;

/* Takes a thread from the CPU with the most threads, in an LLC or (llc == -1) anywhere. */
static __noinline bool steal(s32 cpu, s32 llc)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids();
	s32 i, from = -1, most = 0;

	bpf_for(i, 1, nr_cpus) {
		s32 other = (u32)(cpu + i) % nr_cpus, load = load_of(other);

		if (load > most && load >= (s32)steal_thresh && load > cpu_of(other)->running &&
		    (llc < 0 || llc_of[other & (MAX_CPUS - 1)] == (u32)llc)) {
			most = load;
			from = other;
		}
	}
	if (from < 0 || (!scx_bpf_dsq_move_to_local(from) && !scx_bpf_dsq_move_to_local(BATCH_QUEUE(from))))
		return false;
	__sync_fetch_and_add(&nr_stolen, 1);
	return true;
}

/* Moves a waiting thread from one of the two queues of `from` to the CPU `to`. */
static __noinline bool move_one(u64 queue, s32 to)
{
	struct cpu *c = cpu_of(to);
	struct task_struct *p;
	bool moved = false;

	bpf_for_each_dsq(it, p, queue) {
		struct thread *t = thread_of(p);

		if (!t || p->migration_disabled || !bpf_cpumask_test_cpu(to, p->cpus_ptr))
			continue;
		scx_bpf_dsq_move_set_vtime(&it, key_of(t, c, false));
		moved = scx_bpf_dsq_move_vtime(&it, p, queue_of(t, to), 0);
		break;
	}
	return moved;
}

/*
 * Runs when the timer expires. Each CPU gives or receives at most one thread: the one with the most
 * threads gives to the one with the fewest, then the next two.
 */
static int balance(void *map, int *key, struct balance_timer *b)
{
	u64 now = ++timer_runs;
	s32 pair, cpu;

	bpf_for(pair, 0, MAX_PAIRS) {
		s32 high = -1, low = -1, most = -1, least = 1 << 30;

		bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
			s32 load = load_of(cpu);

			if (!is_online(cpu) || cpu_of(cpu)->balanced == now)
				continue;
			if (load > most) {
				most = load;
				high = cpu;
			}
			if (load < least) {
				least = load;
				low = cpu;
			}
		}
		if (high < 0 || low < 0 || most - least < 2)
			break;
		cpu_of(high)->balanced = now;
		if (!move_one(high, low) && !move_one(BATCH_QUEUE(high), low))
			continue;
		cpu_of(low)->balanced = now;
		__sync_fetch_and_add(&nr_balanced, 1);
		scx_bpf_kick_cpu(low, SCX_KICK_IDLE);
	}
	bpf_timer_start(&b->timer, balance_ns / 2 + bpf_get_prandom_u32() * (balance_ns >> 10) / (1U << 22), 0);
	return 0;
}

/* Starts the timer. Called when the policy is loaded. */
static __always_inline s32 balance_init(void)
{
	u32 key = 0;
	struct balance_timer *b = bpf_map_lookup_elem(&balance_timers, &key);

	if (!b)
		return -ENOENT;
	bpf_timer_init(&b->timer, &balance_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&b->timer, balance);
	return bpf_timer_start(&b->timer, balance_ns, 0);
}

#endif
