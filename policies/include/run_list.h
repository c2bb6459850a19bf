/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The runqueue of Linux 2.4: one list of all runnable tasks, running ones too, and one lock.
 *
 * What a choice looks at of a task is in one node on a cache line of its own, as it was in task_struct. The lock is held
 * while the list is looked through, so nodes are in an array of the policy's: nothing may be called under the lock.
 */
#ifndef RUN_LIST_H
#define RUN_LIST_H

#include "scx.h"

#define MAX_CPUS 1024
#define MAX_TASKS (1 << 15)
/* Place 0 of the nodes is the list's head. */
#define HEAD 0
/* In place of the CPU that a task runs on. */
#define WAITS (-1)

struct node {
	u32 next, prev;
	s32 counter;
	/* Of Linux 2.5.2-pre: its bonus for sleep. */
	u32 dyn_prio;
	s32 nice;
	s32 last_cpu;
	/* Where it runs or is about to, or WAITS. */
	s32 cpu;
	s32 pid;
	u64 mm;
	/* Charged, but not yet a tick. */
	u32 owed_ns;
	bool queued;
	bool yielded;
	bool expired;
	/* May not run everywhere: see `allowed`. */
	bool bound;
	/* Of Linux 2.5.2-pre: its ticks, and the recalculations that it has seen. They came behind run_list, on the next line. */
	s32 time_slice __attribute__((aligned(64)));
	u32 epoch;
} __attribute__((aligned(64)));

/* What is here of a task was in task_struct: where those compete for caches, so do these. */
static struct node nodes[MAX_TASKS] __attribute__((btf_decl_tag("task_struct")));
static u64 allowed[MAX_TASKS][MAX_CPUS / 64];
/* Places never used, and a chain of those given back. */
static u32 nr_places = HEAD + 1, given_back;

struct bpf_spin_lock runqueue_lock __hidden __attribute__((aligned(8))) SEC(".data.runqueue_lock");

struct task_ctx {
	u32 place;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

static __always_inline struct node *node_at(u32 place)
{
	return &nodes[place & (MAX_TASKS - 1)];
}

/* A task's place, HEAD if it has none. */
static __always_inline u32 place_of(struct task_struct *p)
{
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, p, NULL, 0);

	return t ? t->place : HEAD;
}

/* The rest is done under the lock. */

static __always_inline void list_insert(u32 place, u32 prev, u32 next)
{
	struct node *n = node_at(place);

	n->prev = prev;
	n->next = next;
	node_at(prev)->next = place;
	node_at(next)->prev = place;
}

static __always_inline void list_unlink(struct node *n)
{
	node_at(n->prev)->next = n->next;
	node_at(n->next)->prev = n->prev;
}

static __always_inline void add_to_runqueue(u32 place)
{
	node_at(place)->queued = true;
	list_insert(place, HEAD, node_at(HEAD)->next);
}

static __always_inline void del_from_runqueue(u32 place)
{
	struct node *n = node_at(place);

	n->queued = false;
	list_unlink(n);
}

static __always_inline void move_last_runqueue(u32 place)
{
	list_unlink(node_at(place));
	list_insert(place, node_at(HEAD)->prev, HEAD);
}

static __always_inline bool may_run(u32 place, s32 cpu)
{
	return !node_at(place)->bound ||
	       allowed[place & (MAX_TASKS - 1)][((u32)cpu / 64) & (MAX_CPUS / 64 - 1)] & (1ULL << (cpu & 63));
}

/* A place for a new task, HEAD if there are too many. */
static __always_inline u32 take_place(void)
{
	u32 place = given_back;

	if (place)
		given_back = node_at(place)->next;
	else if (nr_places < MAX_TASKS)
		place = nr_places++;
	return place;
}

static __always_inline void give_back(u32 place)
{
	node_at(place)->next = given_back;
	given_back = place;
}

#endif
