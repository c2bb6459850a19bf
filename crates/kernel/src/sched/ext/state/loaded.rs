// SPDX-License-Identifier: GPL-2.0-only
//! The policy that is installed in the simulated kernel, from the time when its programs can run
//! until it is removed.

use crate::layout::callbacks::Callback;
use crate::machine::Machine;
use crate::sched::ext::state::core::Core;
use crate::sched::ext::state::ops_table::{NO_OPS, OpsTable};
use crate::sched::tracepoint::state::{Hook, Tracing};
use crate::simulation::id::CpuId;
use bpf::engine::Vm;
use std::collections::BTreeMap;

/// All state that exists only together with a policy.
///
/// Its only owner is [`Core::policy`]. A policy that was rejected or has ended therefore cannot
/// leave a callback, a tracing program or a timer behind.
pub(crate) struct LoadedPolicy {
    pub vm: Vm<Machine>,
    pub ops: OpsTable,
    /// Tracing programs and the functions they are attached to.
    pub hooks: Tracing,
    pub timers: Timers,
}

/// All timers that the policy has started. A timer always fires on the CPU that started it, even if
/// it was not pinned to that CPU.
#[derive(Default)]
pub struct Timers {
    pub(crate) slots: Vec<Timer>,
    /// Index in `slots` of each timer, by the address of its struct bpf_timer.
    pub(crate) by_addr: BTreeMap<u64, u32>,
}

/// A BPF timer that the policy has started.
pub(crate) struct Timer {
    pub(crate) addr: u64,
    pub(crate) cpu: CpuId,
    /// Expiry of the last start.
    pub(crate) at: u64,
    /// Generation number of the pending start, from [`Core::timer_starts`]. `None` if the timer is
    /// not pending. Timer events with another number are ignored. They are left over if the timer
    /// was restarted or cancelled, or if the policy was unloaded.
    pub(crate) pending: Option<u32>,
}

/// Bits that are tested several times in each context switch. They are stored together so that the
/// tests are fast. All are zero if there is no policy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Active {
    /// Bit set of the callbacks that may be called at the moment, indexed by `Callback` (SCX_HAS_OP). It
    /// is empty until the policy is enabled and after it is disabled.
    ops: u64,
    /// Bit set of the functions that have a tracing program at their entry, indexed by `Hook`.
    entry: u32,
    /// Bit set of the functions that have a tracing program at their exit, indexed by `Hook`.
    exit: u32,
}

impl Core {
    /// Installs a policy. Its programs of type syscall can run immediately. Its callbacks can run
    /// after the policy has been enabled.
    pub(crate) fn install(&mut self, vm: Vm<Machine>, ops: OpsTable, hooks: Tracing) {
        self.settled_insns = vm.executed();
        self.settled_cost = vm.cost();
        self.active = Active {
            ops: 0,
            entry: hooks.entry,
            exit: hooks.exit,
        };
        self.policy = Some(LoadedPolicy {
            vm,
            ops,
            hooks,
            timers: Timers::default(),
        });
    }

    /// Removes the policy with its callbacks, tracing programs, timers and DSQs. The DSQs must be
    /// empty.
    ///
    /// The policy's code and maps can still be read. In Linux they can be read while user space
    /// holds their file descriptors.
    pub(crate) fn remove_policy(&mut self) {
        self.active = Active::default();
        if let Some(policy) = self.policy.take() {
            self.last_vm = Some(policy.vm);
        }
        self.dsqs.destroy_all();
        self.shows_dsqs = false;
    }

    /// Lets the programs of the policy that ended last run again, if no policy is installed. Returns
    /// whether it has done so. Its callbacks stay inactive.
    pub(crate) fn revive_programs(&mut self) -> bool {
        if self.policy.is_some() {
            return false;
        }
        let Some(vm) = self.last_vm.take() else {
            return false;
        };
        self.install(vm, OpsTable::default(), Tracing::default());
        true
    }

    /// Removes the programs, maps and timers of the current policy, which is a sub-scheduler.
    pub(crate) fn remove_policy_of_sub(&mut self) {
        self.active = Active::default();
        self.policy = None;
        self.shows_dsqs = false;
    }

    /// Returns whether a policy is installed. The policy may be enabled, or be about to be enabled
    /// or disabled.
    #[inline]
    pub fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    /// Returns the callbacks of the policy. The table is empty if no policy is loaded.
    #[inline(always)]
    pub fn ops(&self) -> &OpsTable {
        match &self.policy {
            Some(policy) => &policy.ops,
            None => &NO_OPS,
        }
    }

    /// Returns whether a callback may be called now (SCX_HAS_OP).
    #[inline(always)]
    pub fn has_op(&self, op: Callback) -> bool {
        self.active.ops >> op as u32 & 1 != 0
    }

    /// Allows calls of those callbacks in `ops` that the policy defines.
    pub(crate) fn activate_ops(&mut self, ops: impl Iterator<Item = Callback>) {
        let table = self.ops();
        let bits = ops
            .filter(|&op| table.defines(op))
            .fold(0, |bits, op| bits | 1 << op as u32);
        self.active.ops |= bits;
    }

    /// Forbids calls of all callbacks. The only exception is ops.exit(), which is called without
    /// this check.
    pub(crate) fn deactivate_ops(&mut self) {
        self.active.ops = 0;
    }

    /// Returns the code and maps of the loaded policy.
    ///
    /// # Panics
    /// If no policy is loaded.
    #[inline]
    pub fn vm(&self) -> &Vm<Machine> {
        &self.policy.as_ref().expect("a policy is loaded").vm
    }

    /// Charges the budget of the running BPF program for work that the simulator does on its
    /// behalf, such as a search. `work` is a number of instructions. When the budget is used up,
    /// the program ends with a fault at its next backward jump or call. Takes no simulated time,
    /// and does nothing if no program runs.
    #[inline]
    pub(crate) fn charge_program(&self, work: u64) {
        if let Some(policy) = &self.policy {
            let _ = policy.vm.charge(work);
        }
    }

    /// Charges the running program like [`Core::charge_program`] for the search of a mask of
    /// `words` words. Short masks are not charged, because this would take more of the host's time
    /// than the search.
    #[inline]
    pub(crate) fn charge_mask(&self, words: u32) {
        const FEW: u32 = 8;
        if words > FEW {
            self.charge_program(words.into());
        }
    }

    /// Returns the code and maps of the loaded policy, or of the policy that ended last.
    pub fn last_vm(&self) -> Option<&Vm<Machine>> {
        self.policy.as_ref().map(|policy| &policy.vm).or(self.last_vm.as_ref())
    }

    /// Returns the loaded policy without checking that a policy is loaded, because a context switch
    /// needs the policy many times. Builds with debug assertions, and thus all tests, do check it.
    ///
    /// # Safety
    /// A policy is loaded ([`Core::has_policy`]). This holds between [`Core::install`] and the
    /// removal of the policy: while a program runs, and while the class has a task or a DSQ with
    /// tasks.
    #[inline(always)]
    pub(crate) unsafe fn loaded(&self) -> &LoadedPolicy {
        debug_assert!(self.policy.is_some(), "no policy is loaded");
        // SAFETY: see above.
        unsafe { self.policy.as_ref().unwrap_unchecked() }
    }

    /// Returns the flags SCX_OPS_* of the policy that schedules the tasks of the class. Only code
    /// that handles such a task, or that a program has called, calls this.
    #[inline(always)]
    pub(crate) fn ops_flags(&self) -> u64 {
        // SAFETY: the class has tasks, and programs run, only while a policy is loaded.
        unsafe { self.loaded() }.ops.flags
    }

    /// Returns whether a tracing program is attached to the entry of a function.
    #[inline(always)]
    pub(crate) fn hooked_at_entry(&self, hook: Hook) -> bool {
        self.active.entry >> hook as u32 & 1 != 0
    }

    /// Returns whether a tracing program is attached to the exit of a function.
    #[inline(always)]
    pub(crate) fn hooked_at_exit(&self, hook: Hook) -> bool {
        self.active.exit >> hook as u32 & 1 != 0
    }
}
