/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * costs.bpf.c with four more callbacks, which do nothing. Each of them is called once for each pass
 * of a ping-pong. The time by which they lengthen a pass is the cost of four calls.
 */
#define EMPTY_CALLBACKS
#include "costs.bpf.c"
