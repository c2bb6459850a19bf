/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Attacks that request more memory than the host has, and attacks whose code is expensive to
 * compile.
 *
 * Each ATTACK line below has the name of an attack, and how the attack must end. "ends" means that
 * any end is allowed. The text after "checked:" applies to runs with the sanitizer (--sanitize). To
 * compile an attack, its name in upper case is defined as a macro (see ../src/corpus.rs).
 *
 * ATTACK array_huge ends
 * ATTACK array_many ends
 * ATTACK value_huge ends
 * ATTACK hash_huge ends
 * ATTACK hash_fill ends
 * ATTACK hash_no_prealloc ends
 * ATTACK percpu_huge ends
 * ATTACK queue_huge ends
 * ATTACK ring_huge ends
 * ATTACK arena_huge ends
 * ATTACK arena_all_pages ends
 * ATTACK storage_huge ends
 * ATTACK key_huge ends
 * ATTACK obj_new_forever ends
 * ATTACK obj_new_huge ends
 * ATTACK cpumask_forever ends
 * ATTACK acquire_forever ends
 * ATTACK dsq_forever ends
 * ATTACK bss_huge ends
 * ATTACK values_thousands ends
 * ATTACK values_recursive ends
 * ATTACK function_giant ends
 * ATTACK branches_giant ends
 * ATTACK calls_giant ends
 * ATTACK loads_giant ends
 */
#include "attack.h"

extern void *bpf_obj_new_impl(u64 type, void *meta) __ksym __weak;
struct bpf_cpumask *bpf_cpumask_create(void) __ksym __weak;
void *bpf_arena_alloc_pages(void *map, void *addr, u32 pages, int node, u64 flags) __ksym __weak;

#define MAP(name, map_type, key_type, value_type, entries, flags) \
	struct {                                                  \
		__uint(type, map_type);                           \
		__uint(max_entries, entries);                     \
		__uint(map_flags, flags);                         \
		__type(key, key_type);                            \
		__type(value, value_type);                        \
	} name SEC(".maps")
struct megabyte {
	u64 words[131072];
};
struct kilobyte {
	u64 words[128];
};
struct object {
	u64 words[8];
};
struct half_gigabyte {
	u64 words[1 << 26];
};
u64 sink;
#define USE(map) ({ u64 key = 0; u64 *value = bpf_map_lookup_elem(&map, &key); if (value) sink += *value; })

#define REPEAT4(x) x x x x
#define REPEAT16(x) REPEAT4(REPEAT4(x))
#define REPEAT256(x) REPEAT16(REPEAT16(x))
#define REPEAT4K(x) REPEAT16(REPEAT256(x))

#if defined(ARRAY_HUGE)
MAP(map, BPF_MAP_TYPE_ARRAY, u32, u64, 0xffffffff, 0);
#define INIT USE(map)
#elif defined(ARRAY_MANY)
MAP(a, BPF_MAP_TYPE_ARRAY, u32, struct megabyte, 4000, 0);
MAP(b, BPF_MAP_TYPE_ARRAY, u32, struct megabyte, 4000, 0);
MAP(c, BPF_MAP_TYPE_ARRAY, u32, struct megabyte, 4000, 0);
#define TICK for (u32 key = 0; key < 4000; key++) { struct megabyte *m = bpf_map_lookup_elem(&a, &key); \
	if (m) for (int i = 0; i < 131072; i += 512) *(volatile u64 *)&m->words[i] = 1; }
#elif defined(VALUE_HUGE)
MAP(map, BPF_MAP_TYPE_ARRAY, u32, struct half_gigabyte, 100, 0);
#define INIT USE(map)
#elif defined(HASH_HUGE)
MAP(map, BPF_MAP_TYPE_HASH, u64, u64, 0xffffffff, 0);
#define INIT USE(map)
#elif defined(HASH_FILL)
MAP(map, BPF_MAP_TYPE_HASH, u64, struct kilobyte, 100000000, 0);
static struct kilobyte value;
#define TICK for (int i = 0; i < 20000; i++) { u64 key = next_random(); bpf_map_update_elem(&map, &key, &value, 0); }
#elif defined(HASH_NO_PREALLOC)
MAP(map, BPF_MAP_TYPE_HASH, u64, struct kilobyte, 0xffffffff, 1);
static struct kilobyte value;
#define TICK for (int i = 0; i < 20000; i++) { u64 key = next_random(); bpf_map_update_elem(&map, &key, &value, 0); }
#elif defined(PERCPU_HUGE)
MAP(map, BPF_MAP_TYPE_PERCPU_ARRAY, u32, struct megabyte, 100000, 0);
#define INIT USE(map)
#elif defined(QUEUE_HUGE)
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 0xffffffff);
	__type(value, struct kilobyte);
} map SEC(".maps");
static struct kilobyte value;
#define TICK for (int i = 0; i < 20000; i++) bpf_map_push_elem(&map, &value, 0)
#elif defined(RING_HUGE)
struct {
	__uint(type, 27);
	__uint(max_entries, 1ULL << 31);
} map SEC(".maps");
#define INIT sink += (u64)&map
#elif defined(ARENA_HUGE) || defined(ARENA_ALL_PAGES)
struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, 1 << 10);
#ifdef ARENA_HUGE
	__uint(max_entries, 0xffffffff);
#else
	__uint(max_entries, 1 << 20);
#endif
} map SEC(".maps");
#define INIT for (int i = 0; i < 1 << 12; i++) { volatile u64 *page = bpf_arena_alloc_pages(&map, NULL, 256, -1, 0); \
	if (page) for (int j = 0; j < 131072; j += 512) page[j] = 1; else break; }
#elif defined(STORAGE_HUGE)
MAP(map, BPF_MAP_TYPE_TASK_STORAGE, u32, struct megabyte, 0, 1);
#define TICK bpf_task_storage_get(&map, p, NULL, 1)
#elif defined(KEY_HUGE)
MAP(map, BPF_MAP_TYPE_HASH, struct megabyte, u64, 1000, 0);
static struct megabyte key;
#define TICK for (int i = 0; i < 100; i++) { key.words[5]++; bpf_map_update_elem(&map, &key, &sink, 0); }
#elif defined(OBJ_NEW_FOREVER)
#define TICK for (int i = 0; i < 100000; i++) \
	sink += (u64)bpf_obj_new_impl(__builtin_btf_type_id(*(struct object *)0, 0), NULL)
#elif defined(OBJ_NEW_HUGE)
#define TICK for (int i = 0; i < 1000; i++) { \
	struct half_gigabyte *o = bpf_obj_new_impl(__builtin_btf_type_id(*(struct half_gigabyte *)0, 0), NULL); \
	if (o) for (int j = 0; j < 1 << 26; j += 512) *(volatile u64 *)&o->words[j] = 1; }
#elif defined(CPUMASK_FOREVER)
#define TICK for (int i = 0; i < 100000; i++) sink += (u64)bpf_cpumask_create()
#elif defined(ACQUIRE_FOREVER)
#define TICK for (int i = 0; i < 100000; i++) sink += (u64)bpf_task_acquire(p)
#elif defined(DSQ_FOREVER)
static u64 next = 1000;
#define RUNNING for (int i = 0; i < 10000; i++) scx_bpf_create_dsq(next++, -1)
#define INIT_TASK for (int i = 0; i < 100000; i++) scx_bpf_create_dsq(next++, -1)
#elif defined(BSS_HUGE)
static struct half_gigabyte bss[3];
#define TICK *(volatile u64 *)&bss[2].words[OPAQUE(5)] = 1
#elif defined(VALUES_THOUSANDS) || defined(VALUES_RECURSIVE)
/*
 * Computes the same value twice. The JIT compiler may recognise this and reuse the intermediate
 * values of the first computation. It then keeps thousands of them in the function's stack frame.
 */
static __noinline u64 values(u64 x)
{
	u64 sum = x;

	asm volatile("r1 = %1; r2 = %1;"
		     ".rept 2500; r3 = r1; r3 += 11; r3 *= r1; r1 += r3; .endr;"
		     ".rept 2500; r3 = r2; r3 += 11; r3 *= r2; r2 += r3; .endr; r1 ^= r2; %0 = r1"
		     : "=r"(sum) : "r"(x) : "r1", "r2", "r3");
#ifdef VALUES_RECURSIVE
	if (sum != 0x41)
		sum += values(sum);
#endif
	return sum;
}
#define TICK sink += values(opaque_zero + 3)
#elif defined(FUNCTION_GIANT)
#define TICK asm volatile(".rept 15000; r0 += 1; r0 *= 3; .endr" ::: "r0")
#elif defined(BRANCHES_GIANT)
#define TICK asm volatile(".rept 12000; if r1 > 7 goto +1; r0 += 1; .endr" ::: "r0")
#elif defined(CALLS_GIANT)
#define TICK REPEAT4K(bpf_ktime_get_ns(); bpf_get_prandom_u32();)
#elif defined(LOADS_GIANT)
#define TICK asm volatile(".rept 15000; r0 = *(u64 *)(r10 - 8); *(u64 *)(r10 - 8) = r0; .endr" ::: "r0", "memory")
#endif
#include "policy.h"
