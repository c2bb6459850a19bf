/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dss: the default scheduler of Linux 2.4.
 *
 * All runnable tasks are in one unordered list behind one lock. A CPU that needs a task holds the lock,
 * examines every task of the list and takes the one with the highest goodness: ticks left in its quantum, plus
 * 20 less its nice value, plus 15 if it ran on this CPU last, plus 1 if its memory map is loaded. The running
 * task competes, too.
 *
 * When all tasks that could run have used up their quanta, every task of the system gets new ticks. A
 * sleeping task keeps half of the ticks it had left, so it has a high goodness when it wakes up. A woken task
 * takes its last CPU if that is idle, else the CPU that has been idle longest, else it preempts the task that
 * it beats by most.
 *
 * Good for: few tasks on few CPUs; interactive tasks beside hogs.
 * Bad for: many tasks, since a choice examines all of them, and many CPUs, since there is one lock.
 * Source: Franke, Nagar, Kravetz, Ravindran, "PMQS: Scalable Linux Scheduling for High End Servers" (2001),
 * on Linux 2.4.5.
 *
 * Known weakness: tasks that are bound to a busy CPU starve while another CPU has little to do. The other CPU
 * recalculates all counters so often that no quantum on the busy CPU ends.
 * Different here: realtime tasks are in a class above sched_ext and not in the list.
 */
#include "include/list_tasks.h"

char _license[] SEC("license") = "GPL";

/* Returns 11 to 1 ticks for nice -20 to 19, and 6 for nice 0. */
static __always_inline s32 nice_to_ticks(s32 nice)
{
	return ((20 - nice) >> 2) + 1;
}

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
 * Gives new ticks to all tasks of the system, sleeping ones included. The kernel did this without the lock of
 * the list.
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
	/* All quanta are used up. */
	recalculate();
	return AGAIN;
}

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

/* The next choice passes over a task that yielded, unless no other task can run. */
bool SCX_OP(dss_yield, struct task_struct *from, struct task_struct *to)
{
	u32 slot = task_slot(from);

	if (slot)
		node_at(slot)->yielded = true;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

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

static __always_inline void init_ticks(struct node *n)
{
	n->counter = nice_to_ticks(n->nice);
}

static __always_inline s32 *ticks_left(struct node *n)
{
	return &n->counter;
}

/* A task that sleeps for long gathers up to twice its ticks. */
static __always_inline s32 most_ticks(struct node *n)
{
	return 2 * nice_to_ticks(n->nice);
}

/* Sleep is rewarded by recalculations alone. */
static __always_inline void credit_sleep(struct node *n)
{
}

SCX_OPS(dss_ops,
	LIST_CALLBACKS,
	.tick = (void *)dss_tick,
	.yield = (void *)dss_yield,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "dss");
