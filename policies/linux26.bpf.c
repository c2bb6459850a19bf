/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * linux26: the O(1) scheduler of Linux 2.6.22.
 *
 * The arrays are o1's. Time asleep, up to a second, is a task's credit: it earns up to five levels, a task without any
 * falls by five. Credit is spent by running, the slower the more there is, so that a task which waits for an eighth of
 * its run time keeps all and one which waits less loses all. A task with enough credit goes back to the active array when its
 * timeslice ends, unless the expired tasks starve. CPUs balance at intervals that double while all is even, first in their
 * group, then over the machine; what has just run is left where it is, unless that has failed too often. Forks and execs go
 * to the CPU with least to do, a wake-up to the previous CPU, the waker's or an idle one.
 *
 * Good for: interactive tasks beside a few hogs, batch throughput; the cost of a decision is constant.
 * Bad for: tasks that sleep to gain credit and then compute; fairness; the heuristics jump.
 * Source: kernel/sched.c of Linux 2.6.22 as described by Happe, Groenda, Reussner, "Performance Evaluation of Scheduling
 * Policies in Symmetric Multiprocessing Environments"; own code.
 *
 * Differences: domains are two: groups of group_cpus CPUs with numbers in sequence, and the machine. Load is the number
 * of tasks, not their weight. Idle CPUs have no tick: a timer wakes them beside a queue. An exec moves at the next
 * reschedule, to an idle CPU only. Waiting in a queue earns nothing, and an exiting child gives its parent none of its
 * credit. A running task is never pushed away, and interactive tasks of one level do not take turns within a timeslice. That
 * a wake-up is synchronous is known only of tasks that may run on more than one CPU.
 */
#include "include/prio_domains.h"

char _license[] SEC("license") = "GPL";

#define MAX_BONUS 10
#define SCHED_BATCH 3

const volatile u64 max_sleep_ns PARAM("ns, 1000000..100000000000: most sleep that is credited") = 1000 * MS;
const volatile u64 initial_sleep_ns PARAM("ns, 0..100000000000: credit of tasks that have no parent: a shell's") = 1000 * MS;
const volatile u32 child_pct PARAM("percent, 0..100: share of its parent's credit that a child starts with") = 95;
const volatile s32 interactive_delta PARAM("levels, -10..10: gain from which a task of nice 0 counts as interactive") = 2;
const volatile u64 starvation_ns PARAM("ns, 0..100000000000: wait of expired tasks, for each task of the CPU, that ends favours") = 1000 * MS;
bool newidle PARAM("0..1: CPUs about to idle balance") = true;
bool fork_balance PARAM("0..1: new tasks go to the CPU with least to do") = true;
bool exec_balance PARAM("0..1: so do tasks that start a program") = true;
bool wake_affine PARAM("0..1: a wake-up may go to the waker's CPU") = true;

u64 nr_expired;
/* Timeslices that ended and did not leave the active array; those that did since the expired starve. */
u64 nr_reinserted;
u64 nr_starving;
u64 nr_preempted;
u64 nr_fork_moved;
u64 nr_exec_moved;
u64 nr_affine;

struct task_ctx {
	struct prio_node node;
	u64 left;
	u64 run_at;
	u64 slept_at;
	u64 credit;
	u32 array;
	u32 level;
	bool placed;
	bool head;
	bool yielded;
	bool moves;
	bool sync;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} tasks SEC(".maps");

static __always_inline struct task_ctx *task_ctx_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static __always_inline struct prio_node *prio_node_of(struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);

	return t ? &t->node : NULL;
}

static __always_inline u64 timeslice(struct task_struct *p)
{
	u64 above = 140 - p->static_prio;

	return above * (p->static_prio < 120 ? 20 : 5) * MS;
}

/* 0 for a hog to 10 for a task that has slept for all of the last second. */
static __always_inline u32 bonus_of(struct task_ctx *t)
{
	return t->credit * MAX_BONUS / max_sleep_ns;
}

static __always_inline u32 level_of(struct task_struct *p, struct task_ctx *t)
{
	s32 level = p->static_prio - 100 - ((s32)bonus_of(t) - MAX_BONUS / 2);

	return level < 0 ? 0 : level > 39 ? 39 : level;
}

/* Levels a task must have gained to count as interactive: hardly possible at nice 19, certain at nice -20. */
static __always_inline s32 interactive_gain(struct task_struct *p)
{
	return (s32)((u32)(p->static_prio - 100) / 4) - MAX_BONUS / 2 + interactive_delta;
}

static __always_inline void charge(struct task_ctx *t, u64 now)
{
	u64 ran = now - t->run_at, cost;
	u32 bonus = bonus_of(t);

	if ((s64)ran < 0)
		return;
	t->run_at = now;
	t->node.ran_at = now;
	t->left = t->left > ran ? t->left - ran : 0;
	cost = ran / (bonus ? bonus : 1);
	t->credit = t->credit > cost ? t->credit - cost : 0;
}

/* Credits time asleep; a long sleep makes a task interactive, no more. */
static __always_inline void credit_sleep(struct task_struct *p, struct task_ctx *t)
{
	u64 slept = t->slept_at ? scx_bpf_now() - t->slept_at : 0;
	s32 levels = MAX_BONUS / 2 + interactive_gain(p) + 1;
	u64 ceiling = levels > 0 ? (u64)levels * max_sleep_ns / MAX_BONUS - 1 : 0;

	t->slept_at = 0;
	if (p->policy == SCHED_BATCH)
		slept = 0;
	if (slept > ceiling) {
		if (t->credit < ceiling)
			t->credit = ceiling;
	} else {
		t->credit += slept;
	}
	if (t->credit > max_sleep_ns)
		t->credit = max_sleep_ns;
	t->level = level_of(p, t);
}

static __always_inline bool starving(struct task_struct *p, struct prio_rq *rq, u64 now)
{
	if (!rq->expired_since)
		return false;
	return now - rq->expired_since >= starvation_ns * (rq->nr_queued + 1) ||
	       (u32)p->static_prio > rq->best_expired;
}

/* Where a task that stays runnable goes. */
static __always_inline void place(struct task_struct *p, struct task_ctx *t, struct prio_rq *rq, u64 now)
{
	u32 active = rq->active & 1;
	bool expires = t->yielded;

	t->array = active;
	t->head = !t->yielded;
	if (!t->left) {
		t->left = timeslice(p);
		t->level = level_of(p, t);
		t->head = false;
		__sync_fetch_and_add(&nr_expired, 1);
		expires = (s32)t->level > p->static_prio - 100 - interactive_gain(p);
		if (!expires && starving(p, rq, now)) {
			__sync_fetch_and_add(&nr_starving, 1);
			expires = true;
		}
		if (!expires)
			__sync_fetch_and_add(&nr_reinserted, 1);
	}
	if (expires) {
		t->array = !active;
		if (!rq->expired_since) {
			rq->expired_since = now;
			rq->best_expired = p->static_prio;
		}
		if ((u32)p->static_prio < rq->best_expired)
			rq->best_expired = p->static_prio;
	}
	t->yielded = false;
	t->placed = true;
}

s32 SCX_OP(linux26_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id(), cpu = prev_cpu, idle;
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq;

	if (!t)
		return prev_cpu;
	if (wake_flags & SCX_WAKE_FORK) {
		if (!fork_balance)
			return prev_cpu;
		cpu = find_idlest(p, prev_cpu);
		if (cpu != prev_cpu)
			__sync_fetch_and_add(&nr_fork_moved, 1);
		return cpu;
	}
	credit_sleep(p, t);
	t->sync = wake_flags & SCX_WAKE_SYNC;
	idle = scx_bpf_test_and_clear_cpu_idle(prev_cpu) ? prev_cpu : -1;
	if (idle < 0) {
		/* Beside the waker, if there is no more to do than here. */
		if (wake_affine && this_cpu != prev_cpu && (u32)this_cpu / group_cpus == (u32)prev_cpu / group_cpus &&
		    load_of(this_cpu) < load_of(prev_cpu) && bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr))
			cpu = this_cpu;
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (idle < 0 && cpu != prev_cpu)
			__sync_fetch_and_add(&nr_affine, 1);
	}
	if (idle < 0)
		return cpu;
	rq = prio_rq_of(idle);
	if (!rq || rq->nr_queued)
		return idle;
	if (!t->left)
		t->left = timeslice(p);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, t->left, 0);
	return idle;
}

void SCX_OP(linux26_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p), idle;
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq = prio_rq_of(cpu);

	if (!t || !rq) {
		scx_bpf_error("linux26: task %d is not known", p->pid);
		return;
	}
	if (!t->placed) {
		if (t->slept_at)
			credit_sleep(p, t);
		place(p, t, rq, scx_bpf_now());
		if (enq_flags & SCX_ENQ_WAKEUP)
			t->head = false;
		/* A waker that is about to sleep need not be preempted. */
		if (t->level < rq->curr_level && rq->curr_level != PRIO_NONE &&
		    !(t->sync && cpu == (s32)bpf_get_smp_processor_id())) {
			__sync_fetch_and_add(&nr_preempted, 1);
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		}
	}
	t->placed = false;
	t->sync = false;
	if (t->moves) {
		t->moves = false;
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (idle >= 0) {
			__sync_fetch_and_add(&nr_exec_moved, 1);
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | idle, t->left, 0);
			return;
		}
	}
	prio_insert(rq, p, &t->node, cpu, t->array, t->level, t->left,
		    (enq_flags & ~SCX_ENQ_HEAD) | (t->head ? SCX_ENQ_HEAD : 0));
}

void SCX_OP(linux26_dequeue, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *t = task_ctx_of(p);

	if (t)
		prio_removed(&t->node);
}

void SCX_OP(linux26_dispatch, s32 cpu, struct task_struct *prev)
{
	struct prio_rq *rq = prio_rq_of(cpu);
	u64 now = scx_bpf_now();
	struct domains *own;
	struct task_ctx *t = NULL;
	u32 key = cpu, level;
	s32 next;

	own = bpf_map_lookup_elem(&domains, &key);
	if (!rq || !own)
		return;
	if (prev && prev->scx.flags & SCX_TASK_QUEUED)
		t = task_ctx_of(prev);
	if (t) {
		charge(t, now);
		place(prev, t, rq, now);
		/* It gives way to nobody: the local DSQ of an idle CPU is where it goes. */
		if (t->moves && !rq->nr_queued)
			t->moves = false;
	}
	bpf_for(level, 0, 2) {
		struct domain *domain = &own->level[level & 1];
		bool idles = !t && !rq->nr_queued;

		if (domain->due || (idles && newidle))
			load_balance(cpu, rq, domain, level, t != NULL);
		domain->due = false;
	}
	next = prio_pick(rq, cpu, t && !t->moves, t ? t->array : 0, t ? t->level : 0, t && t->head);
	if (next < 0 && prev && t) {
		t->placed = false;
		prev->scx.slice = t->left;
		rq->curr_level = t->level;
	}
}

void SCX_OP(linux26_tick, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	struct domains *own;
	u64 now = scx_bpf_now();
	u32 key = scx_bpf_task_cpu(p);

	own = bpf_map_lookup_elem(&domains, &key);
	if (!t || !own)
		return;
	charge(t, now);
	if (!t->left)
		p->scx.slice = 0;
	if (domains_due(own, now))
		p->scx.slice = 0;
}

void SCX_OP(linux26_running, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq = prio_rq_of(scx_bpf_task_cpu(p));

	if (!t || !rq)
		return;
	t->run_at = scx_bpf_now();
	rq->curr_level = t->level;
}

void SCX_OP(linux26_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq = prio_rq_of(scx_bpf_task_cpu(p));

	if (!t || !rq)
		return;
	charge(t, scx_bpf_now());
	if (!runnable)
		t->slept_at = scx_bpf_now();
	rq->curr_level = PRIO_NONE;
}

/* To the expired array. */
bool SCX_OP(linux26_yield, struct task_struct *from, struct task_struct *to)
{
	struct task_ctx *t = task_ctx_of(from);

	if (t)
		t->yielded = true;
	from->scx.slice = 0;
	return false;
}

/* A program that starts has nothing in any cache: the best moment to move. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(linux26_exec, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	s32 cpu = scx_bpf_task_cpu(p);

	if (t && exec_balance && load_of(cpu) > 1) {
		t->moves = true;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	return 0;
}

s32 SCX_OP(linux26_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct task_struct *current = bpf_get_current_task_btf();
	struct task_ctx *parent = NULL;

	if (!t)
		return -ENOMEM;
	t->left = timeslice(p);
	t->credit = initial_sleep_ns < max_sleep_ns ? initial_sleep_ns : max_sleep_ns;
	if (args->fork && is_child_of(p, current))
		parent = bpf_task_storage_get(&tasks, current, NULL, 0);
	if (parent) {
		t->left = parent->left = parent->left / 2 + 1;
		t->credit = parent->credit / 100 * child_pct;
	}
	t->level = level_of(p, t);
	return 0;
}

s32 SCX_OP_SLEEPABLE(linux26_init)
{
	s32 ret = prio_init();

	return ret ? ret : look_for_work_start();
}

SCX_OPS(linux26_ops,
	.select_cpu = (void *)linux26_select_cpu,
	.enqueue = (void *)linux26_enqueue,
	.dequeue = (void *)linux26_dequeue,
	.dispatch = (void *)linux26_dispatch,
	.tick = (void *)linux26_tick,
	.running = (void *)linux26_running,
	.stopping = (void *)linux26_stopping,
	.yield = (void *)linux26_yield,
	.init_task = (void *)linux26_init_task,
	.init = (void *)linux26_init,
	.name = "linux26");
