// SPDX-License-Identifier: GPL-2.0-only
//! Tests of results: figures, tables and the HTML page.

mod golden;
mod page;
mod summary;
mod tables;
