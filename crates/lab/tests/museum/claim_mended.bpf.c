/* SPDX-License-Identifier: GPL-2.0-only */
/* claim: the mended twin. */
#define MENDED
#include "claim.bpf.c"
