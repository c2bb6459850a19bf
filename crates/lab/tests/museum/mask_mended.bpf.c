/* SPDX-License-Identifier: GPL-2.0-only */
/* mask: the mended twin. */
#define MENDED
#include "mask.bpf.c"
