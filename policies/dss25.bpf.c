/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dss25: the default scheduler of Linux 2.5.2-pre, which the O(1) scheduler replaced.
 *
 * This is dss (dss.bpf.c), the default scheduler of Linux 2.4, with the changes of January 2002. In
 * both schedulers, a CPU compares all runnable tasks by a value called goodness and runs the task
 * with the highest goodness. A task has a number of ticks. When all runnable tasks have used up
 * their ticks, a recalculation gives them new ones. The changes are:
 *
 * - Goodness contains a dynamic priority instead of the ticks left. The dynamic priority of a task
 *   grows by one for each recalculation during which the task sleeps, up to 40. It falls by one
 *   when the task's ticks end.
 * - A recalculation gives new ticks to runnable tasks only. The number of ticks depends on the nice
 *   value alone. The CPU holds the lock of the list during the recalculation.
 * - A yield uses up the task's ticks and raises its dynamic priority by one.
 *
 * Data structures, locks, wake-up and enqueue are those of dss. A task is identified by its slot,
 * the index of its list node (run_list.h).
 * Dispatch: the CPU searches the whole list. If all runnable tasks have used up their ticks, the
 * CPU recalculates and searches once more.
 * Tick: the running task loses one tick. When it loses its last tick, it loses the CPU, and its
 * dynamic priority falls by one.
 *
 * Good for: comparisons of the O(1) scheduler with its predecessor, and interactive tasks next to
 * CPU-bound ones.
 * Bad for: tasks that yield. A yield uses up the task's ticks, so recalculations are frequent, and
 * a CPU holds the lock during each of them. Like dss, the policy is bad for many tasks and CPUs.
 * Source: Davide Libenzi's changes, in Linux from 2.5.2-pre3 until the O(1) scheduler (Molnar,
 * January 2002).
 *
 * Different here: realtime tasks are in a class above sched_ext and not in the list, as in dss.
 */
#include "include/list_tasks.h"

char _license[] SEC("license") = "GPL";

/* Highest dynamic priority. */
#define MAX_DYN_PRIO 40
/* Highest number of ticks of a parent after it got the remaining ticks of an exiting child. */
#define MAX_TICKS 20

/* Number of recalculations. */
static u32 epoch;

/*
 * Returns the length of a quantum in ticks of 10 ms: 7 to 1 ticks for nice -20 to 19, and 4 for
 * nice 0.
 */
static __always_inline s32 nice_to_ticks(s32 nice)
{
	return (1000 + 175 * (u32)(19 - nice)) / 1000;
}

/* Returns the goodness of a task on a CPU whose loaded memory map is `mm`. */
static __always_inline s32 goodness(struct node *n, s32 cpu, u64 mm)
{
	s32 weight;

	if (!n->time_slice)
		return 0;
	weight = n->dyn_prio + 1 + 20 - n->nice;
	if (n->last_cpu == cpu)
		weight += PROC_CHANGE_PENALTY;
	if (!n->mm || n->mm == mm)
		weight++;
	return weight;
}

/* Gives a task new ticks. */
static __always_inline void init_ticks(struct node *n)
{
	n->time_slice = nice_to_ticks(n->nice);
	n->epoch = epoch;
}

/* Gives new ticks to all runnable tasks. The caller holds the lock. */
static __always_inline void recalculate(void)
{
	u32 slot = node_at(HEAD)->next;
	s32 i;

	epoch++;
	bpf_for(i, 0, MAX_TASKS) {
		if (!slot)
			break;
		init_ticks(node_at(slot));
		slot = node_at(slot)->next;
	}
	nr_recalculations++;
}

/*
 * Returns the slot of the best task for a CPU, HEAD if no task can run, or AGAIN if the search must
 * be repeated. If all tasks of the list have used up their ticks, recalculates and searches once
 * more. `prev` is the slot of the running task if that task can continue, else HEAD.
 */
static __always_inline u32 choose(s32 cpu, u32 prev)
{
	u64 mm = cpu_ctx(cpu)->mm;
	s32 best = GOODNESS_IDLE, round, i;
	u32 next = HEAD, examined = 0, slot;

	bpf_spin_lock(&runqueue_lock);
	bpf_for(round, 0, 2) {
		best = GOODNESS_IDLE;
		next = prev;
		if (prev)
			best = node_at(prev)->yielded ? -1 : goodness(node_at(prev), cpu, mm);
		slot = node_at(HEAD)->next;
		bpf_for(i, 0, MAX_TASKS) {
			struct node *n = node_at(slot);

			if (!slot)
				break;
			examined++;
			if (n->cpu == WAITS && may_run(slot, cpu)) {
				s32 weight = goodness(n, cpu, mm);

				if (weight > best) {
					best = weight;
					next = slot;
				}
			}
			slot = n->next;
		}
		if (best)
			break;
		recalculate();
	}
	nr_examined += examined;
	if (best && next)
		node_at(next)->cpu = cpu;
	bpf_spin_unlock(&runqueue_lock);
	return best ? next : AGAIN;
}

/*
 * Adds the number of recalculations during the sleep of a woken task to its dynamic priority. The
 * caller holds the lock.
 */
static __always_inline void credit_sleep(struct node *n)
{
	n->dyn_prio += epoch - n->epoch;
	n->epoch = epoch;
	if (n->dyn_prio > MAX_DYN_PRIO)
		n->dyn_prio = MAX_DYN_PRIO;
}

/* Charges a tick to the running task, which loses the CPU when it has no ticks left. */
void SCX_OP(dss25_tick, struct task_struct *p)
{
	struct cpu_ctx *c = cpu_ctx(scx_bpf_task_cpu(p));
	u32 slot = task_slot(p);
	struct node *n = node_at(slot);

	if (!slot)
		return;
	n->owed_ns += tick_period(&c->ticks, scx_bpf_now(), tick_ns);
	if (n->owed_ns >= tick_ns) {
		n->owed_ns -= tick_ns;
		if (n->time_slice && !--n->time_slice && n->dyn_prio)
			n->dyn_prio--;
	}
	if (!n->time_slice)
		scx_bpf_task_set_slice(p, 0);
}

/*
 * Called when a task yields. Uses up the ticks of the task and raises its dynamic priority by one.
 */
bool SCX_OP(dss25_yield, struct task_struct *from, struct task_struct *to)
{
	u32 slot = task_slot(from);
	struct node *n = node_at(slot);

	if (slot) {
		n->yielded = true;
		n->time_slice = 0;
		if (n->dyn_prio < MAX_DYN_PRIO)
			n->dyn_prio++;
	}
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/* Shares the ticks of a parent with its new child. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(dss25_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 parent_slot = task_slot(parent), child_slot = task_slot(child);
	struct node *from = node_at(parent_slot);

	if (!parent_slot || !child_slot)
		return 0;
	split_ticks(&from->time_slice, &node_at(child_slot)->time_slice);
	if (!from->time_slice)
		scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
	return 0;
}

/* Returns the address of a task's counter of ticks. */
static __always_inline s32 *ticks_left(struct node *n)
{
	return &n->time_slice;
}

/* Returns the highest number of ticks that a task can have, which is the same for all tasks. */
static __always_inline s32 most_ticks(struct node *n)
{
	return MAX_TICKS;
}

SCX_OPS(dss25_ops,
	LIST_CALLBACKS,
	.tick = (void *)dss25_tick,
	.yield = (void *)dss25_yield,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "dss25");
