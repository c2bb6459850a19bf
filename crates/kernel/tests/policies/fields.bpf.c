/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fields: a policy that reads all fields of the simulated kernel's objects. It reads them whenever
 * a task whose name begins with "w" starts to run.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct css_set {
	struct cgroup *dfl_cgrp;
};
struct cgroup_subsys_state___full {
	struct cgroup *cgroup;
	struct cgroup_subsys_state___full *parent;
};
struct cgroup___full {
	struct cgroup_subsys_state___full self;
	struct kernfs_node *kn;
	int level;
	struct cgroup___full *dom_cgrp;
	struct cgroup___full *ancestors[];
};
struct kuid {
	unsigned int val;
};
struct cred {
	struct kuid uid;
	struct kuid euid;
};
struct load_weight {
	unsigned long weight;
};
struct sched_avg {
	unsigned long util_avg;
};
struct sched_entity___full {
	struct load_weight load;
	u64 sum_exec_runtime;
	struct sched_avg avg;
};
struct sched_ext_entity___full {
	u64 tid;
	unsigned long runnable_at;
	s32 selected_cpu;
};
struct thread_info {
	u32 cpu;
};
struct sched_info {
	u64 pcount;
	u64 run_delay;
};
struct task_struct___full {
	struct thread_info thread_info;
	unsigned int __state;
	int on_cpu;
	int on_rq;
	struct sched_entity___full se;
	struct sched_ext_entity___full scx;
	unsigned int rt_priority;
	int exit_state;
	u64 utime;
	u64 stime;
	u64 start_time;
	struct task_struct *parent;
	struct css_set *cgroups;
	void *mempolicy;
	struct cred *real_cred;
	struct cred *cred;
	u64 timer_slack_ns;
	int numa_preferred_nid;
	struct sched_info sched_info;
	cpumask_t cpus_mask;
	void *signal;
};
struct rq___full {
	struct task_struct *curr;
	struct task_struct *idle;
	u64 clock;
	int cpu;
	u64 clock_pelt;
	u64 lost_idle_time;
	u64 nr_switches;
};
#pragma clang attribute pop

struct rq *scx_bpf_cpu_rq(s32 cpu) __ksym;
u32 bpf_cpumask_weight(const struct cpumask *cpumask) __ksym;
struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;
struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level) __ksym;
void bpf_cgroup_release(struct cgroup *cgrp) __ksym;

extern const struct rq runqueues __ksym;
extern const struct rq kernel_cpustat __ksym __weak;
extern struct cpufreq_policy *cpufreq_cpu_data __ksym;
static void *(*const bpf_per_cpu_ptr)(const void *var, u32 cpu) = (void *)153;

#define exists(field) __builtin_preserve_field_info(field, 2)

u64 pid, tgid, flags, nr_cpus_allowed, cpus_word, mask_word, prio, static_prio, normal_prio, rt_priority, policy;
u64 weight, slice, load, cpu, state, on_cpu, on_rq, runtime, utime, stime, parent_pid, real_parent_pid, leader_pid;
u64 policy_of_cpu, pcount, run_delay, clock_pelt, lost_idle_time, pelt_ran;
u64 has_mm, cgroup_id, cgroup_level, css_parent_id, ancestor_id, nvcsw, nivcsw, start_time, nid, mempolicy, euid;
u64 rq_curr_pid, rq_idle_pid, rq_cpu, rq_clock, tid, selected_cpu, missing, from_id_ok, migration_disabled, exit_state;
u64 disabled_at_end, must_stay_at_end;
u64 uid, timer_slack_ns, mask_in_callback, nr_set_cpumask, cpus_weight, may_run_here;
u64 now_ns, now_rq, comm_0, name_0, version, config_hz;
u64 state_at_wakeup, on_rq_at_wakeup;
u64 parent_pid_at_fork = 7;
u64 per_cpu_ok, has_cpustat = 7, on_cpu_at_end, curr_pid_at_end, runtime_at_end;
extern unsigned int LINUX_KERNEL_VERSION __kconfig;
extern int CONFIG_HZ __kconfig;

void SCX_OP(fields_running, struct task_struct *p)
{
	struct task_struct___full *f = (void *)p;
	struct rq___full *rq;
	struct cgroup___full *cgrp;
	struct cgroup *found, *root;

	if (p->comm[0] != 'w')
		return;
	pid = p->pid;
	tgid = p->tgid;
	flags = p->flags;
	comm_0 = p->comm[6];
	nr_cpus_allowed = p->nr_cpus_allowed;
	cpus_word = p->cpus_ptr->bits[0];
	cpus_weight = bpf_cpumask_weight(p->cpus_ptr);
	may_run_here = bpf_cpumask_test_cpu(scx_bpf_task_cpu(p), p->cpus_ptr);
	mask_word = f->cpus_mask.bits[0];
	prio = p->prio;
	static_prio = p->static_prio;
	normal_prio = p->normal_prio;
	rt_priority = f->rt_priority;
	policy = p->policy;
	weight = p->scx.weight;
	slice = p->scx.slice;
	tid = f->scx.tid;
	selected_cpu = f->scx.selected_cpu;
	load = f->se.load.weight;
	cpu = f->thread_info.cpu;
	state = f->__state;
	on_cpu = f->on_cpu;
	on_rq = f->on_rq;
	exit_state = f->exit_state;
	runtime = p->se.sum_exec_runtime;
	utime = f->utime;
	stime = f->stime;
	parent_pid = f->parent->pid;
	real_parent_pid = p->real_parent->pid;
	leader_pid = p->group_leader->pid;
	has_mm = p->mm != NULL;
	migration_disabled = p->migration_disabled;
	nvcsw = p->nvcsw;
	nivcsw = p->nivcsw;
	pcount = f->sched_info.pcount;
	run_delay = f->sched_info.run_delay;
	start_time = p->start_time;
	nid = f->numa_preferred_nid;
	mempolicy = (u64)f->mempolicy;
	euid = f->real_cred->euid.val;
	uid = f->cred->uid.val;
	timer_slack_ns = f->timer_slack_ns;
	cgrp = (void *)f->cgroups->dfl_cgrp;
	cgroup_id = cgrp->kn->id;
	cgroup_level = cgrp->level;
	name_0 = cgrp->kn->name[0];
	css_parent_id = cgrp->self.parent ? cgrp->self.parent->cgroup->kn->id : 0;
	ancestor_id = cgrp->ancestors[0]->kn->id;
	found = bpf_cgroup_from_id(cgroup_id);
	root = found ? bpf_cgroup_ancestor(found, 0) : NULL;
	from_id_ok = found == (void *)cgrp && root == (void *)cgrp->ancestors[0];
	if (root)
		bpf_cgroup_release(root);
	if (found)
		bpf_cgroup_release(found);
	found = bpf_cgroup_from_id(999);
	if (found) {
		from_id_ok = 0;
		bpf_cgroup_release(found);
	}
	rq = (void *)scx_bpf_cpu_rq(scx_bpf_task_cpu(p));
	rq_curr_pid = rq->curr->pid;
	rq_idle_pid = rq->idle->pid;
	clock_pelt = rq->clock_pelt;
	lost_idle_time = rq->lost_idle_time;
	rq_cpu = rq->cpu;
	rq_clock = rq->clock;
	per_cpu_ok = (void *)rq == bpf_per_cpu_ptr(&runqueues, rq->cpu) && !bpf_per_cpu_ptr(&runqueues, 4);
	has_cpustat = &kernel_cpustat != NULL;
	policy_of_cpu = bpf_per_cpu_ptr(&cpufreq_cpu_data, 3) ? *(u64 *)bpf_per_cpu_ptr(&cpufreq_cpu_data, 3) : 1;
	now_rq = scx_bpf_now();
	now_ns = bpf_ktime_get_ns();
	version = LINUX_KERNEL_VERSION;
	config_hz = CONFIG_HZ;
	missing = exists(f->se.avg.util_avg) | exists(f->signal) << 1 | exists(rq->nr_switches) << 2;
}

/* Reads the fields that change when the task is queued. */
void SCX_OP(fields_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task_struct___full *f = (void *)p;

	if (p->comm[0] == 'w') {
		state_at_wakeup = f->__state;
		on_rq_at_wakeup = f->on_rq;
	}
}

/* Some fields are read here, because the task becomes rq->curr only after ops.running(). */
void SCX_OP(fields_stopping, struct task_struct *p, bool runnable)
{
	struct rq___full *rq = (void *)scx_bpf_cpu_rq(scx_bpf_task_cpu(p));

	if (p->comm[0] == 'w') {
		on_cpu_at_end = p->on_cpu;
		curr_pid_at_end = rq->curr->pid;
		runtime_at_end = p->se.sum_exec_runtime;
		disabled_at_end = p->migration_disabled;
		must_stay_at_end = is_migration_disabled(p);
		rq = bpf_per_cpu_ptr(&runqueues, rq->cpu);
		pelt_ran = rq ? rq->clock_pelt - clock_pelt : 0;
	}
}

/* Reads the mask that the kernel passes after a change of the affinity. */
void SCX_OP(fields_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	if (p->comm[0] == 'w') {
		mask_in_callback = cpumask->bits[0];
		nr_set_cpumask++;
	}
}

/* Reads the parent of a task that is still a copy of the task that forks. */
s32 SCX_OP(fields_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	if (args->fork)
		parent_pid_at_fork = p->real_parent->pid;
	return 0;
}

SCX_OPS(fields_ops, .init_task = (void *)fields_init_task, .set_cpumask = (void *)fields_set_cpumask, .runnable = (void *)fields_runnable, .stopping = (void *)fields_stopping, .running = (void *)fields_running, .name = "fields");
