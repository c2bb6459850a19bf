/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ring: a ring of pids without a lock.
 *
 * ops.enqueue() of several CPUs stores a pid at the tail and advances the tail. Two CPUs use the
 * same place, and the task of one of them is lost. A spin lock protects the ring of the twin.
 */
#include "museum.h"

#define PLACES 64

struct ring {
	struct bpf_spin_lock lock;
	u32 head, tail;
	s32 pids[PLACES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ring);
} rings SEC(".maps");

#ifdef MENDED
#define lock(ring) bpf_spin_lock(&(ring)->lock)
#define unlock(ring) bpf_spin_unlock(&(ring)->lock)
#else
#define lock(ring)
#define unlock(ring)
#endif

static __always_inline bool push(struct ring *ring, s32 pid)
{
	bool fits;

	lock(ring);
	fits = ring->tail - ring->head < PLACES;
	if (fits) {
		ring->pids[ring->tail % PLACES] = pid;
		ring->tail++;
	}
	unlock(ring);
	return fits;
}

static __always_inline s32 pop(struct ring *ring)
{
	s32 pid = 0;

	lock(ring);
	if (ring->head != ring->tail) {
		pid = ring->pids[ring->head % PLACES];
		ring->head++;
	}
	unlock(ring);
	return pid;
}

void SCX_OP(ring_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 key = 0;
	struct ring *ring = bpf_map_lookup_elem(&rings, &key);
	s32 cpu;

	if (!ring || !push(ring, p->pid)) {
		enqueue_shared(p, enq_flags);
		return;
	}
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	/* A CPU that has found the ring empty may be about to idle, and not be marked as idle yet. */
	scx_bpf_kick_cpu(cpu >= 0 ? cpu : bpf_cpumask_any_distribute(p->cpus_ptr), 0);
}

void SCX_OP(ring_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 key = 0;
	struct ring *ring = bpf_map_lookup_elem(&rings, &key);
	s32 kick = -1;
	u32 i;

	/* A task that has left the queue and exited leaves its pid behind. */
	bpf_for(i, 0, 8) {
		s32 pid = ring ? pop(ring) : 0;
		struct task_struct *p;

		if (!pid)
			break;
		p = bpf_task_from_pid(pid);
		if (p) {
			scx_bpf_dsq_insert(p, QUEUE, SLICE, 0);
			if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
				kick = bpf_cpumask_any_distribute(p->cpus_ptr);
			bpf_task_release(p);
			break;
		}
	}
	scx_bpf_dsq_move_to_local(QUEUE);
	/*
	 * A task that may not run here was inserted just now. Its CPU may have found the queue empty, and
	 * be about to idle, so a search for idle CPUs would miss it.
	 */
	if (kick >= 0)
		scx_bpf_kick_cpu(kick, 0);
}

s32 SCX_OP_SLEEPABLE(ring_init)
{
	return create_shared();
}

SCX_OPS(ring_ops,
	.enqueue = (void *)ring_enqueue,
	.dispatch = (void *)ring_dispatch,
	.init = (void *)ring_init,
	.name = "ring");
