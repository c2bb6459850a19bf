/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rr: round robin over one queue for all CPUs.
 *
 * Tasks take turns: the first task of the queue runs for one time slice and then goes to the end.
 * The length of the slice selects the discipline. An infinite slice (slice_ns=0) is first come,
 * first served (FCFS). The shorter the slice, the closer the policy comes to processor sharing, in
 * which each of n tasks runs at 1/n of the CPU's speed.
 *
 * Data structures: one dispatch queue (DSQ) that all CPUs share, and one timer for each CPU.
 * Wake-up: the kernel's default search looks for an idle CPU, which then takes the first task from
 * the queue.
 * Enqueue: the task goes to the end of the queue, and one idle CPU is woken.
 * Dispatch: a CPU takes the first task of the queue. If the queue is empty, the running task gets
 * another slice.
 * Tick: there is no callback. With `exact`, the timer of the CPU preempts the task at the end of
 * its slice. Without `exact`, the kernel ends the slice at the next tick.
 * Locks: the lock of the DSQ.
 *
 * A task that a higher scheduling class preempts keeps the rest of its slice.
 *
 * Good for: comparison with queueing theory (M/D/1, M/M/1, M/M/c). No CPU idles while a task waits,
 * so the policy is a baseline for others.
 * Bad for: wake-up latency next to long tasks (with infinite slices), throughput (with short
 * slices, which cost context switches), and many CPUs, which share one lock. The policy ignores
 * nice values.
 * Source: Happe, Groenda, Reussner, "Performance Evaluation of Scheduling Policies in Symmetric
 * Multiprocessing Environments" (2008).
 *
 * Different here: sched_ext itself ends slices only at ticks. With `exact`, the timers of this
 * policy end them on time, so a slice may be shorter than a tick.
 */
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

/* ID of the shared DSQ. */
#define QUEUE 0

const volatile u64 slice_ns PARAM("ns, 0..1000000000000: time slice of a task; 0: infinite, first come first served") = 100000000;
const volatile u32 exact PARAM("switch, 0..1: 1 ends time slices on time by a timer, 0 at the next tick") = 1;

/* Number of slices that ended while the task was still runnable. */
u64 nr_expired;

/* Timer that ends the slice of the task running on one CPU. */
struct slice_end {
	struct bpf_timer timer;
	/* Whether the timer is started for the slice of the running task. */
	u32 armed;
};

/* The slice_end of each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct slice_end);
} slice_ends SEC(".maps");

/* Returns slice_ns, or SCX_SLICE_INF if slice_ns is 0. */
static __always_inline u64 slice(void)
{
	return slice_ns ? slice_ns : SCX_SLICE_INF;
}

/* Starts the timer of a CPU for a slice of `ns` nanoseconds. */
static __always_inline void start_slice(u32 cpu, u64 ns)
{
	struct slice_end *end;

	if (!exact || !slice_ns)
		return;
	end = bpf_map_lookup_elem(&slice_ends, &cpu);
	if (!end)
		return;
	end->armed = 1;
	bpf_timer_start(&end->timer, ns, 0);
}

/* Preempts the running task when the timer expires. */
static int end_slice(void *map, u32 *cpu, struct slice_end *end)
{
	if (end->armed) {
		end->armed = 0;
		scx_bpf_kick_cpu(*cpu, SCX_KICK_PREEMPT);
	}
	return 0;
}

/*
 * Returns an idle CPU, which the kernel then wakes, or prev_cpu if no CPU is idle. Any idle CPU
 * will do, because all CPUs take their tasks from the same queue.
 */
s32 SCX_OP(rr_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;

	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

/* Appends a task to the shared queue and wakes an idle CPU. */
void SCX_OP(rr_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (woken_by_gone_cpu(p, slice(), enq_flags))
		return;
	scx_bpf_dsq_insert(p, QUEUE, slice(), enq_flags);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Moves the first task of the shared queue to the CPU. */
void SCX_OP(rr_dispatch, s32 cpu, struct task_struct *prev)
{
	if (scx_bpf_dsq_move_to_local(QUEUE))
		return;
	/* No other task waits, so the running task gets another slice. */
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		prev->scx.slice = slice();
		start_slice(cpu, slice_ns);
	}
}

/* Starts the timer for the slice of the task that starts to run. */
void SCX_OP(rr_running, struct task_struct *p)
{
	/* A task that a higher class had preempted gets the rest of its slice. */
	start_slice(scx_bpf_task_cpu(p), p->scx.slice);
}

/* Disarms the timer, and counts the slice if it ended while the task was runnable. */
void SCX_OP(rr_stopping, struct task_struct *p, bool runnable)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct slice_end *end = bpf_map_lookup_elem(&slice_ends, &cpu);

	if (end)
		end->armed = 0;
	if (runnable && !p->scx.slice)
		__sync_fetch_and_add(&nr_expired, 1);
}

/* Initializes the timers and creates the shared queue. */
s32 SCX_OP_SLEEPABLE(rr_init)
{
	struct slice_end *end;
	u32 cpu;

	if (scx_bpf_nr_cpu_ids() > MAX_CPUS) {
		scx_bpf_error("rr: more than %d CPUs", MAX_CPUS);
		return -E2BIG;
	}
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		u32 key = cpu;

		end = bpf_map_lookup_elem(&slice_ends, &key);
		if (!end)
			return -ENOENT;
		bpf_timer_init(&end->timer, &slice_ends, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&end->timer, end_slice);
	}
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(rr_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)rr_select_cpu,
	.enqueue = (void *)rr_enqueue,
	.dispatch = (void *)rr_dispatch,
	.running = (void *)rr_running,
	.stopping = (void *)rr_stopping,
	.init = (void *)rr_init,
	.name = "rr");
