/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * NAME: one queue for all CPUs, first come first served.
 *
 * The kernel calls the functions of this file, the callbacks, when a task wakes up, when it has to
 * wait, and when a CPU needs a task. In the order of a task's life:
 *
 *     wake-up              NAME_select_cpu()   which CPU shall run the task?
 *     no CPU is idle       NAME_enqueue()      in which queue does the task wait?
 *     a CPU has no task    NAME_dispatch()     which waiting task runs next?
 *     the slice is over    NAME_enqueue()      the task waits again
 *
 * Tasks wait in dispatch queues (DSQs). Each CPU has a local DSQ, from which it takes the tasks that
 * it runs. A policy creates as many other DSQs as it needs, and moves tasks from them to local DSQs.
 */
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

/* ID of the shared dispatch queue (DSQ). */
#define QUEUE 0

/* A parameter, which `windtunnel run --set slice_ns=2000000` changes. */
const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time slice of a task") = 5000000;

/*
 * Chooses a CPU for a woken task. If an idle CPU is found, the task goes directly to the local DSQ
 * of this CPU, and NAME_enqueue() is not called.
 */
s32 SCX_OP(NAME_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

/*
 * Appends the task to the shared queue. If a CPU has become idle meanwhile, it is woken (kicked), so
 * that it calls NAME_dispatch().
 */
void SCX_OP(NAME_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 idle;

	scx_bpf_dsq_insert(p, QUEUE, slice_ns, enq_flags);
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/* Moves the first task of the shared queue to the local DSQ of the CPU, which has no other task. */
void SCX_OP(NAME_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

/* Creates the shared queue when the policy is loaded. This callback may sleep, the others may not. */
s32 SCX_OP_SLEEPABLE(NAME_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

/* The table of callbacks. HOTPLUG_CALLBACKS keeps the policy loaded when a CPU goes offline. */
SCX_OPS(NAME_ops, HOTPLUG_CALLBACKS, .select_cpu = (void *)NAME_select_cpu,
	.enqueue = (void *)NAME_enqueue, .dispatch = (void *)NAME_dispatch,
	.init = (void *)NAME_init, .name = "NAME");
