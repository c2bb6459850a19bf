/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * linux26: the O(1) scheduler of Linux 2.6.22.
 *
 * Each CPU has two arrays of tasks that are sorted by priority level, active and expired. The CPU
 * runs the tasks of the active array. A task whose timeslice ends waits in the expired array, and
 * the arrays are swapped when the active one is empty. The policy o1 (o1.bpf.c) has such arrays,
 * too, but computes levels differently.
 *
 * A task earns credit by sleeping and spends it by running. A task with full credit, which is one
 * second, gains five levels, and a task without credit loses five (sleep_avg.h). A task with enough
 * credit counts as interactive. When the timeslice of an interactive task ends, the task goes back
 * to the active array, unless the tasks in the expired array have waited too long (timeslice.h).
 *
 * Data structures: two priority arrays for each CPU, active and expired, with one dispatch queue
 * (DSQ) for each level (prio_array.h).
 * Fork: the child goes to the CPU with the fewest tasks.
 * Exec: the task moves to an idle CPU if its own CPU has other tasks.
 * Wake-up: the task goes to its previous CPU, or to the CPU of its waker if that CPU has less to
 * do. If the chosen CPU is busy and another CPU is idle, the task goes to the idle CPU.
 * Enqueue: the task is added to its level of the active or expired array. The task preempts a
 * running task of a worse level, unless the running task is its waker and about to sleep.
 * Dispatch: if it is time for balancing, the CPU first pulls tasks from other CPUs. If the active
 * array is empty, the CPU swaps the arrays. The CPU then takes the first task of the best level of
 * the active array.
 * Tick: the running task is charged. At the end of its timeslice it loses the CPU. An interactive
 * task also loses the CPU at the end of its turn, which is a part of its timeslice, if other tasks
 * of its level wait.
 * Balancing: CPUs balance at intervals, first within their group, then over the machine
 * (prio_domains.h).
 * Locks: the lock of each DSQ. Bitmaps and counts are changed by atomic instructions.
 *
 * Good for: interactive tasks next to a few CPU-bound ones, and batch throughput. No decision takes
 * longer with more tasks.
 * Bad for: fairness, and machines with tasks that sleep to gain credit and then compute. Small
 * changes of a load can change the outcome of the heuristics abruptly.
 * Source: kernel/sched.c of Linux 2.6.22 as described by Happe, Groenda, Reussner, "Performance
 * Evaluation of Scheduling Policies in Symmetric Multiprocessing Environments" (2008). The code is
 * our own.
 *
 * Different here: CPUs are balanced in two domains, the machine and groups of CPUs. The policy's
 * profile, a file with values for its variables, makes each NUMA node a group. Idle CPUs have no
 * tick, so they cannot look for tasks themselves. A timer wakes them while tasks wait. After exec,
 * a task moves when its CPU next reschedules, and only to an idle CPU. An exiting child does not
 * change the credit of its parent. The policy cannot always see whether a task or an interrupt
 * causes a wake-up. It assumes that a task causes every wake-up through a futex. It assumes that a
 * task causes a wake-up through a pipe or socket if the woken task may run on several CPUs. A sleep
 * on a pipe is credited in full.
 */
#include "include/exec_balance.h"
#include "include/futex_waker.h"

char _license[] SEC("license") = "GPL";

bool fork_balance PARAM("0..1: whether new tasks go to the CPU with the fewest tasks") = true;

/*
 * Counters, in this order: tasks preempted by a wake-up, tasks moved at fork, and tasks woken on
 * the CPU of their waker.
 */
u64 nr_preempted, nr_fork_moved, nr_affine;

/*
 * Selects the CPU of a new or woken task. If that CPU is idle and its queue is empty, a woken task
 * runs there at once.
 */
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
	t->sync = wake_flags & SCX_WAKE_SYNC;
	rq = prio_rq_of(this_cpu);
	woken(p, t, t->sync || (rq && rq->waking));
	if (this_cpu != prev_cpu && is_affine(p, this_cpu, prev_cpu, t->sync))
		cpu = this_cpu;
	idle = scx_bpf_test_and_clear_cpu_idle(cpu) ? cpu : scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu != prev_cpu && (idle < 0 || idle == cpu))
		__sync_fetch_and_add(&nr_affine, 1);
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

/*
 * Adds a task to an array of its CPU. Preempts the running task if the added task has a better
 * level.
 */
void SCX_OP(linux26_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq = prio_rq_of(cpu);

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (woken_by_gone_cpu(p, TICK_NS, enq_flags))
		return;
	if (!t || !rq) {
		scx_bpf_error("linux26: task %d is not known", p->pid);
		return;
	}
	if (!t->placed) {
		if (t->sleep.slept_at)
			woken(p, t, rq->waking);
		place(p, t, rq, scx_bpf_now());
		if (enq_flags & SCX_ENQ_WAKEUP)
			t->head = false;
		/* A waker that is about to sleep is not preempted. */
		if (t->level < rq->curr_level && rq->curr_level != PRIO_NONE &&
		    !(t->sync && cpu == (s32)bpf_get_smp_processor_id())) {
			__sync_fetch_and_add(&nr_preempted, 1);
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		}
	}
	t->placed = false;
	t->sync = false;
	if (move_to_idle(p, t))
		return;
	prio_insert(rq, p, &t->node, cpu, t->array, t->level, t->left,
		    (enq_flags & ~SCX_ENQ_HEAD) | (t->head ? SCX_ENQ_HEAD : 0));
}

/* Updates the number of waiting tasks of a CPU when a task leaves the CPU's arrays. */
void SCX_OP(linux26_dequeue, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *t = task_ctx_of(p);

	if (t)
		prio_removed(&t->node);
}

/* Pulls tasks from other CPUs if it is time for balancing, and chooses the next task. */
void SCX_OP(linux26_dispatch, s32 cpu, struct task_struct *prev)
{
	struct prio_rq *rq = prio_rq_of(cpu);
	struct domains *own = domains_of(cpu);
	u64 now = scx_bpf_now();
	struct task_ctx *t = NULL;
	s32 next;

	if (!rq || !own)
		return;
	if (prev && prev->scx.flags & SCX_TASK_QUEUED)
		t = task_ctx_of(prev);
	if (t) {
		charge(t, now);
		place(prev, t, rq, now);
		/*
		 * If `push` is set, another CPU has requested that the running task moves to an
		 * idle CPU (active_balance()).
		 */
		if (rq->push)
			t->moves = true;
		/* The task stays if no other task could run in its place. */
		if (t->moves && !rq->nr_queued)
			t->moves = false;
	}
	rq->push = false;
	domains_balance(own, rq, cpu, t, prev, now);
	next = prio_pick(rq, cpu, t && !t->moves, t ? t->array : 0, t ? t->level : 0, t && t->head);
	if (next < 0 && prev && t) {
		t->placed = false;
		prev->scx.slice = t->left;
		rq->curr_level = t->level;
	}
}

/*
 * Charges the running task. The task loses the CPU if its timeslice or its turn has ended, or if it
 * is time for balancing. (A turn is a part of the timeslice, after which another interactive task
 * of the same level runs, see timeslice.h.)
 */
void SCX_OP(linux26_tick, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	u64 now = scx_bpf_now();
	s32 cpu = scx_bpf_task_cpu(p);
	struct prio_rq *rq = prio_rq_of(cpu);
	struct domains *own = domains_of(cpu);

	if (!t || !rq || !own)
		return;
	charge(t, now);
	if (!t->left || turn_over(p, t))
		p->scx.slice = 0;
	if (domains_tick(own, rq, now))
		p->scx.slice = 0;
}

/*
 * Starts to charge the task. If the task was woken, its wait for the CPU counts as sleep and earns
 * credit.
 */
void SCX_OP(linux26_running, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq = prio_rq_of(scx_bpf_task_cpu(p));

	if (!t || !rq)
		return;
	t->sleep.run_at = scx_bpf_now();
	if (t->sleep.woken_at) {
		credit_wait(p, &t->sleep, t->sleep.run_at);
		t->level = level_of(p, &t->sleep);
	}
	rq->curr_level = t->level;
}

/* Charges the task, and records whether it falls asleep. */
void SCX_OP(linux26_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *t = task_ctx_of(p);
	struct prio_rq *rq = prio_rq_of(scx_bpf_task_cpu(p));

	if (!t || !rq)
		return;
	charge(t, scx_bpf_now());
	if (!runnable) {
		t->sleep.slept_at = scx_bpf_now();
		t->sleep.disk = p->__state & TASK_UNINTERRUPTIBLE;
	}
	rq->curr_level = PRIO_NONE;
}

/* Called when a task yields. Moves the task to the expired array. */
bool SCX_OP(linux26_yield, struct task_struct *from, struct task_struct *to)
{
	struct task_ctx *t = task_ctx_of(from);

	if (t)
		t->yielded = true;
	from->scx.slice = 0;
	return false;
}

/*
 * Creates the state of a new task. Parent and child share what is left of the parent's timeslice.
 * The child starts with a part of the parent's credit.
 */
s32 SCX_OP(linux26_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct task_struct *current = bpf_get_current_task_btf();
	struct task_ctx *parent = NULL;

	if (!t)
		return -ENOMEM;
	if (args->fork && shares_with_child(current))
		parent = bpf_task_storage_get(&tasks, current, NULL, 0);
	new_task(p, t, parent);
	return 0;
}

/* Creates the queues and domains, and starts the timer that wakes idle CPUs while tasks wait. */
s32 SCX_OP_SLEEPABLE(linux26_init)
{
	s32 ret = prio_init();

	domains_init();
	return ret ? ret : look_for_work_start();
}

SCX_OPS(linux26_ops,
	HOTPLUG_CALLBACKS,
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
