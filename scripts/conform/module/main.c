// SPDX-License-Identifier: GPL-2.0-only
/* Steps the scheduler of the running kernel: the device through which the runner uses the module. */
#include <linux/fs.h>
#include <linux/kprobes.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/tick.h>
#include <linux/uaccess.h>

#include "step.h"

/* The time at which the script began. */
static u64 begin;

unsigned long long script_begin(void)
{
	return begin;
}

long long clock_since_begin(unsigned long long time)
{
	return time - begin;
}

/* For loops over driven CPUs: -1 after the last CPU, 0 if it is offline. */
int cpu_usable(int cpu)
{
	return cpu >= nr_cpu_ids ? -1 : cpu_online(cpu);
}

/*
 * The clocks that a policy reads begin at time 0 of the script, which is another absolute time in each
 * script. While a policy is being loaded, they stand still.
 */
static int policy_clock(struct kprobe *probe, struct pt_regs *regs)
{
	u64 now = clock_now();

	/* The function returns at once. */
	regs->ax = now > begin ? now - begin : 0;
	regs->ip = (unsigned long)kernel.__x86_return_thunk;
	return 1;
}

static struct kprobe policy_clocks[] = {
	{ .symbol_name = "bpf_ktime_get_ns", .pre_handler = policy_clock },
	{ .symbol_name = "bpf_ktime_get_boot_ns", .pre_handler = policy_clock },
	{ .symbol_name = "scx_bpf_now", .pre_handler = policy_clock },
};

static int replace_policy_clocks(void)
{
	for (int i = 0; i < ARRAY_SIZE(policy_clocks); i++) {
		int error = register_kprobe(&policy_clocks[i]);

		if (error)
			return error;
	}
	return 0;
}

/* Times at which PELT, ticks and jiffies have the same phase as at time 0. */
#define PHASE (16384ull * NSEC_PER_MSEC)

/*
 * Gives jiffies the phase of the clock. Their difference depends on the boot, and distant timers of the
 * kernel expire in steps of 8 or 64 jiffies.
 */
static void align_jiffies(void)
{
	unsigned long *jiffies = inside.jiffies, flags;

	local_irq_save(flags);
	*jiffies += (unsigned long)(div_u64(clock_now(), TICK_NSEC) - *jiffies) % (PHASE / TICK_NSEC);
	local_irq_restore(flags);
}

/* Makes a CPU known as idle without a tick. A rebuilt domain counts all its CPUs as busy. */
static void enter_idle(void *unused)
{
	tick_stop(smp_processor_id());
	kernel.nohz_balance_exit_idle(rq_of(smp_processor_id()));
	kernel.nohz_balance_enter_idle(smp_processor_id());
}

/*
 * Begins the preparation of a script: the machine. The runner then loads a policy, and begins the script.
 * Loading takes time; the preparation starts a few seconds before a time at which a script may begin. A
 * policy that is in memory is attached at time 0.
 */
static int script_prepare(const struct step_machine *machine)
{
	/* The kernel may have created threads, for example when the CPUs came online. */
	house_take_in();
	house_shelter(true);
	begin = KTIME_MAX;
	clock_set(roundup(clock_now() + 5 * NSEC_PER_SEC, PHASE) - 5 * NSEC_PER_SEC);
	/* Timers of the last script expire, and the CPUs stop their ticks. */
	pump_advance(clock_now() + NSEC_PER_SEC);
	align_jiffies();
	/* The capacities in the new domains must not depend on past load. */
	for (int cpu = 1; cpu < nr_cpu_ids; cpu++)
		rq_reset(cpu);
	machine_set(machine);
	return 0;
}

/* Moves time to time 0 of the script. From now on, time stands still. */
static int script_approach(void)
{
	u64 first = roundup(clock_now() + 1, PHASE);

	pump_flow(false);
	pump_advance(first);
	begin = first;
	return 0;
}

/* Begins the script, at time 0. */
static int script_start(void)
{
	if (begin == KTIME_MAX)
		script_approach();
	for (int cpu = 1; cpu < nr_cpu_ids; cpu++) {
		if (!cpu_online(cpu) || !rq_idle(cpu))
			pr_err("step: CPU %d is not idle\n", cpu);
		pump_run_on(cpu, enter_idle, NULL);
		rq_reset(cpu);
		domains_reset(cpu);
		random_reset(cpu);
	}
	random_reset(0);
	nohz_reset();
	log_forget_rows();
	ext_watch(true);
	events_log(true);
	return clock_exact() ? 0 : -ETIME;
}

static int script_end(void)
{
	events_log(false);
	ext_watch(false);
	house_shelter(false);
	pump_flow(true);
	return 0;
}

static int log_line(const char __user *from, bool command)
{
	char text[STEP_LINE];
	long length = strncpy_from_user(text, from, sizeof(text) - 1);

	if (length < 0)
		return length;
	text[length] = 0;
	if (command)
		log_add("> %lld %s\n", clock_since_begin(clock_now()), text);
	else
		log_add("%s\n", text);
	return 0;
}

static long step_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	void __user *from = (void __user *)argument;
	union {
		struct step_create create;
		struct step_tell tell;
		struct step_machine machine;
		__u64 ns;
	} request;
	long result;

	if (_IOC_DIR(command) & _IOC_WRITE && copy_from_user(&request, from, _IOC_SIZE(command)))
		return -EFAULT;
	switch (command) {
	case STEP_RUN:
		return task_run();
	case STEP_CREATE:
		return task_create(&request.create);
	case STEP_TELL:
		return task_tell(&request.tell);
	case STEP_PID:
		return task_number(&request.tell);
	case STEP_WAKE_FROM:
		return task_wake_from(&request.tell);
	case STEP_ADVANCE:
		return pump_advance(clock_now() + request.ns);
	case STEP_TICK:
		return pump_advance(roundup(clock_now() + 1, TICK_NSEC));
	case STEP_SETTLE:
		result = pump_settle();
		state_log();
		return result;
	case STEP_NEEDED:
		/* No task of a script runs on CPU 0. */
		return num_online_cpus() == 2 || task_pinned(argument);
	case STEP_REST:
		return pump_settle();
	case STEP_LOG:
		return log_line(from, false);
	case STEP_COMMAND:
		return log_line(from, true);
	case STEP_IDLE:
		pump_idle(argument);
		return 0;
	case STEP_MACHINE:
		return script_prepare(&request.machine);
	case STEP_APPROACH:
		return script_approach();
	case STEP_BEGIN:
		return script_start();
	case STEP_END:
		return script_end();
	case STEP_NEW_GROUP:
		groups_align();
		return 0;
	case STEP_GROUPS:
		return groups_count();
	case STEP_FORGET:
		return task_forget_all();
	default:
		return -ENOTTY;
	}
}

static ssize_t step_read(struct file *file, char __user *to, size_t size, loff_t *offset)
{
	return log_read(to, size);
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = step_ioctl,
	.read = step_read,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "step",
	.fops = &operations,
};

static int __init step_init(void)
{
	int error = symbols_init() ?: log_init() ?: machine_init() ?: house_init() ?: events_init() ?: clock_init();

	if (error)
		return error;
	house_take_in();
	error = task_init() ?: pump_start() ?: replace_policy_clocks() ?: misc_register(&device);
	return error ?: ipi_init();
}

static void __exit step_exit(void)
{
}

module_init(step_init);
module_exit(step_exit);
MODULE_DESCRIPTION("Steps the scheduler");
MODULE_LICENSE("GPL");
