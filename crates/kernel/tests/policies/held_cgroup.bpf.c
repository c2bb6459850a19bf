/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * held_cgroup: a policy that holds a reference to the cgroup with id 2, from the creation of this
 * cgroup until the time RELEASE_AT. It also stores a number for each cgroup in BPF cgroup storage.
 * Whenever a task starts to run, the policy records which data of the referenced cgroup it can
 * access.
 */
#include "css.h"

char _license[] SEC("license") = "GPL";

#define __kptr __attribute__((btf_type_tag("kptr")))

enum { BPF_MAP_TYPE_CGRP_STORAGE = 32 };

static void *(*const bpf_kptr_xchg)(void *place, void *value) = (void *)194;
static void *(*const bpf_cgrp_storage_get)(void *map, struct cgroup *cgrp, void *value, u64 flags) = (void *)210;
struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym;
struct cgroup *bpf_cgroup_acquire(struct cgroup *cgrp) __ksym;
struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level) __ksym;
void bpf_cgroup_release(struct cgroup *cgrp) __ksym;
long bpf_task_under_cgroup(struct task_struct *task, struct cgroup *ancestor) __ksym;

struct held {
	struct cgroup __kptr *cgrp;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct held);
} kept SEC(".maps");

struct storage {
	__uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
	__uint(map_flags, 1);
	__type(key, int);
	__type(value, u64);
} numbers SEC(".maps"), others SEC(".maps");

/*
 * Data that the policy reads about the referenced cgroup: its id, the number that is stored for it,
 * and the id of its root. `has_task` says whether the running task is in the referenced cgroup.
 * `same_place` says whether the running task's cgroup has the same address as the referenced
 * cgroup.
 */
u64 held_id, held_number, held_root, has_task, same_place;
/* Results of the iterators over cgroups. */
u64 pre, post, below, own;
u64 nr_exits;
/*
 * Counters of the cgroups for which ops.cgroup_exit() is called. `dying_number` counts the cgroups
 * whose stored number can still be read. `dying_other` counts the cgroups for which new storage can
 * still be created.
 */
u64 dying_number, dying_other;

static struct held *place(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&kept, &zero);
}

s32 SCX_OP_SLEEPABLE(held_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	struct held *held = place();
	struct cgroup *mine, *old;
	u64 *number = bpf_cgrp_storage_get(&numbers, cgrp, NULL, 1);

	if (!held || !number)
		return -1;
	*number = 100 + cgrp->kn->id;
	if (cgrp->kn->id != 24)
		return 0;
	mine = bpf_cgroup_acquire(cgrp);
	if (!mine)
		return -1;
	old = bpf_kptr_xchg(&held->cgrp, mine);
	if (old)
		bpf_cgroup_release(old);
	return 0;
}

/* Until this callback returns, the kernel itself holds a reference to the cgroup. */
void SCX_OP_SLEEPABLE(held_cgroup_exit, struct cgroup *cgrp)
{
	struct cgroup *mine = bpf_cgroup_acquire(cgrp);

	if (mine) {
		nr_exits++;
		dying_number += !!bpf_cgrp_storage_get(&numbers, cgrp, NULL, 1);
		dying_other += !!bpf_cgrp_storage_get(&others, cgrp, NULL, 1);
		bpf_cgroup_release(mine);
	}
}

void SCX_OP(held_running, struct task_struct *p)
{
	struct held *held = place();
	struct cgroup *cgrp, *above, *now;
	u64 *number;

	if (!held)
		return;
	cgrp = bpf_kptr_xchg(&held->cgrp, NULL);
	if (!cgrp)
		return;
	held_id = cgrp->kn->id;
	number = bpf_cgrp_storage_get(&numbers, cgrp, NULL, 1);
	held_number = number ? *number : 0;
	above = bpf_cgroup_ancestor(cgrp, 0);
	held_root = 0;
	if (above) {
		held_root = above->kn->id;
		pre = walk(above, 2);
		post = walk(above, 3);
		below = walk(above, 5);
		bpf_cgroup_release(above);
	}
	own = walk(cgrp, 2);
	has_task = bpf_task_under_cgroup(p, cgrp);
	now = scx_bpf_task_cgroup(p);
	same_place = now == cgrp;
	bpf_cgroup_release(now);
	if (bpf_ktime_get_ns() < RELEASE_AT)
		cgrp = bpf_kptr_xchg(&held->cgrp, cgrp);
	if (cgrp)
		bpf_cgroup_release(cgrp);
}

SCX_OPS(held_ops,
	.running = (void *)held_running,
	.cgroup_init = (void *)held_cgroup_init,
	.cgroup_exit = (void *)held_cgroup_exit,
	.name = "held_cgroup");
