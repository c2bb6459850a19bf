/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Common definitions for the programs that test the rules of the sanitizer. The sanitizer
 * (`--sanitize`) enforces the rules of the kernel's verifier at run time.
 *
 * - BREAKS(name, message) defines a program that breaks a rule. It must end with the message.
 * - KEEPS(name) defines a program that keeps all rules. The sanitizer must not report it.
 * - Both macros can have the suffix _SLEEPABLE for a program that may sleep, or the suffix _INPUT
 *   for a program that user space calls with 20 bytes of input.
 *
 * All programs without the suffix _INPUT have three arguments: a task, the address of `given`, and
 * the address of kernel memory that contains the task's address. `given` is a global array that
 * contains the task's address and the distance between two task_structs. Before each program, the
 * test runs the program `faults`.
 */
#pragma once
#include "scx.h"

char _license[] SEC("license") = "GPL";

/*
 * With the macro VERDICTS, each program is a callback of its own struct sched_ext_ops, so that
 * scripts/live/verdicts.c can pass it to the verifier of a real kernel. The first argument of such
 * a callback is a task.
 */
#ifdef VERDICTS
#define CALLBACK(callback, section, program)                                            \
	u64 program(u64 *ctx);                                                          \
	SCX_OPS(ops_##program, .callback = (void *)program, .name = "rule");            \
	SEC("?" section "/" #callback) u64 program(u64 *ctx)
#define PROGRAM(name) CALLBACK(select_cpu, "struct_ops", name)
#define PROGRAM_SLEEPABLE(name) CALLBACK(init_task, "struct_ops.s", name)
#else
#define PROGRAM(name) SEC("?tp_btf/rule") u64 name(u64 *ctx)
#define PROGRAM_SLEEPABLE(name) SEC("?tp_btf.s/rule") u64 name(u64 *ctx)
#endif
#define BREAKS(name, expected) PROGRAM(name)
#define KEEPS(name) PROGRAM(name)
#define BREAKS_SLEEPABLE(name, expected) PROGRAM_SLEEPABLE(name)
#define KEEPS_SLEEPABLE(name) PROGRAM_SLEEPABLE(name)
#define BREAKS_INPUT(name, expected) SEC("?syscall") u64 name(u64 *ctx)
#define KEEPS_INPUT(name) SEC("?syscall") u64 name(u64 *ctx)

#define __kptr __attribute__((btf_type_tag("kptr")))
#define __percpu_kptr __attribute__((btf_type_tag("percpu_kptr")))
#define __kptr_untrusted __attribute__((btf_type_tag("kptr_untrusted")))
#define __uptr __attribute__((btf_type_tag("uptr")))
#define __contains(name, node) __attribute__((btf_decl_tag("contains:" #name ":" #node)))
#define private(name) SEC(".data." #name) __hidden __attribute__((aligned(8)))
#define container_of(ptr, type, member) ((type *)((void *)(ptr) - __builtin_offsetof(type, member)))
#define load(type, ptr) (*(volatile type *)(ptr))
#define hide(var) asm volatile("" : "+r"(var))

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_list_head {
	u64 __opaque[2];
} __attribute__((aligned(8)));
struct bpf_list_node {
	u64 __opaque[3];
} __attribute__((aligned(8)));
struct bpf_rb_root {
	u64 __opaque[2];
} __attribute__((aligned(8)));
struct bpf_rb_node {
	u64 __opaque[4];
} __attribute__((aligned(8)));
struct bpf_dynptr {
	u64 __opaque[2];
} __attribute__((aligned(8)));
struct bpf_iter_bits {
	u64 __opaque[2];
} __attribute__((aligned(8)));
#pragma clang attribute pop

void *bpf_obj_new_impl(u64 local_type_id, void *meta) __ksym;
void bpf_obj_drop_impl(void *object, void *meta) __ksym;
void *bpf_percpu_obj_new_impl(u64 local_type_id, void *meta) __ksym;
void bpf_percpu_obj_drop_impl(void *object, void *meta) __ksym;
void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym;
#define bpf_obj_new(type) ((type *)bpf_obj_new_impl(__builtin_btf_type_id(*(type *)0, 0), NULL))
#define bpf_obj_drop(object) bpf_obj_drop_impl(object, NULL)
#define bpf_percpu_obj_new(type) ((type *)bpf_percpu_obj_new_impl(__builtin_btf_type_id(*(type *)0, 0), NULL))
int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta, u64 off) __ksym;
struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head) __ksym;
struct bpf_list_node *bpf_list_front(struct bpf_list_head *head) __ksym;
#define bpf_list_push_back(head, node) bpf_list_push_back_impl(head, node, NULL, 0)
int bpf_rbtree_add_impl(struct bpf_rb_root *root, struct bpf_rb_node *node,
			bool(less)(struct bpf_rb_node *, const struct bpf_rb_node *), void *meta, u64 off) __ksym;
#define bpf_rbtree_add(root, node) bpf_rbtree_add_impl(root, node, less, NULL, 0)
struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *root) __ksym;
struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *root, struct bpf_rb_node *node) __ksym;
struct bpf_cpumask *bpf_cpumask_create(void) __ksym;
void bpf_cpumask_release(struct bpf_cpumask *mask) __ksym;
void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask) __ksym;
struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;
struct cgroup *bpf_cgroup_acquire(struct cgroup *cgrp) __ksym;
void bpf_cgroup_release(struct cgroup *cgrp) __ksym;
void bpf_preempt_disable(void) __ksym;
void bpf_preempt_enable(void) __ksym;
void bpf_local_irq_save(unsigned long *flags) __ksym;
void bpf_local_irq_restore(unsigned long *flags) __ksym;
int bpf_iter_bits_new(struct bpf_iter_bits *it, const u64 *words, u32 nr_words) __ksym;
int *bpf_iter_bits_next(struct bpf_iter_bits *it) __ksym;
void bpf_iter_bits_destroy(struct bpf_iter_bits *it) __ksym;
int bpf_dynptr_clone(const struct bpf_dynptr *p, struct bpf_dynptr *clone) __ksym;

static void *(*const bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *record, u64 flags) = (void *)132;
static void (*const bpf_ringbuf_discard)(void *record, u64 flags) = (void *)133;
static void *(*const bpf_per_cpu_ptr)(const void *object, u32 cpu) = (void *)153;
static void *(*const bpf_kptr_xchg)(void *place, void *value) = (void *)194;
static long (*const bpf_dynptr_from_mem)(void *data, u64 size, u64 flags, struct bpf_dynptr *ptr) = (void *)197;
static long (*const bpf_ringbuf_reserve_dynptr)(void *ring, u32 size, u64 flags, struct bpf_dynptr *ptr) = (void *)198;
static void (*const bpf_ringbuf_submit_dynptr)(struct bpf_dynptr *ptr, u64 flags) = (void *)199;
static long (*const bpf_dynptr_read)(void *dst, u64 len, const struct bpf_dynptr *src, u64 off, u64 flags) = (void *)201;
static void *(*const bpf_dynptr_data)(const struct bpf_dynptr *ptr, u64 off, u64 len) = (void *)203;
static long (*const bpf_user_ringbuf_drain)(void *ring, void *callback, void *ctx, u64 flags) = (void *)209;

struct note {
	struct bpf_list_node node;
	u64 number;
};
struct plain {
	u64 number;
};

struct counts {
	u64 a, b;
};
#define percpu_objects() bpf_percpu_obj_new(struct counts)
#define drop_percpu(objects) bpf_percpu_obj_drop_impl(objects, NULL)

struct value {
	struct bpf_spin_lock lock;
	struct bpf_timer timer;
	struct task_struct __kptr *task;
	struct cgroup __kptr *cgrp;
	struct task_struct __kptr_untrusted *stale;
#ifndef VERDICTS
	/* The kernel allows a field of type uptr only in BPF task storage. */
	struct plain __uptr *user;
#endif
	u64 number;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, struct value);
} hash SEC(".maps");

struct {
	__uint(type, 27);
	__uint(max_entries, 4096);
} ring SEC(".maps");

struct {
	__uint(type, 31);
	__uint(max_entries, 4096);
} samples SEC(".maps");

SEC(".data.given") u64 given[4];
const volatile u64 constant = 7;

/*
 * fresh() replaces element 1 of the map `hash` and returns its address. delete() deletes this
 * element.
 */
#define fresh()                                                         \
	({                                                              \
		u32 ___key = 1;                                         \
		struct value ___zero = {};                              \
		bpf_map_update_elem(&hash, &___key, &___zero, BPF_ANY); \
		bpf_map_lookup_elem(&hash, &___key);                    \
	})
#define delete()                                                        \
	({                                                              \
		u32 ___key = 1;                                         \
		bpf_map_delete_elem(&hash, &___key);                    \
	})

/*
 * Stores a reference to a task in element 1 of the map `hash`. Returns the element, or NULL on
 * failure.
 */
static __always_inline struct value *keeping(struct task_struct *task)
{
	struct value *value = fresh();
	struct task_struct *p = bpf_task_acquire(task);

	if (!p)
		return NULL;
	if (value)
		p = bpf_kptr_xchg(&value->task, p);
	if (p)
		bpf_task_release(p);
	return value;
}

static long (*const bpf_for_each_map_elem)(void *map, void *callback, void *ctx, u64 flags) = (void *)164;
static long (*const bpf_loop)(u32 nr, void *callback, void *ctx, u64 flags) = (void *)181;

/*
 * Returns the address that is `offset` bytes below the top of the stack. Nothing else is stored
 * there.
 */
#define in_stack(offset)                                                \
	({                                                              \
		void *___at;                                            \
		asm volatile("%0 = r10; %0 += -" #offset : "=r"(___at)); \
		___at;                                                  \
	})

#ifndef VERDICTS
static __attribute__((noinline)) long faults_too(void *map, u32 *key, struct value *value, u64 *ctx)
{
	struct bpf_iter_num it;
	struct bpf_dynptr ptr;

	bpf_task_acquire((void *)ctx[0]);
	bpf_iter_num_new(&it, 0, 3);
	bpf_dynptr_from_mem(given, sizeof(given), 0, &ptr);
	return load(u64, NULL);
}

/*
 * Calls a helper whose callback faults while the program holds objects of all kinds. What this
 * program still holds must not affect the program that runs next.
 */
SEC("?tp_btf/rule") u64 faults(u64 *ctx)
{
	struct value *value = fresh();
	u64 words[2];

	if (!value)
		return 0;
	words[0] = ctx[0];
	bpf_local_irq_save(in_stack(248));
	bpf_preempt_disable();
	bpf_rcu_read_lock();
	load(u64, in_stack(256)) = (u64)bpf_task_acquire((void *)ctx[0]);
	bpf_for_each_map_elem(&hash, faults_too, words, 0);
	return 0;
}
#endif
