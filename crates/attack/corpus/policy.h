/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part that all attacks have in common: a FIFO policy with one queue for all CPUs.
 *
 * An attack includes this file at its end. Before that, it defines a macro for each callback that
 * shall misbehave. The macro contains the body of the callback. A callback without a macro is
 * omitted, except for ops.enqueue(), ops.dispatch() and ops.init(), which then behave correctly.
 */
#ifndef DSQ
#define DSQ 1
#endif
#ifndef NAME
#define NAME "attack"
#endif
#ifndef OPS
#define OPS
#endif

char _license[] SEC("license") = "GPL";

#ifdef SELECT_CPU
s32 SCX_OP(attack_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	SELECT_CPU;
	return prev_cpu;
}
#endif
#ifdef NO_ENQUEUE
#elif defined(ENQUEUE)
void SCX_OP(attack_enqueue, struct task_struct *p, u64 enq_flags)
{
	ENQUEUE;
}
#else
void SCX_OP(attack_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, DSQ, SCX_SLICE_DFL, enq_flags);
}
#endif
#ifdef DISPATCH
void SCX_OP(attack_dispatch, s32 cpu, struct task_struct *prev)
{
	DISPATCH;
}
#else
void SCX_OP(attack_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(DSQ);
}
#endif
#define CALLBACK(name, body, args...)       \
	void SCX_OP(attack_##name, ##args)  \
	{                                   \
		body;                       \
	}
#ifdef DEQUEUE
CALLBACK(dequeue, DEQUEUE, struct task_struct *p, u64 deq_flags)
#endif
#ifdef TICK
CALLBACK(tick, TICK, struct task_struct *p)
#endif
#ifdef RUNNABLE
CALLBACK(runnable, RUNNABLE, struct task_struct *p, u64 enq_flags)
#endif
#ifdef RUNNING
CALLBACK(running, RUNNING, struct task_struct *p)
#endif
#ifdef STOPPING
CALLBACK(stopping, STOPPING, struct task_struct *p, bool runnable)
#endif
#ifdef QUIESCENT
CALLBACK(quiescent, QUIESCENT, struct task_struct *p, u64 deq_flags)
#endif
#ifdef SET_WEIGHT
CALLBACK(set_weight, SET_WEIGHT, struct task_struct *p, u32 weight)
#endif
#ifdef SET_CPUMASK
CALLBACK(set_cpumask, SET_CPUMASK, struct task_struct *p, const struct cpumask *cpumask)
#endif
#ifdef UPDATE_IDLE
CALLBACK(update_idle, UPDATE_IDLE, s32 cpu, bool idle)
#endif
#ifdef ENABLE
CALLBACK(enable, ENABLE, struct task_struct *p)
#endif
#ifdef DISABLE
CALLBACK(disable, DISABLE, struct task_struct *p)
#endif
#ifdef EXIT_TASK
CALLBACK(exit_task, EXIT_TASK, struct task_struct *p, struct scx_exit_task_args *args)
#endif
#ifdef DUMP
CALLBACK(dump, DUMP, struct scx_dump_ctx *dctx)
#endif
#ifdef DUMP_CPU
CALLBACK(dump_cpu, DUMP_CPU, struct scx_dump_ctx *dctx, s32 cpu, bool idle)
#endif
#ifdef DUMP_TASK
CALLBACK(dump_task, DUMP_TASK, struct scx_dump_ctx *dctx, struct task_struct *p)
#endif
#ifdef EXIT
CALLBACK(exit, EXIT, struct scx_exit_info *info)
#endif
#ifdef INIT_TASK
s32 SCX_OP_SLEEPABLE(attack_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	INIT_TASK;
	return 0;
}
#endif
s32 SCX_OP_SLEEPABLE(attack_init)
{
	s32 error = scx_bpf_create_dsq(DSQ, -1);

	if (error)
		return error;
#ifdef INIT
	INIT;
#endif
	return 0;
}

#define MEMBER(name) .name = (void *)attack_##name,
SCX_OPS(attack_ops, MEMBER(dispatch) MEMBER(init)
#ifdef SELECT_CPU
	MEMBER(select_cpu)
#endif
#ifndef NO_ENQUEUE
	MEMBER(enqueue)
#endif
#ifdef DEQUEUE
	MEMBER(dequeue)
#endif
#ifdef TICK
	MEMBER(tick)
#endif
#ifdef RUNNABLE
	MEMBER(runnable)
#endif
#ifdef RUNNING
	MEMBER(running)
#endif
#ifdef STOPPING
	MEMBER(stopping)
#endif
#ifdef QUIESCENT
	MEMBER(quiescent)
#endif
#ifdef SET_WEIGHT
	MEMBER(set_weight)
#endif
#ifdef SET_CPUMASK
	MEMBER(set_cpumask)
#endif
#ifdef UPDATE_IDLE
	MEMBER(update_idle)
#endif
#ifdef ENABLE
	MEMBER(enable)
#endif
#ifdef DISABLE
	MEMBER(disable)
#endif
#ifdef EXIT_TASK
	MEMBER(exit_task)
#endif
#ifdef DUMP
	MEMBER(dump)
#endif
#ifdef DUMP_CPU
	MEMBER(dump_cpu)
#endif
#ifdef DUMP_TASK
	MEMBER(dump_task)
#endif
#ifdef EXIT
	MEMBER(exit)
#endif
#ifdef INIT_TASK
	MEMBER(init_task)
#endif
	OPS .name = NAME);
