/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * trace: a policy with programs that are attached to tracepoints and kernel functions. These
 * programs write to a log. The policy also has a program of type syscall that user space can call.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define LOG 64
u64 log_what[LOG], log_pid[LOG], nr_logged;
u64 preempted, slept, registered;
char renamed_to[16];
s32 watched = -1;

enum { WAKING = 1, WAKEUP, WAKEUP_NEW, SWITCH_TO, SWITCH_FROM, FORK, EXEC, EXIT, RENAME, FUTEX, FUTEX_DONE, SOCKET, TICK };

static __always_inline void add(u64 what, struct task_struct *p)
{
	u64 i = nr_logged;

	if (watched >= 0 && p->pid != watched)
		return;
	if (i < LOG) {
		log_what[i] = what;
		log_pid[i] = p->pid;
		nr_logged = i + 1;
	}
}

SEC("tp_btf/sched_waking") int BPF_PROG(on_waking, struct task_struct *p) { add(WAKING, p); return 0; }
SEC("tp_btf/sched_wakeup") int BPF_PROG(on_wakeup, struct task_struct *p) { add(WAKEUP, p); return 0; }
SEC("raw_tp/sched_wakeup_new") int BPF_PROG(on_wakeup_new, struct task_struct *p) { add(WAKEUP_NEW, p); return 0; }
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child) { add(FORK, child); return 0; }
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p, s32 old_pid, void *bprm) { add(EXEC, p); return 0; }
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *p, bool group_dead) { if (group_dead) add(EXIT, p); return 0; }
SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *p, const char *comm)
{
	bpf_probe_read_kernel_str(renamed_to, sizeof(renamed_to), comm);
	add(RENAME, p);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	if (prev->pid) {
		preempted += preempt && !prev_state;
		slept += prev_state == 1;
		add(SWITCH_FROM, prev);
	}
	if (next->pid)
		add(SWITCH_TO, next);
	return 0;
}

SEC("fentry/futex_wake")
int BPF_PROG(on_futex, u32 *uaddr, unsigned int flags, int nr_wake, u32 bitset)
{
	if (nr_wake == 1)
		add(FUTEX, bpf_get_current_task_btf());
	return 0;
}

SEC("fexit/futex_wake")
int BPF_PROG(on_futex_done, u32 *uaddr, unsigned int flags, int nr_wake, u32 bitset, int woken)
{
	if (woken == 1)
		add(FUTEX_DONE, bpf_get_current_task_btf());
	return 0;
}

SEC("fentry/sock_def_readable")
int BPF_PROG(on_socket, void *sk) { add(SOCKET, bpf_get_current_task_btf()); return 0; }
SEC("fentry/bpf_scx_reg")
int BPF_PROG(on_register, void *kdata) { registered++; return 0; }
SEC("?tp_btf/sched_waking")
int BPF_PROG(on_demand, struct task_struct *p) { add(TICK, p); return 0; }
SEC("kprobe/vfs_read") int on_read(void *ctx) { return 0; }
SEC("fentry/no_such_function") int BPF_PROG(on_nothing) { return 0; }

u64 primary, siblings[8], sizes[2], capacities[8];
const volatile u64 cpu_capacity[8];
const volatile bool smt_enabled = true;

struct pair_arg {
	s32 cpu;
	s32 sibling;
	u64 hz;
};

SEC("syscall")
int enable_primary_cpu(struct pair_arg *input)
{
	if (input->cpu < 0)
		return -EINVAL;
	primary |= 1ULL << input->cpu;
	siblings[input->cpu & 7] = input->sibling;
	sizes[0] = input->hz;
	capacities[input->cpu & 7] = cpu_capacity[input->cpu & 7] + smt_enabled;
	input->cpu = -1;
	return 0;
}

SCX_OPS(trace_ops, .name = "trace", .flags = 0);
