/* SPDX-License-Identifier: GPL-2.0-only */
/* Includes the header of the policies in this repository, which the tests use as well. */
#include "../../../../policies/include/scx.h"
