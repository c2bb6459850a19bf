/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Attacks that run for too long: with loops, recursion, trees of calls, timers, and helpers that
 * process many bytes.
 *
 * Each ATTACK line below has the name of an attack, and how the attack must end. "ends" means that
 * any end is allowed. The text after "checked:" applies to runs with the sanitizer (--sanitize). To
 * compile an attack, its name in upper case is defined as a macro (see ../src/corpus.rs).
 *
 * ATTACK loop_endless ejected ""
 * ATTACK loop_in_init refused "endless loop"
 * ATTACK loop_in_init_task ejected ""
 * ATTACK loop_in_exit ends
 * ATTACK loop_in_exit_task ends
 * ATTACK loop_in_dump ends
 * ATTACK loop_in_select_cpu ejected ""
 * ATTACK recursion ejected ""
 * ATTACK recursion_mutual ejected ""
 * ATTACK recursion_frames ejected ""
 * ATTACK tree_of_calls ejected ""
 * ATTACK tree_with_frames ejected ""
 * ATTACK bpf_loop_nested ejected ""
 * ATTACK bpf_loop_recursive ejected ""
 * ATTACK bpf_loop_8m ejected ""
 * ATTACK for_each_nested ejected ""
 * ATTACK iterator_num_huge ejected ""
 * ATTACK strspn_loop ends
 * ATTACK snprintf_loop ends
 * ATTACK printk_flood ends
 * ATTACK printk_wide ends
 * ATTACK dump_flood ends
 * ATTACK dump_wide ends
 * ATTACK error_flood ejected ""
 * ATTACK timer_every_ns ends
 * ATTACK timer_rearms_itself ends
 * ATTACK timers_many ends
 * ATTACK timer_in_the_past ends
 * ATTACK timer_rearms_in_the_past ends
 * ATTACK timer_never ends
 * ATTACK timer_wild ends
 * ATTACK timer_cancels_itself ends
 * ATTACK dispatch_loop ends
 * ATTACK dispatch_to_itself ends
 * ATTACK dispatch_empty_forever ends
 * ATTACK ping_pong_cpus ends
 * ATTACK reschedule_always ends
 */
#include "attack.h"

static long (*const bpf_loop)(u32 nr, void *callback, void *ctx, u64 flags) = (void *)181;
static long (*const bpf_for_each_map_elem)(void *map, void *callback, void *ctx, u64 flags) = (void *)164;
static long (*const bpf_trace_printk)(const char *format, u32 size, ...) = (void *)6;
static long (*const bpf_snprintf)(char *to, u32 size, const char *format, u64 *data, u32 len) = (void *)165;
int bpf_strspn(const char *s, const char *accept) __ksym __weak;

struct value {
	struct bpf_timer timer;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct value);
} timers SEC(".maps");
u64 sink;
char big[65536];
char small[64];
u64 data[12];

#define FOREVER while (!opaque_zero) sink++
#define INSERT scx_bpf_dsq_insert(p, DSQ, SCX_SLICE_DFL, enq_flags)
#define MOVE scx_bpf_dsq_move_to_local(DSQ)

/* Each level calls the level below twice, so level40() makes 2^40 calls without a loop. */
#define CALL2(name, below) static __noinline u64 name(u64 x) { return below(x + 1) + below(x ^ opaque_zero) + 1; }
static __noinline u64 level0(u64 x) { return x + opaque_zero; }
CALL2(level1, level0) CALL2(level2, level1) CALL2(level3, level2) CALL2(level4, level3) CALL2(level5, level4)
CALL2(level6, level5) CALL2(level7, level6) CALL2(level8, level7) CALL2(level9, level8) CALL2(level10, level9)
CALL2(level11, level10) CALL2(level12, level11) CALL2(level13, level12) CALL2(level14, level13)
CALL2(level15, level14) CALL2(level16, level15) CALL2(level17, level16) CALL2(level18, level17)
CALL2(level19, level18) CALL2(level20, level19) CALL2(level21, level20) CALL2(level22, level21)
CALL2(level23, level22) CALL2(level24, level23) CALL2(level25, level24) CALL2(level26, level25)
CALL2(level27, level26) CALL2(level28, level27) CALL2(level29, level28) CALL2(level30, level29)
CALL2(level31, level30) CALL2(level32, level31) CALL2(level33, level32) CALL2(level34, level33)
CALL2(level35, level34) CALL2(level36, level35) CALL2(level37, level36) CALL2(level38, level37)
CALL2(level39, level38) CALL2(level40, level39)

__noinline u64 recurse(u64 x) { return x == S64_MIN ? 0 : recurse(x + 1) + opaque_zero + 1; }
__noinline u64 pong(u64 x);
__noinline u64 ping(u64 x) { return x == S64_MIN ? 0 : pong(x + 1) + opaque_zero; }
__noinline u64 pong(u64 x) { return x == S64_MIN ? 0 : ping(x + 1) + opaque_zero; }
__noinline u64 deep(u64 x)
{
	volatile u64 frame[60];

	frame[x & 31] = x;
	return x == S64_MIN ? 0 : deep(x + 1) + frame[3];
}
/* Like CALL2, but each function uses 400 bytes of stack. */
#define WIDE2(name, below) \
	static __noinline u64 name(u64 x) { volatile u64 frame[50]; frame[x & 15] = x; return below(x + 1) + below(x + frame[1]); }
WIDE2(wide1, level0) WIDE2(wide2, wide1) WIDE2(wide3, wide2) WIDE2(wide4, wide3) WIDE2(wide5, wide4) WIDE2(wide6, wide5)
WIDE2(wide7, wide6) WIDE2(wide8, wide7) WIDE2(wide9, wide8) WIDE2(wide10, wide9) WIDE2(wide11, wide10)
WIDE2(wide12, wide11) WIDE2(wide13, wide12) WIDE2(wide14, wide13) WIDE2(wide15, wide14) WIDE2(wide16, wide15)
WIDE2(wide17, wide16) WIDE2(wide18, wide17) WIDE2(wide19, wide18) WIDE2(wide20, wide19) WIDE2(wide21, wide20)
WIDE2(wide22, wide21) WIDE2(wide23, wide22) WIDE2(wide24, wide23) WIDE2(wide25, wide24) WIDE2(wide26, wide25)
WIDE2(wide27, wide26) WIDE2(wide28, wide27) WIDE2(wide29, wide28) WIDE2(wide30, wide29)

static __noinline int loop_leaf(u32 i, void *ctx) { sink++; return 0; }
static __noinline int loop_inner(u32 i, void *ctx) { bpf_loop(1 << 23, loop_leaf, NULL, 0); return 0; }
static __noinline int loop_outer(u32 i, void *ctx) { bpf_loop(1 << 23, loop_inner, NULL, 0); return 0; }
static __noinline int loop_itself(u32 i, void *ctx) { bpf_loop(1 << 23, loop_itself, NULL, 0); return 0; }
static __noinline int each_leaf(void *map, u32 *key, void *value, void *ctx) { sink++; return 0; }
static __noinline int each_inner(void *map, u32 *key, void *value, void *ctx)
{ bpf_for_each_map_elem(&timers, each_leaf, NULL, 0); return 0; }
static __noinline int each_outer(void *map, u32 *key, void *value, void *ctx)
{ bpf_for_each_map_elem(&timers, each_inner, NULL, 0); return 0; }

static __noinline int on_timer(void *map, u32 *key, struct value *value)
{
	sink++;
#if defined(TIMER_REARMS_ITSELF)
	for (int i = 0; i < 100; i++)
		bpf_timer_start(&value->timer, 0, 0);
#elif defined(TIMER_REARMS_IN_THE_PAST)
	/* The timer expires at an absolute time in the past, so no time passes between two expiries. */
	bpf_timer_start(&value->timer, 1, 1);
#elif defined(TIMER_CANCELS_ITSELF)
	bpf_timer_cancel(&value->timer);
	bpf_timer_init(&value->timer, &timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&value->timer, on_timer);
	bpf_timer_start(&value->timer, 1, 0);
#else
	bpf_timer_start(&value->timer, 1, 0);
#endif
	return 0;
}

static __always_inline void start_timer(u32 index, u64 ns, u64 flags)
{
	struct value *value = bpf_map_lookup_elem(&timers, &index);

	if (!value)
		return;
	bpf_timer_init(&value->timer, &timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&value->timer, on_timer);
	bpf_timer_start(&value->timer, ns, flags);
}

#if defined(LOOP_ENDLESS)
#define RUNNING FOREVER
#elif defined(LOOP_IN_INIT)
#define INIT FOREVER
#elif defined(LOOP_IN_INIT_TASK)
#define INIT_TASK FOREVER
#elif defined(LOOP_IN_EXIT)
#define TICK scx_bpf_error("ends")
#define EXIT FOREVER
#elif defined(LOOP_IN_EXIT_TASK)
#define TICK scx_bpf_error("ends")
#define EXIT_TASK FOREVER
#elif defined(LOOP_IN_DUMP)
#define TICK scx_bpf_error("ends")
#define DUMP FOREVER
#define DUMP_CPU FOREVER
#define DUMP_TASK FOREVER
#elif defined(LOOP_IN_SELECT_CPU)
#define SELECT_CPU FOREVER
#elif defined(RECURSION)
#define TICK sink += recurse(1)
#elif defined(RECURSION_MUTUAL)
#define TICK sink += ping(1)
#elif defined(RECURSION_FRAMES)
#define TICK sink += deep(1)
#elif defined(TREE_OF_CALLS)
#define TICK sink += level40(opaque_zero)
#elif defined(TREE_WITH_FRAMES)
#define TICK sink += wide30(opaque_zero)
#elif defined(BPF_LOOP_NESTED)
#define TICK bpf_loop(1 << 23, loop_outer, NULL, 0)
#elif defined(BPF_LOOP_RECURSIVE)
#define TICK bpf_loop(1 << 23, loop_itself, NULL, 0)
#elif defined(BPF_LOOP_8M)
#define TICK bpf_loop(1 << 23, loop_leaf, NULL, 0)
#elif defined(FOR_EACH_NESTED)
#define TICK bpf_for_each_map_elem(&timers, each_outer, NULL, 0)
#elif defined(ITERATOR_NUM_HUGE)
#define TICK int i; bpf_for(i, 0, 8 << 20) { sink += i; }
#elif defined(STRSPN_LOOP)
#define INIT for (int i = 0; i < (int)sizeof(big) - 1; i++) *(volatile char *)&big[i] = 'a'
#define TICK for (int i = 0; i < 100000; i++) bpf_strspn(big, big)
#elif defined(SNPRINTF_LOOP)
static char format[] = "%2147483647d";
#define TICK for (int i = 0; i < 100000; i++) bpf_snprintf(big, sizeof(big), format, data, 8)
#elif defined(PRINTK_FLOOD)
#define TICK for (int i = 0; i < 1000000; i++) { char text[] = "flood %d\n"; bpf_trace_printk(text, sizeof(text), i); }
#elif defined(PRINTK_WIDE)
#define TICK for (int i = 0; i < 1000000; i++) { char text[] = "%1000000000d\n"; bpf_trace_printk(text, sizeof(text), i); }
#elif defined(DUMP_FLOOD)
static char text[] = "flood %d\n";
#define TICK scx_bpf_error("ends")
#define DUMP for (int i = 0; i < 1000000; i++) scx_bpf_dump_bstr(text, data, 8)
#elif defined(DUMP_WIDE)
static char text[] = "%1000000000d %1000000000d\n";
#define TICK scx_bpf_error("ends")
#define DUMP for (int i = 0; i < 1000000; i++) scx_bpf_dump_bstr(text, data, 16)
#define OPS .exit_dump_len = 0xffffffff,
#elif defined(ERROR_FLOOD)
#define TICK for (int i = 0; i < 1000000; i++) scx_bpf_error("again and again")
#elif defined(TIMER_EVERY_NS)
#define INIT start_timer(0, 1, 0)
#elif defined(TIMER_REARMS_ITSELF)
#define INIT start_timer(0, 1, 0)
#elif defined(TIMER_REARMS_IN_THE_PAST)
#define INIT start_timer(0, 1, 0)
#elif defined(TIMERS_MANY)
#define INIT for (u32 i = 0; i < 1024; i++) start_timer(OPAQUE(i), i, 0)
#elif defined(TIMER_IN_THE_PAST)
#define INIT start_timer(0, 0, 1); start_timer(1, U64_MAX, 1)
#elif defined(TIMER_NEVER)
#define INIT start_timer(0, U64_MAX, 0); start_timer(1, S64_MAX, 1); start_timer(2, S64_MIN, 0)
#elif defined(TIMER_WILD)
#define INIT start_timer(0, 1, U64_MAX); bpf_timer_start((void *)OPAQUE(0x200000100000ULL), 1, 0)
#elif defined(TIMER_CANCELS_ITSELF)
#define INIT start_timer(0, 1, 0)
#elif defined(DISPATCH_LOOP)
#define ENQUEUE scx_bpf_dsq_insert(p, DSQ, 1, enq_flags)
#define DISPATCH for (int i = 0; i < 10000; i++) MOVE
#elif defined(DISPATCH_TO_ITSELF)
#define ENQUEUE scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, 0, SCX_ENQ_PREEMPT | SCX_ENQ_HEAD)
#elif defined(DISPATCH_EMPTY_FOREVER)
#define DISPATCH scx_bpf_kick_cpu(cpu, 0)
#elif defined(PING_PONG_CPUS)
#define ENQUEUE scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | ((scx_bpf_task_cpu(p) + 1) & 3), 1, SCX_ENQ_PREEMPT)
#define RUNNING scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT)
#elif defined(RESCHEDULE_ALWAYS)
#define RUNNING p->scx.slice = 0; scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT)
#define STOPPING for (int i = 0; i < 4; i++) scx_bpf_kick_cpu(i, SCX_KICK_PREEMPT)
#define UPDATE_IDLE scx_bpf_kick_cpu(cpu, 0)
#endif
#include "policy.h"
