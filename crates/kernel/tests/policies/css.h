/* SPDX-License-Identifier: GPL-2.0-only */
/* Iteration over cgroups in each of the orders that bpf_iter_css supports. */
#pragma once
#include "scx.h"

struct cgroup_subsys_state {
	struct cgroup *cgroup;
} __attribute__((preserve_access_index));
struct cgroup___self {
	struct cgroup_subsys_state self;
} __attribute__((preserve_access_index));
struct bpf_iter_css {
	u64 __opaque[3];
};

int bpf_iter_css_new(struct bpf_iter_css *it, struct cgroup_subsys_state *start, unsigned int flags) __ksym;
struct cgroup_subsys_state *bpf_iter_css_next(struct bpf_iter_css *it) __ksym;
void bpf_iter_css_destroy(struct bpf_iter_css *it) __ksym;

/*
 * Iterates over cgroups. Returns a number whose pairs of decimal digits are the ids of the cgroups, in the
 * order in which the iterator visits them. Returns -1 if `order` is invalid.
 */
static __always_inline u64 walk(struct cgroup *from, unsigned int order)
{
	struct bpf_iter_css it;
	struct cgroup_subsys_state *css;
	u64 seen = 0;

	if (bpf_iter_css_new(&it, &((struct cgroup___self *)from)->self, order))
		return ~0ULL;
	while ((css = bpf_iter_css_next(&it)))
		seen = seen * 100 + (u32)css->cgroup->kn->id;
	bpf_iter_css_destroy(&it);
	return seen;
}
