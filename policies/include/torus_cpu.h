/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CPUs of a torus (torus_neighbours.h): their load averages, and pushes of processes.
 */
#ifndef TORUS_CPU_H
#define TORUS_CPU_H

#include "cpu_array.h"
#include "plan9.h"
#include "torus_neighbours.h"

/* Number of waiting processes that a push examines. */
#define MAX_LOOK 64
/* Load of one runnable process. Loads are fixed-point numbers with 20 fraction bits. */
#define LOAD_ONE (1ULL << 20)

u64 load_window_ns PARAM("ns, 1000000..100000000000: time over which loads are averaged") = 1000000000;

/* State of one CPU. */
struct cpu {
	struct bpf_timer timer;
	/* Average number of runnable processes, in units of LOAD_ONE. */
	u64 load;
	/* Time of the last update of `load`. */
	u64 updated;
	/* Whether the timer is started. */
	u32 armed;
	/* Whether the CPU runs a process of this policy. */
	bool running;
	/* Level of that process. */
	u32 level;
	/* The CPUs to which this CPU may push processes. */
	struct neighbours beside;
} CPU_ALIGNED;

CPU_MAP(cpu)

/* Returns the number of runnable processes of a CPU, including the running one. */
static __always_inline u32 nr_runnable(struct cpu *c, u32 cpu)
{
	s32 waiting = scx_bpf_dsq_nr_queued(cpu);

	return c->running + (waiting > 0 ? waiting : 0);
}

/* Updates the load average of a CPU to the current time. */
static __always_inline void update_load(struct cpu *c, u32 cpu)
{
	u64 now = bpf_ktime_get_ns(), window = load_window_ns / 1000, us;

	us = now > c->updated ? (now - c->updated) / 1000 : 0;
	if (us > window)
		us = window;
	c->updated = now;
	if (window)
		c->load = (c->load * (window - us) + nr_runnable(c, cpu) * LOAD_ONE * us) / window;
}

/*
 * Moves the first process waiting in DSQ `from` that may run on `cpu` to DSQ `to`. Returns whether
 * it moved a process.
 */
static __always_inline bool push(u32 from, u32 cpu, u64 to)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	bool pushed = false;
	s32 i;

	if (!bpf_iter_scx_dsq_new(&it, from, 0)) {
		bpf_for(i, 0, MAX_LOOK) {
			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || p->migration_disabled)
				continue;
			/*
			 * The queue of a CPU is ordered by key, so the process keeps its key there.
			 * A local DSQ is a FIFO without keys.
			 */
			if (to == cpu)
				pushed = scx_bpf_dsq_move_vtime(&it, p, to, 0);
			else
				pushed = scx_bpf_dsq_move(&it, p, to, 0);
			if (pushed)
				break;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return pushed;
}

#endif
