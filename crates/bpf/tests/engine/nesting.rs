// SPDX-License-Identifier: GPL-2.0-only
//! Calls from the world and back, and what a fault leaves behind.
