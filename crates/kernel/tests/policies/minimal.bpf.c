/* SPDX-License-Identifier: GPL-2.0-only */
/* minimal: a policy that has only a name and no callbacks. */
#include "scx.h"

char _license[] SEC("license") = "GPL";

SCX_OPS(minimal_ops, .name = "minimal");
