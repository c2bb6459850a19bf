// SPDX-License-Identifier: GPL-2.0-only
//! The linked form of an object: decoded instructions, functions and map definitions. The linker
//! writes it. The engines read it.
//!
//! An [`Image`](crate::link::Image) is valid only in the [`Region`](crate::memory::Region) for
//! which it was linked, because instructions contain addresses in that region as constants. (A
//! region is the memory that the programs of one simulated machine access.)

use std::collections::BTreeMap;
use std::sync::Arc;

/// Base of the addresses that functions have in BPF code, for example as callbacks. A function's
/// address is this base plus its index in [`Code::functions`]. No region contains these addresses.
pub const FUNC_BASE: u64 = 0xffff_ffff_c000_0000;

/// Opcode of a pseudo instruction that raises a fault with a message. The linker inserts it for a
/// reference that it cannot resolve. `imm` is the index of the message in [`Code::traps`]. The eBPF
/// instruction set does not use this opcode.
///
/// `src` is [`CALL_KFUNC`] if the trap replaces a call of a weak kfunc that the target kernel declares
/// differently. The kernel's verifier refuses a program that can reach such a call. Otherwise `src`
/// is 0.
pub const TRAP: u8 = 0xf5;

/// Opcode that loads a 64-bit constant. In linked code it is one instruction, in an object file it
/// takes two slots.
pub const LD_IMM64: u8 = 0x18;
/// Opcode of a call. [`Insn::src`] is the kind of the called function.
pub const CALL: u8 = 0x85;
/// Value of [`Insn::src`] for a call of a helper. `imm` is the number of the helper.
pub const CALL_HELPER: u8 = 0;
/// Value of [`Insn::src`] for a call of the program's own function. `imm` is an index into
/// [`Code::functions`].
pub const CALL_FUNCTION: u8 = 1;
/// Value of [`Insn::src`] for a call of a kfunc. `imm` is an index into [`Code::kfuncs`].
pub const CALL_KFUNC: u8 = 2;

/// One decoded instruction after linking.
///
/// - LD_IMM64 is one instruction with the final 64-bit value in `imm`, and `src` is 0.
/// - Jumps (JMP, JMP32, may_goto) go to instruction `pc + 1 + off`, which always lies in the same
///   function. The linker has replaced `gotol` by `goto`.
/// - Calls use `src` and `imm`; see [`CALL_HELPER`], [`CALL_FUNCTION`], [`CALL_KFUNC`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// eBPF opcode, or [`TRAP`].
    pub op: u8,
    /// Destination register, 0 to 10.
    pub dst: u8,
    /// Source register, 0 to 10, or the kind of the called function.
    pub src: u8,
    /// Its meaning depends on `op`: the offset of a memory access, the distance of a jump in
    /// instructions, or the variant of an operation (signed division, sign extension, address space
    /// cast).
    pub off: i32,
    /// Immediate, sign extended.
    pub imm: i64,
}

/// A function of the object: a program, a global function or a static function.
#[derive(Clone, Debug)]
pub struct Function {
    /// C name.
    pub name: String,
    /// First instruction.
    pub start: usize,
    /// Instruction after the last one.
    pub end: usize,
    /// Size of the function's stack frame in bytes: the depth of the lowest access through r10, as
    /// a multiple of 8. At most 512.
    pub stack: u32,
    /// Number of parameters, if the object's BTF contains it.
    pub params: Option<usize>,
    /// Whether the function is not `static`.
    pub is_global: bool,
    /// Whether the kernel calls this function as a struct_ops program and no code of the object
    /// refers to it. r1 of the function is then always the address of an array of arguments on the
    /// BPF stack.
    pub is_callback: bool,
    /// Source lines, ordered by instruction. Empty if the object has no .BTF.ext.
    pub lines: Vec<LineInfo>,
}

/// A source line. It belongs to an instruction and to all later ones up to the next entry.
#[derive(Clone, Debug)]
pub struct LineInfo {
    /// Index of the instruction in [`Code::insns`].
    pub insn: usize,
    /// File name as the compiler wrote it.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// The source text of the line, trimmed.
    pub text: Arc<str>,
}

/// All code of an object.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// Instructions of all functions, one after the other.
    pub insns: Vec<Insn>,
    /// Functions, ordered by their start. Together they cover `insns` without gaps.
    pub functions: Vec<Function>,
    /// Names of the kfuncs that the code calls, spelled as in the target kernel.
    pub kfuncs: Vec<String>,
    /// Messages of [`TRAP`] instructions. Each names a missing kernel field or kfunc.
    pub traps: Vec<String>,
}

impl Code {
    /// Sets `is_callback` for each of these struct_ops programs, unless an instruction refers to
    /// the program.
    pub(crate) fn mark_callbacks(&mut self, callbacks: impl Iterator<Item = usize>) {
        for callback in callbacks {
            self.functions[callback].is_callback = true;
        }
        for i in &self.insns {
            let used = match i.op {
                CALL if i.src == CALL_FUNCTION => Some(i.imm.cast_unsigned()),
                LD_IMM64 => i.imm.cast_unsigned().checked_sub(FUNC_BASE),
                _ => None,
            };
            if let Some(function) = used.and_then(|function| self.functions.get_mut(input::to_usize(function))) {
                function.is_callback = false;
            }
        }
    }

    /// Returns the function that contains this instruction.
    pub fn function_at(&self, pc: usize) -> Option<&Function> {
        let after = self.functions.partition_point(|f| f.start <= pc);
        self.functions[..after].last().filter(|f| pc < f.end)
    }

    /// Returns the source line to which an instruction belongs.
    pub fn line_at(&self, pc: usize) -> Option<&LineInfo> {
        let lines = &self.function_at(pc)?.lines;
        lines[..lines.partition_point(|l| l.insn <= pc)].last()
    }

    /// Returns "function (file:line: source text)" for an instruction, or only "function+index" if
    /// the object has no source lines.
    ///
    /// If both branches of an `if` contain the same call, the compiler emits one call for both and
    /// gives it the line of the function's declaration. The result is then "function (near ...)",
    /// with the last line before the call.
    pub fn describe(&self, pc: usize) -> String {
        let Some(function) = self.function_at(pc) else {
            return format!("instruction {pc}");
        };
        let before = &function.lines[..function.lines.partition_point(|line| line.insn <= pc)];
        let (Some(line), Some(declared)) = (before.last(), before.first()) else {
            return format!("{}+{}", function.name, pc - function.start);
        };
        let in_body = |other: &&LineInfo| (&other.file, other.line) != (&declared.file, declared.line);
        let nearest = before.iter().rev().find(in_body).filter(|_| !in_body(&line));
        let (near, line) = nearest.map_or(("", line), |nearest| ("near ", nearest));
        format!("{} ({near}{}:{}: {})", function.name, line.file, line.line, line.text)
    }

    /// Describes an instruction like [`Code::describe`], but leaves out the directory of the file.
    /// If the instruction belongs to an inlined function, the description has the line in the
    /// surrounding function that contains the inlined call.
    pub fn describe_caller(&self, pc: usize) -> String {
        let Some(function) = self.function_at(pc) else {
            return self.describe(pc);
        };
        let before = &function.lines[..function.lines.partition_point(|line| line.insn <= pc)];
        let own = function.lines.first().map(|line| &line.file);
        let Some(line) = before.iter().rev().find(|line| Some(&line.file) == own) else {
            return self.describe(pc);
        };
        let file = line.file.rsplit('/').next().unwrap_or(&line.file);
        format!("{} ({file}:{}: {})", function.name, line.line, line.text)
    }

    pub fn function(&self, name: &str) -> Option<usize> {
        self.functions.iter().position(|f| f.name == name)
    }
}

/// Definition from which the loader creates a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapDef {
    /// C name of the map variable.
    pub name: String,
    /// Number of the map type, BPF_MAP_TYPE_* in include/uapi/linux/bpf.h.
    pub kind: u32,
    /// Size of a key in bytes, 0 for maps without keys.
    pub key_size: u32,
    /// Size of a value in bytes.
    pub value_size: u32,
    /// Id of the type of a value in the object's BTF, if the object declares a type.
    pub value_type: Option<u32>,
    /// Number of entries, or of pages in an arena. 0 if the policy's user-space part must set it.
    pub max_entries: u32,
    /// Flags of the map (BPF_F_*).
    pub flags: u32,
    /// `map_extra` of the map. For an arena, it is the address that user space requests.
    pub extra: u64,
    /// Special fields of a value: timers, locks, kptrs, ...
    pub fields: Vec<Field>,
    /// Definition of the inner maps, if this is a map of maps.
    pub inner: Option<Box<MapDef>>,
    /// Initial entries: (index, index of the inner map) in a map of maps, and (index, function) in
    /// a program array.
    pub values: Vec<(u32, usize)>,
    /// Address that stands for the map in code (`&map`). The 64 bytes at this address are
    /// accessible, so that a stray access to them does no harm. Their contents have no meaning.
    pub handle: u64,
    /// Address of an arena, aligned to 4 GiB.
    pub arena: Option<u64>,
    /// Size in bytes of the global variables at the end of an arena. They occupy whole pages. These
    /// pages are allocated from the start.
    pub arena_globals: u64,
}

/// A field that the kernel treats specially, in a map value or an allocated object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset from the start of the value in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    pub kind: FieldKind,
}

/// Kinds of special fields, which the kernel identifies by their type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// `struct bpf_spin_lock`.
    SpinLock,
    /// `struct bpf_res_spin_lock`.
    ResSpinLock,
    /// `struct bpf_timer`.
    Timer,
    /// `struct bpf_wq`.
    Workqueue,
    /// `struct bpf_task_work`.
    TaskWork,
    /// `struct bpf_refcount`.
    Refcount,
    /// `struct bpf_list_node`.
    ListNode,
    /// `struct bpf_rb_node`.
    RbNode,
    /// `struct bpf_list_head`, the head of a list of these objects.
    ListHead(Contains),
    /// `struct bpf_rb_root`, the root of a tree of these objects.
    RbRoot(Contains),
    /// A pointer to a kernel object of the named type, or to an object that BPF code allocates.
    Kptr {
        /// Name of the target type, as the object spells it.
        to: String,
        /// Id of the target type in the object's BTF. If BPF code allocates objects of the type,
        /// this id is a key of `Image::types`.
        id: u32,
        /// Whether the pointer owns a reference (`__kptr` or `__percpu_kptr`, not
        /// `__kptr_untrusted`).
        owned: bool,
        /// Whether the pointer points to per-CPU objects, which `bpf_percpu_obj_new` creates
        /// (`__percpu_kptr`).
        percpu: bool,
    },
    /// A pointer to user memory (`__uptr`).
    Uptr,
}

/// The elements of a list or tree, as declared by its `__contains(type, node)` tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contains {
    /// Id of the elements' type in the object's BTF.
    pub id: u32,
    /// Offset in bytes of the list or tree node in an element.
    pub node: u32,
}

/// A struct type of which BPF code allocates objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalType {
    /// Name of the struct.
    pub name: String,
    /// Size in bytes.
    pub size: u32,
    /// Special fields by ascending offset.
    pub fields: Vec<Field>,
}

/// Types of which BPF code allocates objects, by their ids in the object's BTF.
pub type LocalTypes = BTreeMap<u32, LocalType>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_the_code_can_call_is_no_callback() {
        let function = |start| Function {
            name: format!("f{start}"),
            start,
            end: start + 1,
            stack: 0,
            params: None,
            is_global: true,
            is_callback: false,
            lines: Vec::new(),
        };
        let insn = |op, src, imm| Insn {
            op,
            dst: 0,
            src,
            off: 0,
            imm,
        };
        let mut code = Code {
            insns: vec![
                insn(CALL, CALL_FUNCTION, 1),
                insn(LD_IMM64, 0, (FUNC_BASE + 2) as i64),
                insn(LD_IMM64, 0, 3),
                insn(CALL, CALL_HELPER, 4),
                insn(CALL, CALL_HELPER, 5),
            ],
            functions: (0..5).map(function).collect(),
            ..Code::default()
        };
        code.mark_callbacks([0, 1, 2, 3].into_iter());
        let callbacks: Vec<bool> = code.functions.iter().map(|function| function.is_callback).collect();
        assert_eq!(callbacks, [true, false, false, true, false]);
    }
}
