// SPDX-License-Identifier: GPL-2.0-only
//! Trace files, drawings and exports.

mod export;
mod file;
mod golden;
