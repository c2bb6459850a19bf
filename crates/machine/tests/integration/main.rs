// SPDX-License-Identifier: GPL-2.0-only
//! Tests of machine descriptions: valid and invalid ones, and their output.

mod capacities;
mod descriptions;
mod hwloc;
mod hwloc_tree;
mod named;
