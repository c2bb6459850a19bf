/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dss: the default scheduler of Linux 2.4.
 *
 * All waiting tasks are in one unordered queue behind one lock. A CPU that has to choose looks at every one of them and
 * takes the one with the highest goodness: ticks left in its quantum, nice, and a bonus where its cache and memory map
 * are. The task that runs is compared, too. When all that could run have used up their quanta, all tasks in the system
 * get new ones; who slept keeps half of what was left, so that it comes first when it wakes. A woken task takes the CPU
 * it ran on last if that is idle, else the one idle longest, else it preempts where it is better by most.
 *
 * Good for: few tasks on few CPUs; interactive tasks beside hogs.
 * Bad for: many tasks (a choice takes time proportional to the queue) and many CPUs (one lock).
 * Source: Franke, Nagar, Kravetz, Ravindran: "PMQS: Scalable Linux Scheduling for High End Servers", Annual Linux
 * Showcase 2001, on Linux 2.4.5.
 *
 * Against the original: realtime tasks are above sched_ext and not in this queue; running tasks are not in it either but
 * keep their place. An idle CPU is claimed by who wakes it, so that two wake-ups in short order do not choose the same.
 */
#include "include/reschedule_idle.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0
/* Another CPU may take the task that was chosen: choose again, this many times, recalculations included. */
#define MAX_TRIES 8

/* Tasks looked at by choices. */
u64 nr_examined;

/* The task waits where it ran; enqueue() finds it a CPU. */
s32 SCX_OP(dss_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void SCX_OP(dss_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx(p);
	bool yielded;

	if (!t) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, NO_SLICE_END, enq_flags);
		return;
	}
	yielded = t->yielded;
	t->yielded = false;
	scx_bpf_dsq_insert_vtime(p, QUEUE, NO_SLICE_END, place_in_queue(t), enq_flags);
	if (!yielded)
		reschedule_idle(p, t);
}

/* Lets the best task run: true when that is settled. */
static __always_inline bool choose(s32 cpu, struct task_struct *prev, u64 mm)
{
	struct task_struct *p, *next = NULL;
	struct task_ctx *t, *of_prev = NULL;
	struct bpf_iter_scx_dsq it;
	s32 best = GOODNESS_IDLE;
	bool done = true;

	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
		of_prev = task_ctx(prev);
		if (of_prev)
			best = prev_goodness(prev, of_prev, cpu);
	}
	if (!bpf_iter_scx_dsq_new(&it, QUEUE, 0)) {
		while ((p = bpf_iter_scx_dsq_next(&it))) {
			s32 weight;

			__sync_fetch_and_add(&nr_examined, 1);
			if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
				continue;
			t = task_ctx(p);
			if (!t)
				continue;
			weight = goodness(p, t, cpu, mm);
			if (weight > best) {
				best = weight;
				next = p;
			}
		}
		if (!best) {
			recalculate();
			done = false;
		} else if (next) {
			done = scx_bpf_dsq_move(&it, next, SCX_DSQ_LOCAL, 0);
		} else if (of_prev) {
			keep_running(prev, of_prev);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return done;
}

void SCX_OP(dss_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	s32 i;

	bpf_for(i, 0, MAX_TRIES) {
		if (!c || choose(cpu, prev, c->mm))
			return;
	}
}

void SCX_OP(dss_tick, struct task_struct *p)
{
	goodness_tick(p);
}

void SCX_OP(dss_runnable, struct task_struct *p, u64 enq_flags)
{
	goodness_runnable(p);
}

void SCX_OP(dss_running, struct task_struct *p)
{
	goodness_running(p);
}

void SCX_OP(dss_stopping, struct task_struct *p, bool runnable)
{
	goodness_stopping(p);
}

bool SCX_OP(dss_yield, struct task_struct *from, struct task_struct *to)
{
	goodness_yield(from);
	return false;
}

void SCX_OP(dss_update_idle, s32 cpu, bool idle)
{
	goodness_update_idle(cpu, idle);
}

/* A realtime task takes the CPU: what waits there is for all. */
void SCX_OP(dss_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local___v2___compat();
}

s32 SCX_OP(dss_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return goodness_init_task(p);
}

void SCX_OP(dss_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	goodness_exit_task(p);
}

s32 SCX_OP_SLEEPABLE(dss_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(dss_ops,
	.select_cpu = (void *)dss_select_cpu,
	.enqueue = (void *)dss_enqueue,
	.dispatch = (void *)dss_dispatch,
	.tick = (void *)dss_tick,
	.runnable = (void *)dss_runnable,
	.running = (void *)dss_running,
	.stopping = (void *)dss_stopping,
	.yield = (void *)dss_yield,
	.update_idle = (void *)dss_update_idle,
	.cpu_release = (void *)dss_cpu_release,
	.init_task = (void *)dss_init_task,
	.exit_task = (void *)dss_exit_task,
	.init = (void *)dss_init,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "dss");
