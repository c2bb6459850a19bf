/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * echo: a policy whose tasks are scheduled by its program in user space (echo.c). ops.enqueue() sends
 * the pid of a task through a ring buffer, the program sends it back through another one, and the
 * task is inserted into the shared DSQ. The program's own threads are never sent.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0

struct {
	__uint(type, 27);
	__uint(max_entries, 4096);
} to_user SEC(".maps");

struct {
	__uint(type, 31);
	__uint(max_entries, 4096);
} from_user SEC(".maps");

struct weight {
	u32 weight;
};

struct {
	__uint(type, 1);
	__uint(max_entries, 16);
	__type(key, u32);
	__type(value, struct weight);
} weights SEC(".maps");

static long (*const ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static long (*const dynptr_read)(void *to, u32 len, void *dynptr, u32 offset, u64 flags) = (void *)201;
static long (*const user_ringbuf_drain)(void *ring, void *callback, void *ctx, u64 flags) = (void *)209;

const volatile s32 program_tgid;

/* Numbers that the program and the tests read. */
u64 nr_sent, nr_returned, nr_heartbeats, exit_code;

/* Values that the program sets before it attaches the policy. */
struct settings {
	u32 weight;
	s32 offset;
	u8 mask[8];
	u64 large;
};

struct settings settings SEC(".data.settings");

/* Globals that are nearly all zeros. */
#define LARGE (80 << 20)
char large[LARGE] SEC(".bss.large");

struct setup_args {
	u32 add;
};

SEC("syscall")
int echo_setup(struct setup_args *args)
{
	settings.weight += args->add + large[LARGE / 2];
	return 0;
}

struct bpf_iter_meta {
	void *seq;
} __attribute__((preserve_access_index));
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));

static long (*const seq_write)(void *m, const void *data, u32 len) = (void *)127;

/* Writes the pid of each task, as a word. */
SEC("iter/task")
int list_pids(struct bpf_iter__task *ctx)
{
	s32 pid;

	if (!ctx->task)
		return 0;
	pid = ctx->task->pid;
	return seq_write(ctx->meta->seq, &pid, sizeof(pid));
}

s32 SCX_OP(echo_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void SCX_OP(echo_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 pid = p->pid;

	if (p->tgid == program_tgid || ringbuf_output(&to_user, &pid, sizeof(pid), 0)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	__sync_fetch_and_add(&nr_sent, 1);
}

static long returned(void *sample, void *ctx)
{
	struct task_struct *p;
	s32 pid, cpu;

	if (dynptr_read(&pid, sizeof(pid), sample, 0, 0))
		return 0;
	p = bpf_task_from_pid(pid);
	if (!p)
		return 0;
	nr_returned++;
	scx_bpf_dsq_insert(p, QUEUE, 1000000, 0);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, 1);
	bpf_task_release(p);
	return 0;
}

void SCX_OP(echo_dispatch, s32 cpu, struct task_struct *prev)
{
	user_ringbuf_drain(&from_user, returned, NULL, 0);
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 SCX_OP_SLEEPABLE(echo_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

void SCX_OP(echo_exit, struct scx_exit_info *info)
{
	exit_code = info->exit_code;
}

SCX_OPS(echo_ops,
	.select_cpu = (void *)echo_select_cpu,
	.enqueue = (void *)echo_enqueue,
	.dispatch = (void *)echo_dispatch,
	.init = (void *)echo_init,
	.exit = (void *)echo_exit,
	.name = "echo");
