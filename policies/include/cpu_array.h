/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An array with one struct for each CPU: a struct x, which x_of(cpu) finds.
 *
 * CPU_VARIABLES(x) makes global variables, which are found without a call. A struct with a timer must be in a
 * map, CPU_MAP(x). A struct that is CPU_ALIGNED shares no cache line with that of another CPU.
 */
#ifndef CPU_ARRAY_H
#define CPU_ARRAY_H

#include "scx.h"

#define MAX_CPUS 1024
#define CPU_ALIGNED __attribute__((aligned(128)))

#define CPU_VARIABLES(x)                                                                           \
	static struct x x##s[MAX_CPUS];                                                            \
	static __always_inline struct x *x##_of(u32 cpu)                                           \
	{                                                                                          \
		return &x##s[cpu & (MAX_CPUS - 1)];                                                \
	}

#define CPU_MAP(x)                                                                                 \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, MAX_CPUS);                                                     \
		__type(key, u32);                                                                  \
		__type(value, struct x);                                                           \
	} x##s SEC(".maps");                                                                       \
	static __always_inline struct x *x##_of(u32 cpu)                                           \
	{                                                                                          \
		return bpf_map_lookup_elem(&x##s, &cpu);                                           \
	}

#endif
