/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hoard: a policy that stores the pids of waiting tasks in a queue of its own and dispatches tasks
 * from there. At most one of these macros is defined:
 *
 * ON=expression  inserts into the local DSQ of the CPU with the number `expression`, which may use
 *                `p` (the task) and `cpu` (the dispatching CPU)
 * OVERFLOW       inserts more tasks than the dispatch buffer can hold
 * UNDERFLOW      cancels an insertion although there is none
 * STALE          stores every pid twice, so that each task is dispatched again when it no longer
 *                waits
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 8192);
	__type(value, s32);
} pids SEC(".maps");

u64 nr_dispatched, nr_dequeued, nr_dequeued_change, nr_dequeued_sleep, nr_enqueued;

void SCX_OP(hoard_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 pid = p->pid;

	nr_enqueued++;
	bpf_map_push_elem(&pids, &pid, 0);
#ifdef STALE
	bpf_map_push_elem(&pids, &pid, 0);
#endif
}

void SCX_OP(hoard_dequeue, struct task_struct *p, u64 deq_flags)
{
	nr_dequeued++;
	nr_dequeued_change += !!(deq_flags & (1ULL << 33));
	nr_dequeued_sleep += !!(deq_flags & SCX_DEQ_SLEEP);
}

void SCX_OP(hoard_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;
	s32 pid;

#ifdef UNDERFLOW
	scx_bpf_dispatch_cancel();
#endif
	if (bpf_map_pop_elem(&pids, &pid))
		return;
	p = bpf_task_from_pid(pid);
	if (!p)
		return;
	nr_dispatched++;
#ifdef OVERFLOW
	for (int i = 0; i < 5; i++)
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, 0);
#endif
#ifdef ON
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | (u64)(ON), SCX_SLICE_DFL, 0);
#else
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, 0);
#endif
	bpf_task_release(p);
}

SCX_OPS(hoard_ops,
	.enqueue = (void *)hoard_enqueue,
	.dequeue = (void *)hoard_dequeue,
	.dispatch = (void *)hoard_dispatch,
	.timeout_ms = 1000,
	.dispatch_max_batch = 4,
	.name = "hoard");
