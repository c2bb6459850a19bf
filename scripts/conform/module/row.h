/* SPDX-License-Identifier: GPL-2.0-only */
/* Lines of the log, for the files that include vmlinux.h. */
#ifndef STEP_ROW_H
#define STEP_ROW_H

#define NULL ((void *)0)
#define container_of(pointer, type, member) ((type *)((char *)(pointer) - __builtin_offsetof(type, member)))

struct row {
	char text[STEP_ROW];
	int length;
};

#define add(row, ...) ((row)->length += scnprintf((row)->text + (row)->length, STEP_ROW - (row)->length, __VA_ARGS__))

void add_cpus(struct row *row, const cpumask_t *cpus);
void add_path(struct row *row, struct cgroup *cgroup);
bool add_group_with_id(struct row *row, unsigned long long id);
void ext_add_task(struct row *row, struct task_struct *p);
#endif
