/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * o1: the O(1) scheduler of January 2002.
 *
 * Every decision takes the same time, however many tasks there are. Each CPU has two priority
 * arrays, active and expired. An array has one FIFO list for each priority level and a bitmap of
 * the levels in use. The CPU runs the first task of the best level of the active array. At the end
 * of its timeslice, a task gets a new timeslice at once and waits in the expired array. When the
 * active array is empty, the two arrays are swapped.
 *
 * The level of a task is its nice value plus a penalty of up to max_penalty levels. Lower levels
 * are better. A task gets a penalty if, in the last seconds, it ran or waited to run for more of
 * the time than its fair share. The larger the excess, the larger the penalty (o1_task.h). Tasks of
 * nice batch_nice and above are batch work. They have long timeslices, and their levels are worse
 * than those of all other tasks.
 *
 * Data structures: the two arrays of each CPU, with one dispatch queue (DSQ) for each level
 * (prio_array.h).
 * Fork: the child runs first, on the CPU of its parent. Parent and child share the rest of the
 * parent's timeslice.
 * Wake-up: the task takes its previous CPU if that is idle, else another idle CPU.
 * Enqueue: a woken or new task gets a level and is added to that level of the active array. The
 * task preempts a running task of a worse level.
 * Dispatch: the CPU takes the first task of the best level of the active array. A CPU without tasks
 * pulls a task from the longest queue.
 * Tick: the running task is charged. At the end of its timeslice it loses the CPU. Every
 * busy_interval_ns, a busy CPU compares queue lengths. It pulls tasks from the longest queue, if
 * that is longer than its own by at least a quarter (imbalance_pct).
 * Locks: the lock of each DSQ. Bitmaps and counts are changed by atomic instructions.
 *
 * Good for: many tasks and CPUs, fork and exec, and batch work. No decision takes longer with more
 * tasks.
 * Bad for: fairness over periods of a few seconds, interactive tasks that compute in bursts, and an
 * even distribution of tasks over busy CPUs.
 * Source: Ingo Molnar, "[announce] [patch] ultra-scalable O(1) SMP and UP scheduler", linux-kernel,
 * 4 January 2002.
 *
 * Different here: SCHED_FIFO and SCHED_RR tasks belong to the kernel's rt class, which is above
 * sched_ext and pushes tasks between CPUs. The original kept realtime tasks in a global queue and
 * interrupted all CPUs for them. In the original, an idle CPU looks for tasks at every tick. Here
 * an idle CPU has no tick, so a timer wakes idle CPUs while tasks wait.
 */
#include "include/o1_balance.h"

char _license[] SEC("license") = "GPL";

const volatile bool child_first PARAM("0..1: whether a child runs before its parent, on the parent's CPU; 0: it is placed like a woken task") = true;

/* Counters, in this order: tasks preempted by a wake-up, and children that ran first. */
u64 nr_preempted, nr_child_first;

/*
 * Looks for an idle CPU. If there is an idle CPU with an empty queue, lets the woken task run there
 * at once.
 */
s32 SCX_OP(o1_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq;
	s32 cpu = prev_cpu;

	if (!t)
		return prev_cpu;
	/* ops.enqueue() puts the child in front of its parent, on the same CPU. */
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

/*
 * Adds a task to an array of its CPU. Preempts the running task if the added task has a better
 * level.
 */
void SCX_OP(o1_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq = prio_rq_of(cpu);
	bool first = false;

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (woken_by_gone_cpu(p, TICK_NS, enq_flags))
		return;
	if (!t || !rq) {
		scx_bpf_error("o1: task %d is not known", p->pid);
		return;
	}
	if (!t->placed) {
		/*
		 * A woken task without a timeslice fell asleep before the tick that would have
		 * renewed its timeslice. The task enters the active array, so it needs a new
		 * timeslice now.
		 */
		if (enq_flags & SCX_ENQ_WAKEUP && !t->left)
			t->left = timeslice(p);
		place(p, t, rq);
		if (enq_flags & SCX_ENQ_WAKEUP || t->forked) {
			t->level = level_of(p, t, rq);
			first = t->forked && child_first && rq->curr_level != PRIO_NONE;
			t->head = first;
		}
		/* A batch task does not preempt another batch task. */
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

/* Updates the number of waiting tasks of a CPU when a task leaves the CPU's arrays. */
void SCX_OP(o1_dequeue, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *t = task_ctx_of(p);

	if (t)
		prio_removed(&t->node);
}

/* Chooses the next task, after pulling tasks if ops.tick() requested it. */
void SCX_OP(o1_dispatch, s32 cpu, struct task_struct *prev)
{
	struct prio_rq *rq = prio_rq_of(cpu);
	struct task_ctx *t = NULL;
	s32 next;

	if (!rq)
		return;
	if (prev && prev->scx.flags & SCX_TASK_QUEUED)
		t = task_ctx_of(prev);
	if (t) {
		charge(t, scx_bpf_now());
		place(prev, t, rq);
	}
	/* ops.tick() found a queue that is much longer than this CPU's. */
	if (rq->pull) {
		rq->pull = false;
		pull_half(cpu, rq);
	}
	/*
	 * A running task whose timeslice has not ended competes as the first task of its level.
	 * Only a new child of this task runs before it.
	 */
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

/*
 * Charges the running task and updates its level. Requests a pull if another queue is much longer
 * than the queue of this CPU.
 */
void SCX_OP(o1_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq = prio_rq_of(cpu);
	u64 now = scx_bpf_now();

	if (!t || !rq)
		return;
	charge(t, now);
	if (!t->left)
		p->scx.slice = 0;
	t->level = level_of(p, t, rq);
	rq->curr_level = t->level;
	if (pull_due(cpu, rq, now)) {
		rq->pull = true;
		p->scx.slice = 0;
	}
}

/* Records that the task wants the CPU from now on. */
void SCX_OP(o1_runnable, struct task_struct *p, u64 enq_flags)
{
	set_wants(p, true);
}

/* Records that the task no longer wants the CPU. */
void SCX_OP(o1_quiescent, struct task_struct *p, u64 deq_flags)
{
	set_wants(p, false);
}

/* Records the level of the task that starts to run on the CPU, and starts to charge the task. */
void SCX_OP(o1_running, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq = prio_rq_of(scx_bpf_task_cpu(p));

	if (!t || !rq)
		return;
	t->run_at = scx_bpf_now();
	rq->curr_level = t->level;
}

/* Charges a task that stops running. */
void SCX_OP(o1_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq = prio_rq_of(scx_bpf_task_cpu(p));

	if (!t || !rq)
		return;
	/* ops.dispatch() has already charged a task that it placed. */
	if (!t->placed)
		charge(t, scx_bpf_now());
	rq->curr_level = PRIO_NONE;
}

/* Called when a task yields. Moves the task to the end of its level. */
bool SCX_OP(o1_yield, struct task_struct *from, struct task_struct *to)
{
	struct task_ctx *t = task_ctx_of(from);

	if (t)
		t->yielded = true;
	from->scx.slice = 0;
	return false;
}

/*
 * Creates the state of a new task. Parent and child share the rest of the parent's timeslice, and
 * the child inherits its load history.
 */
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
	if (shares_with_child(current))
		parent = bpf_task_storage_get(&tasks, current, NULL, 0);
	if (parent)
		inherit(t, parent);
	return 0;
}

/* Creates the queues and starts the timer that wakes idle CPUs while tasks wait. */
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
