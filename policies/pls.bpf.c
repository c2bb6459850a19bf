/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pls: the default scheduler of Linux 2.4 with its queue sorted into priority levels.
 *
 * The policy makes the decisions of dss (dss.bpf.c), the default scheduler of Linux 2.4, but
 * examines fewer tasks. Goodness is the value by which dss chooses tasks: a CPU runs the task with
 * the highest goodness. The goodness of a task contains an affinity bonus of at most 16, which
 * differs between CPUs. Goodness without this bonus (goodness without affinity) is the same on all
 * CPUs, so tasks can be sorted by it.
 *
 * Data structures: one dispatch queue (DSQ) for each of 64 levels. The level of a waiting task is
 * its goodness without affinity. A bitmap records which levels may have tasks.
 * Wake-up: as in dss.
 * Enqueue: the task is inserted into its level, with a key that keeps the tasks of a level in the
 * order of the list of dss.
 * Dispatch: the CPU examines levels from the highest down. The search ends before a level whose
 * tasks could not beat the best task so far even with the full affinity bonus. Of two tasks with
 * the same goodness, the CPU runs the one with the lower key. This is the task that would be nearer
 * to the front in the list of dss.
 * Tick: the running task's counter is decremented. At 0 the task loses the CPU.
 * Recalculation: when all runnable tasks have used up their ticks, all tasks get new ticks, and
 * each waiting task is moved to its new level.
 * Locks: the lock of each DSQ. The bitmap needs no lock, because atomic instructions change it.
 *
 * Good for: interactive tasks next to CPU-bound ones on few CPUs, with more tasks than dss can
 * handle.
 * Bad for: many CPUs, because the locks of the levels are contended as much as one lock. A
 * recalculation sorts the whole queue again.
 * Source: Franke, Nagar, Kravetz, Ravindran, "PMQS: Scalable Linux Scheduling for High End Servers"
 * (2001).
 *
 * Known weakness: tasks that are bound to a busy CPU can starve, as in dss (dss.bpf.c).
 * Different here: realtime tasks are in a class above sched_ext, as in dss. Each level is a DSQ
 * with a lock of its own. The original has one lock for all levels.
 */
#include "include/one_queue.h"

char _license[] SEC("license") = "GPL";

/*
 * Number of levels. Goodness without affinity is at most 61: 40 for the nice value, plus 21 ticks.
 */
#define NR_LEVELS 64

/* Number of tasks that recalculations moved to another level. */
u64 nr_sorted;

/* Bitmap of the levels that may have tasks. */
static u64 levels;
/*
 * For each CPU: 0 if the CPU has inserted no task into a level since it last chose a task to run.
 * Otherwise 1 + the number of this level. The inserted task becomes visible in the level after ops.enqueue() returns, and before
 * the CPU next chooses a task.
 */
static u8 arriving[MAX_CPUS] CPU_ALIGNED;

/* Returns the level of a task. */
static __always_inline u32 level_of(struct task_struct *p, struct task_ctx *t)
{
	return na_goodness(p, t) & (NR_LEVELS - 1);
}

/* Sets the bit of a level. */
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

/* Returns whether a CPU has inserted a task that may not be visible in the level yet. */
static __noinline bool is_arriving(s32 level)
{
	s32 cpu;

	bpf_for(cpu, 0, nr_cpus)
		if (arriving[cpu & (MAX_CPUS - 1)] == level + 1)
			return true;
	return false;
}

/* Inserts a task into its level. */
static __always_inline void insert_waiting(struct task_struct *p, struct task_ctx *t, u64 enq_flags)
{
	u32 level = level_of(p, t);

	arriving[bpf_get_smp_processor_id() & (MAX_CPUS - 1)] = level + 1;
	scx_bpf_dsq_insert_vtime(p, level, NO_SLICE_END, place_in_queue(t), enq_flags);
	mark(level);
}

/*
 * Moves every task to its new level after a recalculation. Levels are visited from the highest
 * down. A task that moves to a lower level is therefore visited a second time there. The second
 * visit does not move the task again.
 */
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

/* The best task of a search so far. */
struct choice {
	s32 goodness;
	/* Level of the task, or -1 if it is the running task. */
	s32 level;
	s32 pid;
	/* Key of the task in its level. */
	s64 place;
};

/* Examines the tasks of one level, and clears the level's bit if the level is empty. */
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
		 * Another CPU may have inserted a task that is not visible yet. That CPU has an
		 * entry in arriving[] until the task is visible. If there is such an entry, the bit
		 * is set again.
		 */
		__sync_fetch_and_and(&levels, ~(1ULL << level));
		if (is_arriving(level) || scx_bpf_dsq_nr_queued(level) > 0)
			mark(level);
	}
}

/* Moves the best task of a search to this CPU. Returns false if another CPU has taken the task. */
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

/*
 * Examines the levels in descending order until no lower level can contain a better task, and runs
 * the best task. Returns false if the search must be repeated.
 */
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
	 * Makes the compiler test the pointer itself. Otherwise it may test another value, from
	 * which it follows that the pointer is not NULL. The verifier would not know this.
	 */
	asm volatile("" : "+r"(prev_ctx));
	if (prev_ctx)
		keep_running(prev, prev_ctx);
	return true;
}

/* Creates a queue for each level. */
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
