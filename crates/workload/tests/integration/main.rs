// SPDX-License-Identifier: GPL-2.0-only
//! Tests of reading workloads: valid, invalid and damaged ones.

mod examples;
mod rtapp;
