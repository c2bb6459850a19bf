/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The runqueue of Linux 2.4 and 2.5: one list of all runnable tasks, running ones included, behind one
 * spinlock.
 *
 *     nodes[0]          nodes[7]          nodes[3]
 *     HEAD <--------->  task A  <-------> task B  <-------> HEAD
 *
 * The kernel walked the list and read a few fields of each task_struct, which shared a cache line. Here they
 * share a node. The nodes are in an array of the policy, because a program that holds a spinlock may not call
 * the kernel.
 */
#ifndef RUN_LIST_H
#define RUN_LIST_H

#include "scx.h"

#define MAX_CPUS 1024
#define MAX_TASKS (1 << 15)
/* Slot 0 of the nodes is the head of the list, so 0 also means "no task". */
#define HEAD 0
/* Value of node.cpu for a task that waits. */
#define WAITS (-1)

struct node {
	u32 next, prev;
	/* Linux 2.4: ticks left in the quantum. */
	s32 counter;
	/* Linux 2.5.2-pre: bonus for sleep, in units of goodness. */
	u32 dyn_prio;
	s32 nice;
	s32 last_cpu;
	/* The CPU that runs the task or is about to, or WAITS. */
	s32 cpu;
	s32 pid;
	u64 mm;
	/* Time charged that does not yet add up to a tick. */
	u32 owed_ns;
	bool queued;
	bool yielded;
	bool expired;
	/* The task may not run on all CPUs: see allowed[]. */
	bool bound;
	/*
	 * Linux 2.5.2-pre: ticks left, and recalculations seen. In task_struct they came one cache line after
	 * the rest.
	 */
	s32 time_slice __attribute__((aligned(64)));
	u32 epoch;
} __attribute__((aligned(64)));

/* The simulator lets nodes compete for caches as the task_structs did whose fields they hold. */
static struct node nodes[MAX_TASKS] __attribute__((btf_decl_tag("task_struct")));
static u64 allowed[MAX_TASKS][MAX_CPUS / 64];
/* Slots below nr_slots have been used; free_slot begins a chain of those that are free again. */
static u32 nr_slots = HEAD + 1, free_slot;

struct bpf_spin_lock runqueue_lock __hidden __attribute__((aligned(8))) SEC(".data.runqueue_lock");

struct task_ctx {
	u32 slot;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

static __always_inline struct node *node_at(u32 slot)
{
	return &nodes[slot & (MAX_TASKS - 1)];
}

/* Returns the slot of a task's node, or HEAD if the task has none. */
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

/* Copies the task's affinity into its node. Most tasks may run everywhere, and their mask is not read. */
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

/* The caller of the functions below holds the lock. */

static __always_inline void list_insert(u32 slot, u32 prev, u32 next)
{
	struct node *n = node_at(slot);

	n->prev = prev;
	n->next = next;
	node_at(prev)->next = slot;
	node_at(next)->prev = slot;
}

static __always_inline void list_unlink(struct node *n)
{
	node_at(n->prev)->next = n->next;
	node_at(n->next)->prev = n->prev;
}

static __always_inline void add_to_runqueue(u32 slot)
{
	node_at(slot)->queued = true;
	list_insert(slot, HEAD, node_at(HEAD)->next);
}

static __always_inline void del_from_runqueue(u32 slot)
{
	struct node *n = node_at(slot);

	n->queued = false;
	list_unlink(n);
}

static __always_inline void move_last_runqueue(u32 slot)
{
	list_unlink(node_at(slot));
	list_insert(slot, node_at(HEAD)->prev, HEAD);
}

/* Takes a slot for a new task; returns HEAD if all are in use. */
static __always_inline u32 alloc_slot(void)
{
	u32 slot = free_slot;

	if (slot)
		free_slot = node_at(slot)->next;
	else if (nr_slots < MAX_TASKS)
		slot = nr_slots++;
	return slot;
}

static __always_inline void release_slot(u32 slot)
{
	node_at(slot)->next = free_slot;
	free_slot = slot;
}

#endif
