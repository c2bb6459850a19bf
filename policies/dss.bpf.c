/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dss: the default scheduler of Linux 2.4.
 *
 * Every task has a counter, the number of timer ticks that are left of its quantum (time slice). A
 * CPU that needs a task computes a value called goodness for every runnable task, and runs the task
 * with the highest goodness. Goodness is the sum of
 *
 * - the ticks left in the counter (if this number is 0, goodness is 0),
 * - 20 minus the nice value,
 * - 15 if the task ran on this CPU last, because its data may be in the cache,
 * - 1 if the task's memory map is loaded on this CPU, or if the task is a kernel thread.
 *
 * If the highest goodness is 0, every task of the system gets a new quantum and keeps half of its
 * old ticks (a recalculation). A sleeping task therefore accumulates ticks and has a high goodness
 * when it wakes up.
 *
 * Data structures: one unordered doubly linked list of all runnable tasks. A task is identified by
 * its slot, the index of its list node (run_list.h).
 * Wake-up: the task takes its last CPU if that is idle, else the CPU that has been idle longest. If
 * no CPU is idle, the task is compared with all running tasks and preempts the running task whose
 * goodness is lower than its own by the largest difference (reschedule_idle.h).
 * Enqueue: a woken or new task enters the list at the front. At the end of its quantum, a task
 * moves to the back.
 * Dispatch: the CPU searches the whole list for the task with the highest goodness. The running
 * task competes, too.
 * Tick: the running task's counter is decremented. At 0 the task loses the CPU.
 * Fork and exit: a child gets half of its parent's ticks. When the child exits, the parent gets the
 * child's remaining ticks.
 * Locks: one spinlock, runqueue_lock, which a CPU holds while it searches the list.
 *
 * Good for: few tasks on few CPUs, and interactive tasks next to CPU-bound ones.
 * Bad for: many tasks and many CPUs. Every decision examines all runnable tasks, while the CPU
 * holds the only lock.
 * Source: Franke, Nagar, Kravetz, Ravindran, "PMQS: Scalable Linux Scheduling for High End Servers"
 * (2001), on Linux 2.4.5.
 *
 * Known weakness: tasks that are bound to a busy CPU can starve while another CPU has little to do.
 * Each time the few tasks of the other CPU have used up their ticks, that CPU recalculates the
 * counters of all tasks. The task that runs on the busy CPU then gets new ticks, too. If this
 * happens again and again before its own ticks end, its quantum never ends.
 * Different here: realtime tasks are in a class above sched_ext and not in the list.
 */
#include "include/list_tasks.h"

char _license[] SEC("license") = "GPL";

/* Returns the length of a quantum: 11 to 1 ticks for nice -20 to 19, and 6 for nice 0. */
static __always_inline s32 nice_to_ticks(s32 nice)
{
	return ((20 - nice) >> 2) + 1;
}

/* Returns the goodness of a task on a CPU whose loaded memory map is `mm`. */
static __always_inline s32 goodness(struct node *n, s32 cpu, u64 mm)
{
	s32 weight;

	if (!n->counter)
		return 0;
	weight = n->counter + 20 - n->nice;
	if (n->last_cpu == cpu)
		weight += PROC_CHANGE_PENALTY;
	if (!n->mm || n->mm == mm)
		weight++;
	return weight;
}

/*
 * Gives new ticks to all tasks of the system, including sleeping tasks. The caller does not hold
 * the lock of the list, as in Linux 2.4.
 */
static __always_inline void recalculate(void)
{
	u32 slot;

	bpf_for(slot, HEAD + 1, nr_slots) {
		struct node *n = node_at(slot);

		n->counter = (n->counter >> 1) + nice_to_ticks(n->nice);
	}
	nr_recalculations++;
}

/*
 * Returns the slot of the best task for a CPU, HEAD if no task can run, or AGAIN after a
 * recalculation, so that the caller repeats the search. `prev` is the slot of the running task if
 * that task can continue, else HEAD.
 */
static __always_inline u32 choose(s32 cpu, u32 prev)
{
	u64 mm = cpu_ctx(cpu)->mm;
	s32 best = GOODNESS_IDLE, i;
	u32 next = prev, examined = 0, slot;

	bpf_spin_lock(&runqueue_lock);
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
	nr_examined += examined;
	if (best && next)
		node_at(next)->cpu = cpu;
	bpf_spin_unlock(&runqueue_lock);
	if (best)
		return next;
	/* All runnable tasks have used up their quanta. */
	recalculate();
	return AGAIN;
}

/* Charges a tick to the running task, which loses the CPU when its counter reaches 0. */
void SCX_OP(dss_tick, struct task_struct *p)
{
	struct cpu_ctx *c = cpu_ctx(scx_bpf_task_cpu(p));
	u32 slot = task_slot(p);
	struct node *n = node_at(slot);

	if (!slot)
		return;
	n->owed_ns += tick_period(&c->ticks, scx_bpf_now(), tick_ns);
	if (n->owed_ns >= tick_ns) {
		n->owed_ns -= tick_ns;
		if (n->counter)
			n->counter--;
	}
	if (!n->counter) {
		n->expired = true;
		scx_bpf_task_set_slice(p, 0);
	}
}

/* Called when a task yields. Makes the next search skip the task, unless no other task can run. */
bool SCX_OP(dss_yield, struct task_struct *from, struct task_struct *to)
{
	u32 slot = task_slot(from);

	if (slot)
		node_at(slot)->yielded = true;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/* Shares the ticks of a parent with its new child. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(dss_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 parent_slot = task_slot(parent), child_slot = task_slot(child);
	struct node *from = node_at(parent_slot);

	if (!parent_slot || !child_slot)
		return 0;
	split_ticks(&from->counter, &node_at(child_slot)->counter);
	if (!from->counter) {
		from->expired = true;
		scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
	}
	return 0;
}

/* Gives a new task its first quantum. */
static __always_inline void init_ticks(struct node *n)
{
	n->counter = nice_to_ticks(n->nice);
}

/* Returns the address of a task's counter. */
static __always_inline s32 *ticks_left(struct node *n)
{
	return &n->counter;
}

/*
 * Returns the highest number of ticks that a task can have: during a long sleep, a task accumulates
 * up to twice its quantum.
 */
static __always_inline s32 most_ticks(struct node *n)
{
	return 2 * nice_to_ticks(n->nice);
}

/*
 * Does nothing: in Linux 2.4, a task gets its ticks for sleep at recalculations, not at the
 * wake-up.
 */
static __always_inline void credit_sleep(struct node *n)
{
}

SCX_OPS(dss_ops,
	LIST_CALLBACKS,
	.tick = (void *)dss_tick,
	.yield = (void *)dss_yield,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "dss");
