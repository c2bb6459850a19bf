/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The runqueue of a CPU in mqs and pmqs: a dispatch queue (DSQ) with the CPU's number as its ID, a
 * lock, and the values that other CPUs may read.
 *
 * Goodness is the value by which the policies choose tasks (goodness.h). A task has a higher
 * goodness on the CPU on which it ran last (affinity bonus). Goodness without this bonus,
 * `na_goodness`, is the same on all CPUs. Other CPUs read the highest na_goodness of a queue
 * without the lock. To take a task, another CPU must first acquire the lock with try_lock().
 *
 * No CPU ever waits for the lock. If another CPU holds the lock, the CPU that owns the queue uses
 * the queue nevertheless. This is safe, because the DSQ has a lock of the kernel, which keeps the
 * DSQ consistent: if another CPU has already taken a task, an attempt to move that task fails.
 */
#ifndef CPU_QUEUE_H
#define CPU_QUEUE_H

#include "goodness.h"

/*
 * Value of mq.curr_na_goodness while the CPU runs no task of the policy. Every task has a lower
 * goodness than this value, so no task tries to preempt the CPU.
 */
#define UNBEATABLE 0x7fff

/*
 * Counters, in this order: queues that were skipped because they were locked, and wake-ups that
 * preempted a task.
 */
u64 nr_busy, nr_preempted;

/* Runqueue of one CPU, besides its DSQ. */
struct mq {
	/* Number of CPUs that hold the lock: the CPU itself, and at most one other CPU. */
	u32 holders;
	/* Highest goodness without affinity among the waiting tasks. */
	s32 max_na_goodness;
	/*
	 * Time of the last release of the lock. The windtunnel simulator executes CPUs one after
	 * the other, so the clock of the CPU that it executes next may show an earlier time. The
	 * lock was still held at that earlier time, so try_lock() then fails.
	 */
	u64 free_at;
	/* 1 if the CPU runs a task of the policy, else 0. */
	s32 running;
	/* Goodness of the running task without affinity. */
	s32 curr_na_goodness;
	/* pmqs: time at which the CPU last chose the running task. */
	u64 turn_since;
	/*
	 * pmqs: time at which the longest-waiting task began to wait. The CPU updates it at each
	 * search.
	 */
	u64 oldest_since;
	/* Balancer (balancer.h): load of the queue. */
	s64 load;
	/*
	 * Balancer: load of the queue minus the mean load of all queues, before the balancer moves
	 * tasks. Unit: a thousandth of the unit of `load`.
	 */
	s64 deviation_milli;
	/* Balancer: BALANCED, SURPLUS or DEFICIT. */
	s32 kind;
} __attribute__((aligned(128)));
/* Runqueues of all CPUs. */
struct mq mqs[MAX_CPUS];

/* Returns the runqueue of a CPU. */
static __always_inline struct mq *mq_of(s32 cpu)
{
	return &mqs[cpu & (MAX_CPUS - 1)];
}

/* Tries to acquire the lock of another CPU's queue. Returns whether it acquired the lock. */
static __always_inline bool try_lock(struct mq *q)
{
	if (bpf_ktime_get_ns() >= q->free_at && __sync_bool_compare_and_swap(&q->holders, 0, 1))
		return true;
	__sync_fetch_and_add(&nr_busy, 1);
	return false;
}

/* Acquires the lock of the CPU's own queue without waiting, even if another CPU holds it. */
static __always_inline void lock_own(struct mq *q)
{
	__sync_fetch_and_add(&q->holders, 1);
}

/* Releases the lock of a queue. */
static __always_inline void unlock(struct mq *q)
{
	q->free_at = bpf_ktime_get_ns();
	__sync_fetch_and_add(&q->holders, -1);
}

/*
 * Raises the published goodness of a queue to `na`, the goodness of a task that enters the queue,
 * if `na` is higher.
 */
static __always_inline void raise_max(struct mq *q, s32 na)
{
	if (q->max_na_goodness < na)
		q->max_na_goodness = na;
}

/* Puts a task into the queue of a CPU. The task then has its affinity bonus on that CPU. */
static __always_inline void put_on(struct task_struct *p, struct task_ctx *t, s32 cpu, u64 enq_flags)
{
	struct mq *q = mq_of(cpu);

	t->last_cpu = cpu;
	t->waits_since = scx_bpf_now();
	scx_bpf_dsq_insert_vtime(p, cpu, NO_SLICE_END, place_in_queue(t), enq_flags);
	raise_max(q, na_goodness(p, t));
}

/*
 * Publishes for other CPUs what the CPU of task `p` runs: the goodness of `p` if `running` is 1, or
 * that the CPU runs no task of the policy if `running` is 0.
 */
static __always_inline void show_running(struct task_struct *p, s32 running)
{
	struct task_ctx *t = task_ctx(p);
	struct mq *q = mq_of(scx_bpf_task_cpu(p));

	if (!t)
		return;
	q->running = running;
	q->curr_na_goodness = running ? na_goodness(p, t) : UNBEATABLE;
}

/* Creates the queues. Called when the policy is loaded. */
static __always_inline s32 init_queues(void)
{
	s32 cpu, ret;

	nr_cpus = scx_bpf_nr_cpu_ids();
	if (nr_cpus > MAX_CPUS)
		return -E2BIG;
	online_init();
	bpf_for(cpu, 0, nr_cpus) {
		struct mq *q = mq_of(cpu);

		q->max_na_goodness = GOODNESS_IDLE;
		q->curr_na_goodness = UNBEATABLE;
		ret = scx_bpf_create_dsq(cpu, -1);
		if (ret)
			return ret;
	}
	return 0;
}

#endif
