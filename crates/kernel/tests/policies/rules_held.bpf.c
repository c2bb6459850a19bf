/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tests of the sanitizer's rules about objects that a program holds: references, lists and trees,
 * locks and critical sections, iterators and dynptrs. See rules.h.
 */
#include "rules.h"

struct leaf {
	struct bpf_rb_node node;
	u64 number;
};

private(A) struct bpf_spin_lock lock;
private(A) struct bpf_list_head notes __contains(note, node);
private(A) struct bpf_rb_root leaves __contains(leaf, node);
private(B) struct bpf_spin_lock other_lock;

/* A map value with fields that can hold references. */
struct keep {
	struct plain __kptr *plain;
	struct plain __attribute__((btf_type_tag("percpu_kptr"))) *all;
	struct bpf_cpumask __kptr *mask;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct keep);
} keeps SEC(".maps");

static struct keep *keep(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&keeps, &zero);
}

#define KEEP_AS(field, what)                                \
	{                                                   \
		void *it = what;                            \
                                                            \
		if (it && keep())                           \
			bpf_kptr_xchg(&keep()->field, it);  \
		return 0;                                   \
	}

static bool less(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	return false;
}

/* References */

BREAKS(exchanges_what_is_not_its_own, "not-a-reference: bpf_kptr_xchg of")
{
	struct value *value = fresh();

	if (value)
		bpf_kptr_xchg(&value->task, (void *)ctx[0]);
	return 0;
}

BREAKS(releases_what_it_gave_away, "not-a-reference: bpf_task_release of")
{
	struct value *value = fresh();
	struct task_struct *p = bpf_task_acquire((void *)ctx[0]), *old;

	if (!p || !value)
		return 0;
	old = bpf_kptr_xchg(&value->task, p);
	if (old)
		bpf_task_release(old);
	bpf_task_release(p);
	return 0;
}

BREAKS(releases_null, "null-dereference: NULL passed to bpf_task_release")
{
	struct task_struct *p = bpf_task_from_pid(-1);

	bpf_task_release(p);
	return 0;
}

BREAKS(keeps_what_it_exchanged, "leak: keeps_what_it_exchanged returns and has not released")
{
	struct value *value = keeping((void *)ctx[0]);

	if (value)
		bpf_kptr_xchg(&value->task, NULL);
	return 0;
}

BREAKS(releases_a_cgroup_that_is_not_its_own, "not-a-reference: bpf_cgroup_release of")
{
	struct value *value = fresh();
	struct cgroup *cgrp = bpf_cgroup_from_id(1);

	if (!cgrp)
		return 0;
	if (value)
		cgrp = bpf_kptr_xchg(&value->cgrp, cgrp);
	cgrp = value ? value->cgrp : NULL;
	if (cgrp)
		bpf_cgroup_release(cgrp);
	return 0;
}

BREAKS(leaks_a_cgroup, "leak: leaks_a_cgroup returns and has not released a reference to a cgroup")
{
	struct cgroup *cgrp = bpf_cgroup_from_id(1), *again;

	if (!cgrp)
		return 0;
	again = bpf_cgroup_acquire(cgrp);
	if (again)
		bpf_cgroup_release(again);
	return 0;
}

BREAKS(leaks_a_percpu_object, "leak: leaks_a_percpu_object returns and has not released per-CPU objects")
{
	struct plain *objects = bpf_percpu_obj_new(struct plain);

	hide(objects);
	return 0;
}

BREAKS(leaks_a_popped_note, "leak: leaks_a_popped_note returns and has not released a struct note")
{
	struct note *note = bpf_obj_new(struct note);

	if (!note)
		return 0;
	bpf_spin_lock(&lock);
	bpf_list_push_back(&notes, &note->node);
	bpf_list_pop_front(&notes);
	bpf_spin_unlock(&lock);
	return 0;
}

BREAKS(submits_twice, "use-after-release: passed to bpf_ringbuf_submit")
{
	u64 *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	if (!record)
		return 0;
	bpf_ringbuf_submit(record, 0);
	bpf_ringbuf_submit(record, 0);
	return 0;
}

BREAKS(submits_the_middle_of_a_record, "bad-pointer: bpf_ringbuf_submit of a pointer into a ring buffer's record")
{
	u64 *record = bpf_ringbuf_reserve(&ring, 2 * sizeof(*record), 0);

	if (!record)
		return 0;
	bpf_ringbuf_submit(record + 1, 0);
	return 0;
}

BREAKS(exchanges_the_middle_of_a_task, "bad-pointer: bpf_kptr_xchg of a pointer into a reference to a task_struct")
{
	struct value *value = fresh();
	struct task_struct *p = bpf_task_acquire((void *)ctx[0]);

	if (!p)
		return 0;
	if (value)
		bpf_kptr_xchg(&value->task, (void *)p + 8);
	bpf_task_release(p);
	return 0;
}

BREAKS(keeps_a_task_as_a_cgroup, "bad-pointer: bpf_kptr_xchg expects a cgroup, but the argument is a pointer to a reference to a task_struct")
{
	struct value *value = fresh();
	struct task_struct *p = bpf_task_acquire((void *)ctx[0]);

	if (!p)
		return 0;
	if (value)
		bpf_kptr_xchg(&value->cgrp, p);
	return 0;
}

BREAKS(keeps_a_cgroup_as_a_task, "bad-pointer: bpf_kptr_xchg expects a task_struct, but the argument is a pointer to a reference to a cgroup")
{
	struct value *value = fresh();
	struct cgroup *cgrp = bpf_cgroup_from_id(1);

	if (!cgrp)
		return 0;
	if (value)
		bpf_kptr_xchg(&value->task, cgrp);
	return 0;
}

BREAKS(keeps_another_object, "bad-pointer: bpf_kptr_xchg expects a plain, but the argument is a pointer to a struct note")
KEEP_AS(plain, bpf_obj_new(struct note))

BREAKS(keeps_an_object_as_a_mask, "bad-pointer: bpf_kptr_xchg expects a bpf_cpumask, but the argument is a pointer to a struct plain")
KEEP_AS(mask, bpf_obj_new(struct plain))

BREAKS(keeps_a_mask_as_an_object, "bad-pointer: bpf_kptr_xchg expects a plain, but the argument is a pointer to a bpf_cpumask")
KEEP_AS(plain, bpf_cpumask_create())

BREAKS(keeps_an_object_as_percpu, "bad-pointer: bpf_kptr_xchg expects a per-CPU plain, but the argument is a pointer to a struct plain")
KEEP_AS(all, bpf_obj_new(struct plain))

BREAKS(keeps_percpu_objects_as_one, "bad-pointer: bpf_kptr_xchg expects a plain, but the argument is a pointer to per-CPU objects")
KEEP_AS(plain, bpf_percpu_obj_new(struct plain))

BREAKS(keeps_other_percpu_objects, "bad-pointer: bpf_kptr_xchg expects a per-CPU plain, but the argument is a pointer to per-CPU objects")
KEEP_AS(all, percpu_objects())

#define SWAP(field, make, drop)                                 \
	({                                                      \
		void *it = make;                                \
                                                                \
		if (it && (it = bpf_kptr_xchg(&kept->field, it))) \
			drop;                                   \
	})

/*
 * In the second iteration, each exchange returns the object that the first iteration has stored.
 */
KEEPS(keeps_each_kind_in_its_field)
{
	struct keep *kept = keep();
	int i;

	for (i = 0; i < 2 && kept; i++) {
		SWAP(plain, bpf_obj_new(struct plain), bpf_obj_drop(it));
		SWAP(all, bpf_percpu_obj_new(struct plain), bpf_percpu_obj_drop_impl(it, NULL));
		SWAP(mask, bpf_cpumask_create(), bpf_cpumask_release(it));
	}
	return 0;
}

void bpf_throw(u64 cookie) __ksym;

BREAKS(throws_with_a_task, "leak: throws_with_a_task returns and has not released a reference to a task_struct")
{
	struct task_struct *p = bpf_task_acquire((void *)ctx[0]);

	if (p)
		bpf_throw(1);
	return 0;
}

KEEPS(throws_without_one)
{
	struct task_struct *p = bpf_task_acquire((void *)ctx[0]);

	if (!p)
		return 0;
	bpf_task_release(p);
	bpf_throw(1);
	return 0;
}

/* Lists and trees */

BREAKS(pushes_twice, "not-a-reference: bpf_list_push_back_impl of a struct note")
{
	struct note *note = bpf_obj_new(struct note);

	if (!note)
		return 0;
	bpf_spin_lock(&lock);
	bpf_list_push_back(&notes, &note->node);
	bpf_list_push_back(&notes, &note->node);
	bpf_spin_unlock(&lock);
	return 0;
}

BREAKS(adds_twice, "not-a-reference: bpf_rbtree_add_impl of a struct leaf")
{
	struct leaf *leaf = bpf_obj_new(struct leaf);

	if (!leaf)
		return 0;
	bpf_spin_lock(&lock);
	bpf_rbtree_add(&leaves, &leaf->node);
	bpf_rbtree_add(&leaves, &leaf->node);
	bpf_spin_unlock(&lock);
	return 0;
}

BREAKS(adds_what_is_in_the_tree, "not-a-reference: bpf_rbtree_add_impl of a struct leaf")
{
	struct leaf *leaf = bpf_obj_new(struct leaf);
	struct bpf_rb_node *node;

	if (!leaf)
		return 0;
	bpf_spin_lock(&lock);
	bpf_rbtree_add(&leaves, &leaf->node);
	node = bpf_rbtree_first(&leaves);
	if (node)
		bpf_rbtree_add(&leaves, node);
	bpf_spin_unlock(&lock);
	return 0;
}

BREAKS(drops_what_is_in_the_list, "use-after-unlock: passed to bpf_obj_drop_impl")
{
	struct note *note = bpf_obj_new(struct note);

	if (!note)
		return 0;
	bpf_spin_lock(&lock);
	bpf_list_push_back(&notes, &note->node);
	bpf_spin_unlock(&lock);
	hide(note);
	bpf_obj_drop(note);
	return 0;
}

BREAKS(looks_at_what_it_pushed, "use-after-unlock: load of 8 bytes")
{
	struct note *note = bpf_obj_new(struct note);

	if (!note)
		return 0;
	bpf_spin_lock(&lock);
	bpf_list_push_back(&notes, &note->node);
	bpf_spin_unlock(&lock);
	return load(u64, &note->number);
}

KEEPS(looks_at_what_it_pushed_before_it_unlocks)
{
	struct note *note = bpf_obj_new(struct note);

	if (!note)
		return 0;
	bpf_spin_lock(&lock);
	bpf_list_push_back(&notes, &note->node);
	load(u64, &note->number);
	bpf_spin_unlock(&lock);
	return 0;
}

/* Locks and critical sections */

BREAKS(unlocks_another_lock, "unbalanced-lock: bpf_spin_unlock of a lock that is not the one locked last")
{
	bpf_spin_lock(&lock);
	bpf_spin_unlock(&other_lock);
	return 0;
}

BREAKS(unlocks_without_a_lock, "unbalanced-lock: bpf_spin_unlock of a lock that is not the one locked last")
{
	bpf_spin_unlock(&lock);
	return 0;
}

BREAKS_SLEEPABLE(leaves_rcu_open, "unbalanced-lock: leaves_rcu_open returns with an RCU section open")
{
	bpf_rcu_read_lock();
	return 0;
}

BREAKS(leaves_preemption_disabled, "unbalanced-lock: leaves_preemption_disabled returns with preemption disabled")
{
	bpf_preempt_disable();
	return 0;
}

BREAKS(leaves_interrupts_off, "unbalanced-lock: leaves_interrupts_off returns with interrupts off")
{
	unsigned long flags;

	bpf_local_irq_save(&flags);
	return 0;
}

BREAKS_SLEEPABLE(ends_rcu_that_was_not_begun, "unbalanced-lock: bpf_rcu_read_unlock without an open section")
{
	bpf_rcu_read_unlock();
	return 0;
}

BREAKS(enables_preemption_twice, "unbalanced-lock: bpf_preempt_enable without an open section")
{
	bpf_preempt_disable();
	bpf_preempt_enable();
	bpf_preempt_enable();
	return 0;
}

BREAKS(restores_interrupts_twice, "bad-pointer: bpf_local_irq_restore expects")
{
	unsigned long flags;

	bpf_local_irq_save(&flags);
	bpf_local_irq_restore(&flags);
	bpf_local_irq_restore(&flags);
	return 0;
}

BREAKS_SLEEPABLE(sleeps_with_preemption_disabled, "sleep: scx_bpf_create_dsq may sleep and is called in a section with pre")
{
	bpf_preempt_disable();
	scx_bpf_create_dsq(7, -1);
	bpf_preempt_enable();
	return 0;
}

BREAKS_SLEEPABLE(sleeps_with_interrupts_off, "sleep: scx_bpf_create_dsq may sleep and is called in a section with int")
{
	unsigned long flags;

	bpf_local_irq_save(&flags);
	scx_bpf_create_dsq(7, -1);
	bpf_local_irq_restore(&flags);
	return 0;
}

KEEPS_SLEEPABLE(ends_an_inner_rcu_section)
{
	struct task_struct *curr;

	bpf_rcu_read_lock();
	bpf_rcu_read_lock();
	curr = scx_bpf_cpu_curr(0);
	bpf_rcu_read_unlock();
	if (curr)
		load(int, &curr->prio);
	bpf_rcu_read_unlock();
	return 0;
}

/* Iterators and dynptrs */

BREAKS(leaks_bits, "leak: leaks_bits returns without ending an iterator")
{
	struct bpf_iter_bits it;
	u64 word = 5;

	bpf_iter_bits_new(&it, &word, 1);
	bpf_iter_bits_next(&it);
	return 0;
}

BREAKS(destroys_bits_twice, "bad-pointer: bpf_iter_bits_destroy expects a bpf_iter_bits")
{
	struct bpf_iter_bits it;
	u64 word = 5;

	bpf_iter_bits_new(&it, &word, 1);
	bpf_iter_bits_destroy(&it);
	bpf_iter_bits_destroy(&it);
	return 0;
}

BREAKS(goes_on_after_the_end, "bad-pointer: bpf_iter_num_next expects a bpf_iter_num")
{
	struct bpf_iter_num it;

	bpf_iter_num_new(&it, 0, 3);
	bpf_iter_num_destroy(&it);
	bpf_iter_num_next(&it);
	return 0;
}

BREAKS(makes_an_iterator_beyond_the_stack, "stack-out-of-bounds: store of 8 bytes")
{
	void *place = &place;

	hide(place);
	place += 4;
	bpf_iter_num_new(place, 0, 3);
	return 0;
}

BREAKS(leaks_a_reserved_dynptr, "leak: leaks_a_reserved_dynptr returns without ending a reserved dynptr")
{
	struct bpf_dynptr ptr;

	bpf_ringbuf_reserve_dynptr(&ring, 8, 0, &ptr);
	return 0;
}

BREAKS(reads_a_submitted_record, "use-after-free: load of 8 bytes")
{
	struct bpf_dynptr ptr;
	u64 *data;

	bpf_ringbuf_reserve_dynptr(&ring, 8, 0, &ptr);
	data = bpf_dynptr_data(&ptr, 0, 8);
	bpf_ringbuf_submit_dynptr(&ptr, 0);
	return data ? load(u64, data) : 0;
}

BREAKS(reads_a_submitted_record_through_a_clone, "use-after-free: bpf_dynptr_read of a bpf_dynptr to memory that no longer exists")
{
	struct bpf_dynptr ptr, clone;
	u64 word;

	bpf_ringbuf_reserve_dynptr(&ring, 8, 0, &ptr);
	bpf_dynptr_clone(&ptr, &clone);
	bpf_ringbuf_submit_dynptr(&ptr, 0);
	bpf_dynptr_read(&word, 8, &clone, 0, 0);
	return 0;
}

BREAKS(reads_a_deleted_element_through_a_dynptr, "use-after-free: bpf_dynptr_read of a bpf_dynptr to memory that no longer exists")
{
	struct value *value = fresh();
	struct bpf_dynptr ptr;
	u64 word;

	if (!value)
		return 0;
	bpf_dynptr_from_mem(&value->number, 8, 0, &ptr);
	delete();
	bpf_dynptr_read(&word, 8, &ptr, 0, 0);
	return 0;
}

BREAKS(reads_a_deleted_element_through_a_slice, "use-after-free: load of 8 bytes")
{
	struct value *value = fresh();
	struct bpf_dynptr ptr;
	u64 *slice;

	if (!value)
		return 0;
	bpf_dynptr_from_mem(&value->number, 8, 0, &ptr);
	slice = bpf_dynptr_data(&ptr, 0, 8);
	delete();
	return slice ? load(u64, slice) : 0;
}

BREAKS(makes_a_dynptr_to_a_local, "bad-pointer: bpf_dynptr_from_mem expects a pointer to a map's value");
static __attribute__((noinline)) u64 point(struct bpf_dynptr *ptr)
{
	u64 local[2] = { 1, 2 };

	bpf_dynptr_from_mem(local, sizeof(local), 0, ptr);
	return 0;
}
u64 makes_a_dynptr_to_a_local(u64 *ctx)
{
	struct bpf_dynptr ptr;
	u64 word;

	point(&ptr);
	bpf_dynptr_read(&word, 8, &ptr, 0, 0);
	return 0;
}

BREAKS(uses_a_dynptr_of_a_function_before, "bad-pointer: bpf_dynptr_read expects a bpf_dynptr");
static __attribute__((noinline)) u64 makes_one(void)
{
	struct bpf_dynptr ptr;

	bpf_dynptr_from_mem(given, sizeof(given), 0, &ptr);
	return 0;
}
static __attribute__((noinline)) u64 has_one(void)
{
	struct bpf_dynptr ptr;
	struct bpf_dynptr *it = &ptr;

	hide(it);
	bpf_dynptr_read(given, 8, it, 0, 0);
	return 0;
}
u64 uses_a_dynptr_of_a_function_before(u64 *ctx)
{
	makes_one();
	has_one();
	return 0;
}

static __attribute__((noinline)) long on_sample(struct bpf_dynptr *sample, void *ctx)
{
	u64 *number = bpf_dynptr_data(sample, 0, 8);

	return number && load(u64, number) != 7;
}

KEEPS(reads_a_sample)
{
	return bpf_user_ringbuf_drain(&samples, on_sample, NULL, 0);
}

SCX_OPS(rules_ops, .name = "rules");
