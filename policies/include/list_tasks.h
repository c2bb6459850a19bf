/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The life of a task in the run list of Linux 2.4 and 2.5: it is created, enters the list when it wakes
 * up, is chosen, leaves the list when it sleeps, and exits.
 *
 * The includer defines how a task is chosen and how its ticks are counted: goodness(), choose() and the
 * functions below.
 */
#ifndef LIST_TASKS_H
#define LIST_TASKS_H

#include "quantum.h"
#include "reschedule_idle.h"

#define PROC_CHANGE_PENALTY 15
/* Goodness of having nothing to run. */
#define GOODNESS_IDLE (-1000)
/* Choices that one ops.dispatch() makes at most. */
#define MAX_TRIES 8
/* Result of choose() if the choice must be repeated. */
#define AGAIN MAX_TASKS

/* Recalculations of counters; tasks that choices examined; wake-ups that preempted a task. */
u64 nr_recalculations;
u64 nr_examined;
u64 nr_preempted;

/* Returns the ticks that are left of the task's quantum. */
static s32 *ticks_left(struct node *n);
/* Returns the most ticks that a task may have. */
static s32 most_ticks(struct node *n);
/* Gives a new task its first quantum. */
static void init_ticks(struct node *n);
/* Called for a task that wakes up, before it enters the list. */
static void credit_sleep(struct node *n);
/*
 * Returns the slot of the best task for a CPU, HEAD if there is none, or AGAIN. `prev` is the task that runs
 * there and could go on, or HEAD.
 */
static u32 choose(s32 cpu, u32 prev);

/* The task stays with the CPU it ran on. ops.enqueue() looks for a CPU. */
s32 SCX_OP(list_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

/*
 * Woken and new tasks enter at the front of the list, and a task whose quantum has ended moves to the back. A
 * task that was preempted keeps its place, and so does one that yielded, for which no other CPU is looked
 * for.
 */
void SCX_OP(list_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 slot = task_slot(p);
	struct node *n = node_at(slot);
	bool preempts = false, yielded;
	s32 cpu;

	if (!slot) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, NO_SLICE_END, enq_flags);
		return;
	}
	if (woken_by_gone_cpu(p, NO_SLICE_END, enq_flags))
		return;
	n->nice = nice_of(p);
	n->mm = (u64)p->mm;
	copy_affinity(p, slot, nr_cpus);
	yielded = n->yielded;
	n->yielded = false;
	if (yielded && n->queued && !n->expired) {
		n->cpu = WAITS;
		return;
	}
	bpf_spin_lock(&runqueue_lock);
	n->cpu = WAITS;
	if (!n->queued) {
		credit_sleep(n);
		add_to_runqueue(slot);
	} else if (n->expired) {
		move_last_runqueue(slot);
	}
	n->expired = false;
	cpu = yielded ? -1 : reschedule_idle(slot, &preempts);
	if (preempts)
		nr_preempted++;
	bpf_spin_unlock(&runqueue_lock);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, preempts ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
}

void SCX_OP(list_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 prev_slot = HEAD;
	s32 i;

	if (prev && prev->scx.flags & SCX_TASK_QUEUED)
		prev_slot = task_slot(prev);
	bpf_for(i, 0, MAX_TRIES) {
		u32 next = choose(cpu, prev_slot);
		struct task_struct *p;

		if (!next)
			return;
		if (next == AGAIN)
			continue;
		if (next == prev_slot) {
			node_at(next)->yielded = false;
			node_at(next)->expired = false;
			scx_bpf_task_set_slice(prev, NO_SLICE_END);
			return;
		}
		p = bpf_task_from_pid(node_at(next)->pid);
		if (p) {
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, NO_SLICE_END, 0);
			bpf_task_release(p);
			return;
		}
	}
}

void SCX_OP(list_quiescent, struct task_struct *p, u64 deq_flags)
{
	u32 slot = task_slot(p);

	if (!slot || !node_at(slot)->queued)
		return;
	bpf_spin_lock(&runqueue_lock);
	del_from_runqueue(slot);
	bpf_spin_unlock(&runqueue_lock);
}

/* A realtime task takes the CPU: tasks that wait in its local DSQ return to the list. */
void SCX_OP(list_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local___v2___compat();
}

s32 SCX_OP(list_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct node *n;
	u32 slot;

	if (!t)
		return -ENOMEM;
	bpf_spin_lock(&runqueue_lock);
	slot = alloc_slot();
	bpf_spin_unlock(&runqueue_lock);
	if (!slot)
		return -ENOMEM;
	t->slot = slot;
	n = node_at(slot);
	n->pid = p->pid;
	n->nice = nice_of(p);
	n->dyn_prio = 0;
	init_ticks(n);
	n->last_cpu = scx_bpf_task_cpu(p);
	n->cpu = WAITS;
	n->queued = n->yielded = n->expired = false;
	n->owed_ns = 0;
	return 0;
}

void SCX_OP(list_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 slot = task_slot(p), parent_slot = p->real_parent ? task_slot(p->real_parent) : HEAD;
	struct node *n = node_at(slot), *parent = node_at(parent_slot);

	if (!slot)
		return;
	if (parent_slot)
		return_ticks(ticks_left(parent), *ticks_left(n), most_ticks(parent));
	bpf_spin_lock(&runqueue_lock);
	if (n->queued)
		del_from_runqueue(slot);
	release_slot(slot);
	bpf_spin_unlock(&runqueue_lock);
}

#define LIST_CALLBACKS                                                                             \
	CPU_STATE_CALLBACKS,                                                                       \
	.select_cpu = (void *)list_select_cpu,                                                     \
	.enqueue = (void *)list_enqueue,                                                           \
	.dispatch = (void *)list_dispatch,                                                         \
	.quiescent = (void *)list_quiescent,                                                       \
	.cpu_release = (void *)list_cpu_release,                                                   \
	.init_task = (void *)list_init_task,                                                       \
	.exit_task = (void *)list_exit_task

#endif
