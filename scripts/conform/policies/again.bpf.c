/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * again: a policy for scripts (docs/scripts.md) that inserts no task before it is enqueued again. It needs
 * Linux 7.3.
 *
 * Tasks wait on DSQ 0. A timer enqueues all of them again. Then the first task of two is inserted into the local
 * DSQ of its CPU, and the second one into that of the next CPU.
 */
#include "../../../policies/include/scx.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0

void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags) __ksym;

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time slice of a task") = 5000000;
const volatile u64 period_ns PARAM("ns, 1000000..1000000000: time between two runs of the timer") = 4000000;

/* Number of tasks that were enqueued again. */
u64 nr_again;

struct period_timer {
	struct bpf_timer timer;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct period_timer);
} timers SEC(".maps");

s32 SCX_OP(again_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void SCX_OP(again_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (!(enq_flags & SCX_ENQ_REENQ)) {
		scx_bpf_dsq_insert(p, QUEUE, slice_ns, enq_flags);
		return;
	}
	if (nr_again++ % 2 && bpf_cpumask_test_cpu(cpu + 1, p->cpus_ptr))
		cpu++;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, slice_ns, enq_flags);
}

static int enqueue_again(void *map, int *key, struct period_timer *timer)
{
	scx_bpf_dsq_reenq(QUEUE, 0);
	bpf_timer_start(&timer->timer, period_ns, 0);
	return 0;
}

s32 SCX_OP_SLEEPABLE(again_init)
{
	struct period_timer *timer;
	u32 key = 0;
	s32 ret = scx_bpf_create_dsq(QUEUE, -1);

	timer = bpf_map_lookup_elem(&timers, &key);
	if (ret || !timer)
		return ret ?: -ENOENT;
	bpf_timer_init(&timer->timer, &timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, enqueue_again);
	return bpf_timer_start(&timer->timer, period_ns, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops again_ops = {
	.select_cpu = (void *)again_select_cpu,
	.enqueue = (void *)again_enqueue,
	.init = (void *)again_init,
	.name = "again",
};
