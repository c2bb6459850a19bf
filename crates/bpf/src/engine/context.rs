// SPDX-License-Identifier: GPL-2.0-only
//! The state of a loaded program: plain data that compiled code, the interpreter, helpers and the sanitizer work on.

use std::cell::RefCell;
use std::rc::Rc;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::jit::compiled::Compiled;
use crate::cache::Lines;
use crate::fault::{Fault, FaultKind};
use crate::helper::state::State;
use crate::image::{CALL_KFUNC, Code, Insn, LocalTypes};
use crate::insn::{FRAME, FRAMES};
use crate::map::Map;
use crate::memory::Region;
use crate::memory::layout::in_reach;
use crate::sanitizer::callee::CallRules;
use crate::sanitizer::signature::Declared;
use crate::sanitizer::state::Sanitizer;

/// Callable from every context.
pub const ANY: u32 = u32::MAX;

/// The machine code entry of a function: context, then r1 to r5.
pub type Entry = unsafe extern "C" fn(*mut Context, u64, u64, u64, u64, u64) -> u64;

/// The place of a hardware fault.
#[derive(Clone, Copy, Default)]
pub(crate) struct Hardware {
    /// Address of the bad access.
    pub addr: u64,
    /// Machine instruction; 0 in the interpreter, whose `Context::pc` is right.
    pub ip: u64,
}

/// The function that a call instruction calls.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub entry: Entry,
    pub contexts: u32,
    pub cost: u32,
    /// Arguments it looks at.
    pub args: u8,
    pub name: &'static str,
    /// For the sanitizer: what becomes of its arguments, and what its callers are held to.
    pub signature: Declared,
    pub rules: CallRules,
}

/// The state compiled code works on. Its first fields are addressed by compiled code.
#[repr(C)]
pub struct Context {
    /// Instructions left of the budget.
    pub(crate) left: i64,
    /// Sum of [`Func::cost`](super::Func::cost) of the calls made, and of cache lines.
    pub(crate) cost: u64,
    /// Frame pointer (r10) of the next frame to be made.
    pub(crate) fp: u64,
    /// No frame may have a frame pointer below this.
    pub(crate) stack_limit: u64,
    /// Instruction that makes the current call.
    pub(crate) pc: u32,
    /// Bits of the current context; see [`Func::contexts`](super::Func::contexts).
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
    pub(super) limit: i64,
    /// Instructions executed in all once the running outermost call has used up its budget.
    pub(super) until: i64,
    /// The function that the interpreter is about to run.
    pub(crate) function: usize,
    /// By function: does it call other functions of the program?
    pub(crate) nests: Vec<bool>,
    pub(crate) base: u64,
    /// [`Region::delta`]
    pub(crate) delta: u64,
    pub(crate) zeros: u64,
    /// Bases of arena pointers: in the region, and as programs see them.
    pub(crate) arena: u64,
    pub(crate) arena_user: u64,
    pub(crate) code: Code,
    pub(crate) helpers: Vec<Option<Target>>,
    pub(crate) kfuncs: Vec<Option<Target>>,
    pub(crate) maps: Vec<Map>,
    /// Addresses that stand for maps in code, ascending, each with the map's index. Not in memory: a policy could change it.
    pub(super) handles: Vec<(u64, u32)>,
    pub(super) types: LocalTypes,
    pub(super) state: RefCell<State>,
    /// By function: what the world calls.
    pub(super) entries: Vec<Entry>,
    /// By function: what the engine runs. Differs from `entries` if there is a sanitizer.
    pub(crate) engine_entries: Vec<Entry>,
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub(super) compiled: Option<Compiled>,
    /// Why the interpreter runs a program that was to be compiled.
    pub(super) interpreted: Option<String>,
    pub(super) stack: u64,
    pub(super) region: Rc<Region>,
    /// With `--check`.
    pub(crate) sanitizer: Option<Box<Sanitizer>>,
    /// Provenances of r0 to r5 across calls, for the sanitizer.
    pub(crate) arg_prov: [u64; 6],
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

    /// Returns the function that a call instruction calls; `None` if there is none.
    pub(crate) fn target(&self, insn: &Insn) -> Option<&Target> {
        let table = if insn.src == CALL_KFUNC {
            &self.kfuncs
        } else {
            &self.helpers
        };
        table.get(insn.imm as usize)?.as_ref()
    }

    /// The fault of a program that has used up its budget.
    pub(super) fn over_budget(&self) -> Fault {
        Fault::new(
            FaultKind::Budget,
            format!(
                "more than {} BPF instructions in one call, counting the work of helpers: an endless loop?",
                self.limit
            ),
        )
    }

    /// Takes `work` from the budget; the number of executed instructions stays. No more is taken than there is.
    #[inline]
    pub(super) fn charge(&mut self, work: i64) {
        let work = work.min(self.left.max(0) + 1);
        self.left -= work;
        self.until -= work;
    }
}

/// Did a call or an access end the program? Only where nothing can unwind; see [`enter`](super::enter).
#[inline(always)]
pub(crate) unsafe fn pending(cx: *mut Context) -> bool {
    !cfg!(all(target_arch = "x86_64", target_os = "linux")) && unsafe { (*cx).fault.is_some() }
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
