/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * caps: the root policy or a sub-scheduler of Linux 7.3, where a sub-scheduler needs capabilities to use
 * CPUs. The policy keeps its tasks on its DSQ 0 in FIFO order. When a CPU needs a task, the policy first
 * asks its sub-schedulers. These macros change it:
 *
 * NAME=x      the name of the policy
 * CIDS=mask   ops.sub_attach() grants CAPS for these cids; by default for all
 * CAPS=caps   the capabilities that ops.sub_attach() grants; by default all
 * REVOKE=mask the policy revokes all capabilities for these cids after 20 ms
 * KILL        the policy kills its sub-scheduler after 20 ms
 * ON=cid      ops.enqueue() inserts tasks into the local DSQ of this CPU
 * FLAGS=x     flags of these insertions
 * LOOP        ops.enqueue() inserts a rejected task there again, instead of into DSQ 0
 * PPT=x       value of ops.rescue_bandwidth_ppt
 * SHARDS      ops.init_cids() reverses the cids and makes a shard of each CPU
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#ifndef NAME
#define NAME "root"
#endif
#ifndef CIDS
#define CIDS ~0ULL
#endif
#ifndef CAPS
#define CAPS 15
#endif
#ifndef FLAGS
#define FLAGS 0
#endif
#ifndef PPT
#define PPT 0
#endif
#define __arena __attribute__((address_space(1)))
#define MAX_SUBS 8
#define MAX_CIDS 8
#define REENQ_CAP 0x4000

struct scx_cmask {
	u32 base, nr_cids, alloc_words;
	u64 bits[];
} __attribute__((preserve_access_index));

struct sched_ext_entity___caps {
	u64 reenq_reason_caps;
	s32 reenq_reason_cid;
	u32 flags;
} __attribute__((preserve_access_index));

struct scx_enable_args {
	u64 cmask_arena_addr;
} __attribute__((preserve_access_index));

struct scx_cid_topo {
	s32 core_cid, core_idx, llc_cid, llc_idx, node_cid, node_idx, shard_cid, shard_idx;
};

struct sched_ext_ops___caps {
	u64 sub_cgroup_id;
} __attribute__((preserve_access_index));

struct scx_sub_attach_args {
	struct sched_ext_ops___caps *ops;
} __attribute__((preserve_access_index));

struct scx_sub_detach_args {
	struct sched_ext_ops___caps *ops;
} __attribute__((preserve_access_index));

bool scx_bpf_sub_dispatch(u64 cgroup_id) __ksym;
s32 scx_bpf_sub_grant(u64 cgroup_id, u64 caps, const struct scx_cmask __arena *cmask,
		      struct scx_cmask __arena *denied) __ksym;
void scx_bpf_sub_revoke(u64 cgroup_id, u64 caps, const struct scx_cmask __arena *cmask) __ksym;
s32 scx_bpf_sub_caps(u64 cgroup_id, u64 caps, struct scx_cmask __arena *out) __ksym;
s32 scx_bpf_sub_kill_bstr(u64 cgroup_id, char *fmt, unsigned long long *data, u32 data__sz) __ksym;
void scx_bpf_cid_override(const s32 __arena *cpu_to_cid, u32 cpu_to_cid_cnt,
			  const s32 __arena *shard_start, u32 shard_start_cnt) __ksym;
const void __arena *scx_bpf_online_cmask(void) __ksym;
void scx_bpf_cid_topo(s32 cid, struct scx_cid_topo *out, u64 size) __ksym;
void __arena *bpf_arena_alloc_pages(void *map, void __arena *addr, u32 page_cnt, int node_id, u64 flags) __ksym;
s32 scx_bpf_this_cid(void) __ksym;
s32 scx_bpf_task_cid(const struct task_struct *p) __ksym;
u32 scx_bpf_nr_cids(void) __ksym;
void scx_bpf_kick_cid(s32 cid, u64 flags) __ksym;

struct {
	__uint(type, 33);
	__uint(map_flags, 1 << 10);
	__uint(max_entries, 100);
} arena SEC(".maps");

u64 nr_rejected, reason_caps, reason_cid, nr_enqueued, nr_detached, nr_ecaps, nr_caps, changed_caps, changed_cids;
u64 nr_cgroup_init, nr_cgroup_exit, nr_init_task, nr_exit_task, nr_set_weight;
u64 grant_result, denied_cids, own_cids, child_cids, online_cids, enable_mask, exit_kind, acted, shard_of_last;
u64 ran[MAX_CIDS], idled[MAX_CIDS], ecaps[MAX_CIDS];
u64 subs[MAX_SUBS];
struct scx_cmask __arena *masks;

/* Returns one of the masks of this policy, with these bits. */
static struct scx_cmask __arena *mask(u32 index, u64 bits)
{
	struct scx_cmask __arena *m = (void __arena *)((char __arena *)masks + index * 64);

	m->base = 0;
	m->nr_cids = scx_bpf_nr_cids();
	m->alloc_words = 2;
	m->bits[0] = bits & ((1ULL << m->nr_cids) - 1);
	return m;
}

void SCX_OP(caps_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct sched_ext_entity___caps *scx = (void *)&p->scx;

	nr_enqueued++;
	if ((scx->flags & 0x7000) == REENQ_CAP) {
		nr_rejected++;
		reason_caps = scx->reenq_reason_caps;
		reason_cid = scx->reenq_reason_cid;
#ifndef LOOP
		scx_bpf_dsq_insert(p, 0, 2000000, enq_flags);
		return;
#endif
	}
#ifdef ON
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | ON, 2000000, enq_flags | FLAGS);
#else
	scx_bpf_dsq_insert(p, 0, 2000000, enq_flags);
	scx_bpf_kick_cid(scx_bpf_task_cid(p), SCX_KICK_IDLE);
#endif
}

static void act(void)
{
	if (acted || bpf_ktime_get_ns() < 20000000 || !subs[0])
		return;
	acted = 1;
#ifdef REVOKE
	scx_bpf_sub_revoke(subs[0], 15, mask(0, REVOKE));
	scx_bpf_sub_caps(subs[0], 15, mask(1, 0));
	child_cids = ((struct scx_cmask __arena *)((char __arena *)masks + 64))->bits[0];
#endif
#ifdef KILL
	static char fmt[] = "cgroup %llu must go";
	unsigned long long data[] = { subs[0] };

	scx_bpf_sub_kill_bstr(subs[0], fmt, data, sizeof(data));
#endif
}

void SCX_OP(caps_dispatch, s32 cid, struct task_struct *prev)
{
	act();
	for (int i = 0; i < MAX_SUBS; i++) {
		if (subs[i] && scx_bpf_sub_dispatch(subs[i]))
			return;
	}
	scx_bpf_dsq_move_to_local(0);
}

void SCX_OP(caps_running, struct task_struct *p)
{
	ran[scx_bpf_task_cid(p) & (MAX_CIDS - 1)]++;
}

void SCX_OP(caps_update_idle, s32 cid, bool idle)
{
	if (idle)
		idled[cid & (MAX_CIDS - 1)]++;
}

void SCX_OP(caps_enable, struct task_struct *p, struct scx_enable_args *args)
{
	struct scx_cmask __arena *m = (void __arena *)args->cmask_arena_addr;

	enable_mask = m->bits[0];
}

s32 SCX_OP_SLEEPABLE(caps_sub_attach, struct scx_sub_attach_args *args)
{
	u64 id = args->ops->sub_cgroup_id;

	for (int i = 0; i < MAX_SUBS; i++) {
		if (subs[i])
			continue;
		subs[i] = id;
		grant_result = (s64)scx_bpf_sub_grant(id, CAPS, mask(0, CIDS), mask(1, 0));
		denied_cids = ((struct scx_cmask __arena *)((char __arena *)masks + 64))->bits[0];
		return 0;
	}
	return -28;
}

void SCX_OP_SLEEPABLE(caps_sub_detach, struct scx_sub_detach_args *args)
{
	nr_detached++;
	for (int i = 0; i < MAX_SUBS; i++) {
		if (subs[i] == args->ops->sub_cgroup_id)
			subs[i] = 0;
	}
}

s32 SCX_OP_SLEEPABLE(caps_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	nr_init_task++;
	return 0;
}

void SCX_OP(caps_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	nr_exit_task++;
}

s32 SCX_OP_SLEEPABLE(caps_cpuctl_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	nr_cgroup_init++;
	return 0;
}

void SCX_OP_SLEEPABLE(caps_cpuctl_exit, struct cgroup *cgrp)
{
	nr_cgroup_exit++;
}

void SCX_OP_SLEEPABLE(caps_cpuctl_set_weight, struct cgroup *cgrp, u32 weight)
{
	nr_set_weight++;
}

void SCX_OP(caps_sub_caps_updated, struct scx_cmask *cmask, u64 caps)
{
	struct scx_cmask __arena *m = (void __arena *)(long)cmask;

	nr_caps++;
	changed_caps |= caps;
	changed_cids |= m->bits[0];
}

void SCX_OP(caps_sub_ecaps_updated, s32 cid, u64 before, u64 after)
{
	nr_ecaps++;
	ecaps[cid & (MAX_CIDS - 1)] = after;
}

#ifdef SHARDS
s32 SCX_OP_SLEEPABLE(caps_init_cids)
{
	s32 __arena *cids = bpf_arena_alloc_pages(&arena, 0, 1, -1, 0);
	s32 __arena *starts = cids + MAX_CIDS;
	u32 nr = scx_bpf_nr_cids();

	if (!cids)
		return -12;
	for (u32 i = 0; i < MAX_CIDS && i < nr; i++) {
		cids[i] = nr - 1 - i;
		starts[i] = i;
	}
	scx_bpf_cid_override(cids, nr, starts, nr);
	return 0;
}
#endif

s32 SCX_OP_SLEEPABLE(caps_init)
{
	const struct scx_cmask __arena *online = scx_bpf_online_cmask();
	struct scx_cid_topo topo;

	masks = bpf_arena_alloc_pages(&arena, 0, 1, -1, 0);
	if (!masks || !online)
		return -12;
	online_cids = online->bits[0];
	scx_bpf_sub_caps(0, 1, mask(2, 0));
	own_cids = ((struct scx_cmask __arena *)((char __arena *)masks + 128))->bits[0];
	scx_bpf_cid_topo(scx_bpf_nr_cids() - 1, &topo, sizeof(topo));
	shard_of_last = topo.shard_idx;
	return scx_bpf_create_dsq(0, -1);
}

void SCX_OP(caps_exit, struct scx_exit_info *ei)
{
	exit_kind = ei->kind;
}

struct sched_ext_ops_cid {
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cid, struct task_struct *prev);
	void (*running)(struct task_struct *p);
	void (*update_idle)(s32 cid, bool idle);
	void (*enable)(struct task_struct *p, struct scx_enable_args *args);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	s32 (*cpuctl_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cpuctl_exit)(struct cgroup *cgrp);
	void (*cpuctl_set_weight)(struct cgroup *cgrp, u32 weight);
	s32 (*sub_attach)(struct scx_sub_attach_args *args);
	void (*sub_detach)(struct scx_sub_detach_args *args);
	void (*sub_caps_updated)(struct scx_cmask *cmask, u64 caps);
	void (*sub_ecaps_updated)(s32 cid, u64 before, u64 after);
	s32 (*init_cids)(void);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 rescue_bandwidth_ppt;
	char name[128];
};

SEC(".struct_ops.link")
struct sched_ext_ops_cid caps_ops = {
	.enqueue = (void *)caps_enqueue,
	.dispatch = (void *)caps_dispatch,
	.running = (void *)caps_running,
	.update_idle = (void *)caps_update_idle,
	.enable = (void *)caps_enable,
	.init_task = (void *)caps_init_task,
	.exit_task = (void *)caps_exit_task,
	.cpuctl_init = (void *)caps_cpuctl_init,
	.cpuctl_exit = (void *)caps_cpuctl_exit,
	.cpuctl_set_weight = (void *)caps_cpuctl_set_weight,
	.sub_attach = (void *)caps_sub_attach,
	.sub_detach = (void *)caps_sub_detach,
	.sub_caps_updated = (void *)caps_sub_caps_updated,
	.sub_ecaps_updated = (void *)caps_sub_ecaps_updated,
#ifdef SHARDS
	.init_cids = (void *)caps_init_cids,
#endif
	.init = (void *)caps_init,
	.exit = (void *)caps_exit,
	.rescue_bandwidth_ppt = PPT,
	.name = NAME,
};
