/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * wakeup: a lost wake-up, because a flag is cleared too late.
 *
 * ops.enqueue() puts a task into a queue, unless the task's flag says that it is there already.
 * ops.dispatch() takes the task out, lets it run, and then clears the flag. On a different CPU, the
 * task runs, sleeps and wakes up before that. ops.enqueue() finds the flag set, and nobody queues
 * the task again. The mended twin clears the flag before the task can run.
 */
#include "museum.h"

struct task_ctx {
	u32 queued;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} ctxs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1024);
	__type(value, s32);
} tasks SEC(".maps");

void SCX_OP(wakeup_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = bpf_task_storage_get(&ctxs, p, NULL, 0);
	s32 pid = p->pid, cpu;

	if (!t) {
		enqueue_shared(p, enq_flags);
		return;
	}
	if (__sync_lock_test_and_set(&t->queued, 1))
		return;
	if (bpf_map_push_elem(&tasks, &pid, 0)) {
		enqueue_shared(p, enq_flags);
		return;
	}
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

void SCX_OP(wakeup_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;
	struct task_ctx *t;
	s32 pid;

	if (bpf_map_pop_elem(&tasks, &pid))
		pid = 0;
	p = pid ? bpf_task_from_pid(pid) : NULL;
	if (!p) {
		scx_bpf_dsq_move_to_local(QUEUE);
		return;
	}
	t = bpf_task_storage_get(&ctxs, p, NULL, 0);
#ifdef MENDED
	if (t)
		__sync_lock_test_and_set(&t->queued, 0);
#endif
	enqueue_shared(p, 0);
	scx_bpf_dsq_move_to_local(QUEUE);
#ifndef MENDED
	if (t)
		__sync_lock_test_and_set(&t->queued, 0);
#endif
	bpf_task_release(p);
}

s32 SCX_OP_SLEEPABLE(wakeup_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return bpf_task_storage_get(&ctxs, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -12;
}

s32 SCX_OP_SLEEPABLE(wakeup_init)
{
	return create_shared();
}

SCX_OPS(wakeup_ops,
	.enqueue = (void *)wakeup_enqueue,
	.dispatch = (void *)wakeup_dispatch,
	.init_task = (void *)wakeup_init_task,
	.init = (void *)wakeup_init,
	.name = "wakeup");
