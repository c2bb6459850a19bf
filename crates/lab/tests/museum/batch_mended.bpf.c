/* SPDX-License-Identifier: GPL-2.0-only */
/* batch: the mended twin. */
#define MENDED
#include "batch.bpf.c"
