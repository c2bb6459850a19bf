/* SPDX-License-Identifier: GPL-2.0-only */
/* order: the mended twin. */
#define MENDED
#include "order.bpf.c"
