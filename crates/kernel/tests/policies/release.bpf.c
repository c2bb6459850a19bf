/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * release: a policy that runs on every Linux release with sched_ext, because it uses weak symbols
 * and CO-RE. It schedules all tasks on one DSQ in vtime order, and records which kfuncs, fields and
 * enumerators the kernel has. These macros change it:
 *
 * STRONG     uses scx_bpf_cpu_curr() as a symbol that is not weak
 * BANDWIDTH  defines ops.cgroup_set_bandwidth()
 * UNHEARD    defines a callback that no kernel has
 * FLAGS=x    value of ops.flags
 */
#include "scx.h"

#define QUEUE 1

bool scx_bpf_consume___old(u64 dsq_id) __ksym __weak;
bool scx_bpf_dsq_move_to_local___v1(u64 dsq_id) __ksym __weak;
void scx_bpf_dispatch_vtime___old(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags) __ksym __weak;
void scx_bpf_dsq_insert_vtime___v1(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags) __ksym __weak;
u32 scx_bpf_nr_cids(void) __ksym __weak;
u32 scx_bpf_nr_node_ids(void) __ksym __weak;
bool scx_bpf_sub_dispatch(u64 cgroup_id) __ksym __weak;
struct task_struct *scx_bpf_cpu_curr___strong(s32 cpu) __ksym;
extern int LINUX_KERNEL_VERSION __kconfig;

enum scx_ops_flags___any {
	SCX_OPS_ALLOW_QUEUED_WAKEUP___any = 1,
};
struct sched_ext_entity___any {
	u64 tid;
} __attribute__((preserve_access_index));
struct scx_event_stats {
	s64 SCX_EV_SELECT_CPU_FALLBACK;
} __attribute__((preserve_access_index));
struct scx_cgroup_init_args___any {
	u64 bw_quota_us;
} __attribute__((preserve_access_index));

#define field_exists(field) __builtin_preserve_field_info(field, 2)
#define type_exists(type) __builtin_preserve_type_info(*(type *)0, 0)
#define enumerator_exists(type, value) __builtin_preserve_enum_value(*(type *)value, 0)

u64 nr_old, nr_v1, nr_new;
u64 version, has_tid, has_events, has_bw_quota, has_queued_wakeup;
u64 has_nr_cids, has_nr_node_ids, has_sub_dispatch, has_now;

char _license[] SEC("license") = "GPL";

void SCX_OP(release_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime;

	if (type_exists(struct scx_bpf_dsq_insert_vtime_args) && __scx_bpf_dsq_insert_vtime) {
		nr_new++;
		scx_bpf_dsq_insert_vtime(p, QUEUE, 2000000, vtime, enq_flags);
	} else if (scx_bpf_dsq_insert_vtime___v1) {
		nr_v1++;
		scx_bpf_dsq_insert_vtime___v1(p, QUEUE, 2000000, vtime, enq_flags);
	} else {
		nr_old++;
		scx_bpf_dispatch_vtime___old(p, QUEUE, 2000000, vtime, enq_flags);
	}
}

void SCX_OP(release_dispatch, s32 cpu, struct task_struct *prev)
{
	if (scx_bpf_dsq_move_to_local___v2___compat)
		scx_bpf_dsq_move_to_local___v2___compat(QUEUE, 0);
	else if (scx_bpf_dsq_move_to_local___v1)
		scx_bpf_dsq_move_to_local___v1(QUEUE);
	else
		scx_bpf_consume___old(QUEUE);
}

void SCX_OP(release_stopping, struct task_struct *p, bool runnable)
{
	p->scx.dsq_vtime += 2000000 - p->scx.slice;
}

s32 SCX_OP_SLEEPABLE(release_init)
{
	version = LINUX_KERNEL_VERSION;
	has_tid = field_exists(((struct sched_ext_entity___any *)0)->tid);
	has_events = type_exists(struct scx_event_stats);
	has_bw_quota = field_exists(((struct scx_cgroup_init_args___any *)0)->bw_quota_us);
	has_queued_wakeup = enumerator_exists(enum scx_ops_flags___any, SCX_OPS_ALLOW_QUEUED_WAKEUP___any);
	has_nr_cids = !!scx_bpf_nr_cids;
	has_nr_node_ids = !!scx_bpf_nr_node_ids;
	has_sub_dispatch = !!scx_bpf_sub_dispatch;
	has_now = !!scx_bpf_now;
#ifdef STRONG
	if (!scx_bpf_cpu_curr___strong(0))
		return -EINVAL;
#endif
	return scx_bpf_create_dsq(QUEUE, -1);
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sched_ext_ops___any {
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*unheard)(struct task_struct *p, bool runnable);
	void (*cgroup_set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us);
	s32 (*init)(void);
	u64 flags;
	char name[128];
};
#pragma clang attribute pop

void SCX_OP(release_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us)
{
}

SEC(".struct_ops.link") struct sched_ext_ops___any release_ops = {
	.enqueue = (void *)release_enqueue,
	.dispatch = (void *)release_dispatch,
	.stopping = (void *)release_stopping,
#ifdef UNHEARD
	.unheard = (void *)release_stopping,
#endif
#ifdef BANDWIDTH
	.cgroup_set_bandwidth = (void *)release_bandwidth,
#endif
	.init = (void *)release_init,
#ifdef FLAGS
	.flags = FLAGS,
#endif
	.name = "release",
};
