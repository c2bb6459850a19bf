/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rr: round robin over one queue for all CPUs.
 *
 * Tasks wait in one queue in the order of arrival. A CPU takes the first task, runs it for one timeslice and
 * puts it at the end. A timeslice without end (0) makes this first come, first served. A timeslice that
 * shrinks to nothing makes it processor sharing, in which n tasks each run at 1/n of the speed. A task that a
 * higher class preempts keeps the rest of its timeslice.
 *
 * Good for: comparing with queueing theory (M/D/1, M/M/1, M/M/c); a baseline in which no CPU idles while a
 * task waits.
 * Bad for: latency beside long tasks (FCFS); short timeslices, which cost switches; many CPUs (one lock). It
 * ignores nice.
 * Source: Happe, Groenda, Reussner, "Performance Evaluation of Scheduling Policies in Symmetric
 * Multiprocessing Environments" (2008).
 *
 * Different here: sched_ext ends slices at ticks. With `exact`, a timer on each CPU ends them on time, so
 * that timeslices shorter than a tick work, too.
 */
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0

const volatile u64 slice_ns PARAM("ns, 0..1000000000000: timeslice; 0: infinite, first come first served") = 100000000;
const volatile u32 exact PARAM("switch, 0..1: 1 ends timeslices by a timer, 0 at the tick after") = 1;

/* Timeslices that ended while the task had more to do. */
u64 nr_expired;

struct slice_end {
	struct bpf_timer timer;
	/* The timer is to end the turn of the running task. */
	u32 armed;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct slice_end);
} slice_ends SEC(".maps");

static __always_inline u64 slice(void)
{
	return slice_ns ? slice_ns : SCX_SLICE_INF;
}

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

static int end_slice(void *map, u32 *cpu, struct slice_end *end)
{
	if (end->armed) {
		end->armed = 0;
		scx_bpf_kick_cpu(*cpu, SCX_KICK_PREEMPT);
	}
	return 0;
}

/* With one queue it matters only that an idle CPU, if there is one, wakes up and looks. */
s32 SCX_OP(rr_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;

	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

void SCX_OP(rr_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	if (woken_by_gone_cpu(p, slice(), enq_flags))
		return;
	scx_bpf_dsq_insert(p, QUEUE, slice(), enq_flags);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

void SCX_OP(rr_dispatch, s32 cpu, struct task_struct *prev)
{
	if (scx_bpf_dsq_move_to_local(QUEUE))
		return;
	/* No other task waits, so the running one gets another timeslice. */
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		prev->scx.slice = slice();
		start_slice(cpu, slice_ns);
	}
}

void SCX_OP(rr_running, struct task_struct *p)
{
	/* A task that a higher class had preempted gets the rest of its timeslice. */
	start_slice(scx_bpf_task_cpu(p), p->scx.slice);
}

void SCX_OP(rr_stopping, struct task_struct *p, bool runnable)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct slice_end *end = bpf_map_lookup_elem(&slice_ends, &cpu);

	if (end)
		end->armed = 0;
	if (runnable && !p->scx.slice)
		__sync_fetch_and_add(&nr_expired, 1);
}

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
