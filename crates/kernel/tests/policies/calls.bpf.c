/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * calls: a policy that calls kfuncs in ops.init() and stores their results. It holds a reference to
 * task 1 until a later task runs.
 */
#include "css.h"

char _license[] SEC("license") = "GPL";

struct bpf_iter_task {
	u64 __opaque[3];
};
struct scx_event_stats {
	s64 SCX_EV_SELECT_CPU_FALLBACK;
	s64 SCX_EV_BYPASS_ACTIVATE;
} __attribute__((preserve_access_index));
struct scx_cid_topo {
	s32 core_cid, core_idx, llc_cid, llc_idx, node_cid, node_idx;
};

struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;
void bpf_cgroup_release(struct cgroup *cgrp) __ksym;
struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym;
int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task, unsigned int flags) __ksym;
struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it) __ksym;
void bpf_iter_task_destroy(struct bpf_iter_task *it) __ksym;
void scx_bpf_events(struct scx_event_stats *events, unsigned long events__sz) __ksym;
u32 scx_bpf_nr_node_ids(void) __ksym;
int scx_bpf_cpu_node(s32 cpu) __ksym;
u32 scx_bpf_cpuperf_cap(s32 cpu) __ksym;
u32 scx_bpf_cpuperf_cur(s32 cpu) __ksym;
void scx_bpf_cpuperf_set(s32 cpu, u32 perf) __ksym;
const struct cpumask *scx_bpf_get_online_cpumask(void) __ksym;
const struct cpumask *scx_bpf_get_possible_cpumask(void) __ksym;
u32 bpf_cpumask_weight(const struct cpumask *cpumask) __ksym;
u32 scx_bpf_nr_cids(void) __ksym;
s32 scx_bpf_cpu_to_cid(s32 cpu) __ksym;
s32 scx_bpf_cid_to_cpu(s32 cid) __ksym;
void scx_bpf_cid_topo(s32 cid, struct scx_cid_topo *out, unsigned long out__sz) __ksym;
struct task_struct *scx_bpf_cpu_curr(s32 cpu) __ksym;
struct task_struct *scx_bpf_tid_to_task(u64 tid) __ksym;
/* Linux 7.2 does not have this kfunc. */
void bpf_stream_vprintk_impl(int stream_id, const char *fmt, const void *args, u32 len, void *aux) __ksym __weak;

u64 pre, post, up, children, bad_order, threads, leaders, of_process, nodes, node_of_3, cap, cur, online, possible, cids, cid_of_2;
u64 topo_llc, topo_node, curr_pid, no_pid, bypass_activate, events_beyond, has_stream, released, held_pid, task_cgroup, by_tid;
u64 pids, thread_pids, leader_pids, of_process_rest, no_task, no_order;
static struct task_struct *held;
u64 held_addr;

static __always_inline u64 count(struct task_struct *p, unsigned int flags)
{
	struct bpf_iter_task it;
	u64 n = 0;

	pids = 0;
	bpf_iter_task_new(&it, p, flags);
	while ((p = bpf_iter_task_next(&it))) {
		pids = pids * 10 + p->pid;
		n++;
	}
	bpf_iter_task_destroy(&it);
	return n;
}

s32 SCX_OP_SLEEPABLE(calls_init)
{
	struct cgroup *root = bpf_cgroup_from_id(1), *mid = bpf_cgroup_from_id(24), *leaf = bpf_cgroup_from_id(25);
	u64 events[14] = {};
	struct scx_cid_topo topo;
	struct bpf_iter_task it;
	struct task_struct *p;

	pre = walk(root, 2);
	post = walk(root, 3);
	up = walk(leaf, 4);
	children = walk(mid, 5);
	bad_order = walk(root, 9);
	bpf_cgroup_release(root);
	nodes = scx_bpf_nr_node_ids();
	node_of_3 = scx_bpf_cpu_node(3);
	cap = scx_bpf_cpuperf_cap(1);
	cur = scx_bpf_cpuperf_cur(1);
	scx_bpf_cpuperf_set(1, 512);
	online = bpf_cpumask_weight(scx_bpf_get_online_cpumask());
	possible = bpf_cpumask_weight(scx_bpf_get_possible_cpumask());
	cids = scx_bpf_nr_cids();
	cid_of_2 = scx_bpf_cid_to_cpu(scx_bpf_cpu_to_cid(2));
	scx_bpf_cid_topo(3, &topo, sizeof(topo));
	topo_llc = topo.llc_cid * 10 + topo.llc_idx;
	topo_node = topo.node_cid * 10 + topo.node_idx;
	curr_pid = scx_bpf_cpu_curr(0)->pid;
	no_pid = (u64)bpf_task_from_pid(12345);
	events[3] = 77;
	scx_bpf_events((void *)events, 3 * 8);
	events_beyond = events[3];
	scx_bpf_events((void *)events, sizeof(events));
	bypass_activate = ((struct scx_event_stats *)events)->SCX_EV_BYPASS_ACTIVATE;
	has_stream = !!bpf_stream_vprintk_impl;
	threads = count(NULL, 1);
	thread_pids = pids;
	leaders = count(NULL, 0);
	leader_pids = pids;
	no_task = bpf_iter_task_new(&it, NULL, 2);
	no_order = bpf_iter_task_new(&it, NULL, 3);
	p = bpf_task_from_pid(2);
	if (!p)
		return -ESRCH;
	of_process = count(p, 2);
	bpf_task_release(p);
	p = bpf_task_from_pid(3);
	if (!p)
		return -ESRCH;
	of_process_rest = count(p, 2);
	bpf_task_release(p);
	held = bpf_task_from_pid(1);
	held_addr = (u64)held;
	return 0;
}

void SCX_OP(calls_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task_struct *found = scx_bpf_tid_to_task(p->pid);

	by_tid = found ? found->pid : 0;
	task_cgroup = scx_bpf_task_cgroup(p)->kn->id;
	if (held)
		held_pid = held->pid;
	if (held && p->pid >= 6) {
		bpf_task_release(held);
		held = NULL;
		released = 1;
	}
}

SCX_OPS(calls_ops, .init = (void *)calls_init, .runnable = (void *)calls_runnable, .flags = 256, .name = "calls");
