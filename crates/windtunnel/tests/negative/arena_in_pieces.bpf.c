/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * arena_in_pieces: allocates every other page of its arena. The simulator then needs more memory
 * mappings than the host allows a process to have (vm.max_map_count).
 * expected message with --sanitize: pages in too many separate ranges for this host
 * expected message without --sanitize: pages in too many separate ranges for this host
 */
#include "base.h"

#define __arena __attribute__((address_space(1)))

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, 1 << 10 /* BPF_F_MMAPABLE */);
	__uint(max_entries, 1 << 20);
	__uint(map_extra, 1ULL << 44);
} arena SEC(".maps");

void __arena *bpf_arena_alloc_pages(void *map, void __arena *addr, u32 pages, int node, u64 flags) __ksym;

s32 SCX_OP_SLEEPABLE(bad_init)
{
	u64 page;

	for (page = 0; page < 1 << 20; page += 2)
		bpf_arena_alloc_pages(&arena, (void __arena *)((1ULL << 44) + page * 4096), 1, -1, 0); /* violation */
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS(bad_ops, ENQUEUE, DISPATCH, .init = (void *)bad_init, .name = "bad");
