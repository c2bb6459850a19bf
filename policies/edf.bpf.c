/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * edf: earliest deadline first, with a constant bandwidth server for each task.
 *
 * A server has a budget and a period, and thereby a share of a CPU. It protects tasks from each
 * other: a task that needs more than its share delays its own deadline, and no other task.
 *
 *     the budget is used up   the deadline moves by one period, and the budget is full again
 *     the task wakes up       if budget / (deadline - now) is more than the share of the server: a
 *                             new deadline, one period from now, and a full budget
 *
 * The share is budget_ns / period_ns. The period of a server is period_ns * 100 / weight, so a task
 * with a better nice value has earlier deadlines. If the shares of all tasks are at most one CPU,
 * and a periodic task needs at most its budget in each period, it meets all its deadlines. If there
 * are more tasks, they share the CPU in proportion.
 *
 * Data structures: one dispatch queue (DSQ) that all CPUs share, in the order of deadlines.
 * Wake-up: the kernel's default search looks for an idle CPU. If the search finds one, the task
 * runs there at once.
 * Enqueue: the task is inserted by its deadline. If no CPU is idle, it preempts the running task
 * with the latest deadline, if that is later than its own.
 * Dispatch: the first task of the queue runs, unless the running task has an earlier deadline.
 * Tick: there is no callback. A slice is the rest of the budget, which the kernel ends.
 * Locks: the lock of the DSQ.
 *
 * Good for: periodic tasks next to others, without real-time privileges.
 * Bad for: many CPUs, which share one queue and one lock, and throughput, because each wake-up may
 * preempt a task.
 * Source: Abeni, Buttazzo, "Integrating Multimedia Applications in Hard Real-Time Systems" (RTSS
 * 1998); Liu, Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment"
 * (JACM 1973). The code is our own.
 *
 * Different here: all tasks have the same budget and share. A budget ends at a tick, and the task
 * pays for the excess with its next budget.
 */
#include "include/cpu_array.h"
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

/* ID of the shared DSQ. */
#define QUEUE 0
/* Deadline of a CPU that runs no task of this policy. */
#define NO_TASK 0

const volatile u64 budget_ns PARAM("ns, 100000..1000000000: CPU time of a task in each period") = 4000000;
const volatile u64 period_ns PARAM("ns, 100000..10000000000: period of a task with nice 0") = 20000000;

/* Budgets that were used up, wake-ups with a new deadline, and tasks that were preempted. */
u64 nr_postponed, nr_renewed, nr_preempted;

/* The constant bandwidth server of a task. */
struct server {
	u64 deadline;
	/* Rest of the budget, ns; below 0 if the task ran longer than its budget. */
	s64 budget;
	u64 began;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct server);
} servers SEC(".maps");

/* Deadline of the task that a CPU runs, or NO_TASK. */
struct cpu {
	u64 deadline;
} CPU_ALIGNED;

CPU_VARIABLES(cpu)

static __always_inline struct server *server_of(struct task_struct *p)
{
	return bpf_task_storage_get(&servers, p, NULL, 0);
}

static __always_inline u64 period_of(struct task_struct *p)
{
	u64 period = period_ns * 100 / (p->scx.weight ? p->scx.weight : 1);

	return period ? period : 1;
}

/* Charges the running task. A used up budget is filled again, for a later deadline. */
static __always_inline void charge(struct task_struct *p, struct server *s)
{
	u64 now = bpf_ktime_get_ns(), period = period_of(p);

	s->budget -= (s64)(now - s->began);
	s->began = now;
	if (s->budget > 0)
		return;
	if (s->budget < -(s64)budget_ns) {
		/* A task of a higher class or a long tick cost several budgets. */
		u64 missed = (u64)-s->budget / budget_ns;

		s->budget += missed * budget_ns;
		s->deadline += missed * period;
	}
	s->budget += budget_ns;
	s->deadline += period;
	__sync_fetch_and_add(&nr_postponed, 1);
}

/* Gives a woken task a new deadline, unless it can keep the old one within its share. */
static __always_inline void wake(struct task_struct *p, struct server *s)
{
	u64 now = bpf_ktime_get_ns(), period = period_of(p);

	/* budget / (deadline - now) >= budget_ns / period, without divisions */
	if ((s64)(s->deadline - now) > 0 && s->budget > 0 &&
	    (u64)s->budget / 1000 * (period / 1000) < (s->deadline - now) / 1000 * (budget_ns / 1000))
		return;
	s->deadline = now + period;
	s->budget = budget_ns;
	__sync_fetch_and_add(&nr_renewed, 1);
}

s32 SCX_OP(edf_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	struct server *s = server_of(p);

	if (!is_idle || !s)
		return is_idle ? cpu : prev_cpu;
	wake(p, s);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, s->budget, 0);
	return cpu;
}

/* Returns the CPU whose task has the latest deadline after `deadline`, or -1. */
static __noinline s32 latest(struct task_struct *p, u64 deadline)
{
	s32 cpu, found = -1;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		u64 other = cpu_of(cpu)->deadline;

		if (other != NO_TASK && (s64)(other - deadline) > 0 && is_online(cpu) &&
		    bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
			deadline = other;
			found = cpu;
		}
	}
	return found;
}

/* Inserts a task by its deadline, and finds a CPU for it. */
void SCX_OP(edf_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct server *s = server_of(p);
	s32 cpu;

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (!s || woken_by_gone_cpu(p, budget_ns, enq_flags))
		return;
	if (enq_flags & SCX_ENQ_WAKEUP)
		wake(p, s);
	scx_bpf_dsq_insert_vtime(p, QUEUE, s->budget, s->deadline, enq_flags);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	cpu = enq_flags & SCX_ENQ_WAKEUP ? latest(p, s->deadline) : -1;
	if (cpu >= 0) {
		__sync_fetch_and_add(&nr_preempted, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/* Runs the task with the earliest deadline: the first task of the queue or the running task. */
void SCX_OP(edf_dispatch, s32 cpu, struct task_struct *prev)
{
	struct server *s = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? server_of(prev) : NULL;
	struct task_struct *first;

	if (!s) {
		scx_bpf_dsq_move_to_local(QUEUE);
		return;
	}
	charge(prev, s);
	first = scx_bpf_dsq_peek(QUEUE);
	if (first && (s64)(s->deadline - first->scx.dsq_vtime) >= 0 && scx_bpf_dsq_move_to_local(QUEUE))
		return;
	prev->scx.slice = s->budget;
	cpu_of(cpu)->deadline = s->deadline;
}

void SCX_OP(edf_running, struct task_struct *p)
{
	struct server *s = server_of(p);

	if (!s)
		return;
	s->began = bpf_ktime_get_ns();
	cpu_of(scx_bpf_task_cpu(p))->deadline = s->deadline;
}

void SCX_OP(edf_stopping, struct task_struct *p, bool runnable)
{
	struct server *s = server_of(p);

	cpu_of(scx_bpf_task_cpu(p))->deadline = NO_TASK;
	if (s)
		charge(p, s);
}

s32 SCX_OP(edf_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct server *s = bpf_task_storage_get(&servers, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!s)
		return -ENOMEM;
	s->began = bpf_ktime_get_ns();
	s->deadline = s->began + period_of(p);
	s->budget = budget_ns;
	return 0;
}

/* Creates the shared queue. */
s32 SCX_OP_SLEEPABLE(edf_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(edf_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)edf_select_cpu,
	.enqueue = (void *)edf_enqueue,
	.dispatch = (void *)edf_dispatch,
	.running = (void *)edf_running,
	.stopping = (void *)edf_stopping,
	.init_task = (void *)edf_init_task,
	.init = (void *)edf_init,
	.name = "edf");
