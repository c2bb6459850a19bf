/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A sparse bitmap: each cache line of 64 bytes has only 8 bits in use, so that many CPUs which set, clear and
 * visit bits do not compete for lines. There is one bitmap for each group of CPUs, with a bit for each CPU of
 * the machine.
 */
#ifndef SPARSE_BITMAP_H
#define SPARSE_BITMAP_H

#include "scx.h"

#define SPARSE_BITS 8
#define SPARSE_CPUS 1024
#define SPARSE_LINES (SPARSE_CPUS / SPARSE_BITS)
#define SPARSE_GROUPS 64

struct sparse_line {
	u64 bits;
	u64 padding[7];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SPARSE_GROUPS * SPARSE_LINES);
	__type(key, u32);
	__type(value, struct sparse_line);
} sparse_lines SEC(".maps");

static __always_inline struct sparse_line *sparse_line(u32 group, u32 line)
{
	u32 key = group * SPARSE_LINES + line;

	return bpf_map_lookup_elem(&sparse_lines, &key);
}

static __always_inline void sparse_set(u32 group, u32 cpu)
{
	struct sparse_line *line = sparse_line(group, cpu / SPARSE_BITS);

	if (line)
		__sync_fetch_and_or(&line->bits, 1ULL << cpu % SPARSE_BITS);
}

static __always_inline void sparse_clear(u32 group, u32 cpu)
{
	struct sparse_line *line = sparse_line(group, cpu / SPARSE_BITS);

	if (line)
		__sync_fetch_and_and(&line->bits, ~(1ULL << cpu % SPARSE_BITS));
}

/*
 * Returns the next CPU from `from` to before `to` whose bit is set, or -1. A line without bits takes one
 * look.
 */
static __always_inline s32 sparse_next(u32 group, u32 from, u32 to)
{
	s32 found = -1;
	u32 i, bit;

	bpf_for(i, from / SPARSE_BITS, to / SPARSE_BITS + 1) {
		struct sparse_line *line = sparse_line(group, i);

		if (!line || !line->bits)
			continue;
		bpf_for(bit, 0, SPARSE_BITS) {
			u32 cpu = i * SPARSE_BITS + bit;

			if (cpu >= from && cpu < to && (line->bits >> bit & 1)) {
				found = cpu;
				break;
			}
		}
		if (found >= 0)
			break;
	}
	return found;
}

#endif
