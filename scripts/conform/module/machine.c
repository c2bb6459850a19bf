// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gives the kernel the machine of a script. The data are those that firmware and CPUID would have
 * supplied; the kernel builds its scheduling domains from them as after a hotplug. CPU 0 is in no
 * domain.
 */
#include <linux/cacheinfo.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/kprobes.h>
#include <linux/nodemask.h>
#include <linux/topology.h>

#include "step.h"

static struct step_machine machine;

/* Returns the number of nodes of the script's machine. */
int node_count(void)
{
	int count = 1;

	for (int cpu = 1; cpu < STEP_MAX_CPUS; cpu++)
		count = max_t(int, count, machine.node[cpu] + 1);
	return count;
}

static void set_mask(cpumask_var_t __percpu *maps, int cpu, u64 cpus)
{
	struct cpumask *map = *per_cpu_ptr(maps, cpu);

	cpumask_clear(map);
	for (int other = 0; other < nr_cpu_ids; other++)
		if (cpus & BIT_ULL(other))
			cpumask_set_cpu(other, map);
}

static u64 online_cpus(void)
{
	u64 online = 0;
	int cpu;

	for_each_online_cpu(cpu)
		online |= BIT_ULL(cpu);
	return online;
}

/* The driven CPUs of a node. */
static u64 node_cpus(int node)
{
	u64 cpus = 0;

	for (int cpu = 1; cpu < nr_cpu_ids; cpu++)
		if (machine.node[cpu] == node)
			cpus |= BIT_ULL(cpu);
	return cpus;
}

/* Describes the last-level cache of a CPU in /sys, where the profiles of policies read it. */
static void describe_llc(int cpu)
{
	struct cpu_cacheinfo *caches = kernel.get_cpu_cacheinfo(cpu);

	for (int i = 0; caches->info_list && i < caches->num_leaves; i++)
		if (caches->info_list[i].level == 3)
			cpumask_copy(&caches->info_list[i].shared_cpu_map, *per_cpu_ptr(kernel.cpu_llc_shared_map, cpu));
}

/* CPU 0 shares nothing with the driven CPUs but its node. */
static void set_caches(void)
{
	u64 online = online_cpus();
	int threads = 1, cpu;

	for_each_online_cpu(cpu) {
		u64 self = BIT_ULL(cpu), node = cpu ? node_cpus(machine.node[cpu]) & online : self;

		set_mask(kernel.cpu_sibling_map, cpu, cpu ? machine.smt[cpu] & online : self);
		set_mask(kernel.cpu_l2c_shared_map, cpu, cpu ? machine.cluster[cpu] & online : self);
		set_mask(kernel.cpu_llc_shared_map, cpu, cpu ? machine.llc[cpu] & online : self);
		describe_llc(cpu);
		set_mask(kernel.cpu_die_map, cpu, node);
		set_mask(kernel.cpu_core_map, cpu, node);
		if (cpu)
			threads = max_t(int, threads, hweight64(machine.smt[cpu] & online));
	}
	*kernel.__max_smt_threads = threads;
}

static void set_node(int cpu)
{
	kernel.numa_set_node(cpu, machine.node[cpu]);
	kernel.__apicid_to_node[per_cpu(x86_cpu_to_apicid, cpu)] = machine.node[cpu];
}

static void set_nodes(void)
{
	int home = machine.node[0], cpu, node;

	for (node = 0; node < STEP_MAX_NODES && node < *kernel.numa_distance_cnt; node++) {
		cpumask_clear(kernel.node_to_cpumask_map[node]);
		if (node == home || node_cpus(node))
			node_set_state(node, N_CPU);
		else
			node_clear_state(node, N_CPU);
		for (int other = 0; other < STEP_MAX_NODES && other < *kernel.numa_distance_cnt; other++)
			(*kernel.numa_distance)[node * *kernel.numa_distance_cnt + other] =
				machine.distance[node][other];
	}
	for_each_online_cpu(cpu)
		set_node(cpu);
	/* The kernel forgets the old distances when the first CPU of a node appears. */
	cpumask_set_cpu(0, kernel.node_to_cpumask_map[home]);
	*kernel.sched_domain_topology_saved = kernel.x86_topology;
	kernel.sched_update_numa(0, true);
	for_each_online_cpu(cpu) {
		cpumask_set_cpu(cpu, kernel.node_to_cpumask_map[machine.node[cpu]]);
		kernel.sched_domains_numa_masks_set(cpu);
	}
}

/* Counts the cores with two threads, as the kernel does when it activates CPUs. */
static void set_smt_key(void)
{
	int cores = 0;

	for (int cpu = 1; cpu < nr_cpu_ids; cpu++)
		if (cpu_online(cpu) && __ffs64(machine.smt[cpu]) == cpu && hweight64(machine.smt[cpu]) > 1)
			cores++;
	while (static_key_count(&kernel.sched_smt_present->key) < cores)
		static_branch_inc(kernel.sched_smt_present);
	while (static_key_count(&kernel.sched_smt_present->key) > cores)
		static_branch_dec(kernel.sched_smt_present);
}

static void set_capacities(void)
{
	static bool enabled;
	bool equal = true;

	for (int cpu = 1; cpu < nr_cpu_ids; cpu++)
		equal &= machine.capacity[cpu] == 1024;
	if (!enabled && equal)
		return;
	if (!enabled)
		enabled = kernel.arch_enable_hybrid_capacity_scale();
	for (int cpu = 0; cpu < nr_cpu_ids; cpu++)
		kernel.arch_set_cpu_capacity(cpu, machine.capacity[cpu], 1024, 1, 1);
}

/* Builds the scheduling domains of a machine. */
void machine_set(const struct step_machine *new)
{
	machine = *new;
	/* CPU 0 must not add a node or a capacity. */
	machine.node[0] = machine.node[1];
	machine.capacity[0] = machine.capacity[1];
	cpus_read_lock();
	set_caches();
	set_nodes();
	for (int cpu = 0; cpu < nr_cpu_ids; cpu++)
		*per_cpu_ptr(kernel.sd_llc_id, cpu) = -1;
	cpumask_clear(*kernel.sched_domains_llc_id_allocmask);
	*kernel.max_lid = 0;
	cpus_read_unlock();
	set_smt_key();
	set_capacities();
	*kernel.x86_topology_update = true;
	kernel.rebuild_sched_domains();
}

/* Takes CPU 0 out of the domains that the kernel is about to build. */
static int without_cpu0(struct kprobe *probe, struct pt_regs *regs)
{
	cpumask_var_t *domains = (cpumask_var_t *)regs->si;

	for (int i = 0; domains && i < (int)regs->di; i++)
		cpumask_clear_cpu(0, domains[i]);
	return 0;
}

static struct kprobe partition_probe = { .symbol_name = "partition_sched_domains", .pre_handler = without_cpu0 };

/* A CPU that comes online has read its CPUID. */
static int cpu_comes_online(unsigned int cpu)
{
	if (machine.smt[cpu]) {
		set_node(cpu);
		set_caches();
	}
	return 0;
}

int machine_init(void)
{
	int state = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "step:online", cpu_comes_online, NULL);

	return state < 0 ? state : register_kprobe(&partition_probe);
}
