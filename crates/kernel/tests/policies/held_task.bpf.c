/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * held_task: a policy that holds a reference to the task with pid 1, from the first run of this
 * task until the time RELEASE_AT. It also stores a number for this task in BPF task storage.
 * Whenever another task starts to run, the policy records which data of the referenced task it can
 * access. After RELEASE_AT it does the same through the task's address alone.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define __kptr __attribute__((btf_type_tag("kptr")))
#define CREATE BPF_LOCAL_STORAGE_GET_F_CREATE

static void *(*const bpf_kptr_xchg)(void *place, void *value) = (void *)194;
struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;

struct held {
	struct task_struct __kptr *task;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct held);
} kept SEC(".maps");

struct storage {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} numbers SEC(".maps"), others SEC(".maps");

u64 address, held_number, held_other, nr_held, gone_number, gone_other, gone_acquired, nr_gone, of_new;

void SCX_OP(held_running, struct task_struct *p)
{
	u64 *number = bpf_task_storage_get(&numbers, p, NULL, 0);
	u32 zero = 0;
	struct held *held = bpf_map_lookup_elem(&kept, &zero);
	struct task_struct *task, *gone;

	if (!held)
		return;
	if (p->pid == 1) {
		number = bpf_task_storage_get(&numbers, p, NULL, CREATE);
		task = address ? NULL : bpf_task_acquire(p);
		if (number)
			*number = 77;
		if (task) {
			address = (u64)task;
			task = bpf_kptr_xchg(&held->task, task);
		}
		if (task)
			bpf_task_release(task);
		return;
	}
	/* A new task at the same address must not get the storage of the old task. */
	if ((u64)p == address)
		of_new += number ? 1 : 100;
	task = bpf_kptr_xchg(&held->task, NULL);
	if (task) {
		number = bpf_task_storage_get(&numbers, task, NULL, 0);
		held_number = number ? *number : 0;
		held_other = !!bpf_task_storage_get(&others, task, NULL, CREATE);
		nr_held++;
		if (bpf_ktime_get_ns() < RELEASE_AT)
			task = bpf_kptr_xchg(&held->task, task);
		if (task)
			bpf_task_release(task);
	} else if (address && (u64)p != address && !of_new) {
		gone = (void *)address;
		gone_number = !!bpf_task_storage_get(&numbers, gone, NULL, 0);
		gone_other = !!bpf_task_storage_get(&others, gone, NULL, CREATE);
		task = bpf_task_acquire(gone);
		gone_acquired = !!task;
		if (task)
			bpf_task_release(task);
		nr_gone++;
	}
}

SCX_OPS(held_ops, .running = (void *)held_running, .name = "held_task");
