/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kptrs: a policy that stores a reference to each running task in a map, and drops it when the task
 * stops. With the macro CGROUP, the reference is to the task's cgroup. One of these macros selects
 * how the reference is dropped:
 *
 * DELETE    the map element is deleted
 * UPDATE    the map element is updated
 * EXCHANGE  bpf_kptr_xchg() returns the reference, which is then released
 * EVICT     the map is an LRU map with one element, which is evicted when another one is added
 * OBJECT    the map element is deleted; it owns an object that has the reference
 * TREE      the map element is deleted; it owns an object with a tree, whose node has the reference
 * LIST      the map element is deleted; it owns an object with a list, whose two nodes each have a
 *           reference
 *
 * With the macro DROP, the object is not stored in a map but dropped directly. With the macro
 * NESTED, the object is stored in another object, and that one is dropped.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define __kptr __attribute__((btf_type_tag("kptr")))
#define __contains(name, node) __attribute__((btf_decl_tag("contains:" #name ":" #node)))

enum { BPF_MAP_TYPE_LRU_HASH = 9 };

static void *(*const bpf_kptr_xchg)(void *place, void *value) = (void *)194;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_rb_root {
	u64 __opaque[2];
} __attribute__((aligned(8)));
struct bpf_rb_node {
	u64 __opaque[4];
} __attribute__((aligned(8)));
struct bpf_list_head {
	u64 __opaque[2];
} __attribute__((aligned(8)));
struct bpf_list_node {
	u64 __opaque[3];
} __attribute__((aligned(8)));
#pragma clang attribute pop

void *bpf_obj_new_impl(u64 local_type_id, void *meta) __ksym;
void bpf_obj_drop_impl(void *object, void *meta) __ksym;
int bpf_rbtree_add_impl(struct bpf_rb_root *root, struct bpf_rb_node *node,
			bool(less)(struct bpf_rb_node *, const struct bpf_rb_node *), void *meta, u64 off) __ksym;
int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta, u64 off) __ksym;
struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym;
void bpf_cgroup_release(struct cgroup *cgrp) __ksym;
#define bpf_obj_new(type) ((type *)bpf_obj_new_impl(__builtin_btf_type_id(*(type *)0, 0), NULL))

#ifdef CGROUP
typedef struct cgroup held_t;
#define acquire(p) scx_bpf_task_cgroup(p)
#define release(held) bpf_cgroup_release(held)
#else
typedef struct task_struct held_t;
#define acquire(p) bpf_task_acquire(p)
#define release(held) bpf_task_release(held)
#endif

struct leaf {
	struct bpf_rb_node node;
	held_t __kptr *it;
};

struct item {
	struct bpf_list_node node;
	held_t __kptr *it;
};

struct box {
	held_t __kptr *it;
#ifdef TREE
	struct bpf_spin_lock lock;
	struct bpf_rb_root leaves __contains(leaf, node);
#elif defined(LIST)
	struct bpf_spin_lock lock;
	struct bpf_list_head items __contains(item, node);
#endif
};

struct crate {
	struct box __kptr *box;
};

struct held {
	held_t __kptr *it;
	struct box __kptr *box;
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

static __attribute__((unused)) bool less(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	return false;
}

/* Stores a new reference in a field that is empty. */
static __attribute__((unused)) void keep(held_t **place, struct task_struct *p)
{
	held_t *it = acquire(p);

	if (!it)
		return;
	it = bpf_kptr_xchg(place, it);
	nr_kept++;
	if (it)
		release(it);
}

static __attribute__((unused)) struct box *filled_box(struct task_struct *p)
{
	struct box *box = bpf_obj_new(struct box);

	if (!box)
		return NULL;
#ifdef TREE
	struct leaf *leaf = bpf_obj_new(struct leaf);

	if (leaf) {
		keep((held_t **)&leaf->it, p);
		bpf_spin_lock(&box->lock);
		bpf_rbtree_add_impl(&box->leaves, &leaf->node, less, NULL, 0);
		bpf_spin_unlock(&box->lock);
	}
#elif defined(LIST)
	for (int i = 0; i < 2; i++) {
		struct item *item = bpf_obj_new(struct item);

		if (!item)
			continue;
		keep((held_t **)&item->it, p);
		bpf_spin_lock(&box->lock);
		bpf_list_push_back_impl(&box->items, &item->node, NULL, 0);
		bpf_spin_unlock(&box->lock);
	}
#else
	keep((held_t **)&box->it, p);
#endif
	return box;
}

static __attribute__((unused)) void keep_in_box(struct box **place, struct task_struct *p)
{
	struct box *box = filled_box(p);

	if (!box)
		return;
	box = bpf_kptr_xchg(place, box);
	if (box)
		bpf_obj_drop_impl(box, NULL);
}

void SCX_OP(kptrs_running, struct task_struct *p)
{
#ifdef NESTED
	struct crate *crate = bpf_obj_new(struct crate);

	if (!crate)
		return;
	keep_in_box((struct box **)&crate->box, p);
	nr_dropped = nr_kept;
	bpf_obj_drop_impl(crate, NULL);
#elif defined(DROP)
	struct box *box = filled_box(p);

	if (!box)
		return;
	nr_dropped = nr_kept;
	bpf_obj_drop_impl(box, NULL);
#else
	s32 pid = p->pid;
	struct held fresh = {}, *held;

	bpf_map_update_elem(&tasks, &pid, &fresh, BPF_NOEXIST);
	held = bpf_map_lookup_elem(&tasks, &pid);
	if (!held)
		return;
#if defined(OBJECT) || defined(TREE) || defined(LIST)
	keep_in_box((struct box **)&held->box, p);
#else
	keep((held_t **)&held->it, p);
#endif
#endif
}

void SCX_OP(kptrs_stopping, struct task_struct *p, bool runnable)
{
	s32 pid __attribute__((unused)) = p->pid;
#if defined(DROP) || defined(NESTED)
#elif defined(LIST)
	if (!bpf_map_delete_elem(&tasks, &pid))
		nr_dropped += 2;
#elif defined(DELETE) || defined(OBJECT) || defined(TREE)
	if (!bpf_map_delete_elem(&tasks, &pid))
		nr_dropped++;
#elif defined(UPDATE)
	struct held fresh = {};

	if (!bpf_map_update_elem(&tasks, &pid, &fresh, BPF_EXIST))
		nr_dropped++;
#elif defined(EXCHANGE)
	struct held *held = bpf_map_lookup_elem(&tasks, &pid);
	held_t *it;

	if (!held)
		return;
	it = bpf_kptr_xchg(&held->it, NULL);
	if (it) {
		release(it);
		nr_dropped++;
	}
#endif
}

SCX_OPS(kptrs_ops,
	.running = (void *)kptrs_running,
	.stopping = (void *)kptrs_stopping,
	.name = "kptrs");
