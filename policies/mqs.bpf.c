/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mqs: the multi-queue scheduler, which makes nearly the decisions of dss without its one lock.
 *
 * dss (dss.bpf.c) is the default scheduler of Linux 2.4, which keeps all runnable tasks in one
 * list. dss gives each task a value called goodness and runs the task with the highest goodness. In
 * mqs, every CPU has a queue of its own and chooses tasks by the same goodness. To make nearly the
 * same decisions as dss, a CPU also compares its best task with the best tasks of all other queues.
 *
 * Data structures: one dispatch queue (DSQ) for each CPU. Each queue publishes one number that
 * other CPUs may read: the highest goodness of its waiting tasks, without the affinity bonus, which
 * a task has only on the CPU on which it ran last (cpu_queue.h).
 * Wake-up: the task takes its last CPU if that is idle, else the CPU that has been idle longest. If
 * no CPU is idle, the task is compared with the running task that has the lowest goodness. The
 * woken task preempts that task if its own goodness is higher by more than 1 (queue_wakeup.h).
 * Enqueue: the task is put into the queue of the CPU that was chosen at the wake-up, or into the
 * queue of its last CPU if it must wait.
 * Dispatch: the CPU searches its own queue and then reads the published number of every other
 * queue. If another queue has a better task, the CPU tries to take the lock of that queue and then
 * the task. The CPU skips a queue that is locked or no longer has such a task, and tries the next
 * best queue (queue_choice.h).
 * Tick: the running task's counter, the number of ticks left of its quantum, is decremented. At 0
 * the task loses the CPU.
 * Locks: one lock for each queue. A CPU never waits for a lock.
 *
 * Good for: interactive tasks next to CPU-bound ones, with more CPUs and tasks than dss can handle.
 * Bad for: very many CPUs, and tasks that depend on warm caches. Each decision reads a number that
 * every CPU publishes, and tasks move between CPUs as freely as under dss.
 * Source: Franke, Nagar, Kravetz, Ravindran, "PMQS: Scalable Linux Scheduling for High End Servers"
 * (2001).
 *
 * Known weakness: tasks that are bound to a busy CPU can starve, as in dss (dss.bpf.c).
 * Different here: realtime tasks are in a class above sched_ext. The lock of a queue is a variable
 * of the policy. The DSQ of the queue has a second lock, which belongs to the kernel.
 */
#include "include/queue_wakeup.h"
#include "include/pass_on.h"

char _license[] SEC("license") = "GPL";

/*
 * Returns the first CPU of the pool, which is the set of CPUs whose queues are compared. In mqs,
 * the pool contains all CPUs.
 */
static __always_inline s32 pool_begin(s32 cpu)
{
	return 0;
}

/* Returns the last CPU of the pool, plus 1. */
static __always_inline s32 pool_end(s32 cpu)
{
	return nr_cpus;
}

/* Returns false, because this policy has no limit on how long a task may wait. */
static __always_inline bool overdue(u64 since)
{
	return false;
}

/* Chooses the best task for the CPU and runs it. Returns false if the search must be repeated. */
static __always_inline bool choose(s32 cpu, struct task_struct *prev, struct mq *q)
{
	struct scan s = SCAN_FROM(GOODNESS_IDLE);
	struct task_ctx *t = NULL;
	s32 remote;

	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
		t = task_ctx(prev);
		if (t)
			s.best = prev_goodness(prev, t, cpu);
	}
	lock_own(q);
	scan(cpu, cpu, cpu_ctx(cpu)->mm, &s);
	q->max_na_goodness = s.pid && s.pid == s.first_pid ? s.second : s.first;
	unlock(q);
	remote = take_remote(cpu, s.best);
	if (remote == TAKEN) {
		q->max_na_goodness = s.first;
		return true;
	}
	/*
	 * The CPU idles only if it could search all queues. If a queue was locked, the CPU searches
	 * again.
	 */
	if (s.best == GOODNESS_IDLE)
		return remote != LOCKED;
	/* If the best goodness is 0, all runnable tasks have used up their quanta. */
	if (!s.best) {
		recalculate();
		return false;
	}
	if (s.pid)
		return take(cpu, s.pid);
	if (t)
		keep_running(prev, t);
	return true;
}

/*
 * Puts a task into the queue of an idle CPU. If no CPU is idle, the task goes to a CPU where it
 * preempts the running task, or else to its last CPU.
 */
void SCX_OP(mqs_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx(p);
	bool yielded;
	s32 home, cpu;

	if (!t) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, NO_SLICE_END, enq_flags);
		return;
	}
	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (woken_by_gone_cpu(p, NO_SLICE_END, enq_flags))
		return;
	yielded = t->yielded;
	t->yielded = false;
	home = home_of(p, t);
	if (yielded) {
		put_on(p, t, home, enq_flags);
		return;
	}
	cpu = is_idle(home) ? home : find_idle(p, 0, nr_cpus, LONGEST_IDLE);
	if (cpu >= 0) {
		put_on(p, t, cpu, enq_flags);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	preempt_or_wait(p, t, home, enq_flags);
}

/* Chooses a task for the CPU. */
void SCX_OP(mqs_dispatch, s32 cpu, struct task_struct *prev)
{
	s32 i;

	bpf_for(i, 0, MAX_TRIES) {
		if (choose(cpu, prev, mq_of(cpu)))
			return;
	}
}

/* Charges a tick to the running task and publishes its goodness. */
void SCX_OP(mqs_tick, struct task_struct *p)
{
	goodness_tick(p);
	show_running(p, 1);
}

/* Records that a task starts to run and publishes its goodness. */
void SCX_OP(mqs_running, struct task_struct *p)
{
	goodness_running(p);
	show_running(p, 1);
}

/* Publishes that the CPU runs no task of the policy. */
void SCX_OP(mqs_stopping, struct task_struct *p, bool runnable)
{
	show_running(p, 0);
}

/* Moves all tasks out of the queue of a CPU that goes offline. See pass_on.h. */
static __always_inline void pass_on_all(s32 cpu)
{
	pass_on(cpu);
}

/* Creates the queues. */
s32 SCX_OP_SLEEPABLE(mqs_init)
{
	return init_queues();
}

SCX_OPS(mqs_ops,
	GOODNESS_CALLBACKS,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)mq_select_cpu,
	.enqueue = (void *)mqs_enqueue,
	.dispatch = (void *)mqs_dispatch,
	.tick = (void *)mqs_tick,
	.running = (void *)mqs_running,
	.stopping = (void *)mqs_stopping,
	.init = (void *)mqs_init,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_LAST,
	.name = "mqs");
