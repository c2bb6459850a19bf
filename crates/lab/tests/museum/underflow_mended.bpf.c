/* SPDX-License-Identifier: GPL-2.0-only */
/* underflow: the mended twin. */
#define MENDED
#include "underflow.bpf.c"
