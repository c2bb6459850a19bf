/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bfs: the Brain Fuck Scheduler, one queue for all CPUs, ordered by virtual deadlines.
 *
 * When a task gets a new slice, it also gets a virtual deadline: now plus the length of a slice,
 * times a factor that grows by a tenth with each nice value. The task with the earliest deadline
 * runs next. The deadline is a limit for nothing: it only makes tasks that waited long, or have a
 * good nice value, come first. A task that sleeps keeps its deadline and the rest of its slice, so a
 * task that sleeps much has an early deadline when it wakes up, and soon gets a CPU. There is no
 * estimate of how interactive a task is.
 *
 * Data structures: one dispatch queue (DSQ) that all CPUs share, in the order of deadlines.
 * Wake-up: the kernel's default search looks for an idle CPU near the previous one. If the search
 * finds one, the task runs there at once.
 * Enqueue: the task is inserted by its deadline. If no CPU is idle, it preempts the running task
 * with the latest deadline, if that is later than its own.
 * Dispatch: of the first `scan` tasks, the one with the earliest deadline runs. A task that last ran
 * on a different CPU counts as later by distance_ns, because its data is in another cache.
 * Tick: there is no callback. The kernel ends the slice of a task.
 * Locks: the lock of the DSQ. The lock of the one queue was what the design of BFS was criticised
 * for.
 *
 * Good for: response times on desktops with few CPUs. No CPU idles while a task waits.
 * Bad for: more than about 16 CPUs, which share one queue and one lock.
 * Source: Con Kolivas, BFS for Linux 2.6.31 (2009) and later, and its description
 * Documentation/scheduler/sched-BFS.txt. Groves, Knockel, Schulte, "BFS vs. CFS: Scheduler
 * Comparison" (2009) measures it. The code is our own.
 *
 * Different here: the distance of a CPU has two values instead of six. The realtime class and
 * SCHED_IDLEPRIO are those of Linux.
 */
#include "include/cpu_array.h"
#include "include/hotplug.h"

char _license[] SEC("license") = "GPL";

/* ID of the shared DSQ. */
#define QUEUE 0
/* Number of nice values. */
#define NICES 40

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time slice of a task (rr_interval)") = 6000000;
const volatile u64 distance_ns PARAM("ns, 0..1000000000: how much later the deadline of a task of another CPU counts") = 1000000;
const volatile u32 scan PARAM("tasks, 1..1024: number of waiting tasks from which a CPU chooses") = 8;

/* Number of new deadlines, of preempted tasks, and of tasks that ran before one of another CPU. */
u64 nr_deadlines, nr_preempted, nr_local;

/* Factor of the deadline of each nice value, in units of 1/128. */
static u64 ratios[NICES];

struct task {
	u64 deadline;
	/* Rest of the slice, ns, and when the task began to use it. */
	u64 left, began;
	/* CPU on which the task ran last, or -1. */
	s32 cpu;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

/* Deadline of the task that a CPU runs, or 0. */
struct cpu {
	u64 deadline;
} CPU_ALIGNED;

CPU_VARIABLES(cpu)

static __always_inline struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* Gives a task a new slice and a new deadline (time_slice_expired). */
static __always_inline void new_deadline(struct task_struct *p, struct task *t)
{
	/* The static_prio of a task is 120 + nice. */
	u32 nice = (u32)p->static_prio - 100;

	t->left = slice_ns;
	t->deadline = bpf_ktime_get_ns() + slice_ns * ratios[nice < NICES ? nice : NICES - 1] / 128;
	__sync_fetch_and_add(&nr_deadlines, 1);
}

/* Charges the running task. */
static __always_inline void charge(struct task_struct *p, struct task *t)
{
	u64 now = bpf_ktime_get_ns(), used = now - t->began;

	t->began = now;
	if (used < t->left)
		t->left -= used;
	else
		new_deadline(p, t);
}

s32 SCX_OP(bfs_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	struct task *t = task_of(p);

	if (!is_idle || !t)
		return is_idle ? cpu : prev_cpu;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, t->left, 0);
	return cpu;
}

/* Returns the CPU whose task has the latest deadline after `deadline`, or -1 (try_preempt). */
static __noinline s32 latest(struct task_struct *p, u64 deadline)
{
	s32 cpu, found = -1;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		u64 other = cpu_of(cpu)->deadline;

		if (other > deadline && is_online(cpu) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
			deadline = other;
			found = cpu;
		}
	}
	return found;
}

/* Inserts a task by its deadline, and finds a CPU for it. */
void SCX_OP(bfs_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task *t = task_of(p);
	s32 cpu;

	/* A CPU that is going offline cannot kick other CPUs, see online.h. */
	if (!t || woken_by_gone_cpu(p, slice_ns, enq_flags))
		return;
	scx_bpf_dsq_insert_vtime(p, QUEUE, t->left, t->deadline, enq_flags);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	cpu = enq_flags & SCX_ENQ_WAKEUP ? latest(p, t->deadline) : -1;
	if (cpu >= 0) {
		__sync_fetch_and_add(&nr_preempted, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/*
 * Takes the waiting task with the earliest deadline, as seen from a CPU, if it is earlier than
 * `deadline`. Returns whether it took one.
 */
static __noinline bool earliest(s32 cpu, u64 deadline)
{
	struct bpf_iter_scx_dsq it;
	bool taken = false;
	s32 pid = 0;
	u32 i, at = 0;

	if (!bpf_iter_scx_dsq_new(&it, QUEUE, 0)) {
		bpf_for(i, 0, scan) {
			struct task_struct *p = bpf_iter_scx_dsq_next(&it);
			struct task *t = p ? task_of(p) : NULL;
			u64 own;

			if (!t)
				break;
			if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || p->migration_disabled)
				continue;
			own = t->deadline + (t->cpu == cpu || t->cpu < 0 ? 0 : distance_ns);
			if (own < deadline) {
				deadline = own;
				pid = p->pid;
				at = i;
			}
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	if (!pid)
		return false;
	if (!bpf_iter_scx_dsq_new(&it, QUEUE, 0)) {
		bpf_for(i, 0, scan) {
			struct task_struct *p = bpf_iter_scx_dsq_next(&it);

			if (!p)
				break;
			if (p->pid != pid)
				continue;
			taken = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0);
			if (taken && at)
				__sync_fetch_and_add(&nr_local, 1);
			break;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return taken;
}

/* Runs the task with the earliest deadline: a waiting task or the running task. */
void SCX_OP(bfs_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? task_of(prev) : NULL;

	if (!t) {
		/* A CPU that would idle takes any task that may run on it. */
		if (!earliest(cpu, ~0ULL))
			scx_bpf_dsq_move_to_local(QUEUE);
		return;
	}
	charge(prev, t);
	if (earliest(cpu, t->deadline))
		return;
	prev->scx.slice = t->left;
	cpu_of(cpu)->deadline = t->deadline;
}

void SCX_OP(bfs_running, struct task_struct *p)
{
	struct task *t = task_of(p);
	s32 cpu = scx_bpf_task_cpu(p);

	if (!t)
		return;
	t->began = bpf_ktime_get_ns();
	t->cpu = cpu;
	cpu_of(cpu)->deadline = t->deadline;
}

void SCX_OP(bfs_stopping, struct task_struct *p, bool runnable)
{
	struct task *t = task_of(p);

	cpu_of(scx_bpf_task_cpu(p))->deadline = 0;
	if (t)
		charge(p, t);
}

s32 SCX_OP(bfs_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	t->cpu = -1;
	new_deadline(p, t);
	return 0;
}

/* Computes the factors of the nice values, and creates the shared queue. */
s32 SCX_OP_SLEEPABLE(bfs_init)
{
	u64 ratio = 128;
	u32 nice;

	bpf_for(nice, 0, NICES) {
		ratios[nice] = ratio;
		ratio = ratio * 11 / 10;
	}
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(bfs_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)bfs_select_cpu,
	.enqueue = (void *)bfs_enqueue,
	.dispatch = (void *)bfs_dispatch,
	.running = (void *)bfs_running,
	.stopping = (void *)bfs_stopping,
	.init_task = (void *)bfs_init_task,
	.init = (void *)bfs_init,
	.name = "bfs");
