/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Boosts for woken threads, which depend on the event that ended their wait. A boost is the number
 * of priority levels by which a thread rises for some time after it wakes up (thread_levels.h).
 *
 * BPF programs are attached to the entry and exit of the kernel functions that wake threads. Each
 * of these functions stands for a cause. If a CPU wakes a thread while it executes such a function,
 * the wait of the thread has this cause. Disk waits are an exception: they are recognised by the
 * state of the sleeping thread.
 *
 * The programs for input devices (input_wakes and input_woke on input_event()) and sound
 * (sound_wakes and sound_woke on snd_pcm_period_elapsed()) are not attached by default. Sound is a
 * kernel module that may be missing, and the simulated machine has neither input devices nor sound.
 * A profile (a file with settings for a policy) or a loader can attach them.
 */
#ifndef WAIT_CAUSES_H
#define WAIT_CAUSES_H

#include "ready_queues.h"

u32 boost_event PARAM("levels, 0..15: boost after the signal of a semaphore, mutex or condition") = 1;
u32 boost_disk PARAM("levels, 0..15: boost after a disk transfer") = 1;
u32 boost_pipe PARAM("levels, 0..15: boost after data arrived in a pipe") = 2;
u32 boost_network PARAM("levels, 0..15: boost after data arrived at a socket") = 2;
u32 boost_input PARAM("levels, 0..15: boost after input from the keyboard or mouse") = 6;
u32 boost_sound PARAM("levels, 0..15: boost after a sound device requested data") = 8;

/* The functions that wake threads, by cause. */
enum wait_cause { EVENT = 1, PIPE, NETWORK, INPUT, SOUND };

/*
 * Called when a CPU enters a function that wakes threads. Sets the boost for the wake-ups of the
 * function. Traced functions may be nested, for example a pipe function in a socket function. The
 * boost of the outer function then stays until the outer function returns.
 */
static __always_inline int begins(enum wait_cause cause, u32 boost)
{
	struct cpu *c = cpu_of(bpf_get_smp_processor_id());

	if (c && !c->cause) {
		c->cause = cause;
		c->boost = boost;
	}
	return 0;
}

/* Called when a CPU returns from a function that wakes threads. Ends the boost that it set. */
static __always_inline int ends(enum wait_cause cause)
{
	struct cpu *c = cpu_of(bpf_get_smp_processor_id());

	if (c && c->cause == cause) {
		c->cause = 0;
		c->boost = 0;
	}
	return 0;
}

SEC("fentry/futex_wake") int event_wakes(void *ctx) { return begins(EVENT, boost_event); }
SEC("fexit/futex_wake") int event_woke(void *ctx) { return ends(EVENT); }
SEC("fentry/__wake_up_sync_key") int pipe_wakes(void *ctx) { return begins(PIPE, boost_pipe); }
SEC("fexit/__wake_up_sync_key") int pipe_woke(void *ctx) { return ends(PIPE); }
SEC("fentry/sock_def_readable") int network_wakes(void *ctx) { return begins(NETWORK, boost_network); }
SEC("fexit/sock_def_readable") int network_woke(void *ctx) { return ends(NETWORK); }
SEC("?fentry/input_event") int input_wakes(void *ctx) { return begins(INPUT, boost_input); }
SEC("?fexit/input_event") int input_woke(void *ctx) { return ends(INPUT); }
SEC("?fentry/snd_pcm_period_elapsed") int sound_wakes(void *ctx) { return begins(SOUND, boost_sound); }
SEC("?fexit/snd_pcm_period_elapsed") int sound_woke(void *ctx) { return ends(SOUND); }

#endif
