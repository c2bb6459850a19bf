// SPDX-License-Identifier: GPL-2.0-only
//! The instruction budget of one outermost call, which also covers the work of helpers.
//!
//! Engines test the budget at backward jumps and at calls. A program therefore executes no
//! instruction twice between two tests. A helper with an amount of work that the program chooses
//! charges in proportion ([`Vm::charge`]). Such a charge reduces only the budget, not
//! [`Vm::executed`] or simulated time.

use super::vm::Vm;
use super::world::World;
use crate::fault::Fault;

/// Default number of instructions that one outermost call may execute; [`Vm::set_budget`] changes
/// it.
pub const BUDGET: u64 = 100_000_000;
/// Number of bytes that a helper copies, clears or checks in the time of one instruction.
const BYTES: u64 = 16;
/// Operations on fewer bytes are free, because charging would cost more time than the operation.
const FEW: u64 = 256;

impl<W: World> Vm<W> {
    /// Returns the number of instructions executed so far in all calls. Also correct inside a
    /// helper.
    #[inline]
    pub fn executed(&self) -> u64 {
        let cx = self.cx();
        (cx.until - cx.left) as u64
    }

    /// Sets how many instructions one outermost call may execute. Panics if called during a call.
    pub fn set_budget(&self, instructions: u64) {
        let cx = self.cx.as_ptr();
        unsafe {
            assert!((*cx).depth == 0, "the budget is fixed during a call");
            let executed = (*cx).until - (*cx).left;
            (*cx).limit = instructions.min(i64::MAX as u64 / 2) as i64;
            (*cx).left = (*cx).limit;
            (*cx).until = executed + (*cx).limit;
        }
    }

    /// Charges the budget for work by a helper or kfunc that takes the host as long as `work`
    /// instructions. Free if no program runs.
    ///
    /// # Errors
    /// The budget is used up. The helper must return this fault.
    #[inline]
    pub fn charge(&self, work: u64) -> Result<(), Fault> {
        let cx = self.cx.as_ptr();
        // SAFETY: the VM is alive, and there is no other reference to its context.
        let cx = unsafe { &mut *cx };
        if cx.depth == 0 {
            return Ok(());
        }
        cx.charge(i64::try_from(work).unwrap_or(i64::MAX));
        if cx.left < 0 { Err(cx.over_budget()) } else { Ok(()) }
    }

    /// Charges the budget for `bytes` bytes copied, cleared or checked at once. A few are free.
    ///
    /// # Errors
    /// As [`Vm::charge`].
    #[inline]
    pub fn charge_bytes(&self, bytes: u64) -> Result<(), Fault> {
        if bytes < FEW {
            Ok(())
        } else {
            self.charge(bytes / BYTES)
        }
    }
}
