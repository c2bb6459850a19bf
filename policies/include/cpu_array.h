/* SPDX-License-Identifier: GPL-2.0-only */
/* What a policy keeps for each CPU: CPU_ARRAY(x) is an array of struct x, where x_of(cpu) finds one. */
#ifndef CPU_ARRAY_H
#define CPU_ARRAY_H

#include "scx.h"

#define MAX_CPUS 1024

#define CPU_ARRAY(x)                                                                               \
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
