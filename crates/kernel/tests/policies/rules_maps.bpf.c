/* SPDX-License-Identifier: GPL-2.0-only */
/* Tests of the sanitizer's rules about per-CPU objects and maps of maps. See rules.h. */
#include "rules.h"

static void *(*const bpf_map_lookup_percpu_elem)(void *map, const void *key, u32 cpu) = (void *)195;
static void *(*const bpf_this_cpu_ptr)(const void *object) = (void *)154;

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

/* Per-CPU objects and values */

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

BREAKS(copy_of_null, "null-dereference: NULL passed to bpf_per_cpu_ptr")
{
	bpf_per_cpu_ptr(NULL, 0);
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

/* Maps of maps */

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

SCX_OPS(rules_ops, .name = "rules");
