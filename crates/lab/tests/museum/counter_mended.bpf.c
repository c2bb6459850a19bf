/* SPDX-License-Identifier: GPL-2.0-only */
/* counter: the mended twin. */
#define MENDED
#include "counter.bpf.c"
