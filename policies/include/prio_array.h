/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two priority arrays a CPU, active and expired: a FIFO DSQ a level, and a bitmap of the levels that may have tasks.
 * Finding the best level is one bit search, swapping the arrays is turning an index: neither depends on the tasks.
 *
 * Who puts a task on a level sets the bit; only the owner of the array, looking for its best level, clears bits whose
 * level it finds empty. It looks again after clearing, so a task put there in between is not lost. Levels that others
 * have emptied cost the owner one look each, once.
 */
#ifndef PRIO_ARRAY_H
#define PRIO_ARRAY_H

#include "cpu_array.h"
#define CPU_QUEUES
#include "hotplug.h"

/* Levels of an array, 0 the best: bits of one word. */
#define PRIO_LEVELS 64
/* No level: nothing runs there, or nothing is queued. */
#define PRIO_NONE 64

/* One CPU's arrays. */
struct prio_rq {
	u64 bitmap[2];
	/* Which of the two is active; the other one is expired. */
	u32 active;
	/* Tasks in both, and in the expired one. */
	u32 nr_queued;
	/* Level of the task that runs, PRIO_NONE if none of ours does. */
	u32 curr_level;
	/* When the expired array got its first task since the swap; 0 if it is empty. */
	u64 expired_since;
	/* Least static_prio of those that have expired since then. */
	u32 best_expired;
	u64 next_balance;
	/* To be done by the next ops.dispatch(): pull from a longer queue; let a child run before its parent. */
	bool pull;
	bool child;
	/* A pull takes tasks with warm caches, too; it has seen tasks that may go there. */
	bool warm;
	bool allowed;
	/* Another CPU fetches the task that runs here. */
	bool push;
	/* A task of this CPU, not an interrupt, is waking others. */
	bool waking;
	/* Average of its load over some ticks, in the policy's unit. */
	u32 load_avg;
} CPU_ALIGNED;

#ifndef PRIO_RQS
#define PRIO_RQS CPU_VARIABLES
#endif
PRIO_RQS(prio_rq)

/* Where a task is queued; part of a policy's task storage. */
struct prio_node {
	/* Whose nr_queued has the task: the CPU's number and 1; 0: nobody's. Changes hands atomically, as others may take the task. */
	u32 counted;
	/* When it ran last: how warm its caches may be. Kept by policies that ask. */
	u64 ran_at;
};

/* Swaps of active and expired. */
u64 nr_swaps;

static __always_inline u64 prio_dsq(s32 cpu, u32 array, u32 level)
{
	return (u64)cpu << 7 | (array & 1) << 6 | (level & 63);
}

/* Number of the lowest bit set; bits is not 0. BPF has no instruction for it: a de Bruijn sequence and a table. */
static __always_inline u32 first_bit(u64 bits)
{
	static const u8 number[64] = {
		0,  1,  2,  53, 3,  7,  54, 27, 4,  38, 41, 8,  34, 55, 48, 28, 62, 5,  39, 46, 44, 42,
		22, 9,  24, 35, 59, 56, 49, 18, 29, 11, 63, 52, 6,  26, 37, 40, 33, 47, 61, 45, 43, 21,
		23, 58, 17, 10, 51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12,
	};

	return number[(bits & -bits) * 0x022fdd63cc95386dULL >> 58];
}

/* Puts the task of ops.enqueue() on a level, in front of it or behind. */
static __always_inline void prio_insert(struct prio_rq *rq, struct task_struct *p, struct prio_node *node, s32 cpu,
					u32 array, u32 level, u64 slice, u64 enq_flags)
{
	node->counted = cpu + 1;
	__sync_fetch_and_add(&rq->nr_queued, 1);
	__sync_fetch_and_or(&rq->bitmap[array & 1], 1ULL << (level & 63));
	scx_bpf_dsq_insert(p, prio_dsq(cpu, array, level), slice, enq_flags);
}

/* The task has left its level: ops.dequeue(), which comes whatever takes a task away. */
static __always_inline void prio_removed(struct prio_node *node)
{
	u32 counted = __sync_lock_test_and_set(&node->counted, 0);
	struct prio_rq *rq = counted ? prio_rq_of(counted - 1) : NULL;

	if (rq)
		__sync_fetch_and_sub(&rq->nr_queued, 1);
}

/* ops.dispatch(): the task has been moved from a CPU's arrays to another's, where somebody may have taken it at once. */
static __always_inline void prio_moved(struct prio_rq *from_rq, s32 from, struct prio_rq *to_rq, s32 to, struct prio_node *node)
{
	__sync_fetch_and_add(&to_rq->nr_queued, 1);
	if (__sync_val_compare_and_swap(&node->counted, (u32)from + 1, (u32)to + 1) == (u32)from + 1)
		__sync_fetch_and_sub(&from_rq->nr_queued, 1);
	else
		__sync_fetch_and_sub(&to_rq->nr_queued, 1);
}

/* As prio_best(), after a look at a level that turned out to be empty. */
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

/* Best level of an own array that has tasks, PRIO_NONE if it is empty. Mostly one look. */
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

static __always_inline void prio_swap(struct prio_rq *rq)
{
	rq->active = !(rq->active & 1);
	rq->expired_since = 0;
	rq->best_expired = ~0U;
	__sync_fetch_and_add(&nr_swaps, 1);
}

/* What prio_pick() returns, or PRIO_AGAIN after a swap or a task that another CPU took. */
#define PRIO_AGAIN 2

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
 * Takes the next task of a CPU's arrays to the local DSQ. `prev`, if there is one, still wants to run: it stands before
 * all others of its level if it is in the active array. Returns 1 if a task was taken, 0 if there is none, and -1 if prev
 * is the next one.
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

/* ops.init_task(): is the running task the one that forks? A thread has its process' parent. */
static __always_inline bool is_child_of(struct task_struct *p, struct task_struct *current)
{
	return p->tgid == current->tgid || (p->real_parent && p->real_parent->pid == current->pid);
}

/* All levels, as bits may lag behind. */
static __always_inline void pass_on_all(s32 cpu)
{
	u32 queue;

	bpf_for(queue, 0, 2 * PRIO_LEVELS)
		pass_on((u64)cpu << 7 | queue);
}

/* The queues of all CPUs; load time. */
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
