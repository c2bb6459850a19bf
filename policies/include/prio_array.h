/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two priority arrays for each CPU, active and expired, as in the O(1) schedulers of Linux.
 *
 * The CPU runs tasks of the active array. Tasks whose timeslice has ended wait in the expired
 * array. When the active array is empty, the CPU swaps the two arrays.
 *
 * An array has one FIFO dispatch queue (DSQ) for each level, and a bitmap of the levels that may
 * have tasks. The CPU finds the best level by a search for the first set bit, and swaps the arrays
 * by changing an index. Neither operation takes longer with more tasks.
 *
 * A CPU that adds a task to a level sets the level's bit. Only the CPU that owns the array clears
 * bits. When that CPU finds the best level empty, it clears the bit and then checks the level
 * again, so it does not miss a task that arrived in between. Other CPUs take tasks without clearing
 * bits, so a set bit may belong to an empty level.
 */
#ifndef PRIO_ARRAY_H
#define PRIO_ARRAY_H

#include "cpu_array.h"
#include "pass_on.h"

/* Number of levels of an array, one for each bit of a word. Level 0 is the best. */
#define PRIO_LEVELS 64
/* Value for "no level": the CPU runs no task of the policy, or the array is empty. */
#define PRIO_NONE 64

/* Runqueue of one CPU, besides its DSQs. */
struct prio_rq {
	/* For each array, the levels that may have tasks. */
	u64 bitmap[2];
	/* Index of the active array. */
	u32 active;
	/* Number of tasks in both arrays. */
	u32 nr_queued;
	/* Level of the running task, or PRIO_NONE. */
	u32 curr_level;
	/* Time at which the expired array got its first task since the last swap, or 0. */
	u64 expired_since;
	/*
	 * Lowest static_prio (best nice value) of the tasks that entered the expired array since
	 * the last swap.
	 */
	u32 best_expired;
	/* o1: time at which the CPU next compares queue lengths if it is busy then. */
	u64 next_balance;
	/* o1: whether the next ops.dispatch() should pull tasks from a longer queue. */
	bool pull;
	/* o1: whether the next ops.dispatch() should run a new child before its parent. */
	bool child;
	/*
	 * Whether the current pull (the attempt to take tasks from another CPU) may take tasks
	 * whose data is still in the cache.
	 */
	bool warm;
	/* Whether the current pull has found a task that may run on this CPU. */
	bool allowed;
	/* linux26: whether the next ops.dispatch() should move the running task to another CPU. */
	bool push;
	/* linux26: whether a wake-up on this CPU is by the running task and not by an interrupt. */
	bool waking;
	/* linux26: average of the CPU's load over the last ticks (prio_domains.h). */
	u32 load_avg;
} CPU_ALIGNED;

/*
 * By default, the runqueues are global variables. A policy may define PRIO_RQS as CPU_MAP to keep
 * them in a BPF map.
 */
#ifndef PRIO_RQS
#define PRIO_RQS CPU_VARIABLES
#endif
PRIO_RQS(prio_rq)

/* The part of a task's state that the code of this header needs. */
struct prio_node {
	/*
	 * 1 + the number of the CPU that counts the task in its nr_queued, or 0 if no CPU does.
	 * Changed by atomic instructions, because other CPUs may take the task.
	 */
	u32 counted;
	/*
	 * Time at which the task last ran. Some policies do not pull a task that ran recently,
	 * because its data is still in the cache.
	 */
	u64 ran_at;
};

/* Number of times that a CPU swapped its active and expired arrays. */
u64 nr_swaps;

/* Returns the ID of a level's DSQ. */
static __always_inline u64 prio_dsq(s32 cpu, u32 array, u32 level)
{
	return (u64)cpu << 7 | (array & 1) << 6 | (level & 63);
}

/*
 * Returns the index of the lowest set bit of `bits`, which must not be 0. BPF has no instruction
 * for this, so a multiplication with a de Bruijn sequence yields an index into a table.
 */
static __always_inline u32 first_bit(u64 bits)
{
	static const u8 number[64] = {
		0,  1,  2,  53, 3,  7,  54, 27, 4,  38, 41, 8,  34, 55, 48, 28, 62, 5,  39, 46, 44, 42,
		22, 9,  24, 35, 59, 56, 49, 18, 29, 11, 63, 52, 6,  26, 37, 40, 33, 47, 61, 45, 43, 21,
		23, 58, 17, 10, 51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12,
	};

	return number[(bits & -bits) * 0x022fdd63cc95386dULL >> 58];
}

/*
 * Adds a task to a level, at the end or, with SCX_ENQ_HEAD, at the front. Called from
 * ops.enqueue().
 */
static __always_inline void prio_insert(struct prio_rq *rq, struct task_struct *p, struct prio_node *node, s32 cpu,
					u32 array, u32 level, u64 slice, u64 enq_flags)
{
	node->counted = cpu + 1;
	__sync_fetch_and_add(&rq->nr_queued, 1);
	__sync_fetch_and_or(&rq->bitmap[array & 1], 1ULL << (level & 63));
	scx_bpf_dsq_insert(p, prio_dsq(cpu, array, level), slice, enq_flags);
}

/*
 * Decrements nr_queued of the CPU from whose level a task is removed. Called from ops.dequeue(),
 * which the kernel calls at every removal.
 */
static __always_inline void prio_removed(struct prio_node *node)
{
	u32 counted = __sync_lock_test_and_set(&node->counted, 0);
	struct prio_rq *rq = counted ? prio_rq_of(counted - 1) : NULL;

	if (rq)
		__sync_fetch_and_sub(&rq->nr_queued, 1);
}

/*
 * Updates nr_queued of both CPUs after a task has moved from the arrays of CPU `from` to those of
 * CPU `to`. Called from ops.dispatch(). If a third CPU has already taken the task again, neither of
 * the two CPUs counts the task.
 */
static __always_inline void prio_moved(struct prio_rq *from_rq, s32 from, struct prio_rq *to_rq, s32 to, struct prio_node *node)
{
	__sync_fetch_and_add(&to_rq->nr_queued, 1);
	if (__sync_val_compare_and_swap(&node->counted, (u32)from + 1, (u32)to + 1) == (u32)from + 1)
		__sync_fetch_and_sub(&from_rq->nr_queued, 1);
	else
		__sync_fetch_and_sub(&to_rq->nr_queued, 1);
}

/* Slow path of prio_best(), for the case that the best level of the bitmap is empty. */
__noinline u32 prio_best_of_others(s32 cpu, u32 array)
{
	struct prio_rq *rq = prio_rq_of(cpu);
	u32 found = PRIO_NONE, i;

	array &= 1;
	if (!rq)
		return PRIO_NONE;
	bpf_for(i, 0, PRIO_LEVELS) {
		u64 bits = rq->bitmap[array];
		u32 level;

		if (!bits)
			break;
		level = first_bit(bits) & 63;
		if (scx_bpf_dsq_nr_queued(prio_dsq(cpu, array, level)) > 0) {
			found = level;
			break;
		}
		__sync_fetch_and_and(&rq->bitmap[array], ~(1ULL << level));
		if (scx_bpf_dsq_nr_queued(prio_dsq(cpu, array, level)) > 0)
			__sync_fetch_and_or(&rq->bitmap[array], 1ULL << level);
	}
	return found;
}

/*
 * Returns the best level of an array of this CPU, or PRIO_NONE if the array is empty. In the common
 * case (fast path), the first level in the bitmap has a task.
 */
static __always_inline u32 prio_best(struct prio_rq *rq, s32 cpu, u32 array)
{
	u64 bits = rq->bitmap[array & 1];
	u32 level;

	if (!bits)
		return PRIO_NONE;
	level = first_bit(bits) & 63;
	if (scx_bpf_dsq_nr_queued(prio_dsq(cpu, array, level)) > 0)
		return level;
	return prio_best_of_others(cpu, array & 1);
}

/* Swaps the active and the expired array. */
static __always_inline void prio_swap(struct prio_rq *rq)
{
	rq->active = !(rq->active & 1);
	rq->expired_since = 0;
	rq->best_expired = ~0U;
	__sync_fetch_and_add(&nr_swaps, 1);
}

/* Result of prio_try() if the search must be repeated. */
#define PRIO_AGAIN 2

/*
 * Makes one attempt to pick a task for prio_pick(). Returns the result of prio_pick(), or
 * PRIO_AGAIN if the arrays were swapped or another CPU took the task.
 */
static __always_inline s32 prio_try(struct prio_rq *rq, s32 cpu, bool prev, u32 prev_array, u32 prev_level, bool prev_first)
{
	u32 active = rq->active & 1;
	u32 best = prio_best(rq, cpu, active);
	bool in_active = prev && prev_array == active;

	if (best == PRIO_NONE && !in_active) {
		if (!prev && prio_best(rq, cpu, !active) == PRIO_NONE)
			return 0;
		prio_swap(rq);
		return PRIO_AGAIN;
	}
	if (in_active && (prev_level < best || (prev_level == best && prev_first)))
		return -1;
	if (best == PRIO_NONE)
		return PRIO_AGAIN;
	if (scx_bpf_dsq_move_to_local(prio_dsq(cpu, active, best)))
		return 1;
	pass_on(prio_dsq(cpu, active, best));
	return PRIO_AGAIN;
}

/*
 * Moves the next task in a CPU's arrays to the CPU's local DSQ. Returns 1 if it moved a task, 0 if
 * there is no task, and -1 if the running task should continue. If `prev` is set, the running task
 * competes as a task of level prev_level of array prev_array: before the other tasks of that level
 * if prev_first is set, else behind them.
 */
static __always_inline s32 prio_pick(struct prio_rq *rq, s32 cpu, bool prev, u32 prev_array, u32 prev_level,
				     bool prev_first)
{
	s32 ret = prio_try(rq, cpu, prev, prev_array, prev_level, prev_first);
	u32 i;

	if (ret != PRIO_AGAIN)
		return ret;
	bpf_for(i, 0, PRIO_LEVELS) {
		ret = prio_try(rq, cpu, prev, prev_array, prev_level, prev_first);
		if (ret != PRIO_AGAIN)
			break;
	}
	return ret == PRIO_AGAIN ? 0 : ret;
}

/*
 * Returns whether a child inherits from the current task, which forks. Called from ops.init_task(),
 * before Linux sets p->real_parent. A real-time task is not scheduled by the policy, so its child
 * starts like a task without a parent.
 */
static __always_inline bool shares_with_child(struct task_struct *current)
{
	return current->prio >= MAX_RT_PRIO;
}

/*
 * Moves the tasks of all levels to the global DSQ (pass_on.h). Visits also the levels whose bits
 * are clear, because a CPU that pulls a task adds it to a level before it sets the level's bit.
 */
static __always_inline void pass_on_all(s32 cpu)
{
	u32 queue;

	bpf_for(queue, 0, 2 * PRIO_LEVELS)
		pass_on((u64)cpu << 7 | queue);
}

/* Initializes the arrays of all CPUs and creates their queues. Called when the policy is loaded. */
static __always_inline s32 prio_init(void)
{
	s32 nr_cpus = scx_bpf_nr_cpu_ids(), cpu, queue, ret;

	if (nr_cpus > MAX_CPUS)
		return -E2BIG;
	bpf_for(cpu, 0, nr_cpus) {
		struct prio_rq *rq = prio_rq_of(cpu);

		if (!rq)
			return -EINVAL;
		rq->curr_level = PRIO_NONE;
		rq->best_expired = ~0U;
		bpf_for(queue, 0, 2 * PRIO_LEVELS) {
			ret = scx_bpf_create_dsq((u64)cpu << 7 | queue, -1);
			if (ret)
				return ret;
		}
	}
	return 0;
}

#endif
