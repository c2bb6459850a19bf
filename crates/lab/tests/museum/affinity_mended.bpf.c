/* SPDX-License-Identifier: GPL-2.0-only */
/* affinity: the mended twin. */
#define MENDED
#include "affinity.bpf.c"
