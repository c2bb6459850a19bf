/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * o1: the O(1) scheduler of January 2002.
 *
 * Each CPU has two arrays of FIFO lists, one a priority, with a bitmap of those in use. The first task of the best list of
 * the active array runs. Whose timeslice ends gets the next one at once and waits in the expired array; when the active
 * array is empty the two change places. A ring tells how much of the last seconds a task wanted the CPU, running or waiting
 * for it. Who wants more than a fair share falls in priority, by at most max_penalty levels. Nice batch_nice and above is
 * batch work below all others, with long timeslices. A fork's child runs first, where its parent ran. Idle CPUs pull at
 * once from the longest queue, busy ones every busy_interval_ns if it is a quarter longer than their own.
 *
 * Good for: many tasks and CPUs: the cost of a decision depends on neither; fork and exec; batch work in the background.
 * Bad for: fairness within seconds; interactive tasks that compute in bursts; even queues between busy CPUs.
 * Source: Ingo Molnar, "[announce] [patch] ultra-scalable O(1) SMP and UP scheduler", linux-kernel, 4 Jan 2002.
 *
 * Differences: SCHED_FIFO and SCHED_RR belong to the kernel's rt class, which stands above this one, with per-CPU queues
 * and pushing in place of a global queue and a broadcast. An idle CPU has no tick: a timer looks for work in its place.
 * The fair share is that of the tasks of the CPU and one more, the one that may wake up. The level of a task is
 * nice + 20 + penalty; batch work is 24 levels further down.
 */
#define TICK_NS 10000000
#include "include/load_history.h"
#include "include/prio_balance.h"

char _license[] SEC("license") = "GPL";

#define BATCH_LEVELS 24

const volatile u64 slice_max_ns PARAM("ns, 1000000..10000000000: timeslice at nice -20") = 300000000;
const volatile u64 slice_min_ns PARAM("ns, 1000000..10000000000: timeslice at nice 19; between the two it falls evenly") = 10000000;
const volatile u64 batch_slice_ns PARAM("ns, 1000000..10000000000: timeslice of batch work") = 400000000;
const volatile s32 batch_nice PARAM("nice, -20..20: from here on it is batch work; 20: nothing is") = 19;
const volatile bool child_first PARAM("0..1: a child runs before its parent, on the parent's CPU; 0: placed as a wake-up") = true;
u32 max_penalty PARAM("levels, 0..23: most that a hog's priority falls; a third of them all") = 21;
u64 busy_interval_ns PARAM("ns, 1000000..100000000000: busy CPUs compare queues") = 250000000;
u32 imbalance_pct PARAM("percent, 100..1000: a queue this long, compared with the own, is pulled from") = 125;
u32 pull_max PARAM("tasks, 0..32: most that one pull of a busy CPU moves; 0: never") = 8;

/* Timeslices that ended, tasks preempted by a wake-up, children run first, penalties above 0 given. */
u64 nr_expired;
u64 nr_preempted;
u64 nr_child_first;
u64 nr_penalised;

struct task_ctx {
	struct prio_node node;
	/* Timeslice left, and since when the running one is charged. */
	u64 left;
	u64 run_at;
	struct load_history load;
	/* Where it goes next: decided in ops.dispatch(), carried out by ops.enqueue(). */
	u32 array;
	u32 level;
	bool placed;
	bool head;
	bool yielded;
	bool forked;
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

/* Wherever a task's caches are, it may be moved. */
static __always_inline bool may_pull(struct prio_rq *to, struct prio_node *node)
{
	return true;
}

static __always_inline s32 nice_of(struct task_struct *p)
{
	return p->static_prio - 120;
}

static __always_inline bool is_batch(struct task_struct *p)
{
	return nice_of(p) >= batch_nice;
}

static __always_inline u64 timeslice(struct task_struct *p)
{
	if (is_batch(p))
		return batch_slice_ns;
	return slice_min_ns + (slice_max_ns - slice_min_ns) * (u64)(19 - nice_of(p)) / 39;
}

/* Charges the running task up to now. */
static __always_inline void charge(struct task_ctx *t, u64 now)
{
	u64 ran = now - t->run_at;

	if ((s64)ran < 0)
		return;
	t->left = t->left > ran ? t->left - ran : 0;
	t->run_at = now;
}

/* The level of a task's nice value and of its wanting more than a fair share of the CPU; only this needs its past. */
static __always_inline u32 level_of(struct task_struct *p, struct task_ctx *t, struct prio_rq *rq)
{
	u32 level = nice_of(p) + 20, penalty;
	u64 now, use, fair;

	if (is_batch(p)) {
		level += BATCH_LEVELS;
		return level < PRIO_LEVELS ? level : PRIO_LEVELS - 1;
	}
	now = scx_bpf_now();
	load_update(&t->load, now);
	use = load_permille(&t->load, now);
	fair = 1000 / (rq->nr_queued + 2);
	if (use <= fair)
		return level;
	penalty = ((use - fair) * max_penalty + 999 - fair) / (1000 - fair);
	if (penalty)
		__sync_fetch_and_add(&nr_penalised, 1);
	level += penalty;
	return level < PRIO_LEVELS ? level : PRIO_LEVELS - 1;
}

/* Where a task that stays runnable goes: to the expired array with a new timeslice if the last one is used up. */
static __always_inline void place(struct task_struct *p, struct task_ctx *t, struct prio_rq *rq)
{
	u32 active = rq->active & 1;

	t->array = active;
	t->head = !t->yielded;
	if (!t->left) {
		t->left = timeslice(p);
		t->level = level_of(p, t, rq);
		t->array = !active;
		t->head = false;
		__sync_fetch_and_add(&nr_expired, 1);
	}
	t->yielded = false;
	t->placed = true;
}

s32 SCX_OP(o1_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq;
	s32 cpu = prev_cpu;

	if (!t)
		return prev_cpu;
	/* Left for ops.enqueue() to put before the parent. */
	if (t->forked && child_first)
		return prev_cpu;
	if (!scx_bpf_test_and_clear_cpu_idle(prev_cpu) || !bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr))
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu < 0)
		return prev_cpu;
	rq = prio_rq_of(cpu);
	if (!rq || rq->nr_queued)
		return cpu;
	t->level = level_of(p, t, rq);
	if (!t->left)
		t->left = timeslice(p);
	t->forked = false;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, t->left, 0);
	return cpu;
}

void SCX_OP(o1_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq = prio_rq_of(cpu);
	bool first = false;

	if (woken_by_gone_cpu(p, TICK_NS, enq_flags))
		return;
	if (!t || !rq) {
		scx_bpf_error("o1: task %d is not known", p->pid);
		return;
	}
	if (!t->placed) {
		/* It slept when its timeslice was just used up, before a tick saw that: who wakes up is active. */
		if (enq_flags & SCX_ENQ_WAKEUP && !t->left)
			t->left = timeslice(p);
		place(p, t, rq);
		if (enq_flags & SCX_ENQ_WAKEUP || t->forked) {
			t->level = level_of(p, t, rq);
			first = t->forked && child_first && rq->curr_level != PRIO_NONE;
			t->head = first;
		}
		/* Batch work does not preempt batch work. */
		if (t->level < rq->curr_level && rq->curr_level != PRIO_NONE &&
		    !(is_batch(p) && rq->curr_level >= BATCH_LEVELS + batch_nice + 20)) {
			__sync_fetch_and_add(&nr_preempted, 1);
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		} else if (first && t->level == rq->curr_level) {
			rq->child = true;
			__sync_fetch_and_add(&nr_child_first, 1);
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		}
	}
	t->placed = false;
	t->forked = false;
	prio_insert(rq, p, &t->node, cpu, t->array, t->level, t->left,
		    (enq_flags & ~SCX_ENQ_HEAD) | (t->head ? SCX_ENQ_HEAD : 0));
}

void SCX_OP(o1_dequeue, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *t = task_ctx_of(p);

	if (t)
		prio_removed(&t->node);
}

void SCX_OP(o1_dispatch, s32 cpu, struct task_struct *prev)
{
	struct prio_rq *rq = prio_rq_of(cpu);
	struct task_ctx *t = NULL;
	s32 busiest, next;

	if (!rq)
		return;
	if (prev && prev->scx.flags & SCX_TASK_QUEUED)
		t = task_ctx_of(prev);
	if (t) {
		charge(t, scx_bpf_now());
		place(prev, t, rq);
	}
	if (rq->pull) {
		/* ops.tick() saw a much longer queue. */
		rq->pull = false;
		busiest = find_busiest(cpu, rq->nr_queued + 1);
		if (busiest >= 0) {
			struct prio_rq *other = prio_rq_of(busiest);
			u32 more = other ? (other->nr_queued - rq->nr_queued) / 2 : 0;

			pull_to_array(cpu, busiest, more < pull_max ? more : pull_max);
		}
	}
	/* A task that did not use up its timeslice is the first of its level, but its child comes before it. */
	next = prio_pick(rq, cpu, t != NULL, t ? t->array : 0, t ? t->level : 0, t && t->head && !rq->child);
	rq->child = false;
	if (next < 0 && prev && t) {
		t->placed = false;
		prev->scx.slice = t->left;
		rq->curr_level = t->level;
	} else if (!next && !t) {
		pull_idle(cpu);
	}
}

void SCX_OP(o1_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p), busiest;
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq = prio_rq_of(cpu), *other;
	u64 now = scx_bpf_now();

	if (!t || !rq)
		return;
	charge(t, now);
	if (!t->left)
		p->scx.slice = 0;
	t->level = level_of(p, t, rq);
	rq->curr_level = t->level;
	if (!rq->next_balance)
		rq->next_balance = now + busy_interval_ns;
	if ((s64)(now - rq->next_balance) < 0)
		return;
	rq->next_balance = now + busy_interval_ns;
	busiest = find_busiest(cpu, rq->nr_queued + 1);
	other = busiest < 0 ? NULL : prio_rq_of(busiest);
	if (!other || !pull_max)
		return;
	if ((other->nr_queued + 1) * 100ULL >= (rq->nr_queued + 1) * (u64)imbalance_pct) {
		rq->pull = true;
		p->scx.slice = 0;
	}
}

void SCX_OP(o1_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	load_update(&t->load, scx_bpf_now());
	t->load.wants = true;
}

void SCX_OP(o1_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	load_update(&t->load, scx_bpf_now());
	t->load.wants = false;
}

void SCX_OP(o1_running, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq = prio_rq_of(scx_bpf_task_cpu(p));

	if (!t || !rq)
		return;
	t->run_at = scx_bpf_now();
	rq->curr_level = t->level;
}

void SCX_OP(o1_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq = prio_rq_of(scx_bpf_task_cpu(p));

	if (!t || !rq)
		return;
	/* Else ops.dispatch() has done it just now. */
	if (!t->placed)
		charge(t, scx_bpf_now());
	rq->curr_level = PRIO_NONE;
}

bool SCX_OP(o1_yield, struct task_struct *from, struct task_struct *to)
{
	struct task_ctx *t = task_ctx_of(from);

	if (t)
		t->yielded = true;
	from->scx.slice = 0;
	return false;
}

/* Parent and child share what the parent had left, and the child inherits its parent's past. */
s32 SCX_OP(o1_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct task_struct *current = bpf_get_current_task_btf();
	struct task_ctx *parent = NULL;

	if (!t)
		return -ENOMEM;
	t->left = timeslice(p);
	load_init(&t->load, scx_bpf_now());
	if (!args->fork)
		return 0;
	t->forked = true;
	if (is_child_of(p, current))
		parent = bpf_task_storage_get(&tasks, current, NULL, 0);
	if (!parent)
		return 0;
	t->left = parent->left = parent->left / 2 + 1;
	load_update(&parent->load, scx_bpf_now());
	t->load = parent->load;
	t->load.wants = false;
	return 0;
}

s32 SCX_OP_SLEEPABLE(o1_init)
{
	s32 ret = prio_init();

	return ret ? ret : look_for_work_start();
}

SCX_OPS(o1_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)o1_select_cpu,
	.enqueue = (void *)o1_enqueue,
	.dequeue = (void *)o1_dequeue,
	.dispatch = (void *)o1_dispatch,
	.tick = (void *)o1_tick,
	.runnable = (void *)o1_runnable,
	.running = (void *)o1_running,
	.stopping = (void *)o1_stopping,
	.quiescent = (void *)o1_quiescent,
	.yield = (void *)o1_yield,
	.init_task = (void *)o1_init_task,
	.init = (void *)o1_init,
	.name = "o1");
