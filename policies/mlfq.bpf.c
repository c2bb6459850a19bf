/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mlfq: the multi-level feedback queue of Solaris' time-sharing class, with 60 levels.
 *
 * The scheduler learns from what a task does. A task that uses up its quantum moves down, where
 * quanta are longer. A task that has slept, and a task that waits at the end of a second, moves
 * up. A table of the levels (ts_levels.h), of which 59 is the highest, says how far.
 *
 * A nice value above 0 lowers the level at which a task runs by 3 per step, one below 0 raises it.
 *
 * Data structures: one dispatch queue (DSQ) that all CPUs share, ordered by level and then by
 * arrival.
 * Wake-up: the kernel's default search looks for an idle CPU. If it finds one, the task runs there
 * at once.
 * Enqueue: the task is inserted behind the tasks of its level. If no CPU is idle, it preempts the
 * running task with the lowest level, if that is lower than its own.
 * Dispatch: the first task of the queue runs, unless the running task has a higher level.
 * Tick: there is no callback. The kernel ends the quantum of a task.
 * Timer: each period_ns, it counts a second for all tasks, and raises waiting tasks.
 * Locks: the lock of the DSQ.
 *
 * Good for: interactive tasks next to tasks that compute, without any setting.
 * Bad for: many CPUs, which share one queue and one lock, and tasks that compute in long bursts
 * between sleeps, which move down although a user waits for them.
 * Source: the dispatch table of the time-sharing class of Solaris (ts_dptbl), as in Arpaci-Dusseau,
 * "Operating Systems: Three Easy Pieces", and in Mauro, McDougall, "Solaris Internals". The idea is
 * that of Corbato's CTSS (1962). The code is our own.
 *
 * Different here: all CPUs share one queue, while Solaris has one for each CPU and moves tasks. Only
 * waiting tasks are raised at once, others when they stop running or wake up.
 */
#include "include/cpu_array.h"
#include "include/hotplug.h"
#include "include/ts_levels.h"

char _license[] SEC("license") = "GPL";

/* ID of the shared DSQ. */
#define QUEUE 0
/* A key of the queue has the distance from the highest level in the bits from SHIFT up. */
#define SHIFT 57
/* Level of a CPU that runs no task of this policy. */
#define NO_TASK 255

const volatile u64 period_ns PARAM("ns, 1000000..1000000000000: time between two runs of the timer") = 1000000000;

/* Tasks that used up a quantum, tasks raised after a sleep or a wait, and tasks preempted. */
u64 nr_expired, nr_slept, nr_waited, nr_preempted;
/* Number of runs of the timer. */
static u64 periods;

struct task {
	/* Level according to the behaviour of the task, without the nice value. */
	u32 level;
	/* Rest of the quantum, ns, and when the task began to use it. */
	u64 left, began;
	/* Value of `periods` when the task got its level. */
	u64 since;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

/* Level at which the task of a CPU runs. */
struct cpu {
	u32 level;
} CPU_ALIGNED;

CPU_VARIABLES(cpu)

struct period_timer {
	struct bpf_timer timer;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct period_timer);
} timers SEC(".maps");

static __always_inline struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* Gives a task a level with a new quantum. */
static __always_inline void set_level(struct task *t, u32 level)
{
	t->level = level;
	t->left = quantum_of(level);
	t->since = periods;
}

/* Returns the level at which a task runs: nice values move it up or down. */
static __always_inline u32 global_level(struct task_struct *p, struct task *t)
{
	/* The static_prio of a task is 120 + nice. */
	s32 level = (s32)t->level - ((s32)p->static_prio - 120) * 3;

	return level < 0 ? 0 : level >= LEVELS ? LEVELS - 1 : level;
}

static __always_inline u64 key_of(u32 level)
{
	return ((u64)(LEVELS - 1 - level) << SHIFT) + bpf_ktime_get_ns();
}

/* Charges the running task. A task that has used up its quantum moves down. */
static __always_inline void charge(struct task *t)
{
	u64 now = bpf_ktime_get_ns(), used = now - t->began;

	t->began = now;
	if (used < t->left) {
		t->left -= used;
		return;
	}
	__sync_fetch_and_add(&nr_expired, 1);
	set_level(t, t->level < 10 ? 0 : t->level - 10);
}

/* Raises a woken task, unless it got its level in this period. */
static __always_inline void wake(struct task *t)
{
	if (t->since == periods)
		return;
	__sync_fetch_and_add(&nr_slept, 1);
	set_level(t, raised(t->level, true));
}

/* Looks for an idle CPU and, if there is one, lets the woken task run there at once. */
s32 SCX_OP(mlfq_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	struct task *t = task_of(p);

	if (!is_idle || !t)
		return is_idle ? cpu : prev_cpu;
	wake(t);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, t->left, 0);
	return cpu;
}

/* Returns the CPU whose task has the lowest level below `level`, or -1. */
static __noinline s32 lowest(struct task_struct *p, u32 level)
{
	s32 cpu, found = -1;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		u32 other = cpu_of(cpu)->level;

		if (other < level && is_online(cpu) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
			level = other;
			found = cpu;
		}
	}
	return found;
}

/* Inserts a task at its level, and finds a CPU for it. */
void SCX_OP(mlfq_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task *t = task_of(p);
	u32 level;
	s32 cpu;

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (!t || woken_by_gone_cpu(p, t->left, enq_flags))
		return;
	if (enq_flags & SCX_ENQ_WAKEUP)
		wake(t);
	level = global_level(p, t);
	scx_bpf_dsq_insert_vtime(p, QUEUE, t->left, key_of(level), enq_flags);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	cpu = enq_flags & SCX_ENQ_WAKEUP ? lowest(p, level) : -1;
	if (cpu >= 0) {
		__sync_fetch_and_add(&nr_preempted, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/* Runs the first task of the queue, unless the running task has a higher level. */
void SCX_OP(mlfq_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? task_of(prev) : NULL;
	struct task_struct *first;
	u64 key;

	if (t) {
		charge(t);
		key = (u64)(LEVELS - 1 - global_level(prev, t)) << SHIFT;
		first = scx_bpf_dsq_peek(QUEUE);
		if (!first || key >> SHIFT < first->scx.dsq_vtime >> SHIFT || !scx_bpf_dsq_move_to_local(QUEUE)) {
			prev->scx.slice = t->left;
			cpu_of(cpu)->level = global_level(prev, t);
		}
		return;
	}
	scx_bpf_dsq_move_to_local(QUEUE);
}

void SCX_OP(mlfq_running, struct task_struct *p)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	t->began = bpf_ktime_get_ns();
	cpu_of(scx_bpf_task_cpu(p))->level = global_level(p, t);
}

void SCX_OP(mlfq_stopping, struct task_struct *p, bool runnable)
{
	struct task *t = task_of(p);

	cpu_of(scx_bpf_task_cpu(p))->level = NO_TASK;
	if (t)
		charge(t);
}

/* Raises the tasks that have waited since the last run of the timer. */
static int next_period(void *map, int *key, struct period_timer *timer)
{
	struct task_struct *p;

	bpf_for_each_dsq(it, p, QUEUE) {
		struct task *t = task_of(p);

		/* A task at the highest level stays there. */
		if (!t || t->level >= 59 || t->since == periods + 1)
			continue;
		set_level(t, raised(t->level, false));
		t->since = periods + 1;
		scx_bpf_dsq_move_set_slice(&it, t->left);
		scx_bpf_dsq_move_set_vtime(&it, key_of(global_level(p, t)));
		if (scx_bpf_dsq_move_vtime(&it, p, QUEUE, 0))
			__sync_fetch_and_add(&nr_waited, 1);
	}
	periods++;
	bpf_timer_start(&timer->timer, period_ns, 0);
	return 0;
}

s32 SCX_OP(mlfq_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	t->began = bpf_ktime_get_ns();
	set_level(t, START);
	return 0;
}

/* Creates the shared queue and starts the timer. */
s32 SCX_OP_SLEEPABLE(mlfq_init)
{
	struct period_timer *timer;
	u32 key = 0;
	s32 cpu, ret = scx_bpf_create_dsq(QUEUE, -1);

	if (ret)
		return ret;
	bpf_for(cpu, 0, MAX_CPUS)
		cpu_of(cpu)->level = NO_TASK;
	timer = bpf_map_lookup_elem(&timers, &key);
	if (!timer)
		return -ENOENT;
	bpf_timer_init(&timer->timer, &timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, next_period);
	return bpf_timer_start(&timer->timer, period_ns, 0);
}

SCX_OPS(mlfq_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)mlfq_select_cpu,
	.enqueue = (void *)mlfq_enqueue,
	.dispatch = (void *)mlfq_dispatch,
	.running = (void *)mlfq_running,
	.stopping = (void *)mlfq_stopping,
	.init_task = (void *)mlfq_init_task,
	.init = (void *)mlfq_init,
	.name = "mlfq");
