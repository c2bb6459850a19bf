// SPDX-License-Identifier: GPL-2.0-only
//! The policy in the machine, from the moment its programs can run until it is removed.

use crate::machine::Machine;
use crate::policy::callbacks::Op;
use crate::policy::hook::{Hook, Tracing};
use crate::policy::timers::Timers;
use crate::sched::ext::core::Core;
use crate::sched::ext::ops_table::{NO_OPS, OpsTable};
use bpf::engine::Vm;

/// All state that is created and removed with a policy.
///
/// [`Core::policy`] is the only owner, so a policy that was refused or has ended cannot leave a
/// callback, a tracing program or a timer behind.
pub(crate) struct LoadedPolicy {
    pub vm: Vm<Machine>,
    pub ops: OpsTable,
    /// Tracing programs and the functions they are attached to.
    pub hooks: Tracing,
    pub timers: Timers,
}

/// Bits that the hot paths test several times in each context switch. All are zero without a
/// policy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Active {
    /// Callbacks that may be called at the moment, by `Op` (SCX_HAS_OP). There are none before the
    /// policy is enabled or after it is disabled.
    ops: u64,
    /// Functions with tracing programs at their entry, by `Hook`.
    entry: u32,
    /// Functions with tracing programs at their exit, by `Hook`.
    exit: u32,
}

impl Core {
    /// Puts a policy into the machine. Its syscall programs can run immediately, its callbacks once
    /// it is enabled.
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

    /// Removes the policy with its callbacks, tracing programs, timers and DSQs. Its DSQs must be
    /// empty.
    ///
    /// Its code and maps stay readable, as they do in Linux while user space holds their file
    /// descriptors.
    pub(crate) fn remove_policy(&mut self) {
        self.active = Active::default();
        if let Some(policy) = self.policy.take() {
            self.last_vm = Some(policy.vm);
        }
        self.dsqs.destroy_all();
    }

    /// Returns whether programs of a policy can run: it is loaded, being enabled or being disabled.
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
    pub fn has_op(&self, op: Op) -> bool {
        self.active.ops >> op as u32 & 1 != 0
    }

    /// Allows calls of those callbacks in `ops` that the policy defines.
    pub(super) fn activate_ops(&mut self, ops: impl Iterator<Item = Op>) {
        let table = self.ops();
        let bits = ops
            .filter(|&op| table.defines(op))
            .fold(0, |bits, op| bits | 1 << op as u32);
        self.active.ops |= bits;
    }

    /// Forbids calls of all callbacks. ops.exit() is called without this check.
    pub(super) fn deactivate_ops(&mut self) {
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

    /// Returns the code and maps of the loaded policy, or of the policy that ended last.
    pub fn last_vm(&self) -> Option<&Vm<Machine>> {
        self.policy.as_ref().map(|policy| &policy.vm).or(self.last_vm.as_ref())
    }

    /// Returns the loaded policy without a check, for code that runs only while callbacks run.
    #[inline(always)]
    pub(super) fn loaded(&self) -> &LoadedPolicy {
        debug_assert!(self.policy.is_some(), "no policy is loaded");
        // SAFETY: callbacks run, and tasks and DSQs of the class exist, only between `install` and
        // `remove_policy`.
        unsafe { self.policy.as_ref().unwrap_unchecked() }
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
