// SPDX-License-Identifier: GPL-2.0-only
//! Tests of trace files, drawings and exports.

mod export;
mod file;
mod golden;
mod recordings;
mod written;
