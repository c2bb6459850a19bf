/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keeps a reference to each task that runs in a map, and drops it one way or another when the task stops:
 * DELETE     the element is deleted
 * UPDATE     the element is updated
 * EXCHANGE   the reference is taken out and released
 * EVICT      the map has room for one, and throws it out for the next
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define __kptr __attribute__((btf_type_tag("kptr")))

enum { BPF_MAP_TYPE_LRU_HASH = 9 };

static void *(*const bpf_kptr_xchg)(void *place, void *value) = (void *)194;

struct held {
	struct task_struct __kptr *task;
	u64 count;
};

struct {
#ifdef EVICT
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
#else
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
#endif
	__type(key, s32);
	__type(value, struct held);
} tasks SEC(".maps");

u64 nr_kept, nr_dropped;

void SCX_OP(kptrs_running, struct task_struct *p)
{
	s32 pid = p->pid;
	struct held fresh = {}, *held;
	struct task_struct *task;

	bpf_map_update_elem(&tasks, &pid, &fresh, BPF_NOEXIST);
	held = bpf_map_lookup_elem(&tasks, &pid);
	if (!held)
		return;
	task = bpf_task_acquire(p);
	if (!task)
		return;
	task = bpf_kptr_xchg(&held->task, task);
	nr_kept++;
	if (task)
		bpf_task_release(task);
}

void SCX_OP(kptrs_stopping, struct task_struct *p, bool runnable)
{
#ifndef EVICT
	s32 pid = p->pid;
#if defined(DELETE)
	if (!bpf_map_delete_elem(&tasks, &pid))
		nr_dropped++;
#elif defined(UPDATE)
	struct held fresh = {};

	if (!bpf_map_update_elem(&tasks, &pid, &fresh, BPF_EXIST))
		nr_dropped++;
#else
	struct held *held = bpf_map_lookup_elem(&tasks, &pid);
	struct task_struct *task;

	if (!held)
		return;
	task = bpf_kptr_xchg(&held->task, NULL);
	if (task) {
		bpf_task_release(task);
		nr_dropped++;
	}
#endif
#endif
}

SCX_OPS(kptrs_ops,
	.running = (void *)kptrs_running,
	.stopping = (void *)kptrs_stopping,
	.name = "kptrs");
