/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mqs: the multi-queue scheduler.
 *
 * It aims at the decisions of dss without its one lock. Every CPU has a queue. A CPU that has to choose looks through its
 * own, then at one number of every other: the best goodness without affinity that waits there. If one is higher it
 * tries to take that queue's lock, without ever waiting, and the task; a queue that is locked or has changed is skipped
 * for the next best. A woken task takes the CPU it ran on last if that is idle, else the one idle longest, else it
 * preempts the lowest it beats.
 *
 * Good for: what dss is good for, on more CPUs and with more tasks.
 * Bad for: very many CPUs (each choice looks at all of them); tasks are moved as freely as by dss. Bound tasks starve as with dss.
 * Source: Franke, Nagar, Kravetz, Ravindran: "PMQS: Scalable Linux Scheduling for High End Servers", Annual Linux
 * Showcase 2001.
 *
 * Against the original: realtime tasks are above sched_ext. Locks are words that nobody waits for, beside those of the
 * DSQs.
 */
#include "include/scx.h"

enum { poolsize = 1024, max_wait_ms = 0 };
#define LONGEST_IDLE

#include "include/multi_queue.h"

char _license[] SEC("license") = "GPL";

s32 SCX_OP_SLEEPABLE(mqs_init)
{
	return mq_init_queues();
}

SCX_OPS(mqs_ops,
	MQ_CALLBACKS,
	.init = (void *)mqs_init,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_LAST,
	.name = "mqs");
