/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sleeps_in_rcu: calls, inside an RCU section, a kfunc that may sleep.
 * expected message with --sanitize: sleep: scx_bpf_create_dsq may sleep and is called in an RCU section
 * expected message without --sanitize: none
 */
#include "base.h"

s32 SCX_OP_SLEEPABLE(bad_init)
{
	s32 err;

	bpf_rcu_read_lock();
	err = scx_bpf_create_dsq(QUEUE, -1); /* violation */
	bpf_rcu_read_unlock();
	return err;
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, .init = (void *)bad_init, .name = "bad");
