/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * steal: queues ordered by virtual time, and CPUs that go idle steal from overloaded ones.
 *
 * Each CPU has a queue ordered by weighted virtual time. A woken task takes an idle CPU near the waking CPU
 * or near its last CPU, if a short search finds one (select_idle_sibling.h). A CPU that is about to idle
 * first pulls a task from the busiest CPU, unless its idle times are too short for that (idle_balance.h).
 *
 * If that finds nothing, the CPU steals. A sparse bitmap of each LLC has the CPUs that are overloaded
 * (overloaded.h). The CPU visits them, those of its own core first, and takes the first task in order of
 * virtual time that may run here.
 *
 * Good for: busy CPUs on larger machines; a steal takes a few microseconds.
 * Bad for: caches, if few tasks with large working sets are stolen; other LLCs, unless steal_llcs is set.
 * Source: Steve Sistare, "Can better task stealing make Linux faster?" and "steal tasks to improve CPU
 * utilization" (2018).
 *
 * steal=0 is the CFS of that time. steal_llcs, steal_nodes, idle_balance and idle_cores were announced as
 * future work.
 * Different here: realtime tasks are in a class above sched_ext, where the kernel pushes and pulls them, so
 * there is no bitmap of CPUs overloaded with them. A slice has a fixed length instead of a share of a period.
 */
#include "include/idle_balance.h"
#include "include/select_idle_sibling.h"
#include "include/overloaded.h"

char _license[] SEC("license") = "GPL";

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time a task runs before the next one has its turn") = 4000000;
const volatile u64 wakeup_granularity_ns PARAM("ns, 0..1000000000: lead a woken task needs to preempt") = 15000000;
u32 steal PARAM("switch, 0..1: steal when about to idle") = 1;
u32 steal_node_limit PARAM("nodes, 0..1024: no stealing on machines with more") = 2;
u32 steal_llcs PARAM("switch, 0..1: if the own LLC has nothing, steal from others of the node") = 0;
u32 steal_nodes PARAM("switch, 0..1: if these have nothing, steal from LLCs of other nodes") = 0;
u32 idle_cores PARAM("switch, 0..1: wake-ups take idle cores, then CPUs, from bitmaps instead of searching") = 0;

/* Number of CPUs in the largest LLC. */
static u32 llc_size;

/* Returns a task's virtual time, with the part of the slice that it has used. The weight of nice 0 is 100. */
static __always_inline u64 vtime_of(struct task_struct *p)
{
	u64 used = p->scx.slice < slice_ns ? slice_ns - p->scx.slice : 0;

	return p->scx.dsq_vtime + used * 100 / p->scx.weight;
}

static __always_inline bool take(u32 from)
{
	if (!scx_bpf_dsq_move_to_local(from))
		return false;
	update_overloaded(from);
	return true;
}

/* Steals from an overloaded CPU of an LLC, or of this core only. The search begins behind this CPU. */
static __always_inline bool steal_in(u32 group, u32 cpu, u32 nr_cpus, bool core)
{
	u32 at = cpu + 1, end = nr_cpus, i;
	bool wrapped = false, stolen = false;

	bpf_for(i, 0, nr_cpus + 1) {
		s32 victim = sparse_next(group, at, end);

		if (victim < 0) {
			if (wrapped)
				break;
			wrapped = true;
			at = 0;
			end = cpu;
			continue;
		}
		at = victim + 1;
		if (core && !in_domain(CORE, victim, cpu))
			continue;
		if (take(victim)) {
			__sync_fetch_and_add(&nr_stolen, 1);
			stolen = true;
			break;
		}
	}
	return stolen;
}

static __always_inline bool try_steal(u32 cpu, u32 nr_cpus)
{
	u32 own = group_of(cpu), group, far;
	bool stolen = false;

	if (next_in(next_of_core, cpu) != cpu && steal_in(own, cpu, nr_cpus, true))
		return true;
	if (steal_in(own, cpu, nr_cpus, false))
		return true;
	bpf_for(far, 0, 2) {
		if (stolen || !(far ? steal_nodes : steal_llcs))
			continue;
		bpf_for(group, 0, nr_groups) {
			u32 of = group & (SPARSE_GROUPS - 1);
			bool other_node = node_of_group[of] != node_of[cpu & (MAX_CPUS - 1)];

			if (of != own && other_node == far && steal_in(of, cpu, nr_cpus, false)) {
				stolen = true;
				break;
			}
		}
	}
	return stolen;
}

/* Tasks that wait in the queue of a CPU that goes may have run elsewhere. */
static __always_inline void pass_on_all(s32 cpu)
{
	pass_on(cpu);
}

s32 SCX_OP(steal_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u64 start = bpf_ktime_get_ns();
	s32 cpu;

	if (wake_flags & SCX_WAKE_FORK) {
		cpu = find_idlest_cpu(p, prev_cpu, scx_bpf_nr_cpu_ids());
	} else if (idle_cores) {
		cpu = claim(p, prev_cpu) ? prev_cpu : scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (cpu < 0)
			cpu = prev_cpu;
	} else {
		cpu = select_cpu_for_wakeup(p, prev_cpu, wake_flags, llc_size);
	}
	found_since(start);
	return cpu;
}

void SCX_OP(steal_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);
	u64 vtime;

	if (!c || woken_by_gone_cpu(p, slice_ns, enq_flags))
		return;
	settle_on(p, cpu);
	vtime = p->scx.dsq_vtime;
	if ((enq_flags & SCX_ENQ_WAKEUP) && (s64)(vtime - (c->vtime - slice_ns)) < 0)
		vtime = c->vtime - slice_ns;
	scx_bpf_dsq_insert_vtime(p, cpu, slice_ns, vtime, enq_flags);
	/* The inserted task is counted as coming: it is in the queue when this callback has returned. */
	update_overloaded_with(c, cpu, 1);
	if (!c->running)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	else if ((enq_flags & SCX_ENQ_WAKEUP) && (s64)(c->vtime - vtime) > (s64)wakeup_granularity_ns)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

void SCX_OP(steal_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids();
	struct cpu *c = cpu_of(cpu);
	bool stolen = false;
	u64 start;

	if (!c)
		return;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		struct task_struct *first = scx_bpf_dsq_peek(cpu);
		u64 vtime = vtime_of(prev);

		/* The running task goes on while no other is further behind. */
		if (first && (s64)(first->scx.dsq_vtime - vtime) <= 0 && scx_bpf_dsq_move_to_local(cpu))
			return;
		prev->scx.dsq_vtime = vtime;
		prev->scx.slice = slice_ns;
		return;
	}
	if (scx_bpf_dsq_move_to_local(cpu))
		return;
	if (idle_balance && pull(c, cpu, nr_cpus))
		return;
	if (steal && nr_nodes <= steal_node_limit) {
		start = bpf_ktime_get_ns();
		stolen = try_steal(cpu, nr_cpus);
		found_since(start);
	}
	if (!stolen && scx_bpf_dsq_nr_queued(cpu) > 0)
		pass_on(cpu);
}

void SCX_OP(steal_running, struct task_struct *p)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);

	if (!c)
		return;
	c->running = true;
	settle_on(p, cpu);
	if ((s64)(p->scx.dsq_vtime - c->vtime) > 0)
		c->vtime = p->scx.dsq_vtime;
	update_overloaded_with(c, cpu, 0);
}

void SCX_OP(steal_stopping, struct task_struct *p, bool runnable)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);

	p->scx.dsq_vtime = vtime_of(p);
	if (!c)
		return;
	c->running = false;
	/* A task that stays runnable is counted when it is queued. */
	if (!runnable)
		update_overloaded_with(c, cpu, 0);
}

void SCX_OP(steal_update_idle, s32 cpu, bool idle)
{
	struct cpu *c = cpu_of(cpu);

	if (!c)
		return;
	note_idle_time(c, idle);
	if (idle)
		note_idle_core(cpu);
}

void SCX_OP(steal_enable, struct task_struct *p)
{
	struct cfs_task *t = cfs_task_of(p);
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);

	if (!t || !c)
		return;
	p->scx.dsq_vtime = c->vtime;
	t->cpu = cpu;
}

s32 SCX_OP(steal_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return cfs_task_init(p);
}

s32 SCX_OP_SLEEPABLE(steal_init)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), cpu, other;
	s32 ret = cfs_rq_init(2 * migration_cost_ns);

	if (ret)
		return ret;
	bpf_for(cpu, 0, nr_cpus) {
		u32 n = 0;

		overloaded_init(cpu);
		note_idle_core(cpu);
		bpf_for(other, 0, nr_cpus)
			n += in_domain(LLC, cpu, other);
		if (n > llc_size)
			llc_size = n;
	}
	return balance_start();
}

SCX_OPS(steal_ops,
	HOTPLUG_CALLBACKS,
	.select_cpu = (void *)steal_select_cpu,
	.enqueue = (void *)steal_enqueue,
	.dispatch = (void *)steal_dispatch,
	.running = (void *)steal_running,
	.stopping = (void *)steal_stopping,
	.update_idle = (void *)steal_update_idle,
	.enable = (void *)steal_enable,
	.init_task = (void *)steal_init_task,
	.init = (void *)steal_init,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "steal");
