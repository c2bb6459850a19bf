/* SPDX-License-Identifier: GPL-2.0-only */
/* taken: the mended twin. */
#define MENDED
#include "taken.bpf.c"
