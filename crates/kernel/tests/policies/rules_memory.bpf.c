/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tests of the sanitizer's rules about memory: bounds, read-only memory, pointers, and special
 * fields. See rules.h.
 */
#include "rules.h"

/* Bounds and read-only memory */

BREAKS(behind_an_object, "out-of-bounds: load of 8 bytes")
{
	struct plain *object = bpf_obj_new(struct plain);

	if (!object)
		return 0;
	load(u64, (void *)object + sizeof(*object));
	bpf_obj_drop(object);
	return 0;
}

BREAKS(behind_a_record, "out-of-bounds: load of 8 bytes")
{
	u64 *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	if (!record)
		return 0;
	load(u64, record + 1);
	bpf_ringbuf_discard(record, 0);
	return 0;
}

BREAKS(behind_a_task, "out-of-bounds: load of 8 bytes")
{
	load(u64, ctx[0] + (1 << 20));
	return 0;
}

BREAKS(behind_the_arguments, "out-of-bounds: load of 8 bytes")
{
	return load(u64, ctx + 3);
}

BREAKS(stores_to_the_arguments, "read-only: store of 8 bytes")
{
	load(u64, ctx) = 0;
	return 0;
}

BREAKS(stores_to_a_constant, "read-only: store of 8 bytes")
{
	u64 *place = (u64 *)&constant;

	hide(place);
	*place = 1;
	return 0;
}

BREAKS(stores_through_a_reference, "read-only: store of 4 bytes")
{
	struct task_struct *p = bpf_task_acquire((void *)ctx[0]);

	if (!p)
		return 0;
	load(int, &p->prio) = 1;
	bpf_task_release(p);
	return 0;
}

BREAKS(stores_to_a_mask, "read-only: store of 8 bytes")
{
	struct bpf_cpumask *mask = bpf_cpumask_create();

	if (!mask)
		return 0;
	load(u64, mask) = 1;
	bpf_cpumask_release(mask);
	return 0;
}

BREAKS(stores_to_kernel_memory, "read-only: store of 8 bytes")
{
	struct cgroup *root = bpf_cgroup_from_id(1);

	if (!root)
		return 0;
	load(u64, &root->kn->id) = 2;
	bpf_cgroup_release(root);
	return 0;
}

BREAKS(stores_through_a_cast, "read-only: store of 8 bytes")
{
	struct task_struct *p = bpf_rdonly_cast((void *)ctx[0], 0);

	load(u64, &p->scx.slice) = 1;
	return 0;
}

KEEPS(stores_to_a_slice)
{
	struct task_struct *p = (void *)ctx[0];

	load(u64, &p->scx.slice) = 1;
	return 0;
}

BREAKS(reads_where_nothing_is, "bad-pointer: load of 8 bytes")
{
	return load(u64, bpf_rdonly_cast((void *)0x100000000000, 0));
}

/* Pointers from arguments, from memory and from calculations */

BREAKS(stores_through_a_pointer_in_the_arguments, "read-only: store of 8 bytes")
{
	load(u64, ctx[1]) = 1;
	return 0;
}

BREAKS(stores_through_a_pointer_in_unknown_memory, "read-only: store of 8 bytes")
{
	struct task_struct *p = (void *)load(u64, ctx[1]);

	load(u64, &p->scx.slice) = 1;
	return 0;
}

BREAKS_SLEEPABLE(stores_through_a_kept_reference, "read-only: store of 8 bytes")
{
	struct value *value = keeping((void *)ctx[0]);
	struct task_struct *p;

	if (value) {
		p = value->task;
		if (p)
			load(u64, &p->scx.slice) = 1;
	}
	return 0;
}

KEEPS_SLEEPABLE(stores_through_a_kept_reference_in_rcu)
{
	struct value *value = keeping((void *)ctx[0]);
	struct task_struct *p;

	bpf_rcu_read_lock();
	if (value) {
		p = value->task;
		if (p)
			load(u64, &p->scx.slice) = 1;
	}
	bpf_rcu_read_unlock();
	return 0;
}

BREAKS(stores_through_a_stale_pointer, "read-only: store of 8 bytes")
{
	struct value *value = fresh();
	struct task_struct *p = (void *)ctx[0];

	if (!value)
		return 0;
	value->stale = p;
	p = (void *)load(u64, &value->stale);
	if (p)
		load(u64, &p->scx.slice) = 1;
	return 0;
}

BREAKS(changes_a_spilled_pointer, "bad-pointer: load of 8 bytes")
{
	u64 *volatile place = given;
	void *where = (void *)&place;

	hide(where);
	*(volatile u32 *)where = (u32)(u64)(given + 1);
	return load(u64, load(u64, where));
}

BREAKS(keeps_a_pointer_to_a_local, "use-after-return: load of 8 bytes");
static __attribute__((noinline)) u64 leave(u64 **out)
{
	u64 local = 7;

	hide(local);
	*out = (u64 *)&local;
	asm volatile("" : : "r"(&local) : "memory");
	return 0;
}
u64 keeps_a_pointer_to_a_local(u64 *ctx)
{
	u64 *out = NULL;

	leave(&out);
	return out ? load(u64, out) : 0;
}

BREAKS(reads_what_is_gone_long_since, "use-after-free: load of 8 bytes")
{
	struct value *value = fresh(), zero = {};

	if (!value)
		return 0;
	delete();
	/*
	 * The sanitizer keeps its records of deleted elements in a quarantine for a while. This
	 * loop creates and deletes more elements than fit into the quarantine. The sanitizer then
	 * has no record of the first element any more.
	 */
	for (int i = 0; i < 4096; i++) {
		fresh();
		delete();
	}
	for (u32 key = 1; key <= 60; key++) {
		bpf_map_update_elem(&hash, &key, &zero, BPF_ANY);
		bpf_map_lookup_elem(&hash, &key);
	}
	return load(u64, &value->number);
}

/* Special fields */

BREAKS(stores_to_a_lock_in_an_element, "special-field: store of 4 bytes")
{
	struct value *value = fresh();

	if (value)
		load(u32, &value->lock) = 1;
	return 0;
}

BREAKS(stores_to_a_node_of_an_object, "special-field: store of 8 bytes")
{
	struct note *note = bpf_obj_new(struct note);

	if (!note)
		return 0;
	load(u64, &note->node) = 1;
	bpf_obj_drop(note);
	return 0;
}

BREAKS(loads_half_a_kptr, "special-field: load of 4 bytes")
{
	struct value *value = fresh();

	return value ? load(u32, &value->task) : 0;
}

BREAKS(stores_to_a_kptr, "special-field: store of 8 bytes")
{
	struct value *value = fresh();

	if (value)
		load(u64, &value->task) = 0;
	return 0;
}

#ifndef VERDICTS
BREAKS(stores_to_a_uptr, "special-field: store of 8 bytes")
{
	struct value *value = fresh();

	if (value)
		load(u64, &value->user) = 0;
	return 0;
}
#endif

BREAKS(locks_a_timer, "bad-pointer: bpf_spin_lock expects a bpf_spin_lock")
{
	struct value *value = fresh();

	if (value)
		bpf_spin_lock((void *)&value->timer);
	return 0;
}

BREAKS(locks_beside_a_lock, "bad-pointer: bpf_spin_lock expects a bpf_spin_lock")
{
	struct value *value = fresh();

	if (value)
		bpf_spin_lock((void *)&value->lock + 4);
	return 0;
}

BREAKS(changes_the_middle_of_a_mask, "bad-pointer: bpf_cpumask_set_cpu expects a bpf_cpumask")
{
	struct bpf_cpumask *mask = bpf_cpumask_create();

	if (!mask)
		return 0;
	bpf_cpumask_set_cpu(1, (void *)mask + 4);
	bpf_cpumask_release(mask);
	return 0;
}

BREAKS(copies_of_the_middle_of_an_object, "bad-pointer: bpf_per_cpu_ptr expects a per-CPU object")
{
	struct plain *object = bpf_percpu_obj_new(struct plain);

	if (!object)
		return 0;
	bpf_per_cpu_ptr((void *)object + 4, 1);
	bpf_percpu_obj_drop_impl(object, NULL);
	return 0;
}

BREAKS(copies_of_what_is_there_once, "bad-pointer: bpf_per_cpu_ptr expects a per-CPU object")
{
	struct plain *object = bpf_obj_new(struct plain);

	if (!object)
		return 0;
	bpf_per_cpu_ptr(object, 1);
	bpf_obj_drop(object);
	return 0;
}

SCX_OPS(rules_ops, .name = "rules");
