/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tests of the sanitizer with a program that runs while another program is still running. The outer
 * program is ops.dispatch(), which moves a task to its CPU. The move hits the tracepoint
 * sched_migrate_task, to which the nested program is attached.
 *
 * While the nested program runs, the outer program holds an object of each kind. The sanitizer must
 * not attribute these objects to the nested program. It must not attribute the objects of the
 * nested program to the outer program either.
 *
 * Each macro makes one of the two programs break a rule. If no macro is defined, both programs keep
 * all rules.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 5
#define load(type, ptr) (*(volatile type *)(ptr))
#define hide(var) asm volatile("" : "+r"(var))

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_dynptr {
	u64 __opaque[2];
} __attribute__((aligned(8)));
#pragma clang attribute pop

struct cgroup *bpf_cgroup_acquire(struct cgroup *cgrp) __ksym;
void bpf_cgroup_release(struct cgroup *cgrp) __ksym;
void bpf_preempt_disable(void) __ksym;
void bpf_preempt_enable(void) __ksym;
void bpf_local_irq_save(unsigned long *flags) __ksym;
void bpf_local_irq_restore(unsigned long *flags) __ksym;
static long (*const bpf_dynptr_from_mem)(void *data, u64 size, u64 flags, struct bpf_dynptr *ptr) = (void *)197;
static long (*const bpf_dynptr_read)(void *dst, u64 len, const struct bpf_dynptr *src, u64 off, u64 flags) = (void *)201;

struct {
	__uint(type, 1);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} hash SEC(".maps");

#ifdef KEEPS_TASK
#define KEPT true
#else
#define KEPT false
#endif

u64 nr_within;
u64 number = 7;
bool moving;

static __always_inline u64 *element(void)
{
	u32 key = 1;
	u64 zero = 0;

	bpf_map_update_elem(&hash, &key, &zero, 0);
	return bpf_map_lookup_elem(&hash, &key);
}

/*
 * Uses 200 bytes of stack. Together with its caller, it uses nearly as much as one call of a
 * program is allowed to use.
 */
static __noinline int use_stack(void)
{
	char room[200] = {};
	char *at = room;

	hide(at);
	return load(char, at);
}

SEC("tp_btf/sched_migrate_task") int on_migrate(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0], *held;
	char room[200] = {};
	char *at = room;

	if (!moving)
		return 0;
	nr_within++;
	hide(at);
	load(char, at) = use_stack();
#if defined(LEAKS)
	bpf_task_acquire(p);
#elif defined(ENDS_RCU)
	bpf_rcu_read_unlock();
#elif defined(ENABLES_PREEMPTION)
	bpf_preempt_enable();
#elif defined(BEHIND_ARGUMENTS)
	load(u64, ctx + 2);
#elif defined(LEAVES_RCU)
	bpf_rcu_read_lock();
#elif defined(LEAVES_NUM)
	struct bpf_iter_num it;

	bpf_iter_num_new(&it, 0, 3);
#elif defined(DELETES)
	u32 key = 1;

	bpf_map_delete_elem(&hash, &key);
#endif
	held = bpf_task_acquire(p);
	if (held)
		bpf_task_release(held);
	return 0;
}

s32 SCX_OP(within_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return 0;
}

void SCX_OP(within_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, 1000000, enq_flags);
	scx_bpf_kick_cpu(1, SCX_KICK_IDLE);
}

void SCX_OP(within_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *held = bpf_task_acquire(bpf_get_current_task_btf());
	u64 local = 7, *place = &local, read = 0, *value = element();
	char room[100] = {};
	char *at = room;
	struct bpf_dynptr ptr;
	struct bpf_iter_num it;
	unsigned long flags;

	hide(place);
	hide(at);
	bpf_dynptr_from_mem(&number, sizeof(number), 0, &ptr);
	bpf_iter_num_new(&it, 0, 3);
	bpf_rcu_read_lock();
	bpf_preempt_disable();
	bpf_local_irq_save(&flags);
	moving = true;
	scx_bpf_dsq_move_to_local(QUEUE);
	moving = false;
	bpf_local_irq_restore(&flags);
	bpf_preempt_enable();
#ifndef KEEPS_RCU
	bpf_rcu_read_unlock();
#endif
	bpf_iter_num_next(&it);
#ifndef KEEPS_NUM
	bpf_iter_num_destroy(&it);
#endif
	bpf_dynptr_read(&read, sizeof(read), &ptr, 0, 0);
	if (read != 7 || load(u64, place) != 7 || load(char, at))
		scx_bpf_error("the stack of within_dispatch has changed");
	if (value)
		load(u64, value) = 1;
	if (held && !KEPT)
		bpf_task_release(held);
}

/*
 * Checks that a program may use the pointers in a struct that the kernel passes. With
 * BEHIND_STRUCT, the program reads after the end of the struct, which must be reported.
 */
s32 SCX_OP_SLEEPABLE(within_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct cgroup *held = bpf_cgroup_acquire(args->cgroup);

	if (held)
		bpf_cgroup_release(held);
#ifdef BEHIND_STRUCT
	load(u64, (void *)args + sizeof(*args));
#endif
	return 0;
}

/*
 * The struct scx_exit_task_args has one byte. The memory after it must not contain data of earlier
 * calls.
 */
void SCX_OP(within_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	if (load(u64, (void *)args + 8))
		scx_bpf_error("the memory after the struct contains old data");
}

s32 SCX_OP_SLEEPABLE(within_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(within_ops,
	.select_cpu = (void *)within_select_cpu,
	.enqueue = (void *)within_enqueue,
	.dispatch = (void *)within_dispatch,
	.init_task = (void *)within_init_task,
	.exit_task = (void *)within_exit_task,
	.init = (void *)within_init,
	.name = "within");
