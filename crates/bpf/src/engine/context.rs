// SPDX-License-Identifier: GPL-2.0-only
//! The state of a loaded program: plain data that compiled code, the interpreter, helpers and the
//! sanitizer use.
//!
//! A trampoline is the machine code that calls BPF code from Rust. A call by the world is outermost
//! if no other call into the program is running.
//!
//! The current context is the kind of callback in which the program runs, as a set of bits. It
//! decides which kfuncs the program may call. (The struct [`Context`] is something else: the state
//! of the program.)

use std::cell::RefCell;
use std::rc::Rc;

use super::code_cache::Origin;
use super::counting::Counting;
use super::gap::Gaps;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::jit::compiled::Compiled;
use super::overlap::Hooks;
use crate::cache::Lines;
use crate::fault::{Fault, FaultKind};
use crate::helper::state::State;
use crate::image::{CALL_KFUNC, Code, Insn, LocalTypes};
use crate::insn::{FRAME, FRAMES};
use crate::map::{Handles, Map};
use crate::memory::Region;
use crate::memory::layout::in_reach;
use crate::sanitizer::callee::CallRules;
use crate::sanitizer::signature::Declared;
use crate::sanitizer::state::Sanitizer;

/// Value of `Func::contexts` for a function that every context may call.
pub const ANY: u32 = u32::MAX;

/// Entry point of a function in machine code. Its arguments are the context and r1 to r5.
///
/// # Safety
/// The context belongs to a live program, and this program is running: the function is called by
/// the program's code or by [`enter`](super::enter). No reference to the context is in use. Other
/// unsafe functions of this crate whose first argument is a context have the same condition.
pub type Entry = unsafe extern "C" fn(*mut Context, u64, u64, u64, u64, u64) -> u64;

/// Location of a bad memory access that raised SIGSEGV or SIGBUS.
#[derive(Clone, Copy, Default)]
pub(crate) struct Hardware {
    /// Address of the bad access.
    pub addr: u64,
    /// Address of the machine instruction that made the access. 0 in the interpreter, where
    /// `Context::pc` is the BPF instruction that made the access.
    pub ip: u64,
}

/// The function that a call instruction calls.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub entry: Entry,
    pub contexts: u32,
    pub cost: u32,
    /// Number of arguments that the function uses.
    pub args: u8,
    pub name: &'static str,
    /// Types of the arguments and the result, for the sanitizer.
    pub signature: Declared,
    pub rules: CallRules,
}

/// State of a loaded program. Compiled code reads and writes the first fields directly.
#[repr(C)]
pub struct Context {
    /// Number of instructions that the outermost call may still execute (the rest of its budget).
    pub(crate) left: i64,
    /// Total cost in ns of all calls of helpers and kfuncs ([`Func::cost`](super::Func::cost)) and
    /// of all cache lines fetched, since the program was loaded.
    pub(crate) cost: u64,
    /// Frame pointer (r10) that the next called function will have.
    pub(crate) fp: u64,
    /// Lowest frame pointer that a frame may have.
    pub(crate) stack_limit: u64,
    /// Index of the instruction that makes the current call.
    pub(crate) pc: u32,
    /// Bits of the current context. The program may call a function if one of these bits is also
    /// set in [`Func::contexts`](super::Func::contexts).
    pub(crate) contexts: u32,

    /// The bit that stands for this CPU's cache in the word of each cache line in [`Lines`].
    pub(crate) own_cache: u64,
    /// Simulated CPU on which the program runs.
    pub(crate) cpu: u32,
    /// The world that made the innermost call, as a `*mut W`.
    pub(crate) world: *mut (),
    /// Stack pointer of the host that the innermost trampoline has recorded. A fault restores it.
    pub(crate) rsp: u64,
    /// The fault that has ended the innermost call. `None` if no fault has been raised, or if
    /// `hardware` describes it.
    pub(crate) fault: Option<Fault>,
    pub(crate) hardware: Hardware,
    /// Whether the interpreter itself runs, and not a helper that it has called. A bad access is
    /// the program's access only in the first case.
    pub(crate) interpreting: bool,
    /// Number of calls by the world that are in progress, the outermost one included.
    pub(crate) depth: u32,
    /// Number of bytes of host stack that must be free before a call begins.
    pub(crate) native_stack: u64,
    /// Lowest host stack pointer of the current thread at which a call may begin.
    pub(crate) native_limit: u64,
    /// Budget of an outermost call.
    pub(super) limit: i64,
    /// Value of [`Vm::executed`](super::Vm::executed) at which the running outermost call has used
    /// up its budget.
    pub(super) until: i64,
    /// Function that the interpreter is about to run.
    pub(crate) function: usize,
    /// For each function, whether it calls other functions of the program.
    pub(crate) nests: Vec<bool>,
    /// Start address of the region.
    pub(crate) base: u64,
    /// Number that is added to an address in the region to get the address at which the host has
    /// mapped the same memory.
    pub(crate) delta: u64,
    /// Address in the middle of an area of zeros. Loads through NULL read this area.
    pub(crate) zeros: u64,
    /// Address of the arena in the region, 0 without an arena.
    pub(crate) arena: u64,
    /// Address of the arena as programs see it.
    pub(crate) arena_user: u64,
    /// Accesses to pages of the arena that were not allocated.
    pub(super) gaps: Gaps,
    pub(crate) code: Code,
    pub(crate) helpers: Vec<Option<Target>>,
    pub(crate) kfuncs: Vec<Option<Target>>,
    pub(crate) maps: Vec<Map>,
    /// The addresses that stand for maps in BPF code. The table is not in the memory of programs,
    /// so a policy cannot change it.
    pub(super) handles: Handles,
    pub(super) types: LocalTypes,
    pub(super) state: RefCell<State>,
    /// For each function, the entry point that calls from the simulated machine use.
    pub(super) entries: Vec<Entry>,
    /// For each function, its entry point in the engine (JIT or interpreter). It differs from
    /// `entries` if the sanitizer is on.
    pub(crate) engine_entries: Vec<Entry>,
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub(super) compiled: Option<Compiled>,
    /// Where the machine code comes from, or `None` if the interpreter runs the program.
    pub(super) code_origin: Option<Origin>,
    /// Why the interpreter runs a program that the JIT should have compiled.
    pub(super) interpreted: Option<String>,
    /// Address of the BPF stack.
    pub(super) stack: u64,
    pub(super) region: Rc<Region>,
    /// BPF stacks of calls that overlap, in addition to the one of the VM.
    pub(super) more_stacks: Vec<u64>,
    /// Functions that the interpreter calls at shared accesses, or `None` if calls do not overlap.
    pub(super) hooks: Option<Hooks>,
    /// For each instruction, the directions that its jump has taken. Empty if calls do not overlap.
    pub(super) branches: Vec<u8>,
    /// For r0 to r5, the address from which the value was loaded, or 0. A call passes them to the
    /// called function like `arg_prov`. Used by programs that overlap only.
    pub(super) arg_tags: [u64; 6],
    /// The counts of executed instructions, or `None` if they are not counted.
    pub(super) counting: Option<Box<Counting>>,
    /// Call path of the function that executes, if instructions are counted.
    pub(super) count_path: u32,
    /// State of the sanitizer, or `None` without `--sanitize`.
    pub(crate) sanitizer: Option<Box<Sanitizer>>,
    /// Provenances of r0 to r5 (the object to which each register points), which a call passes to
    /// the called function and a return passes back. Used by the sanitizer only.
    pub(crate) arg_prov: [u64; 6],
    /// A number that no other context in this process has, or ever had.
    pub(super) id: u64,
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

    /// Returns the start and end address of the BPF stack.
    pub(crate) fn stack_range(&self) -> (u64, u64) {
        (self.stack, self.stack + FRAMES * FRAME)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.depth > 0
    }

    /// Returns whether this program made the bad access to `addr` by the machine instruction at
    /// `ip`. This is the case if two conditions hold. The instruction is a part of the program's
    /// compiled code or of the running interpreter. The address lies in the program's region or in
    /// the inaccessible margins of the region.
    pub(crate) fn owns(&self, ip: u64, addr: u64) -> bool {
        if !in_reach(self.base.wrapping_add(self.region.delta()), addr) {
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

    /// Returns the function that a call instruction calls, or `None` if the simulator does not have
    /// it.
    pub(crate) fn target(&self, insn: &Insn) -> Option<&Target> {
        let table = if insn.src == CALL_KFUNC {
            &self.kfuncs
        } else {
            &self.helpers
        };
        table.get(insn.imm as usize)?.as_ref()
    }

    /// Returns the fault of a program that has used up its budget.
    pub(super) fn over_budget(&self) -> Fault {
        Fault::new(
            FaultKind::Budget,
            format!(
                "one call executed more than {} BPF instructions, including the work of helpers: is there an endless loop?",
                self.limit
            ),
        )
    }

    /// Subtracts `work` from the remaining budget, but stops at -1. The charged work does not count
    /// as executed instructions.
    ///
    /// The function takes a pointer because its callers may have borrowed other fields.
    ///
    /// # Safety
    /// The context is alive, and no reference to the fields `left` and `until` is used.
    #[inline]
    pub(crate) unsafe fn charge(cx: *mut Context, work: i64) {
        // SAFETY: as the caller promises.
        unsafe {
            let work = work.min((*cx).left.max(0) + 1);
            (*cx).left -= work;
            (*cx).until -= work;
        }
    }
}

/// Returns whether a call or an access ended the program. Always false on x86-64 Linux, where a
/// fault unwinds the stack instead; see [`enter`](super::enter).
#[inline(always)]
pub(crate) unsafe fn pending(cx: *mut Context) -> bool {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    !cfg!(all(target_arch = "x86_64", target_os = "linux")) && unsafe { (*cx).fault.is_some() }
}

/// Charges a load from the cache line at `addr`. The load costs time if the line must first be
/// fetched into this CPU's cache.
pub(crate) unsafe extern "C" fn load_line(cx: *mut Context, addr: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`]. The engine has checked
    // that the base register of the access points into the region, so `addr` is within reach of it.
    unsafe { (*cx).cost += (*cx).region.lines().load((*cx).cpu, addr) };
    0
}

/// Charges a store to the cache line at `addr`. The store costs time if copies in other caches must
/// first be invalidated.
pub(crate) unsafe extern "C" fn store_line(cx: *mut Context, addr: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: as in `load_line`.
    unsafe { (*cx).cost += (*cx).region.lines().store((*cx).cpu, addr) };
    0
}
