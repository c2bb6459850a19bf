/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Attacks that store to kernel data, for example to the fields of a task. A policy can read this
 * data, but the kernel's verifier allows stores only to p->scx.slice, p->scx.dsq_vtime and
 * p->scx.disallow.
 *
 * Each ATTACK line below has the name of an attack, and how the attack must end. "ends" means that
 * any end is allowed. The text after "checked:" applies to runs with the sanitizer (--sanitize). To
 * compile an attack, its name in upper case is defined as a macro (see ../src/corpus.rs).
 *
 * ATTACK flags_zero ends; checked: ejected ""
 * ATTACK flags_queued ends; checked: ejected ""
 * ATTACK flags_state ends; checked: ejected ""
 * ATTACK flags_random ends; checked: ejected ""
 * ATTACK flags_before_enqueue ends; checked: ejected ""
 * ATTACK flags_in_dispatch ends; checked: ejected ""
 * ATTACK weight_zero ends; checked: ejected ""
 * ATTACK weight_huge ends; checked: ejected ""
 * ATTACK cpu_huge ends; checked: ejected ""
 * ATTACK cpu_negative ends; checked: ejected ""
 * ATTACK pid_zero ends; checked: ejected ""
 * ATTACK pid_huge ends; checked: ejected ""
 * ATTACK sticky_cpu ends; checked: ejected ""
 * ATTACK holding_cpu ends; checked: ejected ""
 * ATTACK selected_cpu ends; checked: ejected ""
 * ATTACK ddsp_dsq ends; checked: ejected ""
 * ATTACK runnable_at ends; checked: ejected ""
 * ATTACK tid ends; checked: ejected ""
 * ATTACK on_cpu ends; checked: ejected ""
 * ATTACK nr_cpus_allowed ends; checked: ejected ""
 * ATTACK migration_disabled ends; checked: ejected ""
 * ATTACK cpus_ptr_null ends; checked: ejected ""
 * ATTACK cpus_ptr_wild ends; checked: ejected ""
 * ATTACK cpus_ptr_task ends; checked: ejected ""
 * ATTACK mask_empty ends; checked: ejected ""
 * ATTACK mask_beyond ends; checked: ejected ""
 * ATTACK idle_mask ends; checked: ejected ""
 * ATTACK prio ends; checked: ejected ""
 * ATTACK policy ends; checked: ejected ""
 * ATTACK state ends; checked: ejected ""
 * ATTACK comm ends; checked: ejected ""
 * ATTACK task_ones ends; checked: ejected ""
 * ATTACK task_zeros ends; checked: ejected ""
 * ATTACK task_random ends; checked: ejected ""
 * ATTACK before_task ends; checked: ejected ""
 * ATTACK beyond_task ends; checked: ejected ""
 * ATTACK idle_task ends; checked: ejected ""
 * ATTACK rq_ones ends; checked: ejected ""
 * ATTACK disallow_late runs
 * ATTACK slice_extremes runs
 * ATTACK vtime_extremes runs
 */
#include "attack.h"

struct sched_ext_entity___all {
	u64 slice;
	u64 dsq_vtime;
	u32 weight;
	u32 flags;
	u64 ddsp_dsq_id;
	u64 ddsp_enq_flags;
	u64 runnable_at;
	u64 tid;
	s32 sticky_cpu;
	s32 holding_cpu;
	s32 selected_cpu;
	bool disallow;
} __attribute__((preserve_access_index));
struct thread_info {
	u32 cpu;
} __attribute__((preserve_access_index));
struct task_struct___all {
	struct thread_info thread_info;
	struct sched_ext_entity___all scx;
} __attribute__((preserve_access_index));

struct rq *scx_bpf_cpu_rq(s32 cpu) __ksym __weak;
#define ALL(p) ((struct task_struct___all *)(p))

static __always_inline void fill(void *start, int from, int to, int how)
{
	volatile u64 *word = start;

	for (int i = from; i < to; i++)
		word[i] = how == 2 ? next_random() : how ? U64_MAX : 0;
}

#if defined(FLAGS_ZERO)
#define RUNNING ALL(p)->scx.flags = 0
#elif defined(FLAGS_QUEUED)
#define RUNNING ALL(p)->scx.flags |= SCX_TASK_QUEUED
#elif defined(FLAGS_STATE)
#define RUNNABLE ALL(p)->scx.flags ^= 0x300
#elif defined(FLAGS_RANDOM)
#define RUNNING ALL(p)->scx.flags = next_random()
#define STOPPING ALL(p)->scx.flags = next_random()
#define QUIESCENT ALL(p)->scx.flags = next_random()
#elif defined(FLAGS_BEFORE_ENQUEUE)
#define ENQUEUE ALL(p)->scx.flags = ~0U; scx_bpf_dsq_insert(p, DSQ, SCX_SLICE_DFL, enq_flags)
#elif defined(FLAGS_IN_DISPATCH)
#define DISPATCH if (prev) ALL(prev)->scx.flags = next_random(); scx_bpf_dsq_move_to_local(DSQ)
#elif defined(WEIGHT_ZERO)
#define RUNNING ALL(p)->scx.weight = 0
#elif defined(WEIGHT_HUGE)
#define RUNNING ALL(p)->scx.weight = ~0U
#elif defined(CPU_HUGE)
#define RUNNING ALL(p)->thread_info.cpu = 0x7fffffff
#elif defined(CPU_NEGATIVE)
#define STOPPING ALL(p)->thread_info.cpu = -1
#elif defined(PID_ZERO)
#define RUNNING p->pid = 0
#elif defined(PID_HUGE)
#define RUNNING p->pid = 0x7fffffff
#elif defined(STICKY_CPU)
#define RUNNABLE ALL(p)->scx.sticky_cpu = 1000
#elif defined(HOLDING_CPU)
#define RUNNABLE ALL(p)->scx.holding_cpu = 1000
#elif defined(SELECTED_CPU)
#define RUNNABLE ALL(p)->scx.selected_cpu = 1000
#elif defined(DDSP_DSQ)
#define RUNNABLE ALL(p)->scx.ddsp_dsq_id = 0x4141414141414141ULL; ALL(p)->scx.ddsp_enq_flags = U64_MAX
#define STOPPING ALL(p)->scx.ddsp_dsq_id = SCX_DSQ_LOCAL_ON | 4000
#elif defined(RUNNABLE_AT)
#define RUNNABLE ALL(p)->scx.runnable_at = U64_MAX
#elif defined(TID)
#define RUNNABLE ALL(p)->scx.tid = U64_MAX
#elif defined(ON_CPU)
#define RUNNING p->on_cpu = 77
#elif defined(NR_CPUS_ALLOWED)
#define RUNNING p->nr_cpus_allowed = -1
#elif defined(MIGRATION_DISABLED)
#define RUNNING p->migration_disabled = 0xffff
#elif defined(CPUS_PTR_NULL)
#define RUNNING p->cpus_ptr = NULL
#elif defined(CPUS_PTR_WILD)
#define RUNNING p->cpus_ptr = (void *)0x4141414141414141ULL
#elif defined(CPUS_PTR_TASK)
#define RUNNING p->cpus_ptr = (void *)p
#elif defined(MASK_EMPTY)
#define RUNNING *(volatile u64 *)p->cpus_ptr = 0
#elif defined(MASK_BEYOND)
#define RUNNING *(volatile u64 *)p->cpus_ptr = U64_MAX
#elif defined(IDLE_MASK)
#define RUNNING const struct cpumask *idle = scx_bpf_get_idle_cpumask(); *(volatile u64 *)idle = U64_MAX; \
	scx_bpf_put_idle_cpumask(idle)
#elif defined(PRIO)
#define RUNNING p->prio = -5; p->static_prio = 1000000; p->normal_prio = -1
#elif defined(POLICY)
#define RUNNING p->policy = 1000
#elif defined(STATE)
#define RUNNING p->__state = 0x7f
#elif defined(COMM)
#define RUNNING fill(p->comm, 0, 2, 1)
#elif defined(TASK_ONES)
#define RUNNING fill(p, 0, 32, 1)
#elif defined(TASK_ZEROS)
#define RUNNING fill(p, 0, 32, 0)
#elif defined(TASK_RANDOM)
#define RUNNING fill(p, 0, 24, 2)
#define QUIESCENT fill(p, 0, 24, 2)
#elif defined(BEFORE_TASK)
#define RUNNING fill(p, -64, 0, 2)
#elif defined(BEYOND_TASK)
#define RUNNING fill(p, 0, 512, 2)
#elif defined(IDLE_TASK)
#define DISPATCH struct task_struct *curr = scx_bpf_cpu_curr(cpu); if (curr) fill(curr, 0, 24, 2); \
	scx_bpf_dsq_move_to_local(DSQ)
#elif defined(RQ_ONES)
#define RUNNING struct rq *rq = scx_bpf_cpu_rq(0); if (rq) fill(rq, 0, 16, 1)
#elif defined(DISALLOW_LATE)
#define RUNNING p->scx.disallow = true
#elif defined(SLICE_EXTREMES)
#define RUNNING p->scx.slice = next_random() & 1 ? U64_MAX : next_random() & 1 ? 0 : S64_MIN
#define STOPPING p->scx.slice = next_random()
#elif defined(VTIME_EXTREMES)
#define ENQUEUE p->scx.dsq_vtime = next_random(); scx_bpf_dsq_insert_vtime(p, DSQ, 1000, p->scx.dsq_vtime, enq_flags)
#define RUNNING p->scx.dsq_vtime = next_random()
#endif
#include "policy.h"
