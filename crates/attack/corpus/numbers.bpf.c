/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Attacks that call sched_ext's kfuncs with invalid DSQ ids, CPU numbers, slices, virtual times and
 * flags.
 *
 * Each ATTACK line below has the name of an attack, and how the attack must end. "ends" means that
 * any end is allowed. The text after "checked:" applies to runs with the sanitizer (--sanitize). To
 * compile an attack, its name in upper case is defined as a macro (see ../src/corpus.rs).
 *
 * ATTACK dsq_missing ejected "DSQ"
 * ATTACK dsq_invalid ends
 * ATTACK dsq_builtin_wild ejected ""
 * ATTACK dsq_local_on_wild ejected ""
 * ATTACK dsq_ids_random ends
 * ATTACK dsq_create_builtin ends
 * ATTACK dsq_create_many ends
 * ATTACK dsq_create_node ends
 * ATTACK dsq_destroy_all ends
 * ATTACK dsq_destroy_while_iterating ends; checked: ends
 * ATTACK dsq_nr_wild ends
 * ATTACK vtime_wraps runs
 * ATTACK vtime_quarters runs
 * ATTACK vtime_mixed ends
 * ATTACK slice_zero ends
 * ATTACK slice_max runs
 * ATTACK enq_flags_all ends
 * ATTACK insert_twice ends
 * ATTACK insert_other_task ends
 * ATTACK insert_null ejected ""
 * ATTACK insert_wild ejected ""
 * ATTACK insert_middle ejected ""
 * ATTACK insert_idle_task ends
 * ATTACK insert_in_select_cpu ends
 * ATTACK select_wild ejected ""
 * ATTACK select_negative ejected ""
 * ATTACK select_random ends
 * ATTACK kick_wild ends
 * ATTACK kick_flags ends
 * ATTACK kick_storm ends
 * ATTACK kick_wait_cycle ends
 * ATTACK task_cpu_wild ejected ""
 * ATTACK cpu_curr_wild ends
 * ATTACK cpuperf_wild ends
 * ATTACK cpumask_wild ejected ""
 * ATTACK cpumask_bits_wild ends
 * ATTACK pick_idle_wild ejected ""
 * ATTACK idle_clear_wild ends
 * ATTACK node_wild ends
 * ATTACK move_wild_iterator ends
 * ATTACK move_everything ends
 * ATTACK move_in_circles ends
 * ATTACK dispatch_slots ends
 * ATTACK dispatch_cancel ends
 * ATTACK reenqueue_forever ends
 * ATTACK set_slice_wild ends
 * ATTACK now_storm ends
 * ATTACK task_from_pid_all ends
 * ATTACK iterate_nested ends
 */
#include "attack.h"

u32 scx_bpf_cpuperf_cap(s32 cpu) __ksym __weak;
u32 scx_bpf_cpuperf_cur(s32 cpu) __ksym __weak;
void scx_bpf_cpuperf_set(s32 cpu, u32 perf) __ksym __weak;
int scx_bpf_cpu_node(s32 cpu) __ksym __weak;
const struct cpumask *scx_bpf_get_idle_cpumask_node(int node) __ksym __weak;
s32 scx_bpf_pick_idle_cpu_node(const cpumask_t *allowed, int node, u64 flags) __ksym __weak;
struct bpf_cpumask *bpf_cpumask_create(void) __ksym __weak;
void bpf_cpumask_release(struct bpf_cpumask *cpumask) __ksym __weak;
void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *cpumask) __ksym __weak;
#define INSERT scx_bpf_dsq_insert(p, DSQ, SCX_SLICE_DFL, enq_flags)
#define MOVE scx_bpf_dsq_move_to_local(DSQ)

static s32 wild_cpu(void)
{
	u64 r = next_random();

	switch (r & 7) {
	case 0: return -1;
	case 1: return 0x7fffffff;
	case 2: return 0x80000000;
	case 3: return 4;
	case 4: return 64;
	case 5: return 8192;
	default: return r >> 8;
	}
}

#if defined(DSQ_MISSING)
#define ENQUEUE scx_bpf_dsq_insert(p, 0x4141414141414141ULL & ~SCX_DSQ_INVALID, SCX_SLICE_DFL, enq_flags)
#elif defined(DSQ_INVALID)
#define ENQUEUE scx_bpf_dsq_insert(p, SCX_DSQ_INVALID, SCX_SLICE_DFL, enq_flags)
#elif defined(DSQ_BUILTIN_WILD)
#define ENQUEUE scx_bpf_dsq_insert(p, U64_MAX, SCX_SLICE_DFL, enq_flags)
#elif defined(DSQ_LOCAL_ON_WILD)
#define ENQUEUE scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | 0xffffffffULL, SCX_SLICE_DFL, enq_flags)
#elif defined(DSQ_IDS_RANDOM)
#define ENQUEUE scx_bpf_dsq_insert(p, next_random(), next_random(), next_random())
#elif defined(DSQ_CREATE_BUILTIN)
#define INIT return scx_bpf_create_dsq(SCX_DSQ_GLOBAL, -1) + scx_bpf_create_dsq(U64_MAX, -1)
#elif defined(DSQ_CREATE_MANY)
#define INIT for (u64 i = 0; i < 1000000; i++) scx_bpf_create_dsq(OPAQUE(i) + 100, -1)
#elif defined(DSQ_CREATE_NODE)
#define INIT return scx_bpf_create_dsq(7, 0x7fffffff) + scx_bpf_create_dsq(8, -77)
#elif defined(DSQ_DESTROY_ALL)
#define DISPATCH scx_bpf_destroy_dsq(DSQ); scx_bpf_destroy_dsq(SCX_DSQ_GLOBAL); scx_bpf_destroy_dsq(SCX_DSQ_LOCAL); MOVE
#elif defined(DSQ_DESTROY_WHILE_ITERATING)
#define DISPATCH struct task_struct *p; bpf_for_each_dsq(it, p, DSQ) { scx_bpf_destroy_dsq(DSQ); \
	scx_bpf_create_dsq(DSQ, -1); } MOVE
#elif defined(DSQ_NR_WILD)
#define TICK scx_bpf_dsq_nr_queued(next_random())
#elif defined(VTIME_WRAPS)
static u64 vtime;
#define ENQUEUE vtime += S64_MAX / 2; scx_bpf_dsq_insert_vtime(p, DSQ, 100000, vtime, enq_flags)
#elif defined(VTIME_QUARTERS)
#define ENQUEUE scx_bpf_dsq_insert_vtime(p, DSQ, 100000, (next_random() & 3) << 62, enq_flags)
#elif defined(VTIME_MIXED)
#define ENQUEUE if (next_random() & 1) INSERT; else scx_bpf_dsq_insert_vtime(p, DSQ, 100000, next_random(), enq_flags)
#elif defined(SLICE_ZERO)
#define ENQUEUE scx_bpf_dsq_insert(p, DSQ, 0, enq_flags)
#define TICK p->scx.slice = 0
#elif defined(SLICE_MAX)
#define ENQUEUE scx_bpf_dsq_insert(p, DSQ, S64_MAX, enq_flags)
#elif defined(ENQ_FLAGS_ALL)
#define ENQUEUE scx_bpf_dsq_insert(p, DSQ, SCX_SLICE_DFL, U64_MAX)
#elif defined(INSERT_TWICE)
#define ENQUEUE INSERT; INSERT
#elif defined(INSERT_OTHER_TASK)
#define ENQUEUE struct task_struct *other = bpf_task_from_pid(next_random() % 12); if (other) { \
	scx_bpf_dsq_insert(other, DSQ, SCX_SLICE_DFL, 0); bpf_task_release(other); } else INSERT
#elif defined(INSERT_NULL)
#define ENQUEUE scx_bpf_dsq_insert((void *)opaque_zero, DSQ, SCX_SLICE_DFL, 0)
#elif defined(INSERT_WILD)
#define ENQUEUE scx_bpf_dsq_insert((void *)OPAQUE(0x4141414141414141ULL), DSQ, SCX_SLICE_DFL, 0)
#elif defined(INSERT_MIDDLE)
#define ENQUEUE scx_bpf_dsq_insert((void *)p + OPAQUE(8), DSQ, SCX_SLICE_DFL, 0)
#elif defined(INSERT_IDLE_TASK)
#define ENQUEUE INSERT
#define DISPATCH struct task_struct *curr = scx_bpf_cpu_curr(cpu); if (curr) scx_bpf_dsq_insert(curr, DSQ, 1, 0); MOVE
#elif defined(INSERT_IN_SELECT_CPU)
#define SELECT_CPU scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | 3, SCX_SLICE_DFL, 0); return 0
#elif defined(SELECT_WILD)
#define SELECT_CPU return 1000
#elif defined(SELECT_NEGATIVE)
#define SELECT_CPU return -5
#elif defined(SELECT_RANDOM)
#define SELECT_CPU return wild_cpu()
#elif defined(KICK_WILD)
#define ENQUEUE scx_bpf_kick_cpu(wild_cpu(), 0); INSERT
#elif defined(KICK_FLAGS)
#define ENQUEUE scx_bpf_kick_cpu(next_random() & 3, next_random()); INSERT
#elif defined(KICK_STORM)
#define DISPATCH for (int i = 0; i < 4; i++) scx_bpf_kick_cpu(i, SCX_KICK_PREEMPT); MOVE
#elif defined(KICK_WAIT_CYCLE)
#define DISPATCH scx_bpf_kick_cpu((cpu + 1) & 3, SCX_KICK_WAIT | SCX_KICK_PREEMPT); MOVE
#elif defined(TASK_CPU_WILD)
#define ENQUEUE scx_bpf_task_cpu((void *)OPAQUE(0x123456789abcULL)); INSERT
#elif defined(CPU_CURR_WILD)
#define ENQUEUE scx_bpf_cpu_curr(wild_cpu()); INSERT
#elif defined(CPUPERF_WILD)
#define ENQUEUE s32 cpu = wild_cpu(); scx_bpf_cpuperf_set(cpu, ~0U); scx_bpf_cpuperf_cap(cpu); scx_bpf_cpuperf_cur(cpu); INSERT
#elif defined(CPUMASK_WILD)
#define ENQUEUE bpf_cpumask_first((void *)OPAQUE(0x2000000000ULL)); INSERT
#elif defined(CPUMASK_BITS_WILD)
#define ENQUEUE struct bpf_cpumask *mask = bpf_cpumask_create(); if (mask) { \
	for (int i = 0; i < 100; i++) bpf_cpumask_set_cpu(wild_cpu(), mask); \
	scx_bpf_pick_any_cpu((void *)mask, next_random()); bpf_cpumask_release(mask); } INSERT
#elif defined(PICK_IDLE_WILD)
#define SELECT_CPU return scx_bpf_pick_idle_cpu((void *)opaque_zero, U64_MAX)
#elif defined(IDLE_CLEAR_WILD)
#define SELECT_CPU scx_bpf_test_and_clear_cpu_idle(wild_cpu())
#elif defined(NODE_WILD)
#define SELECT_CPU scx_bpf_cpu_node(wild_cpu()); scx_bpf_pick_idle_cpu_node(p->cpus_ptr, wild_cpu(), 0); \
	const struct cpumask *mask = scx_bpf_get_idle_cpumask_node(wild_cpu()); if (mask) scx_bpf_put_idle_cpumask(mask)
#elif defined(MOVE_WILD_ITERATOR)
static struct bpf_iter_scx_dsq iterator;
#define DISPATCH for (int i = 0; i < 6; i++) iterator.__opaque[i] = next_random(); \
	scx_bpf_dsq_move(&iterator, prev, SCX_DSQ_LOCAL, 0); MOVE
#elif defined(MOVE_EVERYTHING)
#define DISPATCH struct task_struct *p; bpf_for_each_dsq(it, p, DSQ) { scx_bpf_dsq_move_set_slice(&it, 0); \
	scx_bpf_dsq_move_set_vtime(&it, next_random()); \
	scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON | (next_random() & 3), U64_MAX); }
#elif defined(MOVE_IN_CIRCLES)
#define DISPATCH struct task_struct *p; bpf_for_each_dsq(it, p, DSQ) { scx_bpf_dsq_move(&it, p, DSQ, 0); \
	scx_bpf_dsq_move_vtime(&it, p, DSQ, 0); } MOVE
#elif defined(DISPATCH_SLOTS)
#define OPS .dispatch_max_batch = 0x7fffffff,
#define DISPATCH for (int i = 0; i < 1000; i++) if (prev) scx_bpf_dsq_insert(prev, DSQ, 1, 0); MOVE
#elif defined(DISPATCH_CANCEL)
#define DISPATCH for (int i = 0; i < 1000; i++) scx_bpf_dispatch_cancel(); MOVE
#elif defined(REENQUEUE_FOREVER)
#define ENQUEUE scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | (next_random() & 3), SCX_SLICE_DFL, 0); \
	scx_bpf_reenqueue_local___v2___compat()
#define TICK scx_bpf_reenqueue_local___v2___compat()
#elif defined(SET_SLICE_WILD)
#define RUNNING scx_bpf_task_set_slice(p, next_random()); scx_bpf_task_set_slice((void *)OPAQUE(4096), 1)
#elif defined(NOW_STORM)
#define TICK for (int i = 0; i < 10000; i++) scx_bpf_now()
#elif defined(TASK_FROM_PID_ALL)
#define TICK for (int i = -100; i < 1000; i++) { struct task_struct *t = bpf_task_from_pid(i); if (t) bpf_task_release(t); }
#elif defined(ITERATE_NESTED)
#define DISPATCH struct task_struct *p, *q; bpf_for_each_dsq(it, p, DSQ) { bpf_for_each_dsq(inner, q, DSQ) { \
	scx_bpf_dsq_move(&inner, q, SCX_DSQ_LOCAL, 0); } scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0); } MOVE
#endif
#include "policy.h"
