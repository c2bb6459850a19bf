// SPDX-License-Identifier: GPL-2.0-only
//! The instruction budget: how many instructions a call from the simulated machine into a program
//! may execute.
//!
//! The limit ends endless loops. It applies to an outermost call: one that the simulated machine
//! makes while no other call into the program is running.
//!
//! Engines (the interpreter and the JIT) test the budget at backward jumps and at calls, so a
//! program executes each instruction at most once between two tests. Helpers that do as much work
//! as the program asks for, for example copy a number of bytes, charge the budget in proportion
//! ([`Vm::charge`]). This changes neither [`Vm::executed`] nor simulated time.

use super::context::Context;
use super::vm::Vm;
use super::world::World;
use crate::fault::Fault;

/// Default number of instructions that one outermost call may execute. [`Vm::set_budget`] changes
/// the number.
pub const BUDGET: u64 = 100_000_000;
/// Number of bytes that the host copies, clears or checks in the time that it needs for one BPF
/// instruction.
const BYTES: u64 = 16;
/// Operations on fewer bytes than this are free, because the charge would take longer than the
/// operation.
const FEW: u64 = 256;

impl<W: World> Vm<W> {
    /// Returns the number of instructions that all calls so far have executed. The number is also
    /// correct while a helper runs.
    #[inline]
    pub fn executed(&self) -> u64 {
        let cx = self.cx();
        (cx.until - cx.left) as u64
    }

    /// Sets how many instructions one outermost call may execute. Panics while the program runs.
    pub fn set_budget(&self, instructions: u64) {
        let cx = self.cx.as_ptr();
        // SAFETY: the VM is alive, and there is no other reference to its context.
        unsafe {
            assert!((*cx).depth == 0, "set_budget() is not called while the program runs");
            let executed = (*cx).until - (*cx).left;
            (*cx).limit = instructions.min(i64::MAX as u64 / 2) as i64;
            (*cx).left = (*cx).limit;
            (*cx).until = executed + (*cx).limit;
        }
    }

    /// Charges the budget for work of a helper or kfunc. `work` is a number of BPF instructions:
    /// the host needs as much time for the work as for these instructions. Does nothing if no
    /// program is running.
    ///
    /// # Errors
    /// The budget is used up. The helper must return this fault to its caller.
    #[inline]
    pub fn charge(&self, work: u64) -> Result<(), Fault> {
        let cx = self.cx.as_ptr();
        // SAFETY: the VM is alive, and there is no reference to the fields that change.
        unsafe {
            if (*cx).depth == 0 {
                return Ok(());
            }
            Context::charge(cx, i64::try_from(work).unwrap_or(i64::MAX));
            if (*cx).left < 0 {
                Err((*cx).over_budget())
            } else {
                Ok(())
            }
        }
    }

    /// Charges the budget for `bytes` bytes that are copied, cleared or checked. A small number of
    /// bytes is free.
    ///
    /// # Errors
    /// The budget is used up, as for [`Vm::charge`].
    #[inline]
    pub fn charge_bytes(&self, bytes: u64) -> Result<(), Fault> {
        if bytes < FEW {
            Ok(())
        } else {
            self.charge(bytes / BYTES)
        }
    }
}
