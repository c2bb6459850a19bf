/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * overlap: a FIFO that changes global variables on all CPUs. These macros change it:
 *
 * LOCKED    a bpf_spin_lock protects `last`
 * ATOMIC    `nr` is changed by atomic instructions
 * CROSSED   enqueue and dispatch acquire two locks in opposite orders
 * FORKED    ops.init_task() and ops.enable() also change the variables
 * MOVED     ops.cgroup_move() also changes the variables
 * STORED    ops.enqueue() puts the task into a queue map, from which ops.dispatch() inserts it
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 5

struct state {
	struct bpf_spin_lock lock;
	u64 last;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct state);
} states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 4096);
	__type(value, s32);
} stored SEC(".maps");

u64 nr, nr_enqueue, nr_dispatch, nr_stored, seen;

static __always_inline void count(void)
{
#ifdef ATOMIC
	__sync_fetch_and_add(&nr, 1);
#else
	nr++;
#endif
}

static __always_inline void change(void)
{
	u32 key = 0;
	struct state *state = bpf_map_lookup_elem(&states, &key);

	if (!state)
		return;
#ifdef LOCKED
	bpf_spin_lock(&state->lock);
#endif
	if (state->last < 1000000)
		state->last += 1;
#ifdef LOCKED
	bpf_spin_unlock(&state->lock);
#endif
}

#ifdef CROSSED
static __always_inline void cross(u32 first, u32 second)
{
	struct state *a = bpf_map_lookup_elem(&states, &first), *b = bpf_map_lookup_elem(&states, &second);

	if (!a || !b)
		return;
	bpf_spin_lock(&a->lock);
	bpf_spin_lock(&b->lock);
	a->last++;
	bpf_spin_unlock(&b->lock);
	bpf_spin_unlock(&a->lock);
}
#else
static __always_inline void cross(u32 first, u32 second)
{
}
#endif

s32 SCX_OP(overlap_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle;

	count();
	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

void SCX_OP(overlap_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	__sync_fetch_and_add(&nr_enqueue, 1);
	count();
	change();
	cross(0, 1);
#ifdef STORED
	{
		s32 pid = p->pid;

		if (bpf_map_push_elem(&stored, &pid, 0))
			scx_bpf_dsq_insert(p, QUEUE, 5000000, enq_flags);
		__sync_fetch_and_add(&nr_stored, 1);
		seen = nr;
	}
#else
	scx_bpf_dsq_insert(p, QUEUE, 5000000, enq_flags);
#endif
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

void SCX_OP(overlap_dispatch, s32 cpu, struct task_struct *prev)
{
	__sync_fetch_and_add(&nr_dispatch, 1);
	count();
	change();
	cross(1, 0);
#ifdef STORED
	{
		struct task_struct *p;
		s32 pid;

		if (!bpf_map_pop_elem(&stored, &pid)) {
			p = bpf_task_from_pid(pid);
			if (p) {
				scx_bpf_dsq_insert(p, QUEUE, 5000000, 0);
				bpf_task_release(p);
			}
		}
	}
#endif
	scx_bpf_dsq_move_to_local(QUEUE);
}

#ifdef FORKED
s32 SCX_OP_SLEEPABLE(overlap_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	count();
	change();
	return 0;
}

void SCX_OP(overlap_enable, struct task_struct *p)
{
	count();
	change();
}
#endif

#ifdef MOVED
u64 nr_moved;

void SCX_OP(overlap_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	nr_moved++;
	change();
}
#endif

s32 SCX_OP_SLEEPABLE(overlap_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(overlap_ops,
	.select_cpu = (void *)overlap_select_cpu,
	.enqueue = (void *)overlap_enqueue,
	.dispatch = (void *)overlap_dispatch,
#ifdef FORKED
	.init_task = (void *)overlap_init_task,
	.enable = (void *)overlap_enable,
#endif
#ifdef MOVED
	.cgroup_move = (void *)overlap_cgroup_move,
#endif
	.init = (void *)overlap_init,
	.name = "overlap");
