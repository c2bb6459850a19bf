// SPDX-License-Identifier: GPL-2.0-only
/*
 * Logs the calls of a policy's callbacks. The kernel calls them through the table of the loaded scheduler,
 * so the log's own functions take their places there and pass the calls on.
 */
#include "vmlinux.h"
#include "inside.h"
#include "row.h"

extern void rhashtable_walk_enter(struct rhashtable *table, struct rhashtable_iter *iterator);
extern void rhashtable_walk_exit(struct rhashtable_iter *iterator);
extern int rhashtable_walk_start_check(struct rhashtable_iter *iterator);
extern void *rhashtable_walk_next(struct rhashtable_iter *iterator);
extern void rhashtable_walk_stop(struct rhashtable_iter *iterator);
extern int kernfs_path_from_node(struct kernfs_node *to, struct kernfs_node *from, char *buffer, unsigned long size);

/* The callbacks at the beginning of struct sched_ext_ops, and three at its end. */
#define SLOTS 38
#define ACQUIRE 35
#define RELEASE 36
#define EXIT 37
/* Most policies: the root and its sub-schedulers. */
#define SCHEDS 6

/*
 * The arguments: t task, c CPU or other number, x flags, b bool, m cpumask, k mask of cids, g cgroup,
 * s sub-scheduler, r release, e exit; _ is not printed.
 */
static const struct op {
	const char *name, *cid_name, *arguments;
	const char *labels[4];
	char result; /* d: number, b: bool */
} ops[SLOTS] = {
	{ "select_cpu", "select_cid", "tcx", { "task", "prev", "wake_flags" }, 'd' },
	{ "enqueue", 0, "tx", { "task", "enq_flags" } },
	{ "dequeue", 0, "tx", { "task", "deq_flags" } },
	{ "dispatch", 0, "ct", { "on", "prev" } },
	{ "tick", 0, "t", { "task" } },
	{ "runnable", 0, "tx", { "task", "enq_flags" } },
	{ "running", 0, "t", { "task" } },
	{ "stopping", 0, "tb", { "task", "runnable" } },
	{ "quiescent", 0, "tx", { "task", "deq_flags" } },
	{ "yield", 0, "tt", { "task", "to" }, 'b' },
	{ "core_sched_before", 0, "tt", { "task", "other" }, 'b' },
	{ "set_weight", 0, "tc", { "task", "weight" } },
	{ "set_cpumask", "set_cmask", "tm", { "task", "cpus" } },
	{ "update_idle", 0, "cb", { "on", "idle" } },
	{ "init_task", 0, "t_", { "task" }, 'd' },
	{ "exit_task", 0, "t_", { "task" } },
	{ "enable", 0, "t_", { "task" } },
	{ "disable", 0, "t", { "task" } },
	{}, {}, {}, /* dump */
	{ "cgroup_init", "cpuctl_init", "g_", { "group" }, 'd' },
	{ "cgroup_exit", "cpuctl_exit", "g", { "group" } },
	{ "cgroup_prep_move", "cpuctl_prep_move", "tgg", { "task", "from", "to" }, 'd' },
	{ "cgroup_move", "cpuctl_move", "tgg", { "task", "from", "to" } },
	{ "cgroup_cancel_move", "cpuctl_cancel_move", "tgg", { "task", "from", "to" } },
	{ "cgroup_set_weight", "cpuctl_set_weight", "gc", { "group", "weight" } },
	{ "cgroup_set_bandwidth", "cpuctl_set_bandwidth", "gxxx", { "group", "period_us", "quota_us", "burst_us" } },
	{ "cgroup_set_idle", "cpuctl_set_idle", "gb", { "group", "idle" } },
	{ "sub_attach", 0, "s", { "group" }, 'd' },
	{ "sub_detach", 0, "s", { "group" } },
	{ "sub_caps_updated", 0, "kx", { "cids", "caps" } },
	{ "sub_ecaps_updated", 0, "cxx", { "on", "before", "after" } },
	{ "cpu_online", "cid_online", "c", { "on" } },
	{ "cpu_offline", "cid_offline", "c", { "on" } },
	{ "cpu_acquire", 0, "c_", { "on" } },
	{ "cpu_release", 0, "cr", { "on", "reason" } },
	{ "exit", 0, "e", { "kind" } },
};

typedef u64 (*callback_t)(u64, u64, u64, u64);

/* The loaded policies. The root comes first; a place is free again when its policy has ended. */
static struct watched {
	struct scx_sched *sched;
	callback_t originals[SLOTS];
} watched[SCHEDS];

/* Whether the script has had a sub-scheduler. */
static bool has_subs;

/* Writes the cgroup of a sub-scheduler, or an empty text for the root. */
static const char *sched_text(const struct scx_sched *sched, char *text, unsigned long size)
{
	static const char label[] = " sched=";
	unsigned long length = sizeof(label) - 1;

	text[0] = 0;
	if (sched && sched->level) {
		scnprintf(text, size, "%s", label);
		kernfs_path_from_node(sched->cgrp->kn, NULL, text + length, size - length);
	}
	return text;
}

static void add_argument(struct row *row, char kind, u64 value, bool has_cids)
{
	/* ops.set_cmask() has the slot of ops.set_cpumask(). */
	if (kind == 'm' && has_cids)
		kind = 'k';
	switch (kind) {
	case 't':
		add(row, "%s", value ? task_name((struct task_struct *)value) : "none");
		break;
	case 'c':
		add(row, "%d", (int)value);
		break;
	case 'x':
		add(row, "%#llx", value);
		break;
	case 'b':
		add(row, "%d", value & 1);
		break;
	case 'm':
		add_cpus(row, (const cpumask_t *)value);
		break;
	case 'k':
		add_cpus(row, (const cpumask_t *)((struct scx_cmask *)value)->bits);
		break;
	case 'g':
		add_path(row, (struct cgroup *)value);
		break;
	case 's':
		add(row, "%s", ((struct scx_sub_attach_args *)value)->cgroup_path);
		break;
	case 'e':
		add(row, "%d", ((struct scx_exit_info *)value)->kind);
		break;
	case 'r':
		add(row, "%d", ((struct scx_cpu_release_args *)value)->reason);
		break;
	}
}

/* CPU 0 and its tasks are not part of the script. */
static bool foreign(const struct op *op, const u64 *values)
{
	if (!events_logging())
		return true;
	if (op->arguments[0] == 't')
		return !script_task((struct task_struct *)values[0]);
	return op->arguments[0] == 'c' && (int)values[0] == 0;
}

static u64 call(int policy, int slot, u64 a, u64 b, u64 c, u64 d)
{
	struct scx_sched *sched = watched[policy].sched;
	callback_t original = watched[policy].originals[slot];
	const struct op *op = &ops[slot];
	const char *name = sched->is_cid_type && op->cid_name ? op->cid_name : op->name;
	u64 values[] = { a, b, c, d }, result;
	char of[80];
	struct row row = {};

	/* It is the last callback. */
	if (slot == EXIT)
		watched[policy].sched = NULL;
	/* The first callbacks for a new task are ops.init_task and ops.enable. */
	if (slot == 14 || slot == 16)
		task_adopt((struct task_struct *)a);
	if (foreign(op, values))
		return original(a, b, c, d);
	sched_text(sched, of, sizeof(of));
	for (int i = 0; op->arguments[i]; i++) {
		if (op->arguments[i] == '_')
			continue;
		add(&row, " %s=", op->labels[i]);
		add_argument(&row, op->arguments[i], values[i], sched->is_cid_type);
	}
	log_event("call %s cpu=%d%s%s", name, current_cpu(), of, row.text);
	result = original(a, b, c, d);
	if (op->result == 'd')
		log_event("return %s cpu=%d%s value=%d", name, current_cpu(), of, (int)result);
	if (op->result == 'b')
		log_event("return %s cpu=%d%s value=%d", name, current_cpu(), of, (int)(result & 1));
	return result;
}

/* A function for each policy and slot. */
#define CALLS(C, policy)                                                                                           \
	C(policy, 0) C(policy, 1) C(policy, 2) C(policy, 3) C(policy, 4) C(policy, 5) C(policy, 6) C(policy, 7)    \
	C(policy, 8) C(policy, 9) C(policy, 10) C(policy, 11) C(policy, 12) C(policy, 13) C(policy, 14)            \
	C(policy, 15) C(policy, 16) C(policy, 17) C(policy, 21) C(policy, 22) C(policy, 23) C(policy, 24)          \
	C(policy, 25) C(policy, 26) C(policy, 27) C(policy, 28) C(policy, 29) C(policy, 30) C(policy, 31)          \
	C(policy, 32) C(policy, 33) C(policy, 34) C(policy, 35) C(policy, 36) C(policy, 37)
#define FUNCTION(policy, slot)                                                                                     \
	static u64 call##policy##_##slot(u64 a, u64 b, u64 c, u64 d)                                               \
	{                                                                                                          \
		return call(policy, slot, a, b, c, d);                                                             \
	}
CALLS(FUNCTION, 0) CALLS(FUNCTION, 1) CALLS(FUNCTION, 2) CALLS(FUNCTION, 3) CALLS(FUNCTION, 4) CALLS(FUNCTION, 5)
#define ENTRY(policy, slot) [slot] = call##policy##_##slot,
static const callback_t calls[SCHEDS][SLOTS] = {
	{ CALLS(ENTRY, 0) }, { CALLS(ENTRY, 1) }, { CALLS(ENTRY, 2) },
	{ CALLS(ENTRY, 3) }, { CALLS(ENTRY, 4) }, { CALLS(ENTRY, 5) },
};

static callback_t *slot_of(struct scx_sched *sched, int slot)
{
	if (slot == ACQUIRE)
		return sched->is_cid_type ? NULL : (callback_t *)&sched->ops.cpu_acquire;
	if (slot == RELEASE)
		return sched->is_cid_type ? NULL : (callback_t *)&sched->ops.cpu_release;
	if (slot == EXIT)
		return sched->is_cid_type ? (callback_t *)&sched->ops_cid.exit : (callback_t *)&sched->ops.exit;
	return (callback_t *)&sched->ops.select_cpu + slot;
}

/* Takes the places of a policy's callbacks. */
static void watch(int policy, struct scx_sched *sched)
{
	struct watched *w = &watched[policy];

	w->sched = sched;
	for (int slot = 0; slot < SLOTS; slot++) {
		callback_t *place = calls[policy][slot] ? slot_of(sched, slot) : NULL;

		w->originals[slot] = place ? *place : NULL;
		if (w->originals[slot])
			*place = calls[policy][slot];
	}
}

/* Begins to watch the loaded policy, or ends to watch all policies. */
void ext_watch(int on)
{
	struct scx_sched *root = *(struct scx_sched **)inside.scx_root;

	has_subs = false;
	if (on && root)
		watch(0, root);
	for (int policy = 0; policy < SCHEDS && !on; policy++) {
		struct watched *w = &watched[policy];

		for (int slot = 0; slot < SLOTS && w->sched && (policy || w->sched == root); slot++)
			if (w->originals[slot])
				*slot_of(w->sched, slot) = w->originals[slot];
		w->sched = NULL;
	}
}

/* Begins to watch a sub-scheduler. */
void ext_watch_sub(struct scx_sched *sched)
{
	for (int policy = 1; policy < SCHEDS; policy++)
		if (!watched[policy].sched) {
			watch(policy, sched);
			has_subs = true;
			return;
		}
}

/*
 * Writes the id of a queue that the policy has created. A policy with ops.cgroup_init() may use the ids of
 * cgroups, which differ from boot to boot, so the path of the cgroup is written instead.
 */
static void add_created_dsq(struct row *row, const struct scx_dispatch_q *dsq)
{
	if (!dsq->sched->ops.cgroup_init || !add_group_with_id(row, dsq->id))
		add(row, "%#llx", dsq->id);
}

static void add_dsq_name(struct row *row, const struct scx_dispatch_q *dsq)
{
	if (!dsq)
		add(row, "none");
	else if (dsq->id == SCX_DSQ_LOCAL)
		add(row, "local");
	else if (dsq->id == SCX_DSQ_GLOBAL)
		add(row, "global");
	else if (dsq->id == SCX_DSQ_BYPASS)
		add(row, "bypass");
	else if (dsq->id == SCX_DSQ_REJECT)
		add(row, "reject");
	else if (dsq->id == SCX_DSQ_RESCUE)
		add(row, "rescue");
	else if (dsq->id >> 63)
		add(row, "builtin:%#llx", dsq->id);
	else
		add_created_dsq(row, dsq);
}

/* The part of a task's row that belongs to sched_ext. */
void ext_add_task(struct row *row, struct task_struct *p)
{
	char of[80];

	add(row, " dsq=");
	add_dsq_name(row, p->scx.dsq);
	add(row, " slice=%llu vtime=%llu weight=%u%s", p->scx.slice, p->scx.dsq_vtime, p->scx.weight,
	    sched_text(p->scx.sched, of, sizeof(of)));
}

static void log_dsq(const char *key, struct scx_dispatch_q *dsq)
{
	struct row row = {};
	struct list_head *node;
	char separator = '=';

	add(&row, " nr=%u", dsq->nr);
	for (node = dsq->list.next; node != &dsq->list; node = node->next) {
		struct scx_dsq_list_node *entry = container_of(node, struct scx_dsq_list_node, node);

		if (entry->flags & 1) /* a cursor */
			continue;
		if (separator == '=')
			add(&row, " queue");
		add(&row, "%c%s", separator, task_name(container_of(entry, struct task_struct, scx.dsq_list)));
		separator = ',';
	}
	log_row(key, row.text);
}

#define DSQS 4096

/* Logs a queue that each CPU has. */
static void log_cpu_dsqs(const char *name, struct scx_dispatch_q *(*get)(int cpu, const struct scx_sched *sched),
			 const struct scx_sched *sched)
{
	for (int cpu = 1; cpu_usable(cpu) >= 0; cpu++) {
		struct row key = {};

		if (!cpu_usable(cpu))
			continue;
		add(&key, "dsq%s %d", name, cpu);
		log_dsq(key.text, get(cpu, sched));
	}
}

static struct scx_dispatch_q *local_dsq(int cpu, const struct scx_sched *sched)
{
	return &rq_of(cpu)->scx.local_dsq;
}

static struct scx_dispatch_q *reject_dsq(int cpu, const struct scx_sched *sched)
{
	return &rq_of(cpu)->scx.reject_dsq;
}

static struct scx_dispatch_q *rescue_dsq(int cpu, const struct scx_sched *sched)
{
	return &rq_of(cpu)->scx.rescue.dsq;
}

static struct scx_dispatch_q *bypass_dsq(int cpu, const struct scx_sched *sched)
{
	return &((struct scx_sched_pcpu *)percpu_of(sched->pcpu, cpu))->bypass_dsq;
}

/* Logs the queues of a policy: global ones by node, its own by number, and those of bypass mode. */
static void log_sched(struct scx_sched *policy, bool bypass)
{
	static struct scx_dispatch_q *dsqs[DSQS];
	struct rhashtable_iter iterator;
	struct scx_dispatch_q *dsq;
	struct row name = {};
	char key[160];
	int count = 0;

	if (policy->level) {
		add(&name, " ");
		add_path(&name, policy->cgrp);
	}
	for (int node = 0; node < node_count(); node++) {
		scnprintf(key, sizeof(key), "dsq%s global %d", name.text, node);
		log_dsq(key, &policy->pnode[node]->global_dsq);
	}
	rhashtable_walk_enter(&policy->dsq_hash, &iterator);
	rhashtable_walk_start_check(&iterator);
	while ((dsq = rhashtable_walk_next(&iterator))) {
		int at;

		if ((unsigned long)dsq >= -4095ul) {
			/* The table grows, and the walk begins again. */
			count = 0;
			continue;
		}
		if (count == DSQS)
			break;
		at = count;
		for (count++; at > 0 && dsqs[at - 1]->id > dsq->id; at--)
			dsqs[at] = dsqs[at - 1];
		dsqs[at] = dsq;
	}
	rhashtable_walk_stop(&iterator);
	rhashtable_walk_exit(&iterator);
	for (int i = 0; i < count; i++) {
		struct row created = {};

		add(&created, "dsq%s ", name.text);
		add_created_dsq(&created, dsqs[i]);
		log_dsq(created.text, dsqs[i]);
	}
	if (bypass) {
		add(&name, " bypass");
		log_cpu_dsqs(name.text, bypass_dsq, policy);
	}
}

/* Logs the queues of sched_ext: those of the CPUs, and those of the policies. */
void ext_log(void)
{
	if (!watched[0].sched)
		return;
	log_cpu_dsqs(" local", local_dsq, NULL);
	if (has_subs) {
		log_cpu_dsqs(" reject", reject_dsq, NULL);
		log_cpu_dsqs(" rescue", rescue_dsq, NULL);
	}
	for (int policy = 0; policy < SCHEDS; policy++)
		if (watched[policy].sched)
			log_sched(watched[policy].sched, has_subs);
}
