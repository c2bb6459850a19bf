/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Neighbours of CPUs: on a 2-d torus, row by row in the order of their numbers, or those with the nearest
 * numbers.
 */
#ifndef TORUS_NEIGHBOURS_H
#define TORUS_NEIGHBOURS_H

#include "scx.h"

#define MAX_NEIGHBOURS 16

const volatile u32 neighbours PARAM("CPUs, 0..16: each CPU's neighbours, the nearest by number; 0: those on a 2-d torus") = 0;
const volatile u32 torus_rows PARAM("CPUs, 0..1024: rows of the torus, a divisor of the number of CPUs; 0: as square as that allows") = 0;

struct neighbours {
	u32 nr;
	u32 cpu[MAX_NEIGHBOURS];
};

static __always_inline u32 neighbour(struct neighbours *n, u32 i)
{
	return n->cpu[i & (MAX_NEIGHBOURS - 1)];
}

static __always_inline void add_neighbour(struct neighbours *n, u32 cpu, u32 other)
{
	bool known = other == cpu;
	u32 i;

	bpf_for(i, 0, n->nr)
		known |= neighbour(n, i) == other;
	if (!known && n->nr < MAX_NEIGHBOURS)
		n->cpu[n->nr++ & (MAX_NEIGHBOURS - 1)] = other;
}

/* Returns the rows of the torus of `nr_cpus` CPUs, or 0 if torus_rows does not divide their number. */
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
