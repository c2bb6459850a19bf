/* SPDX-License-Identifier: GPL-2.0-only */
/* The interface between the module and the programs of the guest: ioctls of /dev/step. */
#ifndef STEP_ABI_H
#define STEP_ABI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define STEP_LINE 256
#define STEP_NAME 16 /* longest name of a task, with the terminating 0 */

#define STEP_MAX_CPUS 17  /* CPU 0 and at most 16 driven CPUs */
#define STEP_MAX_NODES 4

/* The machine of a script. Masks are indexed by CPU, and contain the CPU itself. */
struct step_machine {
	__u64 smt[STEP_MAX_CPUS];     /* the CPUs of the same core */
	__u64 cluster[STEP_MAX_CPUS]; /* the CPUs with the same L2 */
	__u64 llc[STEP_MAX_CPUS];     /* the CPUs with the same last-level cache */
	__u32 node[STEP_MAX_CPUS];
	__u32 capacity[STEP_MAX_CPUS];
	__u8 distance[STEP_MAX_NODES][STEP_MAX_NODES];
	__u32 nodes;
};

/* Commands that a task of a script executes itself. RUN returns those that user space executes. */
enum step_command {
	STEP_NONE,
	STEP_FORK,
	STEP_THREAD,
	STEP_EXEC,
	STEP_EXIT,
	STEP_BLOCK,
	STEP_SLEEP,
	STEP_YIELD,
	STEP_WAKE,
	STEP_MIGRATE_DISABLE,
	STEP_MIGRATE_ENABLE,
};

struct step_create {
	char name[STEP_NAME];
	__u64 cpus;     /* affinity */
	__s32 cgroup;   /* file descriptor of the cgroup's directory, or -1 */
	__s32 kernel;   /* a kernel thread */
	__s32 policy, nice, priority;
	__u64 slice;    /* 0: the default */
};

struct step_tell {
	char task[STEP_NAME];
	char other[STEP_NAME];
	__u64 value;
	__s32 command;
	__s32 cpu;
	__s32 sync;
};

#define STEP_IOC 's'
#define STEP_RUN _IO(STEP_IOC, 1)
#define STEP_CREATE _IOWR(STEP_IOC, 2, struct step_create)
#define STEP_TELL _IOW(STEP_IOC, 3, struct step_tell)      /* the task executes the command */
#define STEP_WAKE_FROM _IOW(STEP_IOC, 4, struct step_tell) /* an interrupt on a CPU wakes the task */
#define STEP_ADVANCE _IOW(STEP_IOC, 5, __u64)
#define STEP_TICK _IO(STEP_IOC, 6)
#define STEP_SETTLE _IO(STEP_IOC, 7) /* logs the state when the machine is at rest */
#define STEP_LOG _IO(STEP_IOC, 8)    /* adds a line to the log */
#define STEP_MACHINE _IOW(STEP_IOC, 15, struct step_machine)
#define STEP_APPROACH _IO(STEP_IOC, 19) /* moves time to time 0 of the script */
#define STEP_BEGIN _IO(STEP_IOC, 9)  /* begins the script at time 0 */
#define STEP_END _IO(STEP_IOC, 10)   /* time flows again */
#define STEP_NEW_GROUP _IO(STEP_IOC, 12) /* a cgroup has been created */
#define STEP_COMMAND _IO(STEP_IOC, 13)   /* begins the block of a line in the log */
#define STEP_IDLE _IO(STEP_IOC, 14)      /* 1: the guest waits for the host */
#define STEP_FORGET _IO(STEP_IOC, 11)    /* ends the tasks; returns how many still live */
#define STEP_GROUPS _IO(STEP_IOC, 16)    /* returns the number of cgroups that the scheduler knows */
#define STEP_REST _IO(STEP_IOC, 18)  /* returns when the machine is at rest */
#define STEP_NEEDED _IO(STEP_IOC, 20) /* whether a CPU has to stay online */
#define STEP_PID _IOW(STEP_IOC, 17, struct step_tell) /* returns the pid of a task, which may be a forked one */
#endif
