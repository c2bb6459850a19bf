// SPDX-License-Identifier: GPL-2.0-only
//! What linking an object yields and an engine runs: decoded instructions, functions, map definitions.
//!
//! An [`Image`](crate::link::Image) belongs to the [`Region`](crate::memory::Region) it was linked into: constants in its instructions are
//! addresses there.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A function's address as a value (callbacks) is this plus its index in [`Code::functions`]. No region lies there.
pub const FUNC_BASE: u64 = 0xffff_ffff_c000_0000;

/// Opcode of a pseudo instruction: `imm` is an index into [`Code::traps`], and executing it is a named error.
/// Unused in the eBPF instruction set.
pub const TRAP: u8 = 0xf5;

/// Opcode of the instruction that loads a 64-bit constant; here one instruction, not two.
pub const LD_IMM64: u8 = 0x18;
/// Opcode of a call; [`Insn::src`] says of what.
pub const CALL: u8 = 0x85;
/// [`Insn::src`] of a call: `imm` is a helper number.
pub const CALL_HELPER: u8 = 0;
/// [`Insn::src`] of a call: `imm` is an index into [`Code::functions`].
pub const CALL_FUNCTION: u8 = 1;
/// [`Insn::src`] of a call: `imm` is an index into [`Code::kfuncs`].
pub const CALL_KFUNC: u8 = 2;

/// One decoded instruction after linking.
///
/// - LD_IMM64 is one instruction with the final 64-bit value in `imm` and `src` 0.
/// - Jumps (JMP, JMP32, may_goto, and `gotol`, whose distance is moved from `imm`): the target is `pc + 1 + off` in
///   this numbering, always within the same function.
/// - Calls: see [`CALL_HELPER`], [`CALL_FUNCTION`], [`CALL_KFUNC`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// The raw eBPF opcode byte, or [`TRAP`].
    pub op: u8,
    /// Destination register, 0 to 10.
    pub dst: u8,
    /// Source register, 0 to 10, or a call's kind.
    pub src: u8,
    /// Memory offset, jump distance in instructions, or a variant of the operation (signed division, sign extension,
    /// address space cast).
    pub off: i32,
    /// Immediate, sign extended.
    pub imm: i64,
}

/// A function: a program, a global or a static subprogram.
#[derive(Clone, Debug)]
pub struct Function {
    /// C name.
    pub name: String,
    /// First instruction.
    pub start: usize,
    /// One past the last instruction.
    pub end: usize,
    /// Bytes of stack it uses: the depth of the lowest access through r10, a multiple of 8, at most 512.
    pub stack: u32,
    /// Number of parameters when BTF tells it.
    pub params: Option<usize>,
    /// Not `static`.
    pub is_global: bool,
    /// A struct_ops program that the object itself neither calls nor takes the address of: r1 always is the address of an array
    /// of arguments on the BPF stack.
    pub is_callback: bool,
    /// Source lines by ascending instruction; empty when the object has no .BTF.ext.
    pub lines: Vec<LineInfo>,
}

/// From this instruction on, the source line is this.
#[derive(Clone, Debug)]
pub struct LineInfo {
    /// Index into [`Code::insns`].
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
    /// Function after function.
    pub insns: Vec<Insn>,
    /// By ascending start; together they cover `insns` without gap.
    pub functions: Vec<Function>,
    /// Names of the kfuncs called, as in the target's table.
    pub kfuncs: Vec<String>,
    /// What a [`TRAP`] says: which type and field, which missing kfunc.
    pub traps: Vec<String>,
}

impl Code {
    /// Of these struct_ops programs, marks those that nothing in the code can call.
    pub(crate) fn mark_callbacks(&mut self, callbacks: impl Iterator<Item = usize>) {
        for callback in callbacks {
            self.functions[callback].is_callback = true;
        }
        for i in &self.insns {
            let used = match i.op {
                CALL if i.src == CALL_FUNCTION => Some(i.imm as u64),
                LD_IMM64 => (i.imm as u64).checked_sub(FUNC_BASE),
                _ => None,
            };
            if let Some(function) = used.and_then(|function| self.functions.get_mut(function as usize)) {
                function.is_callback = false;
            }
        }
    }

    /// The function this instruction belongs to.
    pub fn function_at(&self, pc: usize) -> Option<&Function> {
        let after = self.functions.partition_point(|f| f.start <= pc);
        self.functions[..after].last().filter(|f| pc < f.end)
    }

    /// The source line of an instruction.
    pub fn line_at(&self, pc: usize) -> Option<&LineInfo> {
        let lines = &self.function_at(pc)?.lines;
        lines[..lines.partition_point(|l| l.insn <= pc)].last()
    }

    /// "function (file:line: source text)" of an instruction, with what is known of it.
    pub fn describe(&self, pc: usize) -> String {
        let Some(function) = self.function_at(pc) else {
            return format!("instruction {pc}");
        };
        match self.line_at(pc) {
            Some(line) => format!("{} ({}:{}: {})", function.name, line.file, line.line, line.text),
            None => format!("{}+{}", function.name, pc - function.start),
        }
    }

    /// As [`Code::describe`], but of an inlined function's instruction the line before it in the file of the function itself,
    /// which is what called it, and of the file its name alone.
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

    /// Index of the function of this name.
    pub fn function(&self, name: &str) -> Option<usize> {
        self.functions.iter().position(|f| f.name == name)
    }
}

/// A map to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapDef {
    /// C name of the map variable.
    pub name: String,
    /// BPF_MAP_TYPE_* number of include/uapi/linux/bpf.h.
    pub kind: u32,
    /// Bytes of a key; 0 for maps without keys.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// Its type in the object's BTF, where the object tells.
    pub value_type: Option<u32>,
    /// Entries, or pages of an arena. 0 where the object leaves it to the loader.
    pub max_entries: u32,
    /// BPF_F_*.
    pub flags: u32,
    /// `map_extra`: of an arena, the user address asked for.
    pub extra: u64,
    /// Special fields of a value: timers, locks, kptrs, ...
    pub fields: Vec<Field>,
    /// Of a map of maps: what its entries look like.
    pub inner: Option<Box<MapDef>>,
    /// Of a map of maps: initial entries as (index, index of the map); of a program array: (index, function).
    pub values: Vec<(u32, usize)>,
    /// Address that stands for the map in the code (`&map`): 64 accessible bytes of nothing, so that a stray access does no harm.
    pub handle: u64,
    /// Of an arena: its 4 GiB-aligned base.
    pub arena: Option<u64>,
    /// Of an arena: bytes at its end taken by global variables, in whole pages, already committed.
    pub arena_globals: u64,
}

/// A field which the kernel treats specially, in a map value or an allocated object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the start of the value.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// What it is.
    pub kind: FieldKind,
}

/// Kinds of special fields.
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
    /// `struct bpf_list_head` of such objects.
    ListHead(Contains),
    /// `struct bpf_rb_root` of such objects.
    RbRoot(Contains),
    /// A kernel pointer to the named type.
    Kptr {
        /// Name of the type pointed to, as the object spells it.
        to: String,
        /// Local BTF id of that type: a key of `Image::types` when BPF code allocates it.
        id: u32,
        /// `__kptr` or `__percpu_kptr` (owned) as opposed to `__kptr_untrusted`.
        owned: bool,
        /// `__percpu_kptr`: to objects of `bpf_percpu_obj_new`.
        percpu: bool,
    },
    /// `__uptr`.
    Uptr,
}

/// What a list or a tree holds, from its `__contains(type, node)` tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contains {
    /// Local BTF id of the objects' type.
    pub id: u32,
    /// Offset of the node in them.
    pub node: u32,
}

/// A type which BPF code allocates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalType {
    /// Name of the struct.
    pub name: String,
    /// Bytes.
    pub size: u32,
    /// Special fields by ascending offset.
    pub fields: Vec<Field>,
}

/// Types by local BTF id.
pub type LocalTypes = BTreeMap<u32, LocalType>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_code_can_call_is_no_callback() {
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
