/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hostile: a policy with objects that could be misused: maps of all kinds, special fields in map
 * values, allocated types, and callback functions. The test replaces the code of the callbacks by
 * random calls.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define __kptr __attribute__((btf_type_tag("kptr")))
#define __contains(type, node) __attribute__((btf_decl_tag("contains:" #type ":" #node)))
#define private(name) SEC(".data." #name) __hidden __attribute__((aligned(8)))

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
struct bpf_refcount {
	u32 __opaque[1];
} __attribute__((aligned(4)));

struct node {
	struct bpf_list_node list;
	struct bpf_rb_node tree;
	struct bpf_refcount refs;
	u64 key;
};
struct plain {
	u64 words[4];
};

struct value {
	struct bpf_spin_lock lock;
	u32 word;
	struct bpf_timer timer;
	struct task_struct __kptr *task;
	struct cgroup __kptr *cgroup;
	struct bpf_cpumask __kptr *mask;
	struct node __kptr *node;
	u64 words[4];
};

#define MAP(map_type, name, key_type, value_type, entries, flags)	\
	struct {							\
		__uint(type, map_type);					\
		__uint(max_entries, entries);				\
		__uint(map_flags, flags);				\
		__type(key, key_type);					\
		__type(value, value_type);				\
	} name SEC(".maps")

MAP(BPF_MAP_TYPE_ARRAY, array, u32, struct value, 4, 0);
MAP(BPF_MAP_TYPE_HASH, hash, u64, struct value, 8, 0);
MAP(9 /* LRU_HASH */, lru, u64, u64, 4, 0);
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, percpu, u32, u64, 4, 0);
MAP(5 /* PERCPU_HASH */, percpu_hash, u64, u64, 4, 0);
MAP(BPF_MAP_TYPE_TASK_STORAGE, tasks, u32, struct value, 0, BPF_F_NO_PREALLOC);
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 4);
	__type(value, u64);
} queue SEC(".maps");
struct {
	__uint(type, 27 /* RINGBUF */);
	__uint(max_entries, 4096);
} ring SEC(".maps");
struct {
	__uint(type, 31 /* USER_RINGBUF */);
	__uint(max_entries, 4096);
} user_ring SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, 1 << 10);
	__uint(max_entries, 16);
} arena SEC(".maps");

private(A) struct bpf_spin_lock lock;
private(A) struct bpf_list_head list __contains(node, list);
private(B) struct bpf_spin_lock tree_lock;
private(B) struct bpf_rb_root tree __contains(node, tree);
u64 words[16];
const volatile u64 constants[4] = { 1, 2, 3, 4 };
const char format[] = "%d %s %lx";

extern void *bpf_obj_new_impl(u64 type, void *meta) __ksym;
extern void bpf_obj_drop_impl(void *p, void *meta) __ksym;
static long (*const bpf_for_each)(void *map, void *callback, void *ctx, u64 flags) = (void *)164;

__attribute__((noinline)) static s64 on_element(void *map, void *key, u64 *value, u64 *ctx)
{
	return *(u8 *)key & 1;
}

__attribute__((noinline)) static int on_timer(void *map, u32 *key, struct value *value)
{
	value->word++;
	return 0;
}

/* Uses the allocated types and the maps, because the loader finds only those that the code uses. */
__noinline int uses(struct value *value)
{
	struct node *node = bpf_obj_new_impl(__builtin_btf_type_id(*(struct node *)0, 0), NULL);
	struct plain *plain = bpf_obj_new_impl(__builtin_btf_type_id(*(struct plain *)0, 0), NULL);

	if (node)
		bpf_obj_drop_impl(node, NULL);
	if (plain)
		bpf_obj_drop_impl(plain, NULL);
	bpf_for_each(&array, on_element, words, 0);
	bpf_timer_set_callback(&value->timer, on_timer);
	barrier_var(value);
	return *(volatile u32 *)&lock.val + *(volatile u32 *)&tree_lock.val + list.__opaque[0] + tree.__opaque[0] + constants[0] +
	       format[1] + (long)&hash + (long)&lru + (long)&percpu + (long)&percpu_hash + (long)&tasks + (long)&queue +
	       (long)&ring + (long)&user_ring + (long)&arena;
}


s32 SCX_OP(hostile_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return uses((void *)p);
}
#define HOSTILE(name, ...) void SCX_OP(hostile_##name, ##__VA_ARGS__) { uses((void *)words); }
HOSTILE(enqueue, struct task_struct *p, u64 enq_flags)
HOSTILE(dequeue, struct task_struct *p, u64 deq_flags)
HOSTILE(dispatch, s32 cpu, struct task_struct *prev)
HOSTILE(tick, struct task_struct *p)
HOSTILE(runnable, struct task_struct *p, u64 enq_flags)
HOSTILE(running, struct task_struct *p)
HOSTILE(stopping, struct task_struct *p, bool runnable)
HOSTILE(quiescent, struct task_struct *p, u64 deq_flags)
HOSTILE(set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
HOSTILE(update_idle, s32 cpu, bool idle)
HOSTILE(enable, struct task_struct *p)
HOSTILE(disable, struct task_struct *p)
HOSTILE(dump, struct scx_dump_ctx *dctx)
HOSTILE(exit, struct scx_exit_info *info)
s32 SCX_OP_SLEEPABLE(hostile_init)
{
	return uses((void *)words);
}
s32 SCX_OP_SLEEPABLE(hostile_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return uses((void *)words);
}

SCX_OPS(hostile_ops, .select_cpu = (void *)hostile_select_cpu, .enqueue = (void *)hostile_enqueue,
	.dequeue = (void *)hostile_dequeue, .dispatch = (void *)hostile_dispatch, .tick = (void *)hostile_tick,
	.runnable = (void *)hostile_runnable, .running = (void *)hostile_running, .stopping = (void *)hostile_stopping,
	.quiescent = (void *)hostile_quiescent, .set_cpumask = (void *)hostile_set_cpumask,
	.update_idle = (void *)hostile_update_idle, .enable = (void *)hostile_enable, .disable = (void *)hostile_disable,
	.dump = (void *)hostile_dump, .init = (void *)hostile_init, .init_task = (void *)hostile_init_task,
	.exit = (void *)hostile_exit, .name = "hostile");
