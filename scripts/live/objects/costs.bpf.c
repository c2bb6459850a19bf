/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measures what the calls of a policy cost in this kernel, with bpf_ktime_get_ns() before and after
 * each call. scripts/live/guest/costs.sh loads it while a ping-pong runs, and writes the costs into
 * a machine file. The counters nr_ns_NAME and nr_calls_NAME are sums over all calls of NAME.
 *
 * Tasks go through two DSQs alternately, so that each pass of the ping-pong needs an insertion and a
 * move. costs_empty.bpf.c adds four callbacks that do nothing.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

/* A queue in the order of virtual time, and one in the order of arrival. */
#define BY_VTIME 0
#define FIFO 1
/* Iterations of the loop in search(). Each iteration has 5 instructions. */
#define LOOP 64
/* A longer call contains an interrupt or the turn of another CPU, and is not counted, ns. */
#define INTERRUPTED 4000

/* Defines the counters of the call `name`. */
#define COUNTERS(name)                                                                             \
	u64 nr_ns_##name;                                                                          \
	u64 nr_calls_##name;

/* Measures the call `call` and adds its time to the counters of `name`. */
#define MEASURE(name, call)                                                                        \
	do {                                                                                       \
		u64 begun = bpf_ktime_get_ns(), time;                                              \
                                                                                                   \
		call;                                                                              \
		time = bpf_ktime_get_ns() - begun;                                                 \
		if (time < INTERRUPTED) {                                                          \
			__sync_fetch_and_add(&nr_ns_##name, time);                                 \
			__sync_fetch_and_add(&nr_calls_##name, 1);                                 \
		}                                                                                  \
	} while (0)

COUNTERS(nothing)
COUNTERS(loop)
COUNTERS(bpf_ktime_get_ns)
COUNTERS(scx_bpf_now)
COUNTERS(scx_bpf_task_cpu)
COUNTERS(scx_bpf_select_cpu_dfl)
COUNTERS(scx_bpf_test_and_clear_cpu_idle)
COUNTERS(scx_bpf_pick_idle_cpu)
COUNTERS(scx_bpf_kick_cpu)
COUNTERS(scx_bpf_dsq_nr_queued)
COUNTERS(scx_bpf_dsq_insert)
COUNTERS(scx_bpf_dsq_insert_vtime)
COUNTERS(scx_bpf_dsq_move_to_local)
COUNTERS(bpf_task_storage_get)
COUNTERS(bpf_map_lookup_elem)

static u64 nr_enqueued;
static u64 numbers[LOOP];

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} storage SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u64);
} hash SEC(".maps");

/*
 * Searches an array of LOOP numbers for a number that it does not contain, as many policies do. Each
 * iteration has 5 instructions.
 */
static __always_inline void search(void)
{
	asm volatile("r1 = %[numbers];"
		     "r2 = 0;"
		     "next_%=: r3 = *(u64 *)(r1 + 0);"
		     "if r3 == -1 goto found_%=;"
		     "r1 += 8;"
		     "r2 += 1;"
		     "if r2 < 64 goto next_%=;"
		     "found_%=:"
		     :
		     : [numbers] "r"(numbers)
		     : "r1", "r2", "r3", "memory");
}

/* With one CPU, the kernel does not call this. */
s32 SCX_OP(costs_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = prev_cpu;

	MEASURE(scx_bpf_select_cpu_dfl, cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle));
	return cpu;
}

void SCX_OP(costs_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 key = 1;
	s32 cpu = -1;

	MEASURE(nothing, (void)0);
	MEASURE(loop, search());
	MEASURE(bpf_ktime_get_ns, bpf_ktime_get_ns());
	MEASURE(scx_bpf_now, scx_bpf_now());
	MEASURE(scx_bpf_task_cpu, scx_bpf_task_cpu(p));
	MEASURE(bpf_map_lookup_elem, bpf_map_lookup_elem(&hash, &key));
	MEASURE(bpf_task_storage_get, bpf_task_storage_get(&storage, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE));
	if (nr_enqueued++ & 1)
		MEASURE(scx_bpf_dsq_insert, scx_bpf_dsq_insert(p, FIFO, SCX_SLICE_DFL, enq_flags));
	else
		MEASURE(scx_bpf_dsq_insert_vtime,
			scx_bpf_dsq_insert_vtime(p, BY_VTIME, SCX_SLICE_DFL, p->scx.dsq_vtime, enq_flags));
	MEASURE(scx_bpf_dsq_nr_queued, scx_bpf_dsq_nr_queued(FIFO));
	MEASURE(scx_bpf_test_and_clear_cpu_idle, scx_bpf_test_and_clear_cpu_idle(0));
	MEASURE(scx_bpf_pick_idle_cpu, cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0));
	if (cpu < 0)
		cpu = scx_bpf_task_cpu(p);
	MEASURE(scx_bpf_kick_cpu, scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE));
}

void SCX_OP(costs_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 queue = scx_bpf_dsq_nr_queued(FIFO) ? FIFO : BY_VTIME;

	MEASURE(scx_bpf_dsq_move_to_local, scx_bpf_dsq_move_to_local(queue));
}

#ifdef EMPTY_CALLBACKS
void SCX_OP(costs_runnable, struct task_struct *p, u64 enq_flags)
{
}

void SCX_OP(costs_running, struct task_struct *p)
{
}

void SCX_OP(costs_stopping, struct task_struct *p, bool runnable)
{
}

void SCX_OP(costs_quiescent, struct task_struct *p, u64 deq_flags)
{
}
#endif

s32 SCX_OP_SLEEPABLE(costs_init)
{
	s32 error = scx_bpf_create_dsq(FIFO, -1);

	return error ? error : scx_bpf_create_dsq(BY_VTIME, -1);
}

SCX_OPS(costs_ops,
	.select_cpu = (void *)costs_select_cpu,
	.enqueue = (void *)costs_enqueue,
	.dispatch = (void *)costs_dispatch,
#ifdef EMPTY_CALLBACKS
	.runnable = (void *)costs_runnable,
	.running = (void *)costs_running,
	.stopping = (void *)costs_stopping,
	.quiescent = (void *)costs_quiescent,
#endif
	.init = (void *)costs_init,
	.name = "costs");
