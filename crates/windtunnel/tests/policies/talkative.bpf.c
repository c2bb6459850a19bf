/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * talkative: first come, first served on one queue, by a policy that says what it does. It counts in
 * global variables and in maps, and prints a line for every 100th task. With `storm`, it kicks all
 * CPUs whenever a task is enqueued.
 */
#include "../../../../policies/include/scx.h"

char _license[] SEC("license") = "GPL";

enum { QUEUE, MAX_CPUS = 8, LOCAL = 0, SHARED = 1 };

const volatile bool storm PARAM("kick all CPUs whenever a task is enqueued");
const volatile bool refuse PARAM("print a line and refuse to load");
const volatile u64 slice_ns PARAM("ns: time slice of a task") = 3000000;

u64 nr_enqueued, nr_never;
u64 nr_dispatched[MAX_CPUS];
struct {
	u32 nr_running;
	s32 waiting;
	char name[8];
} state;
s64 nr_before = -3;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} stats SEC(".maps");

static void count(u32 which)
{
	u64 *counter = bpf_map_lookup_elem(&stats, &which);

	if (counter)
		(*counter)++;
}

s32 SCX_OP(talkative_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle) {
		count(LOCAL);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	}
	return cpu;
}

void SCX_OP(talkative_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	count(SHARED);
	__sync_fetch_and_add(&state.waiting, 1);
	if (__sync_fetch_and_add(&nr_enqueued, 1) % 100 == 0)
		bpf_printk("task %d of %d CPUs, number %llu, %s", p->pid, scx_bpf_nr_cpu_ids(), nr_enqueued, p->comm);
	scx_bpf_dsq_insert(p, QUEUE, slice_ns, enq_flags);
	if (!storm)
		return;
	bpf_for(cpu, 0, MAX_CPUS) {
		if (cpu < scx_bpf_nr_cpu_ids())
			scx_bpf_kick_cpu(cpu, 0);
	}
}

void SCX_OP(talkative_dispatch, s32 cpu, struct task_struct *prev)
{
	if (!scx_bpf_dsq_move_to_local(QUEUE))
		return;
	__sync_fetch_and_add(&state.waiting, -1);
	if (cpu >= 0 && cpu < MAX_CPUS)
		nr_dispatched[cpu]++;
}

void SCX_OP(talkative_running, struct task_struct *p)
{
	__sync_fetch_and_add(&state.nr_running, 1);
}

s32 SCX_OP_SLEEPABLE(talkative_init)
{
	nr_before = 4;
	bpf_printk("init");
	if (refuse)
		return -EINVAL;
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(talkative_ops,
	.select_cpu = (void *)talkative_select_cpu,
	.enqueue = (void *)talkative_enqueue,
	.dispatch = (void *)talkative_dispatch,
	.running = (void *)talkative_running,
	.init = (void *)talkative_init,
	.name = "talkative");
