// SPDX-License-Identifier: GPL-2.0-only
//! Links the instructions of one function: replaces calls, references and jumps by those of the
//! linked code, and estimates the stack that the function uses.

use super::{Linker, SLOT, Source};
use crate::btf::TypeKind;
use crate::error::Error;
use crate::image::{CALL, CALL_FUNCTION, CALL_HELPER, Function, Insn, LD_IMM64, LineInfo, TRAP};
use crate::insn::{self, ALU, ALU64, EXIT, GOTO, GOTOL, LDX, ST, STX, class, is_jump};
use input::to_usize;

/// Maximum number of instructions in an object. The kernel's limit is one million.
const MAX_INSNS: usize = 1 << 20;

/// Maximum stack of a function in bytes.
const MAX_STACK: u32 = 512;

impl Linker<'_> {
    /// Links the instructions of one function, and appends them to `insns`.
    pub(super) fn function(&mut self, source: usize, insns: &mut Vec<Insn>) -> Result<Function, Error> {
        let object = self.object;
        let Source {
            section,
            offset,
            size,
            symbol,
        } = self.sources[source];
        let section = &object.elf.sections[section];
        let bytes = &section.data[to_usize(offset)..to_usize(offset + size)];
        let (slots, _) = bytes.as_chunks::<8>();
        let fail = |slot: usize, message: String| Error::at(&section.name, offset + slot as u64 * SLOT, message);

        // For each slot, the index in the linked code of the instruction that it contains. `None`
        // for the second slot of a 64-bit constant.
        let mut indices = vec![None; slots.len()];
        let (mut slot, mut count) = (0, 0i32);
        while slot < slots.len() {
            indices[slot] = Some(count);
            count += 1;
            slot += if slots[slot][0] == LD_IMM64 { 2 } else { 1 };
        }
        let start = insns.len();
        if start + slots.len() > MAX_INSNS {
            return Err(fail(0, format!("more than {MAX_INSNS} instructions")));
        }
        let empty = Vec::new();
        let answers = object.ext.relocations.get(&section.name).unwrap_or(&empty);
        for (slot, index) in indices.iter().enumerate().filter(|(_, index)| index.is_some()) {
            let raw = slots[slot];
            let mut insn = Insn {
                op: raw[0],
                dst: raw[1] & 0xf,
                src: raw[1] >> 4,
                off: i32::from(i16::from_le_bytes([raw[2], raw[3]])),
                imm: i64::from(i32::from_le_bytes([raw[4], raw[5], raw[6], raw[7]])),
            };
            let here = offset + slot as u64 * SLOT;
            if insn.op == LD_IMM64 {
                let pair = slots.get(slot + 1).filter(|raw| raw[..4] == [0; 4]);
                let high =
                    pair.ok_or_else(|| fail(slot, "the second half of a 64-bit constant is missing".to_string()))?;
                let high = u32::from_le_bytes([high[4], high[5], high[6], high[7]]);
                let low = u32::from_le_bytes([raw[4], raw[5], raw[6], raw[7]]);
                insn.imm = (u64::from(low) | u64::from(high) << 32).cast_signed();
            }
            let relocation = section.relocation_at(here);
            if let Some(relocation) = relocation {
                insn = self.relocate(insn, relocation, slot, source)?;
            } else if insn.op == CALL && insn.src == CALL_FUNCTION {
                let target = (here / SLOT).cast_signed() + 1 + insn.imm;
                insn = self
                    .call(
                        self.sources[source].section,
                        (target * SLOT.cast_signed()).cast_unsigned(),
                        insn,
                    )
                    .ok_or_else(|| {
                        fail(
                            slot,
                            format!("call of instruction {target}, which is not the start of a function"),
                        )
                    })?;
            } else if insn.op == LD_IMM64 && insn.src != 0 {
                return Err(fail(
                    slot,
                    format!("64-bit constant of kind {} without a relocation", insn.src),
                ));
            } else if insn.op == CALL && insn.src != CALL_HELPER {
                return Err(fail(slot, format!("call of kind {} without a relocation", insn.src)));
            }
            if let Ok(found) = answers.binary_search_by_key(&here, |answer| answer.0) {
                insn = self
                    .core(insn, &answers[found].1)
                    .map_err(|error| Error::at(&section.name, here, error))?;
            }
            if is_jump(insn.op) {
                let distance = if insn.op == GOTOL {
                    insn.imm
                } else {
                    i64::from(insn.off)
                };
                let target = usize::try_from(slot.cast_signed() as i64 + 1 + distance).ok();
                let target = target.and_then(|target| *indices.get(target)?);
                let target = target.ok_or_else(|| {
                    fail(
                        slot,
                        format!("a jump by {distance} instructions leaves function {}", symbol.name),
                    )
                })?;
                insn.off = target - index.unwrap_or(0) - 1;
                if insn.op == GOTOL {
                    (insn.op, insn.imm) = (GOTO, 0);
                }
            }
            if insn.op != TRAP && (insn.dst > 10 || insn.src > 10) {
                return Err(fail(
                    slot,
                    format!("register {} does not exist", insn.dst.max(insn.src)),
                ));
            }
            insns.push(insn);
        }
        if !matches!(
            insns.last(),
            Some(Insn {
                op: EXIT | GOTO | TRAP,
                ..
            })
        ) {
            let trap = self.trap(format!("the end of function {} was reached", symbol.name));
            insns.push(trap);
        }
        let end = insns.len();
        let info = object.ext.functions.get(&section.name).and_then(|functions| {
            let found = functions.binary_search_by_key(&offset, |function| function.0).ok()?;
            Some(functions[found].1)
        });
        let params = info.and_then(|func| match object.btf.kind(func) {
            TypeKind::Func { ty, .. } => match object.btf.kind(*ty) {
                TypeKind::FuncProto { params, .. } => Some(params.len()),
                _ => None,
            },
            _ => None,
        });
        let lines = object.ext.lines.get(&section.name).map_or(&[][..], Vec::as_slice);
        let from = lines.partition_point(|line| line.offset < offset);
        let to = lines.partition_point(|line| line.offset < offset + size);
        let lines = lines[from..to.max(from)].iter().filter_map(|line| {
            let index = indices[to_usize((line.offset - offset) / SLOT)]?;
            Some(LineInfo {
                insn: start + index.unsigned_abs() as usize,
                file: line.file.clone(),
                line: line.line,
                column: line.column,
                text: line.text.clone(),
            })
        });
        Ok(Function {
            name: symbol.name.clone(),
            start,
            end,
            stack: stack(&insns[start..end]),
            params,
            is_global: !symbol.local,
            is_callback: false,
            lines: lines.collect(),
        })
    }
}

/// Returns the number of bytes of stack that these instructions use, estimated from accesses
/// through the frame pointer and through pointers that are derived from it.
fn stack(insns: &[Insn]) -> u32 {
    const MOV64_X: u8 = 0xbf;
    const ADD64_K: u8 = 0x07;
    let mut lowest = 0i64;
    // Bit set of the registers that hold the frame pointer.
    let mut frame = 1u16 << 10;
    for insn in insns {
        let is_frame = |register: u8| frame >> register & 1 != 0;
        match class(insn.op) {
            LDX if is_frame(insn.src) => lowest = lowest.min(insn.off.into()),
            ST | STX if is_frame(insn.dst) => lowest = lowest.min(insn.off.into()),
            _ => (),
        }
        match insn.op {
            MOV64_X if insn.src == 10 => frame |= 1 << insn.dst,
            ADD64_K if insn.dst != 10 && is_frame(insn.dst) => {
                lowest = lowest.min(insn.imm);
                frame &= !(1 << insn.dst);
            }
            // Other arithmetic on the frame pointer is not analysed, so the maximum is assumed.
            op if class(op) == ALU64 && op & insn::X != 0 && op != MOV64_X && is_frame(insn.src) => return MAX_STACK,
            op if matches!(class(op), ALU | ALU64 | LDX) || op == LD_IMM64 => frame &= !(1 << insn.dst) | 1 << 10,
            _ => (),
        }
    }
    u32::try_from(-lowest)
        .unwrap_or(MAX_STACK)
        .next_multiple_of(8)
        .min(MAX_STACK)
}
