// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes CPUs act one after the other. An interrupt that one CPU sends to another waits in a queue until
 * the pump delivers it. The pump does so only when every CPU is at rest: halted, idle or with a task
 * that has no command to execute.
 */
#include <linux/completion.h>
#include <linux/kprobes.h>
#include <linux/llist.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <asm/hardirq.h>
#include <asm/irqflags.h>

#include "step.h"

static struct {
	int parked;      /* the CPU has halted */
	u64 seen;        /* number of interrupts that it had handled by then */
} cpus[STEP_MAX_CPUS];

/* Interrupts that wait for their delivery, in the order in which they were sent. */
enum kind { RESCHEDULE, CALL_FUNCTION };
static struct interrupt {
	int cpu;
	enum kind kind;
	/* The task whose reschedule request is put off until the delivery, and its number of switches. */
	struct task_struct *put_off;
	unsigned long switches;
} queue[256];
static int queue_length;
static DEFINE_RAW_SPINLOCK(queue_lock);

static __always_inline u64 interrupts(int cpu)
{
	unsigned int *counts = per_cpu(irq_stat, cpu).counts;
	u64 sum = 0;

	/* A flush of the TLB also counts as a function call. */
	for (int i = 0; i < IRQ_COUNT_MAX; i++)
		if (i != IRQ_COUNT_TLB)
			sum += READ_ONCE(counts[i]);
	return sum;
}

/* Number of calls of functions on each CPU that other parts of the kernel asked for. */
static DEFINE_PER_CPU(u64, foreign_calls);

static unsigned long switches_of(struct task_struct *task)
{
	return task->nvcsw + task->nivcsw;
}

static int on_foreign_call(struct kprobe *probe, struct pt_regs *regs)
{
	this_cpu_inc(foreign_calls);
	return 0;
}

/*
 * Another CPU runs a process that has forked, and writes to its memory. At the end of this interrupt, the
 * kernel would honour a reschedule request whose own interrupt has not been delivered yet. The request is
 * put off until then.
 */
static int on_flush(struct kprobe *probe, struct pt_regs *regs)
{
	int cpu = raw_smp_processor_id();

	this_cpu_inc(foreign_calls);
	if (!in_hardirq() || !cpus[cpu].parked || is_idle_task(current) || !test_tsk_need_resched(current))
		return 0;
	raw_spin_lock(&queue_lock);
	for (int i = 0; i < queue_length; i++)
		if (queue[i].cpu == cpu && queue[i].kind == RESCHEDULE) {
			queue[i].put_off = current;
			queue[i].switches = switches_of(current);
			clear_tsk_thread_flag(current, TIF_NEED_RESCHED);
		}
	raw_spin_unlock(&queue_lock);
	return 0;
}

/* RCU asks for a quiescent state; code of the kernel has changed; the TLB is flushed. */
static struct kprobe foreign_probes[] = {
	{ .symbol_name = "rcu_exp_handler", .pre_handler = on_foreign_call },
	{ .symbol_name = "do_sync_core", .pre_handler = on_foreign_call },
	{ .symbol_name = "flush_tlb_func", .pre_handler = on_flush },
	{ .symbol_name = "do_flush_tlb_all", .pre_handler = on_foreign_call },
	{ .symbol_name = "do_kernel_range_flush", .pre_handler = on_foreign_call },
	{ .symbol_name = "__cpa_flush_all", .pre_handler = on_foreign_call },
	{ .symbol_name = "__cpa_flush_tlb", .pre_handler = on_foreign_call },
};

/* Halts this CPU until an interrupt has been handled. Interrupts are off before and after. */
notrace void cpu_park(void)
{
	unsigned long switches = switches_of(current);
	int cpu = raw_smp_processor_id();
	u64 foreign;

	/*
	 * Commands such as a move into a cgroup make RCU interrupt the CPUs, and loading a policy changes the
	 * kernel's code. The script does not know this, so the task must not return to user mode, where it
	 * would honour a lazy reschedule request. A task that was preempted while it was halted does return,
	 * whatever has interrupted the CPU meanwhile.
	 */
	do {
		foreign = this_cpu_read(foreign_calls);
		cpus[cpu].seen = interrupts(cpu);
		smp_store_release(&cpus[cpu].parked, 1);
		asm volatile("sti; hlt; cli" ::: "memory");
		/* A task may be on another CPU now. */
		WRITE_ONCE(cpus[raw_smp_processor_id()].parked, 0);
	} while (switches == switches_of(current) && cpu == raw_smp_processor_id() &&
		 interrupts(cpu) == cpus[cpu].seen + 1 && this_cpu_read(foreign_calls) != foreign);
}

static notrace void step_idle(void)
{
	cpu_park();
}

/* Returns whether a CPU is halted and has no interrupt to handle. */
bool cpu_resting(int cpu)
{
	return smp_load_acquire(&cpus[cpu].parked) && READ_ONCE(cpus[cpu].seen) == interrupts(cpu);
}

static void enqueue(int cpu, enum kind kind)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&queue_lock, flags);
	for (int i = 0; i < queue_length; i++)
		if (queue[i].cpu == cpu && queue[i].kind == kind)
			goto out; /* the interrupt is pending already, as in a local APIC */
	if (WARN_ON_ONCE(queue_length == ARRAY_SIZE(queue)))
		goto out;
	queue[queue_length++] = (struct interrupt){ .cpu = cpu, .kind = kind };
out:
	raw_spin_unlock_irqrestore(&queue_lock, flags);
}

static bool holding;
/* Whether stop_machine() has stopped all CPUs, so the pump cannot run. */
static bool stopped;

/* Returns whether an interrupt waits for the pump. */
static bool held(int cpu)
{
	return holding && cpu && !READ_ONCE(stopped);
}

static void send_reschedule(int cpu)
{
	if (held(cpu))
		enqueue(cpu, RESCHEDULE);
	else
		kernel.native_smp_send_reschedule(cpu);
}

/*
 * The interrupt of smp_call_function_single() is sent at once: its caller waits until the function has
 * run, or at the latest when it calls another function. The scheduler sends its interrupts
 * asynchronously.
 */
static bool somebody_waits(int cpu)
{
	struct llist_node *node = READ_ONCE(per_cpu_ptr(kernel.call_single_queue, cpu)->first);

	for (; node; node = READ_ONCE(node->next)) {
		struct __call_single_node *entry = container_of(node, struct __call_single_node, llist);

		if ((entry->u_flags & CSD_FLAG_TYPE_MASK) == CSD_TYPE_SYNC ||
		    entry == &this_cpu_ptr(kernel.csd_data)->node)
			return true;
	}
	return false;
}

static void send_call_function_single(int cpu)
{
	if (held(cpu) && !somebody_waits(cpu))
		enqueue(cpu, CALL_FUNCTION);
	else
		kernel.native_send_call_func_single_ipi(cpu);
}

/*
 * A CPU that is busy for so many cycles and rounds seems to wait for another CPU. The cycles alone would
 * pass while a busy host does not execute the guest. In a round, an emulator executes the other CPUs.
 */
#define PATIENCE 500000000ull
#define PATIENT_ROUNDS 100000

/*
 * Waits until a CPU is at rest and has handled more than `before` interrupts. Returns early if the CPU
 * seems to wait for another one that has an interrupt to handle. Tasks that the CPU wakes on CPU 0 run
 * afterwards, unless it waits for the stopper of CPU 0.
 */
static void wait_for(int cpu, u64 before)
{
	u64 begun = rdtsc();
	bool reported = false;
	int rounds = 0;

	preempt_disable();
	while (cpu_online(cpu) && !(READ_ONCE(cpus[cpu].seen) > before && cpu_resting(cpu))) {
		if (rounds < PATIENT_ROUNDS) {
			rounds++;
		} else if (rdtsc() - begun > PATIENCE) {
			if (!reported)
				pr_emerg("step: CPU %d does not come to rest: parked %d, %llu of %llu interrupts seen, more than %llu expected\n", cpu,
				       cpus[cpu].parked, cpus[cpu].seen, interrupts(cpu), before);
			reported = true;
			if (queue_length)
				break;
		}
		if (reported || rq_stopper_queued(0)) {
			preempt_enable();
			cpu_relax();
			preempt_disable();
		}
		cpu_relax();
	}
	preempt_enable();
}

/* Waits until a CPU is at rest. Returns the number of interrupts that it has handled. */
static u64 wait_before(int cpu)
{
	wait_for(cpu, 0);
	return interrupts(cpu);
}

static void send(const struct interrupt *interrupt)
{
	if (interrupt->put_off && switches_of(interrupt->put_off) == interrupt->switches)
		set_tsk_thread_flag(interrupt->put_off, TIF_NEED_RESCHED);
	if (interrupt->kind == RESCHEDULE)
		kernel.native_smp_send_reschedule(interrupt->cpu);
	else
		kernel.native_send_call_func_single_ipi(interrupt->cpu);
}

/* Sends all interrupts that wait. */
void ipi_flush(void)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&queue_lock, flags);
	while (queue_length)
		send(&queue[--queue_length]);
	raw_spin_unlock_irqrestore(&queue_lock, flags);
}

/*
 * Sends the interrupts of function calls that wait. The kernel is about to call a function on another CPU
 * and to wait until it has run. It sends no interrupt of its own if one is on its way already.
 */
static int before_call(struct kprobe *probe, struct pt_regs *regs)
{
	unsigned long flags;
	int kept = 0;

	if (!queue_length)
		return 0;
	raw_spin_lock_irqsave(&queue_lock, flags);
	for (int i = 0; i < queue_length; i++)
		if (queue[i].kind == CALL_FUNCTION)
			kernel.native_send_call_func_single_ipi(queue[i].cpu);
		else
			queue[kept++] = queue[i];
	queue_length = kept;
	raw_spin_unlock_irqrestore(&queue_lock, flags);
	return 0;
}

static struct kprobe call_probes[] = {
	{ .symbol_name = "__smp_call_function_single", .pre_handler = before_call },
	{ .symbol_name = "smp_call_function_many_cond", .pre_handler = before_call },
};

/* Begins or ends to hold interrupts back. */
void ipi_hold(bool on)
{
	holding = on;
	if (!on)
		ipi_flush();
}

/* Delivers the interrupt that was sent first, and waits for its effects. Returns whether there was one. */
bool ipi_deliver_next(void)
{
	struct interrupt first;
	unsigned long flags;
	u64 before;

	raw_spin_lock_irqsave(&queue_lock, flags);
	if (!queue_length) {
		raw_spin_unlock_irqrestore(&queue_lock, flags);
		return false;
	}
	first = queue[0];
	memmove(queue, queue + 1, --queue_length * sizeof(queue[0]));
	raw_spin_unlock_irqrestore(&queue_lock, flags);
	before = wait_before(first.cpu);
	send(&first);
	wait_for(first.cpu, before);
	return true;
}

/*
 * CPU 0 waits for a grace period of RCU, or for the readers of a semaphore. The interrupts of RCU would let
 * all CPUs honour their pending reschedule requests at once, so the interrupts are delivered before.
 */
static int before_wait(struct kprobe *probe, struct pt_regs *regs)
{
	if (holding && raw_smp_processor_id() == 0 && !in_interrupt())
		while (queue_length && ipi_deliver_next())
			;
	return 0;
}

/* Waits until all driven CPUs are at rest. */
void ipi_wait_for_rest(void)
{
	while (holding && ipi_restless())
		cpu_relax();
}

/*
 * The thread of a CPU that goes offline has done its work. The CPUs handle the interrupts that its tasks have
 * caused on their way, before stop_machine() stops all CPUs.
 */
static int before_takedown(struct kprobe *probe, struct pt_regs *regs)
{
	ipi_wait_for_rest();
	return before_wait(probe, regs);
}

/*
 * The thread that takes a driven CPU offline waits for a grace period, during which the tasks leave the CPU.
 * The grace period begins when the machine is at rest. Otherwise the number of tasks that leave before its
 * interrupts would be a matter of chance. CPU 0 waits for it, so the thread sleeps once.
 */
static void grace_period(struct work_struct *work);
static struct {
	bool waits;
	struct work_struct work;
	struct completion done;
} waiter = { .work = __WORK_INITIALIZER(waiter.work, grace_period), .done = COMPLETION_INITIALIZER(waiter.done) };

static void grace_period(struct work_struct *work)
{
	synchronize_rcu_expedited();
	complete(&waiter.done);
}

static void synchronize_at_rest(void)
{
	WRITE_ONCE(waiter.waits, true);
	wait_for_completion(&waiter.done);
}

static int before_grace_period(struct kprobe *probe, struct pt_regs *regs)
{
	if (raw_smp_processor_id() == 0)
		return before_wait(probe, regs);
	if (!holding || !(current->flags & PF_KTHREAD))
		return 0;
	instruction_pointer_set(regs, (unsigned long)synchronize_at_rest);
	return 1;
}

/* The machine is at rest. Returns whether a thread has waited for this. */
bool ipi_at_rest(void)
{
	if (!READ_ONCE(waiter.waits))
		return false;
	waiter.waits = false;
	schedule_work_on(0, &waiter.work);
	return true;
}

static struct kprobe wait_probes[] = {
	{ .symbol_name = "synchronize_rcu_expedited", .pre_handler = before_grace_period },
	{ .symbol_name = "percpu_down_write", .pre_handler = before_wait },
	{ .symbol_name = "takedown_cpu", .pre_handler = before_takedown },
};

/* Lets a CPU's timer expire. On CPU 0, the caller is interrupted. */
void ipi_timer(int cpu)
{
	u64 before;

	if (cpu == 0) {
		before = interrupts(0);
		clock_fire(0);
		while (interrupts(0) == before)
			cpu_relax();
		return;
	}
	before = wait_before(cpu);
	clock_fire(cpu);
	wait_for(cpu, before);
}

static DEFINE_PER_CPU(call_single_data_t, run_csd);

/*
 * Executes a function on a CPU in an interrupt, and waits for the effects of the interrupt. No other
 * interrupt may be waiting for its delivery.
 */
void ipi_run_on(int cpu, void (*function)(void *), void *argument)
{
	call_single_data_t *csd = per_cpu_ptr(&run_csd, cpu);

	u64 before = wait_before(cpu);

	INIT_CSD(csd, function, argument);
	smp_call_function_single_async(cpu, csd);
	if (!ipi_deliver_next())
		wait_for(cpu, before);
}

/* Ends the halt of a CPU, so that its task looks for a command. Waits for the effects. */
void ipi_poke(int cpu)
{
	u64 before = wait_before(cpu);

	kernel.native_smp_send_reschedule(cpu);
	wait_for(cpu, before);
}

/* Returns the number of a driven CPU that is not at rest, or 0. */
int ipi_restless(void)
{
	for (int cpu = 1; cpu < nr_cpu_ids; cpu++)
		if (cpu_online(cpu) && !cpu_resting(cpu))
			return cpu;
	return 0;
}

/* Sends the reschedule interrupt of a CPU, if it waits. */
static void send_reschedule_of(int cpu)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&queue_lock, flags);
	for (int i = 0; i < queue_length; i++)
		if (queue[i].cpu == cpu && queue[i].kind == RESCHEDULE) {
			send(&queue[i]);
			memmove(queue + i, queue + i + 1, (--queue_length - i) * sizeof(queue[0]));
			break;
		}
	raw_spin_unlock_irqrestore(&queue_lock, flags);
}

/*
 * When a CPU goes offline or online, stop_machine() stops all others. CPU 0 lets them stop one after the
 * other: their stoppers are queued, but have not been able to run.
 */
static int enter_in_turn(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	if (!holding || raw_smp_processor_id() || !rq_stopper_runs(0))
		return 0;
	for (int cpu = 1; cpu < nr_cpu_ids; cpu++)
		while (cpu_online(cpu) && !rq_stopper_runs(cpu)) {
			send_reschedule_of(cpu);
			cpu_relax();
		}
	WRITE_ONCE(stopped, true);
	return 0;
}

/* Then they schedule anew, one after the other. */
static int leave_in_turn(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	int self = raw_smp_processor_id();

	if (!holding)
		return 0;
	if (!self) {
		WRITE_ONCE(stopped, false);
		return 0;
	}
	for (int cpu = 0; cpu < self && cpu_online(self); cpu++)
		while (cpu ? cpu_online(cpu) && !cpu_resting(cpu) : rq_stopper_queued(0))
			cpu_relax();
	return 0;
}

static struct kretprobe stop_probe = {
	.kp.symbol_name = "multi_cpu_stop",
	.entry_handler = enter_in_turn,
	.handler = leave_in_turn,
	.maxactive = 2 * STEP_MAX_CPUS,
};

int ipi_init(void)
{
	int error;

	for (int i = 0; i < ARRAY_SIZE(foreign_probes); i++) {
		error = register_kprobe(&foreign_probes[i]);
		if (error)
			return error;
	}
	for (int i = 0; i < ARRAY_SIZE(wait_probes); i++) {
		error = register_kprobe(&wait_probes[i]);
		if (error)
			return error;
	}
	for (int i = 0; i < ARRAY_SIZE(call_probes); i++) {
		error = register_kprobe(&call_probes[i]);
		if (error)
			return error;
	}
	error = register_kretprobe(&stop_probe);
	if (error)
		return error;
	kernel.__static_call_update(symbol_find("__SCK__x86_idle"), symbol_find("__SCT__x86_idle"), step_idle);
	smp_ops.smp_send_reschedule = send_reschedule;
	smp_ops.send_call_func_single_ipi = send_call_function_single;
	/* Ends the CPUs' present halts, so that they call step_idle(). */
	for (int cpu = 1; cpu < nr_cpu_ids; cpu++)
		if (cpu_online(cpu))
			kernel.native_smp_send_reschedule(cpu);
	return 0;
}
