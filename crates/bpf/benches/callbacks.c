// SPDX-License-Identifier: GPL-2.0-only
/*
 * Functions that resemble a scheduler's callbacks. The benchmark compiles them for BPF and for the
 * host. Each function works on the memory that it receives, and returns a number that depends on
 * its work. The benchmark compares the numbers to check that BPF and the host compute the same.
 */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#ifdef __bpf__
#define PROGRAM(name) __attribute__((section("syscall/" #name), used))
static u64 (*const ktime)(void) = (void *)5;
#else
#define PROGRAM(name) __attribute__((visibility("default")))
extern u64 (*native_ktime)(void);
u64 (*native_ktime)(void);
#define ktime native_ktime
#endif
#define noinline __attribute__((noinline))

#define NR_CPUS 64
#define NR_TASKS 256
#define SLICE 20000000ULL

struct task {
	u64 vtime, slice, weight, run_at, sum_exec;
	u32 cpu, llc, flags, nr_wakeups;
	struct task *next;
	u64 mask;
};

struct cpu {
	u64 vtime, load, last_run;
	u32 llc, nr_queued, idle, pad;
	struct task *curr;
};

struct world {
	u64 vtime_now, nr_enqueued[4], seed;
	struct cpu cpus[NR_CPUS];
	struct task tasks[NR_TASKS];
	u64 heap[NR_TASKS];
};

static noinline u64 random_next(struct world *w)
{
	w->seed ^= w->seed << 13;
	w->seed ^= w->seed >> 7;
	w->seed ^= w->seed << 17;
	return w->seed;
}

PROGRAM(setup)
u64 setup(struct world *w)
{
	w->seed = 88172645463325252ULL;
	for (u32 i = 0; i < NR_CPUS; i++) {
		w->cpus[i].llc = i / 16;
		w->cpus[i].idle = random_next(w) % 8 == 0;
		w->cpus[i].vtime = random_next(w) % 1000;
	}
	for (u32 i = 0; i < NR_TASKS; i++) {
		struct task *p = &w->tasks[i];

		p->weight = 1 + random_next(w) % 1000;
		p->cpu = random_next(w) % NR_CPUS;
		p->llc = p->cpu / 16;
		p->mask = i % 16 ? ~0ULL : random_next(w);
		p->next = &w->tasks[random_next(w) % NR_TASKS];
		w->heap[i] = random_next(w) >> 20;
	}
	return 0;
}

static noinline s64 pick_idle(struct world *w, struct task *p)
{
	s64 best = -1;
	u64 least = -1ULL;

	for (u32 i = 0; i < NR_CPUS; i++) {
		struct cpu *c = &w->cpus[i];

		if (!(p->mask & (1ULL << i)) || !c->idle)
			continue;
		u64 score = c->load + (c->llc == p->llc ? 0 : 1000);

		if (score < least) {
			least = score;
			best = i;
		}
	}
	return best;
}

/* Resembles select_cpu and enqueue: chooses a CPU and a queue, and sets the virtual time. */
PROGRAM(enqueue)
u64 enqueue(struct world *w)
{
	u64 sum = 0;

	for (u32 i = 0; i < NR_TASKS; i++) {
		struct task *p = &w->tasks[i];
		s64 cpu = pick_idle(w, p);
		u64 floor = w->vtime_now - SLICE;

		if ((s64)(p->vtime - floor) < 0)
			p->vtime = floor;
		if (cpu >= 0) {
			struct cpu *c = &w->cpus[cpu];

			c->load += p->weight;
			c->nr_queued++;
			p->cpu = cpu;
			w->nr_enqueued[0]++;
		} else if (p->flags & 1) {
			w->nr_enqueued[1]++;
		} else {
			w->nr_enqueued[2]++;
		}
		p->slice = SLICE / (1 + w->cpus[p->cpu & (NR_CPUS - 1)].nr_queued);
		sum += p->slice + p->vtime;
	}
	return sum;
}

/* Resembles running and stopping: advances the virtual time by run time / weight. */
PROGRAM(account)
u64 account(struct world *w)
{
	struct task *p = &w->tasks[0];

	for (u32 i = 0; i < 1000; i++) {
		u64 delta = (i * 7919) % 100000;

		p->sum_exec += delta;
		p->vtime += delta * 100 / p->weight;
		if ((s64)(w->vtime_now - p->vtime) < 0)
			w->vtime_now = p->vtime;
		if (p->nr_wakeups++ % 8 == 0)
			p->flags ^= 1;
		w->cpus[p->cpu & (NR_CPUS - 1)].load -= p->weight / 2;
		p = p->next;
		if (!p)
			break;
	}
	return w->vtime_now;
}

/* Repeatedly replaces the smallest deadline in a heap by a later one. */
PROGRAM(heap)
u64 heap(struct world *w)
{
	u64 sum = 0;

	for (u32 n = 0; n < 200; n++) {
		u64 key = w->heap[0] + (random_next(w) >> 24);
		u32 at = 0;

		sum ^= w->heap[0];
		for (;;) {
			u32 child = 2 * at + 1;

			if (child >= NR_TASKS)
				break;
			if (child + 1 < NR_TASKS && w->heap[child + 1] < w->heap[child])
				child++;
			if (w->heap[child] >= key)
				break;
			w->heap[at] = w->heap[child];
			at = child;
		}
		w->heap[at] = key;
	}
	return sum;
}

/* Mostly calls helpers. */
PROGRAM(helpers)
u64 helpers(struct world *w)
{
	u64 sum = 0;

	for (u32 i = 0; i < 1000; i++) {
		u64 now = ktime();
		struct cpu *c = &w->cpus[i & (NR_CPUS - 1)];

		if (now - c->last_run > 100)
			c->last_run = now;
		sum += c->last_run ^ i;
	}
	return sum;
}

#ifdef __bpf__
/* The functions below look up values in maps. They have no counterpart on the host. */
#define SEC_MAPS __attribute__((section(".maps"), used))
#define UINT(name, value) int (*name)[value]

struct {
	UINT(type, 2);
	UINT(max_entries, 64);
	u32 *key;
	u64 *value;
} array SEC_MAPS;

struct {
	UINT(type, 6);
	UINT(max_entries, 4);
	u32 *key;
	u64 *value;
} percpu SEC_MAPS;

struct {
	UINT(type, 1);
	UINT(max_entries, 64);
	u32 *key;
	u64 *value;
} hash SEC_MAPS;

struct {
	UINT(type, 29);
	UINT(map_flags, 1);
	u32 *key;
	u64 *value;
} storage SEC_MAPS;

static void *(*const lookup)(void *map, const void *key) = (void *)1;
static long (*const update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static void *(*const storage_get)(void *map, void *task, void *value, u64 flags) = (void *)156;
static u64 (*const current_task)(void) = (void *)158;

#define LOOKUPS(map, start)                                          \
	PROGRAM(map##_lookup)                                        \
	u64 map##_lookup(struct world *w)                            \
	{                                                            \
		u32 key = 3;                                         \
		u64 sum = 0, one = 1;                                \
                                                                     \
		start;                                               \
		for (u32 i = 0; i < 1000; i++) {                     \
			u64 *value = lookup(&map, &key);             \
			if (value)                                   \
				sum += *value;                       \
		}                                                    \
		return sum + one;                                    \
	}

LOOKUPS(array, )
LOOKUPS(percpu, )
LOOKUPS(hash, update(&hash, &key, &one, 0))

PROGRAM(storage_lookup)
u64 storage_lookup(struct world *w)
{
	void *task = (void *)current_task();
	u64 sum = 0;

	for (u32 i = 0; i < 1000; i++) {
		u64 *value = storage_get(&storage, task, 0, 1);

		if (value)
			sum += *value;
	}
	return sum;
}
#endif
