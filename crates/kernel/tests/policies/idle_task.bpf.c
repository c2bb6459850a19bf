/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * idle_task: a policy with FIFO scheduling that passes an idle task to kfuncs. Most of these kfuncs
 * expect a task that the policy schedules.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

struct rq___idle {
	struct task_struct *idle;
} __attribute__((preserve_access_index));
struct rq *scx_bpf_cpu_rq(s32 cpu) __ksym;
bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym;
bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime) __ksym;
struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;
struct scx_event_stats;
void scx_bpf_events(struct scx_event_stats *events, unsigned long events__sz) __ksym;

enum { QUEUE = 7, INSERT_NOT_OWNED = 11 };

u64 nr_tried, inserted, inserted_vtime, moved, sliced, timed, acquired, not_owned;

s32 SCX_OP_SLEEPABLE(idle_task_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

void SCX_OP(idle_task_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
}

void SCX_OP(idle_task_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *idle = ((struct rq___idle *)scx_bpf_cpu_rq(cpu))->idle, *held;
	struct bpf_iter_scx_dsq it;
	u64 events[13];

	nr_tried++;
	inserted += scx_bpf_dsq_insert(idle, QUEUE, 1000, 0);
	inserted_vtime += scx_bpf_dsq_insert_vtime(idle, QUEUE, 1000, 0, 0);
	sliced += scx_bpf_task_set_slice(idle, 5);
	timed += scx_bpf_task_set_dsq_vtime(idle, 5);
	held = bpf_task_acquire(idle);
	if (held) {
		acquired++;
		bpf_task_release(held);
	}
	bpf_iter_scx_dsq_new(&it, QUEUE, 0);
	moved += scx_bpf_dsq_move(&it, idle, SCX_DSQ_LOCAL, 0);
	bpf_iter_scx_dsq_destroy(&it);
	scx_bpf_events((void *)events, sizeof(events));
	not_owned = events[INSERT_NOT_OWNED];
	scx_bpf_dsq_move_to_local(QUEUE);
}

SCX_OPS(idle_task_ops, .init = (void *)idle_task_init, .enqueue = (void *)idle_task_enqueue,
	.dispatch = (void *)idle_task_dispatch, .name = "idle_task");
