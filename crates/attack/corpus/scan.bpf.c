/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Attacks that call kernel functions in an endless loop. These functions search for an idle CPU, or
 * iterate through the tasks of a DSQ or through cgroups. Each call is only one instruction of the
 * program, but causes much work for the host.
 *
 * Each ATTACK line below has the name of an attack, and how the attack must end. "ends" means that
 * any end is allowed. The text after "checked:" applies to runs with the sanitizer (--sanitize). The
 * number after "cpus:" is the number of the machine's CPUs. To compile an attack, its name in upper
 * case is defined as a macro (see ../src/corpus.rs).
 *
 * ATTACK pick_idle_loop ejected "endless loop"; cpus: 8192
 * ATTACK pick_any_loop ejected "endless loop"; cpus: 8192
 * ATTACK select_cpu_dfl_loop ejected "endless loop"; cpus: 8192
 * ATTACK online_mask_loop ejected "endless loop"; cpus: 8192
 * ATTACK create_destroy_loop ends; cpus: 8192
 * ATTACK dsq_iterator_empty ejected "endless loop"
 * ATTACK dsq_iterator_full ejected "endless loop"
 * ATTACK move_to_local_loop ejected "endless loop"
 * ATTACK peek_nothing_loop ejected "peek on non-existent DSQ"
 * ATTACK task_iterator_loop ejected "endless loop"
 * ATTACK thread_iterator_loop ejected "endless loop"
 * ATTACK css_iterator_loop ejected "endless loop"; checked: ejected "untested"
 * ATTACK ancestor_loop ejected "endless loop"
 * ATTACK hold_and_unlock ejected "endless loop"
 * ATTACK kick_two_loop ejected "endless loop"
 * ATTACK kick_all_loop ejected "endless loop"; cpus: 8192
 * ATTACK reenq_loop ejected "endless loop"
 */
#include "attack.h"

void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags) __ksym __weak;
struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym __weak;
struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level) __ksym __weak;
struct bpf_iter_task {
	u64 __opaque[3];
};
struct bpf_iter_css {
	u64 __opaque[3];
};
int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task, u32 flags) __ksym __weak;
struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it) __ksym __weak;
int bpf_iter_css_new(struct bpf_iter_css *it, struct cgroup_subsys_state *start, u32 flags) __ksym __weak;
struct cgroup_subsys_state *bpf_iter_css_next(struct bpf_iter_css *it) __ksym __weak;

u64 calls;

#define FOREVER while (!opaque_zero && ++calls)

static __noinline void walk_dsq(void)
{
	struct bpf_iter_scx_dsq it;

	FOREVER {
		if (bpf_iter_scx_dsq_new(&it, 1, 0))
			break;
		while (bpf_iter_scx_dsq_next(&it))
			calls++;
		bpf_iter_scx_dsq_destroy(&it);
	}
}

static __noinline void walk_tasks(u32 flags)
{
	struct bpf_iter_task it;

	FOREVER {
		if (bpf_iter_task_new(&it, NULL, flags))
			break;
		while (bpf_iter_task_next(&it))
			calls++;
	}
}

static __noinline void walk_cgroups(struct cgroup_subsys_state *root)
{
	struct bpf_iter_css it;

	FOREVER {
		/* BPF_CGROUP_ITER_DESCENDANTS_PRE */
		if (bpf_iter_css_new(&it, root, 2))
			break;
		while (bpf_iter_css_next(&it))
			calls++;
	}
}

#if defined(PICK_IDLE_LOOP)
#define TICK FOREVER scx_bpf_pick_idle_cpu(p->cpus_ptr, 0)
#elif defined(PICK_ANY_LOOP)
#define TICK FOREVER scx_bpf_pick_any_cpu(p->cpus_ptr, 0)
#elif defined(SELECT_CPU_DFL_LOOP)
#define SELECT_CPU bool idle; FOREVER scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle)
#elif defined(ONLINE_MASK_LOOP)
#define TICK FOREVER scx_bpf_get_online_cpumask()
#elif defined(CREATE_DESTROY_LOOP)
#define INIT FOREVER { scx_bpf_create_dsq(2, -1); scx_bpf_destroy_dsq(2); }
#elif defined(DSQ_ITERATOR_EMPTY)
#define ENQUEUE scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags)
#define TICK walk_dsq()
#elif defined(DSQ_ITERATOR_FULL)
#define TICK walk_dsq()
#elif defined(MOVE_TO_LOCAL_LOOP)
#define DISPATCH FOREVER scx_bpf_dsq_move_to_local(1)
#elif defined(PEEK_NOTHING_LOOP)
#define INIT for (int i = 2; i < 1000; i++) scx_bpf_create_dsq(i, -1)
#define TICK FOREVER scx_bpf_dsq_peek(5000)
#elif defined(TASK_ITERATOR_LOOP)
#define TICK walk_tasks(0)
#elif defined(THREAD_ITERATOR_LOOP)
#define TICK walk_tasks(1)
#elif defined(CSS_ITERATOR_LOOP)
#define RUNNING walk_cgroups((void *)bpf_cgroup_ancestor(scx_bpf_task_cgroup(p), 0))
#elif defined(ANCESTOR_LOOP)
#define RUNNING FOREVER bpf_cgroup_ancestor(scx_bpf_task_cgroup(p), OPAQUE(0))
#elif defined(HOLD_AND_UNLOCK)
#define RUNNING FOREVER { scx_bpf_task_cgroup(p); bpf_rcu_read_lock(); bpf_rcu_read_unlock(); }
#elif defined(KICK_TWO_LOOP)
#define TICK FOREVER scx_bpf_kick_cpu(calls & 1, SCX_KICK_IDLE)
#elif defined(KICK_ALL_LOOP)
#define TICK FOREVER scx_bpf_kick_cpu(calls & 8191, calls & 8192 ? SCX_KICK_IDLE : 0)
#elif defined(REENQ_LOOP)
#define TICK FOREVER scx_bpf_dsq_reenq(1, 0)
#endif
#include "policy.h"
