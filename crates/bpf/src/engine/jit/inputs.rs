// SPDX-License-Identifier: GPL-2.0-only
//! All that the compiled code of a program depends on.
//!
//! The translation reads [`Inputs`] and nothing else of a program. Programs with equal inputs
//! therefore have equal code. A hash of the inputs is the [`Key`] under which the
//! [cache](super::cache) keeps this code.
//!
//! A provenance identifies the object that a pointer was made from. The sanitizer tracks it for
//! each value.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

use sha2::{Digest, Sha256};

use super::Isa;
use crate::engine::context::{Context, Target};
use crate::image::{CALL_KFUNC, Code, Insn, LD_IMM64};
use crate::insn;
use crate::sanitizer::flow::RegisterChecks;

/// Hash of a program's [`Inputs`], the compiler's settings and this build of the compiler.
pub(crate) type Key = [u8; 32];

/// An array map. Compiled code computes the addresses of its elements itself, without a call of
/// `bpf_map_lookup_elem`.
#[derive(Clone, Copy)]
pub(super) struct Array {
    /// Address of the first element.
    pub base: u64,
    /// Distance between elements in bytes.
    pub stride: u64,
    /// Number of elements.
    pub max: u32,
    /// Whether each CPU has its own elements.
    pub per_cpu: bool,
}

/// Results of the sanitizer's analysis of the code.
pub(super) struct Checks<'a> {
    /// For each instruction, the checks of registers that precede it.
    pub registers: &'a [RegisterChecks],
    /// For each LD_IMM64, by the index of the instruction, the provenance of its constant: an
    /// encoded identity of the object to which the constant points.
    pub constants: BTreeMap<usize, u64>,
}

/// All that the compiled code of a program depends on.
pub(super) struct Inputs<'a> {
    pub code: &'a Code,
    /// For each function, whether it calls other functions of the program.
    pub nests: &'a [bool],
    helpers: &'a [Option<Target>],
    kfuncs: &'a [Option<Target>],
    /// Start address of the region.
    pub base: u64,
    /// Address in the middle of an area of zeros. Loads through NULL read this area.
    pub zeros: u64,
    /// Whether the host has mapped the region at another address than the one that programs use.
    pub displaced: bool,
    /// Whether a cache line can move between caches, so that accesses to it can cost time.
    pub lines_move: bool,
    /// Whether a cache line can evict another line while a program runs.
    pub lines_compete: bool,
    /// Address of the arena in the region, 0 without an arena.
    pub arena: u64,
    /// Address of the arena as programs see it.
    pub arena_user: u64,
    /// Start address of the BPF stack.
    pub stack: u64,
    /// The array maps, by the address that stands for the map in BPF code.
    pub arrays: BTreeMap<u64, Array>,
    /// Indices of the store instructions that may store to a field of a kernel object.
    pub field_stores: BTreeSet<usize>,
    pub checks: Option<Checks<'a>>,
    /// Whether the code counts the instructions that it executes.
    pub counts: bool,
}

impl Inputs<'_> {
    pub fn new(cx: &Context) -> Inputs<'_> {
        let insns = || cx.code.insns.iter().enumerate();
        let is_plain_store = |i: &Insn| matches!(insn::class(i.op), insn::ST | insn::STX) && i.op & 0xe0 == insn::MEM;
        let field_stores = insns()
            .filter(|(_, i)| is_plain_store(i) && cx.region().may_be_field(i.off.into(), insn::size(i.op)))
            .map(|(pc, _)| pc);
        let arrays = cx.maps.iter().filter_map(|map| {
            let (base, stride, max, per_cpu) = map.blocks()?;
            Some((
                map.addr(),
                Array {
                    base,
                    stride,
                    max,
                    per_cpu,
                },
            ))
        });
        let checks = cx.sanitizer.as_ref().map(|sanitizer| Checks {
            registers: sanitizer.register_checks(),
            constants: insns()
                .filter(|(_, i)| i.op == LD_IMM64)
                .map(|(pc, i)| (pc, sanitizer.constant(cx.region(), i.imm.cast_unsigned())))
                .collect(),
        });
        Inputs {
            code: &cx.code,
            nests: &cx.nests,
            helpers: &cx.helpers,
            kfuncs: &cx.kfuncs,
            base: cx.base,
            zeros: cx.zeros,
            displaced: cx.delta != 0,
            lines_move: !cx.lines().never_move(),
            lines_compete: cx.lines().compete(),
            arena: cx.arena,
            arena_user: cx.arena_user,
            stack: cx.stack_range().0,
            arrays: arrays.collect(),
            field_stores: field_stores.collect(),
            checks,
            counts: cx.counting.is_some(),
        }
    }

    /// Returns the function that a call instruction calls, or `None` if the simulator does not have
    /// it.
    pub fn target(&self, insn: &Insn) -> Option<&Target> {
        let table = if insn.src == CALL_KFUNC {
            self.kfuncs
        } else {
            self.helpers
        };
        table.get(usize::try_from(insn.imm).ok()?)?.as_ref()
    }

    /// Returns the hash of the inputs, of the compiler's settings and of this build of the
    /// compiler.
    pub fn key(&self, isa: &Isa) -> Key {
        // The pattern names every field, so that a new field is not forgotten here.
        let Inputs {
            code,
            nests,
            helpers,
            kfuncs,
            base,
            zeros,
            displaced,
            lines_move,
            lines_compete,
            arena,
            arena_user,
            stack,
            arrays,
            field_stores,
            checks,
            counts,
        } = self;
        let mut key = Hash(Sha256::new());
        key.bytes(env!("BPF_BUILD").as_bytes());
        key.bytes(cranelift_codegen::VERSION.as_bytes());
        key.bytes(isa.description.as_bytes());
        key.numbers([size_of::<Context>() as u64, offset_of!(Context, arg_prov) as u64]);
        let flags = [*displaced, *lines_move, *lines_compete, checks.is_some(), *counts].map(u64::from);
        key.numbers(flags);
        key.numbers([*base, *zeros, *arena, *arena_user, *stack]);
        key.list(code.insns.iter().map(|i| {
            let Insn { op, dst, src, off, imm } = *i;
            let word =
                u64::from(op) | u64::from(dst) << 8 | u64::from(src) << 16 | u64::from(off.cast_unsigned()) << 32;
            [word, imm.cast_unsigned()]
        }));
        key.list(code.functions.iter().zip(*nests).map(|(function, &nests)| {
            let flags = u64::from(function.is_callback) | u64::from(nests) << 1;
            [function.start as u64, function.end as u64, flags]
        }));
        // Names of functions influence the result, because the compiler's messages contain them.
        for function in &code.functions {
            key.bytes(function.name.as_bytes());
        }
        for targets in [helpers, kfuncs] {
            key.list(targets.iter().map(|target| match target {
                Some(target) => [
                    1 | u64::from(target.args) << 8,
                    target.contexts.into(),
                    target.cost.into(),
                ],
                None => [0; 3],
            }));
        }
        key.list(arrays.iter().map(|(&map, array)| {
            let max = u64::from(array.max) | u64::from(array.per_cpu) << 32;
            [map, array.base, array.stride, max]
        }));
        key.list(field_stores.iter().map(|&pc| [pc as u64]));
        if let Some(Checks { registers, constants }) = checks {
            key.list(registers.iter().map(|checks| [checks.0.into()]));
            key.list(constants.iter().map(|(&pc, &prov)| [pc as u64, prov]));
        }
        key.0.finalize().into()
    }
}

/// A hash of byte strings and lists. The length of each string or list is hashed before its
/// content. Two different sequences of them therefore never become the same sequence of bytes.
struct Hash(Sha256);

impl Hash {
    fn bytes(&mut self, bytes: &[u8]) {
        self.numbers([bytes.len() as u64]);
        self.0.update(bytes);
    }

    fn numbers<const N: usize>(&mut self, numbers: [u64; N]) {
        for number in numbers {
            self.0.update(number.to_le_bytes());
        }
    }

    fn list<const N: usize>(&mut self, rows: impl ExactSizeIterator<Item = [u64; N]>) {
        self.numbers([rows.len() as u64]);
        let mut bytes = Vec::with_capacity(rows.len() * N * 8);
        for number in rows.flatten() {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.0.update(&bytes);
    }
}
