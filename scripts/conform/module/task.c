// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tasks of a script. A running task halts its CPU until an interrupt arrives, and then looks for a
 * command. A user task does so in the ioctl RUN, which it calls again and again: between two halts it
 * returns to user mode, so everything happens that the kernel does there.
 */
#include <linux/kthread.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/wait.h>

#include "step.h"

static struct script_task tasks[STEP_TASKS];
static int nr_tasks;

struct script_task *task_named(const char *name)
{
	for (int i = 0; i < nr_tasks; i++)
		if (!strcmp(tasks[i].name, name))
			return &tasks[i];
	return NULL;
}

struct script_task *task_of(struct task_struct *p)
{
	for (int i = 0; i < nr_tasks; i++)
		if (tasks[i].p == p)
			return &tasks[i];
	return NULL;
}

struct task_struct *task_struct_number(int number)
{
	return number < nr_tasks ? tasks[number].p : NULL;
}

int script_task(struct task_struct *p)
{
	return task_of(p) != NULL;
}

/* The name of a task in the log. */
const char *task_name(struct task_struct *p)
{
	struct script_task *task = task_of(p);

	return task ? task->name : is_idle_task(p) ? "idle" : p->comm;
}

static struct script_task *add(const char *name)
{
	struct script_task *task;

	if (nr_tasks == STEP_TASKS)
		return ERR_PTR(-ENFILE);
	if (task_named(name))
		return ERR_PTR(-EEXIST);
	task = &tasks[nr_tasks];
	memset(task, 0, sizeof(*task));
	strscpy(task->name, name);
	return task;
}

static void attach(struct script_task *task, struct task_struct *p)
{
	task->p = get_task_struct(p);
	nr_tasks++;
}

/* Executes a command in the context of the task. Returns the command if user space has to execute it. */
static enum step_command execute(struct script_task *task)
{
	enum step_command command = task->command;

	task->command = STEP_NONE;
	switch (command) {
	case STEP_BLOCK:
		set_current_state(TASK_INTERRUPTIBLE);
		local_irq_enable();
		schedule();
		local_irq_disable();
		return STEP_NONE;
	case STEP_SLEEP: {
		ktime_t delay = ns_to_ktime(task->value);

		set_current_state(TASK_INTERRUPTIBLE);
		local_irq_enable();
		schedule_hrtimeout(&delay, HRTIMER_MODE_REL);
		local_irq_disable();
		return STEP_NONE;
	}
	case STEP_YIELD:
		local_irq_enable();
		yield();
		local_irq_disable();
		return STEP_NONE;
	case STEP_WAKE:
		if (task->other)
			task_wake_here(task->other, task->sync);
		return STEP_NONE;
	case STEP_MIGRATE_DISABLE:
		migrate_disable();
		task->pinned++;
		return STEP_NONE;
	case STEP_MIGRATE_ENABLE:
		if (task->pinned) {
			migrate_enable();
			task->pinned--;
		}
		return STEP_NONE;
	default:
		return command;
	}
}

/* Runs until there is something to do in user mode. */
static enum step_command run(struct script_task *task)
{
	enum step_command command = STEP_NONE;

	local_irq_disable();
	if (task->doomed) {
		for (; task->pinned; task->pinned--)
			migrate_enable();
		task->command = STEP_EXIT;
	}
	if (!task->command) {
		task->in_run = true;
		cpu_park();
		task->in_run = false;
	}
	if (task->command)
		command = execute(task);
	local_irq_enable();
	/* A command may have made the kernel reschedule. Interrupts were off, so it has not done so yet. */
	preempt_disable();
	preempt_enable();
	return command;
}

/* The ioctl RUN. */
int task_run(void)
{
	struct script_task *task = task_of(current);
	enum step_command command;

	if (!task)
		return -ESRCH;
	/* A task that must not migrate is inside the kernel. */
	do
		command = run(task);
	while (task->pinned && command == STEP_NONE);
	return command;
}

static int kernel_body(void *data)
{
	struct script_task *task = data;

	while (run(task) != STEP_EXIT)
		;
	kthread_complete_and_exit(NULL, 0);
}

/* Attributes that a child inherits. */
struct inherited {
	struct cpumask cpus;
	int nr_cpus;
	unsigned int policy, rt_priority;
	int static_prio, normal_prio;
	struct load_weight load;
	u64 slice;
	unsigned char custom_slice;
};

static void get_inherited(struct inherited *from)
{
	cpumask_copy(&from->cpus, &current->cpus_mask);
	from->nr_cpus = current->nr_cpus_allowed;
	from->policy = current->policy;
	from->rt_priority = current->rt_priority;
	from->static_prio = current->static_prio;
	from->normal_prio = current->normal_prio;
	from->load = current->se.load;
	from->slice = current->se.slice;
	from->custom_slice = current->se.custom_slice;
}

/* Changes the attributes of the current task without the scheduler's knowledge. */
static void set_inherited(const struct inherited *to)
{
	cpumask_copy(&current->cpus_mask, &to->cpus);
	current->nr_cpus_allowed = to->nr_cpus;
	current->policy = to->policy;
	current->rt_priority = to->rt_priority;
	current->static_prio = to->static_prio;
	current->normal_prio = to->normal_prio;
	current->se.load = to->load;
	current->se.slice = to->slice;
	current->se.custom_slice = to->custom_slice;
}

static void fill_inherited(struct inherited *to, const struct step_create *request)
{
	bool rt = request->policy == SCHED_FIFO || request->policy == SCHED_RR;

	cpumask_clear(&to->cpus);
	for (int cpu = 1; cpu < nr_cpu_ids; cpu++)
		if (request->cpus & BIT_ULL(cpu))
			cpumask_set_cpu(cpu, &to->cpus);
	to->nr_cpus = cpumask_weight(&to->cpus);
	to->policy = request->policy;
	to->rt_priority = rt ? request->priority : 0;
	to->static_prio = NICE_TO_PRIO(request->nice);
	to->normal_prio = rt ? MAX_RT_PRIO - 1 - request->priority : to->static_prio;
	if (request->policy == SCHED_IDLE) {
		to->load.weight = 3 << SCHED_FIXEDPOINT_SHIFT;
		to->load.inv_weight = 1431655765;
	} else {
		to->load.weight = (unsigned long)kernel.sched_prio_to_weight[request->nice + 20]
				  << SCHED_FIXEDPOINT_SHIFT;
		to->load.inv_weight = kernel.sched_prio_to_wmult[request->nice + 20];
	}
	to->custom_slice = request->slice != 0;
	to->slice = request->slice ?: *kernel.sysctl_sched_base_slice;
}

/* The task that CREATE creates, until it is known. */
static struct script_task *creating;

/*
 * Creates a task that has never run. The child is what a parent with the requested attributes would have
 * forked.
 */
static int create(struct step_create *request, struct kernel_clone_args *args)
{
	static struct inherited own, requested;
	struct script_task *task = add(request->name);
	struct task_struct *p;

	if (IS_ERR(task))
		return PTR_ERR(task);
	args->fn_arg = task;
	get_inherited(&own);
	fill_inherited(&requested, request);
	set_inherited(&requested);
	creating = task;
	p = kernel.copy_process(NULL, 0, NUMA_NO_NODE, args);
	set_inherited(&own);
	if (IS_ERR(p)) {
		creating = NULL;
		return PTR_ERR(p);
	}
	p->wakee_flips = 0;
	p->wakee_flip_decay_ts = jiffies;
	p->last_wakee = NULL;
	/* Linux lets a child inherit this value of the creator. */
	p->se.vprot = 0;
	task_adopt(p);
	return 0;
}

/* The creator creates kernel threads, because only a kernel thread can. */
static struct {
	struct task_struct *thread;
	struct step_create *request;
	struct completion done;
	int result;
} creator;

static int creator_body(void *unused)
{
	for (;;) {
		struct kernel_clone_args args = { .flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED,
						  .fn = kernel_body, .kthread = 1, .exit_signal = SIGCHLD };

		set_current_state(TASK_INTERRUPTIBLE);
		if (!creator.request) {
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);
		args.name = creator.request->name;
		creator.result = create(creator.request, &args);
		creator.request = NULL;
		complete(&creator.done);
	}
	return 0;
}

/* The ioctl CREATE. A new user task returns 0 from the same ioctl when it runs for the first time. */
int task_create(struct step_create *request)
{
	struct kernel_clone_args args = { .exit_signal = SIGCHLD };
	int error;

	if (request->kernel) {
		reinit_completion(&creator.done);
		creator.request = request;
		wake_up_process(creator.thread);
		wait_for_completion(&creator.done);
		return creator.result ?: 1;
	}
	if (request->cgroup >= 0) {
		args.flags = CLONE_INTO_CGROUP;
		args.cgroup = request->cgroup;
	}
	error = create(request, &args);
	return error ?: 1;
}

/* Enters a task that the current task is creating. */
void task_adopt(struct task_struct *p)
{
	struct script_task *parent = task_of(current), *task;

	if (creating) {
		attach(creating, p);
		creating = NULL;
	} else if (parent && parent->child[0]) {
		task = add(parent->child);
		parent->child[0] = 0;
		if (!IS_ERR(task)) {
			task->forked = true;
			attach(task, p);
		}
	}
}

/* Forgets a task whose creation has failed. The kernel frees it. */
void task_abandon(struct task_struct *p)
{
	if (nr_tasks && tasks[nr_tasks - 1].p == p)
		nr_tasks--;
}

/*
 * Wakes a task on this CPU. The first time, it is woken as fork() wakes a child. There is no effect if the
 * task's parent is preempted in fork(), because the parent is going to wake it.
 */
void task_wake_here(struct script_task *task, bool sync)
{
	struct task_struct *p = task->p;
	struct wait_queue_entry entry = { .private = p };

	if (READ_ONCE(p->__state) == TASK_NEW) {
		unsigned long flags;

		if (task->forked)
			return;
		raw_spin_lock_irqsave(&p->pi_lock, flags);
		rq_place_new_task(p, smp_processor_id());
		raw_spin_unlock_irqrestore(&p->pi_lock, flags);
		kernel.wake_up_new_task(p);
		return;
	}
	default_wake_function(&entry, TASK_NORMAL, sync ? 0x10 /* WF_SYNC */ : 0, NULL);
}

static struct script_task *wakee;
static bool wake_sync;

static void wake_in_interrupt(void *unused)
{
	task_wake_here(wakee, wake_sync);
}

/* The ioctl WAKE_FROM. It has no effect if the task does not exist because its parent has not forked it. */
int task_wake_from(const struct step_tell *request)
{
	wakee = task_named(request->task);
	wake_sync = request->sync;
	if (!cpu_online(request->cpu))
		return -ENODEV;
	if (!wakee)
		return 0;
	return pump_run_on(request->cpu, wake_in_interrupt, NULL);
}

/* The ioctl PID. */
int task_number(const struct step_tell *request)
{
	struct script_task *task = task_named(request->task);

	return task ? task_pid_nr(task->p) : -ESRCH;
}

/* The ioctl TELL. */
int task_tell(const struct step_tell *request)
{
	struct script_task *task = task_named(request->task);

	if (!task || !task->p->on_cpu || !task->in_run)
		return -EAGAIN;
	task->other = task_named(request->other);
	strscpy(task->child, request->command == STEP_FORK || request->command == STEP_THREAD ? request->other : "");
	task->value = request->value;
	task->sync = request->sync;
	WRITE_ONCE(task->command, request->command);
	return pump_poke(task_cpu(task->p));
}

/* The ioctl FORGET: ends all tasks. Returns how many still live. When all are dead, forgets them. */
/* Returns whether a task of a CPU has disabled migration. */
int task_pinned(int cpu)
{
	for (int i = 0; i < nr_tasks; i++) {
		struct task_struct *p = tasks[i].p;

		if (p && p->migration_disabled && task_cpu(p) == cpu && !p->exit_state)
			return true;
	}
	return false;
}

int task_forget_all(void)
{
	int alive = 0;

	for (int i = 0; i < nr_tasks; i++) {
		struct task_struct *p = tasks[i].p;
		int cpu;

		if (p->exit_state || READ_ONCE(p->__state) == TASK_DEAD)
			continue;
		alive++;
		tasks[i].doomed = true;
		if (READ_ONCE(p->__state) == TASK_NEW) {
			/* The parent of a forked task wakes it. */
			if (tasks[i].forked)
				continue;
			cpu = cpumask_any_and(p->cpus_ptr, cpu_online_mask);
			/* All CPUs of its affinity may be offline. */
			rq_place_new_task(p, cpu < nr_cpu_ids ? cpu : 0);
			kernel.wake_up_new_task(p);
		} else {
			wake_up_process(p);
		}
		if (p->on_cpu)
			pump_poke(task_cpu(p));
	}
	if (alive)
		return alive;
	for (int i = 0; i < nr_tasks; i++)
		put_task_struct(tasks[i].p);
	nr_tasks = 0;
	return 0;
}

int task_init(void)
{
	init_completion(&creator.done);
	creator.thread = kthread_create_on_cpu(creator_body, NULL, 0, "creator");
	if (IS_ERR(creator.thread))
		return PTR_ERR(creator.thread);
	sched_set_fifo(creator.thread);
	wake_up_process(creator.thread);
	return 0;
}
