// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replaces the clocks of the machine by one that stands still. The kernel reads a counter that only
 * clock_set() moves, and programs timers that only clock_fire() lets expire. All software above the
 * hardware (timekeeping, hrtimers, ticks, jiffies) is the kernel's own.
 */
#include <linux/clocksource.h>
#include <linux/interrupt.h>
#include <linux/ktime.h>
#include <asm/apic.h>
#include <asm/irq_regs.h>
#include <asm/irq_vectors.h>
#include <asm/x86_init.h>

#include "step.h"

static DEFINE_PER_CPU(struct clock_event_device, events);

/* The value of the counter, and the difference to ktime_get(). */
static u64 counter, offset;

static u64 read_counter(struct clocksource *clocksource)
{
	return counter;
}

static struct clocksource clocksource = {
	.name = "step",
	.rating = 1000,
	.read = read_counter,
	.mask = CLOCKSOURCE_MASK(64),
	.flags = CLOCK_SOURCE_IS_CONTINUOUS | CLOCK_SOURCE_VALID_FOR_HRES,
};

/* The scheduler's clock shows the same time as ktime_get(). */
static notrace u64 step_sched_clock(void)
{
	return counter + offset;
}

unsigned long long clock_now(void)
{
	return counter + offset;
}

void clock_set(u64 ns)
{
	counter = ns - offset;
}

/* The expiry is in next_event, so the device has nothing to do. */
static int set_next_event(unsigned long delta, struct clock_event_device *device)
{
	return 0;
}

static int set_state(struct clock_event_device *device)
{
	return 0;
}

/*
 * The handler of the local APIC's timer interrupt. The tick charges user or system time, and reports
 * quiescent states to RCU, according to the interrupted registers. A task of a script waits for its next
 * command inside a system call, but stands for a task that computes in user mode.
 */
static void timer_interrupt(struct clock_event_device *lapic)
{
	struct clock_event_device *device = this_cpu_ptr(&events);
	struct pt_regs *old = NULL;
	bool user = current->mm && smp_processor_id() != 0;

	if (user)
		old = set_irq_regs(task_pt_regs(current));
	device->event_handler(device);
	if (user)
		set_irq_regs(old);
}

static void setup_this_cpu(void)
{
	struct clock_event_device *device = this_cpu_ptr(&events);
	struct clock_event_device *lapic = per_cpu_ptr(kernel.lapic_events, smp_processor_id());

	memset(device, 0, sizeof(*device));
	device->name = "step";
	device->features = CLOCK_EVT_FEAT_ONESHOT;
	device->rating = 1000;
	device->cpumask = cpumask_of(smp_processor_id());
	device->set_next_event = set_next_event;
	device->set_state_shutdown = set_state;
	device->set_state_oneshot = set_state;
	device->set_state_oneshot_stopped = set_state;
	clockevents_config_and_register(device, NSEC_PER_SEC, 1, LONG_MAX);
	lapic->event_handler = timer_interrupt;
}

static void setup_cpu(void *unused)
{
	setup_this_cpu();
}

/* Returns the earliest expiry of all CPUs, and the first CPU that has it. */
u64 clock_next_event(int *cpu)
{
	u64 first = KTIME_MAX;
	int candidate;

	for_each_online_cpu(candidate) {
		u64 next = READ_ONCE(per_cpu_ptr(&events, candidate)->next_event);

		if (next < first) {
			first = next;
			*cpu = candidate;
		}
	}
	return first;
}

/* Sends the timer interrupt to a CPU. */
void clock_fire(int cpu)
{
	(*kernel.apic)->send_IPI(cpu, LOCAL_TIMER_VECTOR);
}

/* Checks that the kernel's adjustments of the clock's rate do not change it. */
bool clock_exact(void)
{
	return ktime_get_ns() == counter + offset;
}

int clock_init(void)
{
	int error = clocksource_register_hz(&clocksource, NSEC_PER_SEC);

	if (error)
		return error;
	offset = ktime_get_ns() - counter;
	/* The scheduler's clock may have been slightly ahead. */
	clock_set(clock_now() + NSEC_PER_SEC);
	*kernel.__sched_clock_offset = 0;
	kernel.paravirt_set_sched_clock(step_sched_clock);
	on_each_cpu(setup_cpu, NULL, true);
	/* A CPU that comes online later gets its timer here. */
	kernel.x86_cpuinit->setup_percpu_clockev = setup_this_cpu;
	return 0;
}
