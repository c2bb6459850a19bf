/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stride: the deterministic counterpart of lottery scheduling.
 *
 * A task has as many tickets as its weight, which follows from the nice value and is 100 for nice
 * 0. Its stride is STRIDE1 / tickets. The task with the lowest pass runs next, and for each slice
 * that it runs its pass advances by its stride, or by a part of it for a part of a slice. Tasks
 * therefore run at intervals that are inversely proportional to their tickets. The number of slices
 * of a task differs from its share by less than one slice for each other task, while under a lottery
 * the difference grows with the square root of the number of slices.
 *
 * A global pass advances at the mean speed of all tasks. A task that sleeps keeps the difference
 * between its pass and the global one. It gains nothing by a long sleep, and loses nothing either.
 *
 * Data structures: one dispatch queue (DSQ) that all CPUs share, in the order of passes.
 * Wake-up: the kernel's default search looks for an idle CPU. If the search finds one, the task
 * runs there at once.
 * Enqueue: the task is inserted into the queue by its pass, and one idle CPU is woken.
 * Dispatch: the first task of the queue runs, unless the running task has a lower pass.
 * Tick: there is no callback. The kernel ends the slice of a task after slice_ns.
 * Locks: the lock of the DSQ.
 *
 * Good for: exact shares by weight, also over short times.
 * Bad for: tasks that must run soon after they wake up, many CPUs, which share one queue and one
 * lock, and tasks that depend on warm caches.
 * Source: Waldspurger, Weihl, "Stride Scheduling: Deterministic Proportional-Share Resource
 * Management" (MIT/LCS/TM-528, 1995). The code is our own.
 *
 * Different here: with several CPUs, the global pass advances by the work of all CPUs. A task that
 * may run on few CPUs therefore falls behind it, and is set to it when it wakes up.
 */
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

/* ID of the shared DSQ. */
#define QUEUE 0
/* Stride of a task with one ticket. */
#define STRIDE1 (1ULL << 30)

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time slice of a task") = 10000000;

/* Number of times that a running task continued because its pass was the lowest. */
u64 nr_continued;

/* Global pass, and the sum of the tickets of all runnable tasks. */
static u64 global_pass, global_tickets;

struct client {
	/* Tickets that count in global_tickets, or 0 if the task is not runnable. */
	u64 tickets;
	/* While the task sleeps: its pass minus the global pass. */
	s64 remain;
	u64 began;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct client);
} clients SEC(".maps");

static __always_inline struct client *client_of(struct task_struct *p)
{
	return bpf_task_storage_get(&clients, p, NULL, 0);
}

/* Advances the pass of a running task, which is in p->scx.dsq_vtime, and the global pass. */
static __always_inline void charge(struct task_struct *p, struct client *c)
{
	u64 now = bpf_ktime_get_ns(), us = (now - c->began) / 1000, slice_us = slice_ns / 1000;
	u64 all = global_tickets, weight = p->scx.weight;

	c->began += us * 1000;
	p->scx.dsq_vtime += STRIDE1 * us / slice_us / (weight ? weight : 1);
	__sync_fetch_and_add(&global_pass, STRIDE1 * us / slice_us / (all ? all : 1));
}

s32 SCX_OP(stride_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

/* Inserts a task into the shared queue by its pass and wakes an idle CPU. */
void SCX_OP(stride_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (woken_by_gone_cpu(p, slice_ns, enq_flags))
		return;
	scx_bpf_dsq_insert_vtime(p, QUEUE, slice_ns, p->scx.dsq_vtime, enq_flags);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Runs the task with the lowest pass: the first task of the queue or the running task. */
void SCX_OP(stride_dispatch, s32 cpu, struct task_struct *prev)
{
	struct client *c = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? client_of(prev) : NULL;
	struct task_struct *first;

	if (c) {
		charge(prev, c);
		first = scx_bpf_dsq_peek(QUEUE);
		if (!first || (s64)(prev->scx.dsq_vtime - first->scx.dsq_vtime) < 0) {
			__sync_fetch_and_add(&nr_continued, 1);
			prev->scx.slice = slice_ns;
			return;
		}
	}
	if (!scx_bpf_dsq_move_to_local(QUEUE) && c)
		prev->scx.slice = slice_ns;
}

/* A task that becomes runnable resumes at the same distance from the global pass. */
void SCX_OP(stride_runnable, struct task_struct *p, u64 enq_flags)
{
	struct client *c = client_of(p);

	if (!c || c->tickets)
		return;
	c->tickets = p->scx.weight;
	__sync_fetch_and_add(&global_tickets, c->tickets);
	p->scx.dsq_vtime = global_pass + c->remain;
}

void SCX_OP(stride_running, struct task_struct *p)
{
	struct client *c = client_of(p);

	if (c)
		c->began = bpf_ktime_get_ns();
}

void SCX_OP(stride_stopping, struct task_struct *p, bool runnable)
{
	struct client *c = client_of(p);

	if (c)
		charge(p, c);
}

/* Takes the tickets of a task that is not runnable any more out of the sum. */
static __always_inline void leave(struct task_struct *p, struct client *c)
{
	s64 most = STRIDE1 / (p->scx.weight ? p->scx.weight : 1);

	if (!c->tickets)
		return;
	__sync_fetch_and_add(&global_tickets, -c->tickets);
	c->tickets = 0;
	/* At most one stride, so that the pass of a task that was alone does not count for ever. */
	c->remain = (s64)(p->scx.dsq_vtime - global_pass);
	if (c->remain > most)
		c->remain = most;
	if (c->remain < -most)
		c->remain = -most;
}

void SCX_OP(stride_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct client *c = client_of(p);

	if (c)
		leave(p, c);
}

/* A changed weight counts at once in the sum of the tickets. */
void SCX_OP(stride_set_weight, struct task_struct *p, u32 weight)
{
	struct client *c = client_of(p);

	if (!c || !c->tickets)
		return;
	__sync_fetch_and_add(&global_tickets, (u64)weight - c->tickets);
	c->tickets = weight;
}

s32 SCX_OP(stride_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return bpf_task_storage_get(&clients, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

/* Called when the policy starts to schedule a task. */
void SCX_OP(stride_enable, struct task_struct *p)
{
	p->scx.dsq_vtime = global_pass;
}

void SCX_OP(stride_disable, struct task_struct *p)
{
	struct client *c = client_of(p);

	if (c)
		leave(p, c);
}

/* Creates the shared queue. */
s32 SCX_OP_SLEEPABLE(stride_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(stride_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)stride_select_cpu,
	.enqueue = (void *)stride_enqueue,
	.dispatch = (void *)stride_dispatch,
	.runnable = (void *)stride_runnable,
	.running = (void *)stride_running,
	.stopping = (void *)stride_stopping,
	.quiescent = (void *)stride_quiescent,
	.set_weight = (void *)stride_set_weight,
	.init_task = (void *)stride_init_task,
	.enable = (void *)stride_enable,
	.disable = (void *)stride_disable,
	.init = (void *)stride_init,
	.name = "stride");
