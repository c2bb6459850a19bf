// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pump is a thread on CPU 0 with the lowest priority of all tasks there. It therefore acts only
 * while CPU 0 has nothing else to do, and then does the first of these things that is possible:
 *
 *   1. deliver the interrupt that has waited longest
 *   2. start what the runner has asked for on a driven CPU
 *   3. move time to the next timer, and let it expire
 *   4. report to the runner that the machine is at rest
 *
 * Outside of scripts, time flows whenever nobody has anything to do.
 */
#include <linux/completion.h>
#include <linux/kthread.h>
#include <asm/irqflags.h>

#include "step.h"

static struct task_struct *pump;
static DECLARE_COMPLETION(done);

/* What the runner waits for. */
static struct {
	bool pending;
	u64 until;                /* 0, or the time to which the pump moves time */
	int cpu;                  /* the CPU that executes `function`, or whose halt ends */
	void (*function)(void *);
	void *argument;
} request;

static bool flowing = true;

/* Lets time flow, or lets CPUs and time advance step by step. */
void pump_flow(bool on)
{
	flowing = on;
	ipi_hold(!on);
}

static bool idle;

/* Halts CPU 0 while the guest waits for a request of the host. */
void pump_idle(bool on)
{
	idle = on;
}

/* Moves time to the next timer, or to `until` if that is earlier. Returns whether there was anything to do. */
static bool advance(u64 until)
{
	u64 next;
	int cpu;

	next = clock_next_event(&cpu);
	if (next > until) {
		if (until == KTIME_MAX || clock_now() >= until)
			return false;
		clock_set(until);
		return true;
	}
	if (next > clock_now())
		clock_set(next);
	ipi_timer(cpu);
	return true;
}

/* Number of turns for which the pump waits for a thread that ends a policy, or for a CPU. */
#define PATIENCE 10000000

static void work(void)
{
	static int waited;
	int cpu = request.cpu;

	house_promote();
	if (!flowing && ipi_restless() && waited++ < PATIENCE) {
		cpu_relax();
		return;
	}
	if (ipi_deliver_next()) {
		waited = 0;
		return;
	}
	if (cpu && !house_ends_policy()) {
		request.cpu = 0;
		if (request.function)
			ipi_run_on(cpu, request.function, request.argument);
		else
			ipi_poke(cpu);
		return;
	}
	/* The thread waits for a grace period of RCU, which takes no time of the script. */
	if (house_ends_policy() && waited++ < PATIENCE) {
		cpu_relax();
		return;
	}
	waited = 0;
	if (!flowing && ipi_at_rest())
		return;
	if (request.pending) {
		if (request.until && advance(request.until))
			return;
		request.pending = false;
		complete(&done);
		return;
	}
	if (idle) {
		local_irq_disable();
		if (need_resched() || rq_has_normal_tasks(0))
			local_irq_enable();
		else
			safe_halt();
		return;
	}
	if (flowing)
		advance(KTIME_MAX);
	cpu_relax();
}

static int pump_body(void *unused)
{
	while (!kthread_should_stop()) {
		work();
		/* The pump never sleeps, so it reports its quiescent states to RCU tasks on its own. */
		cond_resched_tasks_rcu_qs();
	}
	return 0;
}

static int wait(void)
{
	request.pending = true;
	wait_for_completion(&done);
	return 0;
}

/* Executes a function in an interrupt on a CPU. Returns when the machine is at rest. */
int pump_run_on(int cpu, void (*function)(void *), void *argument)
{
	request.function = function;
	request.argument = argument;
	request.cpu = cpu;
	return wait();
}

/* Lets the task of a CPU execute a command. Returns when the machine is at rest. */
int pump_poke(int cpu)
{
	request.function = NULL;
	request.cpu = cpu;
	return wait();
}

/* Moves time forward. Returns when the machine is at rest. */
int pump_advance(u64 until)
{
	request.until = until;
	wait();
	request.until = 0;
	return 0;
}

/* Returns when the machine is at rest. */
int pump_settle(void)
{
	return wait();
}

int pump_start(void)
{
	pump = kthread_create_on_cpu(pump_body, NULL, 0, "pump");
	if (IS_ERR(pump))
		return PTR_ERR(pump);
	sched_set_fifo_low(pump);
	wake_up_process(pump);
	return 0;
}
