// SPDX-License-Identifier: GPL-2.0-only
//! The helpers and kfuncs that need no scheduling.
use crate::func::{Func, World};
/// Timers of a program's maps.
#[derive(Default)]
pub(crate) struct Timers;
/// Name of a helper.
pub(crate) fn name(number: u32) -> String {
    format!("#{number}")
}
/// All helpers and kfuncs of this crate.
pub fn table<W: World>() -> Vec<Func<W>> {
    vec![]
}
