// SPDX-License-Identifier: GPL-2.0-only
//! The objects to which a program's pointers can point, for the sanitizer.
//!
//! - Static areas exist as long as the program: array maps and sections of globals.
//! - Kernel objects are grouped by slab.
//! - A view is the record of an object with a limited lifetime: a map element, an allocated object,
//!   a ring buffer record, or a reference.

use super::prov::{GENERATION, Origin, Prov};
use super::rules::Rules;
use crate::image::Field;
use crate::insn::FRAME;
use crate::map::{Map, kind};
use crate::memory::slab::SlabLayout;
use crate::memory::{Region, SHIFT};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of dead views that are kept. If there are more, the slot of the oldest one is reused. A
/// report can describe a dead view as long as it is kept.
const QUARANTINE: usize = 4096;
/// Number of temporary views (see `Objects::temporary`) that do not count against the budget.
const MANY: usize = 1024;
/// Number of instructions by which each temporary view beyond [`MANY`] reduces the budget. A
/// program that acquires objects and never releases them can thus use only limited memory.
const VIEW: usize = 64;
/// Number of temporary views that the host examines in the time that it needs for one BPF
/// instruction.
const VIEWS: usize = 4;

/// An array map or a section of globals: adjacent elements that exist as long as the program.
pub(super) struct StaticArea {
    pub start: u64,
    pub end: u64,
    pub stride: u64,
    /// Number of bytes of an element that belong to the program. The rest of `stride` is padding.
    pub len: u64,
    pub writable: bool,
    /// Name for reports: `value of map x`, or the name of a section.
    pub name: String,
    pub fields: Vec<Field>,
    /// Address of the map, if the area belongs to a map.
    pub map: Option<u64>,
}

/// Kind of a view's object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ViewKind {
    /// Element of the map with this index.
    Value(usize),
    /// Object of the type with this BTF id, made by bpf_obj_new.
    Object(u32),
    /// One object per CPU, of the type with this BTF id, made by bpf_percpu_obj_new. The program
    /// may not access these objects directly.
    Percpu(u32),
    /// One CPU's object of a `Percpu` view.
    Copy(u32),
    /// A bpf_cpumask.
    Cpumask,
    /// A ring buffer record.
    Record,
    /// Kernel object in the slab with this index.
    Kernel(usize),
    /// Data that user space passed to a program of type SYSCALL as its context.
    Input,
    /// An object that the program may hold but not access.
    Opaque,
    /// Element that an iterator returned.
    Element,
}

/// Event that ends a view's lifetime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Until {
    Freed,
    /// bpf_spin_unlock, for a pointer into a list or tree, which gives the program no ownership.
    Unlock,
    /// bpf_rcu_read_unlock.
    RcuUnlock,
}

/// The sanitizer's record of an object with a limited lifetime, to which a program has a pointer.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// Address of the object.
    pub start: u64,
    /// Size of the object in bytes.
    pub len: u64,
    /// Number of earlier views that used the same slot. A provenance contains this number, so the
    /// sanitizer recognises a pointer to an earlier object of the slot.
    pub generation: u32,
    pub kind: ViewKind,
    pub until: Until,
    /// Whether the program must release the object.
    pub reference: bool,
    /// Serial number of the program call that created the view (see `Held::program`).
    pub program: u32,
    /// Instruction that created the view.
    pub born: usize,
    /// How the object ended, as a verb for messages ("released"). Also the instruction that ended
    /// it, unless the kernel ended it.
    pub died: Option<(&'static str, Option<usize>)>,
    pub alive: bool,
}

/// All objects to which a program's pointers can point.
pub(super) struct Objects {
    /// Static areas by ascending address.
    pub areas: Vec<StaticArea>,
    /// Arrays of kernel objects.
    pub slabs: Vec<SlabLayout>,
    /// Views by slot. The slot of a dead view is reused later.
    pub views: Vec<View>,
    /// Slots of dead views, in the order in which the views died.
    dead: VecDeque<u32>,
    /// Live views of allocated memory, by start address.
    live: BTreeMap<u64, u32>,
    /// Views that end at the latest when the outermost call of a program returns.
    temporary: Vec<u32>,
    /// When `temporary` reaches this length, the entries of dead views are removed from it.
    crowded: usize,
    /// Work of the sanitizer since the last call of [`Objects::take_work`], in BPF instructions
    /// that would take the same time.
    work: usize,
    /// For each word of the stack, the provenance and the value of the pointer that the program
    /// has spilled to it.
    pub shadow: Box<[[u64; 2]]>,
    /// Address of the BPF stack.
    pub stack: u64,
    pub stack_end: u64,
    /// The high bits that all addresses in the region share.
    pub tag: u64,
    /// Address of the arena, 0 without an arena.
    pub arena: u64,
    /// Frames in use, outermost first.
    pub frames: Vec<Frame>,
    /// Provenances of the pointers that the program has compared with NULL during the outermost
    /// call.
    tested: BTreeSet<u64>,
    /// Most recent entry of `tested`.
    last_tested: u64,
}

/// Stack frame of a function that is running.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Value of r10 in the frame.
    pub top: u64,
    pub function: usize,
    /// Instruction of the program that called the function. `None` if the simulated machine or a
    /// helper called it.
    pub caller: Option<usize>,
    pub depth: u32,
}

impl Objects {
    pub fn new(region: &Region, maps: &[Map], (stack, stack_end): (u64, u64), arena: u64, rules: &Rules) -> Objects {
        let mut areas: Vec<StaticArea> = maps.iter().filter_map(array_area).collect();
        areas.extend(rules.sections.iter().map(|section| StaticArea {
            start: section.addr,
            end: section.addr + section.size,
            stride: section.size.max(1),
            len: section.size,
            writable: section.writable,
            name: format!("globals in {}", section.name),
            fields: section.fields.clone(),
            map: None,
        }));
        areas.sort_by_key(|area| area.start);
        Objects {
            areas,
            slabs: region.slabs(),
            views: Vec::new(),
            dead: VecDeque::new(),
            live: BTreeMap::new(),
            temporary: Vec::new(),
            crowded: MANY,
            work: 0,
            shadow: vec![[0; 2]; ((stack_end - stack) / 8) as usize].into_boxed_slice(),
            stack,
            stack_end,
            tag: region.tag(),
            arena,
            frames: Vec::new(),
            tested: BTreeSet::new(),
            last_tested: 0,
        }
    }

    /// Records that the program compares this pointer with NULL. The pointer's copies count as
    /// compared, too.
    pub fn record_tested(&mut self, prov: Prov) {
        let tested = prov.tested().0;
        if tested != self.last_tested {
            self.last_tested = tested;
            self.tested.insert(tested);
        }
    }

    /// Returns whether the pointer may be NULL and the program has not compared it with NULL.
    #[inline(always)]
    pub fn is_untested(&self, prov: Prov) -> bool {
        let tested = prov.tested().0;
        prov.is_untested()
            && prov.origin().may_be_null()
            && tested != self.last_tested
            && !self.tested.contains(&tested)
    }

    /// Returns the provenance of an address that comes from the kernel or a helper, or that is a
    /// constant in the code.
    pub fn classify(&self, region: &Region, addr: u64) -> Prov {
        if addr >> SHIFT != self.tag || region.in_arenas(addr) {
            return Prov::SCALAR;
        }
        if (self.stack..self.stack_end).contains(&addr) {
            // The program got this address from the kernel, so the kernel keeps data there, for
            // example the number that an iterator returns, or the key of an element.
            return Prov::KERNEL;
        }
        let at = self.areas.partition_point(|area| area.start <= addr);
        if let Some(area) = self.areas[..at].last().filter(|area| addr < area.end) {
            return Prov::value(at - 1, (addr - area.start) / area.stride);
        }
        if region.in_bpf_area(addr) {
            return self.live_at(addr).map_or(Prov::KERNEL, |slot| self.prov(slot));
        }
        region
            .object_at(addr)
            .filter(|&(slab, ..)| slab < self.slabs.len())
            .map_or(Prov::KERNEL, |(slab, index, _)| Prov::slab(slab, index))
    }

    /// Returns the slot of the live view that contains an address.
    fn live_at(&self, addr: u64) -> Option<usize> {
        let (_, &slot) = self.live.range(..=addr).next_back()?;
        let view = &self.views[slot as usize];
        (addr - view.start < view.len).then_some(slot as usize)
    }

    pub fn prov(&self, slot: usize) -> Prov {
        Prov::view(slot, self.views[slot].generation)
    }

    /// Returns the view to which a provenance refers, dead or alive. Returns `None` if its slot has
    /// been reused.
    #[inline(always)]
    pub fn view(&self, slot: usize, generation: u32) -> Option<&View> {
        let view = &self.views[slot];
        (view.generation & GENERATION == generation).then_some(view)
    }

    fn add(&mut self, mut view: View) -> usize {
        if self.dead.len() > QUARANTINE
            && let Some(slot) = self.dead.pop_front()
        {
            view.generation = self.views[slot as usize].generation.wrapping_add(1);
            self.views[slot as usize] = view;
            return slot as usize;
        }
        self.views.push(view);
        self.views.len() - 1
    }

    /// Returns the provenance of allocated memory. Makes a view of the memory if there is no view
    /// of it yet.
    pub fn add_allocated(&mut self, start: u64, len: u64, kind: ViewKind, born: usize) -> Prov {
        if let Some(&slot) = self.live.get(&start) {
            return self.prov(slot as usize);
        }
        let slot = self.add(View::new(start, len, kind, born));
        self.live.insert(start, slot as u32);
        self.prov(slot)
    }

    /// Adds a view that ends at the latest when the outermost call of a program returns.
    pub fn add_temporary(&mut self, view: View) -> Prov {
        if self.temporary.len() >= self.crowded {
            self.forget_dead();
            self.crowded = MANY.max(2 * self.temporary.len());
        }
        if self.temporary.len() >= MANY {
            self.work += VIEW;
        }
        let slot = self.add(view);
        self.temporary.push(slot as u32);
        self.prov(slot)
    }

    /// Removes the entries of dead views from `temporary`. If a slot was reused, `temporary` may
    /// contain it several times; then only the last entry is kept.
    fn forget_dead(&mut self) {
        let mut seen = BTreeSet::new();
        self.temporary.reverse();
        self.temporary
            .retain(|&slot| self.views[slot as usize].alive && seen.insert(slot));
        self.temporary.reverse();
    }

    /// Returns the work of the sanitizer since the last call of this function, in instructions. The
    /// work grows with the number of views, which the program determines. The program's instruction
    /// budget must therefore pay for it.
    pub fn take_work(&mut self) -> i64 {
        std::mem::take(&mut self.work).cast_signed() as i64
    }

    /// Ends the lifetime of a view.
    pub fn kill(&mut self, slot: usize, verb: &'static str, pc: Option<usize>) {
        let view = &mut self.views[slot];
        if !view.alive {
            return;
        }
        view.alive = false;
        view.died = Some((verb, pc));
        let start = view.start;
        if self.live.get(&start) == Some(&(slot as u32)) {
            self.live.remove(&start);
        }
        self.dead.push_back(slot as u32);
    }

    /// Ends the views of memory that was freed since the last call. `pc` is the instruction that
    /// freed the memory, if a program is running.
    pub fn take_freed(&mut self, region: &Region, pc: Option<usize>) {
        while let Some(addr) = region.take_freed() {
            let Some((start, size)) = region.allocation_at(addr).or(Some((addr, 1))) else {
                continue;
            };
            let slots: Vec<u32> = self.live.range(start..start + size).map(|(_, &slot)| slot).collect();
            for slot in slots {
                self.kill(slot as usize, "freed", pc);
            }
            self.work += self.temporary.len() / VIEWS;
            for at in 0..self.temporary.len() {
                let slot = self.temporary[at] as usize;
                if (start..start + size).contains(&self.views[slot].start) {
                    self.kill(slot, "freed", pc);
                }
            }
        }
    }

    /// Ends the views that point into a ring buffer record, because the record was submitted.
    pub fn end_record(&mut self, start: u64, len: u64, pc: usize) {
        self.work += self.temporary.len() / VIEWS;
        for at in 0..self.temporary.len() {
            let slot = self.temporary[at] as usize;
            let view = &self.views[slot];
            if view.start >= start && view.start - start <= len {
                self.kill(slot, "submitted", Some(pc));
            }
        }
    }

    /// Returns the provenance of a pointer that was loaded from kernel memory. It is one of three:
    /// a kernel object, other kernel memory (read-only), or an untrusted pointer.
    pub fn classify_kernel_pointer(&self, region: &Region, addr: u64) -> Prov {
        let prov = self.classify(region, addr);
        match prov.origin() {
            Origin::Kernel | Origin::Slab { .. } | Origin::Scalar => prov,
            _ => Prov::UNTRUSTED,
        }
    }

    /// Returns the provenance of a pointer that is an argument of a program. If the pointer points
    /// to a struct next to the arguments on the stack, its origin is a context. Otherwise this
    /// function does the same as [`classify_kernel_pointer`](Self::classify_kernel_pointer).
    pub fn classify_argument_pointer(&self, region: &Region, addr: u64) -> Prov {
        let mut outer = self.stack_end;
        for frame in &self.frames {
            if (frame.top..outer).contains(&addr) {
                return Prov::context(addr - self.stack, outer - self.stack);
            }
            outer = frame.top - FRAME;
        }
        self.classify_kernel_pointer(region, addr)
    }

    /// Ends all views whose lifetime ends with the event `until`.
    pub fn expire(&mut self, until: Until, verb: &'static str, pc: usize) {
        self.work += self.temporary.len() / VIEWS;
        for at in 0..self.temporary.len() {
            let slot = self.temporary[at] as usize;
            if self.views[slot].until == until {
                self.kill(slot, verb, Some(pc));
            }
        }
    }

    /// Returns the slot of a reference that the call with the number `program` has acquired and not
    /// released.
    pub fn find_leak(&self, program: u32) -> Option<usize> {
        let held = |slot: &u32| {
            let view = &self.views[*slot as usize];
            view.alive && view.reference && view.program == program
        };
        self.temporary.iter().find(|slot| held(slot)).map(|&slot| slot as usize)
    }

    /// Ends all views of the previous outermost call, and forgets its comparisons with NULL.
    pub fn end_temporary(&mut self) {
        self.tested.clear();
        self.last_tested = 0;
        while let Some(slot) = self.temporary.pop() {
            self.kill(slot as usize, "left behind by an earlier call", None);
        }
    }

    /// Returns start and length of the object to which a pointer with this provenance originally
    /// pointed.
    pub fn bounds(&self, prov: Prov) -> Option<(u64, u64)> {
        match prov.origin() {
            Origin::View { slot, generation } => self.view(slot, generation).map(|view| (view.start, view.len)),
            Origin::Value { area, element } => {
                let area = &self.areas[area];
                Some((area.start + element * area.stride, area.len))
            }
            Origin::Slab { slab, index } => {
                let slab = &self.slabs[slab];
                Some((slab.base + index * slab.stride, slab.object_size))
            }
            Origin::Frame { top } => Some((self.stack + top - FRAME, FRAME)),
            Origin::Context { start, end } => Some((self.stack + start, end - start)),
            _ => None,
        }
    }
}

impl View {
    pub fn new(start: u64, len: u64, kind: ViewKind, born: usize) -> View {
        View {
            start,
            len,
            generation: 0,
            kind,
            until: Until::Freed,
            reference: false,
            program: 0,
            born,
            died: None,
            alive: true,
        }
    }
}

fn array_area(map: &Map) -> Option<StaticArea> {
    let (def, start, stride, elements) = map.array_layout()?;
    let of_maps = matches!(def.kind, kind::ARRAY_OF_MAPS);
    Some(StaticArea {
        start,
        end: start + stride * elements,
        stride,
        len: u64::from(def.value_size),
        writable: !of_maps,
        name: format!("value of map {}", def.name),
        fields: def.fields.clone(),
        map: Some(map.addr()),
    })
}

impl Objects {
    /// Records that a word with the value `value` and the provenance `prov` was stored to the
    /// stack.
    pub fn spill(&mut self, offset: u64, value: u64, prov: u64) {
        self.shadow[(offset / 8) as usize] = [prov, value];
    }

    /// Returns the provenance of a word that was loaded from the stack. If the word is still the
    /// spilled pointer, this is the provenance of the pointer. Otherwise the word is a number.
    pub fn spilled_prov(&self, offset: u64, value: u64) -> Prov {
        match self.shadow[(offset / 8) as usize] {
            [prov, spilled] if spilled == value => Prov(prov),
            _ => Prov::SCALAR,
        }
    }
}

impl Objects {
    /// Returns whether an address lies in read-only globals.
    pub fn is_constant(&self, addr: u64) -> bool {
        let at = self.areas.partition_point(|area| area.start <= addr);
        let area = self.areas[..at].last().filter(|area| addr < area.end);
        area.is_some_and(|area| !area.writable)
    }
}
