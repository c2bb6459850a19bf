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

/* The callbacks at the beginning of struct sched_ext_ops, and two at its end. */
#define SLOTS 37
#define ACQUIRE 35
#define RELEASE 36

/* The arguments: t task, c CPU or other number, x flags, b bool, m cpumask, g cgroup; _ is not printed. */
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
	{}, {}, {}, {}, /* sub-schedulers */
	{ "cpu_online", "cid_online", "c", { "on" } },
	{ "cpu_offline", "cid_offline", "c", { "on" } },
	{ "cpu_acquire", 0, "c_", { "on" } },
	{ "cpu_release", 0, "cr", { "on", "reason" } },
};

typedef u64 (*callback_t)(u64, u64, u64, u64);

static struct scx_sched *policy;
static callback_t originals[SLOTS];

static void add_argument(struct row *row, char kind, u64 value)
{
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
	case 'g':
		add_path(row, (struct cgroup *)value);
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

static u64 call(int slot, u64 a, u64 b, u64 c, u64 d)
{
	const struct op *op = &ops[slot];
	const char *name = policy->is_cid_type && op->cid_name ? op->cid_name : op->name;
	u64 values[] = { a, b, c, d }, result;
	struct row row = {};

	/* The first callbacks for a new task are ops.init_task and ops.enable. */
	if (slot == 14 || slot == 16)
		task_adopt((struct task_struct *)a);
	if (foreign(op, values))
		return originals[slot](a, b, c, d);
	for (int i = 0; op->arguments[i]; i++) {
		if (op->arguments[i] == '_')
			continue;
		add(&row, " %s=", op->labels[i]);
		add_argument(&row, op->arguments[i], values[i]);
	}
	log_event("call %s cpu=%d%s", name, current_cpu(), row.text);
	result = originals[slot](a, b, c, d);
	if (op->result == 'd')
		log_event("return %s cpu=%d value=%d", name, current_cpu(), (int)result);
	if (op->result == 'b')
		log_event("return %s cpu=%d value=%d", name, current_cpu(), (int)(result & 1));
	return result;
}

#define CALLS(C)                                                                                                   \
	C(0) C(1) C(2) C(3) C(4) C(5) C(6) C(7) C(8) C(9) C(10) C(11) C(12) C(13) C(14) C(15) C(16) C(17) C(21)    \
	C(22) C(23) C(24) C(25) C(26) C(27) C(28) C(33) C(34) C(35) C(36)
#define C(slot)                                                                                                    \
	static u64 call##slot(u64 a, u64 b, u64 c, u64 d)                                                          \
	{                                                                                                          \
		return call(slot, a, b, c, d);                                                                     \
	}
CALLS(C)
#undef C
#define C(slot) [slot] = call##slot,
static const callback_t calls[SLOTS] = { CALLS(C) };
#undef C

static callback_t *slot_of(struct scx_sched *sched, int slot)
{
	if (slot == ACQUIRE)
		return (callback_t *)&sched->ops.cpu_acquire;
	if (slot == RELEASE)
		return (callback_t *)&sched->ops.cpu_release;
	return (callback_t *)&sched->ops.select_cpu + slot;
}

/* Takes the places of the callbacks, or gives them back. */
void ext_watch(int on)
{
	struct scx_sched *sched = *(struct scx_sched **)inside.scx_root;

	if (!on && policy && policy == sched)
		for (int slot = 0; slot < SLOTS; slot++)
			if (originals[slot])
				*slot_of(policy, slot) = originals[slot];
	policy = on ? sched : NULL;
	for (int slot = 0; slot < SLOTS; slot++) {
		callback_t *place = policy && calls[slot] ? slot_of(policy, slot) : NULL;

		if (place && slot >= ACQUIRE && policy->is_cid_type)
			place = NULL;
		originals[slot] = place ? *place : NULL;
		if (place && *place)
			*place = calls[slot];
	}
}

static const char *dsq_name(const struct scx_dispatch_q *dsq, char *buffer, unsigned long size)
{
	if (!dsq)
		return "none";
	if (dsq->id == SCX_DSQ_LOCAL)
		return "local";
	if (dsq->id == SCX_DSQ_GLOBAL)
		return "global";
	scnprintf(buffer, size, dsq->id >> 63 ? "builtin:%#llx" : "%#llx", dsq->id);
	return buffer;
}

/* The part of a task's row that belongs to sched_ext. */
void ext_add_task(struct row *row, struct task_struct *p)
{
	char name[32];

	add(row, " dsq=%s slice=%llu vtime=%llu weight=%u", dsq_name(p->scx.dsq, name, sizeof(name)), p->scx.slice,
	    p->scx.dsq_vtime, p->scx.weight);
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

/* Logs the queues of sched_ext: local ones by CPU, global ones by node, the policy's own by number. */
void ext_log(void)
{
	static struct scx_dispatch_q *dsqs[DSQS];
	struct rhashtable_iter iterator;
	struct scx_dispatch_q *dsq;
	char key[40];
	int count = 0;

	if (!policy)
		return;
	for (int cpu = 1; cpu_usable(cpu) >= 0; cpu++) {
		if (!cpu_usable(cpu))
			continue;
		scnprintf(key, sizeof(key), "dsq local %d", cpu);
		log_dsq(key, &rq_of(cpu)->scx.local_dsq);
	}
	for (int node = 0; node < node_count(); node++) {
		scnprintf(key, sizeof(key), "dsq global %d", node);
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
		scnprintf(key, sizeof(key), "dsq %#llx", dsqs[i]->id);
		log_dsq(key, dsqs[i]);
	}
}
