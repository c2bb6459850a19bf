/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dss: the default scheduler of Linux 2.4.
 *
 * All runnable tasks are in one unordered list behind one lock. A CPU that has to choose looks at every one of them, with the
 * lock held, and takes the one with the highest goodness: ticks left in its quantum, nice, and a bonus where its cache and
 * memory map are. The task that runs is compared, too. When all that could run have used up their quanta, all tasks in the
 * system get new ones; who slept keeps half of what was left, so that it comes first when it wakes. A woken task takes
 * the CPU it ran on last if that is idle, else the one idle longest, else it preempts where it is better by most.
 *
 * Good for: few tasks on few CPUs; interactive tasks beside hogs.
 * Bad for: many tasks (a choice takes time proportional to the queue) and many CPUs (one lock). Tasks that are bound to a CPU starve
 * while another CPU has little to do: it recalculates all counters so often that no quantum on the busy CPU ends.
 * Source: Franke, Nagar, Kravetz, Ravindran: "PMQS: Scalable Linux Scheduling for High End Servers", Annual Linux
 * Showcase 2001, on Linux 2.4.5. linux_2_5_2: Davide Libenzi's changes, in Linux from 2.5.2-pre3 until the O(1) scheduler
 * came: ticks no longer count in goodness. Of all runnable tasks they are recalculated under the lock, from the nice value alone;
 * who sleeps meanwhile, or yields, which uses up its ticks, becomes better by one, and worse by one when its ticks end.
 *
 * Against the original: realtime tasks are above sched_ext and not in this list. As there, a tick is charged to whose turn it
 * is when the timer ticks; where it ticks more often than every tick_ns, such ticks add up.
 */
#include "include/online.h"
#include "include/run_list.h"
#include "include/tick_period.h"

char _license[] SEC("license") = "GPL";

#define PROC_CHANGE_PENALTY 15
#define GOODNESS_IDLE (-1000)
/* Quanta end by the counter; this slice only has to be longer than any. */
#define NO_SLICE_END 1000000000ULL
/* Choose again, this many times: counters were recalculated, or the chosen task has gone. */
#define MAX_TRIES 8
/* In place of the task to run next: all that could run have used up their quanta. */
#define SPENT MAX_TASKS
/* Of linux_2_5_2: the best that sleeping makes of a task; most ticks. */
#define MAX_DYN_PRIO 40
#define MAX_TICKS 20

const volatile u64 tick_ns PARAM("ns, 1000000..100000000: length of a tick of a task's counter") = 10000000;
const volatile bool linux_2_5_2 PARAM("0..1: as in Linux 2.5.2-pre; 0: as in 2.4") = false;

/* Recalculations of all counters; tasks looked at by choices; wake-ups that preempted. */
u64 nr_recalculations;
u64 nr_examined;
u64 nr_preempted;

/* Recalculations, for linux_2_5_2. */
static u32 epoch;
/* Set in ops.init. */
static s32 nr_cpus;

struct cpu_ctx {
	/* Memory map of the task that ran last (active_mm). */
	u64 mm;
	u64 idle_since;
	struct ticks ticks;
	/* Place of the task that runs, HEAD if none of ours does. */
	u32 curr;
	bool idle;
} __attribute__((aligned(64)));
static struct cpu_ctx cpu_ctxs[MAX_CPUS];

static __always_inline struct cpu_ctx *cpu_ctx(s32 cpu)
{
	return &cpu_ctxs[cpu & (MAX_CPUS - 1)];
}

static __always_inline s32 nice_of(const struct task_struct *p)
{
	return p->static_prio - 120;
}

/* Of nice -20..19: 11..1 ticks, 6 at nice 0. */
static __always_inline s32 nice_to_ticks(s32 nice)
{
	/* 10 to 80 ms in whole ticks of 10 ms: 7..1, 4 at nice 0. */
	if (linux_2_5_2)
		return (1000 + 175 * (u32)(19 - nice)) / 1000;
	return ((20 - nice) >> 2) + 1;
}

/* What is left of a task's quantum, in ticks. */
static __always_inline s32 *ticks_of(struct node *n)
{
	return linux_2_5_2 ? &n->time_slice : &n->counter;
}

static __always_inline s32 goodness(struct node *n, s32 cpu, u64 mm)
{
	s32 ticks = *ticks_of(n), weight;

	if (!ticks)
		return 0;
	weight = (linux_2_5_2 ? n->dyn_prio + 1 : ticks) + 20 - n->nice;
	if (n->last_cpu == cpu)
		weight += PROC_CHANGE_PENALTY;
	if (!n->mm || n->mm == mm)
		weight++;
	return weight;
}

/* linux_2_5_2: new ticks for all that is runnable, under the lock. */
static __always_inline void recalculate_runnable(void)
{
	u32 at = node_at(HEAD)->next;
	s32 i;

	epoch++;
	bpf_for(i, 0, MAX_TASKS) {
		struct node *n = node_at(at);

		if (!at)
			break;
		n->time_slice = nice_to_ticks(n->nice);
		n->epoch = epoch;
		at = n->next;
	}
	nr_recalculations++;
}

/* Linux 2.4: new ticks for all tasks of the system, without the lock. */
static __always_inline void recalculate(void)
{
	u32 place;

	bpf_for(place, HEAD + 1, nr_places) {
		struct node *n = node_at(place);

		n->counter = (n->counter >> 1) + nice_to_ticks(n->nice);
	}
	nr_recalculations++;
}

/*
 * The place of the best task for a CPU: one that waits, or that of `prev`, if it wants to go on (else that is HEAD). HEAD if
 * there is none, or SPENT.
 */
static __always_inline u32 choose(s32 cpu, u32 prev)
{
	u64 mm = cpu_ctx(cpu)->mm;
	s32 best = GOODNESS_IDLE, round, i;
	u32 next = HEAD, examined = 0, at;

	bpf_spin_lock(&runqueue_lock);
	bpf_for(round, 0, 2) {
		best = GOODNESS_IDLE;
		next = prev;
		if (prev)
			best = node_at(prev)->yielded ? -1 : goodness(node_at(prev), cpu, mm);
		at = node_at(HEAD)->next;
		bpf_for(i, 0, MAX_TASKS) {
			struct node *n = node_at(at);

			if (!at)
				break;
			examined++;
			if (n->cpu == WAITS && may_run(at, cpu)) {
				s32 weight = goodness(n, cpu, mm);

				if (weight > best) {
					best = weight;
					next = at;
				}
			}
			at = n->next;
		}
		if (best || !linux_2_5_2)
			break;
		recalculate_runnable();
	}
	nr_examined += examined;
	if (!best)
		next = SPENT;
	else if (next)
		node_at(next)->cpu = cpu;
	bpf_spin_unlock(&runqueue_lock);
	return next;
}

/*
 * Where a task that waits is to run: the CPU it ran on last if that is idle, else the one idle longest, else where it is
 * better by most, and more than 1; -1 for nowhere. Under the lock.
 */
static __always_inline s32 reschedule_idle(u32 place, bool *preempts)
{
	struct node *n = node_at(place);
	s32 cpu, oldest = -1, target = -1, most = 1;
	u64 since = 0;

	*preempts = false;
	if (may_run(place, n->last_cpu) && cpu_ctx(n->last_cpu)->idle)
		return n->last_cpu;
	bpf_for(cpu, 0, nr_cpus) {
		struct cpu_ctx *c = cpu_ctx(cpu);

		if (!may_run(place, cpu))
			continue;
		if (c->idle) {
			if (oldest < 0 || c->idle_since < since) {
				oldest = cpu;
				since = c->idle_since;
			}
		} else if (oldest < 0 && c->curr && c->curr != place) {
			struct node *curr = node_at(c->curr);
			s32 better = goodness(n, cpu, curr->mm) - goodness(curr, cpu, curr->mm);

			if (better > most) {
				most = better;
				target = cpu;
			}
		}
	}
	if (oldest >= 0)
		return oldest;
	*preempts = target >= 0;
	return target;
}

/* The task waits where it ran; enqueue() finds it a CPU. */
s32 SCX_OP(dss_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

/* Notes where a task may run: few are bound to some CPUs. */
static __always_inline void note_allowed(struct task_struct *p, u32 place)
{
	struct node *n = node_at(place);
	s32 cpu;

	n->bound = p->nr_cpus_allowed < nr_cpus;
	if (!n->bound)
		return;
	bpf_for(cpu, 0, nr_cpus) {
		u64 *word = &allowed[place & (MAX_TASKS - 1)][((u32)cpu / 64) & (MAX_CPUS / 64 - 1)];
		u64 bit = 1ULL << (cpu & 63);

		*word = bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ? *word | bit : *word & ~bit;
	}
}

/* Woken and new tasks come in at the front, one whose ticks have ended goes to the back; a preempted one keeps its place. */
void SCX_OP(dss_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 place = place_of(p);
	struct node *n = node_at(place);
	bool preempts = false, yielded;
	s32 cpu;

	if (!place) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, NO_SLICE_END, enq_flags);
		return;
	}
	if (woken_by_gone_cpu(p, NO_SLICE_END, enq_flags))
		return;
	n->nice = nice_of(p);
	n->mm = (u64)p->mm;
	note_allowed(p, place);
	yielded = n->yielded;
	n->yielded = false;
	if (yielded && n->queued && !n->expired) {
		n->cpu = WAITS;
		return;
	}
	bpf_spin_lock(&runqueue_lock);
	n->cpu = WAITS;
	if (!n->queued) {
		n->dyn_prio += epoch - n->epoch;
		n->epoch = epoch;
		if (n->dyn_prio > MAX_DYN_PRIO)
			n->dyn_prio = MAX_DYN_PRIO;
		add_to_runqueue(place);
	} else if (n->expired) {
		move_last_runqueue(place);
	}
	n->expired = false;
	/* For who yields no CPU is looked for. */
	cpu = yielded ? -1 : reschedule_idle(place, &preempts);
	if (preempts)
		nr_preempted++;
	bpf_spin_unlock(&runqueue_lock);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, preempts ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
}

void SCX_OP(dss_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 of_prev = HEAD;
	s32 i;

	if (prev && prev->scx.flags & SCX_TASK_QUEUED)
		of_prev = place_of(prev);
	bpf_for(i, 0, MAX_TRIES) {
		u32 next = choose(cpu, of_prev);
		struct task_struct *p;

		if (!next)
			return;
		if (next == SPENT) {
			recalculate();
			continue;
		}
		if (next == of_prev) {
			node_at(next)->yielded = false;
			node_at(next)->expired = false;
			scx_bpf_task_set_slice(prev, NO_SLICE_END);
			return;
		}
		p = bpf_task_from_pid(node_at(next)->pid);
		if (p) {
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, NO_SLICE_END, 0);
			bpf_task_release(p);
			return;
		}
	}
}

void SCX_OP(dss_tick, struct task_struct *p)
{
	struct cpu_ctx *c = cpu_ctx(scx_bpf_task_cpu(p));
	u32 place = place_of(p);
	struct node *n = node_at(place);
	s32 *ticks = ticks_of(n);

	if (!place)
		return;
	n->owed_ns += tick_period(&c->ticks, scx_bpf_now(), tick_ns);
	if (n->owed_ns >= tick_ns) {
		n->owed_ns -= tick_ns;
		if (*ticks && !--*ticks && n->dyn_prio)
			n->dyn_prio--;
	}
	if (!*ticks) {
		n->expired = !linux_2_5_2;
		scx_bpf_task_set_slice(p, 0);
	}
}

void SCX_OP(dss_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *c = cpu_ctx(cpu);
	u32 place = place_of(p);
	struct node *n = node_at(place);

	c->curr = place;
	c->idle = false;
	if (!place)
		return;
	n->cpu = cpu;
	n->last_cpu = cpu;
	n->expired = false;
	if (n->mm)
		c->mm = n->mm;
}

void SCX_OP(dss_stopping, struct task_struct *p, bool runnable)
{
	cpu_ctx(scx_bpf_task_cpu(p))->curr = HEAD;
}

void SCX_OP(dss_quiescent, struct task_struct *p, u64 deq_flags)
{
	u32 place = place_of(p);

	if (!place || !node_at(place)->queued)
		return;
	bpf_spin_lock(&runqueue_lock);
	del_from_runqueue(place);
	bpf_spin_unlock(&runqueue_lock);
}

bool SCX_OP(dss_yield, struct task_struct *from, struct task_struct *to)
{
	u32 place = place_of(from);
	struct node *n = node_at(place);

	if (place) {
		n->yielded = true;
		if (linux_2_5_2) {
			n->time_slice = 0;
			if (n->dyn_prio < MAX_DYN_PRIO)
				n->dyn_prio++;
		}
	}
	scx_bpf_task_set_slice(from, 0);
	return false;
}

void SCX_OP(dss_update_idle, s32 cpu, bool idle)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	c->idle = idle && is_online(cpu);
	if (idle)
		c->idle_since = scx_bpf_now();
}

void SCX_OP(dss_cpu_online, s32 cpu)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	set_online(cpu, true);
	c->idle_since = scx_bpf_now();
	c->idle = true;
}

/* It goes idle last of all, and is not to be sent anybody then. */
void SCX_OP(dss_cpu_offline, s32 cpu)
{
	set_online(cpu, false);
	cpu_ctx(cpu)->idle = false;
}

/* A realtime task takes the CPU: what waits there is for all. */
void SCX_OP(dss_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local___v2___compat();
}

s32 SCX_OP(dss_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct node *n;
	u32 place;

	if (!t)
		return -ENOMEM;
	bpf_spin_lock(&runqueue_lock);
	place = take_place();
	bpf_spin_unlock(&runqueue_lock);
	if (!place)
		return -ENOMEM;
	t->place = place;
	n = node_at(place);
	n->pid = p->pid;
	n->nice = nice_of(p);
	*ticks_of(n) = nice_to_ticks(n->nice);
	n->epoch = epoch;
	n->dyn_prio = 0;
	n->last_cpu = scx_bpf_task_cpu(p);
	n->cpu = WAITS;
	n->queued = n->yielded = n->expired = false;
	n->owed_ns = 0;
	return 0;
}

/* The parent gets back what its child has left, up to what a sleeper can gather. */
void SCX_OP(dss_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 place = place_of(p), of_parent = p->real_parent ? place_of(p->real_parent) : HEAD;
	struct node *n = node_at(place), *parent = node_at(of_parent);
	s32 *ticks, most;

	if (!place)
		return;
	if (of_parent) {
		most = linux_2_5_2 ? MAX_TICKS : 2 * nice_to_ticks(parent->nice);
		ticks = ticks_of(parent);
		*ticks += *ticks_of(n);
		if (*ticks > most)
			*ticks = most;
	}
	bpf_spin_lock(&runqueue_lock);
	if (n->queued)
		del_from_runqueue(place);
	give_back(place);
	bpf_spin_unlock(&runqueue_lock);
}

/* The parent's remaining counter is split between parent and child. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(dss_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 of_parent = place_of(parent), of_child = place_of(child);
	struct node *from = node_at(of_parent), *to = node_at(of_child);
	s32 *ticks = ticks_of(from);

	if (!of_parent || !of_child)
		return 0;
	*ticks_of(to) = (*ticks + 1) >> 1;
	*ticks >>= 1;
	if (!*ticks) {
		from->expired = !linux_2_5_2;
		scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
	}
	return 0;
}

s32 SCX_OP_SLEEPABLE(dss_init)
{
	s32 cpu;

	nr_cpus = scx_bpf_nr_cpu_ids();
	/* As the kernel takes them to be, until they say. */
	online_init();
	bpf_for(cpu, 0, nr_cpus)
		cpu_ctx(cpu)->idle = is_online(cpu);
	return 0;
}

SCX_OPS(dss_ops,
	.select_cpu = (void *)dss_select_cpu,
	.enqueue = (void *)dss_enqueue,
	.dispatch = (void *)dss_dispatch,
	.tick = (void *)dss_tick,
	.running = (void *)dss_running,
	.stopping = (void *)dss_stopping,
	.quiescent = (void *)dss_quiescent,
	.yield = (void *)dss_yield,
	.update_idle = (void *)dss_update_idle,
	.cpu_release = (void *)dss_cpu_release,
	.cpu_online = (void *)dss_cpu_online,
	.cpu_offline = (void *)dss_cpu_offline,
	.init_task = (void *)dss_init_task,
	.exit_task = (void *)dss_exit_task,
	.init = (void *)dss_init,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "dss");
