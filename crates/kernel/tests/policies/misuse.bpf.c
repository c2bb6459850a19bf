/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * misuse: a policy that makes the wrong call CALL (a macro). It makes the call in ops.running(), or
 * in ops.init() if the macro IN_INIT is defined.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

struct rq *scx_bpf_locked_rq(void) __ksym;
void scx_bpf_cpuperf_set(s32 cpu, u32 perf) __ksym;
s32 scx_bpf_pick_idle_cpu_node(const struct cpumask *cpus_allowed, int node, u64 flags) __ksym;
struct task_struct *scx_bpf_tid_to_task(u64 tid) __ksym;
struct task_struct *scx_bpf_dsq_peek(u64 dsq_id) __ksym;
struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym;

bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym;
struct rq___idle {
	struct task_struct *idle;
} __attribute__((preserve_access_index));
struct rq *scx_bpf_cpu_rq(s32 cpu) __ksym;
#define idle_of(cpu) (((struct rq___idle *)scx_bpf_cpu_rq(cpu))->idle)

s64 result;

static __always_inline void call(struct task_struct *p)
{
	CALL;
}

void SCX_OP(misuse_running, struct task_struct *p)
{
#ifndef IN_INIT
	call(p);
#endif
}

s32 SCX_OP_SLEEPABLE(misuse_init)
{
#ifdef IN_INIT
	call(NULL);
#endif
	return 0;
}

#ifdef IN_DUMP
struct scx_dump_ctx;

void SCX_OP(misuse_dump, struct scx_dump_ctx *dctx)
{
	unsigned long long data[] = { 7 };

	scx_bpf_dump_bstr("seven is %d\n", data, 8);
	scx_bpf_dump_bstr("%d and %d\n", data, 8);
	scx_bpf_dump_bstr("none\n", data, 4);
}
#endif

#ifndef FLAGS
#define FLAGS 0
#endif
#ifdef IDLE
void SCX_OP(misuse_update_idle, s32 cpu, bool idle)
{
}
#endif

SCX_OPS(misuse_ops, .running = (void *)misuse_running, .init = (void *)misuse_init,
#ifdef IN_DUMP
	.dump = (void *)misuse_dump,
#endif
#ifdef IDLE
	.update_idle = (void *)misuse_update_idle,
#endif
	.flags = FLAGS, .name = "misuse");
