/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rules of checked mode about what is there once for each CPU, maps of maps, what user space gives, words at the end of kernel
 * objects, saved interrupt flags, and objects that own others. See rules.h.
 */
#include "rules.h"

static void *(*const bpf_map_lookup_percpu_elem)(void *map, const void *key, u32 cpu) = (void *)195;
static void *(*const bpf_this_cpu_ptr)(const void *object) = (void *)154;
static long (*const bpf_for_each_map_elem)(void *map, void *callback, void *ctx, u64 flags) = (void *)164;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_res_spin_lock {
	u32 val;
};
#pragma clang attribute pop
int bpf_res_spin_lock_irqsave(struct bpf_res_spin_lock *lock, unsigned long *flags) __ksym;
void bpf_res_spin_unlock_irqrestore(struct bpf_res_spin_lock *lock, unsigned long *flags) __ksym;

struct {
	__uint(type, 5);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64);
} percpu_hash SEC(".maps");
struct {
	__uint(type, 6);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64);
} percpu_array SEC(".maps");

struct inner {
	__uint(type, 2);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
};
struct inner one SEC(".maps");
struct inner_hash {
	__uint(type, 1);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
};
struct inner_hash two SEC(".maps");
struct {
	__uint(type, 12);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct inner);
} array_of_maps SEC(".maps") = { .values = { [0] = &one } };
struct {
	__uint(type, 13);
	__uint(max_entries, 2);
	__type(key, u32);
	__array(values, struct inner_hash);
} hash_of_maps SEC(".maps") = { .values = { [1] = &two } };

struct counts {
	u64 a, b;
};
#define percpu_objects() bpf_percpu_obj_new(struct counts)
#define drop_percpu(objects) bpf_percpu_obj_drop_impl(objects, NULL)

struct guarded {
	struct bpf_res_spin_lock lock;
	u64 number;
};
struct {
	__uint(type, 2);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct guarded);
} guarded SEC(".maps");
#define guarded_value()                                \
	({                                             \
		u32 ___key = 0;                        \
		(struct guarded *)bpf_map_lookup_elem(&guarded, &___key); \
	})

struct box {
	struct plain __kptr *plain;
	struct bpf_spin_lock lock;
	struct bpf_list_head notes __contains(note, node);
};

/* Once for each CPU. */

KEEPS(changes_copies_of_an_object)
{
	struct counts *objects = percpu_objects(), *copy, *mine;

	if (!objects)
		return 0;
	copy = bpf_per_cpu_ptr(objects, 1);
	mine = bpf_this_cpu_ptr(objects);
	if (copy && mine) {
		load(u64, &copy->b) = 1;
		load(u64, &mine->a) = load(u64, &copy->b);
	}
	drop_percpu(objects);
	return 0;
}

BREAKS(reads_a_copy_of_a_dropped_object, "use-after-free: load of 8 bytes")
{
	struct counts *objects = percpu_objects(), *copy;

	if (!objects)
		return 0;
	copy = bpf_per_cpu_ptr(objects, 1);
	drop_percpu(objects);
	return copy ? load(u64, &copy->a) : 0;
}

BREAKS(reads_behind_a_copy, "out-of-bounds: load of 8 bytes")
{
	struct counts *objects = percpu_objects(), *copy;

	if (!objects)
		return 0;
	copy = bpf_per_cpu_ptr(objects, 0);
	if (copy)
		load(u64, copy + 1);
	drop_percpu(objects);
	return 0;
}

BREAKS(reads_per_cpu_objects_of_no_cpu, "special-field: load of 8 bytes")
{
	struct counts *objects = percpu_objects();

	if (!objects)
		return 0;
	load(u64, &objects->a);
	drop_percpu(objects);
	return 0;
}

BREAKS(copies_of_a_dropped_object, "use-after-release: passed to bpf_per_cpu_ptr")
{
	struct counts *objects = percpu_objects();

	if (!objects)
		return 0;
	drop_percpu(objects);
	bpf_per_cpu_ptr(objects, 1);
	return 0;
}

BREAKS(copy_of_a_cpu_that_is_not_there, "null-dereference: load of 8 bytes")
{
	struct counts *objects = percpu_objects(), *copy;

	if (!objects)
		return 0;
	copy = bpf_per_cpu_ptr(objects, 9);
	load(u64, copy);
	drop_percpu(objects);
	return 0;
}

BREAKS(drops_a_copy, "not-a-reference: bpf_percpu_obj_drop_impl of")
{
	struct counts *objects = percpu_objects(), *copy;

	if (!objects)
		return 0;
	copy = bpf_per_cpu_ptr(objects, 0);
	if (copy)
		drop_percpu(copy);
	drop_percpu(objects);
	return 0;
}

BREAKS(stores_through_a_copy_of_given_memory, "read-only: store of 8 bytes")
{
	u64 *copy = bpf_per_cpu_ptr((void *)ctx[1], 0);

	if (copy)
		load(u64, copy) = 1;
	return 0;
}

KEEPS(changes_values_of_other_cpus)
{
	u32 key = 1;
	u64 zero = 0, *value;

	bpf_map_update_elem(&percpu_hash, &key, &zero, BPF_ANY);
	value = bpf_map_lookup_percpu_elem(&percpu_hash, &key, 1);
	if (value)
		load(u64, value) = 1;
	value = bpf_map_lookup_percpu_elem(&percpu_array, &key, 1);
	if (value)
		load(u64, value) = 1;
	return 0;
}

BREAKS(behind_a_value_of_another_cpu, "out-of-bounds: load of 8 bytes")
{
	u32 key = 1;
	u64 zero = 0, *value;

	bpf_map_update_elem(&percpu_hash, &key, &zero, BPF_ANY);
	value = bpf_map_lookup_percpu_elem(&percpu_hash, &key, 0);
	return value ? load(u64, value + 1) : 0;
}

BREAKS(behind_a_value_of_an_array_of_another_cpu, "out-of-bounds: load of 8 bytes")
{
	u32 key = 1;
	u64 *value = bpf_map_lookup_percpu_elem(&percpu_array, &key, 1);

	return value ? load(u64, value + 1) : 0;
}

BREAKS(reads_a_deleted_value_of_another_cpu, "use-after-free: load of 8 bytes")
{
	u32 key = 1;
	u64 zero = 0, *value;

	bpf_map_update_elem(&percpu_hash, &key, &zero, BPF_ANY);
	value = bpf_map_lookup_percpu_elem(&percpu_hash, &key, 1);
	bpf_map_delete_elem(&percpu_hash, &key);
	return value ? load(u64, value) : 0;
}

BREAKS(value_of_a_cpu_that_is_not_there, "null-dereference: load of 8 bytes")
{
	u32 key = 1;

	return load(u64, bpf_map_lookup_percpu_elem(&percpu_array, &key, 9));
}

BREAKS(key_of_a_percpu_map_beyond_the_stack, "stack-out-of-bounds: load of 4 bytes")
{
	void *key = &key;

	hide(key);
	bpf_map_lookup_percpu_elem(&percpu_array, key + 16, 0);
	return 0;
}

/* Maps of maps. */

KEEPS(changes_a_value_of_an_inner_map)
{
	u32 key = 0;
	void *inner = bpf_map_lookup_elem(&array_of_maps, &key);
	u64 *value = inner ? bpf_map_lookup_elem(inner, &key) : NULL;

	if (value)
		load(u64, value) = 1;
	return !value;
}

BREAKS(behind_a_value_of_an_inner_map, "out-of-bounds: load of 8 bytes")
{
	u32 key = 0;
	void *inner = bpf_map_lookup_elem(&array_of_maps, &key);
	u64 *value = inner ? bpf_map_lookup_elem(inner, &key) : NULL;

	return value ? load(u64, value + 1) : 0;
}

BREAKS(reads_a_deleted_value_of_an_inner_map, "use-after-free: load of 8 bytes")
{
	u32 key = 1;
	u64 zero = 0, *value;
	void *inner = bpf_map_lookup_elem(&hash_of_maps, &key);

	if (!inner)
		return 0;
	bpf_map_update_elem(inner, &key, &zero, BPF_ANY);
	value = bpf_map_lookup_elem(inner, &key);
	bpf_map_delete_elem(inner, &key);
	return value ? load(u64, value) : 0;
}

BREAKS(stores_to_an_inner_map, "read-only: store of 4 bytes")
{
	u32 key = 1;
	void *inner = bpf_map_lookup_elem(&hash_of_maps, &key);

	if (inner)
		load(u32, inner) = 0;
	return 0;
}

BREAKS(stores_to_an_inner_map_of_an_array, "read-only: store of 4 bytes")
{
	u32 key = 0;
	void *inner = bpf_map_lookup_elem(&array_of_maps, &key);

	if (inner)
		load(u32, inner) = 0;
	return 0;
}

BREAKS(an_inner_map_that_is_not_there, "null-dereference: load of 4 bytes")
{
	u32 key = 7;

	return load(u32, bpf_map_lookup_elem(&hash_of_maps, &key));
}

BREAKS(key_of_an_inner_map_beyond_the_stack, "stack-out-of-bounds: load of 4 bytes")
{
	u32 zero = 0;
	void *inner = bpf_map_lookup_elem(&array_of_maps, &zero), *key = &key;

	hide(key);
	if (inner)
		bpf_map_lookup_elem(inner, key + 16);
	return 0;
}

static __attribute__((noinline)) long on_value(void *map, u32 *key, u64 *value, u64 *behind)
{
	return load(u64, value + *behind);
}

BREAKS(a_callback_behind_a_value_of_another_cpu, "out-of-bounds: load of 8 bytes")
{
	u32 key = 1;
	u64 zero = 0, behind = 1;

	bpf_map_update_elem(&percpu_hash, &key, &zero, BPF_ANY);
	bpf_for_each_map_elem(&percpu_hash, on_value, &behind, 0);
	return 0;
}

/* What user space gives. */

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

BREAKS_INPUT(releases_its_input, "not-a-reference: bpf_task_release of the program's context")
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

/* The end of kernel objects: `given[1]` is how far apart tasks are. */

KEEPS(reads_the_last_word_of_a_task)
{
	u64 stride = load(u64, &given[1]);

	load(u64, ctx[0] + stride - 8);
	return 0;
}

BREAKS(reads_across_the_end_of_a_task, "out-of-bounds: load of 8 bytes")
{
	u64 stride = load(u64, &given[1]);

	return load(u64, ctx[0] + stride - 4);
}

BREAKS(reads_before_a_task, "out-of-bounds: load of 8 bytes")
{
	return load(u64, ctx[0] - 8);
}

BREAKS(stores_to_the_masks_behind_a_task, "out-of-bounds: store of 8 bytes")
{
	u64 stride = load(u64, &given[1]);

	load(u64, ctx[0] + stride - 8) = 1;
	return 0;
}

BREAKS(reads_behind_a_reference, "out-of-bounds: load of 8 bytes")
{
	struct task_struct *p = bpf_task_acquire((void *)ctx[0]);
	u64 stride = load(u64, &given[1]);

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

/* Saved interrupt flags. */

KEEPS(restores_interrupts_in_order)
{
	unsigned long outer, inner;

	bpf_local_irq_save(&outer);
	bpf_local_irq_save(&inner);
	bpf_local_irq_restore(&inner);
	bpf_local_irq_restore(&outer);
	return 0;
}

BREAKS(restores_interrupts_out_of_order, "unbalanced-lock: bpf_local_irq_restore of flags that are not those saved last")
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

BREAKS(unlocks_with_what_was_saved_before, "unbalanced-lock: bpf_res_spin_unlock_irqrestore of flags that are not")
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

BREAKS(restores_what_no_lock_saved, "bad-pointer: bpf_local_irq_restore wants a saved interrupt flag")
{
	struct guarded *value = guarded_value();
	unsigned long flags, again;

	if (!value || bpf_res_spin_lock_irqsave(&value->lock, &flags))
		return 0;
	/* It is taken. */
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

BREAKS(changes_saved_flags, "special-field: bpf_local_irq_restore of a saved interrupt flag that the program has overwritten")
{
	unsigned long flags;

	load(u64, &flags) = 0;
	bpf_local_irq_save(&flags);
	load(u64, &flags) = 5;
	bpf_local_irq_restore(&flags);
	return 0;
}

BREAKS(saves_flags_outside_the_stack, "bad-pointer: bpf_local_irq_save wants a place in the stack")
{
	bpf_local_irq_save((void *)&given[2]);
	return 0;
}

BREAKS(restores_flags_that_nobody_saved, "bad-pointer: bpf_local_irq_restore wants a saved interrupt flag")
{
	unsigned long flags = 0;

	bpf_local_irq_restore(&flags);
	return 0;
}

/* Objects that own others. */

BREAKS(reads_what_a_dropped_object_owned, "use-after-free: load of 8 bytes")
{
	struct box *box = bpf_obj_new(struct box);
	struct plain *plain = bpf_obj_new(struct plain), *owned = plain;

	if (plain && box)
		plain = bpf_kptr_xchg(&box->plain, plain);
	if (plain)
		bpf_obj_drop(plain);
	if (!box)
		return 0;
	bpf_obj_drop(box);
	hide(owned);
	return owned ? load(u64, &owned->number) : 0;
}

BREAKS(reads_what_a_dropped_element_owned, "use-after-free: load of 8 bytes")
{
	struct box *box = bpf_obj_new(struct box);
	struct plain *plain = bpf_obj_new(struct plain), *owned;

	if (plain && box)
		plain = bpf_kptr_xchg(&box->plain, plain);
	if (plain)
		bpf_obj_drop(plain);
	if (!box)
		return 0;
	owned = box->plain;
	bpf_obj_drop(box);
	return owned ? load(u64, &owned->number) : 0;
}

KEEPS(drops_an_object_with_a_list)
{
	struct box *box = bpf_obj_new(struct box);
	struct note *note = bpf_obj_new(struct note);

	if (box && note) {
		bpf_spin_lock(&box->lock);
		bpf_list_push_back(&box->notes, &note->node);
		bpf_spin_unlock(&box->lock);
	} else if (note) {
		bpf_obj_drop(note);
	}
	if (box)
		bpf_obj_drop(box);
	return 0;
}

BREAKS(exchanges_a_kptr_of_a_dropped_object, "use-after-release: passed to bpf_kptr_xchg")
{
	struct box *box = bpf_obj_new(struct box);

	if (!box)
		return 0;
	bpf_obj_drop(box);
	bpf_kptr_xchg(&box->plain, NULL);
	return 0;
}

SCX_OPS(rules_ops, .name = "rules");
