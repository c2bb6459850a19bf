/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * perf: a policy that sets the performance target of a CPU when a task starts to run there. It also
 * counts how often other classes have taken a CPU, by the reason. These macros change it:
 *
 * TARGET=n   the performance target
 * RAISED=n   the performance target from the fifth tick on
 * WRONG_CPU  sets the target of another CPU than the one whose runqueue is locked
 * TOO_MUCH   sets a target above the maximum
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

void scx_bpf_cpuperf_set(s32 cpu, u32 perf) __ksym;
u32 scx_bpf_cpuperf_cur(s32 cpu) __ksym;
u32 scx_bpf_cpuperf_cap(s32 cpu) __ksym;

u64 nr_ticks, level, cap, nr_released[3];

void SCX_OP(perf_running, struct task_struct *p)
{
	s32 cpu = bpf_get_smp_processor_id();

#ifdef WRONG_CPU
	scx_bpf_cpuperf_set(!cpu, 1024);
#endif
#ifdef TOO_MUCH
	scx_bpf_cpuperf_set(cpu, 1025);
#endif
#ifdef TARGET
	scx_bpf_cpuperf_set(cpu, TARGET);
#endif
	level = scx_bpf_cpuperf_cur(cpu);
	cap = scx_bpf_cpuperf_cap(cpu);
}

void SCX_OP(perf_tick, struct task_struct *p)
{
#ifdef RAISED
	if (++nr_ticks == 5)
		scx_bpf_cpuperf_set(bpf_get_smp_processor_id(), RAISED);
#endif
}

void SCX_OP(perf_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	u32 reason = args->reason;

	if (reason < 3)
		nr_released[reason]++;
}

SCX_OPS(perf_ops,
	.running = (void *)perf_running,
	.tick = (void *)perf_tick,
	.cpu_release = (void *)perf_cpu_release,
	.name = "perf");
