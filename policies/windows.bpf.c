/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * windows: the dispatcher of Windows Server 2003 and Vista.
 *
 * Priorities are strict, from 0 to 31. Each CPU has a ready queue for each level and a mask of the levels in
 * use. A thread that becomes ready takes its ideal processor if that is idle, else its last one, else the CPU
 * that readied it, else the first idle one. If no CPU is idle, it waits at its ideal processor and preempts a
 * thread of lower priority there.
 *
 * A CPU that becomes idle takes a ready thread from the busiest CPU; nothing else balances. The end of a wait
 * boosts a thread by its cause, up to level 15, and each quantum that it uses takes one level off. Once a
 * second, threads that have been ready for 3 s are lifted to level 15 for a short quantum, so a thread that
 * starves runs every 4 s.
 *
 * Good for: interactive threads that wait for devices and messages; caches, since threads stay where they
 * are.
 * Bad for: fairness, since lower priorities starve but for the lift; even CPUs, since only an idle CPU takes
 * threads.
 * Source: Happe, Groenda, Reussner, "Performance Evaluation of Scheduling Policies in Symmetric
 * Multiprocessing Environments" (2008).
 *
 * Different here: levels 16 to 31 are the realtime classes of Linux, which are above sched_ext. Nice -20 to
 * 19 are levels 15 to 1, and nice 0 is 8. Causes of waits are seen on the functions of the kernel that wake
 * up: futexes stand for semaphores and events. A disk wait is an uninterruptible sleep. Programs for
 * keyboard, mouse and sound are attached on request (wait_causes.h). The boosts are those of the Windows
 * driver kit. Quanta are charged by time, and end at ticks of Linux.
 */
#include "include/pass_on.h"
#include "include/thread_levels.h"

char _license[] SEC("license") = "GPL";

/* Threads taken by idle CPUs; running ones that were preempted. */
u64 nr_taken, nr_preempted;
static u32 next_ideal;

static __always_inline bool is_idle(struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && scx_bpf_test_and_clear_cpu_idle(cpu);
}

/* Threads that wait at a CPU that goes may have run elsewhere. */
static __always_inline void pass_on_all(s32 cpu)
{
	u32 level;

	bpf_for(level, 0, LEVELS)
		pass_on(QUEUE(cpu, level));
}

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
	if (is_idle(p, ideal))
		return ideal;
	if (is_idle(p, prev_cpu))
		return prev_cpu;
	if (is_idle(p, this_cpu))
		return this_cpu;
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		if (is_idle(p, cpu)) {
			target = cpu;
			break;
		}
	}
	return target;
}

void SCX_OP(windows_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct thread *t = thread_of(p);
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);
	u32 level;
	s32 idle;

	if (!t || !c || woken_by_gone_cpu(p, t->left, enq_flags))
		return;
	t->ready_since = bpf_ktime_get_ns();
	level = t->level & (LEVELS - 1);
	/* A preempted thread goes on with the rest of its quantum, before others of its level. */
	if (!(enq_flags & SCX_ENQ_WAKEUP) && !t->ended)
		enq_flags |= SCX_ENQ_HEAD;
	ready_insert(c, p, cpu, level, t->left, enq_flags);
	if (!c->running) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	} else if (level > c->level) {
		__sync_fetch_and_add(&nr_preempted, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	/* ops.select_cpu() was not called for this thread. An idle CPU may take it. */
	if ((enq_flags & SCX_ENQ_WAKEUP) && !(enq_flags & SCX_ENQ_CPU_SELECTED)) {
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (idle >= 0)
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	}
}

/* Takes a thread from the busiest CPU, or from any other one if its threads may not run here. */
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

void SCX_OP(windows_dispatch, s32 cpu, struct task_struct *prev)
{
	struct thread *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? thread_of(prev) : NULL;
	struct cpu *c = cpu_of(cpu);

	if (!c)
		return;
	if (t) {
		bool ended = charge(prev, t);

		/* At the end of its quantum the thread gives way to others of its level. */
		c->level = t->level;
		if (ready_take(cpu, t->level + !ended))
			return;
		t->ended = false;
		prev->scx.slice = t->left;
		return;
	}
	if (!ready_take(cpu, 0) && take_from_others(cpu))
		__sync_fetch_and_add(&nr_taken, 1);
}

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
	 * A thread of a higher level came while a realtime task ran here: preempt. But if the local DSQ holds
	 * tasks that never pass ops.enqueue() (exiting ones, or those that may not migrate now), the kernel
	 * would run them in turn without calling ops.dispatch(), and each would be preempted before it got
	 * anywhere.
	 */
	if (c->ready >> (t->level & 15) >> 1 && !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL))
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
}

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

/* The thread goes to the end of its level, as at the end of a quantum. */
bool SCX_OP(windows_yield, struct task_struct *p, struct task_struct *to)
{
	struct thread *t = thread_of(p);

	if (t)
		t->left = 0;
	p->scx.slice = 0;
	return false;
}

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

/* If the ideal processor is no longer allowed, the first allowed CPU becomes the ideal one. */
void SCX_OP(windows_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	struct thread *t = thread_of(p);

	if (t && !bpf_cpumask_test_cpu(t->ideal, cpumask))
		t->ideal = bpf_cpumask_first(cpumask);
}

void SCX_OP(windows_set_weight, struct task_struct *p, u32 weight)
{
	struct thread *t = thread_of(p);

	if (t)
		t->level = base_level(p);
}

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
