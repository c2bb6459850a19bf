/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The runqueue of a CPU in mqs and pmqs: a DSQ with the CPU's number, what other CPUs may know of it, and its
 * lock.
 *
 * Others read max_na_goodness without the lock, and take the lock only to take a task. No CPU ever waits for
 * the lock, its owner least of all: the lock of the DSQ keeps the queue consistent, and a task that another
 * CPU took is a move that fails.
 */
#ifndef CPU_QUEUE_H
#define CPU_QUEUE_H

#include "goodness.h"

/* curr_na_goodness of a CPU that runs none of the policy's tasks: it cannot be beaten. */
#define NOBODY 0x7fff

/* Queues that were skipped because they were locked, and wake-ups that preempted a task. */
u64 nr_busy, nr_preempted;

struct mq {
	/* CPUs that hold the lock: its owner, and at most one other. */
	u32 holders;
	/* Highest goodness without affinity among the tasks that wait. */
	s32 max_na_goodness;
	/* When the lock was last released. A CPU whose clock is behind this finds it locked. */
	u64 free_at;
	/* Number of tasks that run here (0 or 1), and the goodness of that task without affinity. */
	s32 running;
	s32 curr_na_goodness;
	/*
	 * pmqs: when the running task got the CPU, and since when the longest waiting task of the last choice
	 * waits.
	 */
	u64 turn_since;
	u64 oldest_since;
	/* Balancer: load, deviation from the mean before any move in thousandths, and verdict. */
	s64 load;
	s64 deviation_milli;
	s32 kind;
} __attribute__((aligned(128)));
struct mq mqs[MAX_CPUS];

static __always_inline struct mq *mq_of(s32 cpu)
{
	return &mqs[cpu & (MAX_CPUS - 1)];
}

static __always_inline bool try_lock(struct mq *q)
{
	if (bpf_ktime_get_ns() >= q->free_at && __sync_bool_compare_and_swap(&q->holders, 0, 1))
		return true;
	__sync_fetch_and_add(&nr_busy, 1);
	return false;
}

/* The owner takes its lock at once, even if another CPU holds it. */
static __always_inline void lock_own(struct mq *q)
{
	__sync_fetch_and_add(&q->holders, 1);
}

static __always_inline void unlock(struct mq *q)
{
	q->free_at = bpf_ktime_get_ns();
	__sync_fetch_and_add(&q->holders, -1);
}

static __always_inline void raise_max(struct mq *q, s32 na)
{
	if (q->max_na_goodness < na)
		q->max_na_goodness = na;
}

/* Puts a task into the queue of a CPU, to which it has affinity from now on. */
static __always_inline void put_on(struct task_struct *p, struct task_ctx *t, s32 cpu, u64 enq_flags)
{
	struct mq *q = mq_of(cpu);

	t->last_cpu = cpu;
	t->waits_since = scx_bpf_now();
	scx_bpf_dsq_insert_vtime(p, cpu, NO_SLICE_END, place_in_queue(t), enq_flags);
	raise_max(q, na_goodness(p, t));
}

/* Publishes the goodness of the task that starts, continues or stops running. */
static __always_inline void show_running(struct task_struct *p, s32 running)
{
	struct task_ctx *t = task_ctx(p);
	struct mq *q = mq_of(scx_bpf_task_cpu(p));

	if (!t)
		return;
	q->running = running;
	q->curr_na_goodness = running ? na_goodness(p, t) : NOBODY;
}

/* Creates the queues, when the policy is loaded. */
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
		q->curr_na_goodness = NOBODY;
		ret = scx_bpf_create_dsq(cpu, -1);
		if (ret)
			return ret;
	}
	return 0;
}

#endif
