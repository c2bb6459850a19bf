/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sparse bitmaps of CPUs, in which each cache line holds only 8 bits.
 *
 * CPUs that access different bits therefore rarely contend for the same cache line. Each group of
 * CPUs, for example the CPUs of a last-level cache, has one bitmap. A bitmap has a bit for each CPU
 * of the machine.
 */
#ifndef SPARSE_BITMAP_H
#define SPARSE_BITMAP_H

#include "scx.h"

/* Number of bits in each cache line that a bitmap uses. */
#define SPARSE_BITS 8
/* Highest number of CPUs. */
#define SPARSE_CPUS 1024
/* Number of cache lines of a bitmap. */
#define SPARSE_LINES (SPARSE_CPUS / SPARSE_BITS)
/* Highest number of bitmaps. */
#define SPARSE_GROUPS 64

/* A cache line of 64 bytes. Only the lowest 8 bits of `bits` are used. */
struct sparse_line {
	u64 bits;
	u64 padding[7];
};

/* The bitmaps of all groups. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SPARSE_GROUPS * SPARSE_LINES);
	__type(key, u32);
	__type(value, struct sparse_line);
} sparse_lines SEC(".maps");

/* Returns the cache line with index `line` of a group's bitmap. */
static __always_inline struct sparse_line *sparse_line(u32 group, u32 line)
{
	u32 key = group * SPARSE_LINES + line;

	return bpf_map_lookup_elem(&sparse_lines, &key);
}

/* Sets the bit of a CPU. */
static __always_inline void sparse_set(u32 group, u32 cpu)
{
	struct sparse_line *line = sparse_line(group, cpu / SPARSE_BITS);

	if (line)
		__sync_fetch_and_or(&line->bits, 1ULL << cpu % SPARSE_BITS);
}

/* Clears the bit of a CPU. */
static __always_inline void sparse_clear(u32 group, u32 cpu)
{
	struct sparse_line *line = sparse_line(group, cpu / SPARSE_BITS);

	if (line)
		__sync_fetch_and_and(&line->bits, ~(1ULL << cpu % SPARSE_BITS));
}

/*
 * Returns the first CPU with a set bit in the range from `from` to `to` - 1, or -1. A cache line
 * without set bits is skipped with one read.
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
