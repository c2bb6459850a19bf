// SPDX-License-Identifier: GPL-2.0-only
//! Results: figures, tables, and the page.

mod golden;
mod page;
mod summary;
mod tables;
