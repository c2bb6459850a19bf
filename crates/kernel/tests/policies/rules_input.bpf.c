/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tests of the sanitizer's rules about input from user space, about the ends of kernel objects, and
 * about saved interrupt flags. See rules.h.
 */
#include "rules.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_res_spin_lock {
	u32 val;
};
#pragma clang attribute pop
int bpf_res_spin_lock_irqsave(struct bpf_res_spin_lock *lock, unsigned long *flags) __ksym;
void bpf_res_spin_unlock_irqrestore(struct bpf_res_spin_lock *lock, unsigned long *flags) __ksym;

struct guarded {
	struct bpf_res_spin_lock lock;
	u64 number;
};
struct {
	__uint(type, 2);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct guarded);
} guarded SEC(".maps");
#define guarded_value()                                \
	({                                             \
		u32 ___key = 1;                        \
		(struct guarded *)bpf_map_lookup_elem(&guarded, &___key); \
	})

/* Input from user space */

KEEPS_INPUT(changes_its_input)
{
	load(u64, ctx + 1) = load(u64, ctx) + 1;
	return 0;
}

BREAKS_INPUT(behind_its_input, "out-of-bounds: load of 8 bytes")
{
	return load(u64, ctx + 2);
}

BREAKS_INPUT(stores_behind_its_input, "out-of-bounds: store of 8 bytes")
{
	load(u64, ctx + 2) = 1;
	return 0;
}

BREAKS_INPUT(before_its_input, "out-of-bounds: load of 8 bytes")
{
	return load(u64, ctx - 1);
}

BREAKS_INPUT(reads_through_a_word_of_its_input, "bad-pointer: load of 8 bytes")
{
	u64 word = load(u64, ctx);

	return load(u64, word);
}

BREAKS_INPUT(releases_its_input, "bad-pointer: bpf_task_release expects a task_struct, but the argument is a pointer to the program's context")
{
	bpf_task_release((void *)ctx);
	return 0;
}

KEEPS_INPUT(may_sleep_on_input)
{
	return scx_bpf_create_dsq(77, -1);
}

BREAKS_INPUT(needs_rcu_on_input, "rcu: scx_bpf_cpu_curr needs bpf_rcu_read_lock")
{
	return !scx_bpf_cpu_curr(0);
}

/*
 * The programs below access memory beyond the end of a kernel object. `given[1]` contains the
 * distance between two task_structs in bytes. The programs use this number as an offset. They load
 * it from the stack, because the sanitizer rejects a variable offset that comes directly from
 * memory. (The kernel's verifier rejects variable offsets from memory and from the stack.)
 */
static __always_inline u64 task_stride(void)
{
	volatile u64 stride = given[1];

	return stride;
}

KEEPS(reads_the_last_word_of_a_task)
{
	u64 stride = task_stride();

	load(u64, ctx[0] + stride - 8);
	return 0;
}

BREAKS(reads_across_the_end_of_a_task, "out-of-bounds: load of 8 bytes")
{
	u64 stride = task_stride();

	return load(u64, ctx[0] + stride - 4);
}

BREAKS(reads_before_a_task, "out-of-bounds: load of 8 bytes")
{
	return load(u64, ctx[0] - 8);
}

BREAKS(stores_to_the_masks_behind_a_task, "out-of-bounds: store of 8 bytes")
{
	u64 stride = task_stride();

	load(u64, ctx[0] + stride - 8) = 1;
	return 0;
}

BREAKS(reads_behind_a_reference, "out-of-bounds: load of 8 bytes")
{
	struct task_struct *p = bpf_task_acquire((void *)ctx[0]);
	u64 stride = task_stride();

	if (!p)
		return 0;
	load(u64, (void *)p + stride - 4);
	bpf_task_release(p);
	return 0;
}

BREAKS(stores_across_the_end_of_a_slice, "read-only: store of 8 bytes")
{
	struct task_struct *p = (void *)ctx[0];

	load(u64, (void *)&p->scx.slice + 4) = 1;
	return 0;
}

/* Saved interrupt flags */

KEEPS(restores_interrupts_in_order)
{
	unsigned long outer, inner;

	bpf_local_irq_save(&outer);
	bpf_local_irq_save(&inner);
	bpf_local_irq_restore(&inner);
	bpf_local_irq_restore(&outer);
	return 0;
}

BREAKS(restores_interrupts_out_of_order, "unbalanced-lock: bpf_local_irq_restore of flags that were not saved last")
{
	unsigned long outer, inner;

	bpf_local_irq_save(&outer);
	bpf_local_irq_save(&inner);
	bpf_local_irq_restore(&outer);
	bpf_local_irq_restore(&inner);
	return 0;
}

BREAKS(restores_some_interrupts, "unbalanced-lock: restores_some_interrupts returns with interrupts off")
{
	unsigned long outer, inner;

	bpf_local_irq_save(&outer);
	bpf_local_irq_save(&inner);
	bpf_local_irq_restore(&inner);
	return 0;
}

BREAKS(restores_what_a_lock_saved, "call-under-lock: bpf_local_irq_restore called while a lock is held")
{
	struct guarded *value = guarded_value();
	unsigned long flags;

	if (!value || bpf_res_spin_lock_irqsave(&value->lock, &flags))
		return 0;
	bpf_local_irq_restore(&flags);
	return 0;
}

BREAKS(restores_what_was_saved_before, "unbalanced-lock: bpf_local_irq_restore of flags that were not saved last")
{
	unsigned long before, later;

	bpf_local_irq_save(&before);
	bpf_local_irq_save(&later);
	bpf_local_irq_restore(&before);
	return 0;
}

BREAKS(unlocks_with_what_no_lock_saved, "bad-pointer: bpf_res_spin_unlock_irqrestore expects a flag of bpf_res_spin_lock_irqsave()")
{
	struct guarded *value = guarded_value();
	unsigned long before, flags;

	if (!value)
		return 0;
	bpf_local_irq_save(&before);
	if (!bpf_res_spin_lock_irqsave(&value->lock, &flags))
		bpf_res_spin_unlock_irqrestore(&value->lock, &before);
	return 0;
}

BREAKS(restores_what_no_lock_saved, "bad-pointer: bpf_local_irq_restore expects a flag of bpf_local_irq_save()")
{
	struct guarded *value = guarded_value();
	unsigned long flags, again;

	if (!value || bpf_res_spin_lock_irqsave(&value->lock, &flags))
		return 0;
	/* The lock is already held, so this call fails and saves no flags in `again`. */
	bpf_res_spin_lock_irqsave(&value->lock, &again);
	bpf_res_spin_unlock_irqrestore(&value->lock, &flags);
	bpf_local_irq_restore(&again);
	return 0;
}

KEEPS(unlocks_and_restores)
{
	struct guarded *value = guarded_value();
	unsigned long flags;

	if (!value || bpf_res_spin_lock_irqsave(&value->lock, &flags))
		return 0;
	bpf_res_spin_unlock_irqrestore(&value->lock, &flags);
	return 0;
}

BREAKS(changes_saved_flags, "special-field: bpf_local_irq_restore of a flag of bpf_local_irq_save() that the program has overwritten")
{
	unsigned long flags;

	load(u64, &flags) = 0;
	bpf_local_irq_save(&flags);
	load(u64, &flags) = 5;
	bpf_local_irq_restore(&flags);
	return 0;
}

BREAKS(saves_flags_outside_the_stack, "bad-pointer: bpf_local_irq_save expects a pointer to the stack")
{
	bpf_local_irq_save((void *)&given[2]);
	return 0;
}

BREAKS(restores_flags_that_nobody_saved, "bad-pointer: bpf_local_irq_restore expects a flag of bpf_local_irq_save()")
{
	unsigned long flags = 0;

	bpf_local_irq_restore(&flags);
	return 0;
}

BREAKS(restores_flags_of_an_earlier_call, "bad-pointer: bpf_local_irq_restore expects a flag of bpf_local_irq_save()")
{
	bpf_local_irq_restore(in_stack(248));
	return 0;
}

BREAKS(uses_a_reference_of_an_earlier_call, "use-after-free: load of 4 bytes")
{
	struct task_struct *p = (void *)load(u64, in_stack(256));

	return p ? load(int, &p->prio) : 0;
}

SCX_OPS(rules_ops, .name = "rules");
