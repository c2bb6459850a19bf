/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tree: the root or a sub-scheduler of a hierarchy, for scripts (docs/scripts.md). It needs Linux 7.3.
 *
 * The policy keeps its tasks on its DSQ 0, first come first served. If a CPU needs a task, the policy
 * asks its sub-schedulers in the order in which they were attached, and then takes the first task of
 * DSQ 0. A sub-scheduler is granted capabilities when it is attached. Parameters select what else
 * happens.
 */
#include "../../../policies/include/scx.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0
/* A DSQ that does not exist. */
#define NO_QUEUE 77
#define MAX_SUBS 4
#define MASK_BYTES 64
#define __arena __attribute__((address_space(1)))

/* Values of Linux 7.3. */
#define SCX_ENQ_RESCUE (1ULL << 34)
#define SCX_TASK_REENQ_REASON_MASK 0x7000
#define SCX_TASK_REENQ_CAP 0x4000

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time slice of a task") = 5000000;
const volatile u64 cids PARAM("number: a bit for each cid that a sub-scheduler may use") = ~0ULL;
const volatile u64 caps PARAM("number, 0..15: capabilities that a sub-scheduler gets: 1 IMMED, 2 ENQ, 4 PREEMPT, 8 PERF") = 15;
const volatile u32 own_first PARAM("0..1: 1: the policy's own tasks come before those of sub-schedulers") = 0;
const volatile u32 on PARAM("number: tasks are inserted into the local DSQ of this cid; 0: into DSQ 0") = 0;
const volatile u32 again PARAM("0..1: 1: a task that was rejected is inserted there again, instead of into DSQ 0") = 0;
const volatile u32 rescue PARAM("0..1: 1: these insertions have the flag SCX_ENQ_RESCUE") = 0;
const volatile u32 preempt PARAM("0..1: 1: these insertions have the flag SCX_ENQ_PREEMPT") = 0;
const volatile u32 kick PARAM("number: cid that is woken for a task in DSQ 0; 0: that of the task") = 0;
const volatile u64 bad_ns PARAM("ns: time after which ops.enqueue() uses a DSQ that does not exist; 0: never") = 0;
const volatile u64 revoke_ns PARAM("ns: time after which the first sub-scheduler loses its capabilities; 0: never") = 0;
const volatile u64 revoke_cids PARAM("number: a bit for each cid of this loss") = ~0ULL;
const volatile u64 kill_ns PARAM("ns: time after which the first sub-scheduler is killed; 0: never") = 0;
const volatile u32 refuse PARAM("0..1: 1: ops.sub_attach() refuses all sub-schedulers") = 0;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct scx_cmask {
	u32 base, nr_cids, alloc_words;
	u64 bits[];
};
struct sched_ext_entity___tree {
	u32 flags;
};
struct sched_ext_ops___tree {
	u64 sub_cgroup_id;
};
struct scx_sub_attach_args {
	struct sched_ext_ops___tree *ops;
};
struct scx_sub_detach_args {
	struct sched_ext_ops___tree *ops;
};
struct scx_enable_args;
#pragma clang attribute pop

bool scx_bpf_sub_dispatch(u64 cgroup_id) __ksym;
s32 scx_bpf_sub_grant(u64 cgroup_id, u64 caps, const struct scx_cmask __arena *cmask,
		      struct scx_cmask __arena *denied) __ksym;
void scx_bpf_sub_revoke(u64 cgroup_id, u64 caps, const struct scx_cmask __arena *cmask) __ksym;
s32 scx_bpf_sub_kill_bstr(u64 cgroup_id, char *fmt, unsigned long long *data, u32 data__sz) __ksym;
void __arena *bpf_arena_alloc_pages(void *map, void __arena *addr, u32 page_cnt, int node_id, u64 flags) __ksym;
s32 scx_bpf_task_cid(const struct task_struct *p) __ksym;
u32 scx_bpf_nr_cids(void) __ksym;
void scx_bpf_kick_cid(s32 cid, u64 flags) __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, 1 << 10); /* BPF_F_MMAPABLE */
	__uint(max_entries, 100);
} arena SEC(".maps");

u64 subs[MAX_SUBS];
u32 revoked, killed;
struct scx_cmask __arena *masks;

/* The verifier demands that a program with pointers into the arena also uses the arena. */
static __always_inline void use_arena(void)
{
	void *used = &arena;

	barrier_var(used);
}

/* Returns mask number `index` of this policy, with these bits. */
static __always_inline struct scx_cmask __arena *mask(u32 index, u64 bits)
{
	struct scx_cmask __arena *m = (void __arena *)((char __arena *)masks + index * MASK_BYTES);
	u32 nr = scx_bpf_nr_cids();

	use_arena();
	m->base = 0;
	m->nr_cids = nr;
	m->alloc_words = 2;
	m->bits[0] = nr < 64 ? bits & ((1ULL << nr) - 1) : bits;
	return m;
}

/* Inserts a task into the local DSQ of `on`, or into DSQ 0. */
void SCX_OP(tree_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct sched_ext_entity___tree *scx = (void *)&p->scx;
	bool rejected = (scx->flags & SCX_TASK_REENQ_REASON_MASK) == SCX_TASK_REENQ_CAP;

	if (bad_ns && bpf_ktime_get_ns() >= bad_ns) {
		scx_bpf_dsq_insert(p, NO_QUEUE, slice_ns, enq_flags);
		return;
	}
	if (on && (!rejected || again)) {
		enq_flags |= (rescue ? SCX_ENQ_RESCUE : 0) | (preempt ? SCX_ENQ_PREEMPT : 0);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | on, slice_ns, enq_flags);
		return;
	}
	scx_bpf_dsq_insert(p, QUEUE, slice_ns, enq_flags);
	scx_bpf_kick_cid(kick ? kick : scx_bpf_task_cid(p), SCX_KICK_IDLE);
}

/* Revokes the capabilities of the first sub-scheduler, or kills it, when its time has come. */
static __always_inline void act(void)
{
	static char reason[] = "its time is over";
	unsigned long long none = 0;
	u64 now = bpf_ktime_get_ns(), first = subs[0];

	if (!first)
		return;
	if (revoke_ns && now >= revoke_ns && !revoked) {
		revoked = 1;
		scx_bpf_sub_revoke(first, 15, mask(0, revoke_cids));
	}
	if (kill_ns && now >= kill_ns && !killed) {
		killed = 1;
		scx_bpf_sub_kill_bstr(first, reason, &none, 0);
	}
}

/* Asks the sub-schedulers for a task, and takes the first task of DSQ 0. */
void SCX_OP(tree_dispatch, s32 cid, struct task_struct *prev)
{
	act();
	if (own_first && scx_bpf_dsq_move_to_local(QUEUE))
		return;
	for (u32 i = 0; i < MAX_SUBS; i++)
		if (subs[i] && scx_bpf_sub_dispatch(subs[i]))
			return;
	if (!own_first)
		scx_bpf_dsq_move_to_local(QUEUE);
}

/* Grants capabilities to a sub-scheduler. */
s32 SCX_OP_SLEEPABLE(tree_sub_attach, struct scx_sub_attach_args *args)
{
	u64 id = args->ops->sub_cgroup_id;

	if (refuse)
		return -EINVAL;
	for (u32 i = 0; i < MAX_SUBS; i++) {
		if (subs[i])
			continue;
		subs[i] = id;
		scx_bpf_sub_grant(id, caps, mask(0, cids), mask(1, 0));
		return 0;
	}
	return -E2BIG;
}

/* Forgets a sub-scheduler. */
void SCX_OP_SLEEPABLE(tree_sub_detach, struct scx_sub_detach_args *args)
{
	u64 id = args->ops->sub_cgroup_id;

	for (u32 i = 0; i < MAX_SUBS; i++)
		if (subs[i] == id)
			subs[i] = 0;
}

/* The log of a script shows the calls of these callbacks. */
void SCX_OP(tree_update_idle, s32 cid, bool idle)
{
}

void SCX_OP(tree_running, struct task_struct *p)
{
}

void SCX_OP(tree_stopping, struct task_struct *p, bool runnable)
{
}

void SCX_OP(tree_enable, struct task_struct *p, struct scx_enable_args *args)
{
}

void SCX_OP(tree_disable, struct task_struct *p)
{
}

s32 SCX_OP_SLEEPABLE(tree_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return 0;
}

void SCX_OP(tree_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
}

s32 SCX_OP_SLEEPABLE(tree_cpuctl_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	return 0;
}

void SCX_OP_SLEEPABLE(tree_cpuctl_exit, struct cgroup *cgrp)
{
}

void SCX_OP(tree_sub_caps_updated, const struct scx_cmask *cmask, u64 changed)
{
	use_arena();
}

void SCX_OP(tree_sub_ecaps_updated, s32 cid, u64 before, u64 after)
{
}

s32 SCX_OP_SLEEPABLE(tree_init)
{
	masks = bpf_arena_alloc_pages(&arena, 0, 1, -1, 0);
	if (!masks)
		return -ENOMEM;
	return scx_bpf_create_dsq(QUEUE, -1);
}

void SCX_OP(tree_exit, struct scx_exit_info *info)
{
}

struct sched_ext_ops_cid {
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cid, struct task_struct *prev);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*update_idle)(s32 cid, bool idle);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*enable)(struct task_struct *p, struct scx_enable_args *args);
	void (*disable)(struct task_struct *p);
	s32 (*cpuctl_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cpuctl_exit)(struct cgroup *cgrp);
	s32 (*sub_attach)(struct scx_sub_attach_args *args);
	void (*sub_detach)(struct scx_sub_detach_args *args);
	void (*sub_caps_updated)(const struct scx_cmask *cmask, u64 caps);
	void (*sub_ecaps_updated)(s32 cid, u64 before, u64 after);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 sub_cgroup_id;
	char name[128];
};

SEC(".struct_ops.link")
struct sched_ext_ops_cid tree_ops = {
	.enqueue = (void *)tree_enqueue,
	.dispatch = (void *)tree_dispatch,
	.running = (void *)tree_running,
	.stopping = (void *)tree_stopping,
	.update_idle = (void *)tree_update_idle,
	.init_task = (void *)tree_init_task,
	.exit_task = (void *)tree_exit_task,
	.enable = (void *)tree_enable,
	.disable = (void *)tree_disable,
	.cpuctl_init = (void *)tree_cpuctl_init,
	.cpuctl_exit = (void *)tree_cpuctl_exit,
	.sub_attach = (void *)tree_sub_attach,
	.sub_detach = (void *)tree_sub_detach,
	.sub_caps_updated = (void *)tree_sub_caps_updated,
	.sub_ecaps_updated = (void *)tree_sub_ecaps_updated,
	.init = (void *)tree_init,
	.exit = (void *)tree_exit,
	.name = "tree",
};
