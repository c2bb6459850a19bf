// SPDX-License-Identifier: GPL-2.0-only
/* Keeps everything that is not part of a script on CPU 0. */
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/sched/signal.h>
#include <uapi/linux/sched/types.h>

#include "step.h"

/* Calls a function that may sleep for every task. */
static void for_each_task(void (*function)(struct task_struct *))
{
	struct task_struct *group, *task, **tasks;
	int length = 0, limit = 4096;

	tasks = kvmalloc_array(limit, sizeof(*tasks), GFP_KERNEL);
	if (!tasks)
		return;
	rcu_read_lock();
	for_each_process_thread(group, task)
		if (length < limit)
			tasks[length++] = get_task_struct(task);
	rcu_read_unlock();
	for (int i = 0; i < length; i++) {
		function(tasks[i]);
		put_task_struct(tasks[i]);
	}
	kvfree(tasks);
}

/*
 * Confines a task to CPU 0, where its priority is higher than the pump's. Tasks that belong to a driven
 * CPU, such as its migration thread, stay there and precede all tasks of scripts. Otherwise the thread
 * that takes a CPU offline would wait for its turn, although no time passes.
 */
static void take_in(struct task_struct *task)
{
	struct sched_attr first = { .sched_policy = SCHED_FIFO, .sched_priority = MAX_RT_PRIO - 1 };

	if ((task->flags & PF_KTHREAD) && task->nr_cpus_allowed == 1 && !cpumask_test_cpu(0, task->cpus_ptr)) {
		if (!rt_or_dl_task(task))
			WARN_ON(sched_setattr_nocheck(task, &first));
		return;
	}
	if (!(task->flags & PF_NO_SETAFFINITY) && !cpumask_equal(task->cpus_ptr, cpumask_of(0)))
		set_cpus_allowed_ptr(task, cpumask_of(0));
	if (cpumask_equal(task->cpus_ptr, cpumask_of(0)) && !rt_or_dl_task(task))
		sched_set_fifo(task);
}

/* Stops the periodic work that the kernel does on each CPU: the update of the memory statistics. */
static void stop_work(void)
{
	int cpu;

	cancel_delayed_work_sync(kernel.shepherd);
	for_each_possible_cpu(cpu)
		cancel_delayed_work_sync(per_cpu_ptr(kernel.vmstat_work, cpu));
}

/* Moves all tasks that exist to CPU 0. */
void house_take_in(void)
{
	stop_work();
	for_each_task(take_in);
}

/*
 * When the last CPU of a task's affinity goes offline, Linux lets the task run on all CPUs. The tasks of a
 * script may run on all driven CPUs then.
 */
static int widen_affinity(struct kprobe *probe, struct pt_regs *regs)
{
	struct task_struct *task = (struct task_struct *)regs->di;
	static struct cpumask driven;

	if (!task_of(task))
		return 0;
	cpumask_copy(&driven, cpu_possible_mask);
	cpumask_clear_cpu(0, &driven);
	kernel.set_cpus_allowed_force(task, &driven);
	/* Returns true from cpuset_cpus_allowed_fallback(). */
	regs_set_return_value(regs, 1);
	instruction_pointer_set(regs, (unsigned long)kernel.__x86_return_thunk);
	return 1;
}

static struct kprobe fallback_probe = { .symbol_name = "cpuset_cpus_allowed_fallback", .pre_handler = widen_affinity };

/* Lets CPU 0 do work that may be done anywhere. Linux would do it on the CPU that asks for it. */
static int take_work(struct kprobe *probe, struct pt_regs *regs)
{
	if ((int)regs->di == WORK_CPU_UNBOUND && raw_smp_processor_id() != 0)
		regs->di = 0;
	return 0;
}

static struct kprobe work_probe = { .symbol_name = "__queue_work", .pre_handler = take_work };

/* Number of threads that end policies. */
static atomic_t ending;

/* Returns whether a thread is ending a policy, although CPU 0 may have nothing to do for a moment. */
bool house_ends_policy(void)
{
	return atomic_read(&ending) > 0;
}

/* A thread that ends a policy begins when the driven CPUs are at rest, if a CPU that goes offline has woken it. */
static int on_end_begins(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	atomic_inc(&ending);
	ipi_wait_for_rest();
	return 0;
}

static int on_end_done(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	atomic_dec(&ending);
	return 0;
}

#define END_PROBE(function)                                                                                        \
	{                                                                                                          \
		.kp.symbol_name = function, .entry_handler = on_end_begins, .handler = on_end_done, .maxactive = 8 \
	}

static struct kretprobe end_probes[] = { END_PROBE("scx_root_disable"), END_PROBE("scx_sub_disable") };

static bool sheltering;

/*
 * Keeps new kernel threads on CPU 0, with the priority of the thread that creates them. A policy would
 * see threads that begin as normal tasks, such as the helper thread of a sub-scheduler.
 */
void house_shelter(bool on)
{
	sheltering = on;
}

static int keep_affinity(struct kprobe *probe, struct pt_regs *regs)
{
	if (!sheltering)
		return 0;
	instruction_pointer_set(regs, (unsigned long)kernel.__x86_return_thunk);
	return 1;
}

static int keep_priority(struct kprobe *probe, struct pt_regs *regs)
{
	if (!sheltering || !(current->flags & PF_KTHREAD) || (struct task_struct *)regs->di != current ||
	    regs->si != SCHED_NORMAL)
		return 0;
	regs_set_return_value(regs, 0);
	instruction_pointer_set(regs, (unsigned long)kernel.__x86_return_thunk);
	return 1;
}

/* Keeps the threads of a node on CPU 0 when a CPU of the node comes online. */
static int keep_affinities(struct kprobe *probe, struct pt_regs *regs)
{
	regs_set_return_value(regs, 0);
	instruction_pointer_set(regs, (unsigned long)kernel.__x86_return_thunk);
	return 1;
}

static struct kprobe thread_probes[] = {
	{ .symbol_name = "kthreads_online_cpu", .pre_handler = keep_affinities },
	{ .symbol_name = "kthread_affine_node", .pre_handler = keep_affinity },
	{ .symbol_name = "sched_setscheduler_nocheck", .pre_handler = keep_priority },
};

/*
 * Hides new tasks of the guest from the policy, which may count the tasks that it has initialized: kernel
 * threads, and children of the runner. They never enter its class, because they begin with a real-time
 * priority.
 */
static int on_fork_begins(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct task_struct *child = (struct task_struct *)regs->di;
	bool *hides = (bool *)instance->data;

	*hides = false;
	if (!sheltering || !*kernel.scx_init_task_enabled)
		return 0;
	if (!task_of(child))
		task_adopt(child);
	*hides = !task_of(child);
	if (*hides)
		*kernel.scx_init_task_enabled = false;
	return 0;
}

static int on_fork_done(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	if (*(bool *)instance->data)
		*kernel.scx_init_task_enabled = true;
	return 0;
}

/* A fork fails, for example because its task is killed. */
static int on_cancelled_fork(struct kprobe *probe, struct pt_regs *regs)
{
	task_abandon((struct task_struct *)regs->di);
	return 0;
}

static struct kprobe cancel_probe = { .symbol_name = "sched_cancel_fork", .pre_handler = on_cancelled_fork };

#define FORK_PROBE(function)                                                                                       \
	{                                                                                                          \
		.kp.symbol_name = function, .entry_handler = on_fork_begins, .handler = on_fork_done,              \
		.data_size = sizeof(bool), .maxactive = 8                                                          \
	}

static struct kretprobe fork_probes[] = { FORK_PROBE("scx_fork"), FORK_PROBE("scx_post_fork") };

/*
 * When a CPU comes online, the affinities of the guest's own threads change there. Each change chooses a CPU in
 * turn. The turn of the script must not go on after it.
 */
static int on_affinity_begins(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	*(int *)instance->data = *(int *)percpu_of(inside.distribute_cpu_mask_prev, smp_processor_id());
	/* The handler below is called for the guest's threads only. */
	return task_of((struct task_struct *)regs->di) != NULL;
}

static int on_affinity_done(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	*(int *)percpu_of(inside.distribute_cpu_mask_prev, smp_processor_id()) = *(int *)instance->data;
	return 0;
}

static struct kretprobe affinity_probe = {
	.kp.symbol_name = "__set_cpus_allowed_ptr_locked",
	.entry_handler = on_affinity_begins,
	.handler = on_affinity_done,
	.data_size = sizeof(int),
	.maxactive = 2 * STEP_MAX_CPUS,
};

/*
 * A cgroup reports at most every 10 ms that it has become empty or populated. The timer for the next
 * report would interrupt a driven CPU, and an idle CPU balances in such an interrupt. Nobody reads the
 * reports.
 */
static int drop_report(struct kprobe *probe, struct pt_regs *regs)
{
	/* The function returns at once. */
	instruction_pointer_set(regs, (unsigned long)kernel.__x86_return_thunk);
	return 1;
}

static struct kprobe report_probe = { .symbol_name = "cgroup_file_notify", .pre_handler = drop_report };

int house_init(void)
{
	return register_kprobe(&fallback_probe) ?: register_kprobe(&work_probe) ?: register_kprobe(&thread_probes[0]) ?:
	       register_kprobe(&thread_probes[1]) ?: register_kprobe(&thread_probes[2]) ?:
	       register_kretprobe(&end_probes[0]) ?: register_kretprobe(&end_probes[1]) ?:
	       register_kretprobe(&fork_probes[0]) ?: register_kretprobe(&fork_probes[1]) ?:
	       register_kprobe(&cancel_probe) ?: register_kprobe(&report_probe) ?:
	       register_kretprobe(&affinity_probe);
}

/* Takes in one task that became runnable on CPU 0 and has no such priority yet. */
void house_promote(void)
{
	struct task_struct *group, *task, *found = NULL;

	if (!rq_has_normal_tasks(0))
		return;
	rcu_read_lock();
	for_each_process_thread(group, task)
		if (task_cpu(task) == 0 && READ_ONCE(task->on_rq) && !rt_or_dl_task(task)) {
			found = get_task_struct(task);
			break;
		}
	rcu_read_unlock();
	if (!found)
		return;
	sched_set_fifo(found);
	put_task_struct(found);
}
