/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Priority levels of threads in the Windows dispatcher: a base level that depends on the nice
 * value, a boost at the end of a wait, and the loss of one level at the end of each quantum.
 *
 * A timer, the balance set manager of Windows, prevents starvation: a thread that has been ready
 * for starved_ns gets level 15 for a short quantum (it is "lifted").
 */
#ifndef THREAD_LEVELS_H
#define THREAD_LEVELS_H

#include "wait_causes.h"

/* Base level of nice 0. */
#define NORMAL 8
/* Highest level of a boost, and the level of lifted threads. */
#define TOP 15
/* State of a thread in an uninterruptible sleep. */
#define TASK_UNINTERRUPTIBLE 2
/* Highest number of threads that the balance set manager examines in one queue. */
#define MAX_SCAN 16
/* Highest number of threads that the balance set manager lifts in one run. */
#define MAX_LIFTED 10

const volatile u64 quantum_ns PARAM("ns, 1000000..10000000000: quantum of a thread; Windows Server 187.5 ms, client editions 31.25 ms") = 187500000;
const volatile u64 lift_period_ns PARAM("ns, 1000000..100000000000: period of the balance set manager, which lifts starved threads") = 1000000000;
const volatile u64 wait_charge_ns PARAM("ns, 0..1000000000: part of the quantum that a wait costs; by default a third of a clock interval") = 5208333;
/*
 * The default is 300 clock intervals of 10 ms, which is 3 s. The balance set manager runs only once
 * a second, and lifts a starving thread in its first run after these 3 s. A starving thread is
 * therefore lifted about every 4 s.
 */
u64 starved_ns PARAM("ns, 1000000..1000000000000: time that a thread is ready before it is lifted") = 3000000000;
u64 lift_quantum_ns PARAM("ns, 1000000..10000000000: quantum of a lifted thread") = 62500000;

/*
 * Counters, in this order: wake-ups with a boost, levels lost at the end of quanta, and lifted
 * threads.
 */
u64 nr_boosted, nr_decayed, nr_lifted;

/* State of one thread. */
struct thread {
	/* Time at which the thread was enqueued. */
	u64 ready_since;
	/* Time up to which the running thread has been charged. */
	u64 running_since;
	/* Part of the quantum that is left, in ns. */
	s64 left;
	/* Current level. */
	u32 level;
	/* Ideal processor: the CPU that a woken thread prefers. */
	u32 ideal;
	/* Whether the thread sleeps in a disk wait. */
	bool disk;
	/* Whether the balance set manager lifted the thread for its current quantum. */
	bool lifted;
	/* Whether the thread's quantum has ended and its next quantum has not begun. */
	bool ended;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/* Returns the state of a thread, or NULL if it has none. */
static __always_inline struct thread *thread_of(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, NULL, 0);
}

/* Returns the base level for the thread's nice value. */
static __always_inline u32 base_level(struct task_struct *p)
{
	u32 nice = p->static_prio - 100;

	return nice <= 20 ? NORMAL + (20 - nice) * 7 / 20 : NORMAL - (nice - 20) * 7 / 19;
}

/*
 * Charges `ns` to the thread's quantum. Returns whether the quantum ended. At the end of its
 * quantum, a boosted thread loses a level, and a lifted thread returns to its base level.
 */
static __always_inline bool charge_ns(struct task_struct *p, struct thread *t, u64 ns)
{
	u32 base = base_level(p);

	t->left -= ns;
	if (t->left > 0)
		return false;
	if (t->level > base) {
		t->level = t->lifted ? base : t->level - 1;
		__sync_fetch_and_add(&nr_decayed, 1);
	}
	t->lifted = false;
	t->left = quantum_ns;
	t->ended = true;
	return true;
}

/* Charges the time since the last charge. Returns whether the quantum ended. */
static __always_inline bool charge(struct task_struct *p, struct thread *t)
{
	u64 now = bpf_ktime_get_ns(), ran = now - t->running_since;

	t->running_since = now;
	return charge_ns(p, t, ran);
}

/* Boosts a thread that wakes up, and charges wait_charge_ns for the wait to its quantum. */
SEC("tp_btf/sched_waking")
int BPF_PROG(waking, struct task_struct *p)
{
	struct cpu *c = cpu_of(bpf_get_smp_processor_id());
	struct thread *t = thread_of(p);
	u32 boost, level;

	if (!c || !t)
		return 0;
	charge_ns(p, t, wait_charge_ns);
	boost = t->disk ? boost_disk : c->boost;
	level = base_level(p) + boost;
	if (level > TOP)
		level = TOP;
	if (boost && level > t->level) {
		t->level = level;
		__sync_fetch_and_add(&nr_boosted, 1);
	}
	return 0;
}

/* The timer of the balance set manager, which must be in a map. */
struct manager {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct manager);
} managers SEC(".maps");

/*
 * Lifts the starved threads of one queue. The function is global, so the verifier checks it only
 * once. The function counts lifted threads in the global variable nr_lifted. With a local variable,
 * the verifier would check every iteration of the loop separately.
 */
__noinline int lift(u32 cpu, u32 level)
{
	u64 now = bpf_ktime_get_ns();
	struct cpu *c = cpu_of(cpu);
	struct bpf_iter_scx_dsq it;
	u32 i;

	if (!c)
		return 0;
	bpf_rcu_read_lock();
	if (!bpf_iter_scx_dsq_new(&it, QUEUE(cpu, level), 0)) {
		bpf_for(i, 0, MAX_SCAN) {
			struct task_struct *p = bpf_iter_scx_dsq_next(&it);
			struct thread *t = p ? thread_of(p) : NULL;

			if (!p)
				break;
			if (!t || now < t->ready_since + starved_ns)
				continue;
			scx_bpf_dsq_move_set_slice(&it, lift_quantum_ns);
			if (!scx_bpf_dsq_move(&it, p, QUEUE(cpu, TOP), 0))
				continue;
			t->level = TOP;
			t->left = lift_quantum_ns;
			t->lifted = true;
			__sync_fetch_and_or(&c->ready, 1U << TOP);
			__sync_fetch_and_add(&nr_lifted, 1);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	return 0;
}

/*
 * Runs the balance set manager: lifts the starved threads of all CPUs, and preempts running threads
 * of lower levels for them.
 */
static int manage(void *map, u32 *key, struct manager *manager)
{
	u64 before = nr_lifted;
	u32 cpu, level;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		struct cpu *c = cpu_of(cpu);

		if (!c)
			continue;
		bpf_for(level, 0, TOP)
			if ((c->ready >> level & 1) && nr_lifted - before < MAX_LIFTED)
				lift(cpu, level);
		if ((c->ready >> TOP & 1) && c->level < TOP)
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	bpf_timer_start(&manager->timer, lift_period_ns, 0);
	return 0;
}

/* Starts the timer. Called when the policy is loaded. */
static __always_inline s32 balance_set_start(void)
{
	struct manager *manager;
	u32 key = 0;

	manager = bpf_map_lookup_elem(&managers, &key);
	if (!manager)
		return -ENOENT;
	bpf_timer_init(&manager->timer, &managers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&manager->timer, manage);
	return bpf_timer_start(&manager->timer, lift_period_ns, 0);
}

#endif
