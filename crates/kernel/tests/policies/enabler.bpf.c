/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * enabler: a policy with FIFO scheduling that records the task that executes ops.init(), and looks
 * this task up again while other tasks run.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

static u64 (*const bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*const bpf_get_current_comm)(void *buf, u32 size) = (void *)16;
struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;

u64 pid, tgid, own_pid, nr_found, nr_other, first_chars;

s32 SCX_OP_SLEEPABLE(enabler_init)
{
	char comm[16];
	u64 both = bpf_get_current_pid_tgid();
	struct task_struct *p;

	pid = (u32)both;
	tgid = both >> 32;
	bpf_get_current_comm(comm, sizeof(comm));
	first_chars = *(u64 *)comm;
	p = bpf_task_from_pid(pid);
	if (p) {
		own_pid = p->pid;
		bpf_task_release(p);
	}
	return 0;
}

void SCX_OP(enabler_running, struct task_struct *p)
{
	struct task_struct *enabler = bpf_task_from_pid(pid);

	if (enabler) {
		nr_found++;
		bpf_task_release(enabler);
	}
	nr_other += (u32)bpf_get_current_pid_tgid() != pid;
}

SCX_OPS(enabler_ops, .init = (void *)enabler_init, .running = (void *)enabler_running,
	.name = "enabler");
