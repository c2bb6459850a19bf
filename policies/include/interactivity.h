/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interactivity and priorities of threads in FreeBSD's ULE.
 *
 * A thread has a history of the time for which it ran and the time for which it slept of its own
 * accord. From the history follows a score from 0 to 100:
 *
 *     sleeps more than it runs    50 * ran / slept
 *     runs more than it sleeps    100 - 50 * slept / ran
 *
 * A thread is interactive if its score plus its nice value is below interact_thresh. The priority of
 * an interactive thread is its score. All other threads are batch threads. The priority of a batch
 * thread grows with its nice value and with the CPU time that it used in the last ten seconds.
 * Lower numbers are better priorities.
 */
#ifndef INTERACTIVITY_H
#define INTERACTIVITY_H

#include "scx.h"

/* Highest score. */
#define SCORE_MAX 100
/* Priorities: 0 to 49 for interactive threads, then BATCH_RANGE of them for batch threads. */
#define BATCH_PRI 50
/* A batch thread's priority is BATCH_PRI + nice + 20 + CPU use, where a whole CPU is USE_RANGE - 1. */
#define USE_RANGE 32
#define BATCH_RANGE (40 + USE_RANGE)
/* Priority of a CPU that runs no thread. */
#define IDLE_PRI 255
#define SECOND_NS 1000000000ULL

const volatile u32 interact_thresh PARAM("score, 0..50: a thread with a score below this value is interactive; 0: none is") = 30;
const volatile u64 history_ns PARAM("ns, 100000000..100000000000: length of a thread's history") = 5 * SECOND_NS;
const volatile u64 fork_history_ns PARAM("ns, 1000000..100000000000: length of the history that a new thread inherits") = SECOND_NS / 2;
const volatile u64 initial_sleep_ns PARAM("ns, 0..100000000000: sleep in the history that a thread without a parent inherits, as if from a shell") = SECOND_NS / 2;
const volatile u64 use_ns PARAM("ns, 100000000..100000000000: time over which the CPU use of batch threads is measured") = 10 * SECOND_NS;

/* State of one thread. */
struct thread {
	/* The history: time for which the thread ran and slept, in ns. */
	u64 ran, slept;
	/* Time at which the thread began to run or to sleep, as far as it is not in the history yet. */
	u64 since;
	/* The CPU time `used` between `first` and `last`, for the CPU use. */
	u64 first, last, used;
	/* CPU time of the current slice. */
	u64 slice_used;
	/* Time at which the thread ran last. */
	u64 ran_at;
	/* Current priority. */
	u32 pri;
	bool sleeps;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/* Returns the state of a thread, or NULL if it has none. */
static __always_inline struct thread *thread_of(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, NULL, 0);
}

/* Returns the interactivity score of a thread. */
static __always_inline u32 score_of(struct thread *t)
{
	u64 part;

	if (t->ran > t->slept) {
		part = t->ran / 50;
		return SCORE_MAX - t->slept / (part ? part : 1);
	}
	part = t->slept / 50;
	return t->slept > t->ran ? t->ran / (part ? part : 1) : t->ran ? 50 : 0;
}

/* Shortens a history that is longer than history_ns. Old events thus lose their influence. */
static __always_inline void forget(struct thread *t)
{
	u64 sum = t->ran + t->slept, max = history_ns;

	if (sum < max)
		return;
	if (sum > 2 * max) {
		/* A single long run or sleep outweighs everything before it. */
		bool ran = t->ran > t->slept;

		t->ran = ran ? max : 1;
		t->slept = ran ? 1 : max;
	} else if (sum > max / 5 * 6) {
		t->ran /= 2;
		t->slept /= 2;
	} else {
		t->ran = t->ran / 5 * 4;
		t->slept = t->slept / 5 * 4;
	}
}

/* Adds `ran` ns of CPU time to the CPU use, of which only the last use_ns count. */
static __always_inline void use(struct thread *t, u64 now, u64 ran)
{
	if (now - t->last >= use_ns) {
		t->used = 0;
		t->first = now - use_ns;
	} else if (now - t->first >= use_ns + use_ns / 10) {
		u64 from = now - use_ns, span = (t->last - t->first) / 1000;

		if (t->last > from && span)
			t->used = t->used / span * ((t->last - from) / 1000);
		else
			t->used = 0;
		t->first = from;
	}
	t->used += ran;
	t->last = now;
}

/* Computes the priority of a thread from its history and its CPU use. */
static __always_inline void prioritize(struct task_struct *p, struct thread *t)
{
	/* The static_prio of a task is 120 + nice. */
	s32 nice = (s32)p->static_prio - 120, score = (s32)score_of(t) + nice;
	u64 span = t->last - t->first, share;

	if (score < 0)
		score = 0;
	if (score < (s32)interact_thresh && score < BATCH_PRI) {
		t->pri = score;
		return;
	}
	/* The CPU use is measured over at least a hundredth of the whole time. */
	if (span < use_ns / 100)
		span = use_ns / 100;
	share = t->used * USE_RANGE / (span + 1);
	if (share > USE_RANGE - 1)
		share = USE_RANGE - 1;
	t->pri = BATCH_PRI + (u32)(nice + 20) + share;
}

/* Charges the CPU time of a running thread up to `now`, and updates its priority. */
static __always_inline void charge(struct task_struct *p, struct thread *t, u64 now)
{
	u64 ran = now - t->since;

	t->since = now;
	t->ran += ran;
	t->slice_used += ran;
	t->ran_at = now;
	forget(t);
	use(t, now, ran);
	prioritize(p, t);
}

/* Adds the sleep that just ended to the history of a woken thread, and updates its priority. */
static __always_inline void end_sleep(struct task_struct *p, struct thread *t, u64 now)
{
	if (!t->sleeps)
		return;
	t->sleeps = false;
	t->slept += now - t->since;
	t->slice_used = 0;
	forget(t);
	use(t, now, 0);
	prioritize(p, t);
}

/*
 * Creates the state of a thread. A new thread inherits the history of the thread that creates it,
 * shortened to fork_history_ns, so that it soon shows its own behaviour. A thread without a parent
 * inherits as if from a shell, which sleeps nearly always.
 */
static __always_inline s32 thread_init(struct task_struct *p, bool fork)
{
	struct thread *t = bpf_task_storage_get(&threads, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct thread *creator = fork ? thread_of(bpf_get_current_task_btf()) : NULL;
	u64 now = bpf_ktime_get_ns(), sum;

	if (!t)
		return -ENOMEM;
	t->first = t->last = t->since = t->ran_at = now;
	t->slept = initial_sleep_ns;
	if (creator) {
		t->ran = creator->ran;
		t->slept = creator->slept;
		sum = t->ran + t->slept;
		if (sum > fork_history_ns) {
			u64 ratio = sum / fork_history_ns + 1;

			t->ran /= ratio;
			t->slept /= ratio;
		}
	}
	prioritize(p, t);
	return 0;
}

#endif
