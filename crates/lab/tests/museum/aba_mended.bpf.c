/* SPDX-License-Identifier: GPL-2.0-only */
/* aba: the mended twin. */
#define MENDED
#include "aba.bpf.c"
