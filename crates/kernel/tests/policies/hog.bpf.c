/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hog: a policy that allocates more and more memory. One of these macros selects the kind of
 * memory: OBJECTS, LIST, ELEMENTS, ARENA, QUEUE, RECORDS, DSQS, LOCKS, TIMERS, STARTS, LINES,
 * MASKS.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define MANY 8000000
#define NR_LOCKS (1 << 18)

struct node {
	struct bpf_list_node {
		u64 __opaque[3];
	} node;
	u64 rest[4];
};
struct bpf_list_head {
	u64 __opaque[2];
};
struct timed {
	struct bpf_timer timer;
};

void *bpf_obj_new_impl(u64 local_type_id, void *meta) __ksym;
int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta, u64 off) __ksym;
void *bpf_arena_alloc_pages(void *map, void *addr, u32 page_cnt, int node_id, u64 flags) __ksym;
struct bpf_cpumask *bpf_cpumask_create(void) __ksym;

#define MAP(name, kind, entries, key_type, value_type)                                             \
	struct {                                                                                   \
		__uint(type, kind);                                                                \
		__uint(max_entries, entries);                                                      \
		__type(key, key_type);                                                             \
		__type(value, value_type);                                                         \
	} name SEC(".maps")

#if defined(ELEMENTS)
MAP(hash, BPF_MAP_TYPE_HASH, MANY, u64, u64);
#elif defined(ARENA)
struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, 1 << 10);
	__uint(max_entries, 1 << 20);
} arena SEC(".maps");
#elif defined(QUEUE)
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, MANY);
	__type(value, u64);
} queue SEC(".maps");
#elif defined(RECORDS)
struct {
	__uint(type, 27 /* RINGBUF */);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");
static void *(*const ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
#elif defined(TIMERS)
MAP(timers, BPF_MAP_TYPE_ARRAY, 100000, u32, struct timed);
#elif defined(STARTS)
MAP(timers, BPF_MAP_TYPE_ARRAY, 1, u32, struct timed);
#elif defined(LOCKS)
u32 locks[NR_LOCKS];
#elif defined(LINES)
static const char format[] = "line %d";
static long (*const trace_printk)(const char *format, u32 size, ...) = (void *)6;
#elif defined(LIST)
struct bpf_list_head head;
u64 nodes[3 << 18];
#endif

#if defined(STARTS)
static int on_timer(void *map, u32 *key, struct timed *timed)
{
	return 0;
}
#endif

s32 SCX_OP_SLEEPABLE(hog_init)
{
	u64 i;

	for (i = 0; i < MANY; i++) {
#if defined(OBJECTS)
		bpf_obj_new_impl(__builtin_btf_type_id(*(struct node *)0, 0), NULL);
#elif defined(LIST)
		if (i < (1 << 18))
			bpf_list_push_back_impl(&head, (void *)&nodes[3 * i], NULL, 0);
#elif defined(ELEMENTS)
		bpf_map_update_elem(&hash, &i, &i, 0);
#elif defined(ARENA)
		bpf_arena_alloc_pages(&arena, NULL, 1, -1, 0);
#elif defined(QUEUE)
		bpf_map_push_elem(&queue, &i, 0);
#elif defined(RECORDS)
		ringbuf_reserve(&ring, 0, 0);
#elif defined(DSQS)
		scx_bpf_create_dsq(i, -1);
#elif defined(LOCKS)
		bpf_spin_lock((void *)&locks[i % NR_LOCKS]);
		bpf_spin_unlock((void *)&locks[i % NR_LOCKS]);
#elif defined(TIMERS) || defined(STARTS)
		u32 key = i;
		struct timed *timed;

#ifdef STARTS
		key = 0;
#endif
		timed = bpf_map_lookup_elem(&timers, &key);
		if (!timed)
			break;
		bpf_timer_init(&timed->timer, &timers, 7);
#ifdef STARTS
		bpf_timer_set_callback(&timed->timer, on_timer);
		bpf_timer_start(&timed->timer, 1000000000, 0);
#endif
#elif defined(LINES)
		trace_printk(format, sizeof(format), i);
#elif defined(MASKS)
		bpf_cpumask_create();
#endif
	}
	return 0;
}

SCX_OPS(hog_ops,
	.init = (void *)hog_init,
	.name = "hog");
