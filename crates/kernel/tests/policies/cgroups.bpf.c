/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroups: a policy that prints one line for each call of a callback or tracepoint about cgroups.
 * The lines contain the ids of cgroups and the pids of tasks. These macros change it:
 *
 * REFUSE_MKDIR     rejects cgroups that are created after the first task has run
 * REFUSE_MOVE=pid  rejects moves of the task with this pid
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

static void *(*const cgrp_storage_get)(void *map, struct cgroup *cgrp, void *value, u64 flags) = (void *)210;
struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;
void bpf_cgroup_release(struct cgroup *cgrp) __ksym;

struct scx_cgroup_init_args___full {
	u32 weight;
	u64 bw_period_us, bw_quota_us, bw_burst_us;
} __attribute__((preserve_access_index));

struct {
	__uint(type, 32);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} seen SEC(".maps");

bool running;
u64 nr_kept;

#define say(format, args...) bpf_printk(format, ##args)
#define id(cgrp) ((cgrp)->kn->id & 0xffffffff)

s32 SCX_OP_SLEEPABLE(cgroups_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	struct scx_cgroup_init_args___full *full = (void *)args;
	u64 *kept = cgrp_storage_get(&seen, cgrp, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

#ifdef REFUSE_MKDIR
	if (running)
		return -ENOMEM;
#endif
	if (kept && (*kept)++)
		nr_kept++;
	say("init %llu weight %llu quota %llu of %llu", id(cgrp), full->weight,
	    full->bw_quota_us == -1ULL ? 0 : full->bw_quota_us, full->bw_period_us);
	return 0;
}

void SCX_OP_SLEEPABLE(cgroups_cgroup_exit, struct cgroup *cgrp)
{
	say("exit %llu", id(cgrp));
}

s32 SCX_OP_SLEEPABLE(cgroups_cgroup_prep_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	say("prep_move %llu from %llu to %llu", p->pid, id(from), id(to));
#ifdef REFUSE_MOVE
	if (p->pid == REFUSE_MOVE)
		return -EINVAL;
#endif
	return 0;
}

void SCX_OP(cgroups_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	say("move %llu from %llu to %llu", p->pid, id(from), id(to));
}

void SCX_OP_SLEEPABLE(cgroups_cgroup_cancel_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	say("cancel_move %llu from %llu to %llu", p->pid, id(from), id(to));
}

void SCX_OP_SLEEPABLE(cgroups_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	say("set_weight %llu %llu", id(cgrp), weight);
}

void SCX_OP_SLEEPABLE(cgroups_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us)
{
	say("set_bandwidth %llu quota %llu of %llu burst %llu", id(cgrp), quota_us == -1ULL ? 0 : quota_us, period_us,
	    burst_us);
}

void SCX_OP_SLEEPABLE(cgroups_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	say("set_idle %llu %llu", id(cgrp), idle);
}

SEC("tp_btf/cgroup_mkdir") int on_mkdir(u64 *ctx)
{
	struct cgroup *cgrp = (void *)ctx[0];

	say("tp mkdir %llu", id(cgrp));
	return 0;
}

SEC("tp_btf/cgroup_rmdir") int on_rmdir(u64 *ctx)
{
	struct cgroup *cgrp = (void *)ctx[0];

	say("tp rmdir %llu", id(cgrp));
	return 0;
}

SEC("tp_btf/cgroup_attach_task") int on_attach(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[2];

	say("tp attach %llu", p->pid);
	return 0;
}

void SCX_OP(cgroups_running, struct task_struct *p)
{
	running = true;
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sched_ext_ops___full {
	void (*running)(struct task_struct *p);
	s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	s32 (*cgroup_prep_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_cancel_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_set_weight)(struct cgroup *cgrp, u32 weight);
	void (*cgroup_set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us);
	void (*cgroup_set_idle)(struct cgroup *cgrp, bool idle);
	char name[128];
};
#pragma clang attribute pop

SEC(".struct_ops.link") struct sched_ext_ops___full cgroups_ops = {
	.running = (void *)cgroups_running,
	.cgroup_init = (void *)cgroups_cgroup_init,
	.cgroup_exit = (void *)cgroups_cgroup_exit,
	.cgroup_prep_move = (void *)cgroups_cgroup_prep_move,
	.cgroup_move = (void *)cgroups_cgroup_move,
	.cgroup_cancel_move = (void *)cgroups_cgroup_cancel_move,
	.cgroup_set_weight = (void *)cgroups_cgroup_set_weight,
	.cgroup_set_bandwidth = (void *)cgroups_cgroup_set_bandwidth,
	.cgroup_set_idle = (void *)cgroups_cgroup_set_idle,
	.name = "cgroups",
};
