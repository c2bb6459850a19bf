/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ops.cpu_online() and ops.cpu_offline(), for a policy whose queues belong to no CPU. A policy with queues of
 * CPUs includes pass_on.h instead.
 */
#ifndef HOTPLUG_H
#define HOTPLUG_H

#include "online.h"

void SCX_OP(hotplug_cpu_online, s32 cpu)
{
	set_online(cpu, true);
}

void SCX_OP(hotplug_cpu_offline, s32 cpu)
{
	set_online(cpu, false);
}

#define HOTPLUG_CALLBACKS .cpu_online = (void *)hotplug_cpu_online, .cpu_offline = (void *)hotplug_cpu_offline

#endif
