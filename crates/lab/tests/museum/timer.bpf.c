/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * timer: a timer against the exit of a task.
 *
 * A timer walks over the pids of all tasks and looks up the entry of each one in a hash map.
 * ops.exit_task() removes the entry and then the pid. A task that exits between the two steps has a
 * pid without an entry, which the timer reports as an error.
 */
#include "museum.h"

#define PIDS 16
#define PERIOD 50000

struct entry {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct entry);
} timers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u64);
} entries SEC(".maps");

volatile u32 pids[PIDS];

static int tick(void *map, u32 *key, struct bpf_timer *timer)
{
	u32 i;

	bpf_for(i, 0, PIDS) {
		u32 pid = i < PIDS ? pids[i] : 0;

		if (pid && !bpf_map_lookup_elem(&entries, &pid)) {
#ifdef MENDED
			/* The task exits. */
			continue;
#else
			scx_bpf_error("pid %d has no entry", pid);
#endif
		}
	}
	bpf_timer_start(timer, PERIOD, 0);
	return 0;
}

void SCX_OP(timer_enqueue, struct task_struct *p, u64 enq_flags)
{
	enqueue_shared(p, enq_flags);
}

void SCX_OP(timer_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(timer_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	u32 pid = p->pid;
	u64 value = 0;

	bpf_map_update_elem(&entries, &pid, &value, 0);
	pids[pid % PIDS] = pid;
	return 0;
}

void SCX_OP(timer_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 pid = p->pid;

	bpf_map_delete_elem(&entries, &pid);
	pids[pid % PIDS] = 0;
}

s32 SCX_OP_SLEEPABLE(timer_init)
{
	u32 key = 0;
	struct entry *entry = bpf_map_lookup_elem(&timers, &key);

	if (!entry)
		return -2;
	bpf_timer_init(&entry->timer, &timers, 1);
	bpf_timer_set_callback(&entry->timer, tick);
	bpf_timer_start(&entry->timer, PERIOD, 0);
	return create_shared();
}

SCX_OPS(timer_ops,
	.enqueue = (void *)timer_enqueue,
	.dispatch = (void *)timer_dispatch,
	.init_task = (void *)timer_init_task,
	.exit_task = (void *)timer_exit_task,
	.init = (void *)timer_init,
	.name = "timer");
