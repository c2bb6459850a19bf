/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * leaks_record: reserves a ring buffer's record and neither submits nor discards it.
 * expected message with --sanitize: leak: bad_running returns and has not released a ring buffer's record
 * expected message without --sanitize: none
 */
#include "base.h"

struct {
	__uint(type, 27 /* BPF_MAP_TYPE_RINGBUF */);
	__uint(max_entries, 4096);
} ring SEC(".maps");

void SCX_OP(bad_running, struct task_struct *p)
{
	u64 *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0); /* violation */

	if (record)
		*record = p->pid;
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
