/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ops.cpu_online() and ops.cpu_offline().
 *
 * A policy in which each CPU has queues defines CPU_QUEUES before the include, and pass_on_all(cpu), which
 * calls pass_on() for each queue of a CPU.
 */
#ifndef HOTPLUG_H
#define HOTPLUG_H

#include "online.h"
#ifdef CPU_QUEUES
#include "pass_on.h"
static __always_inline void pass_on_all(s32 cpu);
#else
static __always_inline void pass_on_all(s32 cpu)
{
}
#endif

void SCX_OP(hotplug_cpu_online, s32 cpu)
{
	set_online(cpu, true);
}

void SCX_OP(hotplug_cpu_offline, s32 cpu)
{
	set_online(cpu, false);
	pass_on_all(cpu);
}

#define HOTPLUG_CALLBACKS .cpu_online = (void *)hotplug_cpu_online, .cpu_offline = (void *)hotplug_cpu_offline

#endif
