/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measures parts of schedule(), and switches to and from the idle task.
 * scripts/live/guest/costs.sh loads it while tasks sleep and pass a byte back and forth. The policy
 * itself schedules no task: the fair class keeps all normal tasks.
 *
 *   pick       from the entry of schedule() to the tracepoint sched_switch, between two tasks
 *   pick_idle  from the end of the idle state to this tracepoint
 *   direct     from the entry of schedule() in one task to its end in the next task
 *   to_idle    from the entry of schedule() in a task until its CPU is idle
 *   from_idle  from the end of the idle state to the end of schedule() in the next task
 *
 * Each interval also contains some work of these programs, which costs.sh subtracts.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define MAX_CPUS 64
/* State of a CPU in the tracepoint cpu_idle when it leaves idle (PWR_EVENT_EXIT). */
#define LEAVES_IDLE ((u32)-1)
/* A longer interval contains an interrupt or the turn of another CPU, and is not counted, ns. */
#define INTERRUPTED 7000

#define COUNTERS(name)                                                                             \
	u64 nr_ns_##name;                                                                          \
	u64 nr_calls_##name;

COUNTERS(pick)
COUNTERS(pick_idle)
COUNTERS(direct)
COUNTERS(to_idle)
COUNTERS(from_idle)

enum kind { NONE, DIRECT, TO_IDLE, FROM_IDLE };

struct {
	/* Time at which the current interval of a CPU began. */
	u64 begun;
	u64 kind;
} cpus[MAX_CPUS];

static __always_inline void begin(void)
{
	u32 cpu = bpf_get_smp_processor_id() & (MAX_CPUS - 1);

	cpus[cpu].kind = NONE;
	cpus[cpu].begun = bpf_ktime_get_ns();
}

static __always_inline void end(u64 kind, u64 *ns, u64 *calls)
{
	u64 now = bpf_ktime_get_ns();
	u32 cpu = bpf_get_smp_processor_id() & (MAX_CPUS - 1);
	u64 time = now - cpus[cpu].begun;

	if (cpus[cpu].kind == kind && time < INTERRUPTED) {
		__sync_fetch_and_add(ns, time);
		__sync_fetch_and_add(calls, 1);
	}
	cpus[cpu].kind = NONE;
}

SEC("fentry/schedule")
int BPF_PROG(enter_schedule)
{
	begin();
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u64 now = bpf_ktime_get_ns();
	u32 cpu = bpf_get_smp_processor_id() & (MAX_CPUS - 1);
	u64 time = now - cpus[cpu].begun;

	if (prev->pid && next->pid && time < INTERRUPTED) {
		__sync_fetch_and_add(&nr_ns_pick, time);
		__sync_fetch_and_add(&nr_calls_pick, 1);
	}
	if (!prev->pid && time < INTERRUPTED) {
		__sync_fetch_and_add(&nr_ns_pick_idle, time);
		__sync_fetch_and_add(&nr_calls_pick_idle, 1);
	}
	cpus[cpu].kind = !next->pid ? TO_IDLE : !prev->pid ? FROM_IDLE : DIRECT;
	return 0;
}

SEC("fexit/schedule")
int BPF_PROG(exit_schedule)
{
	u32 cpu = bpf_get_smp_processor_id() & (MAX_CPUS - 1);

	if (cpus[cpu].kind == FROM_IDLE)
		end(FROM_IDLE, &nr_ns_from_idle, &nr_calls_from_idle);
	else
		end(DIRECT, &nr_ns_direct, &nr_calls_direct);
	return 0;
}

SEC("tp_btf/cpu_idle")
int BPF_PROG(on_cpu_idle, u32 state)
{
	if (state == LEAVES_IDLE)
		begin();
	else
		end(TO_IDLE, &nr_ns_to_idle, &nr_calls_to_idle);
	return 0;
}

void SCX_OP(idle_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS(idle_ops,
	.enqueue = (void *)idle_enqueue,
	.flags = SCX_OPS_SWITCH_PARTIAL,
	.name = "costs_idle");
