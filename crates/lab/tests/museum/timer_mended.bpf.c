/* SPDX-License-Identifier: GPL-2.0-only */
/* timer: the mended twin. */
#define MENDED
#include "timer.bpf.c"
