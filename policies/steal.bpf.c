/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * steal: queues ordered by virtual time, and CPUs that go idle steal from overloaded ones.
 *
 * Each CPU has a queue ordered by weighted virtual time. A waking task goes to an idle CPU near the one it ran on, as far
 * as the average idle time allows a search. A CPU about to idle pulls from the busiest CPU of larger and larger domains
 * (core, LLC, machine), but only while the search's cost fits into its average idle time. If that found nothing, it
 * steals: a sparse bitmap for each LLC tells which CPUs have one running and one waiting; from the first, its core's
 * siblings before others, it takes the first task in order of next to run that may run here.
 *
 * Good for: busy CPUs on larger machines, at a few microseconds a steal.
 * Bad for: caches, when tasks with large working sets are few; nothing is taken across LLCs unless told.
 * Source: Steve Sistare, "Can better task stealing make Linux faster?" and the patch series "steal tasks to improve CPU
 * utilization" (2018). steal = 0 is the CFS of that time.
 * Different here: CFS' groups are CPUs, its load is the number of tasks; an RT bitmap is left out, for real-time tasks are
 * above sched_ext.
 */
#include "include/sparse_bitmap.h"

char _license[] SEC("license") = "GPL";

#define MAX_CPUS SPARSE_CPUS
#define LEVELS 3

const volatile u64 slice_ns PARAM("ns, 100000..1000000000: time a task runs before the next one has its turn") = 4000000;
const volatile u64 wakeup_granularity_ns PARAM("ns, 0..1000000000: lead a woken task needs to preempt") = 15000000;
const volatile u64 balance_ns PARAM("ns, 100000..10000000000: period of balancing; one task a period") = 16000000;
const volatile u32 core_of[MAX_CPUS];
const volatile u32 llc_of[MAX_CPUS];
const volatile u32 node_of[MAX_CPUS];
u32 steal PARAM("switch, 0..1: steal when about to idle") = 1;
u32 steal_node_limit PARAM("nodes, 0..1024: no stealing on machines with more") = 2;
u32 steal_beyond PARAM("switch, 0..1: steal across LLCs if the own has nothing") = 0;
u32 idle_balance PARAM("level, 0..2: 0 none, 1 between LLCs only, 2 all") = 2;
u32 idle_cores PARAM("switch, 0..1: wake-ups take idle cores, then CPUs, from bitmaps instead of searching") = 0;

/* Tasks stolen, pulled by idle_balance, moved by periodic balancing; searches that were too dear for the idle time. */
u64 nr_stolen, nr_pulled, nr_balanced, nr_declined;
/* Transitions to overloaded and back. */
u64 nr_set, nr_cleared;
static u32 nr_nodes;

struct cpu {
	struct bpf_timer timer;
	u64 vtime;
	u64 idle_since;
	u64 avg_idle;
	/* What a search of each domain took, ns. */
	u64 cost[LEVELS];
	bool running;
	u32 overloaded;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

static __always_inline struct cpu *cpu_of(u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline u32 llc(u32 cpu)
{
	return llc_of[cpu & (MAX_CPUS - 1)] & (SPARSE_GROUPS - 1);
}

static __always_inline s32 waiting(u32 cpu)
{
	return scx_bpf_dsq_nr_queued(cpu);
}

/* The bit changes on the transition only. `coming` tasks are about to be queued. */
static __always_inline void update_overloaded_with(struct cpu *c, u32 cpu, s32 coming)
{
	u32 now = c->running + waiting(cpu) + coming > 1;

	if (__sync_lock_test_and_set(&c->overloaded, now) == now)
		return;
	if (now) {
		sparse_set(llc(cpu), cpu);
		__sync_fetch_and_add(&nr_set, 1);
	} else {
		sparse_clear(llc(cpu), cpu);
		__sync_fetch_and_add(&nr_cleared, 1);
	}
}

static __always_inline void update_overloaded(struct cpu *c, u32 cpu)
{
	update_overloaded_with(c, cpu, 0);
}

/* Virtual time with what was used of the slice; 100 is the weight of nice 0. */
static __always_inline u64 vtime_of(struct task_struct *p)
{
	u64 used = p->scx.slice < slice_ns ? slice_ns - p->scx.slice : 0;

	return p->scx.dsq_vtime + used * 100 / p->scx.weight;
}

static __always_inline bool take(u32 from)
{
	struct cpu *c = cpu_of(from);

	if (!c || !scx_bpf_dsq_move_to_local(from))
		return false;
	update_overloaded(c, from);
	return true;
}

/*
 * Loops here end by break, not return: for a return out of a loop clang combines flags that are set on some paths only, which
 * the verifier refuses.
 */

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
		if (core && core_of[victim & (MAX_CPUS - 1)] != core_of[cpu & (MAX_CPUS - 1)])
			continue;
		if (take(victim)) {
			__sync_fetch_and_add(&nr_stolen, 1);
			stolen = true;
			break;
		}
	}
	return stolen;
}

static __always_inline bool in_domain(u32 level, u32 a, u32 b)
{
	a &= MAX_CPUS - 1;
	b &= MAX_CPUS - 1;
	return level == 0 ? core_of[a] == core_of[b] : level == 1 ? llc_of[a] == llc_of[b] : true;
}

static __always_inline bool pull(struct cpu *c, u32 cpu, u32 nr_cpus)
{
	bool pulled = false;
	u64 spent = 0;
	u32 level, i;

	bpf_for(level, idle_balance == 1 ? 2 : 0, LEVELS) {
		u64 start = bpf_ktime_get_ns(), took;
		s32 busiest = -1, most = 0;

		if (c->avg_idle < spent + c->cost[level]) {
			__sync_fetch_and_add(&nr_declined, 1);
			break;
		}
		bpf_for(i, 0, nr_cpus) {
			s32 n = i != cpu && in_domain(level, i, cpu) ? waiting(i) : 0;

			if (n > most) {
				most = n;
				busiest = i;
			}
		}
		took = bpf_ktime_get_ns() - start;
		c->cost[level] = took > c->cost[level] ? took : c->cost[level] - c->cost[level] / 128;
		spent += took;
		if (busiest >= 0 && take(busiest)) {
			__sync_fetch_and_add(&nr_pulled, 1);
			pulled = true;
			break;
		}
	}
	return pulled;
}

s32 SCX_OP(steal_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), this_cpu = bpf_get_smp_processor_id(), looks, i;
	struct cpu *c = cpu_of(this_cpu);
	s32 cpu;

	if (idle_cores) {
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		return cpu >= 0 ? cpu : prev_cpu;
	}
	if (bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr) && scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	/* A look takes about 50 ns; a search may take an eighth of the average idle time. */
	looks = c ? c->avg_idle / 400 + 1 : 1;
	bpf_for(i, 1, nr_cpus) {
		cpu = (prev_cpu + i) % nr_cpus;
		if (!in_domain(1, cpu, prev_cpu) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
		if (!--looks)
			break;
	}
	return prev_cpu;
}

void SCX_OP(steal_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);
	u64 vtime = p->scx.dsq_vtime;

	if (!c)
		return;
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
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), group, own = llc(cpu), i;
	struct cpu *c = cpu_of(cpu);

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
	if (!steal || nr_nodes > steal_node_limit)
		return;
	if (steal_in(own, cpu, nr_cpus, true) || steal_in(own, cpu, nr_cpus, false) || !steal_beyond)
		return;
	bpf_for(group, 0, SPARSE_GROUPS) {
		i = group;
		if (i != own && steal_in(i, cpu, nr_cpus, false))
			return;
	}
}

void SCX_OP(steal_running, struct task_struct *p)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);

	if (!c)
		return;
	c->running = true;
	if ((s64)(p->scx.dsq_vtime - c->vtime) > 0)
		c->vtime = p->scx.dsq_vtime;
	update_overloaded(c, cpu);
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
		update_overloaded(c, cpu);
}

void SCX_OP(steal_update_idle, s32 cpu, bool idle)
{
	struct cpu *c = cpu_of(cpu);
	u64 now = bpf_ktime_get_ns();

	if (!c)
		return;
	if (idle)
		c->idle_since = now;
	else
		c->avg_idle += ((s64)(now - c->idle_since) - (s64)c->avg_idle) >> 3;
}

void SCX_OP(steal_enable, struct task_struct *p)
{
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));

	if (c)
		p->scx.dsq_vtime = c->vtime;
}

/* Periodic balancing: the busiest CPU gives its next task to the least busy, if two or more apart. */
static int balance(void *map, u32 *key, struct cpu *timer)
{
	s32 most = -1, least = 1 << 30, busiest = 0, idlest = 0;
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		struct cpu *c = cpu_of(cpu);
		s32 n = c ? c->running + waiting(cpu) : 0;

		if (n > most) {
			most = n;
			busiest = cpu;
		}
		if (n < least) {
			least = n;
			idlest = cpu;
		}
	}
	if (most >= least + 2) {
		if (!bpf_iter_scx_dsq_new(&it, busiest, 0)) {
			p = bpf_iter_scx_dsq_next(&it);
			if (p && bpf_cpumask_test_cpu(idlest, p->cpus_ptr) && scx_bpf_dsq_move_vtime(&it, p, idlest, 0)) {
				struct cpu *from = cpu_of(busiest), *to = cpu_of(idlest);

				__sync_fetch_and_add(&nr_balanced, 1);
				if (from)
					update_overloaded(from, busiest);
				if (to)
					update_overloaded(to, idlest);
				scx_bpf_kick_cpu(idlest, SCX_KICK_IDLE);
			}
		}
		bpf_iter_scx_dsq_destroy(&it);
	}
	bpf_timer_start(&timer->timer, balance_ns, 0);
	return 0;
}

s32 SCX_OP_SLEEPABLE(steal_init)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), cpu;
	struct cpu *first = cpu_of(0);
	s32 ret;

	if (!first || nr_cpus > MAX_CPUS)
		return -E2BIG;
	bpf_for(cpu, 0, nr_cpus) {
		struct cpu *c = cpu_of(cpu);

		if (c)
			c->avg_idle = 1000000;
		if (node_of[cpu & (MAX_CPUS - 1)] >= nr_nodes)
			nr_nodes = node_of[cpu & (MAX_CPUS - 1)] + 1;
		ret = scx_bpf_create_dsq(cpu, -1);
		if (ret)
			return ret;
	}
	bpf_timer_init(&first->timer, &cpus, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&first->timer, balance);
	return bpf_timer_start(&first->timer, balance_ns, 0);
}

SCX_OPS(steal_ops,
	.select_cpu = (void *)steal_select_cpu,
	.enqueue = (void *)steal_enqueue,
	.dispatch = (void *)steal_dispatch,
	.running = (void *)steal_running,
	.stopping = (void *)steal_stopping,
	.update_idle = (void *)steal_update_idle,
	.enable = (void *)steal_enable,
	.init = (void *)steal_init,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "steal");
