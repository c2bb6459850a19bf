/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface between a sched_ext policy and the kernel, declared by hand: types, kfuncs,
 * helpers, and macros that define callbacks.
 *
 * Policies need no kernel headers. Policies are compiled with clang-19 -g -O2 -mcpu=v3 -target bpf.
 * A type declares only the fields that policies use. This is enough, because the BPF loader looks
 * up the fields of the running kernel by name (CO-RE). Prototypes are those of Linux 7.2.
 */
#ifndef SCX_H
#define SCX_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef int pid_t;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

/* Attributes that the BPF loader and the compiler understand. */
#define SEC(name) __attribute__((section(name), used))
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __weak __attribute__((weak))
#define __ksym __attribute__((section(".ksyms")))
#define __kconfig __attribute__((section(".kconfig")))
#define __hidden __attribute__((visibility("hidden")))
/*
 * Hides the value of a variable from the optimiser. If the verifier needs a check of the variable,
 * the optimiser then does not remove the check.
 */
#define barrier_var(var) asm volatile("" : "+r"(var))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Tasks with a lower `prio` are real-time tasks. */
#define MAX_RT_PRIO 100

/* Members of a map definition, as in libbpf's BTF-defined maps. */
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define __array(name, val) typeof(val) *name[]

/*
 * Marks a global variable as a parameter. `text` has its unit, range and meaning; `windtunnel
 * policy show` prints it.
 */
#define PARAM(text) __attribute__((btf_decl_tag("param: " text)))

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_MAP_TYPE_ARENA = 33,
	BPF_F_NO_PREALLOC = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_F_TIMER_CPU_PIN = 2,
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cpumask {
	unsigned long bits[128];
};
typedef struct cpumask cpumask_t;
struct bpf_cpumask {
	cpumask_t cpumask;
};
struct bpf_iter_num {
	u64 __opaque[1];
};
struct bpf_iter_scx_dsq {
	u64 __opaque[6];
};
struct bpf_timer {
	u64 __opaque[2];
};
struct bpf_spin_lock {
	u32 val;
};

struct kernfs_node {
	u64 id;
	const char *name;
};
struct cgroup {
	struct kernfs_node *kn;
	int level;
};
struct sched_entity {
	u64 sum_exec_runtime;
	u64 vruntime;
};
struct sched_ext_entity {
	u32 flags;
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
	bool disallow;
};
struct mm_struct;
struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	int wake_cpu;
	int recent_used_cpu;
	int prio;
	int static_prio;
	int normal_prio;
	unsigned int rt_priority;
	struct sched_entity se;
	struct sched_ext_entity scx;
	unsigned int policy;
	int nr_cpus_allowed;
	const cpumask_t *cpus_ptr;
	unsigned short migration_disabled;
	struct mm_struct *mm;
	pid_t pid;
	pid_t tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	unsigned long nvcsw;
	unsigned long nivcsw;
	u64 start_time;
	char comm[16];
};
struct rq {
	struct task_struct *curr;
	u64 clock;
};

enum scx_exit_kind { SCX_EXIT_NONE };
struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
	char *dump;
};
struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup;
};
struct scx_exit_task_args {
	bool cancelled;
};
struct scx_cpu_acquire_args {
};
enum scx_cpu_preempt_reason { SCX_CPU_PREEMPT_RT };
struct scx_cpu_release_args {
	enum scx_cpu_preempt_reason reason;
	struct task_struct *task;
};
struct scx_cgroup_init_args {
	u32 weight;
};
struct scx_dump_ctx {
	s32 kind;
	s64 exit_code;
	const char *reason;
	u64 at_ns;
	u64 at_jiffies;
};

/*
 * Callbacks and settings of a policy. The BPF loader finds each member of the kernel's struct by
 * name (CO-RE). Callbacks that a policy does not define stay NULL.
 */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	bool (*core_sched_before)(struct task_struct *a, struct task_struct *b);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpumask);
	void (*update_idle)(s32 cpu, bool idle);
	void (*cpu_acquire)(s32 cpu, struct scx_cpu_acquire_args *args);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	void (*dump)(struct scx_dump_ctx *ctx);
	void (*dump_cpu)(struct scx_dump_ctx *ctx, s32 cpu, bool idle);
	void (*dump_task)(struct scx_dump_ctx *ctx, struct task_struct *p);
	s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	s32 (*cgroup_prep_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_cancel_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_set_weight)(struct cgroup *cgrp, u32 weight);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 dispatch_max_batch;
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	u64 hotplug_seq;
	char name[128];
};

#pragma clang attribute pop

/*
 * Constants with the same values in all kernel versions. The values of other kernel enums differ
 * between versions, so policies must look them up with CO-RE.
 */
#define SCX_DSQ_INVALID (1ULL << 63)
#define SCX_DSQ_GLOBAL ((1ULL << 63) | 1)
#define SCX_DSQ_LOCAL ((1ULL << 63) | 2)
#define SCX_DSQ_LOCAL_ON ((1ULL << 63) | (1ULL << 62))
#define SCX_DSQ_LOCAL_CPU_MASK 0xffffffffULL
#define SCX_SLICE_DFL 20000000ULL
#define SCX_SLICE_INF (~0ULL)
#define SCX_ENQ_WAKEUP 1ULL
#define SCX_ENQ_HEAD (1ULL << 16)
#define SCX_ENQ_CPU_SELECTED (1ULL << 20)
#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_ENQ_REENQ (1ULL << 40)
#define SCX_ENQ_LAST (1ULL << 41)
#define SCX_DEQ_SLEEP 1ULL
#define SCX_KICK_IDLE 1ULL
#define SCX_KICK_PREEMPT 2ULL
#define SCX_KICK_WAIT 4ULL
#define SCX_PICK_IDLE_CORE 1ULL
#define SCX_OPS_KEEP_BUILTIN_IDLE 1ULL
#define SCX_OPS_ENQ_LAST 2ULL
#define SCX_OPS_ENQ_EXITING 4ULL
#define SCX_OPS_SWITCH_PARTIAL 8ULL
#define SCX_OPS_ENQ_MIGRATION_DISABLED 16ULL
#define SCX_WAKE_FORK 4ULL
#define SCX_WAKE_TTWU 8ULL
#define SCX_WAKE_SYNC 16ULL
#define SCX_TASK_QUEUED 1U
#define CLOCK_MONOTONIC 1
#define SCX_DSQ_ITER_REV (1ULL << 16)

/* Kernel functions (kfuncs) that a policy can call. */
s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
void scx_bpf_destroy_dsq(u64 dsq_id) __ksym;
s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle) __ksym;
bool scx_bpf_dsq_insert___v2___compat(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_move_to_local___v2___compat(u64 dsq_id, u64 enq_flags) __ksym __weak;
u32 scx_bpf_dispatch_nr_slots(void) __ksym;
void scx_bpf_dispatch_cancel(void) __ksym;
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
u64 scx_bpf_now(void) __ksym __weak;
u32 scx_bpf_nr_cpu_ids(void) __ksym __weak;
s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
bool scx_bpf_task_running(const struct task_struct *p) __ksym;
struct task_struct *scx_bpf_cpu_curr(s32 cpu) __ksym __weak;
bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym __weak;
void scx_bpf_reenqueue_local___v2___compat(void) __ksym __weak;
const struct cpumask *scx_bpf_get_idle_cpumask(void) __ksym;
const struct cpumask *scx_bpf_get_idle_smtmask(void) __ksym;
const struct cpumask *scx_bpf_get_online_cpumask(void) __ksym;
void scx_bpf_put_cpumask(const struct cpumask *cpumask) __ksym;
void scx_bpf_put_idle_cpumask(const struct cpumask *mask) __ksym;
bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __ksym;
s32 scx_bpf_pick_idle_cpu(const cpumask_t *allowed, u64 flags) __ksym;
s32 scx_bpf_pick_any_cpu(const cpumask_t *allowed, u64 flags) __ksym;
void scx_bpf_error_bstr(char *fmt, unsigned long long *data, u32 data_len) __ksym;
void scx_bpf_exit_bstr(s64 exit_code, char *fmt, unsigned long long *data, u32 data_len) __ksym __weak;
void scx_bpf_dump_bstr(char *fmt, unsigned long long *data, u32 data_len) __ksym __weak;
int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym __weak;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym __weak;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym __weak;
bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags) __ksym __weak;
struct task_struct *scx_bpf_dsq_peek(u64 dsq_id) __ksym __weak;
void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice) __ksym __weak;
void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime) __ksym __weak;
bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *cpumask) __ksym;
u32 bpf_cpumask_first(const struct cpumask *cpumask) __ksym;
bool bpf_cpumask_empty(const struct cpumask *cpumask) __ksym;
u32 bpf_cpumask_any_distribute(const struct cpumask *cpumask) __ksym;
struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;
void bpf_rcu_read_lock(void) __ksym;
void bpf_rcu_read_unlock(void) __ksym;
int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym __weak;
int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym __weak;
void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym __weak;

/* Arguments of __scx_bpf_dsq_insert_vtime(). */
struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
} __attribute__((preserve_access_index));
bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args) __ksym __weak;

/*
 * Short names for the newest variants of three kfuncs. The names are macros instead of inline
 * functions. Error messages therefore show the line of the policy that calls the kfunc, not a line
 * of this header.
 */
#define scx_bpf_dsq_insert(p, dsq_id, slice, enq_flags) scx_bpf_dsq_insert___v2___compat(p, dsq_id, slice, enq_flags)
#define scx_bpf_dsq_move_to_local(dsq_id) scx_bpf_dsq_move_to_local___v2___compat(dsq_id, 0)
#define scx_bpf_dsq_insert_vtime(p, id, ns, when, flags)                                               \
	({                                                                                             \
		struct task_struct *__p = (p);                                                         \
		u64 __id = (id), __ns = (ns), __when = (when), __flags = (flags);                      \
		struct scx_bpf_dsq_insert_vtime_args __args = {                                        \
			.dsq_id = __id, .slice = __ns, .vtime = __when, .enq_flags = __flags,          \
		};                                                                                     \
		__scx_bpf_dsq_insert_vtime(__p, &__args);                                              \
	})

/*
 * BPF helpers. A BPF program calls a helper by a number (include/uapi/linux/bpf.h), which is
 * declared here as the address of a function.
 */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*const bpf_get_prandom_u32)(void) = (void *)7;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
static long (*const bpf_map_pop_elem)(void *map, void *value) = (void *)88;
static long (*const bpf_spin_lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*const bpf_spin_unlock)(struct bpf_spin_lock *lock) = (void *)94;
static long (*const bpf_probe_read_kernel_str)(void *dst, u32 size, const void *src) = (void *)115;
static void *(*const bpf_task_storage_get)(void *map, struct task_struct *p, void *value, u64 flags) = (void *)156;
static long (*const bpf_task_storage_delete)(void *map, struct task_struct *p) = (void *)157;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static long (*const bpf_timer_init)(struct bpf_timer *timer, void *map, u64 flags) = (void *)169;
static long (*const bpf_timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*const bpf_timer_start)(struct bpf_timer *timer, u64 nsecs, u64 flags) = (void *)171;
static long (*const bpf_timer_cancel)(struct bpf_timer *timer) = (void *)172;
static long (*const bpf_trace_vprintk)(const char *fmt, u32 fmt_size, const void *data, u32 data_len) = (void *)177;

/*
 * Returns whether a task must stay on its CPU. While a callback is executed, the kernel disables
 * migration for the task that runs on this CPU, so a count of 1 says nothing about the current task.
 */
static __always_inline bool is_migration_disabled(const struct task_struct *p)
{
	if (p->migration_disabled == 1)
		return bpf_get_current_task_btf() != p;
	return p->migration_disabled;
}

/*
 * The kernel passes the arguments of a callback as an array of 64-bit values. SCX_OP(name, args...)
 * defines a function with ordinary arguments, and an entry point that unpacks the array.
 */
#define ___NARGS_(_0, _1, _2, _3, _4, _5, n, ...) n
#define ___NARGS(...) ___NARGS_(_, ##__VA_ARGS__, 5, 4, 3, 2, 1, 0)
#define BPF_PROG(name, args...)                                                                    \
	name(unsigned long long *ctx);                                                             \
	static __always_inline typeof(name(0)) ____##name(unsigned long long *ctx, ##args);        \
	typeof(name(0)) name(unsigned long long *ctx)                                              \
	{                                                                                          \
		_Pragma("clang diagnostic push")                                                   \
		_Pragma("clang diagnostic ignored \"-Wint-conversion\"")                           \
		return ____##name(___UNPACK_CTX(args));                                            \
		_Pragma("clang diagnostic pop")                                                    \
	}                                                                                          \
	static __always_inline typeof(name(0)) ____##name(unsigned long long *ctx, ##args)
#define ___CTX0() ctx
#define ___CTX1(a) ctx, (void *)ctx[0]
#define ___CTX2(a, b) ctx, (void *)ctx[0], (void *)ctx[1]
#define ___CTX3(a, b, c) ctx, (void *)ctx[0], (void *)ctx[1], (void *)ctx[2]
#define ___CTX4(a, b, c, d) ctx, (void *)ctx[0], (void *)ctx[1], (void *)ctx[2], (void *)ctx[3]
#define ___CTX5(a, b, c, d, e) ctx, (void *)ctx[0], (void *)ctx[1], (void *)ctx[2], (void *)ctx[3], (void *)ctx[4]
#define ___CTX__(n, ...) ___CTX##n(__VA_ARGS__)
#define ___CTX_(n, ...) ___CTX__(n, ##__VA_ARGS__)
#define ___UNPACK_CTX(...) ___CTX_(___NARGS(__VA_ARGS__), ##__VA_ARGS__)

/*
 * SCX_OP defines a callback, SCX_OP_SLEEPABLE defines a callback that may sleep, and SCX_OPS
 * defines the table of a policy's callbacks.
 */
#define SCX_OP(name, args...) SEC("struct_ops/" #name) BPF_PROG(name, ##args)
#define SCX_OP_SLEEPABLE(name, args...) SEC("struct_ops.s/" #name) BPF_PROG(name, ##args)
#define SCX_OPS(ops_name, ...) SEC(".struct_ops.link") struct sched_ext_ops ops_name = { __VA_ARGS__ }

/* Unloads the policy with an error. The arguments are those of printf(). */
#define scx_bpf_error(fmt, args...)                                                                \
	({                                                                                         \
		static char ___fmt[] = fmt;                                                        \
		unsigned long long ___data[___NARGS(args) + !___NARGS(args)] = { args };           \
		scx_bpf_error_bstr(___fmt, ___data, ___NARGS(args) * 8);                           \
	})

/*
 * Prints a line. The arguments are those of printf(), at most 12 after the format. In the simulator,
 * `windtunnel run --printk` shows the line. On a real machine, it goes to
 * /sys/kernel/tracing/trace_pipe.
 */
#define bpf_printk(fmt, args...)                                                                   \
	({                                                                                         \
		_Pragma("clang diagnostic push")                                                   \
		_Pragma("clang diagnostic ignored \"-Wint-conversion\"")                           \
		static const char ___fmt[] = fmt;                                                  \
		unsigned long long ___data[] = { args };                                           \
		_Pragma("clang diagnostic pop")                                                    \
		bpf_trace_vprintk(___fmt, sizeof(___fmt), ___data, sizeof(___data));               \
	})

/*
 * Works like for (i = start; i < end; i++), but uses the kernel's iterator over numbers, so that
 * the verifier does not have to simulate every iteration of the loop.
 */
#define bpf_for(i, start, end)                                                                     \
	for (struct bpf_iter_num ___it __attribute__((aligned(8), cleanup(bpf_iter_num_destroy))), \
	     *___p __attribute__((unused)) = (bpf_iter_num_new(&___it, (start), (end)),            \
					      (void)bpf_iter_num_destroy, (void *)0);              \
	     ({                                                                                    \
		     int *___t = bpf_iter_num_next(&___it);                                        \
		     (___t && ((i) = *___t, (i) >= (start) && (i) < (end)));                       \
	     });)

/* Loops over the tasks of a DSQ. The loop body may use the iterator `it` to move tasks. */
#define bpf_for_each_dsq(it, p, dsq_id)                                                            \
	for (struct bpf_iter_scx_dsq it __attribute__((aligned(8), cleanup(bpf_iter_scx_dsq_destroy))), \
	     *___q __attribute__((unused)) = (bpf_iter_scx_dsq_new(&it, (dsq_id), 0),                \
					      (void)bpf_iter_scx_dsq_destroy, (void *)0);          \
	     ((p) = bpf_iter_scx_dsq_next(&it));)

#define EINVAL 22
#define ENOMEM 12
#define ESRCH 3
#define EEXIST 17
#define ENOENT 2
#define E2BIG 7
#define ENODEV 19

#endif
