/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Definitions for test programs that user space calls. A program returns 0 if all its checks
 * succeed, otherwise the number of the source line with the failed check.
 */
#pragma once
#include "scx.h"

char _license[] SEC("license") = "GPL";

#define EBUSY 16

#define MAP(name, kind, entries, key_type, value_type)                                             \
	struct {                                                                                   \
		__uint(type, kind);                                                                \
		__uint(max_entries, entries);                                                      \
		__type(key, key_type);                                                             \
		__type(value, value_type);                                                         \
	} name SEC(".maps")

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return __LINE__;                                                           \
	} while (0)

struct pair {
	u64 first, second;
};

struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;
void bpf_cgroup_release(struct cgroup *cgrp) __ksym;
