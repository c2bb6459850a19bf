/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * windows: the dispatcher of Windows Server 2003 and Windows Vista.
 *
 * Priorities are strict: a thread runs only if no thread of a higher level is ready. Level 31 is
 * the highest. Each thread has an ideal processor, a CPU that is assigned to it when it is created.
 * The nice value of a thread determines its base level. When a wait ends, the thread is boosted to
 * a higher level, up to 15. Each quantum that it uses up lowers its level by one, until it is back
 * at the base level. The size of the boost depends on the cause of the wait. For example, the boost
 * is 1 level for an event and 2 levels for a network packet.
 *
 * Data structures: each CPU has one FIFO dispatch queue (DSQ) for each level, and a mask of the
 * levels in use (ready_queues.h).
 * Wake-up: the thread takes its ideal processor if that is idle, else its previous CPU, else the
 * waking CPU, else the first idle CPU. If no CPU is idle, the thread waits at its ideal processor.
 * Enqueue: the thread goes to the end of its level, or to the front if it was preempted. The thread
 * preempts a running thread of a lower level.
 * Dispatch: the CPU takes the first thread of its highest level. An idle CPU takes a thread from
 * the CPU where most threads are ready. There is no other load balancing.
 * Tick: there is no callback. The slice of a thread is the rest of its quantum, and the kernel ends
 * the slice.
 * Timer: once a second, threads that have been ready for starved_ns get level 15 for a short
 * quantum. With the default of 3 s, a starving thread thus runs every 4 s.
 * Locks: the lock of each DSQ. The masks need no lock, because atomic instructions change them.
 *
 * Good for: interactive threads that wait for devices and messages, and threads that depend on warm
 * caches. Threads stay on their CPU.
 * Bad for: fairness and an even load. Threads of lower levels starve until the timer lifts them,
 * and only an idle CPU takes threads of other CPUs.
 * Source: Happe, Groenda, Reussner, "Performance Evaluation of Scheduling Policies in Symmetric
 * Multiprocessing Environments" (2008).
 *
 * Different here: levels 16 to 31, the realtime levels of Windows, are not used, because realtime
 * tasks are in a Linux class above sched_ext. Nice -20 to 19 are levels 15 to 1, and nice 0 is
 * level 8. The policy finds the cause of a wake-up by tracing the kernel functions that wake
 * threads (wait_causes.h). Futexes stand for semaphores and events, and an uninterruptible sleep
 * counts as a disk wait. Tracing of keyboard, mouse and sound is off by default, so these devices
 * cause no boosts. The boosts are those of the Windows driver kit. Quanta are charged by time and
 * end at ticks of Linux.
 */
#include "include/pass_on.h"
#include "include/thread_levels.h"

char _license[] SEC("license") = "GPL";

/*
 * Counters, in this order: threads that idle CPUs took from other CPUs, and running threads that
 * were preempted.
 */
u64 nr_taken, nr_preempted;
/* Number of threads created so far. New threads get ideal processors in turn. */
static u32 next_ideal;

/*
 * Claims a CPU if it is idle and the thread may run there. A claim removes the CPU from the
 * kernel's idle mask. Returns whether it claimed the CPU.
 */
static __always_inline bool claim_idle(struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && scx_bpf_test_and_clear_cpu_idle(cpu);
}

/* Moves all threads out of the queues of a CPU that goes offline. See pass_on.h. */
static __always_inline void pass_on_all(s32 cpu)
{
	u32 level;

	bpf_for(level, 0, LEVELS)
		pass_on(QUEUE(cpu, level));
}

/* Selects an idle CPU for a woken thread, or its ideal processor if no CPU is idle. */
s32 SCX_OP(windows_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct thread *t = thread_of(p);
	s32 this_cpu = bpf_get_smp_processor_id(), ideal = t ? t->ideal : prev_cpu, target, cpu;
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool none = bpf_cpumask_empty(idle);

	scx_bpf_put_idle_cpumask(idle);
	target = bpf_cpumask_test_cpu(ideal, p->cpus_ptr) ? ideal : prev_cpu;
	if (none)
		return target;
	if (claim_idle(p, ideal))
		return ideal;
	if (claim_idle(p, prev_cpu))
		return prev_cpu;
	if (claim_idle(p, this_cpu))
		return this_cpu;
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		if (claim_idle(p, cpu)) {
			target = cpu;
			break;
		}
	}
	return target;
}

/* Inserts a thread into its level, and preempts a running thread of a lower level. */
void SCX_OP(windows_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct thread *t = thread_of(p);
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);
	u32 level;
	s32 idle;

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (!t || !c || woken_by_gone_cpu(p, t->left, enq_flags))
		return;
	t->ready_since = bpf_ktime_get_ns();
	level = t->level & (LEVELS - 1);
	/* A preempted thread continues its quantum before the other threads of its level. */
	if (!(enq_flags & SCX_ENQ_WAKEUP) && !t->ended)
		enq_flags |= SCX_ENQ_HEAD;
	ready_insert(c, p, cpu, level, t->left, enq_flags);
	if (!c->running) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	} else if (level > c->level) {
		__sync_fetch_and_add(&nr_preempted, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	/*
	 * If the kernel did not call ops.select_cpu() for this thread, no idle CPU was woken for it
	 * yet.
	 */
	if ((enq_flags & SCX_ENQ_WAKEUP) && !(enq_flags & SCX_ENQ_CPU_SELECTED)) {
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (idle >= 0)
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	}
}

/*
 * Takes a thread from the CPU with the most ready threads. If none of these threads may run here,
 * tries all other CPUs. Returns whether it took a thread.
 */
static __always_inline bool take_from_others(u32 cpu)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), i;
	s32 busiest = ready_busiest(cpu);
	bool taken = busiest >= 0 && ready_take(busiest, 0);

	bpf_for(i, 1, nr_cpus) {
		if (taken || busiest < 0)
			break;
		taken = ready_take((cpu + i) % nr_cpus, 0);
	}
	return taken;
}

/*
 * Runs the first thread of the CPU's highest level. If the CPU has no threads, takes one from
 * another CPU.
 */
void SCX_OP(windows_dispatch, s32 cpu, struct task_struct *prev)
{
	struct thread *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? thread_of(prev) : NULL;
	struct cpu *c = cpu_of(cpu);

	if (!c)
		return;
	if (t) {
		bool ended = charge(prev, t);

		c->level = t->level;
		/*
		 * Other threads of the same level run before the running thread only if its quantum
		 * has ended.
		 */
		if (ready_take(cpu, t->level + !ended))
			return;
		t->ended = false;
		prev->scx.slice = t->left;
		return;
	}
	if (!ready_take(cpu, 0) && take_from_others(cpu))
		__sync_fetch_and_add(&nr_taken, 1);
}

/*
 * Records the level of the thread that starts to run on the CPU, and the time from which its
 * quantum is charged.
 */
void SCX_OP(windows_running, struct task_struct *p)
{
	struct thread *t = thread_of(p);
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));

	if (!t || !c)
		return;
	t->running_since = bpf_ktime_get_ns();
	t->ended = false;
	c->running = true;
	c->level = t->level;
	/*
	 * Preempts the thread if a thread of a higher level arrived while a realtime task ran here.
	 * The thread is not preempted while the local DSQ has other tasks. Those tasks skipped
	 * ops.enqueue(), because they are exiting or cannot migrate now. The kernel runs them
	 * before it calls ops.dispatch(). A kick would preempt each of them at once, so none of
	 * them would make progress.
	 */
	if (c->ready >> (t->level & 15) >> 1 && !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL))
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
}

/* Charges the quantum, and records whether the thread starts to wait for a disk. */
void SCX_OP(windows_stopping, struct task_struct *p, bool runnable)
{
	struct thread *t = thread_of(p);
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));

	if (t) {
		charge(p, t);
		t->disk = !runnable && (p->__state & TASK_UNINTERRUPTIBLE);
	}
	if (c)
		c->running = false;
}

/* Called when a thread yields. Ends the quantum, so the thread goes to the end of its level. */
bool SCX_OP(windows_yield, struct task_struct *p, struct task_struct *to)
{
	struct thread *t = thread_of(p);

	if (t)
		t->left = 0;
	p->scx.slice = 0;
	return false;
}

/* Creates the state of a new thread, with its base level and an ideal processor. */
s32 SCX_OP(windows_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct thread *t = bpf_task_storage_get(&threads, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	t->level = base_level(p);
	t->left = quantum_ns;
	t->ideal = __sync_fetch_and_add(&next_ideal, 1) % scx_bpf_nr_cpu_ids();
	if (!bpf_cpumask_test_cpu(t->ideal, p->cpus_ptr))
		t->ideal = bpf_cpumask_first(p->cpus_ptr);
	return 0;
}

/* If the ideal processor is no longer allowed, replaces it with the first allowed CPU. */
void SCX_OP(windows_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	struct thread *t = thread_of(p);

	if (t && !bpf_cpumask_test_cpu(t->ideal, cpumask))
		t->ideal = bpf_cpumask_first(cpumask);
}

/* Moves a thread to its new base level after a change of its nice value. */
void SCX_OP(windows_set_weight, struct task_struct *p, u32 weight)
{
	struct thread *t = thread_of(p);

	if (t)
		t->level = base_level(p);
}

/* Creates the queues and starts the timer that lifts starving threads. */
s32 SCX_OP_SLEEPABLE(windows_init)
{
	s32 ret = ready_init();

	return ret ? ret : balance_set_start();
}

SCX_OPS(windows_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)windows_select_cpu,
	.enqueue = (void *)windows_enqueue,
	.dispatch = (void *)windows_dispatch,
	.running = (void *)windows_running,
	.stopping = (void *)windows_stopping,
	.yield = (void *)windows_yield,
	.set_weight = (void *)windows_set_weight,
	.set_cpumask = (void *)windows_set_cpumask,
	.init_task = (void *)windows_init_task,
	.init = (void *)windows_init,
	.name = "windows");
