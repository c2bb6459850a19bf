/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * shinjuku: one CPU dispatches for all others, and preempts long requests every few microseconds.
 *
 * First come, first served is best if all requests take equally long. If a few take much longer,
 * short requests wait behind them. Preempting every quantum_ns approximates processor sharing, under
 * which a short request waits little. The ticks of the kernel are too rare for this, so a timer of
 * the dispatcher looks at all CPUs.
 *
 * Data structures: one dispatch queue (DSQ) for all tasks, in the order of arrival. A preempted task
 * goes to its end. The dispatcher is the first CPU that is online.
 * Wake-up: if a worker CPU is idle, the task runs there at once.
 * Enqueue: the task goes to the end of the queue.
 * Dispatch: a worker takes the first task of the queue. The dispatcher takes a task only if the
 * machine has no other CPU, or if the task may not run elsewhere.
 * Tick: there is no callback. Slices are infinite.
 * Timer: each quantum_ns, the dispatcher sends an interrupt to each worker whose task has run for a
 * quantum, if tasks wait, and to idle workers, if there are any.
 * Locks: the lock of the DSQ.
 *
 * Good for: short requests next to rare long ones, whose tail latency is that of short ones.
 * Bad for: throughput, because one CPU runs no tasks, and interrupts and switches every few
 * microseconds cost time. The policy ignores nice values.
 * Source: Kaffes et al., "Shinjuku: Preemptive Scheduling for Microsecond-scale Tail Latency" (NSDI
 * 2019). Humphries et al., "ghOSt: Fast and Flexible User-Space Delegation of Linux Scheduling"
 * (SOSP 2021), has it as a policy for threads, as here. The code is our own.
 *
 * Different here: requests are threads, so a preemption costs a switch in the kernel instead of a
 * posted interrupt in user space. The dispatcher is not polling: workers fetch their tasks.
 */
#include "include/cpu_array.h"
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

/* ID of the shared DSQ. */
#define QUEUE 0

const volatile u64 quantum_ns PARAM("ns, 1000..1000000000: time after which a task is preempted if others wait") = 30000;

/* Number of preempted tasks, and of workers that the timer woke. */
u64 nr_preempted, nr_woken;

/* A worker. */
struct cpu {
	bool running;
	/* Time at which the running task began. */
	u64 began;
	/* Whether the task has been sent an interrupt. */
	bool preempted;
} CPU_ALIGNED;

CPU_VARIABLES(cpu)

struct dispatcher {
	struct bpf_timer timer;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct dispatcher);
} dispatchers SEC(".maps");

/* Returns the CPU that dispatches, or -1 if there is only one CPU, which must run tasks, too. */
static __noinline s32 dispatcher(void)
{
	s32 cpu, first = -1;
	bool others = false;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		if (!is_online(cpu))
			continue;
		others = first >= 0;
		if (others)
			break;
		first = cpu;
	}
	return others ? first : -1;
}

/* Returns whether a task may run on no worker. */
static __noinline bool needs_dispatcher(struct task_struct *p, s32 central)
{
	bool needs = true;
	s32 cpu;

	if (central < 0)
		return false;
	if (is_migration_disabled(p))
		return scx_bpf_task_cpu(p) == central;
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		if (cpu == central || !is_online(cpu) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		needs = false;
		break;
	}
	return needs;
}

/* Claims an idle worker on which the task may run. Returns -1 if there is none. */
static __noinline s32 idle_worker(struct task_struct *p, s32 prev_cpu, s32 central)
{
	s32 cpu, found = -1;

	if (prev_cpu != central && bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr) && is_online(prev_cpu) &&
	    scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		if (cpu == central || !is_online(cpu) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ||
		    !scx_bpf_test_and_clear_cpu_idle(cpu))
			continue;
		found = cpu;
		break;
	}
	return found;
}

/* Chooses an idle worker for a woken task. */
s32 SCX_OP(shinjuku_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 central = dispatcher(), cpu = idle_worker(p, prev_cpu, central);

	if (cpu < 0)
		return prev_cpu;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_INF, 0);
	return cpu;
}

/* Appends a task to the queue. */
void SCX_OP(shinjuku_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 central = dispatcher(), cpu;

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (woken_by_gone_cpu(p, SCX_SLICE_INF, enq_flags))
		return;
	if (needs_dispatcher(p, central)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | central, SCX_SLICE_DFL, enq_flags);
		return;
	}
	scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_INF, enq_flags);
	cpu = idle_worker(p, scx_bpf_task_cpu(p), central);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Gives the first task of the queue to a worker. The dispatcher takes only what no worker may run. */
void SCX_OP(shinjuku_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;

	if (cpu != dispatcher()) {
		scx_bpf_dsq_move_to_local(QUEUE);
		return;
	}
	if (!offline.any)
		return;
	bpf_for_each_dsq(it, p, QUEUE) {
		if (needs_dispatcher(p, cpu) && scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0))
			break;
	}
}

void SCX_OP(shinjuku_running, struct task_struct *p)
{
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));

	c->preempted = false;
	c->running = true;
	c->began = bpf_ktime_get_ns();
}

void SCX_OP(shinjuku_stopping, struct task_struct *p, bool runnable)
{
	cpu_of(scx_bpf_task_cpu(p))->running = false;
}

/* Preempts the workers whose tasks have run for a quantum, if as many tasks wait. */
static int end_quanta(void *map, int *key, struct dispatcher *d)
{
	s32 central = dispatcher(), waiting = scx_bpf_dsq_nr_queued(QUEUE), cpu;
	u64 now = bpf_ktime_get_ns();

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		struct cpu *c = cpu_of(cpu);

		if (waiting <= 0)
			break;
		if (cpu == central || !is_online(cpu))
			continue;
		if (!c->running) {
			if (scx_bpf_test_and_clear_cpu_idle(cpu)) {
				scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
				__sync_fetch_and_add(&nr_woken, 1);
				waiting--;
			}
		} else if (now - c->began >= quantum_ns && !c->preempted) {
			c->preempted = true;
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
			__sync_fetch_and_add(&nr_preempted, 1);
			waiting--;
		}
	}
	/* A worker that went offline may have left tasks that no other worker may run. */
	if (waiting > 0 && offline.any && central >= 0)
		scx_bpf_kick_cpu(central, SCX_KICK_IDLE);
	bpf_timer_start(&d->timer, quantum_ns, 0);
	return 0;
}

/* Creates the queue, and starts the timer of the dispatcher. */
s32 SCX_OP_SLEEPABLE(shinjuku_init)
{
	struct dispatcher *d;
	u32 key = 0;
	s32 ret = scx_bpf_create_dsq(QUEUE, -1);

	if (ret)
		return ret;
	online_init();
	d = bpf_map_lookup_elem(&dispatchers, &key);
	if (!d)
		return -ENOENT;
	bpf_timer_init(&d->timer, &dispatchers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&d->timer, end_quanta);
	return bpf_timer_start(&d->timer, quantum_ns, 0);
}

SCX_OPS(shinjuku_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)shinjuku_select_cpu,
	.enqueue = (void *)shinjuku_enqueue,
	.dispatch = (void *)shinjuku_dispatch,
	.running = (void *)shinjuku_running,
	.stopping = (void *)shinjuku_stopping,
	.init = (void *)shinjuku_init,
	.name = "shinjuku");
