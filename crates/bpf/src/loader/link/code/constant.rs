// SPDX-License-Identifier: GPL-2.0-only
//! Fills in the operands that instructions of an object leave open: the target of a call, the
//! address of a symbol, and constants that depend on the target kernel's types (CO-RE).

use super::super::externs::Extern;
use super::{KFUNC_BASE, Linker, SLOT, Source};
use crate::core_relo::{self, Answer, Ask};
use crate::error::Error;
use crate::image::{CALL, CALL_FUNCTION, CALL_KFUNC, FUNC_BASE, Insn, LD_IMM64, TRAP};
use crate::insn::{self, ALU, ALU64, LDX, ST, STX, class};
use crate::object::SectionKind;
use crate::object::elf::{R_BPF_64_32, R_BPF_64_64, Relocation, Symbol};

impl<'a> Linker<'a> {
    /// Returns a call of the function that starts at this offset of a section, or `None` if no
    /// function starts there.
    pub(super) fn call(&mut self, section: usize, offset: u64, insn: Insn) -> Option<Insn> {
        let function = self.function_at(section, offset)?;
        Some(Insn {
            src: CALL_FUNCTION,
            off: 0,
            imm: function.cast_signed() as i64,
            ..insn
        })
    }

    /// Fills in the operand of an instruction that refers to a symbol.
    pub(super) fn relocate(
        &mut self,
        insn: Insn,
        relocation: &Relocation,
        slot: usize,
        source: usize,
    ) -> Result<Insn, Error> {
        let object = self.object;
        let Source { section, offset, .. } = self.sources[source];
        let position = offset + slot as u64 * SLOT;
        let fail = |message: String| Error::at(&object.elf.sections[section].name, position, message);
        let symbol = &object.elf.symbols[relocation.symbol];
        let target = symbol.section.map(|index| (index, object.section_kind(index)));
        let target_name = if symbol.name.is_empty() {
            "a section"
        } else {
            &symbol.name
        };
        match (relocation.kind, insn.op) {
            (R_BPF_64_32, CALL) => {
                let Some((index, _)) = target else {
                    return Ok(self.call_extern(symbol, insn));
                };
                // The immediate is the distance to the target from the instruction after the call,
                // in instructions.
                let target = symbol.offset.wrapping_add_signed((insn.imm + 1) * SLOT.cast_signed());
                let called = self.call(index, target, insn);
                called.ok_or_else(|| {
                    fail(format!(
                        "call of {target_name}+{:#x}, which is not the start of a function",
                        target - symbol.offset.min(target)
                    ))
                })
            }
            (R_BPF_64_64, LD_IMM64) => {
                let value = |value: u64| {
                    Ok(Insn {
                        src: 0,
                        off: 0,
                        imm: value.cast_signed(),
                        ..insn
                    })
                };
                let addend = sign_extended(insn.imm.cast_unsigned());
                let offset = symbol.offset.wrapping_add(addend);
                match target {
                    None => match self.externs.resolve(symbol) {
                        Extern::Kfunc(name) => {
                            let index = self.kfunc(name);
                            value(KFUNC_BASE + index as u64)
                        }
                        Extern::Address(addr) => value(addr.wrapping_add(addend)),
                        Extern::Missing { weak: true, .. } => value(0),
                        Extern::Missing {
                            weak: false, message, ..
                        } => Ok(self.trap(message)),
                    },
                    Some((index, SectionKind::Code)) => {
                        let function = self.function_at(index, offset);
                        let function =
                            function.ok_or_else(|| fail(format!("{target_name} is not the start of a function")))?;
                        value(FUNC_BASE + function as u64)
                    }
                    Some((_, SectionKind::Maps)) => {
                        let map = object.maps.iter().position(|map| map.offset == offset);
                        value(self.maps[map.ok_or_else(|| fail(format!("{target_name} is not a map")))?].handle)
                    }
                    Some((index, SectionKind::Rodata | SectionKind::Data | SectionKind::Arena)) => {
                        let data = self.data.iter().find(|data| data.index == index);
                        let data = data.ok_or_else(|| fail(format!("{target_name} has no memory")))?;
                        value(data.addr.wrapping_add(offset))
                    }
                    Some((_, SectionKind::StructOps)) => {
                        Ok(self.trap(format!("the address of {target_name} is not modelled")))
                    }
                    Some((_, SectionKind::Other)) => Err(fail(format!("{target_name} is not in a section with data"))),
                }
            }
            (kind, op) => Err(fail(format!(
                "relocation of kind {kind} against {target_name} for opcode {op:#x}"
            ))),
        }
    }

    /// Returns a call of a function that the kernel defines, or a trap if there is no such
    /// function.
    fn call_extern(&mut self, symbol: &'a Symbol, insn: Insn) -> Insn {
        match self.externs.resolve(symbol) {
            Extern::Kfunc(name) => Insn {
                src: CALL_KFUNC,
                off: 0,
                imm: self.kfunc(name).cast_signed() as i64,
                ..insn
            },
            Extern::Address(_) => self.trap(format!("{} is a variable, but it was called", symbol.name)),
            Extern::Missing { weak, differs, message } => Insn {
                src: if weak && differs { CALL_KFUNC } else { 0 },
                ..self.trap(message)
            },
        }
    }

    /// Returns the instruction that stands for a load of a field that the target lacks: the load
    /// yields `set`, or else 0 if the field is an integer. Returns `None` if the access is no load or
    /// has no such value.
    fn load_of_missing_field(&self, insn: Insn, relocation: &core_relo::Relocation, set: Option<i64>) -> Option<Insn> {
        let is_load = class(insn.op) == LDX && relocation.ask == Ask::FieldOffset;
        let reads_as_0 = |field: &core_relo::MissingField| {
            self.target.missing_numbers_read_as_0 && field.has_struct && field.is_integer
        };
        let missing = core_relo::missing_field(&self.object.btf, self.target.btf(), relocation);
        let field = missing.filter(|field| is_load && (set.is_some() || reads_as_0(field)))?;
        let mask = u64::MAX >> (64 - field.bits.clamp(1, 64));
        let value = (set.unwrap_or(0).cast_unsigned() & mask) << field.first_bit.min(63);
        let is_signed = insn.op & 0xe0 == insn::MEMSX;
        let value = match (insn::size(insn.op), is_signed) {
            (1, true) => i64::from(value.to_le_bytes()[0].cast_signed()),
            (2, true) => i64::from(u16::from_le_bytes([value.to_le_bytes()[0], value.to_le_bytes()[1]]).cast_signed()),
            (4, true) => sign_extended(value).cast_signed(),
            _ => value.cast_signed(),
        };
        Some(Insn {
            op: LD_IMM64,
            src: 0,
            off: 0,
            imm: value,
            ..insn
        })
    }

    /// Fills in a constant that depends on the target kernel's types.
    pub(super) fn core(&mut self, insn: Insn, relocation: &core_relo::Relocation) -> Result<Insn, Error> {
        if matches!(relocation.ask, Ask::TypeIdLocal) {
            self.local_type(relocation.ty)?;
        }
        let btf = &self.object.btf;
        let name = core_relo::describe(btf, relocation);
        let set = self.target.field(&name);
        let answer = match core_relo::resolve(btf, self.target.btf(), relocation) {
            Ok(answer) if set.is_some() && relocation.ask == Ask::FieldExists && answer.value == 0 => {
                Answer { value: 1, sizes: None }
            }
            Ok(_) if set.is_some() => {
                return Err(Error::new(format!(
                    "{name} is modelled, so the profile cannot set its value"
                )));
            }
            Ok(answer) => answer,
            Err(core_relo::Unresolved(message)) => {
                let load = self.load_of_missing_field(insn, relocation, set);
                let message = match (&load, set) {
                    (Some(_), Some(_)) => return load.ok_or(message.into()),
                    (Some(_), None) => format!("{message} and reads as 0 ([fields] in a profile can set its value)"),
                    (None, _) => message,
                };
                self.unresolved.push((name, message.clone()));
                return Ok(load.unwrap_or_else(|| self.trap(message)));
            }
        };
        if relocation.ask == Ask::FieldOffset {
            self.accessed.insert(name);
        }
        let exists = matches!(
            relocation.ask,
            Ask::FieldExists | Ask::TypeExists | Ask::TypeMatches | Ask::EnumExists
        );
        if exists && answer.value == 0 {
            self.asked.insert(core_relo::describe(btf, relocation));
        }
        let Answer { value, sizes } = answer;
        match class(insn.op) {
            ALU | ALU64 if insn.op & insn::X == 0 => Ok(Insn {
                imm: sign_extended(value).cast_signed(),
                ..insn
            }),
            _ if insn.op == LD_IMM64 => Ok(Insn {
                imm: value.cast_signed(),
                ..insn
            }),
            LDX | ST | STX => {
                let mut op = insn.op;
                if let Some(sizes) = sizes.filter(|sizes| sizes.local != sizes.target) {
                    let bits = match sizes.target {
                        1 => Some(insn::B),
                        2 => Some(insn::H),
                        4 => Some(insn::W),
                        8 => Some(insn::DW),
                        _ => None,
                    };
                    let Some(bits) = bits.filter(|_| sizes.adjustable) else {
                        let text = format!(
                            "{} has {} bytes instead of {}: this access is not modelled",
                            core_relo::describe(&self.object.btf, relocation),
                            sizes.target,
                            sizes.local
                        );
                        return Ok(self.trap(text));
                    };
                    op = op & !insn::DW | bits;
                }
                let off = i32::try_from(value).map_err(|_| format!("field offset {value} is too large"))?;
                Ok(Insn { op, off, ..insn })
            }
            _ if insn.op == TRAP => Ok(insn),
            _ => Err(Error::new(format!("CO-RE relocation for opcode {:#x}", insn.op))),
        }
    }
}

/// Returns the low 32 bits of a value, extended by their sign. An instruction can have only these
/// bits as its immediate.
#[expect(clippy::cast_possible_truncation, reason = "an immediate has 32 bits")]
fn sign_extended(value: u64) -> u64 {
    i64::from(value as i32).cast_unsigned()
}
