/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * arena_unallocated: stores to a page of its arena that it has not allocated.
 * expected message with --sanitize: arena-unallocated: store of 8 bytes
 * expected message without --sanitize: none
 */
#include "base.h"

#define __arena __attribute__((address_space(1)))

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, 1 << 10 /* BPF_F_MMAPABLE */);
	__uint(max_entries, 16);
	__uint(map_extra, 1ULL << 44);
} arena SEC(".maps");


void SCX_OP(bad_running, struct task_struct *p)
{
	u64 page = (1ULL << 44) + 5 * 4096;

	use(p);
	*(volatile u64 __arena *)page = 1; /* violation */
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, INIT, .running = (void *)bad_running, .name = "bad");
