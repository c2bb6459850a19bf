/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * steal: queues ordered by virtual time, and CPUs that go idle steal from overloaded ones.
 *
 * Each CPU has a queue ordered by weighted virtual time. A waking task goes to an idle CPU near the waking one or the one it
 * ran on, as far as a short search finds one (select_idle_sibling.h). A CPU about to idle pulls from the busiest CPU, but
 * not when its idle times are short (idle_balance.h). If that found nothing, it steals: a sparse bitmap for each LLC tells
 * which CPUs have one running and one waiting; from the first, its core's siblings before others, it takes the first task
 * in order of next to run that may run here.
 *
 * Good for: busy CPUs on larger machines, at a few microseconds a steal.
 * Bad for: caches, when tasks with large working sets are few; nothing is taken across LLCs unless told.
 * Source: Steve Sistare, "Can better task stealing make Linux faster?" and the patch series "steal tasks to improve CPU
 * utilization" (2018). steal = 0 is the CFS of that time; steal_llcs, steal_nodes, idle_balance and idle_cores are what was
 * announced as future work.
 * Different here: real-time tasks are above sched_ext, with the kernel's own push and pull, so that the announced bitmap of
 * CPUs overloaded with them has no place; a slice has a fixed length instead of a share of a period.
 */
#include "include/idle_balance.h"
#include "include/select_idle_sibling.h"
#include "include/sparse_bitmap.h"

char _license[] SEC("license") = "GPL";

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time a task runs before the next one has its turn") = 4000000;
const volatile u64 wakeup_granularity_ns PARAM("ns, 0..1000000000: lead a woken task needs to preempt") = 15000000;
u32 steal PARAM("switch, 0..1: steal when about to idle") = 1;
u32 steal_node_limit PARAM("nodes, 0..1024: no stealing on machines with more") = 2;
u32 steal_llcs PARAM("switch, 0..1: if the own LLC has nothing, steal from others of the node") = 0;
u32 steal_nodes PARAM("switch, 0..1: if these have nothing, steal from LLCs of other nodes") = 0;
u32 idle_cores PARAM("switch, 0..1: wake-ups take idle cores, then CPUs, from bitmaps instead of searching") = 0;

/* Tasks stolen; transitions to overloaded and back. */
u64 nr_stolen, nr_set, nr_cleared;
/* CPUs of the largest LLC; LLCs, and the node of each. */
static u32 llc_size, nr_groups, node_of_group[SPARSE_GROUPS];

static __always_inline u32 group_of(u32 cpu)
{
	return llc_of[cpu & (MAX_CPUS - 1)] & (SPARSE_GROUPS - 1);
}

/* The bit changes on the transition only. `coming` tasks are about to be queued. */
static __always_inline void update_overloaded_with(struct cpu *c, u32 cpu, s32 coming)
{
	u32 now = c->running + waiting(cpu) + coming > 1;
	u64 start;

	if (c->overloaded == now || __sync_lock_test_and_set(&c->overloaded, now) == now)
		return;
	start = bpf_ktime_get_ns();
	if (now) {
		sparse_set(group_of(cpu), cpu);
		__sync_fetch_and_add(&nr_set, 1);
	} else {
		sparse_clear(group_of(cpu), cpu);
		__sync_fetch_and_add(&nr_cleared, 1);
	}
	found_since(start);
}

static __always_inline void update_overloaded(u32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	if (c)
		update_overloaded_with(c, cpu, 0);
}

static __always_inline void moved(u32 from, u32 to)
{
	update_overloaded(from);
	update_overloaded(to);
}

/* Virtual time with what was used of the slice; 100 is the weight of nice 0. */
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

/* Steals from the overloaded CPUs of an LLC, from this CPU's position on; of this core only, if asked. */
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

/* What waits there may have come from elsewhere. */
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
	/* What is inserted here is queued when this callback returns. */
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

		/* It goes on while it is the furthest behind. */
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
	/* One that stays runnable is counted again when it is queued. */
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

		node_of_group[group_of(cpu)] = node_of[cpu & (MAX_CPUS - 1)];
		if (group_of(cpu) >= nr_groups)
			nr_groups = group_of(cpu) + 1;
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
