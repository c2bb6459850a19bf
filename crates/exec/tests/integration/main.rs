// SPDX-License-Identifier: GPL-2.0-only
//! Runs small programs of our own on a simulated machine. The programs are compiled with the C
//! compiler of the host.
#![allow(clippy::disallowed_methods)] // Tests read and write files.

mod behaviour;
mod record;
mod scheduling;
mod support;
