/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions that look into private types of the kernel, such as struct rq. Their files include vmlinux.h,
 * which bpftool generates from the kernel's BTF, and cannot include the kernel's headers. This header is
 * shared with the other files, so it uses no type of either.
 */
#ifndef STEP_INSIDE_H
#define STEP_INSIDE_H

#define STEP_ROW 1024 /* longest line of the log */

struct rq;
struct scx_sched;
struct task_group;
struct task_struct;

/* Addresses of kernel symbols, for the files that include vmlinux.h. */
#define INSIDE_SYMBOLS(S)                                                                                          \
	S(dl_sched_class) S(rt_sched_class) S(fair_sched_class) S(ext_sched_class) S(stop_sched_class)             \
	S(task_groups) S(root_task_group) S(jiffies) S(nohz) S(sched_rnd_state) S(bpf_user_rnd_state)              \
	S(scx_root) S(distribute_cpu_mask_prev) S(tick_cpu_sched)
struct inside {
#define S(name) void *name;
	INSIDE_SYMBOLS(S)
#undef S
};
extern struct inside inside;

struct rq *rq_of(int cpu);
unsigned long long clock_now(void);
unsigned long long script_begin(void);
void *percpu_of(void *pointer, int cpu);
int cpu_usable(int cpu);
const char *task_name(struct task_struct *p);
struct task_struct *task_struct_number(int number);
long long clock_since_begin(unsigned long long time);
void log_row(const char *key, const char *text);
void log_event(const char *format, ...);
int events_logging(void);
int script_task(struct task_struct *p);
void task_adopt(struct task_struct *p);
int current_cpu(void);
int node_count(void);
extern int scnprintf(char *buffer, unsigned long size, const char *format, ...);

/* rq.c */
int rq_has_normal_tasks(int cpu);
int rq_stopper_queued(int cpu);
int rq_stopper_runs(int cpu);
void rq_forget_pinned(int cpu);
void rq_place_new_task(struct task_struct *p, int cpu);
void rq_reset(int cpu);
void domains_reset(int cpu);
void nohz_reset(void);
void random_reset(int cpu);
int rq_idle(int cpu);
void tick_stop(int cpu);
void groups_align(void);
int groups_count(void);

/* ext.c */
void ext_watch(int on);
void ext_watch_sub(struct scx_sched *sched);
void ext_log(void);

/* state.c */
void state_log(void);
void balance_describe(const void *domain, int idle, int remote, char *text, unsigned long size);
#endif
