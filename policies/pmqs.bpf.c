/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pmqs: the pooled multi-queue scheduler, and its load balancers.
 *
 * It is mqs within pools of neighbouring CPUs. A CPU that needs a task scans its own queue for the highest
 * goodness, and then reads one number of each other queue of its pool. A woken task takes its last CPU if
 * that is idle, else an idle CPU of the pool, else any idle CPU, else it preempts the running task of the
 * pool with the lowest goodness that it beats.
 *
 * Tasks leave a pool in two ways: a woken task finds an idle CPU elsewhere, or a balancer moves it. Three
 * balancers can be chosen. IP moves a task at exec to the shortest queue. LBC evens out all queues by a
 * timer. LBP evens out queues of different pools that are not within a tolerance of the average.
 *
 * Good for: many CPUs, far memory between pools; loads that need no knowledge of the whole machine.
 * Bad for: fairness between pools without a balancer; many short sleeps, where balancing corrects too much.
 * Source: Franke, Nagar, Kravetz, Ravindran, "PMQS: Scalable Linux Scheduling for High End Servers" (2001).
 *
 * Different here: realtime tasks are in a class above sched_ext. Locks of queues are words beside the locks
 * of the DSQs. A task that IP places moves when its CPU next schedules, which is at once. A CPU whose pool
 * has used up its quanta recalculates the counters of all tasks, so a pool with little to do stretches the
 * quanta of the others, in the original without end. Here a task that has waited for max_wait_ms is next when
 * the running task has had a turn of the usual length, the longest wait first.
 */
#include "include/goodness.h"
#include "include/pass_on.h"

u32 poolsize PARAM("CPUs, 1..1024: neighbouring CPUs in a pool") = 4;
u32 max_wait_ms PARAM("ms, 0..3600000: a task that waits longer comes before all others of its queue; 0 none") = 3000;

/* Wake-ups on idle CPUs outside of the pool, and tasks that had waited too long when they were taken. */
u64 nr_idle_outside, nr_overdue;

#include "include/balancer.h"

char _license[] SEC("license") = "GPL";

static __always_inline u32 pool_of(s32 cpu)
{
	u32 size = poolsize;

	return (u32)cpu / (size ? size : 1);
}

static __always_inline s32 pool_begin(s32 cpu)
{
	return pool_of(cpu) * (poolsize ? poolsize : 1);
}

static __always_inline s32 pool_end(s32 cpu)
{
	u32 end = pool_begin(cpu) + (poolsize ? poolsize : 1);

	return end < (u32)nr_cpus ? end : nr_cpus;
}

static __always_inline bool overdue(u64 since)
{
	return max_wait_ms && scx_bpf_now() > since + (u64)max_wait_ms * 1000000;
}

/* Lets the best task run. Returns false if the choice must be repeated. */
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
	/* Before the CPU goes idle it looks again at queues that were locked. */
	if (s.best == GOODNESS_IDLE)
		return remote != LOCKED;
	if (!s.best) {
		/* All quanta are used up. */
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

void SCX_OP(pmqs_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx(p);
	s32 home, cpu, move_to;
	bool yielded;

	if (!t) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, NO_SLICE_END, enq_flags);
		return;
	}
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

void SCX_OP(pmqs_dispatch, s32 cpu, struct task_struct *prev)
{
	s32 i;

	bpf_for(i, 0, MAX_TRIES) {
		if (choose(cpu, prev, mq_of(cpu), cpu_ctx(cpu)->mm))
			return;
	}
}

/* Ends the turn of a task that has run for a quantum of its nice value while another task is overdue. */
static __always_inline void end_long_turn(struct task_struct *p)
{
	struct mq *q = mq_of(scx_bpf_task_cpu(p));

	if (overdue(q->oldest_since) && scx_bpf_now() - q->turn_since >= nice_to_ticks(nice_of(p)) * tick_ns)
		scx_bpf_task_set_slice(p, 0);
}

void SCX_OP(pmqs_tick, struct task_struct *p)
{
	goodness_tick(p);
	show_running(p, 1);
	end_long_turn(p);
}

void SCX_OP(pmqs_running, struct task_struct *p)
{
	struct mq *q = mq_of(scx_bpf_task_cpu(p));

	goodness_running(p);
	show_running(p, 1);
	q->turn_since = scx_bpf_now();
}

void SCX_OP(pmqs_stopping, struct task_struct *p, bool runnable)
{
	show_running(p, 0);
}

/* Tasks that wait in the queue of a CPU that goes may have run elsewhere. */
static __always_inline void pass_on_all(s32 cpu)
{
	pass_on(cpu);
}

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
