/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ule: FreeBSD's ULE, with interactive and batch threads on one runqueue for each CPU.
 *
 * Threads that mostly sleep are interactive (interactivity.h). An interactive thread always runs
 * before a batch thread, so batch threads starve while interactive threads keep a CPU busy. A batch
 * thread that does not run for long cannot become interactive, because only sleep counts.
 *
 * Data structures: two dispatch queues (DSQs) for each CPU. The queue of interactive threads is
 * ordered by priority. The queue of batch threads is a calendar: its current day advances with
 * time, and a thread is inserted as many days later as its priority is worse. A thread of a bad
 * priority therefore waits longer, but not for ever.
 * Wake-up: the thread returns to its CPU if that is idle. Otherwise it goes to the CPU with the
 * fewest threads among those where it would run at once: first in the last-level cache (LLC) where
 * it ran less than affinity_ns ago, then anywhere. If there is none, it goes to the CPU with the
 * fewest threads. It stays on the waking CPU if that has at most one thread more.
 * Enqueue: the thread goes to its place in the queue of the CPU. A preempted batch thread goes to
 * the front. A thread preempts a running thread of a worse priority on the waking CPU. On other
 * CPUs, only an interactive thread preempts, and only a batch thread.
 * Dispatch: the first interactive thread runs, then the first batch thread. A CPU without threads
 * steals one from the CPU with the most threads: first in its LLC, then anywhere.
 * Tick: the priority of the running thread is computed again, and the calendar advances. The slice
 * of a thread is slice_ns, divided by the number of other threads of the CPU, at least slice_ns / 6.
 * Timer: about once a second, each CPU with many threads gives one to a CPU with few.
 * Locks: the locks of the DSQs.
 *
 * Good for: interactive threads next to batch threads, even if there are many of them.
 * Bad for: batch threads next to interactive ones that keep the CPU busy, because they starve, and
 * loads that start on one CPU, because the timer moves one thread from each CPU per second.
 * Source: sys/kern/sched_ule.c of FreeBSD; Roberson, "ULE: A Modern Scheduler for FreeBSD" (BSDCon
 * 2003); Bouron et al., "The Battle of the Schedulers: FreeBSD ULE vs. Linux CFS" (USENIX ATC 2018).
 * The code is our own.
 *
 * Different here: times are in ns instead of ticks. Levels of the topology are the LLC and the
 * machine. Realtime and idle priorities belong to other classes of Linux. A parent does not inherit
 * the run time of a child that exits.
 */
#include "include/pass_on.h"
#include "include/ule_balance.h"

char _license[] SEC("license") = "GPL";

const volatile u64 affinity_ns PARAM("ns, 0..1000000000: time after which a thread has no reason to stay in its LLC") = 2000000;

/* Number of threads that were preempted. */
u64 nr_preempted;

/* Moves all threads out of the queues of a CPU that goes offline. See pass_on.h. */
static __always_inline void pass_on_all(s32 cpu)
{
	pass_on(cpu);
	pass_on(BATCH_QUEUE(cpu));
}

/*
 * Returns the CPU with the fewest threads on which the thread may run and which runs a worse
 * priority than `pri`, or -1. Only searches the LLC `llc`, unless that is -1.
 */
static __noinline s32 search(struct task_struct *p, s32 llc, s32 pri)
{
	s32 cpu, best = -1, least = 1 << 30;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		s32 load;

		if ((llc >= 0 && llc_of[cpu & (MAX_CPUS - 1)] != (u32)llc) || !is_online(cpu) ||
		    (s32)cpu_of(cpu)->pri <= pri || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		load = load_of(cpu);
		if (load < least) {
			least = load;
			best = cpu;
		}
	}
	return best;
}

/* Chooses the CPU of a woken thread. */
s32 SCX_OP(ule_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct thread *t = thread_of(p);
	s32 this_cpu = bpf_get_smp_processor_id(), cpu = -1;
	u64 now = bpf_ktime_get_ns();

	if (!t || (scx_bpf_test_and_clear_cpu_idle(prev_cpu) && is_online(prev_cpu)))
		return prev_cpu;
	end_sleep(p, t, now);
	if (now - t->ran_at < affinity_ns)
		cpu = search(p, llc_of[prev_cpu & (MAX_CPUS - 1)], t->pri);
	if (cpu < 0)
		cpu = search(p, -1, t->pri);
	if (cpu < 0)
		cpu = search(p, -1, -1);
	if (cpu < 0)
		return prev_cpu;
	/* The waking CPU is preferred if it is hardly worse. Its data is likely the thread's, too. */
	if (cpu_of(cpu)->running && bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr) && is_online(this_cpu) &&
	    cpu_of(this_cpu)->pri > t->pri && load_of(this_cpu) <= load_of(cpu) + 1)
		cpu = this_cpu;
	if (!cpu_of(cpu)->running)
		scx_bpf_test_and_clear_cpu_idle(cpu);
	return cpu;
}

/* Inserts a thread into a queue of its CPU, and preempts the running thread if it should. */
void SCX_OP(ule_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct thread *t = thread_of(p);
	s32 cpu = scx_bpf_task_cpu(p), this_cpu = bpf_get_smp_processor_id();
	struct cpu *c = cpu_of(cpu);
	u64 left;

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (!t || woken_by_gone_cpu(p, slice_ns, enq_flags))
		return;
	end_sleep(p, t, bpf_ktime_get_ns());
	left = left_of(t, cpu);
	scx_bpf_dsq_insert_vtime(p, queue_of(t, cpu), left,
				 key_of(t, c, !(enq_flags & SCX_ENQ_WAKEUP) && t->slice_used), enq_flags);
	if (!c->running) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	} else if (cpu == this_cpu ? t->pri < c->pri : t->pri < BATCH_PRI && c->pri >= BATCH_PRI) {
		__sync_fetch_and_add(&nr_preempted, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/* Runs the best waiting thread, or lets the running thread continue, or steals a thread. */
void SCX_OP(ule_dispatch, s32 cpu, struct task_struct *prev)
{
	struct thread *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? thread_of(prev) : NULL;
	struct cpu *c = cpu_of(cpu);
	struct task_struct *first;

	if (t) {
		u64 left, key;

		charge(prev, t, bpf_ktime_get_ns());
		left = left_of(t, cpu);
		key = key_of(t, c, t->slice_used);
		first = scx_bpf_dsq_peek(queue_of(t, cpu));
		/* A batch thread always comes after the waiting interactive ones. */
		if ((!first || key < first->scx.dsq_vtime) &&
		    (t->pri < BATCH_PRI || !scx_bpf_dsq_nr_queued(cpu))) {
			prev->scx.slice = left;
			return;
		}
	}
	if (scx_bpf_dsq_move_to_local(cpu) || scx_bpf_dsq_move_to_local(BATCH_QUEUE(cpu)))
		return;
	if (t) {
		prev->scx.slice = left_of(t, cpu);
		return;
	}
	if (!steal(cpu, llc_of[cpu & (MAX_CPUS - 1)]))
		steal(cpu, -1);
}

/* Updates the priority and the slice of the running thread, and advances the calendar. */
void SCX_OP(ule_tick, struct task_struct *p)
{
	struct thread *t = thread_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);
	struct task_struct *first;
	u64 slice = slice_of(cpu), now = bpf_ktime_get_ns();

	/* The next day begins once all threads of the last one have run. */
	if (c->day == c->taken && now >= c->next_day) {
		c->day++;
		c->next_day = now + day_ns;
	}
	first = scx_bpf_dsq_peek(BATCH_QUEUE(cpu));
	if (!first || first->scx.dsq_vtime >> SHIFT > c->taken)
		c->taken = c->day;
	if (!t)
		return;
	charge(p, t, now);
	c->pri = t->pri;
	p->scx.slice = t->slice_used < slice ? slice - t->slice_used : 0;
}

/* Records the thread that starts to run. */
void SCX_OP(ule_running, struct task_struct *p)
{
	struct thread *t = thread_of(p);
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));

	if (t) {
		t->since = bpf_ktime_get_ns();
		c->pri = t->pri;
	}
	c->running = true;
}

/* Charges the thread that stops running. */
void SCX_OP(ule_stopping, struct task_struct *p, bool runnable)
{
	struct thread *t = thread_of(p);
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));

	if (t)
		charge(p, t, bpf_ktime_get_ns());
	c->running = false;
	c->pri = IDLE_PRI;
}

/* Records that a thread goes to sleep. */
void SCX_OP(ule_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct thread *t = thread_of(p);

	if (t && (deq_flags & SCX_DEQ_SLEEP)) {
		t->sleeps = true;
		t->since = bpf_ktime_get_ns();
	}
}

/* Creates the state of a new thread. */
s32 SCX_OP(ule_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return thread_init(p, args->fork);
}

/* Creates the queues of each CPU, and starts the timer. */
s32 SCX_OP_SLEEPABLE(ule_init)
{
	s32 cpu, ret;

	online_init();
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		cpu_of(cpu)->pri = IDLE_PRI;
		ret = scx_bpf_create_dsq(cpu, -1);
		if (!ret)
			ret = scx_bpf_create_dsq(BATCH_QUEUE(cpu), -1);
		if (ret)
			return ret;
	}
	return balance_init();
}

SCX_OPS(ule_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)ule_select_cpu,
	.enqueue = (void *)ule_enqueue,
	.dispatch = (void *)ule_dispatch,
	.tick = (void *)ule_tick,
	.running = (void *)ule_running,
	.stopping = (void *)ule_stopping,
	.quiescent = (void *)ule_quiescent,
	.init_task = (void *)ule_init_task,
	.init = (void *)ule_init,
	.name = "ule");
