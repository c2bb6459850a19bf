// SPDX-License-Identifier: GPL-2.0-only
//! Checked mode: a sanitizer for BPF programs.
//!
//! Beside each register goes its *provenance*: what the pointer in it was made from. Moving and adding keep it, a spilled
//! pointer gets it back from a shadow of the stack, a call gives it to its result; everything else makes a scalar. So an access
//! is held to the one object that the program got a pointer to, not to whatever lies at the address, and a pointer to what
//! was given back is known though the memory has a new owner. The rules are those of the kernel's verifier, found at run
//! time: on the way that is executed, with the values it has.
//!
//! Both engines keep provenances and call the functions of `access` and `call`; memory, layout and counts are those of a run
//! without checks. [`Guard`] is what they know: `objects` of the program's memory, `calls` what is held (references,
//! locks, critical sections), `signature` what functions do with their arguments, `given` whether they may, `opaque` what the
//! kernel keeps in the program's stack, `report` how it is told. Not there when checked mode is off, nor any code for it.

mod access;
mod calls;
mod given;
mod names;
mod objects;
mod opaque;
mod prov;
mod registers;
mod report;
mod results;
mod signature;

use crate::func::{Entry, Fault};
use crate::image::{Field, FieldKind};
use crate::link::DataSection;
use crate::map::{Map, kind};
use crate::object::{Program, ProgramKind};
use crate::region::Region;
use crate::vm::{self, Context, FRAME};

pub(crate) use access::{load, meta, store};
pub(crate) use calls::{after_call, before_call, call_function, returned};
pub use names::is_known;
use objects::Objects;
use prov::Prov;
pub(crate) use prov::{SCALAR, UNSET, UNTESTED, frame};
use registers::Look;
pub(crate) use registers::{before, moves, tests};

/// What the world tells of itself to a checked program.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Kinds of kernel objects.
    pub objects: Vec<KernelObject>,
    /// The object's programs: which may sleep.
    pub programs: Vec<Program>,
    /// Sections of globals.
    pub sections: Vec<Globals>,
    /// kfuncs of the world that return a reference, take one back, may sleep, need an RCU section.
    pub acquire: Vec<&'static str>,
    pub release: Vec<&'static str>,
    pub sleepable: Vec<&'static str>,
    pub rcu: Vec<&'static str>,
    /// Bytes of the structs that kfuncs of the world are handed in the program's memory, iterators among them.
    pub structs: Vec<(&'static str, u64)>,
}

/// Those of this crate's kfuncs; a mask is that of a kernel for 8192 CPUs.
const STRUCTS: [(&str, u64); 3] = [("bpf_iter_num", 8), ("bpf_iter_bits", 16), ("bpf_cpumask", 1032)];

impl Rules {
    fn size_of(&self, tag: &str) -> Option<u64> {
        let mut known = self.structs.iter().chain(&STRUCTS);
        known.find(|(name, _)| *name == tag).map(|&(_, size)| size)
    }
}

/// A section of globals: to the kernel it is one value.
#[derive(Clone, Debug)]
pub struct Globals {
    /// ELF name.
    pub name: String,
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    pub writable: bool,
    /// Special fields by ascending offset.
    pub fields: Vec<Field>,
}

impl From<&DataSection> for Globals {
    fn from(section: &DataSection) -> Globals {
        Globals {
            name: section.name.clone(),
            addr: section.addr,
            size: section.size,
            writable: section.live,
            fields: section.fields.clone(),
        }
    }
}

/// Kernel objects in a slab of the region.
#[derive(Clone, Debug)]
pub struct KernelObject {
    /// `struct` name.
    pub name: &'static str,
    /// Address of any of them.
    pub at: u64,
    /// Bytes of one.
    pub size: u64,
    /// What a program may store to: offset and size.
    pub writable: Vec<(u64, u64)>,
    /// What in it functions take as an object of its own: offset and `struct` name.
    pub parts: Vec<(u64, &'static str)>,
}

/// Calls of guard code, for the cost of checked mode: accesses and calls checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub accesses: u64,
    pub calls: u64,
}

/// What checked mode knows of one program.
pub(crate) struct Guard {
    objects: Objects,
    held: calls::Held,
    names: names::Names,
    /// By function: is it a program of its own, and may it sleep?
    kinds: Vec<Option<(ProgramKind, bool)>>,
    /// By function: what the engine runs.
    entries: Vec<Entry>,
    /// By instruction: what to look at before it.
    looks: Vec<Look>,
    pub checked: Checked,
}

impl Guard {
    /// # Errors
    /// If a function that the program can call does not say what it does with its arguments.
    pub fn new(cx: &Context, rules: Rules) -> Result<Guard, String> {
        let mut kinds = vec![None; cx.code.functions.len()];
        for program in &rules.programs {
            kinds[program.function] = Some((program.kind, program.sleepable));
        }
        cx.region().note_freed();
        let objects = Objects::new(cx, &rules);
        let looks = registers::looks(&cx.code.insns, &cx.code.functions, &objects);
        Ok(Guard {
            objects,
            looks,
            held: calls::Held::default(),
            names: names::Names::new(cx, &rules)?,
            kinds,
            entries: Vec::new(),
            checked: Checked::default(),
        })
    }

    /// Where the shadow of the stack begins: two words (provenance, value) for each of the stack.
    pub fn shadow(&self) -> u64 {
        self.objects.shadow.as_ptr() as u64
    }

    /// What to look at before an instruction.
    pub fn look(&self, pc: usize) -> Look {
        self.looks[pc]
    }

    /// The provenance of a constant in the code.
    pub fn constant(&self, region: &Region, value: u64) -> u64 {
        self.objects.classify(region, value).0
    }

    /// Takes the engine's entries; what the world calls is [`enter`].
    pub fn take_entries(&mut self, entries: &mut [Entry]) {
        self.entries = entries.to_vec();
        entries.fill(enter);
    }
}

unsafe fn guard<'a>(cx: *mut Context) -> &'a mut Guard {
    // SAFETY: checked code runs only where there is one, and no two borrows of it are alive.
    unsafe { (*cx).guard.as_deref_mut().unwrap_unchecked() }
}

/// The entry of every function of a checked program, for calls by the world and by helpers.
unsafe extern "C" fn enter(cx: *mut Context, r1: u64, r2: u64, r3: u64, r4: u64, r5: u64) -> u64 {
    unsafe {
        let function = (*cx).function;
        let mark = match calls::begin(&mut *cx, guard(cx), function, [r1, r2, r3, r4, r5]) {
            Ok(mark) => mark,
            Err(fault) => return raise(cx, fault),
        };
        let entry = guard(cx).entries[function];
        let r0 = entry(cx, r1, r2, r3, r4, r5);
        if (*cx).fault.is_some() {
            return r0;
        }
        match calls::end(&mut *cx, guard(cx), mark, r0) {
            Ok(()) => r0,
            Err(fault) => raise(cx, fault),
        }
    }
}

/// A register that may have no value is read: pc, register, its provenance.
pub(crate) unsafe extern "C" fn read(cx: *mut Context, pc: u64, register: u64, prov: u64, _: u64, _: u64) -> u64 {
    if prov != UNSET {
        return 0;
    }
    unsafe {
        (*cx).pc = pc as u32;
        raise(cx, registers::unset(register as u8))
    }
}

/// A number is added to a pointer that may be NULL: pc, and its provenance.
pub(crate) unsafe extern "C" fn move_untested(cx: *mut Context, pc: u64, prov: u64, _: u64, _: u64, _: u64) -> u64 {
    unsafe {
        let prov = Prov(prov);
        if !guard(cx).objects.is_untested(prov) {
            return 0;
        }
        (*cx).pc = pc as u32;
        let fault = guard(cx).untested(&*cx, "arithmetic on a pointer that may be NULL".to_string(), None, prov);
        raise(cx, fault)
    }
}

/// A pointer that may be NULL is compared.
pub(crate) unsafe extern "C" fn test(cx: *mut Context, prov: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    unsafe { guard(cx).objects.note_tested(Prov(prov)) };
    0
}

/// The provenance of a pointer to which a variable number is added.
pub(crate) unsafe extern "C" fn vary(cx: *mut Context, prov: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    unsafe { Prov(prov).varied(&guard(cx).objects).0 }
}

/// Ends the program with what was found.
#[cold]
unsafe fn raise(cx: *mut Context, fault: Fault) -> u64 {
    unsafe {
        let report = report::of(&*cx, guard(cx), fault.report.clone().unwrap_or_default());
        vm::raise(cx, fault.with_whole_report(report))
    }
}

/// Adds the calls under way to a fault that something else than a check has found.
#[cold]
pub(crate) fn add_report(cx: &Context, fault: Fault) -> Fault {
    match &cx.guard {
        Some(guard) if fault.report.is_none() => {
            fault.with_report(report::of(cx, guard, crate::func::Report::default()))
        }
        _ => fault,
    }
}
