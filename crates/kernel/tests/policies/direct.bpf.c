/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * direct: a policy with valid and invalid insertions in ops.select_cpu() and ops.enqueue(). One of
 * these macros selects what the policy does:
 *
 * LOCAL           inserts into the local DSQ of the selected CPU
 * BOGUS           inserts into a DSQ that does not exist
 * VTIME_LOCAL     inserts into a local DSQ in vtime order
 * TWICE           inserts the same task twice
 * OTHER           inserts another task than the one that is being woken
 * BAD_CPU         returns a CPU that does not exist from ops.select_cpu()
 * ENQ_BOGUS       inserts in ops.enqueue() into a DSQ that does not exist
 * ENQ_LOCAL_ON=n  inserts in ops.enqueue() into the local DSQ of CPU n
 * MIXED           inserts into one DSQ, both in FIFO order and in vtime order
 * BAD_FLAGS       inserts with a flag that only the kernel may use
 * NO_INSERT       inserts no task
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0

u64 nr_selected, nr_enqueued;
s32 first_pid;

s32 SCX_OP(direct_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	nr_selected++;
#if defined(LOCAL)
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
#elif defined(BOGUS)
	scx_bpf_dsq_insert(p, 0xdeadbeef, SCX_SLICE_DFL, 0);
#elif defined(VTIME_LOCAL)
	scx_bpf_dsq_insert_vtime(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0, 0);
#elif defined(TWICE)
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
#elif defined(OTHER)
	struct task_struct *other;

	if (!first_pid)
		first_pid = p->pid;
	if (p->pid == first_pid)
		return prev_cpu;
	other = bpf_task_from_pid(first_pid);
	if (other) {
		scx_bpf_dsq_insert(other, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
		bpf_task_release(other);
	}
#elif defined(BAD_CPU)
	return 4000;
#elif defined(BAD_FLAGS)
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 1ULL << 57);
#endif
	return prev_cpu;
}

void SCX_OP(direct_enqueue, struct task_struct *p, u64 enq_flags)
{
	nr_enqueued++;
#if defined(ENQ_BOGUS)
	scx_bpf_dsq_insert(p, 0xdeadbeef, SCX_SLICE_DFL, 0);
#elif defined(ENQ_LOCAL_ON)
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | ENQ_LOCAL_ON, SCX_SLICE_DFL, 0);
#elif defined(MIXED)
	if (p->pid & 1)
		scx_bpf_dsq_insert_vtime(p, QUEUE, SCX_SLICE_DFL, 1, 0);
	else
		scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, 0);
#elif defined(NO_INSERT)
#else
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, 0);
#endif
}

s32 SCX_OP_SLEEPABLE(direct_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(direct_ops,
	.select_cpu = (void *)direct_select_cpu,
	.enqueue = (void *)direct_enqueue,
	.init = (void *)direct_init,
	.timeout_ms = 1000,
	.name = "direct");
