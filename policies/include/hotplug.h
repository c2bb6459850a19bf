/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ops.cpu_online() and ops.cpu_offline() for a policy whose queues are shared by all CPUs. Both
 * callbacks only record the state of the CPU (online.h). A policy with one queue for each CPU
 * includes pass_on.h instead.
 */
#ifndef HOTPLUG_H
#define HOTPLUG_H

#include "online.h"

/* Records that a CPU is online again. */
void SCX_OP(hotplug_cpu_online, s32 cpu)
{
	set_online(cpu, true);
}

/* Records that a CPU goes offline. */
void SCX_OP(hotplug_cpu_offline, s32 cpu)
{
	set_online(cpu, false);
}

/* Entries for the callback table of the policy. */
#define HOTPLUG_CALLBACKS .cpu_online = (void *)hotplug_cpu_online, .cpu_offline = (void *)hotplug_cpu_offline

#endif
