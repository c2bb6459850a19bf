/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Includes the header of the policies in this repository, so that tests use the same definitions.
 */
#include "../../../../policies/include/scx.h"
