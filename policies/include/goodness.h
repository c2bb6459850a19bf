/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Goodness, the value by which Linux 2.4 chose tasks, and the counters of ticks from which it is
 * computed, for policies with several queues. A CPU runs the task with the highest goodness.
 *
 * The goodness of a task is 0 if its counter is 0. Otherwise goodness is the counter + 20 - the
 * nice value. On the CPU on which the task ran last, the task gets a bonus of 15 (affinity). The
 * task gets a bonus of 1 if the CPU has loaded the task's memory map, or if the task is a kernel
 * thread.
 *
 * The counter of a task is the number of ticks left of its quantum. When the counters of all tasks
 * that could run are 0, the counters of all tasks of the system are recalculated:
 *
 *     counter = counter / 2 + ticks of a quantum
 *
 * In this code, a recalculation only increments `epoch`. When a task is next examined, task_ctx()
 * applies all recalculations since the task was last examined.
 */
#ifndef GOODNESS_H
#define GOODNESS_H

#include "scx.h"
#include "quantum.h"

/* Highest number of CPUs; a power of two, because indices are masked with MAX_CPUS - 1. */
#define MAX_CPUS 1024
/* Goodness that a task gains on the CPU it ran on last. */
#define PROC_CHANGE_PENALTY 15
/* Largest affinity bonus: PROC_CHANGE_PENALTY, plus 1 if the memory map is loaded. */
#define MAX_AFFINITY (PROC_CHANGE_PENALTY + 1)
/* Value that stands for running no task. Every task has a higher goodness. */
#define GOODNESS_IDLE (-1000)
/*
 * Highest number of missed recalculations that are applied to a task. After this many
 * recalculations without a tick, further recalculations do not change a counter.
 */
#define MAX_MISSED 8

/* Number of recalculations. */
u64 nr_recalculations;
/*
 * Number of the last recalculation. The difference from `epoch` in a task's state is the number of
 * recalculations that task_ctx() must still apply to the task.
 */
static u32 epoch;

/*
 * Every queue is ordered by the keys of its tasks. `front` is the lowest and `back` the highest key
 * that any task has got. A woken task gets a key below `front`, so it is first in its queue. A task
 * whose quantum has ended gets a key above `back`, so it is last.
 */
static s64 front, back;

/* State of one task. */
struct task_ctx {
	/* Ticks left of the quantum, as of recalculation number `epoch`. */
	s32 counter;
	/* Number of the last recalculation that was applied to `counter`. */
	u32 epoch;
	/* Run time, in ns, that is not charged yet, because it is less than a tick. */
	u64 owed_ns;
	/* Key of the task in its queue. */
	s64 place;
	/* Time at which the task was put into a queue. */
	u64 waits_since;
	/* CPU on which the task ran last, or the CPU of the queue into which it was put. */
	s32 last_cpu;
	/* pmqs: 1 + the CPU to which the task moves when it is next enqueued, or 0. */
	s32 move_to;
	/* Whether the task has yielded since it last got the CPU. */
	bool yielded;
	/* Whether the task's quantum has ended since the task last got the CPU. */
	bool expired;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

/* State of one CPU. */
struct cpu_ctx {
	/*
	 * Memory map of the last task that had one. It stays loaded while the CPU idles or runs a
	 * kernel thread (active_mm in Linux).
	 */
	u64 mm;
	/* Time at which the CPU last became idle. */
	u64 idle_since;
	/* Times of the CPU's ticks, from which tick_period() computes the length of a tick. */
	struct ticks ticks;
};
/* States of all CPUs. */
static struct cpu_ctx cpu_ctxs[MAX_CPUS];
/* Number of CPUs, set in ops.init(). */
static s32 nr_cpus;

/* Returns the state of a CPU. */
static __always_inline struct cpu_ctx *cpu_ctx(s32 cpu)
{
	return &cpu_ctxs[cpu & (MAX_CPUS - 1)];
}

/* Returns whether the task may run on the CPU. Reads the mask only if some CPU is not allowed. */
static __always_inline bool may_run(const struct task_struct *p, s32 cpu)
{
	return p->nr_cpus_allowed >= nr_cpus || bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* Returns the length of a quantum: 11 to 1 ticks for nice -20 to 19, and 6 for nice 0. */
static __always_inline s32 nice_to_ticks(s32 nice)
{
	return ((20 - nice) >> 2) + 1;
}

/* Returns the state of a task, after applying the recalculations that the task has missed. */
static __noinline struct task_ctx *task_ctx(struct task_struct *p)
{
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, p, NULL, 0);
	u32 missed;
	s32 i;

	if (!t)
		return NULL;
	missed = epoch - t->epoch;
	if (missed) {
		t->epoch += missed;
		if (missed > MAX_MISSED)
			missed = MAX_MISSED;
		bpf_for(i, 0, missed)
			t->counter = (t->counter >> 1) + nice_to_ticks(nice_of(p));
	}
	return t;
}

/* Returns whether a task is a realtime task. */
static __always_inline bool realtime(const struct task_struct *p)
{
	return p->prio < MAX_RT_PRIO;
}

/* Returns the goodness of a task without the affinity bonus. This value is the same on all CPUs. */
static __always_inline s32 na_goodness(const struct task_struct *p, const struct task_ctx *t)
{
	if (realtime(p))
		return 1000 + p->rt_priority;
	return t->counter ? t->counter + 20 - nice_of(p) : 0;
}

/* Returns the goodness of a task on a CPU whose loaded memory map is `mm`. */
static __always_inline s32 goodness(const struct task_struct *p, const struct task_ctx *t, s32 cpu, u64 mm)
{
	s32 weight = na_goodness(p, t);

	if (realtime(p) || !weight)
		return weight;
	if (t->last_cpu == cpu)
		weight += PROC_CHANGE_PENALTY;
	if (!p->mm || (u64)p->mm == mm)
		weight++;
	return weight;
}

/* Returns the goodness of the running task, or -1 if the task has yielded. */
static __always_inline s32 prev_goodness(const struct task_struct *p, const struct task_ctx *t, s32 cpu)
{
	return t->yielded ? -1 : goodness(p, t, cpu, (u64)p->mm);
}

/*
 * Returns the goodness of a woken task minus the goodness of the task that `cpu` runs. Returns
 * GOODNESS_IDLE if the running task does not belong to this policy, or is the woken task itself.
 */
static __always_inline s32 preemption_goodness(struct task_struct *p, struct task_ctx *t, s32 cpu)
{
	struct task_struct *curr = scx_bpf_cpu_curr(cpu);
	struct task_ctx *other;

	if (!curr || curr == p)
		return GOODNESS_IDLE;
	other = task_ctx(curr);
	if (!other)
		return GOODNESS_IDLE;
	return goodness(p, t, cpu, (u64)curr->mm) - goodness(curr, other, cpu, (u64)curr->mm);
}

/* Charges a tick to the running task, which loses the CPU when its counter reaches 0. */
static __always_inline void goodness_tick(struct task_struct *p)
{
	struct task_ctx *t = task_ctx(p);
	struct cpu_ctx *c = cpu_ctx(scx_bpf_task_cpu(p));

	if (!t)
		return;
	t->owed_ns += tick_period(&c->ticks, scx_bpf_now(), tick_ns);
	if (t->owed_ns >= tick_ns) {
		t->owed_ns -= tick_ns;
		if (t->counter)
			t->counter--;
	}
	if (!t->counter) {
		t->expired = true;
		scx_bpf_task_set_slice(p, 0);
	}
}

/* Records that a task starts to run on a CPU. Called from ops.running(). */
static __always_inline void goodness_running(struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_ctx(p);
	struct cpu_ctx *c = cpu_ctx(cpu);

	if (!t)
		return;
	t->last_cpu = cpu;
	t->yielded = false;
	t->expired = false;
	if (p->mm)
		c->mm = (u64)p->mm;
}

/* Returns a key that sorts before all tasks of all queues. */
static __always_inline s64 next_front(void)
{
	return __sync_fetch_and_add(&front, -1) - 1;
}

/*
 * Returns the key with which a task enters its queue. If the task's quantum has ended, it gets a
 * new key, which sorts behind all other tasks. Otherwise the task keeps its key.
 */
static __always_inline u64 place_in_queue(struct task_ctx *t)
{
	if (t->expired) {
		t->expired = false;
		t->place = __sync_fetch_and_add(&back, 1) + 1;
	}
	return t->place;
}

/* Lets the running task continue. Called from ops.dispatch(). */
static __always_inline void keep_running(struct task_struct *prev, struct task_ctx *t)
{
	barrier_var(t);
	if (!t)
		return;
	t->yielded = false;
	t->expired = false;
	scx_bpf_task_set_slice(prev, NO_SLICE_END);
}

/* Gives a woken or new task a key that sorts before all other tasks. */
void SCX_OP(goodness_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx(p);

	if (t)
		t->place = next_front();
}

/* Called when a task yields. Makes the next search skip the task, unless no other task can run. */
bool SCX_OP(goodness_yield, struct task_struct *from, struct task_struct *to)
{
	struct task_ctx *t = task_ctx(from);

	if (t)
		t->yielded = true;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/* Records the time at which a CPU becomes idle. */
void SCX_OP(goodness_update_idle, s32 cpu, bool idle)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	if (idle)
		c->idle_since = scx_bpf_now();
}

/*
 * Called when a realtime task takes the CPU. Makes the kernel call ops.enqueue() again for the
 * tasks in the CPU's local dispatch queue (DSQ), so other CPUs can run them.
 */
void SCX_OP(goodness_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local___v2___compat();
}

/* Creates the state of a new task. */
s32 SCX_OP(goodness_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	t->counter = nice_to_ticks(nice_of(p));
	t->epoch = epoch;
	t->last_cpu = scx_bpf_task_cpu(p);
	return 0;
}

/*
 * Gives the remaining ticks of an exiting task back to its parent. The parent can then have at most
 * twice its quantum, which is also the limit after a long sleep.
 */
void SCX_OP(goodness_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *t = task_ctx(p), *parent;
	s32 most;

	if (!t || !p->real_parent)
		return;
	parent = task_ctx(p->real_parent);
	if (!parent)
		return;
	most = 2 * nice_to_ticks(nice_of(p->real_parent));
	return_ticks(&parent->counter, t->counter, most);
}

/* Shares the ticks of a parent with its new child. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(goodness_fork, struct task_struct *parent, struct task_struct *child)
{
	struct task_ctx *from = task_ctx(parent), *to = task_ctx(child);

	if (!from || !to)
		return 0;
	split_ticks(&from->counter, &to->counter);
	if (!from->counter) {
		from->expired = true;
		scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
	}
	return 0;
}

/* Entries for the callback tables of pls, mqs and pmqs. */
#define GOODNESS_CALLBACKS                                                                         \
	.runnable = (void *)goodness_runnable,                                                     \
	.yield = (void *)goodness_yield,                                                           \
	.update_idle = (void *)goodness_update_idle,                                               \
	.cpu_release = (void *)goodness_cpu_release,                                               \
	.init_task = (void *)goodness_init_task,                                                   \
	.exit_task = (void *)goodness_exit_task

#endif
