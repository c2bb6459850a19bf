/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pls: the default scheduler of Linux 2.4 with its queue sorted into priority levels.
 *
 * dss decides by goodness. All parts of goodness but the affinity bonus are the same on every CPU, so pls
 * keeps waiting tasks in levels by those parts. A choice begins at the highest level that is not empty. It
 * ends at a level whose tasks could not beat the best task so far with the full bonus. The decisions are
 * those of dss: ties are broken by the place in a common queue.
 *
 * Good for: what dss is good for, with more tasks.
 * Bad for: many CPUs, since there is still one lock in effect; recalculations, which sort the whole queue
 * again.
 * Source: Franke, Nagar, Kravetz, Ravindran, "PMQS: Scalable Linux Scheduling for High End Servers" (2001).
 *
 * Known weakness: tasks that are bound to a CPU starve, as under dss.
 * Different here: as dss. Each level is a DSQ with a lock of its own.
 */
#include "include/one_queue.h"

char _license[] SEC("license") = "GPL";

/* Goodness without affinity is at most 40 for the nice value plus 21 ticks. */
#define NR_LEVELS 64

/* Tasks that recalculations moved to another level. */
u64 nr_sorted;

/* One bit for each level that may have tasks. */
static u64 levels;
/*
 * For each CPU the level + 1 into which ops.enqueue() last inserted a task, or 0. The task arrives there when
 * the callback has returned, which is certain when the CPU makes its next choice.
 */
static u8 arriving[MAX_CPUS] CPU_ALIGNED;

static __always_inline u32 level_of(struct task_struct *p, struct task_ctx *t)
{
	return na_goodness(p, t) & (NR_LEVELS - 1);
}

static __always_inline void mark(u32 level)
{
	__sync_fetch_and_or(&levels, 1ULL << level);
}

/* Returns the highest level below `end` that may have tasks, or -1. */
static __always_inline s32 highest_below(s32 end)
{
	u64 below = end >= NR_LEVELS ? levels : levels & ((1ULL << end) - 1);
	s32 level = 0, i;

	if (!below)
		return -1;
	bpf_for(i, 0, 6) {
		u32 half = 32 >> i;

		if (below >> half) {
			below >>= half;
			level += half;
		}
	}
	return level;
}

static __noinline bool is_arriving(s32 level)
{
	s32 cpu;

	bpf_for(cpu, 0, nr_cpus)
		if (arriving[cpu & (MAX_CPUS - 1)] == level + 1)
			return true;
	return false;
}

static __always_inline void insert_waiting(struct task_struct *p, struct task_ctx *t, u64 enq_flags)
{
	u32 level = level_of(p, t);

	arriving[bpf_get_smp_processor_id() & (MAX_CPUS - 1)] = level + 1;
	scx_bpf_dsq_insert_vtime(p, level, NO_SLICE_END, place_in_queue(t), enq_flags);
	mark(level);
}

/* Moves every task to its level after a recalculation. A task that moved down is met again and stays. */
static __noinline void sort_anew(void)
{
	s32 i, level;

	bpf_for(i, 0, NR_LEVELS) {
		struct task_struct *p;

		level = NR_LEVELS - 1 - i;
		if (!(levels >> level & 1))
			continue;
		bpf_for_each_dsq(it, p, level) {
			struct task_ctx *t = task_ctx(p);
			u32 to;

			if (!t)
				continue;
			to = level_of(p, t);
			if (to == level || !scx_bpf_dsq_move_vtime(&it, p, to, 0))
				continue;
			mark(to);
			__sync_fetch_and_add(&nr_sorted, 1);
		}
	}
}

/* The best task so far. */
struct choice {
	s32 goodness;
	s32 level;
	s32 pid;
	s64 place;
};

/* Examines the tasks of one level. */
static __noinline void look_through(s32 level, s32 cpu, u64 mm, struct choice *best)
{
	struct task_struct *p;
	bool empty = true;

	if (!best)
		return;
	bpf_for_each_dsq(it, p, level) {
		struct task_ctx *t = task_ctx(p);
		s32 weight;

		empty = false;
		__sync_fetch_and_add(&nr_examined, 1);
		if (!t || !may_run(p, cpu))
			continue;
		weight = goodness(p, t, cpu, mm);
		if (weight > best->goodness ||
		    (weight == best->goodness && best->level >= 0 && t->place < best->place)) {
			best->goodness = weight;
			best->level = level;
			best->pid = p->pid;
			best->place = t->place;
		}
	}
	if (empty) {
		/*
		 * A task that is about to arrive has an entry in arriving[] until it can be seen in the
		 * level.
		 */
		__sync_fetch_and_and(&levels, ~(1ULL << level));
		if (is_arriving(level) || scx_bpf_dsq_nr_queued(level) > 0)
			mark(level);
	}
}

/* Takes the chosen task to this CPU. Returns false if another CPU has taken it. */
static __noinline bool take(struct choice *best)
{
	struct task_struct *p;
	bool taken = false;

	if (!best)
		return false;
	bpf_for_each_dsq(it, p, best->level) {
		if (p->pid == best->pid) {
			taken = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0);
			break;
		}
	}
	return taken;
}

/* The levels in descending order, as far as they can matter. */
static __always_inline bool choose(s32 cpu, struct task_struct *prev, struct task_ctx *prev_ctx, s32 goodness, u64 mm)
{
	struct choice best = { .goodness = goodness, .level = -1 };
	s32 level = NR_LEVELS, i;

	arriving[cpu & (MAX_CPUS - 1)] = 0;
	bpf_for(i, 0, NR_LEVELS) {
		level = highest_below(level);
		if (level < 0 || (level ? level + MAX_AFFINITY : 0) < best.goodness)
			break;
		look_through(level, cpu, mm, &best);
	}
	if (!best.goodness) {
		recalculate();
		sort_anew();
		return false;
	}
	if (best.level >= 0)
		return take(&best);
	/*
	 * Tests the pointer itself. In a loop the verifier does not know that a flag implies that the pointer
	 * is not NULL.
	 */
	asm volatile("" : "+r"(prev_ctx));
	if (prev_ctx)
		keep_running(prev, prev_ctx);
	return true;
}

s32 SCX_OP_SLEEPABLE(pls_init)
{
	s32 level, ret;

	nr_cpus = scx_bpf_nr_cpu_ids();
	online_init();
	bpf_for(level, 0, NR_LEVELS) {
		ret = scx_bpf_create_dsq(level, -1);
		if (ret)
			return ret;
	}
	return 0;
}

SCX_OPS(pls_ops,
	ONE_QUEUE_CALLBACKS,
	HOTPLUG_CALLBACKS,
	.init = (void *)pls_init,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "pls");
