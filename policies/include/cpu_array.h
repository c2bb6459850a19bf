/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Macros that define an array with one struct for each CPU.
 *
 *     struct cpu { u64 vtime; } CPU_ALIGNED;   shares no cache line with another CPU's struct
 *     CPU_VARIABLES(cpu)                       defines the array cpus[] and cpu_of(number)
 *
 * CPU_VARIABLES(x) puts the array into global variables, which a program reads without a helper
 * call. CPU_MAP(x) puts the array into a BPF map, which is necessary for a struct that contains a
 * timer.
 */
#ifndef CPU_ARRAY_H
#define CPU_ARRAY_H

#include "scx.h"

/* Highest number of CPUs; a power of two, because indices are masked with MAX_CPUS - 1. */
#define MAX_CPUS 1024
/* Aligns a struct so that no two CPUs share a cache line. */
#define CPU_ALIGNED __attribute__((aligned(128)))

/*
 * Defines the global array xs[] with one struct x for each CPU, and the function x_of(cpu), which
 * returns the entry of a CPU.
 */
#define CPU_VARIABLES(x)                                                                           \
	static struct x x##s[MAX_CPUS];                                                            \
	static __always_inline struct x *x##_of(u32 cpu)                                           \
	{                                                                                          \
		return &x##s[cpu & (MAX_CPUS - 1)];                                                \
	}

/*
 * Defines the BPF map xs with one struct x for each CPU, and the function x_of(cpu), which returns
 * the entry of a CPU or NULL.
 */
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
