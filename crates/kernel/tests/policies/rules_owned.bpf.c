/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tests of the sanitizer's rules about objects that own other objects, about objects with several
 * owners, and about arenas. See rules.h.
 */
#include "rules.h"

struct box {
	struct plain __kptr *plain;
	struct bpf_spin_lock lock;
	struct bpf_list_head notes __contains(note, node);
};

struct chest {
	struct bpf_cpumask __kptr *mask;
	struct counts __percpu_kptr *counts;
};

/* Objects that own other objects */

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

KEEPS(takes_back_a_mask_that_an_object_owns)
{
	struct chest *chest = bpf_obj_new(struct chest);
	struct bpf_cpumask *mask = bpf_cpumask_create();

	if (chest && mask)
		mask = bpf_kptr_xchg(&chest->mask, mask);
	if (mask)
		bpf_cpumask_release(mask);
	if (!chest)
		return 0;
	mask = bpf_kptr_xchg(&chest->mask, NULL);
	if (mask) {
		bpf_cpumask_set_cpu(1, mask);
		bpf_cpumask_release(mask);
	}
	bpf_obj_drop(chest);
	return 0;
}

BREAKS(changes_a_mask_of_a_dropped_object, "use-after-free: passed to bpf_cpumask_set_cpu")
{
	struct chest *chest = bpf_obj_new(struct chest);
	struct bpf_cpumask *mask = bpf_cpumask_create(), *owned = mask;

	if (chest && mask)
		mask = bpf_kptr_xchg(&chest->mask, mask);
	if (mask)
		bpf_cpumask_release(mask);
	if (!chest)
		return 0;
	bpf_obj_drop(chest);
	hide(owned);
	if (owned)
		bpf_cpumask_set_cpu(1, owned);
	return 0;
}

BREAKS(copies_of_what_a_dropped_object_owned, "use-after-free: passed to bpf_per_cpu_ptr")
{
	struct chest *chest = bpf_obj_new(struct chest);
	struct counts *counts = percpu_objects(), *owned = counts;

	if (chest && counts)
		counts = bpf_kptr_xchg(&chest->counts, counts);
	if (counts)
		drop_percpu(counts);
	if (!chest)
		return 0;
	bpf_obj_drop(chest);
	hide(owned);
	if (owned)
		bpf_per_cpu_ptr(owned, 1);
	return 0;
}

BREAKS(loads_what_an_object_owns, "special-field: load of 8 bytes")
{
	struct box *box = bpf_obj_new(struct box);
	struct plain *owned;

	if (!box)
		return 0;
	owned = box->plain;
	hide(owned);
	bpf_obj_drop(box);
	return 0;
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

/* Objects with several references */

struct bpf_refcount {
	u32 __opaque[1];
} __attribute__((aligned(4)));
struct shared {
	struct bpf_refcount refs;
	struct bpf_list_node node;
	u64 number;
};
struct shelf {
	struct bpf_spin_lock lock;
	struct bpf_list_head shared __contains(shared, node);
};
void *bpf_refcount_acquire_impl(void *object, void *meta) __ksym;
#define bpf_refcount_acquire(object) ((typeof(object))bpf_refcount_acquire_impl(object, NULL))

KEEPS(uses_the_second_of_two_references)
{
	struct shared *one = bpf_obj_new(struct shared), *two;

	if (!one)
		return 0;
	two = bpf_refcount_acquire(one);
	bpf_obj_drop(one);
	if (!two)
		return 0;
	load(u64, &two->number) = 1;
	bpf_obj_drop(two);
	return 0;
}

BREAKS(leaks_the_second_of_two_references, "leak: leaks_the_second_of_two_references returns and has not released a struct shared")
{
	struct shared *one = bpf_obj_new(struct shared);

	if (!one)
		return 0;
	bpf_refcount_acquire(one);
	bpf_obj_drop(one);
	return 0;
}

BREAKS(uses_the_first_of_two_references_after_it_dropped_that, "use-after-release: load of 8 bytes")
{
	struct shared *one = bpf_obj_new(struct shared), *two;

	if (!one)
		return 0;
	two = bpf_refcount_acquire(one);
	bpf_obj_drop(one);
	hide(one);
	load(u64, &one->number);
	if (two)
		bpf_obj_drop(two);
	return 0;
}

BREAKS(counts_references_itself, "special-field: store of 4 bytes")
{
	struct shared *one = bpf_obj_new(struct shared);

	if (!one)
		return 0;
	load(u32, &one->refs) = 7;
	bpf_obj_drop(one);
	return 0;
}

/*
 * Adds an object to the list of a new shelf, and drops the shelf. This drops the shelf's reference
 * to the object. Other references to the object remain valid.
 */
static __always_inline void shelve_and_drop(struct shared *shared)
{
	struct shelf *shelf = bpf_obj_new(struct shelf);

	if (!shelf) {
		bpf_obj_drop(shared);
		return;
	}
	bpf_spin_lock(&shelf->lock);
	bpf_list_push_back(&shelf->shared, &shared->node);
	bpf_spin_unlock(&shelf->lock);
	bpf_obj_drop(shelf);
}

KEEPS(holds_what_was_in_the_list_of_a_dropped_object)
{
	struct shared *one = bpf_obj_new(struct shared), *two;

	if (!one)
		return 0;
	two = bpf_refcount_acquire(one);
	shelve_and_drop(one);
	if (!two)
		return 0;
	load(u64, &two->number) = 1;
	shelve_and_drop(two);
	return 0;
}

BREAKS(drops_what_was_in_the_list_of_a_dropped_object, "use-after-")
{
	struct shared *one = bpf_obj_new(struct shared);

	if (!one)
		return 0;
	shelve_and_drop(one);
	hide(one);
	bpf_obj_drop(one);
	return 0;
}

/* Arenas */

#define __arena __attribute__((address_space(1)))

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, 1 << 10 /* BPF_F_MMAPABLE */);
	__uint(max_entries, 4);
	__uint(map_extra, 1ULL << 44);
} arena SEC(".maps");
void __arena *bpf_arena_alloc_pages(void *map, void __arena *at, u32 pages, int node, u64 flags) __ksym;
void bpf_arena_free_pages(void *map, void __arena *at, u32 pages) __ksym;

/*
 * Stores through two pointers into the arena: the pointer that bpf_arena_alloc_pages() has
 * returned, and a pointer that the program has cast from
 * the arena's address space to that of the program.
 */
KEEPS(stores_to_its_pages)
{
	u64 __arena *page = bpf_arena_alloc_pages(&arena, NULL, 1, -1, 0);

	if (!page)
		return 0;
	asm volatile("*(u64 *)(%0 + 8) = 1" ::"r"(page) : "memory");
	*(volatile u64 __arena *)page = page[1];
	bpf_arena_free_pages(&arena, page, 1);
	return 0;
}

BREAKS(loads_from_a_page_it_freed, "arena-unallocated: load of 8 bytes")
{
	u64 __arena *page = bpf_arena_alloc_pages(&arena, NULL, 1, -1, 0);

	if (!page)
		return 0;
	bpf_arena_free_pages(&arena, page, 1);
	return *(volatile u64 __arena *)page;
}

BREAKS(locks_in_the_arena, "bad-pointer: bpf_spin_lock expects a bpf_spin_lock")
{
	u64 __arena *page = bpf_arena_alloc_pages(&arena, NULL, 1, -1, 0);

	if (!page)
		return 0;
	bpf_spin_lock((struct bpf_spin_lock *)page);
	bpf_spin_unlock((struct bpf_spin_lock *)page);
	return 0;
}

SCX_OPS(rules_ops, .name = "rules");
