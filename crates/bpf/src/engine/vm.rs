// SPDX-License-Identifier: GPL-2.0-only
//! A loaded program: its code, its maps, and the calls into it.
//!
//! The [`World`] is the simulated machine. It owns the [`Vm`], and BPF code acts on the world.
//! Calls therefore take the world and find the VM in it. A kfunc may call back into BPF code (a
//! timer callback, a comparison, another struct_ops member). Such a call is nested. Calls do not
//! allocate memory.
//!
//! A call that is not nested is outermost. An outermost call may execute a limited number of
//! instructions, the budget. Compiled code keeps the remaining number of instructions in a
//! register. It writes this number to memory at each call and at the end of each function. After a
//! fault, both engines report the number in memory.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::call::{call, caught, set_cpu};
use super::code_cache::Origin;
use super::context::Context;
use super::enter;
use super::gap::Gap;
use super::raise::take_fault;
use super::world::World;
use crate::fault::{Fault, FaultKind};
use crate::helper::state::State;
use crate::image::{CALL, CALL_FUNCTION, Code, FUNC_BASE, LocalTypes};
use crate::insn::{FRAME, FRAMES};
use crate::map::Map;
use crate::memory::Use;
use crate::sanitizer::{self, CheckCounts};

/// Number of free bytes above the first frame. The host may compare or copy a map's key with vector
/// loads, which read beyond the end of a short key. Without the free bytes, a load of a key at the end of
/// the stack would reach the next page. That page is inaccessible, so the host would have to use a
/// slower method.
pub(super) const SLACK: u64 = 64;

/// A program that is loaded into a simulated machine, the world `W`.
pub struct Vm<W> {
    pub(super) cx: NonNull<Context>,
    pub(super) world: PhantomData<fn(&mut W)>,
}

impl<W: World> Vm<W> {
    /// Returns the accesses of the program to pages of its arena that were not allocated: for each
    /// instruction that made some, its index and the accesses.
    pub fn gaps(&self) -> Vec<(usize, Gap)> {
        let gaps = &self.cx().gaps;
        gaps.iter().map(|(&pc, &gap)| (pc as usize, gap)).collect()
    }

    /// Returns the errors that the sanitizer finds in the code without running it. Empty if the
    /// program is loaded without the sanitizer.
    pub fn findings(&self) -> Vec<sanitizer::Finding> {
        let cx = self.cx();
        cx.sanitizer
            .as_ref()
            .map_or(Vec::new(), |sanitizer| sanitizer.findings(cx))
    }

    pub(super) fn cx(&self) -> &Context {
        // SAFETY: the context lives as long as the VM. Callers keep references only to fields that
        // running code does not change. They copy the values of all other fields at once.
        unsafe { self.cx.as_ref() }
    }

    /// Calls function number `function` of the world's program with `args` in r1 to r5, and returns
    /// r0.
    #[inline]
    pub fn call(world: &mut W, function: usize, args: [u64; 5]) -> Result<u64, Fault> {
        assert!(
            !world.vm().code().functions[function].is_callback,
            "call_args() calls the callbacks, which take an array of arguments"
        );
        let cx = world.vm().cx.as_ptr();
        // SAFETY: the world owns the VM, which is alive. Code that the VM calls must not drop the
        // VM. `Drop` checks that.
        unsafe { set_cpu(cx, world.cpu()) };
        // SAFETY: as above, and `function` is an index of a function, which the indexing above has
        // checked.
        unsafe { call(cx, (&raw mut *world).cast(), function, &args).ok_or_else(|| take_fault(cx)) }
    }

    /// Calls a struct_ops or tracing program. Its r1 points to an array that contains `args`.
    #[inline]
    pub fn call_args<const N: usize>(world: &mut W, function: usize, args: &[u64; N]) -> Result<u64, Fault> {
        let contexts = world.vm().contexts();
        Vm::call_args_in(world, contexts, function, args).ok_or_else(|| Vm::take_fault(world))
    }

    /// Like [`Vm::call_args`], but sets `contexts` for this call (see [`Vm::set_contexts`]).
    /// Returns `None` if the program faults. [`Vm::take_fault`] then returns the fault.
    #[inline(always)]
    pub fn call_args_in<const N: usize>(world: &mut W, contexts: u32, function: usize, args: &[u64; N]) -> Option<u64> {
        let cx = world.vm().cx.as_ptr();
        // SAFETY: the VM is alive and stays alive during the call, which `Drop` checks.
        unsafe {
            set_cpu(cx, world.cpu());
            let fp = (*cx).fp;
            let array = fp - N as u64 * 8;
            if array < (*cx).stack_limit {
                return stack_overflow(cx);
            }
            // `volatile` keeps these stores separate. The compiler could otherwise merge two of
            // them into one wider store, and the program's first load would have to wait for it.
            for (i, &arg) in args.iter().enumerate() {
                (*cx).region.host::<u64>(array).add(i).write_volatile(arg);
            }
            (*cx).fp = array & !15;
            let outer = std::mem::replace(&mut (*cx).contexts, contexts);
            let result = call(cx, (&raw mut *world).cast(), function, array);
            (*cx).contexts = outer;
            (*cx).fp = fp;
            result.or_else(|| caught(cx))
        }
    }

    /// Returns the fault of the call that has just returned `None`.
    #[cold]
    pub fn take_fault(world: &mut W) -> Fault {
        // SAFETY: the VM is alive.
        unsafe { take_fault(world.vm().cx.as_ptr()) }
    }

    /// Calls a function of the program that is the callback of a timer, tree or loop. `address` is
    /// the function pointer as BPF code sees it.
    pub fn call_address(world: &mut W, address: u64, args: [u64; 5]) -> Result<u64, Fault> {
        let function = address.wrapping_sub(FUNC_BASE);
        let functions = &world.vm().code().functions;
        if functions
            .get(function as usize)
            .is_none_or(|function| function.is_callback)
        {
            return Err(Fault::func(format!("callback {address:#x} is not a function")));
        }
        Vm::call(world, function as usize, args)
    }

    /// Copies `bytes` to the BPF stack, calls `f` with the world and the address of the copy, and
    /// removes the copy. Panics if `f` replaces the world's program.
    pub fn with_stack<R>(
        world: &mut W,
        bytes: &[u8],
        f: impl FnOnce(&mut W, u64) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let cx = world.vm().cx.as_ptr();
        // SAFETY: the VM is alive. The bytes between `stack_limit` and `fp` belong to the unused
        // part of its stack.
        let (id, fp, addr) = unsafe {
            let fp = (*cx).fp;
            let addr = fp.saturating_sub(bytes.len() as u64) & !15;
            if addr < (*cx).stack_limit {
                return Err(Fault::new(FaultKind::Stack, "BPF stack overflow"));
            }
            let region = (*cx).region();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), region.host::<u8>(addr), bytes.len());
            // Clears the padding above the copy, so that the program sees no data of earlier calls.
            let end = addr + bytes.len() as u64;
            std::ptr::write_bytes(region.host::<u8>(end), 0, (fp - end) as usize);
            (*cx).fp = addr;
            ((*cx).id, fp, addr)
        };
        let result = f(world, addr);
        let vm = world.vm();
        assert!(
            vm.cx().id == id,
            "the program is not replaced while its stack is in use"
        );
        // SAFETY: the world's VM is alive, and it is still the one whose stack contains `fp`.
        unsafe { (*vm.cx.as_ptr()).fp = fp };
        result
    }

    /// Returns the total cost in ns so far of all kfuncs and helpers that the program has called
    /// ([`Func::cost`](super::Func::cost)), and of all cache lines that moved to this CPU from other caches or memory.
    #[inline]
    pub fn cost(&self) -> u64 {
        self.cx().cost
    }

    /// Charges a load from the cache line at `addr` by a function that was called on `cpu`. Adds
    /// the cost to [`Vm::cost`].
    #[inline]
    pub(crate) fn load_line(&self, cpu: u32, addr: u64) {
        let region = self.cx().region();
        assert!(region.contains(addr), "{addr:#x} is not in the region");
        // SAFETY: the address has just been checked.
        let ns = unsafe { region.lines().load(cpu, addr) };
        // SAFETY: the VM is alive, and there is no reference to this field.
        unsafe { (*self.cx.as_ptr()).cost += ns };
    }

    /// Charges a store to the cache line at `addr` by a function that was called on `cpu`. Adds the
    /// cost to [`Vm::cost`].
    #[inline]
    pub(crate) fn store_line(&self, cpu: u32, addr: u64) {
        let region = self.cx().region();
        assert!(region.contains(addr), "{addr:#x} is not in the region");
        // SAFETY: the address has just been checked.
        let ns = unsafe { region.lines().store(cpu, addr) };
        // SAFETY: the VM is alive, and there is no reference to this field.
        unsafe { (*self.cx.as_ptr()).cost += ns };
    }

    /// Returns how many checks the sanitizer has made so far, or `None` if it is off.
    pub fn check_counts(&self) -> Option<CheckCounts> {
        self.cx().sanitizer.as_ref().map(|sanitizer| sanitizer.counts)
    }

    /// Returns why the interpreter runs a program that the JIT should have compiled, or `None` if
    /// the requested engine runs the program.
    pub fn why_interpreted(&self) -> Option<&str> {
        self.cx().interpreted.as_deref()
    }

    /// Returns where the machine code comes from, or `None` if the interpreter runs the program.
    pub fn code_origin(&self) -> Option<Origin> {
        self.cx().code_origin
    }

    /// Sets the bits of the current context. The program may call a function if one of these bits
    /// is also set in [`Func::contexts`](super::Func::contexts). Returns the previous bits.
    #[inline]
    pub fn set_contexts(&self, contexts: u32) -> u32 {
        // SAFETY: the VM is alive, and there is no other reference to its context.
        unsafe { std::mem::replace(&mut (*self.cx.as_ptr()).contexts, contexts) }
    }

    /// Returns the bits of the current context; see [`Vm::set_contexts`].
    #[inline]
    pub fn contexts(&self) -> u32 {
        self.cx().contexts
    }

    /// Returns the instruction that makes the current call, for messages.
    pub fn pc(&self) -> usize {
        self.cx().pc as usize
    }

    /// Returns the name of the helper or kfunc that the instruction calls. Returns `None` if it calls
    /// nothing, or a function of the program.
    pub fn callee(&self, pc: usize) -> Option<&'static str> {
        let cx = self.cx();
        let insn = cx.code.insns.get(pc)?;
        let calls = insn.op == CALL && insn.src != CALL_FUNCTION;
        cx.target(insn).filter(|_| calls).map(|target| target.name)
    }

    /// Sets the current instruction. The next call that the code makes overwrites it.
    pub fn set_pc(&self, pc: usize) {
        // SAFETY: the VM is alive, and there is no other reference to its context.
        unsafe { (*self.cx.as_ptr()).pc = pc as u32 }
    }

    /// Returns the linked code.
    pub fn code(&self) -> &Code {
        &self.cx().code
    }

    /// Returns the maps, in the order of the object.
    pub fn maps(&self) -> &[Map] {
        &self.cx().maps
    }

    /// Returns the map for an address that the program uses as a map pointer.
    #[inline]
    pub fn map(&self, addr: u64) -> Result<&Map, Fault> {
        Ok(&self.maps()[self.map_index(addr)?])
    }

    #[inline]
    pub(crate) fn map_index(&self, addr: u64) -> Result<usize, Fault> {
        let found = self.cx().handles.find(addr);
        found.ok_or_else(|| Fault::func(format!("{addr:#x} is not a map")))
    }

    pub fn map_by_name(&self, name: &str) -> Option<&Map> {
        self.maps().iter().find(|map| map.name() == name)
    }

    /// Returns the types of the objects that the program allocates, by their ids in the BTF of the
    /// BPF object.
    pub(crate) fn types(&self) -> &LocalTypes {
        &self.cx().types
    }

    /// Returns the helpers' state for this program.
    pub(crate) fn state(&self) -> &RefCell<State> {
        &self.cx().state
    }
}

/// Records the fault of a call whose arguments do not fit on the BPF stack.
#[cold]
unsafe fn stack_overflow(cx: *mut Context) -> Option<u64> {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe { (*cx).fault = Some(Fault::new(FaultKind::Stack, "BPF stack overflow")) };
    None
}

impl<W> Drop for Vm<W> {
    fn drop(&mut self) {
        // If a kfunc catches this panic, it returns to the program's code. That is why nothing is
        // freed before the test.
        // SAFETY: the context is alive.
        let depth = unsafe { (*self.cx.as_ptr()).depth };
        assert!(depth == 0, "the VM is not dropped while its program runs");
        enter::forget(self.cx.as_ptr());
        // SAFETY: `new` made the pointer with Box::leak.
        let cx = unsafe { Box::from_raw(self.cx.as_ptr()) };
        for stack in cx.more_stacks.iter().copied().chain([cx.stack]) {
            cx.region.release_pages(stack, FRAMES * FRAME + SLACK);
        }
        let (state, memory) = (cx.state.borrow(), cx.region.memory());
        memory.uncharge_records(Use::Records, state.records());
        memory.uncharge_records(Use::Timers, state.timers.len());
        for map in &cx.maps {
            map.release(&cx.region);
        }
    }
}
