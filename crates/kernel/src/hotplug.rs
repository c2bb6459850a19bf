// SPDX-License-Identifier: GPL-2.0-only
//! CPUs going offline and coming back.

use crate::machine::Machine;

impl Machine {
    pub(crate) fn hotplug(&mut self, _cpu: u32, _online: bool) {}
}
