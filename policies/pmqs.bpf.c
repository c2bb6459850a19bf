/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pmqs: the pooled multi-queue scheduler, and its load balancers.
 *
 * Every CPU has a queue of its own and runs the task with the highest goodness, a value that grows
 * with the ticks left of a task's quantum and with its priority (goodness.h). In mqs (mqs.bpf.c), a
 * CPU compares its best task with the best tasks of all other queues. In pmqs, a CPU does so only
 * within its pool, a small group of neighbouring CPUs. Between pools, tasks move in two ways only:
 * a woken task finds an idle CPU elsewhere, or a load balancer moves it.
 *
 * Data structures: as in mqs, each CPU has one dispatch queue (DSQ) and publishes the highest
 * goodness of the tasks that wait there.
 * Wake-up: the task takes its last CPU if that is idle, else an idle CPU of the pool, else any idle
 * CPU. If no CPU is idle, the task is compared with the running task of the pool that has the
 * lowest goodness. The woken task preempts that task if its own goodness is higher by more than 1.
 * Dispatch: the CPU searches its own queue and then compares the best task there with the goodness
 * that the other queues of its pool publish.
 * Tick: the running task's counter of ticks is decremented. At 0 the task loses the CPU. If another
 * task of the queue is overdue (see the end of this comment), the running task also loses the CPU
 * after it has run for as long as a whole quantum.
 * Balancers: IP (initial placement) moves a task at exec to the shortest queue. A timer runs LBC or
 * LBP. LBC evens out all queues. LBP moves tasks between queues of different pools if a queue
 * differs from the average by more than a tolerance (balancer.h).
 * Locks: one lock for each queue, as in mqs. A CPU never waits for a lock.
 *
 * Good for: many CPUs, machines on which memory of another pool is far away, and loads that can be
 * scheduled without knowledge of the whole machine.
 * Bad for: fairness between pools without a balancer, and tasks that sleep often and briefly, for
 * which the balancers move too many tasks.
 * Source: Franke, Nagar, Kravetz, Ravindran, "PMQS: Scalable Linux Scheduling for High End Servers"
 * (2001).
 *
 * Different here: realtime tasks are in a class above sched_ext. IP does not move a task within
 * exec. It makes the CPU reschedule at once, and the task moves then. The limit max_wait_ms does
 * not exist in the original.
 *
 * Overdue tasks: when the tasks of one pool have used up their quanta, the tasks of all pools get
 * new ticks. In a pool with little to do, this happens often, and it prolongs the quanta of the
 * tasks that run in the other pools. In the original nothing limits these quanta, so other tasks of
 * those pools may wait very long. Here, a task that has waited for max_wait_ms is overdue. An
 * overdue task runs as soon as the running task has run for as long as a whole quantum. Among
 * overdue tasks, the one that has waited longest runs first.
 */
#include "include/goodness.h"
#include "include/pass_on.h"

u32 poolsize PARAM("CPUs, 1..1024: number of neighbouring CPUs in a pool") = 4;
u32 max_wait_ms PARAM("ms, 0..3600000: a task that waits longer runs before all others of its queue; 0: no limit") = 3000;

/*
 * Counters, in this order: wake-ups on idle CPUs outside of the pool, and overdue tasks that were
 * chosen.
 */
u64 nr_idle_outside, nr_overdue;

#include "include/balancer.h"

char _license[] SEC("license") = "GPL";

/* Returns the number of a CPU's pool. */
static __always_inline u32 pool_of(s32 cpu)
{
	u32 size = poolsize;

	return (u32)cpu / (size ? size : 1);
}

/* Returns the first CPU of a CPU's pool. */
static __always_inline s32 pool_begin(s32 cpu)
{
	return pool_of(cpu) * (poolsize ? poolsize : 1);
}

/* Returns the last CPU of a CPU's pool, plus 1. */
static __always_inline s32 pool_end(s32 cpu)
{
	u32 end = pool_begin(cpu) + (poolsize ? poolsize : 1);

	return end < (u32)nr_cpus ? end : nr_cpus;
}

/* Returns whether a task that began to wait at time `since` is overdue. */
static __always_inline bool overdue(u64 since)
{
	return max_wait_ms && scx_bpf_now() > since + (u64)max_wait_ms * 1000000;
}

/* Chooses the best task for the CPU and runs it. Returns false if the search must be repeated. */
static __always_inline bool choose(s32 cpu, struct task_struct *prev, struct mq *q, u64 mm)
{
	struct scan s = SCAN_FROM(GOODNESS_IDLE);
	struct task_ctx *t = NULL;
	bool done = true;
	s32 remote;

	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
		t = task_ctx(prev);
		/* A task that is about to move no longer belongs to this queue. */
		if (t && t->move_to)
			t = NULL;
		if (t)
			s.best = prev_goodness(prev, t, cpu);
	}
	lock_own(q);
	scan(cpu, cpu, mm, &s);
	q->oldest_since = s.oldest_since;
	q->max_na_goodness = s.pid && s.pid == s.first_pid ? s.second : s.first;
	unlock(q);
	remote = take_remote(cpu, s.best);
	if (remote == TAKEN) {
		q->max_na_goodness = s.first;
		return true;
	}
	/*
	 * The CPU idles only if it could search all queues of the pool. If a queue was locked, the
	 * CPU searches again.
	 */
	if (s.best == GOODNESS_IDLE)
		return remote != LOCKED;
	if (!s.best) {
		/* All runnable tasks have used up their quanta. */
		recalculate();
		done = false;
	} else if (s.pid) {
		done = take(cpu, s.pid);
		if (done && s.best == GOODNESS_OVERDUE)
			__sync_fetch_and_add(&nr_overdue, 1);
	} else if (t) {
		q->turn_since = scx_bpf_now();
		keep_running(prev, t);
	}
	return done;
}

/*
 * Puts a task into the first of these queues that exists: the queue that the balancer IP chose for
 * it, the queue of an idle CPU, the queue of a CPU where the task preempts the running task, the
 * queue of its last CPU.
 */
void SCX_OP(pmqs_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx(p);
	s32 home, cpu, move_to;
	bool yielded;

	if (!t) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, NO_SLICE_END, enq_flags);
		return;
	}
	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (woken_by_gone_cpu(p, NO_SLICE_END, enq_flags))
		return;
	yielded = t->yielded;
	move_to = t->move_to - 1;
	t->yielded = false;
	t->move_to = 0;
	if (move_to >= 0 && is_online(move_to) && may_run(p, move_to)) {
		put_on(p, t, move_to, enq_flags & ~SCX_ENQ_LAST);
		scx_bpf_kick_cpu(move_to, SCX_KICK_IDLE);
		return;
	}
	home = home_of(p, t);
	if (yielded) {
		put_on(p, t, home, enq_flags);
		return;
	}
	cpu = is_idle(home) ? home : -1;
	if (cpu < 0)
		cpu = find_idle(p, pool_begin(home), pool_end(home), FIRST_IDLE);
	if (cpu < 0) {
		cpu = find_idle(p, 0, nr_cpus, FIRST_IDLE);
		if (cpu >= 0)
			__sync_fetch_and_add(&nr_idle_outside, 1);
	}
	if (cpu >= 0) {
		put_on(p, t, cpu, enq_flags);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	preempt_or_wait(p, t, home, enq_flags);
}

/* Chooses a task for the CPU. */
void SCX_OP(pmqs_dispatch, s32 cpu, struct task_struct *prev)
{
	s32 i;

	bpf_for(i, 0, MAX_TRIES) {
		if (choose(cpu, prev, mq_of(cpu), cpu_ctx(cpu)->mm))
			return;
	}
}

/*
 * Takes the CPU from a task that has run for as long as a whole quantum while another task is
 * overdue.
 */
static __always_inline void end_long_turn(struct task_struct *p)
{
	struct mq *q = mq_of(scx_bpf_task_cpu(p));

	if (overdue(q->oldest_since) && scx_bpf_now() - q->turn_since >= nice_to_ticks(nice_of(p)) * tick_ns)
		scx_bpf_task_set_slice(p, 0);
}

/*
 * Charges a tick to the running task and publishes the goodness of the task. Takes the CPU from the
 * task if it has run for too long while an overdue task waits.
 */
void SCX_OP(pmqs_tick, struct task_struct *p)
{
	goodness_tick(p);
	show_running(p, 1);
	end_long_turn(p);
}

/* Records that a task starts to run and publishes its goodness. */
void SCX_OP(pmqs_running, struct task_struct *p)
{
	struct mq *q = mq_of(scx_bpf_task_cpu(p));

	goodness_running(p);
	show_running(p, 1);
	q->turn_since = scx_bpf_now();
}

/* Publishes that the CPU runs no task of the policy. */
void SCX_OP(pmqs_stopping, struct task_struct *p, bool runnable)
{
	show_running(p, 0);
}

/* Moves all tasks out of the queue of a CPU that goes offline. See pass_on.h. */
static __always_inline void pass_on_all(s32 cpu)
{
	pass_on(cpu);
}

/* Creates the queues and starts the balancer. */
s32 SCX_OP_SLEEPABLE(pmqs_init)
{
	s32 ret = init_queues();

	return ret ? ret : balancer_init();
}

SCX_OPS(pmqs_ops,
	GOODNESS_CALLBACKS,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)mq_select_cpu,
	.enqueue = (void *)pmqs_enqueue,
	.dispatch = (void *)pmqs_dispatch,
	.tick = (void *)pmqs_tick,
	.running = (void *)pmqs_running,
	.stopping = (void *)pmqs_stopping,
	.init = (void *)pmqs_init,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_LAST,
	.name = "pmqs");
