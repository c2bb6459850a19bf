/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * userspace: a policy that needs all steps that a profile can describe. A profile is a file that
 * describes what a policy's user-space part does after loading: setting map entries, writing to
 * memory, and running programs before and after the policy is enabled.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

struct place {
	u32 node;
	u32 cpus[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, struct place);
} places SEC(".maps");

struct node_pair {
	u32 from;
	u32 to;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, struct node_pair);
	__type(value, u32);
} distances SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct place);
} own SEC(".maps");

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static void *(*const map_lookup_percpu)(void *map, const void *key, u32 cpu) = (void *)195;
static u32 (*const this_cpu)(void) = (void *)8;

u64 node_of[4], first_of[4], far, own_node[4], masks[4], masks_given, kept[4], started_on, started_when;
bool enabled;
u64 order;

struct mask_arg {
	u64 mask;
};

/* Returns the address of a word. The profile then stores a value at this address. */
SEC("syscall")
int give(struct mask_arg *arg)
{
	arg->mask = (u64)&masks[masks_given++ & 3];
	return 0;
}

struct keep_arg {
	u64 mask;
	s32 node;
	s32 series[3];
};

/* Receives the address that give() returned, after the profile has stored a value there. */
SEC("syscall")
int keep(struct keep_arg *arg)
{
	kept[arg->node & 3] = arg->series[2] * 1000 + (arg->mask == (u64)&masks[arg->node & 3]);
	return 0;
}

/* Copies values from the maps to global variables. */
SEC("syscall")
int look(void *unused)
{
	struct node_pair pair = { .from = 0, .to = 1 };
	struct place *place;
	u32 zero = 1, *distance;

	for (u32 cpu = 0; cpu < 4; cpu++) {
		place = map_lookup(&places, &cpu);
		if (!place)
			return -2;
		node_of[cpu] = place->node;
		first_of[cpu] = place->cpus[1];
		place = map_lookup_percpu(&own, &zero, cpu);
		if (!place)
			return -2;
		own_node[cpu] = place->node;
	}
	distance = map_lookup(&distances, &pair);
	far = distance ? *distance : 0;
	order = order * 10 + 1 + 2 * enabled;
	return 0;
}

/*
 * Imitates a program that must run on a certain CPU, for example because it starts a timer there.
 */
SEC("syscall")
int start(struct mask_arg *arg)
{
	started_on = this_cpu();
	started_when = 1 + enabled;
	return arg->mask == started_on ? 0 : -22;
}

s32 SCX_OP_SLEEPABLE(userspace_init)
{
	enabled = true;
	return 0;
}

void SCX_OP(userspace_tick, struct task_struct *p)
{
	order = 99;
}

SCX_OPS(userspace_ops, .init = (void *)userspace_init, .tick = (void *)userspace_tick, .flags = SCX_OPS_ENQ_MIGRATION_DISABLED, .name = "userspace");
