/* SPDX-License-Identifier: GPL-2.0-only */
/* wakeup: the mended twin. */
#define MENDED
#include "wakeup.bpf.c"
