/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Levels of Solaris' time-sharing class (ts_dptbl): the length of a quantum, and the level that a
 * task gets when it has used up a quantum, slept or waited. Level 59 is the highest.
 *
 *     level   quantum   after the quantum   after a sleep   after a wait
 *     59       20 ms    49                  59              59
 *     50-58    40 ms    10 levels lower     58              59
 *     40-49    40 ms    10 levels lower     55 to 58        55 to 59
 *     30-39    80 ms    10 levels lower     53, 54          53, 54
 *     20-29   120 ms    10 levels lower     52              52
 *     10-19   160 ms    10 levels lower     51              51
 *     0-9     200 ms    0                   50              50
 */
#ifndef TS_LEVELS_H
#define TS_LEVELS_H

#include "scx.h"

#define LEVELS 60
/* Level at which a task starts. */
#define START (LEVELS / 2 - 1)
#define MS 1000000ULL

const volatile u64 scale_percent PARAM("%, 1..1000: length of all quanta, 100: as in the table") = 100;

/* Returns the quantum of a level in ns. */
static __always_inline u64 quantum_of(u32 level)
{
	u64 ms = level >= 59 ? 20 : level >= 40 ? 40 : 200 - level / 10 * 40;

	return ms * MS * scale_percent / 100;
}

/* Returns the level of a task that has slept (`slept`) or waited. */
static __always_inline u32 raised(u32 level, bool slept)
{
	if (level >= 59)
		return 59;
	if (level >= 45)
		return slept ? (level >= 47 ? 58 : 11 + level) : (level >= 49 ? 59 : level >= 47 ? 58 : 11 + level);
	return level >= 40 ? 55 : level >= 35 ? 54 : 50 + level / 10;
}

#endif
