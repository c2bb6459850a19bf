/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Causes that end a wait, and their boosts.
 *
 * Programs are attached to the functions of the kernel that wake threads for a cause. A wake-up belongs to
 * the cause if it happens between entry and exit of such a function on the same CPU. A sleep on a disk shows
 * in the state of the thread.
 *
 * Input devices and sound: a profile or a loader attaches input_wakes, input_woke, sound_wakes and sound_woke
 * to input_event() and snd_pcm_period_elapsed(). By default they are not attached, since sound is a module
 * that may be missing, and the simulated machine has neither.
 */
#ifndef WAIT_CAUSES_H
#define WAIT_CAUSES_H

#include "ready_queues.h"

u32 boost_event PARAM("levels, 0..15: boost when a semaphore, mutex or condition is signalled") = 1;
u32 boost_disk PARAM("levels, 0..15: boost when a disk transfer is done") = 1;
u32 boost_pipe PARAM("levels, 0..15: boost when a pipe has data") = 2;
u32 boost_network PARAM("levels, 0..15: boost when a socket has data") = 2;
u32 boost_input PARAM("levels, 0..15: boost when a key or the mouse is used") = 6;
u32 boost_sound PARAM("levels, 0..15: boost when a sound device wants more") = 8;

/*
 * Sets the boost of the wake-ups that follow on this CPU; 0 ends it. If one cause is within another, as the
 * function of a pipe within that of a socket, the outer one counts.
 */
static __always_inline int cause(u32 boost)
{
	struct cpu *c = cpu_of(bpf_get_smp_processor_id());

	if (c && (!boost || !c->boost))
		c->boost = boost;
	return 0;
}

SEC("fentry/futex_wake") int event_wakes(void *ctx) { return cause(boost_event); }
SEC("fexit/futex_wake") int event_woke(void *ctx) { return cause(0); }
SEC("fentry/__wake_up_sync_key") int pipe_wakes(void *ctx) { return cause(boost_pipe); }
SEC("fexit/__wake_up_sync_key") int pipe_woke(void *ctx) { return cause(0); }
SEC("fentry/sock_def_readable") int network_wakes(void *ctx) { return cause(boost_network); }
SEC("fexit/sock_def_readable") int network_woke(void *ctx) { return cause(0); }
SEC("?fentry/input_event") int input_wakes(void *ctx) { return cause(boost_input); }
SEC("?fexit/input_event") int input_woke(void *ctx) { return cause(0); }
SEC("?fentry/snd_pcm_period_elapsed") int sound_wakes(void *ctx) { return cause(boost_sound); }
SEC("?fexit/snd_pcm_period_elapsed") int sound_woke(void *ctx) { return cause(0); }

#endif
