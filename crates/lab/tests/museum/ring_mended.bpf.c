/* SPDX-License-Identifier: GPL-2.0-only */
/* ring: the mended twin. */
#define MENDED
#include "ring.bpf.c"
