/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds the neighbours of each CPU: the CPUs around it on a two-dimensional torus, or the CPUs with
 * the nearest numbers.
 *
 * CPUs are placed row by row in the order of their numbers. Opposite edges are joined, so the last
 * CPU of a row is a neighbour of the first one. With 12 CPUs in 3 rows, the neighbours of CPU 0 are
 * 1 and 3 in its row, and 4 and 8 in its column:
 *
 *      0  1  2  3
 *      4  5  6  7
 *      8  9 10 11
 */
#ifndef TORUS_NEIGHBOURS_H
#define TORUS_NEIGHBOURS_H

#include "scx.h"

/* Highest number of neighbours; a power of two, because indices are masked. */
#define MAX_NEIGHBOURS 16

const volatile u32 neighbours PARAM("CPUs, 0..16: number of neighbours, the CPUs with the nearest numbers; 0: the four on a torus") = 0;
const volatile u32 torus_rows PARAM("CPUs, 0..1024: rows of the torus, a divisor of the number of CPUs; 0: as close to a square as possible") = 0;

/* The neighbours of one CPU. */
struct neighbours {
	/* Number of entries of `cpu`. */
	u32 nr;
	u32 cpu[MAX_NEIGHBOURS];
};

/* Returns the CPU number of neighbour i. */
static __always_inline u32 neighbour(struct neighbours *n, u32 i)
{
	return n->cpu[i & (MAX_NEIGHBOURS - 1)];
}

/*
 * Adds `other` to the neighbours of `cpu`, unless `other` is the CPU itself or already one of the
 * neighbours.
 */
static __always_inline void add_neighbour(struct neighbours *n, u32 cpu, u32 other)
{
	bool known = other == cpu;
	u32 i;

	bpf_for(i, 0, n->nr)
		known |= neighbour(n, i) == other;
	if (!known && n->nr < MAX_NEIGHBOURS)
		n->cpu[n->nr++ & (MAX_NEIGHBOURS - 1)] = other;
}

/* Returns the number of rows for `nr_cpus` CPUs, or 0 if torus_rows does not divide it. */
static __always_inline u32 rows_of_torus(u32 nr_cpus)
{
	u32 rows = 1, i;

	if (torus_rows)
		return nr_cpus % torus_rows ? 0 : torus_rows;
	bpf_for(i, 1, 33)
		if (i * i <= nr_cpus && nr_cpus % i == 0)
			rows = i;
	return rows;
}

/* Finds the neighbours of `cpu` among `nr_cpus` CPUs in `rows` rows. */
static __always_inline void find_neighbours(struct neighbours *n, u32 cpu, u32 nr_cpus, u32 rows)
{
	u32 columns = nr_cpus / rows, row = cpu / columns, column = cpu % columns, i;

	if (!neighbours) {
		add_neighbour(n, cpu, row * columns + (column + 1) % columns);
		add_neighbour(n, cpu, row * columns + (column + columns - 1) % columns);
		add_neighbour(n, cpu, (row + 1) % rows * columns + column);
		add_neighbour(n, cpu, (row + rows - 1) % rows * columns + column);
		return;
	}
	bpf_for(i, 1, MAX_NEIGHBOURS + 1) {
		u32 step = (i + 1) / 2 % nr_cpus;

		if (n->nr < neighbours)
			add_neighbour(n, cpu, (cpu + (i & 1 ? step : nr_cpus - step)) % nr_cpus);
	}
}

#endif
