// SPDX-License-Identifier: GPL-2.0-only
/* Reads and resets runqueues. */
#include "vmlinux.h"
#include "inside.h"

int rq_has_normal_tasks(int cpu)
{
	struct rq *rq = rq_of(cpu);

	return rq->cfs.h_nr_queued || rq->scx.nr_running;
}

int rq_stopper_queued(int cpu)
{
	return rq_of(cpu)->stop->on_rq;
}

int rq_stopper_runs(int cpu)
{
	struct rq *rq = rq_of(cpu);

	return *(struct task_struct *volatile *)&rq->curr == rq->stop;
}

/* A task with migration disabled no longer counts. */
void rq_forget_pinned(int cpu)
{
	rq_of(cpu)->nr_pinned--;
}

/* Makes a task that has never run one of a CPU, as sched_cgroup_fork() does. */
void rq_place_new_task(struct task_struct *p, int cpu)
{
	struct task_group *tg = p->sched_task_group;
	struct cfs_rq *cfs_rq = percpu_of(tg->cfs_rq, cpu);

	p->se.cfs_rq = cfs_rq;
	p->se.parent = tg->parent ? &((struct cfs_tg_state *)cfs_rq)->se : (void *)0;
	p->se.depth = p->se.parent ? p->se.parent->depth + 1 : 0;
	*(volatile unsigned int *)&p->thread_info.cpu = cpu;
	p->wake_cpu = cpu;
}

/*
 * Prepares a deadline server. Linux does so in sched_init_dl_servers() for the CPUs that are online at
 * boot, which is CPU 0 alone.
 */
static void server_reset(struct sched_dl_entity *server)
{
	server->dl_runtime = 50000000;
	server->dl_deadline = server->dl_period = 1000000000;
	server->dl_bw = server->dl_density = (server->dl_runtime << 20) / server->dl_period;
	server->dl_server = server->dl_defer = server->dl_bw_attached = 1;
	server->runtime = 0;
	server->deadline = 0;
}

/* Linux's initial values of a runqueue (sched_init() in kernel/sched/core.c) for a CPU that idles. */
void rq_reset(int cpu)
{
	struct rq *rq = rq_of(cpu);
	struct cfs_rq *cfs_rq = &rq->cfs;
	struct sched_avg nothing = { .last_update_time = clock_now() };
	unsigned long jiffies = *(volatile unsigned long *)inside.jiffies;

	rq->clock = rq->clock_task = rq->clock_pelt = rq->clock_pelt_idle = rq->clock_idle = clock_now();
	rq->lost_idle_time = 0;
	rq->prev_steal_time = 0;
	rq->idle_stamp = 0;
	rq->max_idle_balance_cost = 500000;
	rq->avg_idle = 2 * rq->max_idle_balance_cost;
	rq->next_balance = jiffies;
	rq->last_blocked_load_update_tick = jiffies;
	rq->has_blocked_load = 0;
	rq->nohz_idle_balance = 0;
	rq->misfit_task_load = 0;
	rq->push_cpu = 0;
	rq->cpu_runtime = 0;
	rq->cpu_epoch = 0;
	rq->cpu_epoch_next = jiffies;
	rq->ticks_without_resched = 0;
	rq->avg_rt = rq->avg_dl = nothing;

	cfs_rq->zero_vruntime = -(1ll << 20);
	cfs_rq->sum_w_vruntime = 0;
	cfs_rq->sum_weight = 0;
	cfs_rq->sum_shift = 0;
	cfs_rq->avg = nothing;
	cfs_rq->removed.nr = 0;
	cfs_rq->removed.load_avg = cfs_rq->removed.util_avg = cfs_rq->removed.runnable_avg = 0;
	cfs_rq->propagate = 0;
	cfs_rq->prop_runnable_sum = 0;
	cfs_rq->h_load = 0;
	cfs_rq->last_h_load_update = 0;

	/* An idle task is the waker if an interrupt wakes a task on an idle CPU. */
	rq->idle->wakee_flips = 0;
	rq->idle->wakee_flip_decay_ts = jiffies;
	rq->idle->last_wakee = (void *)0;

	server_reset(&rq->fair_server);
	server_reset(&rq->ext_server);
	rq->dl.this_bw = rq->fair_server.dl_bw + rq->ext_server.dl_bw;
}

/* Makes the scheduling domains of a CPU as new as time 0. They were built earlier. */
void domains_reset(int cpu)
{
	unsigned long jiffies = *(volatile unsigned long *)inside.jiffies;

	for (struct sched_domain *sd = rq_of(cpu)->sd; sd; sd = sd->parent) {
		/* update_group_capacity(): at most HZ / 10, and a jiffy is 4 ms. */
		unsigned long interval = (sd->span_weight + 3) / 4;

		sd->balance_interval = sd->span_weight;
		sd->nr_balance_failed = 0;
		sd->newidle_call = sd->newidle_ratio = 512;
		sd->newidle_success = 256;
		sd->max_newidle_lb_cost = 0;
		sd->groups->sgc->imbalance = 0;
		sd->groups->sgc->next_update = jiffies + (interval > 25 ? 25 : interval);
		sd->last_balance = sd->last_decay_max_lb_cost = jiffies;
		sd->newidle_stamp = clock_now();
		if (sd->shared)
			sd->shared->has_idle_cores = 0;
	}
}

/* The state of balancing for idle CPUs, in kernel/sched/fair.c. */
struct nohz {
	struct cpumask *idle_cpus_mask;
	int has_blocked_load;
	int needs_update;
	unsigned long next_balance;
	unsigned long next_blocked;
};

void nohz_reset(void)
{
	struct nohz *nohz = inside.nohz;
	unsigned long jiffies = *(volatile unsigned long *)inside.jiffies;

	nohz->has_blocked_load = 0;
	nohz->needs_update = 0;
	nohz->next_balance = jiffies;
	nohz->next_blocked = jiffies;
}

/* The first values of a CPU's random numbers: those of prandom_seed_state() with the CPU's number. */
static void seed(struct rnd_state *state, unsigned int seed)
{
	unsigned int i = seed << 10 ^ seed;

	state->s1 = i < 2 ? i + 2 : i;
	state->s2 = i < 8 ? i + 8 : i;
	state->s3 = i < 16 ? i + 16 : i;
	state->s4 = i < 128 ? i + 128 : i;
}

/* Resets random numbers, and the CPU at which cpumask_any_and_distribute() goes on. */
void random_reset(int cpu)
{
	*(int *)percpu_of(inside.distribute_cpu_mask_prev, cpu) = 0;
	seed(percpu_of(inside.sched_rnd_state, cpu), cpu);
	seed(percpu_of(inside.bpf_user_rnd_state, cpu), cpu);
}

int rq_idle(int cpu)
{
	return rq_of(cpu)->nr_running == 0;
}

/*
 * Lets an idle CPU stop its tick when the present interrupt ends. It does so only after a tick, which has not come
 * if a policy has just been attached.
 */
void tick_stop(int cpu)
{
	((struct tick_sched *)percpu_of(inside.tick_cpu_sched, cpu))->got_idle_tick = 1;
}

/* Returns the number of groups, without the root. */
int groups_count(void)
{
	struct list_head *groups = inside.task_groups;
	int count = -1;

	for (struct list_head *node = groups->next; node != groups; node = node->next)
		count++;
	return count;
}

/*
 * Lets the periods of cpu.max of a new group begin at multiples of the period after time 0. Linux draws a
 * time within the first period after boot, which has passed.
 */
void groups_align(void)
{
	struct list_head *groups = inside.task_groups;

	for (struct list_head *node = groups->next; node != groups; node = node->next) {
		struct task_group *tg = (void *)((char *)node - __builtin_offsetof(struct task_group, list));
		struct hrtimer *timer = &tg->cfs_bandwidth.period_timer;

		if (!tg->cfs_bandwidth.period_active && timer->node.expires < tg->cfs_bandwidth.period)
			timer->node.expires = timer->_softexpires = script_begin();
	}
}
