/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queues of ready threads with strict priority levels: each CPU has one FIFO dispatch queue (DSQ)
 * for each of 32 levels, and a mask of the levels that may hold threads.
 *
 * A CPU that adds a thread to a level sets the level's bit in the mask. Only the CPU that owns the
 * queues clears bits. When that CPU finds a level empty, it clears the bit and then checks the
 * level again, so it does not miss a thread that arrived in between.
 *
 * The functions that loop over levels or CPUs are global (not static). The verifier checks a global
 * function once, instead of at every call.
 */
#ifndef READY_QUEUES_H
#define READY_QUEUES_H

#include "cpu_array.h"

/* Number of levels of a CPU; level 31 is the highest. */
#define LEVELS 32
/* ID of the DSQ of a level. */
#define QUEUE(cpu, level) ((u64)(cpu) * LEVELS + (level))

/* State of one CPU. */
struct cpu {
	/* Mask of the levels that may hold threads. */
	u32 ready;
	/* Whether the CPU runs a thread of this policy. */
	bool running;
	/* Level of that thread. */
	u32 level;
	/* Number of levels by which threads that this CPU is waking are boosted (wait_causes.h). */
	u32 boost;
	/* The cause that set `boost`, a value of enum wait_cause, or 0 (wait_causes.h). */
	u32 cause;
} CPU_ALIGNED;

CPU_VARIABLES(cpu)

/* Returns the highest level of a mask, which must not be 0. */
__noinline u32 highest(u32 ready)
{
	u32 level = 0;

	if (ready >> 16) {
		level += 16;
		ready >>= 16;
	}
	if (ready >> 8) {
		level += 8;
		ready >>= 8;
	}
	if (ready >> 4) {
		level += 4;
		ready >>= 4;
	}
	if (ready >> 2) {
		level += 2;
		ready >>= 2;
	}
	return level + (ready >> 1 & 1);
}

/* Adds a thread to a level of a CPU. Called from ops.enqueue(). */
static __always_inline void ready_insert(struct cpu *c, struct task_struct *p, u32 cpu, u32 level, u64 slice, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE(cpu, level), slice, enq_flags);
	__sync_fetch_and_or(&c->ready, 1U << level);
}

/*
 * Takes a thread from the queues of CPU `from`: the first thread in the highest level that may run
 * on this CPU and has at least level `least`. Returns whether it took a thread. Called from
 * ops.dispatch().
 */
__noinline int ready_take(u32 from, u32 least)
{
	struct cpu *c = cpu_of(from);
	u32 ready, i;
	int taken = 0;

	if (!c)
		return 0;
	ready = c->ready;
	bpf_for(i, 0, LEVELS) {
		u32 level, bit;

		if (!ready)
			break;
		level = highest(ready) & (LEVELS - 1);
		bit = 1U << level;
		if (level < least)
			break;
		if (scx_bpf_dsq_move_to_local(QUEUE(from, level))) {
			taken = 1;
			break;
		}
		ready &= ~bit;
		if (scx_bpf_dsq_nr_queued(QUEUE(from, level)) > 0)
			continue;
		/*
		 * Another CPU may be inserting a thread, which becomes visible in the queue only
		 * when ops.enqueue() returns. If this CPU cleared the bit, the owner of the queues
		 * would overlook that thread. Only the owner may therefore clear the bit.
		 */
		if (from != bpf_get_smp_processor_id())
			continue;
		__sync_fetch_and_and(&c->ready, ~bit);
		if (scx_bpf_dsq_nr_queued(QUEUE(from, level)) > 0)
			__sync_fetch_and_or(&c->ready, bit);
	}
	return taken;
}

/* Returns the number of threads that wait at a CPU. */
__noinline u32 ready_count(u32 cpu)
{
	struct cpu *c = cpu_of(cpu);
	u32 ready, count = 0, i;

	if (!c)
		return 0;
	ready = c->ready;
	bpf_for(i, 0, LEVELS) {
		u32 level;
		s32 waiting;

		if (!ready)
			break;
		level = highest(ready) & (LEVELS - 1);
		ready &= ~(1U << level);
		waiting = scx_bpf_dsq_nr_queued(QUEUE(cpu, level));
		if (waiting > 0)
			count += waiting;
	}
	return count;
}

/*
 * Returns the other CPU with the most waiting threads, or -1 if no other CPU has waiting threads.
 * Among CPUs with equally many waiting threads, returns the next one after `cpu`.
 */
__noinline s32 ready_busiest(u32 cpu)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), most = 0, i;
	s32 busiest = -1;

	bpf_for(i, 1, nr_cpus) {
		u32 other = cpu + i < nr_cpus ? cpu + i : cpu + i - nr_cpus;
		u32 count = ready_count(other);

		if (count > most) {
			most = count;
			busiest = other;
		}
	}
	return busiest;
}

/* Creates the queues. Called when the policy is loaded. */
static __always_inline s32 ready_init(void)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), i;
	s32 ret;

	if (!nr_cpus || nr_cpus > MAX_CPUS)
		return -E2BIG;
	bpf_for(i, 0, nr_cpus * LEVELS) {
		ret = scx_bpf_create_dsq(i, -1);
		if (ret)
			return ret;
	}
	return 0;
}

#endif
