/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tests of the sanitizer's rules about values: uninitialized registers, untested pointers, offsets,
 * and alignment. See rules.h.
 */
#include "rules.h"

private(A) struct bpf_spin_lock lock;
private(B) struct bpf_spin_lock other_lock;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, struct value);
} other_hash SEC(".maps");

/* Registers */

BREAKS(reads_a_register_without_a_value, "uninitialised: r9 is read")
{
	u64 value;

	asm volatile("%0 = r9" : "=r"(value));
	return value;
}

BREAKS(reads_an_argument_that_it_does_not_get, "uninitialised: r3 is read")
{
	u64 value;

	asm volatile("%0 = r3" : "=r"(value));
	return value;
}

BREAKS(reads_a_register_after_a_call, "uninitialised: r4 is read")
{
	u64 value;

	asm volatile("r4 = 1; call 7; %0 = r4" : "=r"(value) : : "r0", "r1", "r2", "r3", "r4", "r5");
	return value;
}

BREAKS(compares_a_register_without_a_value, "uninitialised: r8 is read")
{
	asm volatile goto("if r8 == 0 goto %l0" : : : : out);
	return 1;
out:
	return 0;
}

BREAKS(stores_a_register_without_a_value, "uninitialised: r7 is read")
{
	asm volatile("*(u64 *)(r10 - 8) = r7" : : : "memory");
	return 0;
}

BREAKS(reads_the_result_of_a_function_without_one, "uninitialised: r0 is read")
{
	u64 value;

	bpf_rcu_read_lock();
	bpf_rcu_read_unlock();
	bpf_rcu_read_lock();
	asm volatile("call bpf_rcu_read_unlock; %0 = r0" : "=r"(value) : : "r0", "r1", "r2", "r3", "r4", "r5");
	return value;
}

static __attribute__((noinline)) u64 returns_its_third_argument(void)
{
	u64 value;

	asm volatile("%0 = r3" : "=r"(value));
	return value;
}

BREAKS(hands_on_a_register_without_a_value, "uninitialised: r3 is read")
{
	u64 value;

	asm volatile("r1 = 1; r2 = 2; call returns_its_third_argument; %0 = r0"
		     : "=r"(value)
		     : "i"(returns_its_third_argument)
		     : "r0", "r1", "r2", "r3", "r4", "r5");
	return value;
}

BREAKS(returns_without_a_value, "uninitialised: r0 is read")
{
	register u64 result asm("r0");

	asm volatile("" : "=r"(result));
	return result;
}

static __attribute__((noinline)) long has_two_arguments(u64 index, void *ctx)
{
	u64 value;

	asm volatile("%0 = r3" : "=r"(value));
	return value != 0;
}

BREAKS(reads_an_argument_that_its_callback_does_not_get, "uninitialised: r3 is read")
{
	bpf_loop(1, has_two_arguments, NULL, 0);
	return 0;
}

KEEPS(reads_registers_that_it_set)
{
	u64 value;

	asm volatile("r9 = 7; %0 = r9; call 7; %0 += r0; r3 = 7; call returns_its_third_argument; %0 += r0"
		     : "=&r"(value)
		     : "i"(returns_its_third_argument)
		     : "r0", "r1", "r2", "r3", "r4", "r5", "r9");
	return value;
}

/*
 * If the program took the branch, r9 would have no value. The verifier knows the constant value in
 * the condition, so it knows that the branch is not taken.
 */
KEEPS(reads_a_register_that_is_set_on_the_path_taken)
{
	u64 value, seven = load(u64, &constant);

	asm volatile("if %1 != 7 goto +1; r9 = 7; %0 = r9" : "=&r"(value) : "r"(seven) : "r9");
	return value;
}

/* Locks */

BREAKS(holds_two_locks, "call-under-lock: bpf_spin_lock called while a lock is held")
{
	bpf_spin_lock(&lock);
	bpf_spin_lock(&other_lock);
	bpf_spin_unlock(&other_lock);
	bpf_spin_unlock(&lock);
	return 0;
}

KEEPS(holds_one_lock_after_the_other)
{
	bpf_spin_lock(&lock);
	bpf_spin_unlock(&lock);
	bpf_spin_lock(&other_lock);
	bpf_spin_unlock(&other_lock);
	return 0;
}

/* Timers */

BREAKS(names_another_map_for_its_timer, "bad-pointer: bpf_timer_init of a timer in map hash names map other_hash")
{
	struct value *value = fresh();

	if (value)
		bpf_timer_init(&value->timer, &other_hash, CLOCK_MONOTONIC);
	return 0;
}

KEEPS(names_the_map_of_its_timer)
{
	struct value *value = fresh();

	if (value)
		bpf_timer_init(&value->timer, &hash, CLOCK_MONOTONIC);
	return 0;
}

/* Results of callbacks */

static __attribute__((noinline)) long returns_7(u64 index, void *ctx)
{
	return 7;
}

BREAKS(its_callback_returns_7, "return-value: returns_7 returns 7")
{
	bpf_loop(1, returns_7, NULL, 0);
	return 0;
}

static __attribute__((noinline)) long element_returns_2(void *map, u32 *key, struct value *value, void *ctx)
{
	return 2;
}

BREAKS(its_callback_for_elements_returns_2, "return-value: element_returns_2 returns 2")
{
	fresh();
	bpf_for_each_map_elem(&hash, element_returns_2, NULL, 0);
	return 0;
}

static __attribute__((noinline)) long stops(u64 index, u64 *count)
{
	return ++*count == 2;
}

KEEPS(its_callback_ends_the_loop)
{
	u64 count = 0;

	bpf_loop(5, stops, &count, 0);
	return count;
}

/* Elements of iterators */

BREAKS(reads_a_number_after_its_iterator_ended, "use-after-free: load of 4 bytes")
{
	struct bpf_iter_num it;
	int *number;

	bpf_iter_num_new(&it, 0, 3);
	number = bpf_iter_num_next(&it);
	bpf_iter_num_destroy(&it);
	return number ? load(int, number) : 0;
}

BREAKS(reads_a_bit_after_its_iterator_ended, "use-after-free: load of 4 bytes")
{
	struct bpf_iter_bits it;
	u64 word = 5;
	int *bit;

	bpf_iter_bits_new(&it, &word, 1);
	bit = bpf_iter_bits_next(&it);
	bpf_iter_bits_destroy(&it);
	return bit ? load(int, bit) : 0;
}

BREAKS(reads_behind_a_number, "out-of-bounds: load of 8 bytes")
{
	struct bpf_iter_num it;
	int *number;

	bpf_iter_num_new(&it, 0, 3);
	number = bpf_iter_num_next(&it);
	if (number)
		load(u64, number);
	bpf_iter_num_destroy(&it);
	return 0;
}

KEEPS(reads_numbers_before_their_iterator_ends)
{
	struct bpf_iter_num it;
	int *first, *second, sum;

	bpf_iter_num_new(&it, 0, 3);
	first = bpf_iter_num_next(&it);
	second = bpf_iter_num_next(&it);
	sum = first && second ? load(int, first) + load(int, second) : 0;
	bpf_iter_num_destroy(&it);
	return sum;
}

/* Pointers that may be NULL */

BREAKS(adds_to_a_value_before_the_test, "untested: arithmetic on a pointer that may be NULL")
{
	void *value = fresh();

	asm volatile("%0 += 4" : "+r"(value));
	return value ? load(u8, value) : 0;
}

BREAKS(adds_to_null_before_the_test, "untested: arithmetic on a pointer that may be NULL")
{
	u32 key = 77;
	void *value = bpf_map_lookup_elem(&hash, &key);

	asm volatile("%0 += 4" : "+r"(value));
	return value ? 0 : 1;
}

BREAKS(reads_a_value_without_a_test, "untested: load of 8 bytes")
{
	struct value *value = fresh();

	return load(u64, &value->number);
}

BREAKS(reads_a_reserved_record_without_a_test, "untested: store of 8 bytes")
{
	u64 *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	load(u64, record) = 1;
	bpf_ringbuf_discard(record, 0);
	return 0;
}

BREAKS(releases_a_task_without_a_test, "untested: passed to bpf_task_release")
{
	bpf_task_release(bpf_task_acquire((void *)ctx[0]));
	return 0;
}

BREAKS(reads_a_kept_task_without_a_test, "untested: load of 4 bytes")
{
	struct value *value = keeping((void *)ctx[0]);

	return value ? load(int, &value->task->prio) : 0;
}

BREAKS(tests_another_value, "untested: load of 8 bytes")
{
	u32 key = 3;
	struct value *value = fresh(), *other, zero = {};

	bpf_map_update_elem(&hash, &key, &zero, BPF_ANY);
	other = bpf_map_lookup_elem(&hash, &key);
	return other ? load(u64, &value->number) : 0;
}

/*
 * If one copy of the pointer is tested, all copies in registers and on the stack count as tested.
 */
KEEPS(tests_a_copy_of_a_value)
{
	struct value *value = fresh(), *copy = value, *second;
	u64 sum;

	load(u64, in_stack(256)) = (u64)value;
	hide(copy);
	asm volatile("%0 = %1" : "=r"(second) : "r"(value));
	if (!copy)
		return 0;
	sum = load(u64, &second->number);
	second = (void *)load(u64, in_stack(256));
	return sum + load(u64, &second->number);
}

KEEPS(adds_to_a_value_after_the_test)
{
	void *value = fresh();

	if (!value)
		return 0;
	asm volatile("%0 += 4" : "+r"(value));
	return load(u8, value);
}

/*
 * The result of a look-up in an array may be NULL. Newer kernels require no test for NULL if they
 * know that the index is valid. The sanitizer never requires a test for an element of an array.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64);
} numbers SEC(".maps");

KEEPS(reads_a_known_element_without_a_test)
{
	u32 key = 1;

	return load(u64, bpf_map_lookup_elem(&numbers, &key));
}

/* Offsets */

BREAKS(reads_a_task_at_a_variable_offset, "variable-offset: load of 4 bytes")
{
	u64 offset = load(u64, &given[3]) & 8;

	return load(u32, ctx[0] + offset);
}

BREAKS(reads_a_task_at_an_offset_from_a_function, "variable-offset: load of 4 bytes")
{
	return load(u32, ctx[0] + (bpf_get_prandom_u32() & 8));
}

KEEPS(reads_a_task_at_constant_offsets)
{
	u64 offset = 8;

	hide(offset);
	return load(u32, ctx[0] + 16) + load(u32, ctx[0] + offset);
}

KEEPS(reads_globals_at_a_variable_offset)
{
	return load(u64, &given[bpf_get_prandom_u32() & 3]);
}

static long (*const bpf_probe_read_kernel)(void *dst, u32 size, const void *src) = (void *)113;

KEEPS(probes_a_task_at_a_variable_offset)
{
	u64 word = 0, offset = load(u64, &given[3]) & 8;

	bpf_probe_read_kernel(&word, sizeof(word), (void *)ctx[0] + offset);
	return word;
}

/* Alignment */

BREAKS(adds_atomically_across_words, "misaligned: atomic access of 8 bytes")
{
	__sync_fetch_and_add((u64 *)((void *)given + 4), 1);
	return 0;
}

BREAKS(exchanges_atomically_across_words, "misaligned: atomic access of 4 bytes")
{
	return __sync_val_compare_and_swap((u32 *)((void *)given + 2), 0, 1);
}

BREAKS(adds_atomically_across_words_of_the_stack, "misaligned: atomic access of 8 bytes")
{
	load(u64, in_stack(64)) = 0;
	load(u64, in_stack(56)) = 0;
	asm volatile("r1 = 1; lock *(u64 *)(r10 - 60) += r1" : : : "r1", "memory");
	return 0;
}

BREAKS(stores_across_words_of_the_stack, "misaligned: store of 8 bytes")
{
	asm volatile("r1 = 1; *(u64 *)(r10 - 60) = r1" : : : "r1", "memory");
	return 0;
}

BREAKS(loads_across_words_of_the_stack, "misaligned: load of 8 bytes")
{
	void *place = in_stack(64);

	load(u64, place) = 0;
	load(u64, place + 8) = 0;
	hide(place);
	return load(u64, place + 4);
}

KEEPS(adds_atomically_to_words)
{
	__sync_fetch_and_add(&given[2], 1);
	__sync_fetch_and_add((u32 *)&given[2] + 1, 1);
	return 0;
}

KEEPS(loads_across_words_of_globals)
{
	return load(u64, (void *)given + 4);
}

SCX_OPS(rules_ops, .name = "rules");
