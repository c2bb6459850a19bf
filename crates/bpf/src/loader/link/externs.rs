// SPDX-License-Identifier: GPL-2.0-only
//! Looks up symbols that the kernel defines: kfuncs, variables, configuration values.
//!
//! A symbol is looked up by its name without the last `___suffix`. If the kernel's symbol has an
//! incompatible type, the symbol counts as missing. If the object declares a missing symbol weak,
//! references to it become 0. Otherwise they become traps, which fault when they are executed.

use crate::error::Error;
use std::collections::BTreeMap;

use super::target::Target;
use crate::btf::{Btf, INT_BOOL, INT_CHAR, INT_SIGNED, TypeKind, essential_name};
use crate::core_relo::types_compatible;
use crate::memory::Region;
use crate::object::Object;
use crate::object::elf::Symbol;

/// A symbol that an object requires and that the target kernel lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingSymbol {
    /// The kernel's name, without a `___suffix`.
    pub name: String,
    /// Whether the object declares the symbol as a function. If not, it declares a variable.
    pub function: bool,
}

/// Result of looking up an external symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Extern {
    /// A function of the target with this name.
    Kfunc(String),
    /// A variable or configuration value at this address.
    Address(u64),
    /// A symbol that the target lacks.
    Missing {
        /// Whether the object declares the symbol `__weak`. Its address is then 0.
        weak: bool,
        /// Whether the symbol is a kfunc that the target kernel declares differently.
        differs: bool,
        /// Message for a program that uses the symbol.
        message: String,
    },
}

/// Declarations of external symbols, by name, and the results of looking them up.
pub(super) struct Externs<'a> {
    btf: &'a Btf,
    target: &'a Target,
    region: &'a Region,
    /// For each declaration: the id of the BTF Func or Var, and whether the symbol is in .kconfig.
    declared: BTreeMap<&'a str, (u32, bool)>,
    resolved: BTreeMap<&'a str, Extern>,
    pub(super) warnings: Vec<String>,
    /// Symbols that the target lacks and that are not declared weak.
    pub(super) missing: Vec<MissingSymbol>,
}

impl<'a> Externs<'a> {
    pub(super) fn new(object: &'a Object, target: &'a Target, region: &'a Region) -> Externs<'a> {
        let btf = &object.btf;
        let mut declared = BTreeMap::new();
        for (section, is_config) in [(".ksyms", false), (".kconfig", true)] {
            let id = btf.find(section, |kind| matches!(kind, TypeKind::Datasec { .. }));
            let Some(TypeKind::Datasec { vars, .. }) = id.map(|id| btf.kind(id)) else {
                continue;
            };
            declared.extend(vars.iter().map(|var| (btf.name(var.ty), (var.ty, is_config))));
        }
        Externs {
            btf,
            target,
            region,
            declared,
            resolved: BTreeMap::new(),
            warnings: Vec::new(),
            missing: Vec::new(),
        }
    }

    pub(super) fn resolve(&mut self, symbol: &'a Symbol) -> Extern {
        if let Some(known) = self.resolved.get(symbol.name.as_str()) {
            return known.clone();
        }
        let found = self.look_up(symbol);
        if let Extern::Missing {
            weak: false, message, ..
        } = &found
        {
            self.warnings.push(message.clone());
            let function = self.declared.get(symbol.name.as_str());
            let function = function.is_some_and(|&(id, _)| matches!(self.btf.kind(id), TypeKind::Func { .. }));
            self.missing.push(MissingSymbol {
                name: essential_name(&symbol.name).to_string(),
                function,
            });
        }
        self.resolved.insert(&symbol.name, found.clone());
        found
    }

    fn look_up(&self, symbol: &Symbol) -> Extern {
        let name = symbol.name.as_str();
        let missing = |message: String| Extern::Missing {
            weak: symbol.weak,
            differs: false,
            message,
        };
        let Some(&(id, is_config)) = self.declared.get(name) else {
            return missing(format!("{name} is external, but its type is not in BTF"));
        };
        let (btf, target) = (self.btf, self.target);
        let kernel_name = essential_name(name);
        match *btf.kind(id) {
            TypeKind::Var { ty, .. } if is_config => self
                .config(symbol, ty)
                .unwrap_or_else(|error| missing(error.to_string())),
            TypeKind::Func { ty, .. } => {
                let Some(func) = target.kfunc(kernel_name) else {
                    return missing(format!("kfunc {kernel_name} {}", target.why_not(kernel_name)));
                };
                let TypeKind::Func { ty: proto, .. } = *target.btf().kind(func) else {
                    return missing(format!("{kernel_name} is not a function"));
                };
                match types_compatible(btf, ty, target.btf(), proto) {
                    true => Extern::Kfunc(kernel_name.to_string()),
                    false => Extern::Missing {
                        weak: symbol.weak,
                        differs: true,
                        message: format!(
                            "kfunc {kernel_name} differs: declared as \"{}\", but it is \"{}\"",
                            btf.c_declaration(ty, name),
                            target.btf().c_name(func)
                        ),
                    },
                }
            }
            TypeKind::Var { ty, .. } => match target.variable(kernel_name) {
                None => missing(format!("kernel variable {kernel_name} is not modelled")),
                // `extern const void x __ksym` declares no type.
                Some((addr, Some(there))) if btf.resolve(ty) == 0 || types_compatible(btf, ty, target.btf(), there) => {
                    Extern::Address(addr)
                }
                Some((addr, None)) => Extern::Address(addr),
                Some((_, Some(there))) => missing(format!(
                    "kernel variable {kernel_name} differs: declared as \"{}\", but it is \"{}\"",
                    btf.c_declaration(ty, name),
                    target.btf().c_declaration(there, kernel_name)
                )),
            },
            _ => missing(format!("{name} is neither a function nor a variable")),
        }
    }

    /// Allocates memory for a configuration value. If the target does not have the value and the
    /// symbol is weak, the value is 0.
    fn config(&self, symbol: &Symbol, ty: u32) -> Result<Extern, Error> {
        let name = &symbol.name;
        let size = self.btf.size_of(ty).ok_or_else(|| format!("{name} has no size"))?;
        let mut bytes = vec![0; size as usize];
        match self.target.config_value(name) {
            Some(value) => {
                config_bytes(self.btf, ty, value, &mut bytes).map_err(|m| format!("{name} = {value}: {m}"))?
            }
            None if symbol.weak => (),
            None => return Err(Error::new(format!("{name} is not configured"))),
        }
        let addr = self
            .region
            .alloc(u64::from(size))
            .ok_or("the simulated address space is full")?;
        self.region.write(addr, &bytes)?;
        Ok(Extern::Address(addr))
    }
}

/// Converts a value of .config to the declared type: a truth value, a `char` with y, m or n, an
/// `enum libbpf_tristate`, a number, or text.
fn config_bytes(btf: &Btf, ty: u32, value: &str, bytes: &mut [u8]) -> Result<(), Error> {
    let ty = btf.resolve(ty);
    let tristate = match value {
        "n" => Some(0u64),
        "y" => Some(1),
        "m" => Some(2),
        _ => None,
    };
    let text = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    match (btf.kind(ty), tristate, text) {
        (TypeKind::Int { encoding, .. }, Some(state), _) if encoding & INT_BOOL != 0 => match state {
            0 | 1 => bytes[0] = u8::from(state == 1),
            _ => return Err("the value m (module) is neither true nor false".into()),
        },
        (TypeKind::Int { size: 1, encoding, .. }, Some(_), _) if encoding & (INT_CHAR | INT_SIGNED) != 0 => {
            bytes[0] = value.as_bytes()[0];
        }
        (TypeKind::Enum { .. }, Some(state), _) => {
            let state = state.to_le_bytes();
            let size = bytes.len().min(8);
            bytes[..size].copy_from_slice(&state[..size]);
        }
        (TypeKind::Array { .. }, _, Some(text)) => {
            // Longer text is truncated, as libbpf does.
            let len = text.len().min(bytes.len().saturating_sub(1));
            bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        }
        (TypeKind::Int { .. }, None, None) => {
            let location = crate::object::value::Location::whole(btf, ty);
            crate::object::value::set(btf, location, bytes, value)?;
        }
        _ => return Err(Error::new(format!("not a value of type {}", btf.c_name(ty)))),
    }
    Ok(())
}
