/* SPDX-License-Identifier: GPL-2.0-only */
/* lab2: your name, and how your scheduler works. */
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

#define MS 1000000ULL
/* Levels are numbers of queues; level 0 is the highest. */
#define LEVELS 3

/* Length of a turn at each level. */
static const u64 turn_ns[LEVELS] = { 5 * MS, 10 * MS, 20 * MS };

/* State of a task. To do: which other facts does your scheduler need? */
struct task {
	u32 level;
};

/* A map with a struct task for each task of the kernel. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

/* Returns the state of a task. The result may be NULL, so test it before you use it. */
static __always_inline struct task *state_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* Called when a task becomes runnable, and when its turn is over. */
void SCX_OP(lab_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task *t = state_of(p);

	if (!t || t->level >= LEVELS)
		return;
	scx_bpf_dsq_insert(p, t->level, turn_ns[t->level], enq_flags);
	/* To do: preempt a task of a lower level. */
}

/* Called when a CPU needs a task. */
void SCX_OP(lab_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 level;

	bpf_for(level, 0, LEVELS)
		if (scx_bpf_dsq_move_to_local(level))
			break;
}

/* Called when a task begins to run on a CPU. */
void SCX_OP(lab_running, struct task_struct *p)
{
	/* To do. */
}

/* Called when a task stops running, because it sleeps, waits again or exits. */
void SCX_OP(lab_stopping, struct task_struct *p, bool runnable)
{
	/* To do: has the task used up its time at this level? */
}

/* Called when a task is created. */
s32 SCX_OP(lab_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	return t ? 0 : -ENOMEM;
}

/* Called when the policy is loaded. To do: something must happen every 500 ms. */
s32 SCX_OP_SLEEPABLE(lab_init)
{
	u32 level;
	s32 ret;

	bpf_for(level, 0, LEVELS) {
		ret = scx_bpf_create_dsq(level, -1);
		if (ret)
			return ret;
	}
	return 0;
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
