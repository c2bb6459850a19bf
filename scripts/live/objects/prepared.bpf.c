/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy that must be set up before it is enabled. The profile prepared.toml does this in place
 * of a user-space part: it gives a map and an array one element per CPU, runs a program for each
 * CPU, and sets a callback flag. ops.init() checks the elements of the map, which the program has
 * set, and writes all elements of the array. The counter nr_last shows the effect of the flag.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

const volatile u32 nr_cpus = 1;
/* The profile sets element k to k + 1. */
u32 slots[1] SEC(".data.slots");
u64 nr_prepared;
u64 nr_last;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} sized SEC(".maps");

struct prepare_args {
	s32 cpu;
};

SEC("syscall")
int prepare(struct prepare_args *args)
{
	u32 cpu = args->cpu;
	u64 value = cpu + 1;

	if (bpf_map_update_elem(&sized, &cpu, &value, 0))
		return -1;
	__sync_fetch_and_add(&nr_prepared, 1);
	return 0;
}

s32 SCX_OP_SLEEPABLE(prepared_init)
{
	u32 *all = slots;

	/* The compiler must not assume that the array has only one element, as declared. */
	barrier_var(all);
	for (u32 cpu = 0; cpu < nr_cpus && cpu < 1024; cpu++) {
		u32 key = cpu;
		u64 *value = bpf_map_lookup_elem(&sized, &key);

		if (!value || *value != cpu + 1)
			return -22;
		all[cpu] = *value;
	}
	return 0;
}

void SCX_OP(prepared_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (enq_flags & SCX_ENQ_LAST)
		__sync_fetch_and_add(&nr_last, 1);
	scx_bpf_dsq_insert(p, enq_flags & SCX_ENQ_LAST ? SCX_DSQ_LOCAL : SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS(prepared_ops,
	.enqueue = (void *)prepared_enqueue,
	.init = (void *)prepared_init,
	.name = "prepared");
