// SPDX-License-Identifier: GPL-2.0-only
//! A loaded program: its code, its maps, and the calls into it.
//!
//! The world owns the [`Vm`], and BPF code acts on the world, so calls take the world and find the VM in it. Calls nest: a
//! kfunc may call back into BPF code (a timer callback, a comparison, another struct_ops member). Nothing is allocated on
//! the way.
//!
//! Executed instructions are counted down from the budget of the outermost call. Compiled code keeps the number in a register
//! and writes it back at calls and at the end; after a fault in the middle the count is that of the last write-back, in
//! both engines.

mod budget;
mod call;
mod fault;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::rc::Rc;

use crate::enter::{self, Hardware};
use crate::func::{Entry, Fault, FaultKind, Func, World};
use crate::guard::{Checked, Guard, Rules};
use crate::helper::{self, State};
use crate::image::{CALL_FUNCTION, CALL_KFUNC, Code, FUNC_BASE, Insn, LocalTypes};
use crate::insn;
use crate::interp;
use crate::lines::Lines;
use crate::map::{Map, kind};
use crate::native;
use crate::region::{Region, Use};
pub use budget::BUDGET;
use call::{call, caught, set_cpu};
use fault::take_fault;
pub(crate) use fault::{
    bad_access, field_store, foreign_store, missing, not_allowed, over_budget, raise, stack_overflow, trap,
};

/// Bytes of BPF stack a function may use, as in the kernel.
pub const FRAME: u64 = 512;
/// BPF stack of one program: calls may nest this many frames deep, counting calls from helpers.
pub(crate) const FRAMES: u64 = 128;
/// Left free above the first frame: vector loads of a key at the very end of a page are slow when the next page cannot be
/// read.
const SLACK: u64 = 64;

/// What executes the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Engine {
    /// One instruction at a time; on every host.
    #[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), default)]
    Interpreter,
    /// Machine code; x86-64 Linux only.
    #[cfg_attr(all(target_arch = "x86_64", target_os = "linux"), default)]
    Jit,
}

/// What a call instruction calls.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub entry: Entry,
    pub contexts: u32,
    pub cost: u32,
    /// Arguments it looks at.
    pub args: u8,
    /// C prototype of a kfunc.
    pub proto: &'static str,
}

/// The state compiled code works on. Its first fields are addressed by compiled code.
#[repr(C)]
pub struct Context {
    /// Instructions left of the budget.
    pub(crate) left: i64,
    /// Sum of [`Func::cost`] of the calls made, and of cache lines.
    pub(crate) cost: u64,
    /// Frame pointer (r10) of the next frame to be made.
    pub(crate) fp: u64,
    /// No frame may have a frame pointer below this.
    pub(crate) stack_limit: u64,
    /// Instruction that makes the current call.
    pub(crate) pc: u32,
    /// What the current context allows; see [`Func::contexts`].
    pub(crate) contexts: u32,

    /// The bit of the running CPU's cache, and the CPU.
    pub(crate) own_cache: u64,
    pub(crate) cpu: u32,
    pub(crate) world: *mut (),
    /// Stack pointer of the innermost trampoline.
    pub(crate) rsp: u64,
    pub(crate) fault: Option<Fault>,
    pub(crate) hardware: Hardware,
    /// The interpreter is about to load or store for the program.
    pub(crate) interpreting: bool,
    pub(crate) depth: u32,
    /// Stack of the thread that a call needs, and the lowest stack pointer with which the running thread may make one.
    pub(crate) native_stack: u64,
    pub(crate) native_limit: u64,
    limit: i64,
    /// What would have been executed in all if the running outermost call used up its budget.
    until: i64,
    /// What the interpreter is to run.
    pub(crate) function: usize,
    /// By function: does it call other functions of the program?
    pub(crate) nests: Vec<bool>,
    pub(crate) base: u64,
    /// [`Region::delta`]
    pub(crate) delta: u64,
    pub(crate) zeros: u64,
    /// Where addresses of arena pointers live, and what programs see of them.
    pub(crate) arena: u64,
    pub(crate) arena_user: u64,
    pub(crate) code: Code,
    pub(crate) helpers: Vec<Option<Target>>,
    pub(crate) kfuncs: Vec<Option<Target>>,
    pub(crate) maps: Vec<Map>,
    /// Addresses that stand for maps in code, ascending, each with the map's index. Not in memory: a policy could change it.
    handles: Vec<(u64, u32)>,
    types: LocalTypes,
    state: RefCell<State>,
    entries: Vec<Entry>,
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    compiled: Option<crate::jit::Compiled>,
    /// Why the interpreter runs a program that was to be compiled.
    interpreted: Option<String>,
    stack: u64,
    region: Rc<Region>,
    /// In checked mode.
    pub(crate) guard: Option<Box<Guard>>,
    /// Provenances of r0 to r5 across calls, in checked mode.
    pub(crate) arg_prov: [u64; 6],
}

/// A loaded program of a world.
pub struct Vm<W> {
    cx: NonNull<Context>,
    world: PhantomData<fn(&mut W)>,
}

impl<W: World> Vm<W> {
    /// Makes linked code callable. `funcs` is everything it may call: the helpers of this crate
    /// ([`helper::table`](crate::helper::table)) and the world's. What is missing there faults when it is called.
    pub fn new(
        code: Code,
        maps: Vec<Map>,
        types: LocalTypes,
        funcs: &[Func<W>],
        region: Rc<Region>,
        engine: Engine,
    ) -> Result<Vm<W>, String> {
        Vm::build(code, maps, types, funcs, region, engine, None)
    }

    /// As [`Vm::new`], in checked mode: see `guard`.
    pub fn checked(
        code: Code,
        maps: Vec<Map>,
        types: LocalTypes,
        funcs: &[Func<W>],
        region: Rc<Region>,
        engine: Engine,
        rules: Rules,
    ) -> Result<Vm<W>, String> {
        Vm::build(code, maps, types, funcs, region, engine, Some(rules))
    }

    fn build(
        code: Code,
        maps: Vec<Map>,
        types: LocalTypes,
        funcs: &[Func<W>],
        region: Rc<Region>,
        engine: Engine,
        rules: Option<Rules>,
    ) -> Result<Vm<W>, String> {
        let target = |func: &Func<W>| Target {
            entry: func.entry,
            contexts: func.contexts,
            cost: func.cost,
            args: func.args,
            proto: func.proto,
        };
        let mut helpers = Vec::new();
        for func in funcs {
            if let Some(number) = func.helper {
                let number = number as usize;
                helpers.resize(helpers.len().max(number + 1), None);
                helpers[number] = Some(target(func));
            }
        }
        let kfuncs = code
            .kfuncs
            .iter()
            .map(|name| {
                funcs
                    .iter()
                    .find(|f| f.helper.is_none() && f.name == name.as_str())
                    .map(target)
            })
            .collect();
        insn::verify(&code)?;
        let calls = |i: &Insn| i.op == crate::image::CALL && i.src == CALL_FUNCTION;
        let nests = code
            .functions
            .iter()
            .map(|f| code.insns[f.start..f.end].iter().any(calls))
            .collect();
        let stack = region
            .pages(FRAMES * FRAME + SLACK)
            .ok_or_else(|| region.memory().message())?;
        region.lines().make_private(stack, FRAMES * FRAME + SLACK);
        let (arena, arena_user) = maps.iter().find_map(Map::arena_bases).unwrap_or((0, 0));
        let mut handles = Vec::with_capacity(maps.len());
        for (index, map) in maps.iter().enumerate() {
            let text = |fault: Fault| format!("map {}: {fault}", map.name());
            handles.push((map.addr(), index as u32));
            if matches!(map.def().kind, kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS) {
                for &(key, inner) in &map.def().values {
                    let inner = maps
                        .get(inner)
                        .ok_or_else(|| format!("map {}: no inner map {inner}", map.name()))?;
                    // A slot holds the inner map's address, whatever the declared value size.
                    let value = inner.addr().to_le_bytes();
                    map.update(&region, &key.to_le_bytes(), &value, 0, 0).map_err(text)?;
                }
            }
        }
        handles.sort_unstable();
        let mut cx = Box::new(Context {
            left: BUDGET as i64,
            cost: 0,
            fp: stack + FRAMES * FRAME,
            stack_limit: stack + FRAME,
            pc: 0,
            contexts: 0,
            own_cache: region.lines().cache(0).own,
            cpu: 0,
            world: std::ptr::null_mut(),
            rsp: 0,
            fault: None,
            hardware: Hardware::default(),
            interpreting: false,
            depth: 0,
            native_stack: native::needed(native::INTERPRETER_FRAME),
            native_limit: u64::MAX,
            limit: BUDGET as i64,
            until: BUDGET as i64,
            function: 0,
            nests,
            base: region.base(),
            delta: region.delta(),
            zeros: region.zeros(),
            arena,
            arena_user,
            entries: vec![interp::run as Entry; code.functions.len()],
            code,
            helpers,
            kfuncs,
            maps,
            handles,
            types,
            state: RefCell::default(),
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            compiled: None,
            interpreted: None,
            stack,
            region,
            guard: None,
            arg_prov: [0; 6],
        });
        if let Some(rules) = rules {
            cx.guard = Some(Box::new(Guard::new(&cx, rules)?));
            cx.entries.fill(interp::run_checked as Entry);
        }

        match engine {
            Engine::Interpreter => {}
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Engine::Jit => match crate::jit::compile(&cx) {
                Ok(compiled) => {
                    cx.entries.clone_from(&compiled.entries);
                    cx.native_stack = native::needed(compiled.frame);
                    cx.compiled = Some(compiled);
                }
                Err(crate::jit::Error::TooLarge(why)) => cx.interpreted = Some(why),
                Err(crate::jit::Error::Failed(message)) => return Err(message),
            },
            #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
            Engine::Jit => {
                return Err("there is a JIT on x86-64 Linux only; use the interpreter".into());
            }
        }
        let Context { guard, entries, .. } = &mut *cx;
        if let Some(guard) = guard {
            guard.take_entries(entries);
        }
        Ok(Vm {
            cx: NonNull::from(Box::leak(cx)),
            world: PhantomData,
        })
    }

    fn cx(&self) -> &Context {
        // SAFETY: lives as long as the VM; fields that running code changes are read once, here and now.
        unsafe { self.cx.as_ref() }
    }

    /// Calls function number `function` of the world's program with r1 to r5; returns r0.
    #[inline]
    pub fn call(world: &mut W, function: usize, args: [u64; 5]) -> Result<u64, Fault> {
        assert!(
            !world.vm().code().functions[function].is_callback,
            "a callback takes an array of arguments"
        );
        let cx = world.vm().cx.as_ptr();
        // SAFETY: the VM is the world's and alive; it must not be dropped by code it calls (Drop checks that).
        unsafe { set_cpu(cx, world.cpu()) };
        unsafe { call(cx, (&raw mut *world).cast(), function, &args).ok_or_else(|| take_fault(cx)) }
    }

    /// Calls a struct_ops or tracing program: r1 points to an array of the arguments.
    #[inline]
    pub fn call_args<const N: usize>(world: &mut W, function: usize, args: &[u64; N]) -> Result<u64, Fault> {
        let contexts = world.vm().contexts();
        Vm::call_args_in(world, contexts, function, args).ok_or_else(|| Vm::take_fault(world))
    }

    /// As [`Vm::call_args`], in a context of its own: see [`Vm::set_contexts`]. `None`: it faulted, see [`Vm::take_fault`].
    #[inline(always)]
    pub fn call_args_in<const N: usize>(world: &mut W, contexts: u32, function: usize, args: &[u64; N]) -> Option<u64> {
        let cx = world.vm().cx.as_ptr();
        // SAFETY: the VM is alive, and still is after the call (Drop checks that).
        unsafe {
            set_cpu(cx, world.cpu());
            let fp = (*cx).fp;
            let array = fp - N as u64 * 8;
            if array < (*cx).stack_limit {
                (*cx).fault = Some(Fault::new(FaultKind::Stack, "BPF stack overflow"));
                return None;
            }
            // One by one, which volatile makes sure of: a wider load of what was just stored in parts would have to wait.
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

    /// Why the call that has just returned `None` did.
    #[cold]
    pub fn take_fault(world: &mut W) -> Fault {
        // SAFETY: the VM is alive.
        unsafe { take_fault(world.vm().cx.as_ptr()) }
    }

    /// Calls a function by its address as BPF code knows it: callbacks of timers, trees, loops.
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

    /// Puts bytes on the BPF stack for the time of `f`, which gets the world and their address.
    pub fn with_stack<R>(
        world: &mut W,
        bytes: &[u8],
        f: impl FnOnce(&mut W, u64) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let cx = world.vm().cx.as_ptr();
        unsafe {
            let fp = (*cx).fp;
            let addr = (fp - bytes.len() as u64) & !15;
            if addr < (*cx).stack_limit {
                return Err(Fault::new(FaultKind::Stack, "BPF stack overflow"));
            }
            let region = world.region();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), region.host::<u8>(addr), bytes.len());
            // Nothing that a program has left is beside it.
            let end = addr + bytes.len() as u64;
            std::ptr::write_bytes(region.host::<u8>(end), 0, (fp - end) as usize);
            (*cx).fp = addr;
            let result = f(world, addr);
            (*cx).fp = fp;
            result
        }
    }

    /// Sum of [`Func::cost`] of all calls made so far, and of the cache lines that had to come from elsewhere.
    #[inline]
    pub fn cost(&self) -> u64 {
        self.cx().cost
    }

    /// A function that `cpu` called loads from the cache line of an address: adds what that costs to [`Vm::cost`].
    #[inline]
    pub(crate) fn load_line(&self, cpu: u32, addr: u64) {
        let ns = self.cx().region.lines().load(cpu, addr);
        // SAFETY: as in `set_contexts`.
        unsafe { (*self.cx.as_ptr()).cost += ns };
    }

    /// The same for a store.
    #[inline]
    pub(crate) fn store_line(&self, cpu: u32, addr: u64) {
        let ns = self.cx().region.lines().store(cpu, addr);
        // SAFETY: as in `set_contexts`.
        unsafe { (*self.cx.as_ptr()).cost += ns };
    }

    /// What checked mode has looked at so far; `None` where it is off.
    pub fn what_was_checked(&self) -> Option<Checked> {
        self.cx().guard.as_ref().map(|guard| guard.checked)
    }

    /// Why the interpreter runs a program that was to be compiled; `None` if what was asked for runs it.
    pub fn why_interpreted(&self) -> Option<&str> {
        self.cx().interpreted.as_deref()
    }

    /// Sets what the code may call from now on (bits of [`Func::contexts`]); returns what was set before.
    #[inline]
    pub fn set_contexts(&self, contexts: u32) -> u32 {
        unsafe { std::mem::replace(&mut (*self.cx.as_ptr()).contexts, contexts) }
    }

    /// What the code may call now.
    #[inline]
    pub fn contexts(&self) -> u32 {
        self.cx().contexts
    }

    /// The instruction that makes the current call, for messages.
    pub fn pc(&self) -> usize {
        self.cx().pc as usize
    }

    /// Says where the code is, until its next call.
    pub fn set_pc(&self, pc: usize) {
        unsafe { (*self.cx.as_ptr()).pc = pc as u32 }
    }

    /// The linked code.
    pub fn code(&self) -> &Code {
        &self.cx().code
    }

    /// The maps, in the order of the object.
    pub fn maps(&self) -> &[Map] {
        &self.cx().maps
    }

    /// The map a policy's map pointer points to.
    #[inline]
    pub fn map(&self, addr: u64) -> Result<&Map, Fault> {
        Ok(&self.maps()[self.map_index(addr)?])
    }

    #[inline]
    pub(crate) fn map_index(&self, addr: u64) -> Result<usize, Fault> {
        let cx = self.cx();
        match cx.handles.binary_search_by_key(&addr, |&(handle, _)| handle) {
            Ok(place) => Ok(cx.handles[place].1 as usize),
            Err(_) => Err(Fault::func(format!("{addr:#x} is not a map"))),
        }
    }

    /// The map with this name.
    pub fn map_by_name(&self, name: &str) -> Option<&Map> {
        self.maps().iter().find(|map| map.name() == name)
    }

    /// The types the program allocates, by local BTF id.
    pub(crate) fn types(&self) -> &LocalTypes {
        &self.cx().types
    }

    /// What helpers remember of the program.
    pub(crate) fn state(&self) -> &RefCell<State> {
        &self.cx().state
    }

    /// An object of the kernel goes away: forgets what local-storage maps hold for it.
    pub fn free_owner(world: &mut W, owner: u64) {
        for index in 0..world.vm().maps().len() {
            if matches!(
                world.vm().maps()[index].def().kind,
                kind::TASK_STORAGE | kind::CGRP_STORAGE
            ) {
                // The only error is that there is nothing to drop.
                let _ = Vm::drop_storage(world, index, owner);
            }
        }
    }

    /// Drops what map number `index` holds for an object. 0 or a negative error.
    pub(crate) fn drop_storage(world: &mut W, index: usize, owner: u64) -> Result<i64, Fault> {
        let value = world.vm().maps()[index].storage_get(world.region(), owner, None, false)?;
        if value != 0 && !world.vm().maps()[index].def().fields.is_empty() {
            let fields = world.vm().maps()[index].def().fields.clone();
            helper::drop_fields(world, &fields, value);
        }
        world.vm().maps()[index].storage_delete(world.region(), owner)
    }
}

impl<W> Drop for Vm<W> {
    fn drop(&mut self) {
        enter::forget(self.cx.as_ptr());
        // SAFETY: made by Box::leak in `new`.
        let cx = unsafe { Box::from_raw(self.cx.as_ptr()) };
        assert!(cx.depth == 0, "a program must not be unloaded by code it runs");
        cx.region.release_pages(cx.stack, FRAMES * FRAME + SLACK);
        let (state, memory) = (cx.state.borrow(), cx.region.memory());
        memory.give_back_records(Use::Records, state.records());
        memory.give_back_records(Use::Timers, state.timers.len());
        for map in &cx.maps {
            map.release(&cx.region);
        }
    }
}

impl Context {
    pub(crate) fn lines(&self) -> &Lines {
        self.region.lines()
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    pub(crate) fn types(&self) -> &LocalTypes {
        &self.types
    }

    /// The BPF stack: first byte and end.
    pub(crate) fn stack_range(&self) -> (u64, u64) {
        (self.stack, self.stack + FRAMES * FRAME)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.depth > 0
    }

    /// Was this access made by this program's code, and at an address of its region?
    pub(crate) fn owns(&self, ip: u64, addr: u64) -> bool {
        if !enter::in_reach(self.base.wrapping_add(self.region.delta()), addr) {
            return false;
        }
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if self
            .compiled
            .as_ref()
            .is_some_and(|compiled| compiled.range.contains(&ip))
        {
            return true;
        }
        let _ = ip;
        self.interpreting
    }

    /// What a call instruction calls; `None` when nobody provides it.
    pub(crate) fn target(&self, insn: &Insn) -> Option<Target> {
        let table = if insn.src == CALL_KFUNC {
            &self.kfuncs
        } else {
            &self.helpers
        };
        *table.get(insn.imm as usize)?
    }
}

/// A load from a line (of the address in the first argument) that this CPU's cache may not have.
pub(crate) unsafe extern "C" fn load_line(cx: *mut Context, addr: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    unsafe { (*cx).cost += (*cx).region.lines().load((*cx).cpu, addr) };
    0
}

/// A store to a line that this CPU's cache may not have for itself.
pub(crate) unsafe extern "C" fn store_line(cx: *mut Context, addr: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    unsafe { (*cx).cost += (*cx).region.lines().store((*cx).cpu, addr) };
    0
}
