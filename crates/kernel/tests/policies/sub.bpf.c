/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sub: the root policy or a sub-scheduler of a hierarchy. It keeps its tasks on its DSQ 0 in FIFO
 * order. When a CPU needs a task, the policy first takes one of its own tasks; if it has none, it asks
 * its sub-schedulers in the order in which they were attached. It counts the calls of its callbacks.
 * These macros change it:
 *
 * NAME=x         the name of the policy
 * SUBS_FIRST     the policy asks the sub-schedulers first
 * REFUSE         ops.sub_attach() refuses the sub-scheduler whose name begins with 'r'
 * REFUSE_TASK    ops.init_task() rejects the task with this pid, unless it is called for a fork
 * REJECT_BACK    ops.init_task() rejects all tasks after a sub-scheduler was detached or failed
 * BAD_DSQ        ops.enqueue() inserts into a DSQ that does not exist, from the tenth task on
 * LEAK           ops.enqueue() never releases a reference to a task, from the tenth task on
 * STALL          ops.dispatch() does nothing, so that the watchdog ends the policy
 * DISTANT        ops.dispatch() asks the sub-scheduler of the cgroup with this id
 * NO_SUBS        the policy has no ops.sub_attach()
 * BY_CPU         the policy is a struct sched_ext_ops
 * TIMER          the policy starts a timer in ops.init(), which fires each millisecond
 * TRACING        the policy has a tracing program
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#ifndef NAME
#define NAME "root"
#endif
#define __arena __attribute__((address_space(1)))
#define MAX_SUBS 8

struct sched_ext_ops___sub {
	u64 sub_cgroup_id;
	char name[128];
} __attribute__((preserve_access_index));

struct scx_sub_attach_args {
	struct sched_ext_ops___sub *ops;
	char *cgroup_path;
} __attribute__((preserve_access_index));

struct scx_sub_detach_args {
	struct sched_ext_ops___sub *ops;
	char *cgroup_path;
} __attribute__((preserve_access_index));

bool scx_bpf_sub_dispatch(u64 cgroup_id) __ksym;
s32 scx_bpf_this_cid(void) __ksym;
s32 scx_bpf_task_cid(const struct task_struct *p) __ksym;
void scx_bpf_kick_cid(s32 cid, u64 flags) __ksym;

#ifndef BY_CPU
struct {
	__uint(type, 33);
	__uint(map_flags, 1 << 10);
	__uint(max_entries, 100);
} arena SEC(".maps");
#endif

u64 nr_enqueued, nr_dispatched, nr_own, nr_running, nr_init, nr_exit, nr_enabled, nr_disabled, nr_cancelled;
u64 nr_attached, nr_detached, nr_exits, exit_kind, foreign_prev, last_kind, fired;
u64 subs[MAX_SUBS];
char path[16], child_name[16];
bool leaked;
u64 arena_addr;

struct task_ctx {
	u32 enqueued;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} tasks SEC(".maps");

void SCX_OP(sub_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *mine = bpf_task_storage_get(&tasks, p, 0, 0);

	if (mine)
		mine->enqueued++;
	nr_enqueued++;
#ifdef BAD_DSQ
	if (nr_enqueued >= 10) {
		scx_bpf_dsq_insert(p, 77, 2000000, enq_flags);
		return;
	}
#endif
#ifdef LEAK
	if (nr_enqueued >= 10)
		leaked = bpf_task_from_pid(1) != NULL;
#endif
	scx_bpf_dsq_insert(p, 0, 2000000, enq_flags);
#ifndef BY_CPU
	scx_bpf_kick_cid(scx_bpf_task_cid(p), SCX_KICK_IDLE);
#endif
}

void SCX_OP(sub_dispatch, s32 cid, struct task_struct *prev)
{
	nr_dispatched++;
	if (prev && !bpf_task_storage_get(&tasks, prev, 0, 0))
		foreign_prev++;
#ifdef STALL
	return;
#endif
#ifdef DISTANT
	scx_bpf_sub_dispatch(DISTANT);
#endif
#ifndef SUBS_FIRST
	if (scx_bpf_dsq_move_to_local(0)) {
		nr_own++;
		return;
	}
#endif
	for (int i = 0; i < MAX_SUBS; i++) {
		if (subs[i] && scx_bpf_sub_dispatch(subs[i]))
			return;
	}
#ifdef SUBS_FIRST
	if (scx_bpf_dsq_move_to_local(0))
		nr_own++;
#endif
}

void SCX_OP(sub_running, struct task_struct *p)
{
	nr_running++;
}

void SCX_OP(sub_enable, struct task_struct *p)
{
	nr_enabled++;
}

void SCX_OP(sub_disable, struct task_struct *p)
{
	nr_disabled++;
}

s32 SCX_OP_SLEEPABLE(sub_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
#ifdef REFUSE_TASK
	if (p->pid == REFUSE_TASK && !args->fork)
		return -12;
#endif
#ifdef REJECT_BACK
	if (nr_attached && nr_init >= REJECT_BACK)
		return -12;
#endif
	nr_init++;
	bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

void SCX_OP(sub_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	nr_exit++;
	if (args->cancelled)
		nr_cancelled++;
	bpf_task_storage_delete(&tasks, p);
}

#ifndef NO_SUBS
s32 SCX_OP_SLEEPABLE(sub_sub_attach, struct scx_sub_attach_args *args)
{
	bpf_probe_read_kernel_str(path, sizeof(path), args->cgroup_path);
	bpf_probe_read_kernel_str(child_name, sizeof(child_name), args->ops->name);
#ifdef REFUSE
	if (child_name[0] == 'r')
		return -13;
#endif
	for (int i = 0; i < MAX_SUBS; i++) {
		if (!subs[i]) {
			subs[i] = args->ops->sub_cgroup_id;
			nr_attached++;
			return 0;
		}
	}
	return -28;
}

void SCX_OP_SLEEPABLE(sub_sub_detach, struct scx_sub_detach_args *args)
{
	nr_detached++;
	for (int i = 0; i < MAX_SUBS; i++) {
		if (subs[i] == args->ops->sub_cgroup_id)
			subs[i] = 0;
	}
}
#endif

#ifdef TIMER
struct timer_value {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_value);
} timers SEC(".maps");

static int fire(void *map, u32 *key, struct timer_value *value)
{
	fired++;
	bpf_timer_start(&value->timer, 1000000, 0);
	return 0;
}
#endif

s32 SCX_OP_SLEEPABLE(sub_init)
{
#ifdef TIMER
	u32 key = 0;
	struct timer_value *value = bpf_map_lookup_elem(&timers, &key);

	if (value) {
		bpf_timer_init(&value->timer, &timers, 1 /* CLOCK_MONOTONIC */);
		bpf_timer_set_callback(&value->timer, fire);
		bpf_timer_start(&value->timer, 1000000, 0);
	}
#endif
#ifndef BY_CPU
	arena_addr = (u64)&arena;
#endif
	return scx_bpf_create_dsq(0, -1);
}

void SCX_OP(sub_exit, struct scx_exit_info *ei)
{
	nr_exits++;
	exit_kind = ei->kind;
}

#ifdef TRACING
SEC("tp_btf/sched_switch")
int switched(u64 *ctx)
{
	return 0;
}
#endif

struct sched_ext_ops_cid {
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cid, struct task_struct *prev);
	void (*running)(struct task_struct *p);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	s32 (*sub_attach)(struct scx_sub_attach_args *args);
	void (*sub_detach)(struct scx_sub_detach_args *args);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 timeout_ms;
	u64 flags;
	char name[128];
};

SEC(".struct_ops.link")
#ifdef BY_CPU
struct sched_ext_ops sub_ops = {
#else
struct sched_ext_ops_cid sub_ops = {
#endif
	.enqueue = (void *)sub_enqueue,
	.dispatch = (void *)sub_dispatch,
	.running = (void *)sub_running,
	.enable = (void *)sub_enable,
	.disable = (void *)sub_disable,
	.init_task = (void *)sub_init_task,
	.exit_task = (void *)sub_exit_task,
#ifndef NO_SUBS
	.sub_attach = (void *)sub_sub_attach,
	.sub_detach = (void *)sub_sub_detach,
#endif
	.init = (void *)sub_init,
	.exit = (void *)sub_exit,
	.timeout_ms = 200,
	.name = NAME,
};
