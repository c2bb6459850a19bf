/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * objects: test programs for allocated objects, timers and printing, and for the effects of map
 * updates.
 */
#include "syscalls.h"

static void *(*const kptr_xchg)(void *place, void *value) = (void *)194;
static void *(*const per_cpu_ptr)(const void *ptr, u32 cpu) = (void *)153;
static void *(*const this_cpu_ptr)(const void *ptr) = (void *)154;
void *bpf_percpu_obj_new_impl(u64 local_type_id, void *meta) __ksym;
void bpf_percpu_obj_drop_impl(void *p, void *meta) __ksym;
int bpf_strcasecmp(const char *a, const char *b) __ksym;
int bpf_strncasecmp(const char *a, const char *b, unsigned long len) __ksym;
int bpf_strnchr(const char *s, unsigned long count, char c) __ksym;
int bpf_strchrnul(const char *s, char c) __ksym;
int bpf_strrchr(const char *s, int c) __ksym;
int bpf_strspn(const char *s, const char *accept) __ksym;
int bpf_strcspn(const char *s, const char *reject) __ksym;
int bpf_strnstr(const char *a, const char *b, unsigned long len) __ksym;
int bpf_strcasestr(const char *a, const char *b) __ksym;

struct {
	__uint(type, 27);
	__uint(max_entries, 4096);
} ring SEC(".maps");

struct bpf_dynptr {
	u64 __opaque[2];
} __attribute__((aligned(8)));
static long (*const dynptr_from_mem)(void *data, u64 size, u64 flags, struct bpf_dynptr *ptr) = (void *)197;
static long (*const ringbuf_reserve_dynptr)(void *ring, u32 size, u64 flags, struct bpf_dynptr *ptr) = (void *)198;
static void (*const ringbuf_discard_dynptr)(struct bpf_dynptr *ptr, u64 flags) = (void *)200;
static long (*const dynptr_write)(const struct bpf_dynptr *ptr, u64 offset, void *src, u64 len, u64 flags) = (void *)202;
int bpf_dynptr_copy(const struct bpf_dynptr *dst, u64 dst_off, const struct bpf_dynptr *src, u64 src_off, u64 size) __ksym;
int bpf_dynptr_memset(const struct bpf_dynptr *p, u64 offset, u64 size, u8 value) __ksym;

struct pair dynptr_memory;

SEC("syscall") int test_dynptrs(void *ctx)
{
	struct bpf_dynptr some, none;
	u64 value = 7;

	CHECK(dynptr_from_mem(&dynptr_memory, sizeof(dynptr_memory), 1, &some) == -EINVAL);
	CHECK(dynptr_from_mem(&dynptr_memory, sizeof(dynptr_memory), 0, &some) == 0);
	CHECK(ringbuf_reserve_dynptr(&ring, 8, 1, &none) == -EINVAL);
	/* The offset is checked before the flags, so the first call fails because of its offset. */
	CHECK(dynptr_write(&some, 16, &value, 8, 1) == -E2BIG && dynptr_write(&some, 8, &value, 8, 1) == -EINVAL);
	CHECK(dynptr_write(&some, 8, &value, 8, 0) == 0 && dynptr_memory.second == 7);
	CHECK(dynptr_write(&none, 0, &value, 8, 0) == -EINVAL);
	CHECK(bpf_dynptr_memset(&some, 8, 8, 1) == 0 && bpf_dynptr_memset(&some, 9, 8, 1) == -E2BIG);
	CHECK(bpf_dynptr_memset(&none, 0, 8, 1) == -E2BIG && bpf_dynptr_memset(&none, 0, 0, 1) == 0);
	CHECK(bpf_dynptr_copy(&some, 0, &some, 8, 8) == 0 && dynptr_memory.first == dynptr_memory.second);
	CHECK(bpf_dynptr_copy(&some, 0, &none, 0, 8) == -EINVAL && bpf_dynptr_copy(&none, 0, &some, 0, 8) == -EINVAL);
	CHECK(bpf_dynptr_copy(&some, 0, &some, 9, 8) == -E2BIG && bpf_dynptr_copy(&none, 0, &none, 0, 8) == -E2BIG);
	CHECK(bpf_dynptr_copy(&none, 0, &none, 0, 0) == 0);
	ringbuf_discard_dynptr(&none, 0);
	return 0;
}

struct bpf_cpumask *bpf_cpumask_create(void) __ksym;
void bpf_cpumask_release(struct bpf_cpumask *mask) __ksym;
int bpf_cpumask_populate(struct bpf_cpumask *mask, void *src, unsigned long src__sz) __ksym;
u32 bpf_cpumask_first(const struct cpumask *mask) __ksym;
struct bpf_iter_bits {
	u64 __opaque[2];
} __attribute__((aligned(8)));
int bpf_iter_bits_new(struct bpf_iter_bits *it, const u64 *words, u32 nr_words) __ksym;
u8 some_bits[16] = { 0, 2 };

SEC("syscall") int test_bits(void *ctx)
{
	struct bpf_cpumask *mask = bpf_cpumask_create();
	struct bpf_iter_bits it;

	CHECK(mask && bpf_cpumask_populate(mask, some_bits, 7) == -13);
	CHECK(bpf_cpumask_populate(mask, some_bits + 1, 8) == 0 && bpf_cpumask_first((void *)mask) == 1);
	bpf_cpumask_release(mask);
	CHECK(bpf_iter_bits_new(&it, NULL, 1) == -EINVAL && bpf_iter_bits_new(&it, (void *)some_bits, 0) == -EINVAL);
	CHECK(bpf_iter_bits_new(&it, (void *)some_bits, 512) == -E2BIG);
	CHECK(bpf_iter_bits_new(&it, (void *)8, 1) == -14 && bpf_iter_bits_new(&it, (void *)8, 2) == -34);
	CHECK(bpf_iter_bits_new(&it, (void *)-4096UL, 2) == -14);
	return 0;
}

struct bpf_refcount {
	u32 __opaque[1];
} __attribute__((aligned(4)));
struct bpf_list_head {
	u64 __opaque[2];
} __attribute__((aligned(8)));
struct bpf_list_node {
	u64 __opaque[3];
} __attribute__((aligned(8)));
struct shared {
	struct bpf_refcount references;
	struct bpf_list_node node;
};
void *bpf_obj_new_impl(u64 local_type_id, void *meta) __ksym;
void bpf_obj_drop_impl(void *object, void *meta) __ksym;
void *bpf_refcount_acquire_impl(void *object, void *meta) __ksym;
int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta, u64 off) __ksym;
int bpf_list_add(struct bpf_list_head *head, struct bpf_list_node *new, struct bpf_list_node *prev) __ksym;
struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head) __ksym;
SEC(".data.list") struct bpf_spin_lock list_lock;
SEC(".data.list") struct bpf_list_head list __attribute__((btf_decl_tag("contains:shared:node")));

/* If a node cannot be added to a list, the kernel drops the reference to it. */
SEC("syscall") int test_refused_node(void *ctx)
{
	struct shared *a = bpf_obj_new_impl(__builtin_btf_type_id(*(struct shared *)0, 0), NULL), *again;
	struct bpf_list_node *node;

	CHECK(a);
	again = bpf_refcount_acquire_impl(a, NULL);
	CHECK(again == a && *(volatile u32 *)&a->references == 2);
	bpf_spin_lock(&list_lock);
	CHECK(bpf_list_push_back_impl(&list, &a->node, NULL, 0) == 0);
	CHECK(bpf_list_push_back_impl(&list, &again->node, NULL, 0) == -EINVAL);
	CHECK(*(volatile u32 *)&a->references == 1);
	again = bpf_refcount_acquire_impl(a, NULL);
	CHECK(bpf_list_add(&list, &again->node, &a->node) == -EINVAL && *(volatile u32 *)&a->references == 1);
	node = bpf_list_pop_front(&list);
	CHECK(node == &a->node && !bpf_list_pop_front(&list));
	bpf_spin_unlock(&list_lock);
	bpf_obj_drop_impl(a, NULL);
	return 0;
}

struct holder {
	struct bpf_spin_lock lock;
	struct bpf_list_head list __attribute__((btf_decl_tag("contains:shared:node")));
};

/*
 * If an object with a list is dropped, the nodes leave the list and lose one reference each. Other
 * references to a node remain valid, and the node can be added to another list.
 */
SEC("syscall") int test_dropped_list(void *ctx)
{
	struct shared *a = bpf_obj_new_impl(__builtin_btf_type_id(*(struct shared *)0, 0), NULL), *again;
	struct holder *holder = bpf_obj_new_impl(__builtin_btf_type_id(*(struct holder *)0, 0), NULL);

	CHECK(a && holder);
	again = bpf_refcount_acquire_impl(a, NULL);
	bpf_spin_lock(&holder->lock);
	CHECK(bpf_list_push_back_impl(&holder->list, &a->node, NULL, 0) == 0);
	bpf_spin_unlock(&holder->lock);
	CHECK(*(volatile u32 *)&again->references == 2);
	bpf_obj_drop_impl(holder, NULL);
	CHECK(*(volatile u32 *)&again->references == 1);
	bpf_spin_lock(&list_lock);
	CHECK(bpf_list_push_back_impl(&list, &again->node, NULL, 0) == 0);
	CHECK(bpf_list_pop_front(&list) == &again->node);
	bpf_spin_unlock(&list_lock);
	bpf_obj_drop_impl(again, NULL);
	return 0;
}

struct timed {
	struct bpf_timer timer;
	struct cgroup __attribute__((btf_type_tag("kptr"))) *cgrp;
};
MAP(timed_hash, 1, 2, u32, struct timed);
MAP(timed_array, 2, 2, u32, struct timed);
u64 timed;

static int on_time(void *map, u32 *key, struct timed *value)
{
	timed++;
	return 0;
}

/*
 * An update of an element cancels the timer in it. A reference in the element remains there if the
 * map is an array (`stays`), and is dropped if the map is a hash.
 */
static __always_inline int update_ends(void *map, bool stays)
{
	struct timed *value, fresh = {};
	struct cgroup *cgrp = bpf_cgroup_from_id(1);
	u32 key = 1;

	CHECK(cgrp && bpf_map_update_elem(map, &key, &fresh, BPF_ANY) == 0);
	value = bpf_map_lookup_elem(map, &key);
	CHECK(value && !kptr_xchg(&value->cgrp, cgrp));
	CHECK(bpf_timer_init(&value->timer, map, 1) == 0 && bpf_timer_init(&value->timer, map, 1) == -EBUSY);
	CHECK(bpf_timer_set_callback(&value->timer, on_time) == 0 && bpf_timer_start(&value->timer, 1000, 0) == 0);
	CHECK(bpf_map_update_elem(map, &key, &fresh, BPF_EXIST) == 0);
	CHECK(bpf_timer_start(&value->timer, 1000, 0) == -EINVAL && bpf_timer_init(&value->timer, map, 1) == 0);
	cgrp = kptr_xchg(&value->cgrp, NULL);
	CHECK(!!cgrp == stays);
	if (cgrp)
		bpf_cgroup_release(cgrp);
	return 0;
}

SEC("syscall") int test_update_of_hash(void *ctx)
{
	return update_ends(&timed_hash, false);
}

SEC("syscall") int test_update_of_array(void *ctx)
{
	return update_ends(&timed_array, true);
}

struct counts {
	u64 a, b;
};

SEC("syscall") int test_percpu_objects(void *ctx)
{
	struct counts *all = bpf_percpu_obj_new_impl(__builtin_btf_type_id(*(struct counts *)0, 0), NULL);
	struct counts *mine, *other;

	CHECK(all);
	mine = this_cpu_ptr(all);
	other = per_cpu_ptr(all, 1);
	CHECK(mine && other && mine != other && mine == per_cpu_ptr(all, 0));
	CHECK(!per_cpu_ptr(all, 2));
	mine->b = 5;
	CHECK(!mine->a && !other->b);
	bpf_percpu_obj_drop_impl(all, NULL);
	return 0;
}

SEC("syscall") int drop_percpu_twice(void *ctx)
{
	struct counts *all = bpf_percpu_obj_new_impl(__builtin_btf_type_id(*(struct counts *)0, 0), NULL);

	bpf_percpu_obj_drop_impl(all, NULL);
	bpf_percpu_obj_drop_impl(all, NULL);
	return 0;
}

struct bpf_wq {
	u64 __opaque[2];
};
int bpf_wq_init(struct bpf_wq *wq, void *map, unsigned int flags) __ksym;
int bpf_wq_start(struct bpf_wq *wq, unsigned int flags) __ksym;
int bpf_wq_set_callback(struct bpf_wq *wq, int(callback)(void *map, int *key, void *value), unsigned int flags) __ksym;
struct work {
	u64 before;
	struct bpf_wq wq;
};
MAP(works, 2, 2, u32, struct work);

u64 worked;
s32 worked_key = -1;

static int working(void *map, int *key, void *value)
{
	worked++;
	worked_key = *key;
	return 0;
}

SEC("syscall") int test_wq(void *ctx)
{
	struct work *work;
	u32 key = 1;

	work = bpf_map_lookup_elem(&works, &key);
	CHECK(work);
	CHECK(bpf_wq_start(&work->wq, 0) == -EINVAL);
	CHECK(bpf_wq_set_callback(&work->wq, working, 0) == -EINVAL);
	CHECK(bpf_wq_init(&work->wq, &works, 1) == -EINVAL);
	CHECK(bpf_wq_init(&work->wq, &works, 0) == 0);
	CHECK(bpf_wq_init(&work->wq, &works, 0) == -EBUSY);
	CHECK(bpf_wq_set_callback(&work->wq, working, 0) == 0);
	CHECK(bpf_wq_start(&work->wq, 1) == -EINVAL);
	CHECK(bpf_wq_start(&work->wq, 0) == 0);
	return 0;
}

SEC("syscall") int test_strings(void *ctx)
{
	static char mixed[] = "Kernel Sched", small[] = "kernel sched", part[] = "SCHED", set[] = "Kern", none[] = "z";

	CHECK(bpf_strcasecmp(mixed, small) == 0);
	CHECK(bpf_strcasecmp(mixed, part) == -1 && bpf_strcasecmp(part, mixed) == 1);
	CHECK(bpf_strncasecmp(mixed, "kernel panic", 7) == 0);
	CHECK(bpf_strncasecmp(mixed, "kernel panic", 8) == 1);
	CHECK(bpf_strnchr(mixed, 5, 'l') == -ENOENT && bpf_strnchr(mixed, 6, 'l') == 5);
	CHECK(bpf_strnchr(mixed, 99, 0) == 12 && bpf_strnchr(mixed, 12, 0) == -ENOENT);
	CHECK(bpf_strchrnul(mixed, 'z') == 12 && bpf_strchrnul(mixed, 'e') == 1);
	CHECK(bpf_strrchr(mixed, 'e') == 10 && bpf_strrchr(mixed, 'z') == -ENOENT);
	CHECK(bpf_strspn(mixed, set) == 5 && bpf_strcspn(mixed, none) == 12 && bpf_strcspn(mixed, set) == 0);
	CHECK(bpf_strnstr(mixed, "Sched", 11) == -ENOENT && bpf_strnstr(mixed, "Sched", 12) == 7);
	CHECK(bpf_strcasestr(mixed, part) == 7 && bpf_strcasestr(mixed, none) == -ENOENT);
	/*
	 * 8 and NULL are outside of the kernel's address range. -4096 is inside, but there is no
	 * memory at this address.
	 */
	CHECK(bpf_strcasecmp((char *)8, small) == -34 && bpf_strnchr(NULL, 0, 0) == -34);
	CHECK(bpf_strcasecmp((char *)-4096UL, small) == -14 && bpf_strncasecmp((char *)-4096UL, small, 0) == 0);
	CHECK(bpf_strrchr(mixed, 'e' + 256) == -ENOENT);
	return 0;
}

int bpf_stream_vprintk(int stream_id, const char *fmt, const void *args, u32 len) __ksym;
static long (*const trace_printk)(const char *fmt, u32 fmt_size, ...) = (void *)6;
static long (*const trace_vprintk)(const char *fmt, u32 fmt_size, const void *args, u32 len) = (void *)177;

SEC("syscall") int test_printing(void *ctx)
{
	static const char number[] = "%d\n", five[] = "%d%d%d%d", text[] = "text";
	u64 args[] = { 1 };

	CHECK(trace_printk(number, sizeof(number), 12) == 3 && trace_printk(number, sizeof(number) - 1, 12) == -EINVAL);
	CHECK(trace_printk(five, sizeof(five), 1, 2, 3) == -EINVAL);
	CHECK(trace_vprintk(number, sizeof(number), args, 8) == 2 && trace_vprintk(number, sizeof(number), NULL, 0) == -EINVAL);
	CHECK(trace_vprintk(text, sizeof(text), args, 4) == -EINVAL && trace_vprintk(text, sizeof(text), NULL, 8) == -EINVAL);
	CHECK(bpf_stream_vprintk(0, text, NULL, 0) == -ENOENT && bpf_stream_vprintk(3, text, NULL, 0) == -ENOENT);
	CHECK(bpf_stream_vprintk(1, text, NULL, 0) == 0 && bpf_stream_vprintk(2, number, args, 8) == 0);
	CHECK(bpf_stream_vprintk(1, number, NULL, 0) == -EINVAL && bpf_stream_vprintk(1, text, NULL, 8) == -EINVAL);
	return 0;
}

SCX_OPS(objects_ops, .name = "objects");
