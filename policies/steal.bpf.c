/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * steal: CFS of Linux 4.20, but a CPU that becomes idle steals tasks from overloaded CPUs.
 *
 * Every task has a virtual time, which advances by run time * 100 / weight. The weight is 100 for
 * nice 0. The task with the lowest virtual time runs next. A CPU is overloaded if it runs one task
 * while another task waits.
 *
 * Data structures: one dispatch queue (DSQ) for each CPU, ordered by virtual time. The virtual time
 * of a CPU is the highest virtual time of the tasks that it has run (cfs_rq.h). Each last-level
 * cache (LLC) has a bitmap of its overloaded CPUs (overloaded.h).
 * Wake-up: a bounded search for an idle CPU near the waking CPU or near the task's last CPU
 * (select_idle_sibling.h). A new task goes to an idle CPU or, if there is none, to the CPU with the
 * fewest tasks.
 * Enqueue: the task is inserted by its virtual time. A woken task preempts the running task if the
 * virtual time of the CPU is higher than that of the woken task by more than wakeup_granularity_ns.
 * Dispatch: the CPU takes the task with the lowest virtual time. If the CPU has no task, it first
 * pulls one from the busiest CPU, unless its idle periods are too short for the search
 * (idle_balance.h). If it pulled no task, it steals one: it visits the overloaded CPUs of its core,
 * then those of its LLC. It stops at the first CPU that has a waiting task which may run on the
 * stealing CPU, and takes that task. Of several such tasks, it takes the one with the lowest
 * virtual time.
 * Tick: there is no callback. The kernel ends the slice of a task after slice_ns.
 * Timer: moves one task from the CPU with the most tasks to the CPU with the fewest.
 * Locks: the lock of each DSQ. The bitmaps need no lock, because atomic instructions change them.
 *
 * Good for: keeping the CPUs of larger machines busy. A steal takes a few microseconds.
 * Bad for: few tasks with large working sets, which find cold caches after a steal. Without
 * steal_llcs, idle CPUs of other LLCs are not used.
 * Source: Steve Sistare, "Can better task stealing make Linux faster?" and "steal tasks to improve
 * CPU utilization" (2018).
 *
 * With steal=0 the policy is CFS of Linux 4.20. The parameters steal_llcs, steal_nodes,
 * idle_balance and idle_cores are extensions that the source announced as future work.
 *
 * Different here: the kernel's realtime class, which is above sched_ext, schedules realtime tasks.
 * The source's bitmap of CPUs overloaded with realtime tasks is therefore missing. A slice has a
 * fixed length instead of a share of a period.
 */
#include "include/idle_balance.h"
#include "include/select_idle_sibling.h"
#include "include/overloaded.h"

char _license[] SEC("license") = "GPL";

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time slice of a task") = 4000000;
const volatile u64 wakeup_granularity_ns PARAM("ns, 0..1000000000: how far a woken task must be behind the running one to preempt it") = 15000000;
u32 steal PARAM("switch, 0..1: whether a CPU that is about to go idle steals tasks") = 1;
u32 steal_node_limit PARAM("nodes, 0..1024: no stealing on machines with more nodes") = 2;
u32 steal_llcs PARAM("switch, 0..1: whether to steal from other LLCs of the node if the own LLC has no overloaded CPU") = 0;
u32 steal_nodes PARAM("switch, 0..1: whether to steal from LLCs of other nodes if the LLCs before have no overloaded CPU") = 0;
u32 idle_cores PARAM("switch, 0..1: whether wake-ups take an idle core or CPU from the kernel's bitmaps instead of searching") = 0;

/* Number of CPUs in the largest LLC. */
static u32 llc_size;

/* Returns a task's virtual time, including the used part of its current slice. */
static __always_inline u64 vtime_of(struct task_struct *p)
{
	u64 used = p->scx.slice < slice_ns ? slice_ns - p->scx.slice : 0;

	return p->scx.dsq_vtime + used * 100 / p->scx.weight;
}

/* Steals a task from an overloaded CPU, nearest CPUs first. Returns whether it stole a task. */
static __always_inline bool try_steal(u32 cpu, u32 nr_cpus)
{
	u32 own = group_of(cpu), group, far;
	bool stolen = false;

	if (next_in(next_of_core, cpu) != cpu && steal_in(own, cpu, nr_cpus, true))
		return true;
	if (steal_in(own, cpu, nr_cpus, false))
		return true;
	bpf_for(far, 0, 2) {
		if (stolen || !(far ? steal_nodes : steal_llcs))
			continue;
		bpf_for(group, 0, nr_groups) {
			u32 of = group & (SPARSE_GROUPS - 1);
			bool other_node = node_of_group[of] != node_of[cpu & (MAX_CPUS - 1)];

			if (of != own && other_node == far && steal_in(of, cpu, nr_cpus, false)) {
				stolen = true;
				break;
			}
		}
	}
	return stolen;
}

/* Moves all tasks out of the queue of a CPU that goes offline. See pass_on.h. */
static __always_inline void pass_on_all(s32 cpu)
{
	pass_on(cpu);
}

/* Selects a CPU for a new or woken task. */
s32 SCX_OP(steal_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u64 start = bpf_ktime_get_ns();
	s32 cpu;

	if (wake_flags & SCX_WAKE_FORK) {
		cpu = find_idlest_cpu(p, prev_cpu, scx_bpf_nr_cpu_ids());
	} else if (idle_cores) {
		cpu = claim(p, prev_cpu) ? prev_cpu : scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (cpu < 0)
			cpu = prev_cpu;
	} else {
		cpu = select_cpu_for_wakeup(p, prev_cpu, wake_flags, llc_size);
	}
	found_since(start);
	return cpu;
}

/*
 * Inserts a task into its CPU's queue. A woken task preempts the running task if the virtual time
 * of the CPU is higher than that of the woken task by more than wakeup_granularity_ns.
 */
void SCX_OP(steal_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);
	u64 vtime;

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (!c || woken_by_gone_cpu(p, slice_ns, enq_flags))
		return;
	settle_on(p, cpu);
	vtime = p->scx.dsq_vtime;
	if ((enq_flags & SCX_ENQ_WAKEUP) && (s64)(vtime - (c->vtime - slice_ns)) < 0)
		vtime = c->vtime - slice_ns;
	scx_bpf_dsq_insert_vtime(p, cpu, slice_ns, vtime, enq_flags);
	/*
	 * The kernel inserts the task only after this callback has returned, so the length of the
	 * queue does not contain it yet.
	 */
	update_overloaded_with(c, cpu, 1);
	if (!c->running)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	else if ((enq_flags & SCX_ENQ_WAKEUP) && (s64)(c->vtime - vtime) > (s64)wakeup_granularity_ns)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/*
 * Runs the task with the lowest virtual time. If there is none, tries to pull a task from another
 * CPU, then to steal one.
 */
void SCX_OP(steal_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids();
	struct cpu *c = cpu_of(cpu);
	bool stolen = false;
	u64 start;

	if (!c)
		return;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		struct task_struct *first = scx_bpf_dsq_peek(cpu);
		u64 vtime = vtime_of(prev);

		/*
		 * The running task continues if no waiting task has a lower or equal virtual time.
		 */
		if (first && (s64)(first->scx.dsq_vtime - vtime) <= 0 && scx_bpf_dsq_move_to_local(cpu))
			return;
		prev->scx.dsq_vtime = vtime;
		prev->scx.slice = slice_ns;
		return;
	}
	if (scx_bpf_dsq_move_to_local(cpu))
		return;
	if (idle_balance && pull(c, cpu, nr_cpus))
		return;
	if (steal && nr_nodes <= steal_node_limit) {
		start = bpf_ktime_get_ns();
		stolen = try_steal(cpu, nr_cpus);
		found_since(start);
	}
	if (!stolen && scx_bpf_dsq_nr_queued(cpu) > 0)
		pass_on(cpu);
}

/* Raises the CPU's virtual time to the virtual time of the task that starts to run. */
void SCX_OP(steal_running, struct task_struct *p)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);

	if (!c)
		return;
	c->running = true;
	settle_on(p, cpu);
	if ((s64)(p->scx.dsq_vtime - c->vtime) > 0)
		c->vtime = p->scx.dsq_vtime;
	update_overloaded_with(c, cpu, 0);
}

/* Adds the used part of the slice to the virtual time of a task that stops running. */
void SCX_OP(steal_stopping, struct task_struct *p, bool runnable)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);

	p->scx.dsq_vtime = vtime_of(p);
	if (!c)
		return;
	c->running = false;
	/* If the task stays runnable, ops.enqueue() updates the CPU's bit in the bitmap. */
	if (!runnable)
		update_overloaded_with(c, cpu, 0);
}

/* Updates the average idle period of a CPU and the idle state of its core. */
void SCX_OP(steal_update_idle, s32 cpu, bool idle)
{
	struct cpu *c = cpu_of(cpu);

	if (!c)
		return;
	note_idle_time(c, idle);
	if (idle)
		note_idle_core(cpu);
}

/*
 * Called when a task enters the policy. Sets the virtual time of the task to the CPU's virtual
 * time.
 */
void SCX_OP(steal_enable, struct task_struct *p)
{
	struct cfs_task *t = cfs_task_of(p);
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);

	if (!t || !c)
		return;
	p->scx.dsq_vtime = c->vtime;
	t->cpu = cpu;
}

/* Creates the state of a new task. */
s32 SCX_OP(steal_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return cfs_task_init(p);
}

/* Creates the queues and bitmaps, and starts the balancing timer. */
s32 SCX_OP_SLEEPABLE(steal_init)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), cpu, other;
	s32 ret = cfs_rq_init(2 * migration_cost_ns);

	if (ret)
		return ret;
	bpf_for(cpu, 0, nr_cpus) {
		u32 n = 0;

		overloaded_init(cpu);
		note_idle_core(cpu);
		bpf_for(other, 0, nr_cpus)
			n += in_domain(LLC, cpu, other);
		if (n > llc_size)
			llc_size = n;
	}
	return balance_start();
}

SCX_OPS(steal_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)steal_select_cpu,
	.enqueue = (void *)steal_enqueue,
	.dispatch = (void *)steal_dispatch,
	.running = (void *)steal_running,
	.stopping = (void *)steal_stopping,
	.update_idle = (void *)steal_update_idle,
	.enable = (void *)steal_enable,
	.init_task = (void *)steal_init_task,
	.init = (void *)steal_init,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "steal");
