// SPDX-License-Identifier: GPL-2.0-only
//! Exact numbers of executed instructions, by call path.
//!
//! A call path is the chain of functions from the one that the world called to the one that
//! executes. The paths form a tree, so that a function which two callbacks call has separate counts
//! for both. A function that a helper calls (of a timer, a loop or a tree) belongs below the
//! function that called the helper.
//!
//! The interpreter is compiled once more for this, so other runs execute none of this code. The JIT
//! compiles the program once more. Its code does not count each instruction, but each segment: a
//! sequence of instructions of which only the last can jump, call, access memory or fault. The
//! count of a segment is that of its last instruction, from which [`Counting::executed`] computes
//! the counts of the others.

use crate::error::Error;
use crate::image::{Code, Insn, LD_IMM64};
use crate::insn;

use super::context::{self, Context};
use super::host_stack;
use super::interpreter;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::jit;
use super::vm::Vm;
use super::world::World;

/// Index of the root, which stands for the world.
pub(super) const ROOT: u32 = 0;
/// Maximum number of paths. When it is reached, a new path counts as a call by the world, of which
/// there is at most one for each function.
const MAX_PATHS: usize = 4096;

/// The counts of a program.
pub(crate) struct Counting {
    nodes: Vec<Node>,
    /// Whether the counts are those of segments.
    segments: bool,
}

struct Node {
    function: usize,
    parent: u32,
    /// The paths that are longer by one function.
    children: Vec<u32>,
    /// For each instruction of the function, how often it was executed.
    counts: Box<[u64]>,
}

/// The instructions that were executed on one call path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathCounts {
    /// Indexes of the functions. The world called the first one.
    pub functions: Vec<usize>,
    /// The executed instructions of the last function: index in [`Code::insns`], and how often it
    /// was executed.
    ///
    /// [`Code::insns`]: crate::image::Code::insns
    pub insns: Vec<(usize, u64)>,
}

impl Counting {
    fn new() -> Counting {
        let root = Node {
            function: usize::MAX,
            parent: ROOT,
            children: Vec::new(),
            counts: Box::default(),
        };
        Counting {
            nodes: vec![root],
            segments: false,
        }
    }

    /// Returns the executed instructions of a path, by their indices in [`Code::insns`].
    fn executed(&self, node: &Node, code: &Code) -> Vec<(usize, u64)> {
        let function = &code.functions[node.function];
        let mut counts = node.counts.to_vec();
        if self.segments {
            let ends = segment_ends(&code.insns[function.start..function.end]);
            for at in (0..counts.len().saturating_sub(1)).rev().filter(|&at| !ends[at]) {
                counts[at] += counts[at + 1];
            }
        }
        let executed = (function.start..).zip(counts);
        executed.filter(|&(_, count)| count > 0).collect()
    }

    fn child(&self, node: u32, function: usize) -> Option<u32> {
        let mut children = self.nodes[node as usize].children.iter();
        children
            .find(|&&child| self.nodes[child as usize].function == function)
            .copied()
    }

    /// Returns the path that extends `node` by a function with `len` instructions.
    fn extend(&mut self, node: u32, function: usize, len: usize) -> u32 {
        let parent = if self.nodes.len() < MAX_PATHS { node } else { ROOT };
        if let Some(known) = self.child(node, function).or_else(|| self.child(parent, function)) {
            return known;
        }
        let new = self.nodes.len() as u32;
        self.nodes.push(Node {
            function,
            parent,
            children: Vec::new(),
            counts: vec![0; len].into(),
        });
        self.nodes[parent as usize].children.push(new);
        new
    }

    fn functions(&self, mut node: u32) -> Vec<usize> {
        let mut functions = Vec::new();
        while node != ROOT {
            functions.push(self.nodes[node as usize].function);
            node = self.nodes[node as usize].parent;
        }
        functions.reverse();
        functions
    }
}

/// Returns whether an instruction always ends a segment: whether it can do anything else than
/// compute a value. An invalid one can be in the middle, because the JIT counts it in addition.
pub(super) fn ends_segment(insn: &Insn) -> bool {
    let computes = matches!(insn::class(insn.op), insn::ALU | insn::ALU64) || insn.op == LD_IMM64;
    !computes
}

/// Returns for each instruction of a function whether it is the last one of a segment. A jump to
/// the next instruction ends a segment, too.
fn segment_ends(insns: &[Insn]) -> Vec<bool> {
    let mut ends: Vec<bool> = insns.iter().map(ends_segment).collect();
    for (at, insn) in insns.iter().enumerate().filter(|(_, insn)| insn::is_jump(insn.op)) {
        let before = at as i64 + i64::from(insn.off);
        if let Some(end) = usize::try_from(before).ok().and_then(|before| ends.get_mut(before)) {
            *end = true;
        }
    }
    ends
}

/// Begins a call into the program. A call that a helper makes continues the path of its caller.
pub(super) unsafe fn begin(cx: *mut Context) {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe {
        if (*cx).depth == 1 {
            (*cx).count_path = ROOT;
        }
    }
}

/// Begins a function. Returns its path and its counts.
pub(super) unsafe fn enter(cx: *mut Context, function: usize) -> (u32, *mut u64) {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe {
        let code = &(&(*cx).code.functions)[function];
        let len = code.end - code.start;
        let counting = (*cx).counting.as_mut().expect("the program counts");
        let node = counting.extend((*cx).count_path, function, len);
        (*cx).count_path = node;
        // The counts of a path keep their place when `nodes` grows.
        (node, counting.nodes[node as usize].counts.as_mut_ptr())
    }
}

/// Continues a function after a call.
pub(super) unsafe fn resume(cx: *mut Context, node: u32) {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe { (*cx).count_path = node };
}

/// Begins a function of compiled code, and returns its counts. Has the signature of an [`Entry`].
pub(super) unsafe extern "C" fn enter_compiled(cx: *mut Context, function: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe { enter(cx, function as usize).1 as u64 }
}

/// Charges a load from the cache line at `addr`, and records a transfer with the address of the
/// access.
pub(super) unsafe extern "C" fn load_line(cx: *mut Context, addr: u64, access: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe {
        accesses(cx, Some(access));
        context::load_line(cx, addr, 0, 0, 0, 0);
        accesses(cx, None);
    }
    0
}

/// Charges a store to the cache line at `addr`, and records a transfer with the address of the
/// access.
pub(super) unsafe extern "C" fn store_line(cx: *mut Context, addr: u64, access: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe {
        accesses(cx, Some(access));
        context::store_line(cx, addr, 0, 0, 0, 0);
        accesses(cx, None);
    }
    0
}

/// Announces an access of the program, or the end of its accesses with `None`. A transfer of a cache
/// line is then recorded with the address of the access instead of that of the line.
pub(super) unsafe fn accesses(cx: *mut Context, addr: Option<u64>) {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe { (*cx).region.lines().set_access(addr) };
}

impl<W: World> Vm<W> {
    /// Counts the instructions from now on. Compiles the program once more if the JIT executes it.
    ///
    /// # Errors
    /// The program has the sanitizer, with which neither engine counts, or the compiler fails.
    pub fn count_instructions(&mut self) -> Result<(), Error> {
        let cx = self.cx.as_ptr();
        // SAFETY: the VM is alive and borrowed mutably, so no reference to its context exists.
        unsafe {
            if (*cx).sanitizer.is_some() {
                return Err("instructions cannot be counted while the sanitizer checks them".into());
            }
            assert!((*cx).depth == 0, "counting does not begin while the program runs");
            (*cx).counting = Some(Box::new(Counting::new()));
            (*cx).count_path = ROOT;
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            if (*cx).compiled.is_some() {
                match jit::compile(&*cx) {
                    Ok((compiled, entries, origin)) => {
                        (*cx).native_stack = host_stack::needed(compiled.frame());
                        (*cx).entries.clone_from(&entries);
                        (*cx).engine_entries = entries;
                        (*cx).code_origin = Some(origin);
                        (*cx).compiled = Some(compiled);
                        let counting = (*cx).counting.as_mut().expect("the program counts");
                        counting.segments = true;
                        return Ok(());
                    }
                    Err(jit::Error::TooLarge(why)) => {
                        (*cx).interpreted = Some(why);
                        (*cx).code_origin = None;
                    }
                    Err(jit::Error::Failed(message)) => return Err(message.into()),
                }
            }
            (*cx).native_stack = host_stack::needed(host_stack::INTERPRETER_FRAME);
            let entries = &mut (*cx).entries;
            entries.fill(interpreter::run_counted);
            let entries = &mut (*cx).engine_entries;
            entries.fill(interpreter::run_counted);
        }
        Ok(())
    }

    /// Returns the executed instructions of each call path, in the order in which the paths were
    /// first executed. Empty unless [`Vm::count_instructions`] was called.
    pub fn instruction_counts(&self) -> Vec<PathCounts> {
        let cx = self.cx();
        let Some(counting) = &cx.counting else {
            return Vec::new();
        };
        let paths = (0..).zip(&counting.nodes).skip(1).map(|(index, node)| PathCounts {
            functions: counting.functions(index),
            insns: counting.executed(node, &cx.code),
        });
        paths.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_chain_of_functions() {
        let mut counting = Counting::new();
        let enqueue = counting.extend(ROOT, 3, 10);
        let inner = counting.extend(enqueue, 1, 4);
        let dispatch = counting.extend(ROOT, 5, 2);
        let other = counting.extend(dispatch, 1, 4);
        assert_eq!(counting.extend(enqueue, 1, 4), inner);
        assert_ne!(inner, other, "two callers have separate counts");
        assert_eq!([inner, other].map(|node| counting.functions(node)), [[3, 1], [5, 1]]);
    }

    #[test]
    fn the_number_of_paths_is_limited() {
        let mut counting = Counting::new();
        let mut node = ROOT;
        for depth in 0..2 * MAX_PATHS {
            node = counting.extend(node, depth % 7, 1);
        }
        assert!(counting.nodes.len() <= MAX_PATHS + 7, "{}", counting.nodes.len());
    }
}
