// SPDX-License-Identifier: GPL-2.0-only
//! Integration tests of scripts.
#![allow(clippy::disallowed_methods)] // Tests read files.

mod conform;
mod convert;
mod messages;
