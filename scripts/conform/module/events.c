// SPDX-License-Identifier: GPL-2.0-only
/* Logs what the scheduler does: its tracepoints, and the calls that explain a migration. */
#include <linux/kprobes.h>
#include <linux/stacktrace.h>
#include <linux/tracepoint.h>
#include <linux/kallsyms.h>

#include "step.h"

static bool logging;

/* Logs an event with its time. */
void log_event(const char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	vscnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	log_add("@%lld %s\n", clock_since_begin(clock_now()), text);
}

int events_logging(void)
{
	return logging;
}

int current_cpu(void)
{
	return raw_smp_processor_id();
}

/*
 * Returns whether an event is not part of the script. Kernel threads of the driven CPUs, such as the
 * stopper, take no time, so the log leaves them out.
 */
static bool foreign(struct task_struct *p)
{
	return !logging || !task_of(p);
}

static void on_wakeup(void *unused, struct task_struct *p)
{
	/* stop_machine() begins. */
	if (task_cpu(p) == 0 && rq_stopper_queued(0))
		ipi_flush();
	if (!foreign(p))
		log_event("wakeup %s cpu=%d", task_name(p), task_cpu(p));
}

static void on_wakeup_new(void *unused, struct task_struct *p)
{
	if (!foreign(p))
		log_event("wakeup_new %s cpu=%d", task_name(p), task_cpu(p));
}

/* The last switch away from a task of the script or from idle to a kernel thread. */
static DEFINE_PER_CPU(struct last_switch {
	struct task_struct *prev;
	const char *state;
}, last_switch);

static void on_switch(void *unused, bool preempt, struct task_struct *prev, struct task_struct *next,
		      unsigned int prev_state)
{
	struct last_switch *last = this_cpu_ptr(&last_switch);
	const char *state = prev_state == TASK_RUNNING ? "runnable" :
			    prev_state & (EXIT_DEAD | TASK_DEAD) ? "dead" : "blocked";

	if (!logging || raw_smp_processor_id() == 0)
		return;
	if (is_idle_task(prev) || task_of(prev)) {
		last->prev = prev;
		last->state = state;
	}
	if (!is_idle_task(next) && !task_of(next))
		return;
	if (last->prev == next && !strcmp(last->state, "runnable"))
		return;
	if (is_idle_task(last->prev))
		log_event("switch cpu=%d prev=idle next=%s", raw_smp_processor_id(), task_name(next));
	else
		log_event("switch cpu=%d prev=%s state=%s next=%s", raw_smp_processor_id(), task_name(last->prev),
			  last->state, task_name(next));
}

/* Functions that move tasks, and what a migration inside them is called. */
static const struct {
	const char *function, *reason;
} movers[] = {
	{ "active_load_balance_cpu_stop", "active_balance" },
	{ "active_load_balance_llc_cpu_stop", "active_balance" },
	{ "sched_balance_rq", "balance" },
	{ "__balance_push_cpu_stop", "hotplug" },
	{ "migration_cpu_stop", "stopper" },
	{ "push_rt_task", "rt_push" },
	{ "pull_rt_task", "rt_pull" },
	{ "push_cpu_stop", "rt_push" },
	{ "move_remote_task_to_local_dsq", "dispatch" },
	{ "try_to_wake_up", "wake" },
	{ "affine_move_task", "affinity" },
	{ "__set_cpus_allowed_ptr_locked", "affinity" },
	{ "__set_cpus_allowed_ptr", "affinity" },
};

struct balance_context {
	const void *sd;
	int idle, cpu;
};
static DEFINE_PER_CPU(struct balance_context, balance);

static int on_balance(struct kprobe *probe, struct pt_regs *regs)
{
	struct balance_context *context = this_cpu_ptr(&balance);

	context->cpu = regs->di;
	context->sd = (void *)regs->dx;
	context->idle = regs->cx;
	return 0;
}

static struct kprobe balance_probe = { .symbol_name = "sched_balance_rq", .pre_handler = on_balance };

static void on_migrate(void *unused, struct task_struct *p, int cpu)
{
	unsigned long stack[24];
	const char *reason = "other";
	char detail[80] = "";
	int depth;

	if (foreign(p))
		return;
	depth = stack_trace_save(stack, ARRAY_SIZE(stack), 1);
	for (int i = 0; i < depth; i++) {
		char symbol[KSYM_SYMBOL_LEN];

		sprint_symbol_no_offset(symbol, stack[i]);
		for (int m = 0; m < ARRAY_SIZE(movers); m++)
			if (!strcmp(symbol, movers[m].function)) {
				reason = movers[m].reason;
				goto found;
			}
	}
found:
	if (!strcmp(reason, "balance"))
		balance_describe(this_cpu_ptr(&balance)->sd, this_cpu_ptr(&balance)->idle,
				 this_cpu_ptr(&balance)->cpu != raw_smp_processor_id(), detail, sizeof(detail));
	log_event("migrate %s cpu=%d to=%d by=%s%s", task_name(p), task_cpu(p), cpu, reason, detail);
}

/* A sub-scheduler becomes part of the hierarchy. None of its callbacks has been called yet. */
static int on_link(struct kprobe *probe, struct pt_regs *regs)
{
	if (logging)
		ext_watch_sub((struct scx_sched *)regs->di);
	return 0;
}

static struct kprobe link_probe = { .symbol_name = "scx_link_sched", .pre_handler = on_link };

static void on_fork(void *unused, struct task_struct *parent, struct task_struct *child)
{
	if (task_of(parent) && !task_of(child))
		task_adopt(child);
}

/*
 * A task of a script may exit while it must not migrate. Linux would count it for ever, and its CPU could not
 * go offline.
 */
static void on_exit(void *unused, struct task_struct *p, bool group_dead)
{
	if (task_of(p) && p->migration_disabled)
		rq_forget_pinned(task_cpu(p));
}

static const struct {
	const char *name;
	void *probe;
} probes[] = {
	{ "sched_wakeup", on_wakeup },
	{ "sched_wakeup_new", on_wakeup_new },
	{ "sched_switch", on_switch },
	{ "sched_migrate_task", on_migrate },
	{ "sched_process_fork", on_fork },
	{ "sched_process_exit", on_exit },
};

static void attach(struct tracepoint *tracepoint, void *unused)
{
	for (int i = 0; i < ARRAY_SIZE(probes); i++)
		if (!strcmp(tracepoint->name, probes[i].name))
			WARN_ON(tracepoint_probe_register(tracepoint, probes[i].probe, NULL));
}

void events_log(bool on)
{
	logging = on;
}

int events_init(void)
{
	for_each_kernel_tracepoint(attach, NULL);
	return register_kprobe(&balance_probe) ?: register_kprobe(&link_probe);
}
