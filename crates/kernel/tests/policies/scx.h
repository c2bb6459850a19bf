/* SPDX-License-Identifier: GPL-2.0-only */
/* The policies' own header serves the tests too: extend that one. */
#include "../../../../policies/include/scx.h"
