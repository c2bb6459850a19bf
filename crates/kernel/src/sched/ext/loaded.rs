// SPDX-License-Identifier: GPL-2.0-only
//! The policy that is in the machine, from the moment its programs can run until it is gone.

use crate::machine::Machine;
use crate::policy::callbacks::Op;
use crate::policy::hook::{Hook, Tracing};
use crate::policy::timers::Timers;
use crate::sched::ext::core::Core;
use crate::sched::ext::ops_table::{NO_OPS, OpsTable};
use bpf::engine::Vm;

/// Everything that comes and goes with a policy. [`Core::policy`] holds the only one, so a policy that was refused or has
/// ended cannot leave a callback, a tracing program or a timer behind.
pub(crate) struct LoadedPolicy {
    pub vm: Vm<Machine>,
    pub ops: OpsTable,
    /// Tracing programs and where they are attached.
    pub hooks: Tracing,
    pub timers: Timers,
}

/// Bits that the hot paths test several times in each context switch. They are set only while a policy is in the machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Active {
    /// Callbacks that are called at present, by `Op` (the kernel's `has_op`): none before the policy is enabled or after it is
    /// disabled.
    ops: u64,
    /// Places with tracing programs at their entry, and at their exit, by `Hook`.
    entry: u32,
    exit: u32,
}

impl Core {
    /// Puts a policy into the machine. Its syscall programs can run now; its callbacks run once it is enabled.
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

    /// Takes the policy out of the machine: its callbacks, tracing programs, timers and DSQs are gone. No task may be on one
    /// of its DSQs. Code and maps stay readable, as they do in Linux while user space holds their file descriptors.
    pub(crate) fn remove_policy(&mut self) {
        self.active = Active::default();
        if let Some(policy) = self.policy.take() {
            self.last_vm = Some(policy.vm);
        }
        self.dsqs.destroy_all();
    }

    /// Whether programs of a policy can run: it is loaded, or on the way in or out.
    #[inline]
    pub fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    /// The callbacks of the policy; none if no policy is loaded.
    #[inline(always)]
    pub fn ops(&self) -> &OpsTable {
        match &self.policy {
            Some(policy) => &policy.ops,
            None => &NO_OPS,
        }
    }

    /// Whether a callback is to be called now (SCX_HAS_OP).
    #[inline(always)]
    pub fn has_op(&self, op: Op) -> bool {
        self.active.ops >> op as u32 & 1 != 0
    }

    /// Starts calling those of `ops` that the policy defines.
    pub(super) fn activate_ops(&mut self, ops: impl Iterator<Item = Op>) {
        let table = self.ops();
        let bits = ops
            .filter(|&op| table.defines(op))
            .fold(0, |bits, op| bits | 1 << op as u32);
        self.active.ops |= bits;
    }

    /// Calls no callback any more, but ops.exit().
    pub(super) fn deactivate_ops(&mut self) {
        self.active.ops = 0;
    }

    /// The code and maps of the loaded policy.
    ///
    /// # Panics
    /// If no policy is loaded.
    #[inline]
    pub fn vm(&self) -> &Vm<Machine> {
        &self.policy.as_ref().expect("a policy is loaded").vm
    }

    /// Charges the instruction budget of the running program for `work` of the host on its behalf, in instructions. Simulated
    /// time is not affected. If the budget is used up, the engine ends the program at its next backward jump or call. Free if no
    /// program runs.
    #[inline]
    pub(crate) fn charge_program(&self, work: u64) {
        if let Some(policy) = &self.policy {
            let _ = policy.vm.charge(work);
        }
    }

    /// As [`Ext::charge_program`], for going through a mask of `words` words. Short masks are free, because charging would
    /// cost more time than the search.
    #[inline]
    pub(crate) fn charge_mask(&self, words: u32) {
        const FEW: u32 = 8;
        if words > FEW {
            self.charge_program(words.into());
        }
    }

    /// The code and maps of the loaded policy, or of the one that ended last.
    pub fn last_vm(&self) -> Option<&Vm<Machine>> {
        self.policy.as_ref().map(|policy| &policy.vm).or(self.last_vm.as_ref())
    }

    /// The loaded policy, for code that runs only while callbacks run: without the test.
    #[inline(always)]
    pub(super) fn loaded(&self) -> &LoadedPolicy {
        debug_assert!(self.policy.is_some(), "no policy is loaded");
        // SAFETY: callbacks run, and tasks and DSQs of the class exist, only between `install` and `remove_policy`.
        unsafe { self.policy.as_ref().unwrap_unchecked() }
    }

    /// Whether a tracing program is attached to the entry of a place.
    #[inline(always)]
    pub(crate) fn hooked_at_entry(&self, hook: Hook) -> bool {
        self.active.entry >> hook as u32 & 1 != 0
    }

    /// Whether a tracing program is attached to the exit of a place.
    #[inline(always)]
    pub(crate) fn hooked_at_exit(&self, hook: Hook) -> bool {
        self.active.exit >> hook as u32 & 1 != 0
    }
}
