// SPDX-License-Identifier: GPL-2.0-only
//! Programs that several CPUs execute at the same time.
//!
//! Normally a call into a program runs to its end before any other call begins. If a program
//! overlaps ([`Vm::overlap`]), the interpreter calls [`World::before_access`] ahead of each access
//! to memory that CPUs share, and ahead of each call of a helper or kfunc. The world may then
//! suspend the call (it runs on a coroutine) and execute other calls into the same program.
//! [`Vm::switch`] exchanges the registers and the BPF stack of one call with those of another.
//!
//! The interpreter also reports each access and its value ([`World::accessed`]), and when a loaded
//! value influences something other than the same variable ([`World::decides`]). A race detector
//! needs both.

use super::context::Context;
use super::enter;
use super::host_stack;
use super::interpreter;
use super::vm::{SLACK, Vm};
use super::world::World;
use crate::error::Error;
use crate::fault::Fault;
use crate::insn::{FRAME, FRAMES};

/// Directions of a jump, as bits of an element of [`Vm::branches`].
pub const TAKEN: u8 = 1;
pub const NOT_TAKEN: u8 = 2;

/// What an instruction does to memory that CPUs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessKind {
    Load,
    Store,
    /// An atomic read-modify-write that returns the old value, and thus is fully ordered.
    Atomic,
    /// An atomic read-modify-write that returns nothing, and orders no other access.
    AtomicUnordered,
    /// A load with acquire semantics.
    Acquire,
    /// A store with release semantics.
    Release,
    /// A call of a helper or kfunc. `addr` is the first argument.
    Call,
}

/// An access to memory that CPUs share, or a call of a helper or kfunc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Index of the instruction.
    pub pc: usize,
    pub kind: AccessKind,
    /// Address in the region.
    pub addr: u64,
    /// Number of bytes.
    pub size: u8,
}

/// Functions of the world that the interpreter calls if a program overlaps.
#[derive(Clone, Copy)]
pub(crate) struct Hooks {
    pub before: unsafe fn(*mut Context, Access),
    pub accessed: unsafe fn(*mut Context, Access, u64, bool),
    pub decides: unsafe fn(*mut Context, u64),
}

impl Hooks {
    fn new<W: World>() -> Hooks {
        Hooks {
            before: before::<W>,
            accessed: accessed::<W>,
            decides: decides::<W>,
        }
    }
}

unsafe fn before<W: World>(cx: *mut Context, access: Access) {
    // SAFETY: the world outlives the call, as in `func::shim`.
    unsafe {
        (*cx).interpreting = false;
        (*(*cx).world.cast::<W>()).before_access(access);
        (*cx).interpreting = true;
    }
}

unsafe fn accessed<W: World>(cx: *mut Context, access: Access, value: u64, derived: bool) {
    // SAFETY: as in `before`.
    unsafe { (*(*cx).world.cast::<W>()).accessed(access, value, derived) }
}

unsafe fn decides<W: World>(cx: *mut Context, addr: u64) {
    // SAFETY: as in `before`.
    unsafe { (*(*cx).world.cast::<W>()).decides(addr) }
}

/// The registers and the BPF stack of one suspended call into a program.
pub struct Execution {
    left: i64,
    fp: u64,
    stack_limit: u64,
    stack: u64,
    pc: u32,
    contexts: u32,
    own_cache: u64,
    cpu: u32,
    rsp: u64,
    interpreting: bool,
    depth: u32,
    native_limit: u64,
    function: usize,
    arg_tags: [u64; 6],
    running_timer: Option<u64>,
}

impl<W: World> Vm<W> {
    /// Makes the program overlap: from now on the interpreter executes it and calls the functions
    /// of [`World`] that belong to shared accesses.
    ///
    /// # Errors
    /// The program has the sanitizer, whose state belongs to one call at a time.
    pub fn overlap(&mut self) -> Result<(), Error> {
        let cx = self.cx.as_ptr();
        // SAFETY: the VM is alive and borrowed mutably, so no reference to its context exists.
        unsafe {
            if (*cx).sanitizer.is_some() {
                return Err("callbacks cannot overlap while the sanitizer checks them".into());
            }
            assert!((*cx).depth == 0, "overlap() is not called while the program runs");
            (*cx).hooks = Some(Hooks::new::<W>());
            let code = &(*cx).code;
            (*cx).branches = vec![0; code.insns.len()];
            (*cx).native_stack = host_stack::needed(host_stack::INTERPRETER_FRAME);
            let entries = &mut (*cx).entries;
            entries.fill(interpreter::run_overlapped);
            let entries = &mut (*cx).engine_entries;
            entries.fill(interpreter::run_overlapped);
        }
        Ok(())
    }

    /// Returns, for each instruction, the directions that its jump has taken ([`TAKEN`],
    /// [`NOT_TAKEN`]). Empty if the program does not overlap.
    pub fn branches(&self) -> &[u8] {
        &self.cx().branches
    }

    /// Creates the state of a call that has not begun. The call will run on a stack of the host
    /// whose lowest address is `host_stack_end`. The VM's region provides its BPF stack.
    ///
    /// # Errors
    /// The run's memory limit leaves no room for the BPF stack.
    ///
    /// # Safety
    /// `host_stack_end` is the lowest usable address of the host stack on which the call runs. The
    /// execution is passed only to [`Vm::switch`] of this VM.
    pub unsafe fn execution(&self, host_stack_end: u64) -> Result<Execution, Fault> {
        let cx = self.cx();
        let stack = cx
            .region()
            .pages(FRAMES * FRAME + SLACK)
            .ok_or_else(|| cx.region().memory().fault())?;
        cx.lines().make_private(stack, FRAMES * FRAME + SLACK);
        // SAFETY: the VM is alive, and there is no other reference to this field.
        unsafe { (*self.cx.as_ptr()).more_stacks.push(stack) };
        Ok(Execution {
            left: cx.limit,
            fp: stack + FRAMES * FRAME,
            stack_limit: stack + FRAME,
            stack,
            pc: 0,
            contexts: 0,
            own_cache: cx.own_cache,
            cpu: cx.cpu,
            rsp: 0,
            interpreting: false,
            depth: 0,
            native_limit: host_stack_end.saturating_add(cx.native_stack),
            function: 0,
            arg_tags: [0; 6],
            running_timer: None,
        })
    }

    /// Exchanges the state of the running call with that of `other`. The number of executed
    /// instructions ([`Vm::executed`]) does not change.
    ///
    /// # Safety
    /// The caller must meet four conditions:
    ///
    /// - `other` comes from [`Vm::execution`] of this VM.
    /// - Code of a call runs only while the VM has the state of this call. In particular, a helper
    ///   or kfunc that is suspended returns only after its state was switched back.
    /// - Code of `other` runs only on the host stack that `other` was created for.
    /// - The VM is not dropped while a call is suspended.
    pub unsafe fn switch(&self, other: &mut Execution) {
        let cx = self.cx.as_ptr();
        enter::adopt(cx);
        // SAFETY: the VM is alive, and no reference to one of these fields exists. Callers may have
        // borrowed other fields, so this code borrows one field at a time.
        unsafe {
            let executed = (*cx).until - (*cx).left;
            std::mem::swap(&mut (*cx).left, &mut other.left);
            (*cx).until = executed + (*cx).left;
            std::mem::swap(&mut (*cx).fp, &mut other.fp);
            std::mem::swap(&mut (*cx).stack_limit, &mut other.stack_limit);
            std::mem::swap(&mut (*cx).stack, &mut other.stack);
            std::mem::swap(&mut (*cx).pc, &mut other.pc);
            std::mem::swap(&mut (*cx).contexts, &mut other.contexts);
            std::mem::swap(&mut (*cx).own_cache, &mut other.own_cache);
            std::mem::swap(&mut (*cx).cpu, &mut other.cpu);
            std::mem::swap(&mut (*cx).rsp, &mut other.rsp);
            std::mem::swap(&mut (*cx).interpreting, &mut other.interpreting);
            std::mem::swap(&mut (*cx).depth, &mut other.depth);
            std::mem::swap(&mut (*cx).native_limit, &mut other.native_limit);
            std::mem::swap(&mut (*cx).function, &mut other.function);
            std::mem::swap(&mut (*cx).arg_tags, &mut other.arg_tags);
            std::mem::swap(&mut (*cx).state.borrow_mut().running_timer, &mut other.running_timer);
        }
    }
}
