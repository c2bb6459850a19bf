/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Parts of a correct policy with one queue for all tasks. Each policy in this directory uses these
 * parts and breaks one rule.
 *
 * The header comment of a policy says how its run must end, with the sanitizer (--sanitize) and
 * without it. An expected message is a part of the message in the exit record, or "none" if the
 * policy must not end. With --sanitize, the exit record must name the source line that is marked
 * "violation".
 */
#include "../../../../policies/include/scx.h"

#define QUEUE 1

char _license[] SEC("license") = "GPL";

#define __kptr __attribute__((btf_type_tag("kptr")))
#define __contains(name, node) __attribute__((btf_decl_tag("contains:" #name ":" #node)))
#define private(name) SEC(".data." #name) __hidden __attribute__((aligned(8)))
#define container_of(ptr, type, member) ((type *)((void *)(ptr) - __builtin_offsetof(type, member)))
/* Keeps the compiler from removing an unused value. */
#define use(value) asm volatile("" : : "r"((u64)(value)) : "memory")

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_list_head {
	u64 __opaque[2];
} __attribute__((aligned(8)));
struct bpf_list_node {
	u64 __opaque[3];
} __attribute__((aligned(8)));
#pragma clang attribute pop

void *bpf_obj_new_impl(u64 local_type_id, void *meta) __ksym;
void bpf_obj_drop_impl(void *object, void *meta) __ksym;
#define bpf_obj_new(type) ((type *)bpf_obj_new_impl(__builtin_btf_type_id(*(type *)0, 0), NULL))
#define bpf_obj_drop(object) bpf_obj_drop_impl(object, NULL)
int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta, u64 off) __ksym;
struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head) __ksym;
struct bpf_list_node *bpf_list_front(struct bpf_list_head *head) __ksym;
#define bpf_list_push_back(head, node) bpf_list_push_back_impl(head, node, NULL, 0)
struct bpf_cpumask *bpf_cpumask_create(void) __ksym;
void bpf_cpumask_release(struct bpf_cpumask *mask) __ksym;
static void *(*const bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;

void SCX_OP(base_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
}

void SCX_OP(base_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(base_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

#define ENQUEUE .enqueue = (void *)base_enqueue
#define DISPATCH .dispatch = (void *)base_dispatch
#define INIT .init = (void *)base_init
