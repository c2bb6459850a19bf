/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cid: a policy that identifies CPUs by cid (topological CPU number). It inserts each task into the
 * local DSQ of the task's cid. It also counts those calls of its callbacks in which an argument is
 * wrong. These macros change it:
 *
 * REVERSE   ops.init() numbers the CPUs in reverse order
 * TWICE     ops.init() assigns the same cid to two CPUs
 * RANGE     ops.init() assigns a cid that is out of range
 * BAD       ops.select_cid() returns 99, which is not a cid
 * NO_ARENA  the policy has no arena
 * CPU_ONLY  the policy calls a kfunc that takes a CPU number
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define __arena __attribute__((address_space(1)))
#define NR_CPUS 4

struct scx_cmask {
	u32 base, nr_cids, alloc_words;
	u64 bits[];
} __attribute__((preserve_access_index));

#ifndef NO_ARENA
struct {
	__uint(type, 33);
	__uint(map_flags, 1 << 10);
	__uint(max_entries, 100);
} arena SEC(".maps");
#endif

s32 scx_bpf_this_cid(void) __ksym;
s32 scx_bpf_task_cid(const struct task_struct *p) __ksym;
s32 scx_bpf_cid_to_cpu(s32 cid) __ksym;
void scx_bpf_kick_cid(s32 cid, u64 flags) __ksym;
void scx_bpf_cid_override(const s32 *cpu_to_cid, u32 cpu_to_cid__sz) __ksym;
struct scx_cid_topo {
	s32 core_cid, core_idx, llc_cid, llc_idx, node_cid, node_idx, more;
};
void scx_bpf_cid_topo(s32 cid, struct scx_cid_topo *out, unsigned long out__sz) __ksym;

u64 mask_bits, mask_cids, mask_words, wrong_dispatch, wrong_task, dispatched[NR_CPUS], idled[NR_CPUS], arena_addr, cpu_of_0;
s32 places[7];
static s32 cids[NR_CPUS];

s32 SCX_OP(cid_select_cid, struct task_struct *p, s32 prev_cid, u64 wake_flags)
{
	if (prev_cid != scx_bpf_task_cid(p))
		wrong_task++;
#ifdef BAD
	return 99;
#endif
	return prev_cid;
}

void SCX_OP(cid_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cid = scx_bpf_task_cid(p);

	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cid, 2000000, enq_flags);
	scx_bpf_kick_cid(cid, SCX_KICK_IDLE);
#ifdef CPU_ONLY
	scx_bpf_kick_cpu(0, 0);
#endif
}

void SCX_OP(cid_dispatch, s32 cid, struct task_struct *prev)
{
	if (cid != scx_bpf_this_cid() || cid < 0 || cid >= NR_CPUS)
		wrong_dispatch++;
	else
		dispatched[cid]++;
}

void SCX_OP(cid_update_idle, s32 cid, bool idle)
{
	if (cid >= 0 && cid < NR_CPUS && idle)
		idled[cid]++;
}

void SCX_OP(cid_set_cmask, struct task_struct *p, struct scx_cmask *told)
{
	const struct scx_cmask __arena *cmask = (void __arena *)(long)told;

	if (p->nr_cpus_allowed == NR_CPUS)
		return;
	mask_cids = cmask->nr_cids;
	mask_words = cmask->alloc_words;
	mask_bits = cmask->bits[0];
}

s32 SCX_OP_SLEEPABLE(cid_init)
{
	struct scx_cid_topo topo;

	for (int cpu = 0; cpu < NR_CPUS; cpu++)
		cids[cpu] = NR_CPUS - 1 - cpu;
#ifdef TWICE
	cids[1] = cids[0];
#endif
#ifdef RANGE
	cids[1] = 4;
#endif
#if defined(REVERSE) || defined(TWICE) || defined(RANGE)
	scx_bpf_cid_override(cids, sizeof(cids));
#endif
	cpu_of_0 = scx_bpf_cid_to_cpu(0);
	scx_bpf_cid_topo(1, &topo, sizeof(topo));
	for (int i = 0; i < 7; i++)
		places[i] = ((s32 *)&topo)[i];
#ifndef NO_ARENA
	/*
	 * The kernel requires that the policy has an arena. It has one only if its code refers to
	 * the arena.
	 */
	arena_addr = (u64)&arena;
#endif
	return 0;
}

struct sched_ext_ops_cid {
	s32 (*select_cid)(struct task_struct *p, s32 prev_cid, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cid, struct task_struct *prev);
	void (*update_idle)(s32 cid, bool idle);
	void (*set_cmask)(struct task_struct *p, struct scx_cmask *cmask);
	s32 (*init)(void);
	u64 flags;
	char name[128];
};

SEC(".struct_ops.link")
struct sched_ext_ops_cid cid_ops = {
	.select_cid = (void *)cid_select_cid,
	.enqueue = (void *)cid_enqueue,
	.dispatch = (void *)cid_dispatch,
	.update_idle = (void *)cid_update_idle,
	.set_cmask = (void *)cid_set_cmask,
	.init = (void *)cid_init,
	.name = "cid",
};
