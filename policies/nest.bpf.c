/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nest: keeps the tasks on few CPUs, which are warm and therefore run at a high frequency.
 *
 * The primary nest has the CPUs that are in use. A woken task goes to an idle CPU of the nest, even
 * if the rest of the machine is idle. The reserve nest has CPUs that were in use recently, or that
 * might be needed soon.
 *
 *     no CPU of the primary nest is idle       take one of the reserve, which becomes primary
 *     no CPU of the reserve is idle either     take any idle CPU, which joins the reserve
 *     a primary CPU idled for remove_ns        it returns to the reserve when a task looks at it
 *     a task exits, and its CPU becomes idle   the CPU returns to the reserve
 *     a task found its CPU busy twice          the task is impatient, and begins with the reserve
 *
 * Data structures: the nest of each CPU, and one dispatch queue (DSQ) for each CPU.
 * Wake-up: the task takes its previous CPU if that is idle and primary. Otherwise it searches the
 * primary nest, then the reserve, each first in the last-level cache (LLC) of its previous CPU, and
 * at last the kernel's default search looks for an idle CPU.
 * Enqueue: the task goes to the end of the queue of its CPU.
 * Dispatch: a CPU takes the first task of its own queue. If that is empty and the CPU would idle, it
 * takes a task from the longest other queue.
 * Tick: there is no callback. The kernel ends the slice of a task after slice_ns.
 * Locks: the lock of each DSQ. The nests need no lock: a wrong guess costs only time.
 *
 * Good for: a few tasks that sleep often, on CPUs whose frequency follows the load.
 * Bad for: machines that are busy, on which the searches cost time, and CPUs with a fixed frequency.
 * Source: Lawall et al., "OS Scheduling with Nest: Keeping Tasks Close Together on Warm Cores"
 * (EuroSys 2022), and scx_nest of the kernel's sched_ext schedulers. The code is our own.
 *
 * Different here: an idle CPU of the primary nest does not spin, because a policy cannot do that.
 * The reserve has no preferred first CPU.
 */
#include "include/pass_on.h"

char _license[] SEC("license") = "GPL";

/* Nest of a CPU. */
enum nest { OUTSIDE, RESERVE, PRIMARY };

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time slice of a task") = 5000000;
const volatile u64 remove_ns PARAM("ns, 0..100000000000: a primary CPU that idles for longer returns to the reserve (P_REMOVE)") = 2000000;
const volatile u32 reserve_max PARAM("CPUs, 0..1024: largest size of the reserve (R_MAX)") = 5;
const volatile u32 impatient PARAM("wake-ups, 1..1000: a task whose CPU is busy this often begins with the reserve (R_IMPATIENT)") = 2;

/* LLC of each CPU, set by the profile. */
const volatile u32 llc_of[MAX_CPUS];

/* CPUs that became primary, and that left the primary nest; wake-ups outside the nests; steals. */
u64 nr_promoted, nr_demoted, nr_outside, nr_stolen;
/* Number of CPUs in the reserve. */
static s32 reserved;

struct cpu {
	u32 nest;
	/* Time since which the CPU runs no task. */
	u64 idle_since;
} CPU_ALIGNED;

CPU_VARIABLES(cpu)

/* Number of times in succession that a task found its previous CPU busy. */
struct task {
	u32 busy;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

/* Moves a CPU to another nest. A full reserve takes no more CPUs. */
static __always_inline void move_to(struct cpu *c, u32 nest)
{
	if (nest == RESERVE && reserved >= (s32)reserve_max)
		nest = OUTSIDE;
	if (c->nest == nest)
		return;
	if (nest == PRIMARY)
		__sync_fetch_and_add(&nr_promoted, 1);
	if (c->nest == PRIMARY)
		__sync_fetch_and_add(&nr_demoted, 1);
	__sync_fetch_and_add(&reserved, (nest == RESERVE) - (c->nest == RESERVE));
	c->nest = nest;
}

/* Moves all tasks out of the queue of a CPU that goes offline. See pass_on.h. */
static __always_inline void pass_on_all(s32 cpu)
{
	pass_on(cpu);
}

/* Moves a primary CPU that has been idle for too long to the reserve. Returns whether it moved. */
static __always_inline bool leaves(struct cpu *c, u64 now)
{
	if (c->nest != PRIMARY || !c->idle_since || now - c->idle_since <= remove_ns)
		return false;
	move_to(c, RESERVE);
	return true;
}

/*
 * Claims an idle CPU of a nest for a task: one whose LLC is that of prev_cpu (`near`), or another
 * one. Returns -1 if there is none.
 */
static __noinline s32 search(struct task_struct *p, s32 prev_cpu, u32 nest, bool near)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), llc = llc_of[prev_cpu & (MAX_CPUS - 1)];
	u64 now = bpf_ktime_get_ns();
	s32 i, found = -1;

	bpf_for(i, 0, nr_cpus) {
		u32 cpu = (u32)(prev_cpu + i) % nr_cpus;
		struct cpu *c = cpu_of(cpu);

		if (c->nest != nest || (llc_of[cpu & (MAX_CPUS - 1)] == llc) != near || leaves(c, now) ||
		    !is_online(cpu) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || !scx_bpf_test_and_clear_cpu_idle(cpu))
			continue;
		found = cpu;
		break;
	}
	return found;
}

/* Chooses an idle CPU of the nests for a woken task. */
s32 SCX_OP(nest_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, 0);
	struct cpu *prev = cpu_of(prev_cpu);
	bool is_idle = false;
	s32 cpu = -1;

	if (!t)
		return prev_cpu;
	if (!leaves(prev, bpf_ktime_get_ns()) && prev->nest == PRIMARY && is_online(prev_cpu) &&
	    scx_bpf_test_and_clear_cpu_idle(prev_cpu)) {
		t->busy = 0;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
		return prev_cpu;
	}
	if (!prev->idle_since)
		t->busy++;
	if (t->busy < impatient) {
		cpu = search(p, prev_cpu, PRIMARY, true);
		if (cpu < 0)
			cpu = search(p, prev_cpu, PRIMARY, false);
	}
	if (cpu < 0) {
		cpu = search(p, prev_cpu, RESERVE, true);
		if (cpu < 0)
			cpu = search(p, prev_cpu, RESERVE, false);
		if (cpu >= 0) {
			move_to(cpu_of(cpu), PRIMARY);
			t->busy = 0;
		}
	}
	if (cpu < 0) {
		cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
		if (!is_idle)
			return prev_cpu;
		__sync_fetch_and_add(&nr_outside, 1);
		/* An impatient task makes the primary nest grow at once. */
		move_to(cpu_of(cpu), t->busy >= impatient ? PRIMARY : RESERVE);
		t->busy = 0;
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

/* Appends the task to the queue of its CPU. */
void SCX_OP(nest_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	if (woken_by_gone_cpu(p, slice_ns, enq_flags))
		return;
	scx_bpf_dsq_insert(p, scx_bpf_task_cpu(p), slice_ns, enq_flags);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Takes a task from the CPU's own queue, or from the longest other one. */
void SCX_OP(nest_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids();
	s32 longest = -1, most = 0, i;

	if (scx_bpf_dsq_move_to_local(cpu) || (prev && (prev->scx.flags & SCX_TASK_QUEUED)))
		return;
	bpf_for(i, 1, nr_cpus) {
		s32 other = (u32)(cpu + i) % nr_cpus, queued = scx_bpf_dsq_nr_queued(other);

		if (queued > most) {
			most = queued;
			longest = other;
		}
	}
	if (longest >= 0 && scx_bpf_dsq_move_to_local(longest))
		__sync_fetch_and_add(&nr_stolen, 1);
}

/* A CPU that runs a task belongs at least to the reserve. */
void SCX_OP(nest_running, struct task_struct *p)
{
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));

	c->idle_since = 0;
	if (c->nest == OUTSIDE)
		move_to(c, RESERVE);
}

void SCX_OP(nest_stopping, struct task_struct *p, bool runnable)
{
	cpu_of(scx_bpf_task_cpu(p))->idle_since = bpf_ktime_get_ns();
}

/* The CPU of a task that exits returns to the reserve if it has no other task. */
void SCX_OP(nest_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);

	if (c->nest == PRIMARY && c->idle_since && !scx_bpf_dsq_nr_queued(cpu))
		move_to(c, RESERVE);
}

s32 SCX_OP_SLEEPABLE(nest_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

/* Creates one queue for each CPU. */
s32 SCX_OP_SLEEPABLE(nest_init)
{
	s32 cpu, ret;

	online_init();
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		ret = scx_bpf_create_dsq(cpu, -1);
		if (ret)
			return ret;
	}
	return 0;
}

SCX_OPS(nest_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)nest_select_cpu,
	.enqueue = (void *)nest_enqueue,
	.dispatch = (void *)nest_dispatch,
	.running = (void *)nest_running,
	.stopping = (void *)nest_stopping,
	.exit_task = (void *)nest_exit_task,
	.init_task = (void *)nest_init_task,
	.init = (void *)nest_init,
	.name = "nest");
