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
 * keep their place. The queue's lock is taken anew for each task that a choice looks at.
 */
#include "include/one_queue.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0

static __always_inline void insert_waiting(struct task_struct *p, struct task_ctx *t, u64 enq_flags)
{
	scx_bpf_dsq_insert_vtime(p, QUEUE, NO_SLICE_END, place_in_queue(t), enq_flags);
}

static __always_inline bool choose(s32 cpu, struct task_struct *prev, struct task_ctx *of_prev, s32 best, u64 mm)
{
	struct task_struct *p, *next = NULL;
	struct bpf_iter_scx_dsq it;
	bool done = true;

	if (!bpf_iter_scx_dsq_new(&it, QUEUE, 0)) {
		while ((p = bpf_iter_scx_dsq_next(&it))) {
			struct task_ctx *t;
			s32 weight;

			__sync_fetch_and_add(&nr_examined, 1);
			if (!may_run(p, cpu))
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

s32 SCX_OP_SLEEPABLE(dss_init)
{
	nr_cpus = scx_bpf_nr_cpu_ids();
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(dss_ops,
	ONE_QUEUE_CALLBACKS,
	.init = (void *)dss_init,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "dss");
