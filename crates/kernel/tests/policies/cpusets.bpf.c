/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpusets: a policy that prints the cpusets of cgroups. It reads the same fields as a policy that
 * gives each cgroup its own CPUs.
 *
 * - Before a cpuset is written, it prints the old CPUs of cgroup 2.
 * - After a cpuset was written, it prints cpuset.cpus and cpuset.cpus.effective of every cgroup,
 *   starting with the root.
 * - When a cgroup is created or a task joins a cgroup, it prints the cpuset of this cgroup.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

enum { DESCENDANTS_PRE = 2, LONGS = 128 };

static long (*const bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
enum cgroup_subsys_id { cpuset_cgrp_id };
struct cgroup_subsys_state___set {
	struct cgroup___set *cgroup;
	struct cgroup_subsys_state___set *parent;
};
struct cgroup___set {
	struct cgroup_subsys_state___set self;
	struct kernfs_node *kn;
	struct cgroup_subsys_state___set *subsys[14];
};
typedef struct cpumask *cpumask_var_t;
struct cpuset {
	struct cgroup_subsys_state___set css;
	cpumask_var_t cpus_allowed;
	cpumask_var_t effective_cpus;
};
/*
 * The type of a mask in kernels with CONFIG_CPUMASK_OFFSTACK=n, which do not allocate masks
 * separately.
 */
struct cpumask___local {
};
typedef struct cpumask___local cpumask_var_t___array[1];
struct cpuset___array {
	cpumask_var_t___array cpus_allowed;
};
#pragma clang attribute pop

struct bpf_iter_css {
	u64 opaque[3];
};

struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;
void bpf_cgroup_release(struct cgroup *cgrp) __ksym;
int bpf_iter_css_new(struct bpf_iter_css *it, struct cgroup_subsys_state___set *start, unsigned int flags) __ksym;
struct cgroup_subsys_state___set *bpf_iter_css_next(struct bpf_iter_css *it) __ksym;
void bpf_iter_css_destroy(struct bpf_iter_css *it) __ksym;

struct mask {
	u64 bits[LONGS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct mask);
} masks SEC(".maps");

u64 cpumask_bytes, pointers, arrays;

#define say(format, args...) bpf_printk(format, ##args)

/* Copies all words of a mask. Returns the first word, or -1 if any other word is not 0. */
static u64 read(u32 to, cpumask_var_t from)
{
	struct mask *mask = bpf_map_lookup_elem(&masks, &to);
	u32 bytes = __builtin_preserve_type_info(*(struct cpumask *)0, 1);

	if (!mask || bytes > sizeof(*mask) || bpf_probe_read_kernel(mask, bytes, from))
		return -1;
	for (u32 i = 1; i < LONGS; i++) {
		if (mask->bits[i])
			return -1;
	}
	return mask->bits[0];
}

static struct cpuset *cpuset_of(struct cgroup___set *cgrp)
{
	return (void *)cgrp->subsys[cpuset_cgrp_id];
}

static void tell_all(void)
{
	struct cgroup___set *root = (void *)bpf_cgroup_from_id(1);
	struct cgroup_subsys_state___set *pos;
	struct bpf_iter_css it;

	if (!root)
		return;
	bpf_rcu_read_lock();
	bpf_iter_css_new(&it, &root->self, DESCENDANTS_PRE);
	while ((pos = bpf_iter_css_next(&it))) {
		struct cpuset *set = cpuset_of(pos->cgroup);
		struct cgroup_subsys_state___set *above;

		if (!set)
			continue;
		above = set->css.parent;
		say("cgroup %llu in %llu: %llx, effective %llx", set->css.cgroup->kn->id, above ? above->cgroup->kn->id : 0,
		    read(0, set->cpus_allowed), read(1, set->effective_cpus));
	}
	bpf_iter_css_destroy(&it);
	bpf_rcu_read_unlock();
	bpf_cgroup_release((void *)root);
}

SEC("fentry/cpuset_write_resmask") int before(u64 *ctx)
{
	struct cgroup___set *cgrp = (void *)bpf_cgroup_from_id(24);

	if (cgrp) {
		say("cgroup 24 had %llx", read(0, cpuset_of(cgrp)->cpus_allowed));
		bpf_cgroup_release((void *)cgrp);
	}
	return 0;
}

SEC("fexit/cpuset_write_resmask") int after(u64 *ctx)
{
	tell_all();
	return 0;
}

SEC("tp_btf/cgroup_attach_task") int joined(u64 *ctx)
{
	struct cgroup___set *cgrp = (void *)ctx[0];

	say("joined %llu: %llx, effective %llx", cgrp->kn->id, read(0, cpuset_of(cgrp)->cpus_allowed),
	    read(1, cpuset_of(cgrp)->effective_cpus));
	return 0;
}

s32 SCX_OP_SLEEPABLE(cpusets_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	struct cpuset *set = cpuset_of((void *)cgrp);

	cpumask_bytes = __builtin_preserve_type_info(*(struct cpumask *)0, 1);
	pointers = __builtin_preserve_type_info(*(struct cpuset *)0, 2);
	arrays = __builtin_preserve_type_info(*(struct cpuset___array *)0, 2);
	say("init %llu: %llx, effective %llx", cgrp->kn->id & 0xffffffff, read(0, set->cpus_allowed),
	    read(1, set->effective_cpus));
	return 0;
}

void SCX_OP(cpusets_cpu_offline, s32 cpu)
{
	say("CPU %llu goes", cpu);
}

SCX_OPS(cpusets_ops,
	.cgroup_init = (void *)cpusets_cgroup_init,
	.cpu_offline = (void *)cpusets_cpu_offline,
	.name = "cpusets");
