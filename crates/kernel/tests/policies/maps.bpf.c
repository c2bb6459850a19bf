/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * maps: test programs for all kinds of maps. A program returns 0 if all its checks succeed,
 * otherwise the number of the source line with the failed check.
 */
#include "syscalls.h"

static long (*const for_each_map_elem)(void *map, void *callback, void *ctx, u64 flags) = (void *)164;
static void *(*const lookup_percpu_elem)(void *map, const void *key, u32 cpu) = (void *)195;
static long (*const ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static void *(*const ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const ringbuf_submit)(void *data, u64 flags) = (void *)132;
static void (*const ringbuf_discard)(void *data, u64 flags) = (void *)133;
static u64 (*const ringbuf_query)(void *ring, u64 flags) = (void *)134;
static long (*const user_ringbuf_drain)(void *ring, void *callback, void *ctx, u64 flags) = (void *)209;
static void *(*const cgrp_storage_get)(void *map, struct cgroup *cgrp, void *value, u64 flags) = (void *)210;
static long (*const cgrp_storage_delete)(void *map, struct cgroup *cgrp) = (void *)211;
static long (*const perf_event_output)(void *ctx, void *map, u64 flags, void *data, u64 size) = (void *)25;
static long (*const perf_event_read_value)(void *map, u64 flags, void *buf, u32 size) = (void *)55;
static long (*const perf_event_read)(void *map, u64 flags) = (void *)22;
static u64 (*const get_current_cgroup_id)(void) = (void *)80;
static u64 (*const get_current_ancestor_cgroup_id)(int level) = (void *)123;
static u32 (*const get_numa_node_id)(void) = (void *)42;

#define BPF_F_LOCK 4
#define BPF_F_CURRENT_CPU 0xffffffffULL
#define RB_AVAIL_DATA 0
#define RB_RING_SIZE 1
#define RB_NO_WAKEUP 1

struct locked {
	struct bpf_spin_lock lock;
	u32 value;
};

MAP(percpu_hash, 5, 2, u32, struct pair);
MAP(lru_hash, 9, 3, u64, u64);
MAP(lru_percpu_hash, 10, 2, u64, u64);
MAP(hash, 1, 2, struct pair, u32);
MAP(locked, 1, 2, u32, struct locked);
MAP(array, 2, 3, u32, u64);
MAP(percpu_array, 6, 2, u32, u64);
struct {
	__uint(type, 32);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} cgrp_storage SEC(".maps");
struct {
	__uint(type, 27);
	__uint(max_entries, 4096);
} ring SEC(".maps");
struct {
	__uint(type, 27);
	__uint(max_entries, 12288);
} odd_ring SEC(".maps");
struct {
	__uint(type, 31);
	__uint(max_entries, 4096);
} user_ring SEC(".maps");
struct {
	__uint(type, 4);
	__uint(key_size, 4);
	__uint(value_size, 4);
} events SEC(".maps");

struct inner {
	__uint(type, 2);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
};
struct inner one SEC(".maps"), two SEC(".maps");
struct {
	__uint(type, 12);
	__uint(max_entries, 3);
	__type(key, u32);
	__array(values, struct inner);
} array_of_maps SEC(".maps") = { .values = { [0] = &one, [2] = &two } };
struct {
	__uint(type, 13);
	__uint(max_entries, 3);
	__type(key, u32);
	__array(values, struct inner);
} hash_of_maps SEC(".maps") = { .values = { [1] = &one, [2] = &two } };

SEC("syscall") int test_percpu_hash(void *ctx)
{
	struct pair *mine, *other, value = { 1, 2 };
	u32 key = 7, more = 8, last = 9;

	CHECK(!bpf_map_lookup_elem(&percpu_hash, &key));
	CHECK(bpf_map_update_elem(&percpu_hash, &key, &value, BPF_EXIST) == -ENOENT);
	CHECK(bpf_map_update_elem(&percpu_hash, &key, &value, BPF_NOEXIST) == 0);
	CHECK(bpf_map_update_elem(&percpu_hash, &key, &value, BPF_NOEXIST) == -EEXIST);
	CHECK(bpf_map_update_elem(&percpu_hash, &key, &value, 3) == -EINVAL);
	mine = bpf_map_lookup_elem(&percpu_hash, &key);
	CHECK(mine && mine->first == 1 && mine->second == 2);
	/* The update has created a value for this CPU only. The values for other CPUs are zero. */
	other = lookup_percpu_elem(&percpu_hash, &key, 1);
	CHECK(other && other != mine && !other->first && !other->second);
	CHECK(lookup_percpu_elem(&percpu_hash, &key, 0) == mine);
	CHECK(!lookup_percpu_elem(&percpu_hash, &key, 2));
	CHECK(bpf_map_update_elem(&percpu_hash, &more, &value, BPF_ANY) == 0);
	CHECK(bpf_map_update_elem(&percpu_hash, &last, &value, BPF_ANY) == -E2BIG);
	CHECK(bpf_map_delete_elem(&percpu_hash, &key) == 0);
	CHECK(bpf_map_delete_elem(&percpu_hash, &key) == -ENOENT);
	CHECK(bpf_map_update_elem(&percpu_hash, &last, &value, BPF_ANY) == 0);
	return 0;
}

SEC("syscall") int test_lru_hash(void *ctx)
{
	u64 key, value = 1;

	for (key = 1; key <= 3; key++)
		CHECK(bpf_map_update_elem(&lru_hash, &key, &value, BPF_NOEXIST) == 0);
	key = 1;
	CHECK(bpf_map_lookup_elem(&lru_hash, &key));
	/*
	 * The insertion of key 4 evicts the element with key 2, which was used least recently.
	 */
	key = 4;
	CHECK(bpf_map_update_elem(&lru_hash, &key, &value, BPF_EXIST) == -ENOENT);
	CHECK(bpf_map_update_elem(&lru_hash, &key, &value, BPF_ANY) == 0);
	key = 2;
	CHECK(!bpf_map_lookup_elem(&lru_hash, &key));
	CHECK(bpf_map_delete_elem(&lru_hash, &key) == -ENOENT);
	key = 3;
	CHECK(bpf_map_lookup_elem(&lru_hash, &key));
	key = 1;
	CHECK(bpf_map_lookup_elem(&lru_hash, &key));
	key = 4;
	CHECK(bpf_map_lookup_elem(&lru_hash, &key));
	CHECK(bpf_map_delete_elem(&lru_hash, &key) == 0);
	key = 5;
	CHECK(bpf_map_update_elem(&lru_hash, &key, &value, BPF_ANY) == 0);
	key = 3;
	CHECK(bpf_map_lookup_elem(&lru_hash, &key));
	for (key = 11; key <= 13; key++)
		CHECK(bpf_map_update_elem(&lru_percpu_hash, &key, &value, BPF_ANY) == 0);
	key = 11;
	CHECK(!bpf_map_lookup_elem(&lru_percpu_hash, &key));
	key = 13;
	CHECK(bpf_map_lookup_elem(&lru_percpu_hash, &key) && lookup_percpu_elem(&lru_percpu_hash, &key, 1));
	return 0;
}

static long sum(void *map, struct pair *key, u32 *value, u64 *total)
{
	*total += key->first * 100 + *value;
	return key->second == 99;
}

SEC("syscall") int test_hash(void *ctx)
{
	struct pair a = { 1, 1 }, b = { 2, 1 }, c = { 3, 1 };
	u32 value = 5;
	u64 total = 0;

	CHECK(for_each_map_elem(&hash, sum, &total, 0) == 0);
	CHECK(bpf_map_update_elem(&hash, &a, &value, BPF_ANY) == 0);
	value = 6;
	CHECK(bpf_map_update_elem(&hash, &b, &value, BPF_ANY) == 0);
	CHECK(bpf_map_update_elem(&hash, &c, &value, BPF_ANY) == -E2BIG);
	/* In a full map, existing elements can still be updated. */
	CHECK(bpf_map_update_elem(&hash, &b, &value, BPF_EXIST) == 0);
	CHECK(for_each_map_elem(&hash, sum, &total, 0) == 2 && total == 311);
	CHECK(for_each_map_elem(&hash, sum, &total, 1) == -EINVAL);
	CHECK(bpf_map_update_elem(&hash, &b, &value, BPF_F_LOCK) == -EINVAL);
	CHECK(bpf_map_delete_elem(&hash, &a) == 0);
	c.second = 99;
	CHECK(bpf_map_update_elem(&hash, &c, &value, BPF_NOEXIST) == 0);
	total = 0;
	CHECK(for_each_map_elem(&hash, sum, &total, 0) >= 1 && total >= 306);
	return 0;
}

SEC("syscall") int test_locked(void *ctx)
{
	struct locked *there, value = { .value = 7 };
	u32 key = 1;

	*(volatile u32 *)&value = 5;
	CHECK(bpf_map_update_elem(&locked, &key, &value, BPF_F_LOCK | BPF_NOEXIST) == 0);
	there = bpf_map_lookup_elem(&locked, &key);
	/* An update with BPF_F_LOCK must not overwrite the lock. */
	CHECK(there && there->value == 7 && !*(volatile u32 *)there);
	return 0;
}

SEC("syscall") int test_arrays(void *ctx)
{
	u64 value = 9, *found;
	u32 key = 3;

	CHECK(!bpf_map_lookup_elem(&array, &key));
	CHECK(bpf_map_update_elem(&array, &key, &value, BPF_ANY) == -E2BIG);
	key = 2;
	CHECK(bpf_map_update_elem(&array, &key, &value, BPF_NOEXIST) == -EEXIST);
	CHECK(bpf_map_update_elem(&array, &key, &value, BPF_EXIST) == 0);
	/*
	 * BPF_F_LOCK is invalid because the values of the array have no lock. The kernel checks
	 * first whether the element exists.
	 */
	CHECK(bpf_map_update_elem(&array, &key, &value, BPF_F_LOCK) == -EINVAL);
	CHECK(bpf_map_update_elem(&array, &key, &value, BPF_F_LOCK | BPF_NOEXIST) == -EEXIST);
	key = 3;
	CHECK(bpf_map_update_elem(&array, &key, &value, BPF_F_LOCK) == -E2BIG);
	CHECK(bpf_map_update_elem(&array, &key, &value, BPF_F_LOCK | 3) == -EINVAL);
	key = 2;
	CHECK(bpf_map_delete_elem(&array, &key) == -EINVAL);
	found = bpf_map_lookup_elem(&array, &key);
	CHECK(found && *found == 9);
	key = 1;
	CHECK(bpf_map_update_elem(&percpu_array, &key, &value, BPF_ANY) == 0);
	found = lookup_percpu_elem(&percpu_array, &key, 1);
	CHECK(found && *found == 0);
	found = bpf_map_lookup_elem(&percpu_array, &key);
	CHECK(found && *found == 9);
	return 0;
}

MAP(lru_locked, 9, 2, u32, struct locked);

SEC("syscall") int test_no_locked_update(void *ctx)
{
	struct locked value = {};
	u32 key = 1;

	CHECK(bpf_map_update_elem(&lru_locked, &key, &value, BPF_F_LOCK) == -EINVAL);
	CHECK(bpf_map_update_elem(&lru_locked, &key, &value, BPF_EXIST) == -ENOENT);
	CHECK(bpf_map_update_elem(&lru_locked, &key, &value, BPF_ANY) == 0);
	return 0;
}

SEC("syscall") int look_up_percpu_elem_of_hash(void *ctx)
{
	u32 key = 1;

	return !!lookup_percpu_elem(&hash, &key, 0);
}

SEC("syscall") int test_array_of_maps(void *ctx)
{
	u32 key = 2, none = 1, beyond = 3, entry = 1, bad = 2;
	u64 value = 4, *found;
	void *inner;

	CHECK(!bpf_map_lookup_elem(&array_of_maps, &none));
	CHECK(!bpf_map_lookup_elem(&array_of_maps, &beyond));
	inner = bpf_map_lookup_elem(&array_of_maps, &key);
	CHECK(inner == &two);
	CHECK(bpf_map_update_elem(inner, &entry, &value, BPF_ANY) == 0);
	CHECK(bpf_map_update_elem(inner, &bad, &value, BPF_ANY) == -E2BIG);
	found = bpf_map_lookup_elem(&two, &entry);
	CHECK(found && *found == 4);
	return 0;
}

SEC("syscall") int test_hash_of_maps(void *ctx)
{
	u32 key = 1, none = 0, entry = 0;
	u64 value = 6, *found;
	void *inner;

	CHECK(!bpf_map_lookup_elem(&hash_of_maps, &none));
	inner = bpf_map_lookup_elem(&hash_of_maps, &key);
	CHECK(inner == &one);
	CHECK(bpf_map_update_elem(inner, &entry, &value, BPF_ANY) == 0);
	found = bpf_map_lookup_elem(&one, &entry);
	CHECK(found && *found == 6);
	return 0;
}

SEC("syscall") int change_map_of_maps(void *ctx)
{
	u32 key = 1;
	void *map = &one;

	return bpf_map_update_elem(&array_of_maps, &key, &map, BPF_ANY);
}

SEC("syscall") int delete_map_of_maps(void *ctx)
{
	u32 key = 1;

	return bpf_map_delete_elem(&hash_of_maps, &key);
}

SEC("syscall") int test_cgrp_storage(void *ctx)
{
	struct cgroup *root = bpf_cgroup_from_id(1), *child = bpf_cgroup_from_id(24);
	u64 init = 5, *found, *other;

	CHECK(root && child);
	CHECK(!bpf_cgroup_from_id(77));
	CHECK(!cgrp_storage_get(&cgrp_storage, root, NULL, 0));
	CHECK(!cgrp_storage_get(&cgrp_storage, NULL, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE));
	CHECK(!cgrp_storage_get(&cgrp_storage, root, NULL, 2));
	found = cgrp_storage_get(&cgrp_storage, root, &init, BPF_LOCAL_STORAGE_GET_F_CREATE);
	CHECK(found && *found == 5);
	*found = 6;
	other = cgrp_storage_get(&cgrp_storage, child, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	CHECK(other && other != found && *other == 0);
	found = cgrp_storage_get(&cgrp_storage, root, &init, BPF_LOCAL_STORAGE_GET_F_CREATE);
	CHECK(found && *found == 6);
	CHECK(cgrp_storage_delete(&cgrp_storage, root) == 0);
	CHECK(cgrp_storage_delete(&cgrp_storage, root) == -ENOENT);
	CHECK(cgrp_storage_delete(&cgrp_storage, NULL) == -EINVAL);
	CHECK(!cgrp_storage_get(&cgrp_storage, root, NULL, 0));
	bpf_cgroup_release(root);
	bpf_cgroup_release(child);
	return 0;
}

static void *(*const kptr_xchg)(void *place, void *value) = (void *)194;
static long (*const task_storage_delete)(void *map, struct task_struct *p) = (void *)157;

SEC("syscall") int delete_storage_of_nobody(void *ctx)
{
	return task_storage_delete(&cgrp_storage, NULL);
}

SEC("syscall") int create_storage_of_a_map(void *ctx)
{
	return !!cgrp_storage_get(&cgrp_storage, (void *)&cgrp_storage, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

struct keeps {
	struct task_struct __attribute__((btf_type_tag("kptr"))) *task;
};
MAP(keeps, 1, 2, u32, struct keeps);

/*
 * Stores a reference to a cgroup in a kptr for tasks. Only the sanitizer reports this. When the
 * element is deleted, the reference is released as a reference to a cgroup, because the object is
 * one.
 */
SEC("syscall") int test_wrong_kptr(void *ctx)
{
	struct cgroup *cgrp = bpf_cgroup_from_id(1);
	struct keeps *kept, none = {};
	u32 key = 1;

	CHECK(cgrp && !bpf_map_update_elem(&keeps, &key, &none, BPF_ANY));
	kept = bpf_map_lookup_elem(&keeps, &key);
	CHECK(kept && !kptr_xchg(&kept->task, cgrp));
	CHECK(bpf_map_delete_elem(&keeps, &key) == 0);
	return 0;
}

SEC("syscall") int test_ringbuf(void *ctx)
{
	u64 value = 3, *record, *last;
	int i;

	CHECK(ringbuf_query(&ring, RB_RING_SIZE) == 4096);
	/* libbpf rounds the size up to a power of two. */
	CHECK(ringbuf_query(&odd_ring, RB_RING_SIZE) == 16384);
	CHECK(!ringbuf_reserve(&ring, 8, 1));
	CHECK(!ringbuf_reserve(&ring, 4096, 0));
	CHECK(ringbuf_output(&ring, &value, sizeof(value), 4) == -EINVAL);
	CHECK(ringbuf_output(&ring, &value, sizeof(value), RB_NO_WAKEUP) == 0);
	CHECK(ringbuf_query(&ring, RB_AVAIL_DATA) == 16);
	record = ringbuf_reserve(&ring, 1, 0);
	CHECK(record);
	*(u8 *)record = 1;
	ringbuf_discard(record, 0);
	CHECK(ringbuf_query(&ring, RB_AVAIL_DATA) == 32);
	/*
	 * 254 more records of 16 bytes would fill the buffer completely, but its last byte must
	 * remain free.
	 */
	for (i = 0; i < 253; i++) {
		last = ringbuf_reserve(&ring, 8, 0);
		CHECK(last);
		ringbuf_submit(last, 0);
	}
	CHECK(!ringbuf_reserve(&ring, 8, 0));
	CHECK(ringbuf_output(&ring, &value, sizeof(value), 0) == -11);
	return 0;
}

static long drained(void *dynptr, u64 *count)
{
	(*count)++;
	return 0;
}

SEC("syscall") int test_user_ringbuf(void *ctx)
{
	u64 count = 0;

	CHECK(user_ringbuf_drain(&user_ring, drained, &count, 4) == -EINVAL);
	CHECK(user_ringbuf_drain(&user_ring, drained, &count, 0) == 0 && count == 0);
	return 0;
}

SEC("syscall") int test_events(void *ctx)
{
	u64 data = 1, value[3] = { 1, 1, 1 };

	/* The perf event array has one entry for each of the two CPUs. All entries are empty. */
	CHECK(perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &data, sizeof(data)) == -ENOENT);
	CHECK(perf_event_output(ctx, &events, 1, &data, sizeof(data)) == -ENOENT);
	CHECK(perf_event_output(ctx, &events, 2, &data, sizeof(data)) == -E2BIG);
	CHECK(perf_event_output(ctx, &events, 1ULL << 52, &data, sizeof(data)) == -EINVAL);
	CHECK(perf_event_read_value(&events, BPF_F_CURRENT_CPU, value, sizeof(value)) == -ENOENT);
	CHECK(!value[0] && !value[1] && !value[2]);
	value[0] = value[1] = 1;
	CHECK(perf_event_read_value(&events, 0, value, 8) == -EINVAL && !value[0] && value[1]);
	CHECK(perf_event_read_value(&events, 2, value, sizeof(value)) == -E2BIG);
	CHECK(perf_event_read_value(&events, 1ULL << 32, value, sizeof(value)) == -EINVAL);
	CHECK(perf_event_read(&events, 1) == -ENOENT && perf_event_read(&events, 2) == -E2BIG);
	CHECK(perf_event_read(&events, 1ULL << 32) == -EINVAL);
	return 0;
}

static long drained_within(void *dynptr, u64 *result)
{
	*result = user_ringbuf_drain(&user_ring, drained, result, 0);
	return 1;
}

SEC("syscall") int drain_within_drain(void *ctx)
{
	u64 result = 0;

	CHECK(user_ringbuf_drain(&user_ring, drained_within, &result, 0) == 1);
	CHECK(result == -EBUSY);
	CHECK(user_ringbuf_drain(&user_ring, drained_within, &result, 0) == 1);
	return 0;
}

struct {
	__uint(type, 33);
	__uint(map_flags, 1024);
	__uint(max_entries, 4);
} arena SEC(".maps");
void *bpf_arena_alloc_pages(void *map, void *addr, u32 page_cnt, int node_id, u64 flags) __ksym;
void bpf_arena_free_pages(void *map, void *ptr, u32 page_cnt) __ksym;

SEC("syscall") int test_arena(void *ctx)
{
	CHECK(!bpf_arena_alloc_pages(&arena, NULL, 1, 1, 0) && !bpf_arena_alloc_pages(&arena, NULL, 1, -2, 0));
	CHECK(!bpf_arena_alloc_pages(&arena, NULL, 0, -1, 0) && !bpf_arena_alloc_pages(&arena, NULL, 5, -1, 0));
	CHECK(!bpf_arena_alloc_pages(&arena, NULL, 1, -1, 1) && !bpf_arena_alloc_pages(&arena, (void *)8, 1, -1, 0));
	/* Takes all pages except for page 0. A call that frees pages at NULL has no effect. */
	CHECK(bpf_arena_alloc_pages(&arena, NULL, 3, 0, 0));
	bpf_arena_free_pages(&arena, NULL, 4);
	CHECK(!bpf_arena_alloc_pages(&arena, NULL, 1, -1, 0));
	return 0;
}

SEC("syscall") int test_current(void *ctx)
{
	CHECK(get_current_cgroup_id() == 1);
	CHECK(get_current_ancestor_cgroup_id(0) == 1 && get_current_ancestor_cgroup_id(1) == 0);
	CHECK(get_numa_node_id() == 0);
	return 0;
}

static long (*const seq_printf)(void *m, const char *fmt, u32 fmt_size, const void *data, u32 data_len) = (void *)126;
static long (*const seq_write)(void *m, const void *data, u32 len) = (void *)127;

struct bpf_iter_meta {
	void *seq;
	u64 session_id;
	u64 seq_num;
} __attribute__((preserve_access_index));
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));

SEC("iter/task") int list_tasks(struct bpf_iter__task *ctx)
{
	static const char format[] = "%d is number %llu of %s\n";
	struct task_struct *p = ctx->task;
	u64 data[3];

	if (!p)
		return seq_write(ctx->meta->seq, "the end\n", 8);
	data[0] = p->pid;
	data[1] = ctx->meta->seq_num;
	data[2] = (u64)p->comm;
	return seq_printf(ctx->meta->seq, format, sizeof(format), data, sizeof(data));
}

SCX_OPS(maps_ops, .name = "maps");
