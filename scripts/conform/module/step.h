/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared declarations of the module, for files that use the kernel's headers.
 *
 * CPU 0 is the housekeeping CPU: the module's own code and all tasks that do not belong to a script run
 * there. The other CPUs are driven: they run only the tasks of a script.
 */
#ifndef STEP_H
#define STEP_H

#include <linux/clockchips.h>
#include <linux/cpumask.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/smp.h>
#include <linux/workqueue.h>
#include <asm/apic.h>
#include <asm/x86_init.h>

#include "abi.h"
#include "inside.h"

/* symbols.c: functions and variables of the kernel that are not exported */
#define KERNEL_FUNCTIONS(F)                                                                                        \
	F(void, paravirt_set_sched_clock, u64 (*)(void))                                                           \
	F(void, __static_call_update, void *, void *, void *)                                                      \
	F(void, native_smp_send_reschedule, int)                                                                   \
	F(void, native_send_call_func_ipi, const struct cpumask *)                                                 \
	F(void, native_send_call_func_single_ipi, int)                                                             \
	F(struct task_struct *, copy_process, struct pid *, int, int, struct kernel_clone_args *)                  \
	F(void, wake_up_new_task, struct task_struct *)                                                            \
	F(void, set_cpus_allowed_force, struct task_struct *, const struct cpumask *)                              \
	F(void, __x86_return_thunk, void)                                                                          \
	F(void, numa_set_node, int, int)                                                                           \
	F(void, sched_update_numa, int, bool)                                                                      \
	F(void, sched_domains_numa_masks_set, unsigned int)                                                        \
	F(bool, arch_enable_hybrid_capacity_scale, void)                                                           \
	F(void, arch_set_cpu_capacity, int, unsigned long, unsigned long, unsigned long, unsigned long)            \
	F(void, rebuild_sched_domains, void)                                                                       \
	F(struct cpu_cacheinfo *, get_cpu_cacheinfo, unsigned int)                                                 \
	F(void, nohz_balance_exit_idle, struct rq *)                                                               \
	F(void, nohz_balance_enter_idle, int)
#define KERNEL_VARIABLES(V)                                                                                        \
	V(u64, __sched_clock_offset)                                                                               \
	V(struct apic *, apic)                                                                                     \
	V(struct clock_event_device, lapic_events)                                                                 \
	V(call_single_data_t, csd_data)                                                                            \
	V(struct llist_head, call_single_queue)                                                                    \
	V(struct x86_cpuinit_ops, x86_cpuinit)                                                                     \
	V(struct delayed_work, vmstat_work)                                                                        \
	V(struct delayed_work, shepherd)                                                                           \
	V(char, runqueues)                                                                                         \
	V(bool, scx_init_task_enabled)                                                                             \
	V(cpumask_var_t, cpu_sibling_map)                                                                          \
	V(cpumask_var_t, cpu_l2c_shared_map)                                                                       \
	V(cpumask_var_t, cpu_llc_shared_map)                                                                       \
	V(cpumask_var_t, cpu_die_map)                                                                              \
	V(cpumask_var_t, cpu_core_map)                                                                             \
	V(int, __max_smt_threads)                                                                                  \
	V(s16, __apicid_to_node)                                                                                   \
	V(cpumask_var_t, node_to_cpumask_map)                                                                      \
	V(u8 *, numa_distance)                                                                                     \
	V(int, numa_distance_cnt)                                                                                  \
	V(void *, sched_domain_topology_saved)                                                                     \
	V(char, x86_topology)                                                                                      \
	V(struct static_key_false, sched_smt_present)                                                              \
	V(int, sd_llc_id)                                                                                          \
	V(cpumask_var_t, sched_domains_llc_id_allocmask)                                                           \
	V(int, max_lid)                                                                                            \
	V(bool, x86_topology_update)                                                                               \
	V(int, sched_prio_to_weight)                                                                               \
	V(u32, sched_prio_to_wmult)                                                                                \
	V(unsigned int, sysctl_sched_base_slice)

struct kernel {
#define F(result, name, ...) result (*name)(__VA_ARGS__);
#define V(type, name) typeof(type) *name;
	KERNEL_FUNCTIONS(F) KERNEL_VARIABLES(V)
#undef F
#undef V
};
extern struct kernel kernel;
void *symbol_find(const char *name);
int symbols_init(void);

/* clock.c: the clocks of the kernel */
int clock_init(void);
bool clock_exact(void);
void clock_set(u64 ns);
u64 clock_next_event(int *cpu);
void clock_fire(int cpu);

/* ipi.c: interrupts between CPUs, and CPUs at rest */
int ipi_init(void);
void ipi_hold(bool on);
void ipi_flush(void);
void cpu_park(void);
bool cpu_resting(int cpu);
bool ipi_deliver_next(void);
void ipi_timer(int cpu);
void ipi_run_on(int cpu, void (*function)(void *), void *argument);
void ipi_poke(int cpu);
int ipi_restless(void);
void ipi_wait_for_rest(void);
bool ipi_at_rest(void);

/* house.c: CPU 0 */
int house_init(void);
void house_take_in(void);
void house_promote(void);
void house_shelter(bool on);
bool house_ends_policy(void);

/* pump.c: the thread that moves time and delivers interrupts */
int pump_start(void);
void pump_flow(bool on);
void pump_idle(bool on);
int pump_run_on(int cpu, void (*function)(void *), void *argument);
int pump_poke(int cpu);
int pump_advance(u64 until);
int pump_settle(void);

/* task.c: the tasks of the script */
#define STEP_TASKS 64
struct script_task {
	char name[STEP_NAME];
	struct task_struct *p;
	bool in_run;               /* waits for a command or an interrupt */
	bool doomed;               /* exits as soon as it runs */
	bool forked;               /* its parent wakes it at the end of fork() */
	int pinned;                /* calls of migrate_disable() without migrate_enable() */
	enum step_command command; /* and its arguments: */
	u64 value;
	struct script_task *other;
	bool sync;
	char child[STEP_NAME];
};
int task_init(void);
struct script_task *task_named(const char *name);
struct script_task *task_of(struct task_struct *p);
void task_abandon(struct task_struct *p);
int task_create(struct step_create *request);
int task_run(void);
int task_tell(const struct step_tell *request);
int task_number(const struct step_tell *request);
int task_wake_from(const struct step_tell *request);
void task_wake_here(struct script_task *task, bool sync);
int task_pinned(int cpu);
int task_forget_all(void);

/* machine.c: the topology */
int machine_init(void);
void machine_set(const struct step_machine *new);

/* log.c */
int log_init(void);
__printf(1, 2) void log_add(const char *format, ...);
ssize_t log_read(char __user *to, size_t size);
void log_forget_rows(void);

/* events.c */
int events_init(void);
void events_log(bool on);

#endif
