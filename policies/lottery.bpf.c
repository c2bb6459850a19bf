/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lottery: each decision is a lottery, and a task wins in proportion to its tickets.
 *
 * A task has as many tickets as its weight, which follows from the nice value and is 100 for nice
 * 0. A CPU that needs a task draws one of the tickets of all waiting tasks. Over n lotteries, a task
 * with the share s of the tickets wins n * s times on average, with a standard deviation of
 * sqrt(n * s * (1 - s)).
 *
 * A task that sleeps after the fraction f of its slice gets compensation tickets: it has 1 / f times
 * its tickets until it wins again. Otherwise it would get less than its share, because it uses only
 * a part of each slice that it wins.
 *
 * Data structures: one dispatch queue (DSQ) that all CPUs share.
 * Wake-up: the kernel's default search looks for an idle CPU. If the search finds one, the task
 * runs there at once.
 * Enqueue: the task goes to the end of the queue, and one idle CPU is woken.
 * Dispatch: the CPU sums up the tickets of the waiting tasks and of the running one, draws a number,
 * and goes through the queue again until it finds the ticket.
 * Tick: there is no callback. The kernel ends the slice of a task after slice_ns.
 * Locks: the lock of the DSQ.
 *
 * Good for: shares by weight that take effect at once and need no state of the past. No task
 * starves.
 * Bad for: even shares over short times, which are a matter of chance, and many waiting tasks or
 * CPUs, because each decision goes through the whole queue, which all CPUs share.
 * Source: Waldspurger, Weihl, "Lottery Scheduling: Flexible Proportional-Share Resource Management"
 * (OSDI 1994). The code is our own.
 *
 * Different here: there are no currencies and no ticket transfers. The draw goes through a list, as
 * in the paper's implementation in Mach, but in the order of arrival.
 */
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

/* ID of the shared DSQ. */
#define QUEUE 0
/* Number of waiting tasks that take part in a lottery. */
#define MAX_PLAYERS 4096
/* Factor of compensation tickets: at most 1 / 16 of a slice counts as used. */
#define MAX_COMPENSATION 16

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time slice of a task") = 10000000;
const volatile u32 compensate PARAM("switch, 0..1: whether tasks that do not use up their slices get compensation tickets") = 1;

/* Number of lotteries, and of wake-ups with compensation tickets. */
u64 nr_lotteries, nr_compensated;

struct player {
	u64 began;
	/* Factor of the tickets, in percent: 100, or more with compensation. */
	u64 factor;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct player);
} players SEC(".maps");

/* Returns the number of a task's tickets. */
static __always_inline u64 tickets(struct task_struct *p)
{
	struct player *player = bpf_task_storage_get(&players, p, NULL, 0);

	return player ? p->scx.weight * player->factor / 100 : p->scx.weight;
}

s32 SCX_OP(lottery_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

/* Appends a task to the shared queue and wakes an idle CPU. */
void SCX_OP(lottery_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (woken_by_gone_cpu(p, slice_ns, enq_flags))
		return;
	scx_bpf_dsq_insert(p, QUEUE, slice_ns, enq_flags);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Returns the number of tickets of the waiting tasks that may run on a CPU. */
static __noinline u64 all_tickets(s32 cpu)
{
	struct bpf_iter_scx_dsq it;
	u64 sum = 0;
	u32 i;

	if (!bpf_iter_scx_dsq_new(&it, QUEUE, 0)) {
		bpf_for(i, 0, MAX_PLAYERS) {
			struct task_struct *p = bpf_iter_scx_dsq_next(&it);

			if (!p)
				break;
			if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
				sum += tickets(p);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return sum;
}

/* Gives the CPU to the waiting task that has the ticket `winner`. Returns whether there is one. */
static __noinline bool take(s32 cpu, u64 winner)
{
	struct bpf_iter_scx_dsq it;
	bool taken = false;
	u32 i;

	if (!bpf_iter_scx_dsq_new(&it, QUEUE, 0)) {
		bpf_for(i, 0, MAX_PLAYERS) {
			struct task_struct *p = bpf_iter_scx_dsq_next(&it);
			u64 own;

			if (!p)
				break;
			if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
				continue;
			own = tickets(p);
			if (winner < own) {
				taken = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0);
				break;
			}
			winner -= own;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return taken;
}

/* Draws the task that runs next. The running task takes part, with the tickets behind all others. */
void SCX_OP(lottery_dispatch, s32 cpu, struct task_struct *prev)
{
	bool runs = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	u64 waiting = all_tickets(cpu), all = waiting + (runs ? prev->scx.weight : 0), winner;

	if (all) {
		winner = (((u64)bpf_get_prandom_u32() << 20) ^ bpf_get_prandom_u32()) % all;
		__sync_fetch_and_add(&nr_lotteries, 1);
		if (winner < waiting && take(cpu, winner))
			return;
	}
	if (runs)
		prev->scx.slice = slice_ns;
	else
		/* The queue may have changed since its tickets were counted. */
		scx_bpf_dsq_move_to_local(QUEUE);
}

/* A winner loses its compensation tickets. */
void SCX_OP(lottery_running, struct task_struct *p)
{
	struct player *player = bpf_task_storage_get(&players, p, NULL, 0);

	if (!player)
		return;
	player->began = bpf_ktime_get_ns();
	player->factor = 100;
}

/* Gives compensation tickets to a task that sleeps before its slice is over. */
void SCX_OP(lottery_stopping, struct task_struct *p, bool runnable)
{
	struct player *player = bpf_task_storage_get(&players, p, NULL, 0);
	u64 used;

	if (!player || runnable || !compensate)
		return;
	used = bpf_ktime_get_ns() - player->began;
	if (used >= slice_ns)
		return;
	if (used < slice_ns / MAX_COMPENSATION)
		used = slice_ns / MAX_COMPENSATION;
	player->factor = slice_ns * 100 / used;
	__sync_fetch_and_add(&nr_compensated, 1);
}

s32 SCX_OP(lottery_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct player *player = bpf_task_storage_get(&players, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!player)
		return -ENOMEM;
	player->factor = 100;
	return 0;
}

/* Creates the shared queue. */
s32 SCX_OP_SLEEPABLE(lottery_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(lottery_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)lottery_select_cpu,
	.enqueue = (void *)lottery_enqueue,
	.dispatch = (void *)lottery_dispatch,
	.running = (void *)lottery_running,
	.stopping = (void *)lottery_stopping,
	.init_task = (void *)lottery_init_task,
	.init = (void *)lottery_init,
	.name = "lottery");
