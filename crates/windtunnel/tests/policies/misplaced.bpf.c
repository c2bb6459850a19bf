/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * misplaced: a policy that dispatches tasks to a DSQ that does not exist. The test finds the source
 * lines by the comments at their ends.
 *
 * MERGED  ops.enqueue() inserts into this DSQ. The compiler merges the calls of two branches.
 */
#include "../../../../policies/include/scx.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 1
#define PF_KTHREAD 0x00200000

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1024);
	__type(value, s32);
} waiting SEC(".maps");

static long (*const push)(void *map, const void *value, u64 flags) = (void *)87;
static long (*const pop)(void *map, void *value) = (void *)88;

void SCX_OP(misplaced_enqueue, struct task_struct *p, u64 enq_flags)
{
#ifdef MERGED
	if (p->flags & PF_KTHREAD) /* the last line before the call */
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
	else
		scx_bpf_dsq_insert(p, 7, SCX_SLICE_DFL, enq_flags);
#else
	s32 pid = p->pid;

	push(&waiting, &pid, 0);
#endif
}

void SCX_OP(misplaced_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;
	s32 pid;

	if (!pop(&waiting, &pid)) {
		p = bpf_task_from_pid(pid);
		if (p) {
			scx_bpf_dsq_insert(p, 7, SCX_SLICE_DFL, 0); /* the wrong DSQ */
			bpf_task_release(p);
		}
	}
	/* The kernel performs the insertion only here. */
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(misplaced_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(misplaced_ops,
	.enqueue = (void *)misplaced_enqueue,
	.dispatch = (void *)misplaced_dispatch,
	.init = (void *)misplaced_init,
	.name = "misplaced");
