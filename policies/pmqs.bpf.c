/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pmqs: the pooled multi-queue scheduler, and its load balancers.
 *
 * Every CPU has a queue and a lock. A CPU that has to choose looks through its own queue for the task with the highest
 * goodness, then at one number of each other queue of its pool: the best goodness without affinity that waits there. If
 * one is higher it tries to take that queue's lock, without ever waiting, and the task; a queue that is locked or has
 * changed is skipped for the next best. A woken task takes the CPU it ran on last if that is idle, else an idle one of
 * the pool, else any idle one, else it preempts the lowest it beats in the pool. Tasks leave a pool only for an idle CPU,
 * or by a balancer: at exec to the shortest queue (IP), or by a timer that evens out all queues (LBC) or those of
 * different pools that are not within a tolerance of the average (LBP).
 *
 * Good for: many CPUs, far memory between pools; loads where decisions on whole-machine knowledge are not worth it.
 * Bad for: fairness between pools without a balancer; many short sleeps, where balancing corrects too much.
 * Source: Franke, Nagar, Kravetz, Ravindran: "PMQS: Scalable Linux Scheduling for High End Servers", Annual Linux
 * Showcase 2001.
 *
 * Against the original: realtime tasks are above sched_ext. Locks are words that nobody waits for, beside those of the
 * DSQs. A task placed at exec moves when its CPU next schedules, which is at once. Here and there a CPU whose pool has
 * spent its counters recalculates those of all tasks. So pools with little to do stretch the quanta of the others, there
 * without an end; here a task that has waited for max_wait_ms comes next when a turn of the usual length is over, the longest wait
 * first.
 */
#include "include/scx.h"

u32 poolsize PARAM("CPUs, 1..1024: neighbouring CPUs in a pool") = 4;
u32 max_wait_ms PARAM("ms, 0..3600000: a task that waits longer comes before all others of its queue; 0 none") = 3000;

#include "include/balancer.h"

char _license[] SEC("license") = "GPL";

s32 SCX_OP_SLEEPABLE(pmqs_init)
{
	s32 ret = mq_init_queues();

	return ret ? ret : balancer_init();
}

SCX_OPS(pmqs_ops,
	MQ_CALLBACKS,
	.init = (void *)pmqs_init,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_LAST,
	.name = "pmqs");
