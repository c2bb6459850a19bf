/* SPDX-License-Identifier: GPL-2.0-only */
/* Model solution of lab2: a multi-level feedback queue for one CPU or more. */
#include "include/cpu_array.h"
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

#define MS 1000000ULL
#define LEVELS 3
#define BOOST_NS (500 * MS)
/* Level of a CPU that runs no task. */
#define IDLE LEVELS

static const u64 turn_ns[LEVELS] = { 5 * MS, 10 * MS, 20 * MS };

/* Number of times that all tasks have returned to the highest level. */
static u64 boosts;

struct task {
	u32 level;
	/* CPU time since the task came to its level. */
	u64 used;
	u64 began;
	/* Value of `boosts` when the level was valid last. */
	u64 boost;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

/* Level of the task that a CPU runs. */
struct cpu {
	u32 level;
} CPU_ALIGNED;

CPU_VARIABLES(cpu)

struct boost_timer {
	struct bpf_timer timer;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct boost_timer);
} timers SEC(".maps");

/* Returns the state of a task. A task that missed a boost returns to the highest level. */
static __always_inline struct task *state_of(struct task_struct *p)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, 0);

	if (t && t->boost != boosts) {
		t->boost = boosts;
		t->level = 0;
		t->used = 0;
	}
	return t;
}

void SCX_OP(lab_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task *t = state_of(p);
	s32 cpu = scx_bpf_task_cpu(p), idle;

	if (!t || t->level >= LEVELS)
		return;
	scx_bpf_dsq_insert(p, t->level, turn_ns[t->level], enq_flags);
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	else if ((enq_flags & SCX_ENQ_WAKEUP) && cpu_of(cpu)->level > t->level)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

void SCX_OP(lab_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 level;

	bpf_for(level, 0, LEVELS)
		if (scx_bpf_dsq_move_to_local(level))
			break;
}

void SCX_OP(lab_running, struct task_struct *p)
{
	struct task *t = state_of(p);

	if (!t)
		return;
	t->began = bpf_ktime_get_ns();
	cpu_of(scx_bpf_task_cpu(p))->level = t->level;
}

void SCX_OP(lab_stopping, struct task_struct *p, bool runnable)
{
	struct task *t = state_of(p);

	cpu_of(scx_bpf_task_cpu(p))->level = IDLE;
	if (!t || t->level >= LEVELS)
		return;
	t->used += bpf_ktime_get_ns() - t->began;
	if (t->used >= turn_ns[t->level] && t->level < LEVELS - 1) {
		t->level++;
		t->used = 0;
	}
}

/* Moves all waiting tasks to the highest level. Others follow in state_of(). */
static int boost(void *map, int *key, struct boost_timer *b)
{
	struct task_struct *p;
	u32 level;

	boosts++;
	bpf_for(level, 1, LEVELS) {
		bpf_for_each_dsq(it, p, level) {
			scx_bpf_dsq_move_set_slice(&it, turn_ns[0]);
			scx_bpf_dsq_move(&it, p, 0, 0);
		}
	}
	bpf_timer_start(&b->timer, BOOST_NS, 0);
	return 0;
}

s32 SCX_OP(lab_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	return t ? 0 : -ENOMEM;
}

s32 SCX_OP_SLEEPABLE(lab_init)
{
	struct boost_timer *b;
	u32 level, key = 0;
	s32 ret;

	bpf_for(level, 0, LEVELS) {
		ret = scx_bpf_create_dsq(level, -1);
		if (ret)
			return ret;
	}
	b = bpf_map_lookup_elem(&timers, &key);
	if (!b)
		return -ENOENT;
	bpf_timer_init(&b->timer, &timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&b->timer, boost);
	return bpf_timer_start(&b->timer, BOOST_NS, 0);
}

SCX_OPS(lab_ops,
	HOTPLUG_CALLBACKS,
	.enqueue = (void *)lab_enqueue,
	.dispatch = (void *)lab_dispatch,
	.running = (void *)lab_running,
	.stopping = (void *)lab_stopping,
	.init_task = (void *)lab_init_task,
	.init = (void *)lab_init,
	.name = "lab2");
