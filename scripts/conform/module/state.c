// SPDX-License-Identifier: GPL-2.0-only
/* Prints the state of CPUs, queues and tasks (docs/scripts.md describes the rows). */
#include "vmlinux.h"
#include "inside.h"
#include "row.h"

extern struct rb_node *rb_next(const struct rb_node *node);
extern int kernfs_path_from_node(struct kernfs_node *to, struct kernfs_node *from, char *buffer, unsigned long size);

#define UTIL_AVG_UNCHANGED 0x80000000u

static const char *class_name(struct task_struct *p)
{
	const void *class = p->sched_class;

	return class == inside.fair_sched_class ? "fair" :
	       class == inside.ext_sched_class	? "ext" :
	       class == inside.rt_sched_class	? "rt" :
	       class == inside.dl_sched_class	? "dl" :
						  "stop";
}

static const char *state_name(struct task_struct *p)
{
	if (p->__state == 0x800)
		return "new";
	if (p->exit_state || p->__state == 0x80)
		return "dead";
	if (p->on_cpu)
		return "running";
	if (p->on_rq)
		return p->se.sched_delayed ? "delayed" : p->throttled ? "throttled" : "queued";
	return p->__state == 0x200 ? "waking" : "blocked";
}

void add_path(struct row *row, struct cgroup *cgroup)
{
	char path[128];

	if (kernfs_path_from_node(cgroup->kn, NULL, path, sizeof(path)) < 0)
		add(row, "?");
	else
		add(row, "%s", path);
}

static void add_group_name(struct row *row, struct task_group *tg)
{
	if (tg->css.cgroup)
		add_path(row, tg->css.cgroup);
	else
		add(row, "?");
}

/* Writes the path of the group whose cgroup has an id. Returns false if there is none. */
bool add_group_with_id(struct row *row, unsigned long long id)
{
	struct list_head *groups = inside.task_groups;

	for (struct list_head *node = groups->next; node != groups; node = node->next) {
		struct task_group *tg = container_of(node, struct task_group, list);

		if (tg == inside.root_task_group || !tg->css.cgroup || tg->css.cgroup->kn->id != id)
			continue;
		add_path(row, tg->css.cgroup);
		return true;
	}
	return false;
}

static void add_average(struct row *row, const struct sched_avg *avg)
{
	add(row, " load_avg=%lu runnable_avg=%lu util_avg=%lu", avg->load_avg, avg->runnable_avg, avg->util_avg);
}

/* Prints the part of a fair entity that means something in its state. */
static void add_entity(struct row *row, const struct sched_entity *se, bool queued)
{
	if (queued) {
		add(row, " vruntime=%lld deadline=%lld", se->vruntime, se->deadline);
		if (se->sched_delayed)
			add(row, " vlag=%lld", se->vlag);
	} else {
		add(row, " vlag=%lld", se->vlag);
		if (se->rel_deadline)
			add(row, " rel_deadline=%lld", se->deadline);
	}
	add(row, " slice=%llu", se->slice);
}

/* Prints a set of CPUs as 1-3,5. */
void add_cpus(struct row *row, const cpumask_t *cpus)
{
	unsigned long set = cpus->bits[0];
	const char *separator = "";

	for (int first = 0; first < 64; first++) {
		int last = first;

		if (!(set >> first & 1))
			continue;
		while (last < 63 && set >> (last + 1) & 1)
			last++;
		add(row, first == last ? "%s%d" : "%s%d-%d", separator, first, last);
		separator = ",";
		first = last;
	}
}

static void log_task(struct task_struct *p)
{
	struct row row = {};
	char key[32];

	scnprintf(key, sizeof(key), "task %s", task_name(p));
	add(&row, " state=%s cpu=%u class=%s", state_name(p), p->thread_info.cpu, class_name(p));
	if (p->__state == 0x80 || p->exit_state) {
		log_row(key, row.text);
		return;
	}
	add(&row, " prio=%d", p->prio - 100);
	add(&row, " cpus=");
	add_cpus(&row, p->cpus_ptr);
	if (p->migration_disabled)
		add(&row, " migration_disabled=%d", p->migration_disabled);
	if (p->sched_task_group != inside.root_task_group) {
		add(&row, " group=");
		add_group_name(&row, p->sched_task_group);
	}
	if (p->sched_class == inside.fair_sched_class) {
		add_entity(&row, &p->se, p->se.on_rq);
		add_average(&row, &p->se.avg);
		add(&row, " util_est=%u", p->se.avg.util_est & ~UTIL_AVG_UNCHANGED);
	} else if (p->sched_class == inside.ext_sched_class) {
		ext_add_task(&row, p);
	} else if (p->policy == 2) {
		add(&row, " time_slice=%u", p->rt.time_slice);
	}
	add(&row, " sum_exec=%llu", p->se.sum_exec_runtime);
	log_row(key, row.text);
}

static void add_entity_name(struct row *row, struct sched_entity *se)
{
	if (se->my_q)
		add_group_name(row, se->my_q->tg);
	else
		add(row, "%s", task_name(container_of(se, struct task_struct, se)));
}

static void log_cfs_rq(int cpu, struct task_group *tg, struct cfs_rq *cfs_rq)
{
	struct row row = {}, key = {};
	char separator = '=';

	add(&key, "cfs %d ", cpu);
	add_group_name(&key, tg);
	add(&row, " nr_queued=%u h_nr_queued=%u h_nr_runnable=%u h_nr_idle=%u weight=%lu zero_vruntime=%lld", cfs_rq->nr_queued, cfs_rq->h_nr_queued,
	    cfs_rq->h_nr_runnable, cfs_rq->h_nr_idle, cfs_rq->load.weight, cfs_rq->zero_vruntime);
	add_average(&row, &cfs_rq->avg);
	if (tg != inside.root_task_group) {
		struct sched_entity *se = &((struct cfs_tg_state *)cfs_rq)->se;

		add(&row, " shares=%lu tg_load_avg_contrib=%lu", se->load.weight, cfs_rq->tg_load_avg_contrib);
		add_entity(&row, se, se->on_rq);
		if (cfs_rq->runtime_enabled)
			add(&row, " throttled=%d throttle_count=%d runtime_remaining=%lld", cfs_rq->throttled, cfs_rq->throttle_count,
			    cfs_rq->runtime_remaining);
	}
	if (cfs_rq->curr) {
		add(&row, " curr=");
		add_entity_name(&row, cfs_rq->curr);
	}
	for (struct rb_node *node = cfs_rq->tasks_timeline.rb_leftmost; node; node = rb_next(node)) {
		if (separator == '=')
			add(&row, " queue");
		add(&row, "%c", separator);
		add_entity_name(&row, container_of(node, struct sched_entity, run_node));
		separator = ',';
	}
	log_row(key.text, row.text);
}

static void log_cpu(int cpu)
{
	struct rq *rq = rq_of(cpu);
	struct row row = {};
	char key[16];

	scnprintf(key, sizeof(key), "cpu %d", cpu);
	add(&row, " curr=%s nr_running=%u capacity=%lu", task_name(rq->curr), rq->nr_running, rq->cpu_capacity);
	if (rq->misfit_task_load)
		add(&row, " misfit=%lu", rq->misfit_task_load);
	log_row(key, row.text);
}

static void log_group(struct task_group *tg)
{
	struct row row = {}, key = {};

	add(&key, "group ");
	add_group_name(&key, tg);
	add(&row, " shares=%lu load_avg=%ld", tg->shares, tg->load_avg.counter);
	if (tg->cfs_bandwidth.quota != ~0ull)
		add(&row, " quota=%llu period=%lld burst=%llu runtime=%llu", tg->cfs_bandwidth.quota,
		    tg->cfs_bandwidth.period, tg->cfs_bandwidth.burst, tg->cfs_bandwidth.runtime);
	log_row(key.text, row.text);
}

/* Prints the rows that changed since the last call. */
void state_log(void)
{
	struct list_head *groups = inside.task_groups;
	struct task_struct *p;

	for (int cpu = 1; cpu_usable(cpu) >= 0; cpu++) {
		if (!cpu_usable(cpu))
			continue;
		log_cpu(cpu);
		log_cfs_rq(cpu, inside.root_task_group, &rq_of(cpu)->cfs);
	}
	for (struct list_head *node = groups->next; node != groups; node = node->next) {
		struct task_group *tg = container_of(node, struct task_group, list);

		if (tg == inside.root_task_group)
			continue;
		log_group(tg);
		for (int cpu = 1; cpu_usable(cpu) >= 0; cpu++)
			if (cpu_usable(cpu))
				log_cfs_rq(cpu, tg, percpu_of(tg->cfs_rq, cpu));
	}
	ext_log();
	for (int i = 0; (p = task_struct_number(i)); i++)
		log_task(p);
}

/* Describes a call of sched_balance_rq(): the domain, and why the CPU balances. */
void balance_describe(const void *domain, int idle, int remote, char *text, unsigned long size)
{
	static const char *const kinds[] = { "busy", "idle", "newidle" };
	const struct sched_domain *sd = domain;

	scnprintf(text, size, " domain=%s idle=%s%s", sd ? sd->name : "?", idle >= 0 && idle < 3 ? kinds[idle] : "?",
		  remote ? " nohz" : "");
}
