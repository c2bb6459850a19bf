// SPDX-License-Identifier: GPL-2.0-only
//! Makes executable code from a [`Template`].

use std::sync::Arc;

use super::Error;
use super::compiled::{Compiled, Template};
use super::pages::Pages;
use super::runtime::ENTRIES;
use super::symbol::Symbol;
use crate::engine::context::{Context, Entry};

/// Copies the code to executable memory and writes the values that its symbols have for a program
/// into the copy. Returns the copy and the entry point of each function.
///
/// # Errors
/// The host has no memory or allows no executable memory, or the program has no value for a symbol.
pub(super) fn load(template: &Arc<Template>, cx: &Context) -> Result<(Compiled, Vec<Entry>), Error> {
    let mut values = Vec::with_capacity(template.relocations.len());
    for relocation in &template.relocations {
        let value = value(relocation.symbol, cx);
        let value =
            value.ok_or_else(|| Error::Failed(format!("the JIT compiler failed: no {:?}", relocation.symbol)))?;
        values.push(value.wrapping_add_signed(relocation.addend));
    }
    let pages = Pages::with_code(&template.code, |code| {
        for (relocation, value) in template.relocations.iter().zip(values) {
            let at = relocation.offset as usize;
            code[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
    })?;
    let start = pages.start();
    // SAFETY: the code was compiled with this signature. Only the trampolines call entry points,
    // and the trampolines save the registers that compiled code does not preserve.
    let entry = |&offset: &u32| unsafe { std::mem::transmute::<u64, Entry>(start + u64::from(offset)) };
    let entries = template.starts.iter().map(entry).collect();
    let compiled = Compiled {
        range: start..start + template.code.len() as u64,
        template: template.clone(),
        _pages: pages,
    };
    Ok((compiled, entries))
}

/// Returns the value that a symbol has for a program, or `None` if it has none.
fn value(symbol: Symbol, cx: &Context) -> Option<u64> {
    let entry = |entry: Entry| entry as usize as u64;
    let at = |number: u32| usize::try_from(number).ok();
    match symbol {
        Symbol::Runtime(number) => ENTRIES.get(at(number)?).copied().map(entry),
        Symbol::Helper(number) => cx.helpers.get(at(number)?)?.map(|target| entry(target.entry)),
        Symbol::Kfunc(index) => cx.kfuncs.get(at(index)?)?.map(|target| entry(target.entry)),
        Symbol::Delta => Some(cx.delta),
        Symbol::Lines => Some(cx.lines().bias()),
        Symbol::Shadow => cx.sanitizer.as_ref().map(|sanitizer| sanitizer.shadow()),
    }
}
