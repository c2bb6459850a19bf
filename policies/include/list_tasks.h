/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Callbacks for the run list of Linux 2.4 and 2.5, for every event in the life of a task. A task is
 * created, enters the list when it wakes up, is chosen to run, leaves the list when it sleeps, and
 * exits.
 *
 * The quantum of a task is a number of ticks. When all runnable tasks have used up their ticks, a
 * recalculation gives them new ones. A task is identified by its slot, the index of its list node
 * (run_list.h).
 *
 * The policy that includes this header defines how a task is chosen and how its ticks are counted:
 * goodness(), choose() and the other functions that are only declared below. Goodness is the value
 * by which a CPU compares tasks. The CPU runs the task with the highest goodness.
 */
#ifndef LIST_TASKS_H
#define LIST_TASKS_H

#include "quantum.h"
#include "reschedule_idle.h"

/* Goodness that a task gains on the CPU it ran on last. */
#define PROC_CHANGE_PENALTY 15
/* Value that stands for running no task. Every task has a higher goodness. */
#define GOODNESS_IDLE (-1000)
/* Highest number of calls of choose() in one call of ops.dispatch(). */
#define MAX_TRIES 8
/* Result of choose() if the search must be repeated. No task has this slot. */
#define AGAIN MAX_TASKS

/* Number of recalculations of all counters. */
u64 nr_recalculations;
/* Number of tasks examined by calls of choose(). */
u64 nr_examined;
/* Number of wake-ups that preempted a task. */
u64 nr_preempted;

/* Returns the address of the task's counter of ticks left. Defined by the policy. */
static s32 *ticks_left(struct node *n);
/* Returns the highest number of ticks that the task can have. Defined by the policy. */
static s32 most_ticks(struct node *n);
/* Gives a new task its first quantum. Defined by the policy. */
static void init_ticks(struct node *n);
/* Rewards a woken task for its sleep, before the task enters the list. Defined by the policy. */
static void credit_sleep(struct node *n);
/*
 * Returns the slot of the best task for a CPU, HEAD if no task can run, or AGAIN if the search must
 * be repeated. `prev` is the slot of the running task if this task can continue, else HEAD. Defined
 * by the policy.
 */
static u32 choose(s32 cpu, u32 prev);

/* Returns the previous CPU, because ops.enqueue() chooses the CPU. */
s32 SCX_OP(list_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

/*
 * Adds a woken or new task at the front of the list. Moves a task to the back at the end of its
 * quantum. A task that was preempted or that yielded keeps its position. Then wakes or preempts the
 * CPU that should run the task, unless the task yielded.
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
	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
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

/*
 * Chooses a task for the CPU. If this is the running task, lets it continue, else runs the chosen
 * task.
 */
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

/* Removes a task that is no longer runnable from the list. */
void SCX_OP(list_quiescent, struct task_struct *p, u64 deq_flags)
{
	u32 slot = task_slot(p);

	if (!slot || !node_at(slot)->queued)
		return;
	bpf_spin_lock(&runqueue_lock);
	del_from_runqueue(slot);
	bpf_spin_unlock(&runqueue_lock);
}

/*
 * Called when a realtime task takes the CPU. Makes the kernel call ops.enqueue() again for the
 * tasks in the CPU's local dispatch queue, so other CPUs can run them.
 */
void SCX_OP(list_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local___v2___compat();
}

/* Allocates a slot for a new task and initializes its node. */
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

/* Gives the remaining ticks of an exiting task back to its parent, and releases its slot. */
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

/* Entries for the callback table of the policy. */
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
