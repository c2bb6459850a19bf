/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The runqueue of Linux 2.4 and 2.5: one doubly linked list of all runnable tasks, including
 * running ones, behind one spinlock.
 *
 *     nodes[0]          nodes[7]          nodes[3]
 *     HEAD <--------->  task A  <-------> task B  <-------> HEAD
 *
 * In Linux 2.4 the list linked the task_structs, and the fields that a search reads were in one
 * cache line. Here these fields are in a node. A BPF program that holds a spinlock must not call
 * the kernel to look up a task, so a node cannot be in the task's own storage. The nodes are
 * elements of an array instead, and the list links their indices (slots).
 *
 * Only dss.bpf.c uses the fields that are marked with "Linux 2.4", and only dss25.bpf.c those that
 * are marked with "Linux 2.5.2-pre". In Linux 2.5.2-pre, a recalculation gives new ticks to all
 * runnable tasks. Goodness is the value by which the schedulers compare tasks.
 */
#ifndef RUN_LIST_H
#define RUN_LIST_H

#include "scx.h"

/* Highest number of CPUs; a power of two, because indices are masked with MAX_CPUS - 1. */
#define MAX_CPUS 1024
/* Number of slots; a power of two, because indices are masked with MAX_TASKS - 1. */
#define MAX_TASKS (1 << 15)
/* Slot of the head of the list. No task has this slot, so the value also stands for "no task". */
#define HEAD 0
/* Value of node.cpu for a task that waits. */
#define WAITS (-1)

/* Fields of one task that a search for the next task reads. */
struct node {
	/* Slots of the neighbours in the list. */
	u32 next, prev;
	/* Linux 2.4: ticks left in the quantum. */
	s32 counter;
	/* Linux 2.5.2-pre: dynamic priority, which is a part of the task's goodness. */
	u32 dyn_prio;
	s32 nice;
	/* CPU on which the task ran last. */
	s32 last_cpu;
	/* CPU that runs the task or is about to run it, or WAITS. */
	s32 cpu;
	s32 pid;
	/* Address of the task's memory map (mm_struct), 0 for a kernel thread. */
	u64 mm;
	/* Run time, in ns, that is not charged yet, because it is less than a tick. */
	u32 owed_ns;
	/* Whether the task is in the list. */
	bool queued;
	/* Whether the task has yielded since it last got the CPU. */
	bool yielded;
	/* Whether the task's quantum has ended since the task last got the CPU. */
	bool expired;
	/*
	 * Whether the task may run only on some of the CPUs. If so, allowed[] has its affinity
	 * mask.
	 */
	bool bound;
	/*
	 * Linux 2.5.2-pre: ticks left. In that kernel's task_struct, this field was in the cache
	 * line after the fields above.
	 */
	s32 time_slice __attribute__((aligned(64)));
	/* Linux 2.5.2-pre: number of the last recalculation that was applied to the task. */
	u32 epoch;
} __attribute__((aligned(64)));

/*
 * All nodes. The tag makes the windtunnel simulator treat a node like a task_struct when it models
 * which cache lines a CPU has to fetch.
 */
static struct node nodes[MAX_TASKS] __attribute__((btf_decl_tag("task_struct")));
/* Affinity masks of bound tasks. */
static u64 allowed[MAX_TASKS][MAX_CPUS / 64];
/*
 * Slots from nr_slots up have never been used. free_slot is the first of a linked list of released
 * slots.
 */
static u32 nr_slots = HEAD + 1, free_slot;

/* Protects the list of runnable tasks and the list of released slots. */
struct bpf_spin_lock runqueue_lock __hidden __attribute__((aligned(8))) SEC(".data.runqueue_lock");

/* The slot of a task, in its task storage. */
struct task_ctx {
	u32 slot;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

/* Returns the node of a slot. */
static __always_inline struct node *node_at(u32 slot)
{
	return &nodes[slot & (MAX_TASKS - 1)];
}

/* Returns the slot of a task, or HEAD if it has none. */
static __always_inline u32 task_slot(struct task_struct *p)
{
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, p, NULL, 0);

	return t ? t->slot : HEAD;
}

/* Returns whether the task may run on the CPU. */
static __always_inline bool may_run(u32 slot, s32 cpu)
{
	return !node_at(slot)->bound ||
	       allowed[slot & (MAX_TASKS - 1)][((u32)cpu / 64) & (MAX_CPUS / 64 - 1)] & (1ULL << (cpu & 63));
}

/* Copies the affinity of a task into its node. Reads the mask only if some CPU is not allowed. */
static __always_inline void copy_affinity(struct task_struct *p, u32 slot, s32 nr_cpus)
{
	struct node *n = node_at(slot);
	s32 cpu;

	n->bound = p->nr_cpus_allowed < nr_cpus;
	if (!n->bound)
		return;
	bpf_for(cpu, 0, nr_cpus) {
		u64 *word = &allowed[slot & (MAX_TASKS - 1)][((u32)cpu / 64) & (MAX_CPUS / 64 - 1)];
		u64 bit = 1ULL << (cpu & 63);

		*word = bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ? *word | bit : *word & ~bit;
	}
}

/* Inserts a node between two neighbours. The caller holds the lock. */
static __always_inline void list_insert(u32 slot, u32 prev, u32 next)
{
	struct node *n = node_at(slot);

	n->prev = prev;
	n->next = next;
	node_at(prev)->next = slot;
	node_at(next)->prev = slot;
}

/* Removes a node from the list. The caller holds the lock. */
static __always_inline void list_unlink(struct node *n)
{
	node_at(n->prev)->next = n->next;
	node_at(n->next)->prev = n->prev;
}

/* Adds a task at the front of the list. The caller holds the lock. */
static __always_inline void add_to_runqueue(u32 slot)
{
	node_at(slot)->queued = true;
	list_insert(slot, HEAD, node_at(HEAD)->next);
}

/* Removes a task from the list. The caller holds the lock. */
static __always_inline void del_from_runqueue(u32 slot)
{
	struct node *n = node_at(slot);

	n->queued = false;
	list_unlink(n);
}

/* Moves a task to the end of the list. The caller holds the lock. */
static __always_inline void move_last_runqueue(u32 slot)
{
	list_unlink(node_at(slot));
	list_insert(slot, node_at(HEAD)->prev, HEAD);
}

/*
 * Allocates a slot for a new task. Returns HEAD if all slots are in use. The caller holds the lock.
 */
static __always_inline u32 alloc_slot(void)
{
	u32 slot = free_slot;

	if (slot)
		free_slot = node_at(slot)->next;
	else if (nr_slots < MAX_TASKS)
		slot = nr_slots++;
	return slot;
}

/* Releases a slot. The caller holds the lock. */
static __always_inline void release_slot(u32 slot)
{
	node_at(slot)->next = free_slot;
	free_slot = slot;
}

#endif
