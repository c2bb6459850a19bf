// SPDX-License-Identifier: GPL-2.0-only
//! How much one outermost call may do: so many instructions, and work of helpers that counts as instructions.
//!
//! Engines test the budget at backward jumps and at calls, so that between two tests a program executes no instruction twice.
//! Helpers whose work a program can choose charge for it in proportion ([`Vm::charge`]). The charge shortens the budget alone:
//! neither [`Vm::executed`] nor simulated time sees it.

use super::vm::Vm;
use super::world::World;
use crate::fault::Fault;

/// Instructions one outermost call may execute unless [`Vm::set_budget`] says otherwise.
pub const BUDGET: u64 = 100_000_000;
/// Bytes that a helper copies, clears or checks in the time of an instruction.
const BYTES: u64 = 16;
/// Fewer bytes than this are free: finding out costs more.
const FEW: u64 = 256;

impl<W: World> Vm<W> {
    /// Instructions executed so far, over all calls. Right inside helpers, too.
    #[inline]
    pub fn executed(&self) -> u64 {
        let cx = self.cx();
        (cx.until - cx.left) as u64
    }

    /// Sets how many instructions one outermost call may execute. Not to be called from within one.
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

    /// A helper or kfunc does work that takes the host as long as so many instructions. Free where no program runs.
    ///
    /// # Errors
    /// The budget is used up: the helper returns the fault.
    #[inline]
    pub fn charge(&self, work: u64) -> Result<(), Fault> {
        let cx = self.cx.as_ptr();
        // SAFETY: as in `set_contexts`.
        let cx = unsafe { &mut *cx };
        if cx.depth == 0 {
            return Ok(());
        }
        cx.charge(i64::try_from(work).unwrap_or(i64::MAX));
        if cx.left < 0 { Err(cx.over_budget()) } else { Ok(()) }
    }

    /// Charges for bytes that are copied, cleared or checked as a whole. A few are free.
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
