/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tests of the sanitizer's rules about the arguments and results of functions and about callbacks.
 * See rules.h.
 */
#include "rules.h"

struct leaf {
	struct bpf_rb_node node;
	u64 number;
};

private(A) struct bpf_spin_lock lock;
private(A) struct bpf_list_head notes __contains(note, node);
private(A) struct bpf_rb_root leaves __contains(leaf, node);

static bool less(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	return false;
}

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} storage SEC(".maps");

/* Arguments of functions */

BREAKS(is_given_a_place_beyond_the_stack, "stack-out-of-bounds: store of 16 bytes")
{
	void *place = &place;
	struct bpf_dynptr ptr;

	hide(place);
	bpf_dynptr_from_mem(given, sizeof(given), 0, &ptr);
	bpf_dynptr_read(place + 4, 16, &ptr, 0, 0);
	return 0;
}

BREAKS(is_given_a_constant_to_write_to, "read-only: store of 8 bytes")
{
	struct bpf_dynptr ptr;

	bpf_dynptr_from_mem(given, sizeof(given), 0, &ptr);
	bpf_dynptr_read((void *)&constant, 8, &ptr, 0, 0);
	return 0;
}

BREAKS(is_given_a_value_beyond_the_stack, "stack-out-of-bounds: load of")
{
	void *place = &place;
	u32 key = 1;

	hide(place);
	bpf_map_update_elem(&hash, &key, place + 16, BPF_ANY);
	return 0;
}

/*
 * A bpf_cpumask contains only numbers, so it may lie in the program's own memory. Here it
 * has the same size as in a kernel for 8192 CPUs: 1024 bytes and one word.
 */
#define MASK_WORDS 129
private(B) u64 masks[2 * MASK_WORDS];

KEEPS(has_masks_of_its_own)
{
	bpf_cpumask_set_cpu(1, (void *)&masks[MASK_WORDS]);
	return 0;
}

BREAKS(has_a_mask_across_the_end, "out-of-bounds: store of 1032 bytes")
{
	bpf_cpumask_set_cpu(1, (void *)&masks[MASK_WORDS] + 4);
	return 0;
}

BREAKS(has_a_mask_across_the_stack, "stack-out-of-bounds: store of 1032 bytes")
{
	u64 word = 0;
	void *place = &word;

	hide(place);
	bpf_cpumask_set_cpu(1, place);
	return 0;
}

BREAKS(is_given_no_mask, "bad-pointer: bpf_cpumask_set_cpu expects a bpf_cpumask")
{
	struct plain *object = bpf_obj_new(struct plain);

	if (!object)
		return 0;
	bpf_cpumask_set_cpu(1, (void *)object);
	bpf_obj_drop(object);
	return 0;
}

BREAKS(is_given_a_dropped_object_behind_others, "use-after-release: passed to bpf_list_push_back_impl")
{
	struct note *note = bpf_obj_new(struct note);

	if (!note)
		return 0;
	bpf_obj_drop(note);
	bpf_spin_lock(&lock);
	bpf_list_push_back(&notes, &note->node);
	bpf_spin_unlock(&lock);
	return 0;
}

BREAKS(is_given_a_number_as_a_mask, "bad-pointer: bpf_cpumask_test_cpu expects a cpumask, but the argument is a number")
{
	u64 number = load(u64, &given[1]) + (1 << 20);

	return bpf_cpumask_test_cpu(0, (void *)number);
}

BREAKS(calls_a_helper_under_a_lock, "call-under-lock: bpf_get_prandom_u32 called while a lock is held")
{
	bpf_spin_lock(&lock);
	bpf_get_prandom_u32();
	bpf_spin_unlock(&lock);
	return 0;
}

BREAKS(locks_twice, "deadlock: bpf_spin_lock of the lock that is already held")
{
	bpf_spin_lock(&lock);
	bpf_spin_lock(&lock);
	return 0;
}

/* Kernel objects */

struct task_struct___mask {
	cpumask_t cpus_mask;
} __attribute__((preserve_access_index));

static u64 (*const bpf_get_current_task)(void) = (void *)35;

BREAKS(is_given_a_cgroup_as_a_task, "bad-pointer: scx_bpf_task_cpu expects a task_struct, but the argument is a pointer to a reference to a cgroup")
{
	struct cgroup *root = bpf_cgroup_from_id(1);

	if (!root)
		return 0;
	scx_bpf_task_cpu((void *)root);
	bpf_cgroup_release(root);
	return 0;
}

BREAKS(is_given_a_task_as_a_cgroup, "bad-pointer: bpf_cgroup_acquire expects a cgroup, but the argument is a pointer to")
{
	struct cgroup *cgrp = bpf_cgroup_acquire((void *)ctx[0]);

	if (cgrp)
		bpf_cgroup_release(cgrp);
	return 0;
}

BREAKS(is_given_a_place_within_a_task, "bad-pointer: scx_bpf_task_cpu expects a task_struct, but the argument is a pointer 8 bytes into a task_struct")
{
	return scx_bpf_task_cpu((void *)ctx[0] + 8);
}

BREAKS(is_given_a_cast, "bad-pointer: scx_bpf_task_cpu expects a task_struct, but the argument is a pointer to kernel memory that nothing keeps alive")
{
	return scx_bpf_task_cpu(bpf_rdonly_cast((void *)ctx[0], 0));
}

BREAKS(is_given_a_number_as_a_task, "bad-pointer: scx_bpf_task_cpu expects a task_struct, but the argument is a number")
{
	return scx_bpf_task_cpu((void *)bpf_get_current_task());
}

BREAKS(is_given_no_task, "null-dereference: NULL passed to scx_bpf_task_cpu")
{
	return scx_bpf_task_cpu(bpf_task_from_pid(4711));
}

BREAKS_SLEEPABLE(is_given_a_task_kept_without_rcu, "bad-pointer: scx_bpf_task_cpu expects a task_struct")
{
	struct value *value = keeping((void *)ctx[0]);

	return value && value->task ? scx_bpf_task_cpu(value->task) : 0;
}

KEEPS(is_given_tasks)
{
	struct task_struct *p = bpf_task_acquire((void *)ctx[0]);
	struct value *value = keeping((void *)ctx[0]);

	scx_bpf_task_cpu((void *)ctx[0]);
	scx_bpf_task_cpu(bpf_get_current_task_btf());
	if (!p)
		return 0;
	scx_bpf_task_cpu(p);
	bpf_task_release(p);
	if (value && value->task)
		scx_bpf_task_cpu(value->task);
	return 0;
}

BREAKS(keeps_something_for_a_cgroup_as_a_task, "bad-pointer: bpf_task_storage_get expects a task_struct, but the argument is")
{
	struct cgroup *root = bpf_cgroup_from_id(1);

	if (!root)
		return 0;
	bpf_task_storage_get(&storage, (void *)root, NULL, 0);
	bpf_cgroup_release(root);
	return 0;
}

KEEPS(keeps_something_for_no_task)
{
	bpf_task_storage_get(&storage, NULL, NULL, 0);
	bpf_task_storage_delete(&storage, NULL);
	return 0;
}

BREAKS(is_given_a_task_as_a_mask, "bad-pointer: bpf_cpumask_test_cpu expects a cpumask, but the argument is a pointer to")
{
	return bpf_cpumask_test_cpu(0, (void *)ctx[0]);
}

BREAKS(is_given_an_object_as_a_mask, "bad-pointer: bpf_cpumask_test_cpu expects a cpumask, but the argument is a pointer to")
{
	struct plain *object = bpf_obj_new(struct plain);

	if (!object)
		return 0;
	bpf_cpumask_test_cpu(0, (void *)object);
	bpf_obj_drop(object);
	return 0;
}

BREAKS(reads_a_mask_across_the_end, "out-of-bounds: load of 1024 bytes")
{
	return bpf_cpumask_test_cpu(0, (void *)&masks[MASK_WORDS + 1] + 4);
}

KEEPS(reads_masks)
{
	struct task_struct *p = (void *)ctx[0];
	struct bpf_cpumask *mask = bpf_cpumask_create();
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	const struct cpumask *online = scx_bpf_get_online_cpumask();

	bpf_cpumask_test_cpu(0, p->cpus_ptr);
	bpf_cpumask_test_cpu(0, (void *)&((struct task_struct___mask *)p)->cpus_mask);
	bpf_cpumask_test_cpu(0, (void *)masks);
	bpf_cpumask_test_cpu(0, idle);
	bpf_cpumask_test_cpu(0, online);
	scx_bpf_put_idle_cpumask(idle);
	scx_bpf_put_cpumask(online);
	if (!mask)
		return 0;
	bpf_cpumask_test_cpu(0, (void *)mask);
	bpf_cpumask_release(mask);
	return 0;
}

/* Results of functions */

BREAKS(far_from_null, "untested: arithmetic on a pointer that may be NULL")
{
	u32 key = 77;
	void *value = bpf_map_lookup_elem(&hash, &key);

	return load(u64, value + (1 << 20));
}

BREAKS(far_from_a_spilled_null, "untested: arithmetic on a pointer that may be NULL")
{
	u32 key = 77;

	load(u64, in_stack(256)) = (u64)bpf_map_lookup_elem(&hash, &key);
	return load(u64, load(u64, in_stack(256)) + (1 << 20));
}

BREAKS(looks_at_the_first_after_it_unlocked, "use-after-unlock: load of 8 bytes")
{
	struct leaf *leaf = bpf_obj_new(struct leaf);
	struct bpf_rb_node *first;

	if (!leaf)
		return 0;
	bpf_spin_lock(&lock);
	bpf_rbtree_add(&leaves, &leaf->node);
	first = bpf_rbtree_first(&leaves);
	bpf_spin_unlock(&lock);
	return first ? load(u64, &container_of(first, struct leaf, node)->number) : 0;
}

BREAKS(behind_a_slice, "out-of-bounds: load of 8 bytes")
{
	struct bpf_dynptr ptr;
	u64 *slice;

	bpf_dynptr_from_mem(given, sizeof(given), 0, &ptr);
	slice = bpf_dynptr_data(&ptr, 0, 8);
	return slice ? load(u64, slice + 1) : 0;
}

BREAKS_SLEEPABLE(looks_at_a_task_after_its_section, "rcu: load of 4 bytes")
{
	struct task_struct *curr;

	bpf_rcu_read_lock();
	curr = scx_bpf_cpu_curr(0);
	bpf_rcu_read_unlock();
	return curr ? load(int, &curr->prio) : 0;
}

BREAKS(stores_to_the_number_of_an_iterator, "read-only: store of 4 bytes")
{
	struct bpf_iter_num it;
	int *number;

	bpf_iter_num_new(&it, 0, 3);
	number = bpf_iter_num_next(&it);
	if (number)
		load(int, number) = 1;
	bpf_iter_num_destroy(&it);
	return 0;
}

BREAKS(stores_through_a_word_beside_the_kernels, "read-only: store of 8 bytes")
{
	struct task_struct *p = (void *)load(u64, ctx[2]);

	load(u64, &p->scx.slice) = 1;
	return 0;
}

KEEPS(looks_at_an_element_made_again)
{
	struct value *value;

	fresh();
	delete();
	value = fresh();
	if (value)
		load(u64, &value->number) = 1;
	return 0;
}

/* Iterators and dynptrs */

KEEPS(reads_of_what_was_not_made)
{
	struct value *value = fresh();
	struct bpf_dynptr ptr;
	u64 word;

	if (!value)
		return 0;
	/* The flags are invalid, so the dynptr refers to no memory. */
	bpf_dynptr_from_mem(&value->number, 8, 1, &ptr);
	delete();
	bpf_dynptr_read(&word, 8, &ptr, 0, 0);
	return 0;
}

BREAKS(uses_a_dynptr_where_an_iterator_is, "bad-pointer: bpf_dynptr_read expects a bpf_dynptr")
{
	struct bpf_dynptr ptr;
	void *place = &ptr;
	u64 word;

	hide(place);
	bpf_dynptr_from_mem(given, sizeof(given), 0, &ptr);
	bpf_iter_num_new(place, 0, 3);
	bpf_dynptr_read(&word, 8, place, 0, 0);
	bpf_iter_num_destroy(place);
	return 0;
}

BREAKS(makes_an_iterator_over_another, "leak: makes_an_iterator_over_another returns without ending")
{
	struct bpf_iter_num it;

	bpf_iter_num_new(&it, 0, 3);
	bpf_iter_num_new(&it, 0, 3);
	bpf_iter_num_destroy(&it);
	return 0;
}

BREAKS(leaves_an_iterator_in_a_function, "leak: leaves_an_iterator_in_a_function returns without ending");
static __attribute__((noinline)) u64 begins(void)
{
	struct bpf_iter_num it;

	bpf_iter_num_new(&it, 0, 3);
	return 0;
}
u64 leaves_an_iterator_in_a_function(u64 *ctx)
{
	begins();
	return 0;
}

KEEPS(submits_one_of_two_records)
{
	struct bpf_dynptr first, second;
	u64 *data;

	bpf_ringbuf_reserve_dynptr(&ring, 8, 0, &first);
	bpf_ringbuf_reserve_dynptr(&ring, 8, 0, &second);
	data = bpf_dynptr_data(&second, 0, 8);
	bpf_ringbuf_submit_dynptr(&first, 0);
	if (data)
		load(u64, data) = 1;
	bpf_ringbuf_submit_dynptr(&second, 0);
	return 0;
}

/* Callbacks */

static __attribute__((noinline)) long reads_its_word(u64 index, u64 *word)
{
	return load(u64, word) == 0;
}

KEEPS(hands_on_a_local)
{
	u64 local = 7;

	hide(local);
	bpf_loop(1, reads_its_word, &local, 0);
	return 0;
}

BREAKS(hands_on_a_number, "bad-pointer: load of 8 bytes")
{
	u64 number = ctx[0];

	/* The sanitizer does not treat the result of this calculation as a pointer. */
	number = (number ^ 1) ^ (u64)load(u8, &constant) / 7;
	bpf_loop(1, reads_its_word, (void *)number, 0);
	return 0;
}

static __attribute__((noinline)) long uses_much_stack(u64 index, void *ctx)
{
	char room[280] = {};
	char *at = room;

	hide(at);
	return load(char, at);
}

BREAKS(a_callback_uses_too_much_stack, "stack-overflow: 2 nested functions")
{
	char room[280] = {};
	char *at = room;

	hide(at);
	bpf_loop(1, uses_much_stack, NULL, 0);
	return load(char, at);
}

static __attribute__((noinline)) long makes_a_dynptr(u64 index, void *ctx)
{
	struct bpf_dynptr ptr;

	bpf_dynptr_from_mem(given, sizeof(given), 0, &ptr);
	return 0;
}
static __attribute__((noinline)) u64 has_a_dynptr(void)
{
	struct bpf_dynptr ptr;
	struct bpf_dynptr *it = &ptr;

	hide(it);
	bpf_dynptr_read(given, 8, it, 0, 0);
	return 0;
}

BREAKS(uses_a_dynptr_of_a_callback, "bad-pointer: bpf_dynptr_read expects a bpf_dynptr")
{
	bpf_loop(1, makes_a_dynptr, NULL, 0);
	has_a_dynptr();
	return 0;
}

static __attribute__((noinline)) long looks_at_an_element(void *map, u32 *key, struct value *value, void *ctx)
{
	bpf_get_prandom_u32();
	return load(u64, &value->number) != 0;
}

KEEPS(looks_at_what_user_space_made_again)
{
	bpf_for_each_map_elem(&hash, looks_at_an_element, NULL, 0);
	return 0;
}

SCX_OPS(rules_ops, .name = "rules");
