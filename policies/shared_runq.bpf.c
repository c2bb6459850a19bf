/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * shared_runq: one queue for each CPU, and for each last-level cache a list of all waiting tasks,
 * from which CPUs without work take the oldest.
 *
 *     wake-up            append the task to the queue of its CPU and to the list of its LLC
 *     the task runs      remove it from the list
 *     a CPU has no task  take the first task of the LLC's list that may run there
 *
 * Data structures: one dispatch queue (DSQ) for each CPU, in the order of arrival. One list for
 * each last-level cache (LLC), a ring of pids with a lock. The profile shared_runq.toml says to
 * which LLC a CPU belongs.
 * Wake-up: the kernel's default search looks for an idle CPU, otherwise the task stays with its
 * previous CPU.
 * Enqueue: the task goes to the end of its CPU's queue. Unless it is pinned to a CPU, it also goes
 * to the end of the list.
 * Dispatch: a CPU takes the first task of its own queue. If its queue is empty and it would become
 * idle, it takes a task from the list of its LLC. If there is none, it takes a task from the
 * longest queue of the next `scan` CPUs, which stands for the kernel's new-idle balancing.
 * Tick: there is no callback. The kernel ends the slice of a task after slice_ns.
 * Locks: the lock of each list, which every enqueue and every switch to a listed task acquire, and
 * the lock of each DSQ.
 *
 * Differences from the original: the queue of a CPU has the order of arrival, while the kernel's
 * has that of virtual deadlines. If more than 1024 tasks of an LLC wait, the oldest leave the list.
 *
 * Good for: keeping all CPUs of an LLC busy while tasks wait, at the cost of a short list operation.
 * Bad for: LLCs with many CPUs and workloads with many wake-ups, which contend for the lock of the
 * list. The policy ignores nice values.
 * Source: the feature SHARED_RUNQ of David Vernet's patches "sched: Implement shared runqueue in
 * CFS" (linux-kernel, 2023). The code is our own.
 */
#include "include/pass_on.h"

char _license[] SEC("license") = "GPL";

/* Highest number of LLCs, and of tasks in a list. Both are powers of two. */
#define MAX_LLCS 256
#define RING 1024
/* Number of entries that a CPU examines before it gives up. */
#define MAX_TRIES 32

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time slice of a task") = 3000000;
u32 shared PARAM("switch, 0..1: whether the lists are used; 0: only the queues of the CPUs") = 1;
u32 scan PARAM("CPUs, 0..1024: number of other queues that a CPU examines if the list has no task") = 1024;

/* LLC of each CPU, set by the profile. */
const volatile u32 llc_of[MAX_CPUS];

/* Number of tasks that CPUs took from the lists, and from the queues of other CPUs. */
u64 nr_shared, nr_pulled;

/* The waiting tasks of an LLC. */
struct list {
	struct bpf_spin_lock lock;
	/* Numbers of the next entry to read and of the next one to write. */
	u32 head, tail;
	/* Pids; 0 is an entry whose task has left the list. */
	s32 pids[RING];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_LLCS);
	__type(key, u32);
	__type(value, struct list);
} lists SEC(".maps");

/* Entry of a task, if `listed` is set. */
struct place {
	bool listed;
	u32 llc;
	u32 entry;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct place);
} places SEC(".maps");

static __always_inline struct place *place_of(struct task_struct *p)
{
	return bpf_task_storage_get(&places, p, NULL, 0);
}

static __always_inline struct list *list_of(u32 llc)
{
	u32 key = llc & (MAX_LLCS - 1);

	return bpf_map_lookup_elem(&lists, &key);
}

/* Appends a task to the list of a CPU's LLC. */
static __always_inline void push(struct task_struct *p, s32 cpu)
{
	u32 llc = llc_of[cpu & (MAX_CPUS - 1)];
	struct place *at = place_of(p);
	struct list *list = list_of(llc);

	if (!at || !list)
		return;
	at->llc = llc;
	at->listed = true;
	bpf_spin_lock(&list->lock);
	at->entry = list->tail;
	list->pids[list->tail & (RING - 1)] = p->pid;
	list->tail++;
	/* A full ring has overwritten its oldest entry. */
	if (list->tail - list->head > RING)
		list->head++;
	bpf_spin_unlock(&list->lock);
}

/* Removes a task from its list, unless it has already left it. */
static __always_inline void unlist(struct task_struct *p)
{
	struct place *at = place_of(p);
	struct list *list;
	s32 pid = p->pid;

	if (!at || !at->listed)
		return;
	at->listed = false;
	list = list_of(at->llc);
	if (!list)
		return;
	bpf_spin_lock(&list->lock);
	if (list->pids[at->entry & (RING - 1)] == pid)
		list->pids[at->entry & (RING - 1)] = 0;
	bpf_spin_unlock(&list->lock);
}

/* Takes the first entry off a list and returns its pid, 0 for an unused entry, -1 at the end. */
static __always_inline s32 pop(struct list *list)
{
	s32 pid = -1;

	/* As in the kernel, a CPU first looks without the lock whether there is a task. */
	if (list->head == list->tail)
		return -1;
	bpf_spin_lock(&list->lock);
	if (list->head != list->tail) {
		pid = list->pids[list->head & (RING - 1)];
		list->pids[list->head & (RING - 1)] = 0;
		list->head++;
	}
	bpf_spin_unlock(&list->lock);
	return pid;
}

/* Moves a waiting task from the queue of its CPU to this CPU. Returns whether it was moved. */
static __noinline bool take(s32 cpu, s32 pid)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	struct bpf_iter_scx_dsq it;
	bool taken = false;

	if (!p)
		return false;
	if (!bpf_iter_scx_dsq_new(&it, scx_bpf_task_cpu(p), 0) && !p->migration_disabled &&
	    bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		taken = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0);
	bpf_iter_scx_dsq_destroy(&it);
	bpf_task_release(p);
	return taken;
}

/* Takes a task from the list of this CPU's LLC. Returns whether there was one. */
static __noinline bool take_listed(s32 cpu)
{
	struct list *list = list_of(llc_of[cpu & (MAX_CPUS - 1)]);
	u32 i;

	if (!list)
		return false;
	bpf_for(i, 0, MAX_TRIES) {
		s32 pid = pop(list);

		if (pid < 0)
			return false;
		if (pid && take(cpu, pid)) {
			__sync_fetch_and_add(&nr_shared, 1);
			return true;
		}
	}
	return false;
}

/* Moves all tasks out of the queue of a CPU that goes offline. See pass_on.h. */
static __always_inline void pass_on_all(s32 cpu)
{
	pass_on(cpu);
}

/* Chooses an idle CPU for a woken task, otherwise its previous CPU. */
s32 SCX_OP(shared_runq_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	return is_idle ? cpu : prev_cpu;
}

/* Appends the task to the queue of its CPU and to the list of the CPU's LLC. */
void SCX_OP(shared_runq_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p), idle;

	if (woken_by_gone_cpu(p, slice_ns, enq_flags))
		return;
	scx_bpf_dsq_insert(p, cpu, slice_ns, enq_flags);
	if (p->nr_cpus_allowed == 1 || is_migration_disabled(p) || !shared)
		return;
	push(p, cpu);
	/* If the kernel did not call ops.select_cpu(), no idle CPU has been woken for this task yet. */
	if (enq_flags & SCX_ENQ_CPU_SELECTED)
		return;
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/* Removes a task that changes its properties or sleeps from the list. */
void SCX_OP(shared_runq_dequeue, struct task_struct *p, u64 deq_flags)
{
	unlist(p);
}

/* Removes a task that begins to run from the list. */
void SCX_OP(shared_runq_running, struct task_struct *p)
{
	unlist(p);
}

/* Takes a task from the own queue, from the list, or from the longest queue of another CPU. */
void SCX_OP(shared_runq_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids();
	s32 longest = -1, most = 0, i;

	if (scx_bpf_dsq_move_to_local(cpu))
		return;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		return;
	if (shared && take_listed(cpu))
		return;
	bpf_for(i, 1, scan + 1) {
		s32 other = (cpu + i) % nr_cpus;
		s32 queued = scx_bpf_dsq_nr_queued(other);

		if (other == cpu)
			break;
		if (queued > most) {
			most = queued;
			longest = other;
		}
	}
	if (longest >= 0 && scx_bpf_dsq_move_to_local(longest))
		__sync_fetch_and_add(&nr_pulled, 1);
}

/* Allocates the storage of a task. */
s32 SCX_OP_SLEEPABLE(shared_runq_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	if (!bpf_task_storage_get(&places, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE))
		return -12;
	return 0;
}

/* Creates one queue for each CPU. */
s32 SCX_OP_SLEEPABLE(shared_runq_init)
{
	s32 cpu, ret;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		ret = scx_bpf_create_dsq(cpu, -1);
		if (ret)
			return ret;
	}
	return 0;
}

SCX_OPS(shared_runq_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)shared_runq_select_cpu,
	.enqueue = (void *)shared_runq_enqueue,
	.dequeue = (void *)shared_runq_dequeue,
	.dispatch = (void *)shared_runq_dispatch,
	.running = (void *)shared_runq_running,
	.init_task = (void *)shared_runq_init_task,
	.init = (void *)shared_runq_init,
	.name = "shared_runq");
