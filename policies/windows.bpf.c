/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * windows: the dispatcher of Windows Server 2003 and Vista.
 *
 * Strict priorities 0..31; each CPU has a ready queue a level and a mask of the levels in use. A readied thread goes to its
 * ideal processor if that idles, else to its last, else to the CPU that readies it, else to the first idle one; if none
 * idles it waits at its ideal processor, preempting a lower priority there. A CPU that goes idle takes a ready thread from
 * the busiest; nothing else balances. A completed wait boosts by its cause, up to 15, and each quantum used takes one
 * off. Once a second, threads that were ready for 4 s are lifted to 15 for a short quantum.
 *
 * Good for: interactive threads that wait on devices and messages; caches (threads stay where they are).
 * Bad for: fairness: a lower priority starves but for the lift, and CPUs stay uneven while none goes idle.
 * Source: Happe, Groenda, Reussner, "Performance Evaluation of Scheduling Policies in Symmetric Multiprocessing
 * Environments" (2008); boosts by cause are those of the Windows driver kit.
 * Different here: priorities 16..31 are Linux' real-time classes, which are above sched_ext; nice -20..19 are 15..1, nice
 * 0 is 8. Causes are seen on the functions that wake: futexes for semaphores and events, pipes, sockets; disk
 * is an uninterruptible sleep. Keyboard, mouse and sound wake through no function that is told apart, so their boosts are
 * left out. Quanta end at Linux' ticks, and are charged by time and not by 15.6 ms intervals.
 */
#include "include/scx.h"

char _license[] SEC("license") = "GPL";

#define MAX_CPUS 1024
#define LEVELS 32
#define NORMAL 8
/* The highest level that boosts reach, and that of threads that were lifted. */
#define TOP 15
#define TASK_UNINTERRUPTIBLE 2
#define QUEUE(cpu, level) ((u64)(cpu) * LEVELS + (level))
/* Threads of a queue that the balance set manager looks at in one go, and those it lifts in all. */
#define MAX_SCAN 16
#define MAX_LIFTED 10

const volatile u64 quantum_ns PARAM("ns, 1000000..10000000000: quantum; Server 187.5 ms, client 31.25 ms") = 187500000;
const volatile u64 lift_period_ns PARAM("ns, 1000000..100000000000: time between looks for starved threads") = 1000000000;
u64 starved_ns PARAM("ns, 1000000..1000000000000: time ready after which a thread is lifted") = 4000000000;
u64 lift_quantum_ns PARAM("ns, 1000000..10000000000: quantum of a lifted thread") = 62500000;
u32 boost_event PARAM("levels, 0..15: boost when a semaphore, mutex or condition is signalled") = 1;
u32 boost_disk PARAM("levels, 0..15: boost when a disk transfer is done") = 1;
u32 boost_pipe PARAM("levels, 0..15: boost when a pipe has data") = 2;
u32 boost_network PARAM("levels, 0..15: boost when a socket has data") = 2;

/* Wake-ups that were boosted, levels lost at the end of a quantum, threads lifted, taken by idle CPUs, preempted. */
u64 nr_boosted, nr_decayed, nr_lifted, nr_taken, nr_preempted;
static u32 next_ideal;

struct thread {
	u64 ready_since;
	u64 running_since;
	/* What is left of the quantum, ns. */
	s64 left;
	u32 level;
	u32 ideal;
	/* It sleeps on a disk; it was lifted; its quantum ended and nothing of the next one was used. */
	bool disk;
	bool lifted;
	bool ended;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct cpu {
	/* Levels whose queue may hold threads. */
	u32 ready;
	bool running;
	u32 level;
	/* Levels by which what is being woken here is boosted. */
	u32 boost;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct manager {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct manager);
} managers SEC(".maps");

static __always_inline struct thread *thread_of(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, NULL, 0);
}

static __always_inline struct cpu *cpu_of(u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline u32 base_level(struct task_struct *p)
{
	u32 nice = p->static_prio - 100;

	return nice <= 20 ? NORMAL + (20 - nice) * 7 / 20 : NORMAL - (nice - 20) * 7 / 19;
}

static __always_inline s32 highest(u32 ready)
{
	s32 level = -1;

	if (!ready)
		return level;
	level = 0;
	if (ready >> 16) {
		level += 16;
		ready >>= 16;
	}
	if (ready >> 8) {
		level += 8;
		ready >>= 8;
	}
	if (ready >> 4) {
		level += 4;
		ready >>= 4;
	}
	if (ready >> 2) {
		level += 2;
		ready >>= 2;
	}
	return level + (ready >> 1);
}

/* Charges the time since the last charge; at the end of a quantum a level is lost, and a lifted thread falls back. */
static __always_inline bool charge(struct task_struct *p, struct thread *t)
{
	u64 now = bpf_ktime_get_ns();
	u32 base = base_level(p);

	t->left -= now - t->running_since;
	t->running_since = now;
	if (t->left > 0)
		return false;
	if (t->level > base) {
		t->level = t->lifted ? base : t->level - 1;
		__sync_fetch_and_add(&nr_decayed, 1);
	}
	t->lifted = false;
	t->left = quantum_ns;
	t->ended = true;
	return true;
}

/* Takes the first thread of the highest level, `least` or above, that waits at `from` and may run here. */
static __always_inline bool take(struct cpu *c, u32 from, s32 least)
{
	u32 ready = c->ready, i;

	bpf_for(i, 0, LEVELS) {
		s32 level = highest(ready);

		if (level < 0 || level < least)
			return false;
		if (scx_bpf_dsq_move_to_local(QUEUE(from, level)))
			return true;
		ready &= ~(1U << (level & 31));
		if (scx_bpf_dsq_nr_queued(QUEUE(from, level)) > 0)
			continue;
		/* Empty. Who puts a thread there meanwhile is not forgotten. */
		__sync_fetch_and_and(&c->ready, ~(1U << (level & 31)));
		if (scx_bpf_dsq_nr_queued(QUEUE(from, level)) > 0)
			__sync_fetch_and_or(&c->ready, 1U << (level & 31));
	}
	return false;
}

static __always_inline u32 nr_ready(struct cpu *c, u32 cpu)
{
	u32 ready = c->ready, sum = 0, level;

	bpf_for(level, 0, TOP + 1) {
		s32 waiting = ready >> level & 1 ? scx_bpf_dsq_nr_queued(QUEUE(cpu, level)) : 0;

		if (waiting > 0)
			sum += waiting;
	}
	return sum;
}

static __always_inline bool is_idle(struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && scx_bpf_test_and_clear_cpu_idle(cpu);
}

s32 SCX_OP(windows_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct thread *t = thread_of(p);
	s32 this_cpu = bpf_get_smp_processor_id(), ideal = t ? t->ideal : prev_cpu, cpu;

	if (is_idle(p, ideal))
		return ideal;
	if (is_idle(p, prev_cpu))
		return prev_cpu;
	if (is_idle(p, this_cpu))
		return this_cpu;
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids())
		if (is_idle(p, cpu))
			return cpu;
	return bpf_cpumask_test_cpu(ideal, p->cpus_ptr) ? ideal : prev_cpu;
}

void SCX_OP(windows_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct thread *t = thread_of(p);
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);
	u32 level;
	s32 idle;

	if (!t || !c)
		return;
	t->ready_since = bpf_ktime_get_ns();
	level = t->level & (LEVELS - 1);
	/* Who was preempted goes on with the rest of its quantum, before others of its level. */
	if (!(enq_flags & SCX_ENQ_WAKEUP) && !t->ended)
		enq_flags |= SCX_ENQ_HEAD;
	scx_bpf_dsq_insert(p, QUEUE(cpu, level), t->left, enq_flags);
	__sync_fetch_and_or(&c->ready, 1U << level);
	if (!c->running) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	} else if (level > c->level) {
		__sync_fetch_and_add(&nr_preempted, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	/* Put here by force: an idle CPU may come and take one. */
	if ((enq_flags & SCX_ENQ_WAKEUP) && !(enq_flags & SCX_ENQ_CPU_SELECTED)) {
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (idle >= 0)
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	}
}

void SCX_OP(windows_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), most = 0, i;
	struct thread *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? thread_of(prev) : NULL;
	struct cpu *c = cpu_of(cpu), *o;
	s32 busiest = -1;

	if (!c)
		return;
	if (t) {
		bool ended = charge(prev, t);

		/* Its equals have their turn when its quantum is over. */
		c->level = t->level;
		if (take(c, cpu, (s32)t->level + !ended))
			return;
		t->ended = false;
		prev->scx.slice = t->left;
		return;
	}
	if (take(c, cpu, 0))
		return;
	bpf_for(i, 1, nr_cpus) {
		u32 other = (cpu + i) % nr_cpus, ready;

		o = cpu_of(other);
		ready = o ? nr_ready(o, other) : 0;
		if (ready > most) {
			most = ready;
			busiest = other;
		}
	}
	if (busiest < 0)
		return;
	o = cpu_of(busiest);
	if (o && take(o, busiest, 0)) {
		__sync_fetch_and_add(&nr_taken, 1);
		return;
	}
	/* What waits there may not run here. */
	bpf_for(i, 1, nr_cpus) {
		o = cpu_of((cpu + i) % nr_cpus);
		if (o && take(o, (cpu + i) % nr_cpus, 0)) {
			__sync_fetch_and_add(&nr_taken, 1);
			return;
		}
	}
}

void SCX_OP(windows_running, struct task_struct *p)
{
	struct thread *t = thread_of(p);
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));

	if (!t || !c)
		return;
	t->running_since = bpf_ktime_get_ns();
	t->ended = false;
	c->running = true;
	c->level = t->level;
	/* While a real-time task was here, a thread of a higher level came. */
	if (highest(c->ready) > (s32)t->level)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
}

void SCX_OP(windows_stopping, struct task_struct *p, bool runnable)
{
	struct thread *t = thread_of(p);
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));

	if (t)
		charge(p, t);
	if (c)
		c->running = false;
}

void SCX_OP(windows_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct thread *t = thread_of(p);

	if (t)
		t->disk = (deq_flags & SCX_DEQ_SLEEP) && (p->__state & TASK_UNINTERRUPTIBLE);
}

/* To the end of its level, as at the end of a quantum. */
bool SCX_OP(windows_yield, struct task_struct *p, struct task_struct *to)
{
	struct thread *t = thread_of(p);

	if (t)
		t->left = 0;
	p->scx.slice = 0;
	return false;
}

s32 SCX_OP(windows_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct thread *t = bpf_task_storage_get(&threads, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	t->level = base_level(p);
	t->left = quantum_ns;
	t->ideal = __sync_fetch_and_add(&next_ideal, 1) % scx_bpf_nr_cpu_ids();
	return 0;
}

void SCX_OP(windows_set_weight, struct task_struct *p, u32 weight)
{
	struct thread *t = thread_of(p);

	if (t)
		t->level = base_level(p);
}

/* Wake-ups of this CPU, until told otherwise, complete waits that boost by so much. */
static __always_inline int cause(u32 boost)
{
	struct cpu *c = cpu_of(bpf_get_smp_processor_id());

	if (c)
		c->boost = boost;
	return 0;
}

SEC("fentry/futex_wake") int event_wakes(void *ctx) { return cause(boost_event); }
SEC("fexit/futex_wake") int event_woke(void *ctx) { return cause(0); }
SEC("fentry/__wake_up_sync_key") int pipe_wakes(void *ctx) { return cause(boost_pipe); }
SEC("fexit/__wake_up_sync_key") int pipe_woke(void *ctx) { return cause(0); }
SEC("fentry/sock_def_readable") int network_wakes(void *ctx) { return cause(boost_network); }
SEC("fexit/sock_def_readable") int network_woke(void *ctx) { return cause(0); }

SEC("tp_btf/sched_waking")
int BPF_PROG(waking, struct task_struct *p)
{
	struct cpu *c = cpu_of(bpf_get_smp_processor_id());
	struct thread *t = thread_of(p);
	u32 boost, level;

	if (!c || !t)
		return 0;
	boost = t->disk ? boost_disk : c->boost;
	level = base_level(p) + boost;
	if (level > TOP)
		level = TOP;
	if (boost && level > t->level) {
		t->level = level;
		__sync_fetch_and_add(&nr_boosted, 1);
	}
	return 0;
}

/* Lifts threads of one queue that starve. Returns how many. */
static __always_inline u32 lift(struct cpu *c, u32 cpu, u32 level)
{
	u64 now = bpf_ktime_get_ns();
	struct bpf_iter_scx_dsq it;
	u32 lifted = 0, i;

	if (!bpf_iter_scx_dsq_new(&it, QUEUE(cpu, level), 0)) {
		bpf_for(i, 0, MAX_SCAN) {
			struct task_struct *p = bpf_iter_scx_dsq_next(&it);
			struct thread *t;

			if (!p)
				break;
			t = thread_of(p);
			if (!t || now < t->ready_since + starved_ns)
				continue;
			scx_bpf_dsq_move_set_slice(&it, lift_quantum_ns);
			if (!scx_bpf_dsq_move(&it, p, QUEUE(cpu, TOP), 0))
				continue;
			t->level = TOP;
			t->left = lift_quantum_ns;
			t->lifted = true;
			lifted++;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	if (lifted) {
		__sync_fetch_and_or(&c->ready, 1U << TOP);
		if (c->level < TOP)
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	return lifted;
}

/* The balance set manager. */
static int manage(void *map, u32 *key, struct manager *manager)
{
	u32 lifted = 0, cpu, level;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		struct cpu *c = cpu_of(cpu);

		if (!c)
			continue;
		bpf_for(level, 0, TOP)
			if ((c->ready >> level & 1) && lifted < MAX_LIFTED)
				lifted += lift(c, cpu, level);
	}
	__sync_fetch_and_add(&nr_lifted, lifted);
	bpf_timer_start(&manager->timer, lift_period_ns, 0);
	return 0;
}

s32 SCX_OP_SLEEPABLE(windows_init)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), key = 0, i;
	struct manager *manager = bpf_map_lookup_elem(&managers, &key);
	s32 ret;

	if (!manager || !nr_cpus || nr_cpus > MAX_CPUS)
		return -E2BIG;
	bpf_for(i, 0, nr_cpus * LEVELS) {
		ret = scx_bpf_create_dsq(i, -1);
		if (ret)
			return ret;
	}
	bpf_timer_init(&manager->timer, &managers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&manager->timer, manage);
	return bpf_timer_start(&manager->timer, lift_period_ns, 0);
}

SCX_OPS(windows_ops,
	.select_cpu = (void *)windows_select_cpu,
	.enqueue = (void *)windows_enqueue,
	.dispatch = (void *)windows_dispatch,
	.running = (void *)windows_running,
	.stopping = (void *)windows_stopping,
	.quiescent = (void *)windows_quiescent,
	.yield = (void *)windows_yield,
	.set_weight = (void *)windows_set_weight,
	.init_task = (void *)windows_init_task,
	.init = (void *)windows_init,
	.name = "windows");
