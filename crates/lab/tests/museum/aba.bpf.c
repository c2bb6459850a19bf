/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * aba: a stack of free slots whose head is compared by its index only.
 *
 * A CPU reads the head A and its successor B. Before its compare-and-exchange, other CPUs take A
 * and B and return A. The exchange succeeds, because the head is A again, and makes B the head,
 * although B is in use. The mended stack counts its changes in the upper half of the head.
 */
#include "museum.h"

#define SLOTS 8

u64 head;
u32 next[SLOTS + 1], used[SLOTS + 1];

#ifdef MENDED
#define CHANGE (1ULL << 32)
#else
#define CHANGE 0
#endif

static __always_inline u32 take(void)
{
	int i;

	for (i = 0; i < 64; i++) {
		u64 old = *(volatile u64 *)&head;
		u32 slot = old, after;

		if (slot == 0 || slot > SLOTS)
			return 0;
		after = *(volatile u32 *)&next[slot];
		if (__sync_val_compare_and_swap(&head, old, ((old + CHANGE) & ~0xffffffffULL) | after) == old)
			return slot;
	}
	return 0;
}

static __always_inline void give(u32 slot)
{
	int i;

	if (slot == 0 || slot > SLOTS)
		return;
	for (i = 0; i < 64; i++) {
		u64 old = *(volatile u64 *)&head;

		__sync_lock_test_and_set(&next[slot], (u32)old);
		if (__sync_val_compare_and_swap(&head, old, ((old + CHANGE) & ~0xffffffffULL) | slot) == old)
			return;
	}
}

/* Takes a slot for a moment, as a policy does for a message. */
static __always_inline void use_slot(void)
{
	u32 slot = take();

	if (!slot || slot > SLOTS)
		return;
	if (__sync_lock_test_and_set(&used[slot], 1))
		scx_bpf_error("slot %d is used twice", slot);
	__sync_lock_test_and_set(&used[slot], 0);
	give(slot);
}

void SCX_OP(aba_enqueue, struct task_struct *p, u64 enq_flags)
{
	use_slot();
	enqueue_shared(p, enq_flags);
}

void SCX_OP(aba_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 first = take(), second = take();

	if (first && first <= SLOTS && __sync_lock_test_and_set(&used[first], 1))
		scx_bpf_error("slot %d is used twice", first);
	if (second && second <= SLOTS && __sync_lock_test_and_set(&used[second], 1))
		scx_bpf_error("slot %d is used twice", second);
	scx_bpf_dsq_move_to_local(QUEUE);
	if (first && first <= SLOTS) {
		__sync_lock_test_and_set(&used[first], 0);
		give(first);
	}
	/* The second slot is returned later than the first, so the order on the stack changes. */
	if (second && second <= SLOTS) {
		__sync_lock_test_and_set(&used[second], 0);
		give(second);
	}
}

s32 SCX_OP_SLEEPABLE(aba_init)
{
	u32 slot;

	bpf_for(slot, 1, SLOTS + 1) {
		if (slot <= SLOTS)
			next[slot] = slot - 1;
	}
	head = SLOTS;
	return create_shared();
}

SCX_OPS(aba_ops,
	.enqueue = (void *)aba_enqueue,
	.dispatch = (void *)aba_dispatch,
	.init = (void *)aba_init,
	.name = "aba");
