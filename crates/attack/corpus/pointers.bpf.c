/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Attacks that use invalid or dangling pointers in loads, in stores and in calls of kernel
 * functions.
 *
 * Each ATTACK line below has the name of an attack, and how the attack must end. "ends" means that
 * any end is allowed. The text after "checked:" applies to runs with the sanitizer (--sanitize). To
 * compile an attack, its name in upper case is defined as a macro (see ../src/corpus.rs).
 *
 * ATTACK load_null runs; checked: ends
 * ATTACK store_null ejected "NULL"; checked: ejected "null-dereference"
 * ATTACK load_wild ends
 * ATTACK store_wild ejected ""
 * ATTACK load_noncanonical ends
 * ATTACK store_noncanonical ejected ""
 * ATTACK load_host_text ends
 * ATTACK store_host_stack ejected ""
 * ATTACK scan_region ends
 * ATTACK scan_below_region ends
 * ATTACK store_zeros ejected ""
 * ATTACK store_rodata ends
 * ATTACK misaligned_atomic ends
 * ATTACK atomic_wild ejected ""
 * ATTACK atomic_on_task ends
 * ATTACK stack_beyond ends
 * ATTACK stack_before ends
 * ATTACK stack_kept ends
 * ATTACK context_kept ends
 * ATTACK context_beyond ends
 * ATTACK task_after_exit ends
 * ATTACK task_released_twice ends
 * ATTACK mask_after_release ends
 * ATTACK object_after_drop ends
 * ATTACK value_after_delete ends
 * ATTACK element_after_destroy ends
 * ATTACK ring_record_after_submit ends
 * ATTACK jump_table_wild ends
 * ATTACK call_wild_callback ends
 * ATTACK map_pointer_forged ejected ""
 * ATTACK map_pointer_overwritten ends
 * ATTACK read_512_mib ends
 * ATTACK strings_unterminated ends
 * ATTACK format_wild ends
 * ATTACK probe_read_overlapping ends
 */
#include "attack.h"

static long (*const bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const bpf_for_each_map_elem)(void *map, void *callback, void *ctx, u64 flags) = (void *)164;
static long (*const bpf_loop)(u32 nr, void *callback, void *ctx, u64 flags) = (void *)181;
static void *(*const bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static long (*const bpf_snprintf)(char *to, u32 size, const char *format, u64 *data, u32 len) = (void *)165;
static long (*const bpf_strncmp)(const char *a, u32 size, const char *b) = (void *)182;
int bpf_strlen(const char *s) __ksym __weak;
int bpf_strspn(const char *s, const char *accept) __ksym __weak;
struct bpf_cpumask *bpf_cpumask_create(void) __ksym __weak;
void bpf_cpumask_release(struct bpf_cpumask *cpumask) __ksym __weak;
void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *cpumask) __ksym __weak;
extern void *bpf_obj_new_impl(u64 type, void *meta) __ksym __weak;
extern void bpf_obj_drop_impl(void *p, void *meta) __ksym __weak;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, u64);
	__type(value, u64);
} hash SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, u32);
	__type(value, u64);
} array SEC(".maps");
struct {
	__uint(type, 27);
	__uint(max_entries, 4096);
} ring SEC(".maps");
struct object {
	u64 words[8];
};
const volatile u64 constant = 5;
u64 *kept;
struct task_struct *kept_task;
char text[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
u64 sink;

static __noinline int callback(u64 index, void *ctx)
{
	return sink++ > 100000;
}

static __always_inline void scan(u64 from, u64 step, int count)
{
	for (int i = 0; i < count; i++)
		sink += *AT(from + i * step);
}

#if defined(LOAD_NULL)
#define TICK sink += *AT(8)
#elif defined(STORE_NULL)
#define TICK *AT(8) = 1
#elif defined(LOAD_WILD)
#define TICK sink += *AT(0x123456789abcULL)
#elif defined(STORE_WILD)
#define TICK *AT(0x123456789abcULL) = 1
#elif defined(LOAD_NONCANONICAL)
#define TICK sink += *AT(0x8000000000000000ULL)
#elif defined(STORE_NONCANONICAL)
#define TICK *AT(0xfffffffffffffff9ULL) = 1
#elif defined(LOAD_HOST_TEXT)
#define TICK scan(0x555555554000ULL, 4096, 1000)
#elif defined(STORE_HOST_STACK)
#define TICK *AT(0x7ffffffde000ULL) = 1
#elif defined(SCAN_REGION)
#define TICK scan(0x200000000000ULL, 4096 * 977, 10000)
#elif defined(SCAN_BELOW_REGION)
#define TICK scan(0x1fffffff0000ULL, 8, 10000)
#elif defined(STORE_ZEROS)
#define TICK *AT(0x200000010000ULL) = 1
#elif defined(STORE_RODATA)
#define TICK *(volatile u64 *)&constant = 6
#elif defined(MISALIGNED_ATOMIC)
#define TICK __sync_fetch_and_add((u64 *)(text + OPAQUE(3)), 1)
#elif defined(ATOMIC_WILD)
#define TICK __sync_fetch_and_add((u64 *)OPAQUE(0x4141414140ULL), 1)
#elif defined(ATOMIC_ON_TASK)
#define TICK for (int i = 0; i < 64; i++) __sync_fetch_and_xor((u64 *)p + i, U64_MAX)
#elif defined(STACK_BEYOND)
#define TICK u64 frame[2]; u64 at = (u64)frame; barrier_var(at); for (int i = 0; i < 4096; i++) *((volatile u64 *)at + i) = 0x41
#elif defined(STACK_BEFORE)
#define TICK u64 frame[2]; u64 at = (u64)frame; barrier_var(at); for (int i = 0; i < 20000; i++) *((volatile u64 *)at - i) = 0x41
#elif defined(STACK_KEPT)
#define TICK u64 frame[4]; u64 at = (u64)frame; barrier_var(at); if (kept) for (int i = 0; i < 64; i++) \
	((volatile u64 *)kept)[i] = U64_MAX; *(volatile u64 *)&kept = at
#elif defined(CONTEXT_KEPT)
#define TICK if (kept) kept[0] = U64_MAX; *(u64 *volatile *)&kept = (void *)ctx
#elif defined(CONTEXT_BEYOND)
#define TICK for (int i = -8; i < 64; i++) ((volatile u64 *)ctx)[i] = U64_MAX
#elif defined(TASK_AFTER_EXIT)
#define INIT_TASK if (!kept_task) kept_task = p
#define EXIT_TASK kept_task = p
#define TICK if (kept_task) { kept_task->scx.slice = 0; scx_bpf_task_cpu(kept_task); \
	scx_bpf_dsq_insert(kept_task, DSQ, 1, 0); sink += kept_task->pid; }
#elif defined(TASK_RELEASED_TWICE)
#define TICK struct task_struct *t = bpf_task_acquire(p); if (t) { bpf_task_release(t); bpf_task_release(t); sink += t->pid; }
#elif defined(MASK_AFTER_RELEASE)
#define TICK struct bpf_cpumask *mask = bpf_cpumask_create(); if (mask) { bpf_cpumask_release(mask); \
	bpf_cpumask_set_cpu(0, mask); bpf_cpumask_release(mask); bpf_cpumask_first((void *)mask); }
#elif defined(OBJECT_AFTER_DROP)
#define TICK struct object *o = bpf_obj_new_impl(__builtin_btf_type_id(*(struct object *)0, 0), NULL); if (o) { \
	bpf_obj_drop_impl(o, NULL); o->words[0] = 1; bpf_obj_drop_impl(o, NULL); o->words[7] = 1; }
#elif defined(VALUE_AFTER_DELETE)
#define TICK u64 key = 1; bpf_map_update_elem(&hash, &key, &key, 0); u64 *value = bpf_map_lookup_elem(&hash, &key); \
	bpf_map_delete_elem(&hash, &key); if (value) for (int i = -8; i < 8; i++) *(volatile u64 *)(value + i) = U64_MAX
#elif defined(ELEMENT_AFTER_DESTROY)
#define TICK struct bpf_iter_num it; bpf_iter_num_new(&it, 0, 10); int *n = bpf_iter_num_next(&it); \
	bpf_iter_num_destroy(&it); if (n) *(volatile int *)n = 5; bpf_iter_num_next(&it); bpf_iter_num_destroy(&it)
#elif defined(RING_RECORD_AFTER_SUBMIT)
#define TICK u64 *record = bpf_ringbuf_reserve(&ring, 16, 0); if (record) { bpf_ringbuf_submit(record, 0); \
	*(volatile u64 *)(record - 1) = U64_MAX; bpf_ringbuf_submit(record, 0); }
#elif defined(JUMP_TABLE_WILD)
#define TICK bpf_loop(10, (void *)OPAQUE(0x41), NULL, 0)
#elif defined(CALL_WILD_CALLBACK)
#define TICK bpf_loop(1000, callback, NULL, 0); bpf_for_each_map_elem(&hash, (void *)OPAQUE(0xffffffffffffffffULL), NULL, 0)
#elif defined(MAP_POINTER_FORGED)
static u64 forged[64];
#define TICK u32 key = 0; bpf_map_lookup_elem((void *)OPAQUE((u64)forged), &key)
#elif defined(MAP_POINTER_OVERWRITTEN)
#define TICK u32 key = 0; for (int i = 0; i < 32; i++) *((volatile u64 *)&array + i) = 0x100000001ULL * i; \
	bpf_map_lookup_elem(&array, &key); bpf_map_lookup_elem(&hash, &key)
#elif defined(READ_512_MIB)
#define TICK for (int i = 0; i < 1000; i++) bpf_probe_read_kernel(text, 512 << 20, (void *)OPAQUE(0x200000100000ULL))
#elif defined(STRINGS_UNTERMINATED)
#define TICK bpf_strlen(text); bpf_strspn(text, text); bpf_strncmp(text, 0x7fffffff, text); \
	bpf_strlen((void *)OPAQUE(0x20000010fff8ULL)); bpf_strspn((void *)opaque_zero, text)
#elif defined(FORMAT_WILD)
static char format[] = "%99999999d %s %pI4 %p %n %*d %lld %%";
static u64 data[12] = { 1, 0x4141414141414141ULL, U64_MAX, 5 };
#define TICK bpf_snprintf(text, 8, format, data, sizeof(data)); scx_bpf_error_bstr(format, data, sizeof(data))
#elif defined(PROBE_READ_OVERLAPPING)
#define TICK bpf_probe_read_kernel(p, 512, (void *)p + 64); bpf_probe_read_kernel(text, 0x7fffffff, text)
#endif
#include "policy.h"
