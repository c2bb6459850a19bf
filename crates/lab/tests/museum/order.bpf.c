/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * order: two locks that are acquired in opposite orders.
 *
 * ops.enqueue() acquires lock 0 and then lock 1, ops.dispatch() acquires them in the opposite order.
 * Two CPUs wait for each other, and the kernel lets one of the acquisitions fail.
 */
#include "museum.h"

struct bpf_res_spin_lock {
	u32 val;
};

int bpf_res_spin_lock(struct bpf_res_spin_lock *lock) __ksym;
void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock) __ksym;

struct side {
	struct bpf_res_spin_lock lock;
	u32 nr;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct side);
} sides SEC(".maps");

static __always_inline void move(u32 from, u32 to)
{
	struct side *a, *b;

#ifdef MENDED
	from = 0;
	to = 1;
#endif
	a = bpf_map_lookup_elem(&sides, &from);
	b = bpf_map_lookup_elem(&sides, &to);
	if (!a || !b)
		return;
	if (bpf_res_spin_lock(&a->lock)) {
		scx_bpf_error("lock %d failed", from);
		return;
	}
	if (bpf_res_spin_lock(&b->lock)) {
		bpf_res_spin_unlock(&a->lock);
		scx_bpf_error("lock %d failed", to);
		return;
	}
	a->nr++;
	b->nr++;
	bpf_res_spin_unlock(&b->lock);
	bpf_res_spin_unlock(&a->lock);
}

void SCX_OP(order_enqueue, struct task_struct *p, u64 enq_flags)
{
	move(0, 1);
	enqueue_shared(p, enq_flags);
}

void SCX_OP(order_dispatch, s32 cpu, struct task_struct *prev)
{
	move(1, 0);
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(order_init)
{
	return create_shared();
}

SCX_OPS(order_ops,
	.enqueue = (void *)order_enqueue,
	.dispatch = (void *)order_dispatch,
	.init = (void *)order_init,
	.name = "order");
