/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * odd: a policy that uses only the local DSQs of the CPUs. It makes a single decision differently than usual: for example, it halves one slice. The parameter `kind` selects the decision, and
 * `from_ns` its earliest time. The test finds source lines by the comments at their ends.
 */
#include "../../../../policies/include/scx.h"

char _license[] SEC("license") = "GPL";

enum { NONE, CPU, SLICE, ORDER, KICK };

const volatile u64 kind PARAM("kind of the decision that differs: 1 CPU, 2 slice, 3 order, 4 kick, 0 none") = NONE;
const volatile u64 from_ns PARAM("ns: earliest time of the decision that differs") = 0;
const volatile u64 slice_ns PARAM("ns: length of a slice") = 3000000;

bool done;

/* Keeps the compiler from merging similar calls into one. Each call needs its own source line. */
#define APART(n) asm volatile("" : : "i"(n))

static bool odd(u64 which)
{
	if (kind != which || done || bpf_ktime_get_ns() < from_ns)
		return false;
	done = true;
	return true;
}

s32 SCX_OP(odd_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	if (odd(CPU))
		return (prev_cpu + 1) % scx_bpf_nr_cpu_ids(); /* another CPU */
	return prev_cpu;
}

void SCX_OP(odd_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (odd(SLICE)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns / 2, enq_flags); /* half a slice */
		APART(1);
	} else if (odd(ORDER)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags | SCX_ENQ_HEAD); /* at the head */
		APART(2);
	} else {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags); /* as always */
	}
	if (odd(KICK))
		scx_bpf_kick_cpu(1, SCX_KICK_PREEMPT); /* a kick */
}

SCX_OPS(odd_ops,
	.select_cpu = (void *)odd_select_cpu,
	.enqueue = (void *)odd_enqueue,
	.name = "odd");
