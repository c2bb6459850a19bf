// SPDX-License-Identifier: GPL-2.0-only
//! What a program's pointers can point to: arrays and globals, which stay; kernel objects, by slab; and views of what comes
//! and goes: map elements, allocated objects, ring buffer records, references.

use super::prov::{GENERATION, Origin, Prov};
use super::rules::{KernelObject, Rules};
use crate::image::Field;
use crate::insn::FRAME;
use crate::map::{Map, kind};
use crate::memory::{Region, SHIFT};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Dead views are kept so long before their slot is used again: what they were can then still be told.
const QUARANTINE: usize = 4096;

/// Elements side by side that stay where they are.
pub(super) struct Place {
    pub start: u64,
    pub end: u64,
    pub stride: u64,
    /// Bytes of an element that are the program's.
    pub len: u64,
    pub writable: bool,
    /// `value of map x`, or a section's name.
    pub what: String,
    pub fields: Vec<Field>,
    /// Address of the map, if it is one.
    pub map: Option<u64>,
}

/// What a view is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// An element of a map: by number.
    Value(usize),
    /// What bpf_obj_new made, of this local type.
    Object(u32),
    /// What bpf_percpu_obj_new made of this local type, of all CPUs: not to be looked into.
    Percpu(u32),
    /// That of one CPU.
    Copy(u32),
    /// A bpf_cpumask.
    Cpumask,
    /// A ring buffer's record.
    Record,
    /// A kernel object, by slab.
    Kernel(usize),
    /// What a program was given by user space.
    Input,
    /// Something to hold and not to look into.
    Opaque,
    /// What an iterator shows.
    Element,
}

/// When a view ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Until {
    Freed,
    /// bpf_spin_unlock: a pointer into a list or tree that the program does not own.
    Unlock,
    /// bpf_rcu_read_unlock.
    RcuUnlock,
}

/// Something that a program holds a pointer to.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub start: u64,
    pub len: u64,
    pub generation: u32,
    pub kind: Kind,
    pub until: Until,
    /// It must be given back.
    pub reference: bool,
    /// Which call of the program has made it.
    pub program: u32,
    /// What made it.
    pub born: usize,
    /// What ended it: the verb and the instruction, if it was one of the program.
    pub died: Option<(&'static str, Option<usize>)>,
    pub alive: bool,
}

pub(super) struct Slab {
    pub base: u64,
    pub stride: u64,
    pub size: u64,
    pub name: &'static str,
    pub writable: Vec<(u64, u64)>,
    pub parts: Vec<(u64, &'static str)>,
}

pub(super) struct Objects {
    pub places: Vec<Place>,
    pub slabs: Vec<Slab>,
    pub views: Vec<View>,
    dead: VecDeque<u32>,
    /// Views of memory that was allocated, by start.
    live: BTreeMap<u64, u32>,
    /// Views of one call of the outermost program.
    passing: Vec<u32>,
    pub shadow: Box<[[u64; 2]]>,
    pub stack: u64,
    pub stack_end: u64,
    pub tag: u64,
    pub arena: u64,
    /// Frames under way, outermost first.
    pub frames: Vec<Frame>,
    /// Pointers that the outermost program has compared with NULL.
    tested: BTreeSet<u64>,
    /// The last of them.
    last_tested: u64,
}

/// A function under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Its r10.
    pub top: u64,
    pub function: usize,
    /// The instruction that called it, within the program.
    pub caller: Option<usize>,
    pub depth: u32,
}

impl Objects {
    pub fn new(region: &Region, maps: &[Map], (stack, stack_end): (u64, u64), arena: u64, rules: &Rules) -> Objects {
        let mut places: Vec<Place> = maps.iter().filter_map(place_of_map).collect();
        places.extend(rules.sections.iter().map(|section| Place {
            start: section.addr,
            end: section.addr + section.size,
            stride: section.size.max(1),
            len: section.size,
            writable: section.writable,
            what: format!("globals in {}", section.name),
            fields: section.fields.clone(),
            map: None,
        }));
        places.sort_by_key(|place| place.start);
        let slab = |(n, (base, stride)): (usize, (u64, u64))| {
            let of = |object: &&KernelObject| region.object_around(object.at).map(|(n, ..)| n) == Some(n);
            let known = rules.objects.iter().find(of);
            Slab {
                base,
                stride,
                size: known.map_or(stride, |object| object.size),
                name: known.map_or("kernel object", |object| object.name),
                writable: known.map_or(Vec::new(), |object| object.writable.clone()),
                parts: known.map_or(Vec::new(), |object| object.parts.clone()),
            }
        };
        Objects {
            places,
            slabs: region.slabs().into_iter().enumerate().map(slab).collect(),
            views: Vec::new(),
            dead: VecDeque::new(),
            live: BTreeMap::new(),
            passing: Vec::new(),
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

    /// The program compares this pointer with NULL: that holds for its copies, too.
    pub fn note_tested(&mut self, prov: Prov) {
        let tested = prov.tested().0;
        if tested != self.last_tested {
            self.last_tested = tested;
            self.tested.insert(tested);
        }
    }

    /// Whether a pointer may be NULL as far as the program knows.
    #[inline(always)]
    pub fn is_untested(&self, prov: Prov) -> bool {
        let tested = prov.tested().0;
        prov.is_untested()
            && prov.origin().may_be_null()
            && tested != self.last_tested
            && !self.tested.contains(&tested)
    }

    /// What an address belongs to that comes from the kernel, from a helper, or is a constant.
    pub fn classify(&self, region: &Region, addr: u64) -> Prov {
        if addr >> SHIFT != self.tag || region.in_arenas(addr) {
            return Prov::SCALAR;
        }
        if (self.stack..self.stack_end).contains(&addr) {
            // What the kernel keeps there for a program: the number of an iterator, the key of an element.
            return Prov::KERNEL;
        }
        let at = self.places.partition_point(|place| place.start <= addr);
        if let Some(place) = self.places[..at].last().filter(|place| addr < place.end) {
            return Prov::value(at - 1, (addr - place.start) / place.stride);
        }
        if region.in_bpf_area(addr) {
            return self.live_at(addr).map_or(Prov::KERNEL, |slot| self.prov(slot));
        }
        region
            .object_around(addr)
            .filter(|&(slab, ..)| slab < self.slabs.len())
            .map_or(Prov::KERNEL, |(slab, index, _)| Prov::slab(slab, index))
    }

    /// The allocated memory around an address.
    fn live_at(&self, addr: u64) -> Option<usize> {
        let (_, &slot) = self.live.range(..=addr).next_back()?;
        let view = &self.views[slot as usize];
        (addr - view.start < view.len).then_some(slot as usize)
    }

    pub fn prov(&self, slot: usize) -> Prov {
        Prov::view(slot, self.views[slot].generation)
    }

    /// The view that a provenance means, dead or alive; `None` once its slot has another owner.
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

    /// A view of allocated memory, the one that is there already if there is.
    pub fn allocated(&mut self, start: u64, len: u64, kind: Kind, born: usize) -> Prov {
        if let Some(&slot) = self.live.get(&start) {
            return self.prov(slot as usize);
        }
        let slot = self.add(View::new(start, len, kind, born));
        self.live.insert(start, slot as u32);
        self.prov(slot)
    }

    /// A view for as long as the outermost program runs at most.
    pub fn passing(&mut self, view: View) -> Prov {
        let slot = self.add(view);
        self.passing.push(slot as u32);
        self.prov(slot)
    }

    /// The view has come to its end.
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

    /// Memory was freed since the last time: by this instruction, if one is running.
    pub fn take_freed(&mut self, region: &Region, pc: Option<usize>) {
        while let Some(addr) = region.take_freed() {
            let Some((start, size)) = region.alloc_around(addr).or(Some((addr, 1))) else {
                continue;
            };
            let slots: Vec<u32> = self.live.range(start..start + size).map(|(_, &slot)| slot).collect();
            for slot in slots {
                self.kill(slot as usize, "freed", pc);
            }
            for at in 0..self.passing.len() {
                let slot = self.passing[at] as usize;
                if (start..start + size).contains(&self.views[slot].start) {
                    self.kill(slot, "freed", pc);
                }
            }
        }
    }

    /// A record of a ring buffer was submitted: what points into it points to nothing of the program's.
    pub fn end_record(&mut self, start: u64, len: u64, pc: usize) {
        for at in 0..self.passing.len() {
            let slot = self.passing[at] as usize;
            let view = &self.views[slot];
            if view.start >= start && view.start - start <= len {
                self.kill(slot, "submitted", Some(pc));
            }
        }
    }

    /// What a pointer is that the kernel gave: to its own, or one that may be read and no more.
    pub fn of_kernel(&self, region: &Region, addr: u64) -> Prov {
        let prov = self.classify(region, addr);
        match prov.origin() {
            Origin::Kernel | Origin::Slab { .. } | Origin::Scalar => prov,
            _ => Prov::UNTRUSTED,
        }
    }

    /// What a pointer is that the kernel's call of a program has brought: its struct beside the arguments, or as `of_kernel`.
    pub fn of_arguments(&self, region: &Region, addr: u64) -> Prov {
        let mut outer = self.stack_end;
        for frame in &self.frames {
            if (frame.top..outer).contains(&addr) {
                return Prov::context(addr - self.stack, outer - self.stack);
            }
            outer = frame.top - FRAME;
        }
        self.of_kernel(region, addr)
    }

    /// What holds until this ends.
    pub fn expire(&mut self, until: Until, verb: &'static str, pc: usize) {
        for at in 0..self.passing.len() {
            let slot = self.passing[at] as usize;
            if self.views[slot].until == until {
                self.kill(slot, verb, Some(pc));
            }
        }
    }

    /// References that this call of a program has not given back.
    pub fn leaked(&self, program: u32) -> Option<usize> {
        let held = |slot: &u32| {
            let view = &self.views[*slot as usize];
            view.alive && view.reference && view.program == program
        };
        self.passing.iter().find(|slot| held(slot)).map(|&slot| slot as usize)
    }

    /// The outermost program is through.
    pub fn forget_passing(&mut self) {
        self.tested.clear();
        self.last_tested = 0;
        while let Some(slot) = self.passing.pop() {
            self.kill(slot as usize, "left behind by an earlier call", None);
        }
    }

    /// What a pointer with this provenance points into: start, length, live; of a reference to what it was made from.
    pub fn bounds(&self, prov: Prov) -> Option<(u64, u64)> {
        match prov.origin() {
            Origin::View { slot, generation } => self.view(slot, generation).map(|view| (view.start, view.len)),
            Origin::Value { place, element } => {
                let place = &self.places[place];
                Some((place.start + element * place.stride, place.len))
            }
            Origin::Slab { slab, index } => {
                let slab = &self.slabs[slab];
                Some((slab.base + index * slab.stride, slab.size))
            }
            Origin::Frame { top } => Some((self.stack + top - FRAME, FRAME)),
            Origin::Context { start, end } => Some((self.stack + start, end - start)),
            _ => None,
        }
    }
}

impl View {
    pub fn new(start: u64, len: u64, kind: Kind, born: usize) -> View {
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

fn place_of_map(map: &Map) -> Option<Place> {
    let (def, start, stride, elements) = map.place()?;
    let of_maps = matches!(def.kind, kind::ARRAY_OF_MAPS);
    Some(Place {
        start,
        end: start + stride * elements,
        stride,
        len: u64::from(def.value_size),
        writable: !of_maps,
        what: format!("value of map {}", def.name),
        fields: def.fields.clone(),
        map: Some(map.addr()),
    })
}

impl Objects {
    /// A pointer was stored to the stack.
    pub fn spill(&mut self, offset: u64, value: u64, prov: u64) {
        self.shadow[(offset / 8) as usize] = [prov, value];
    }

    /// What was loaded from the stack: what was spilled there, if that is still there.
    pub fn filled(&self, offset: u64, value: u64) -> Prov {
        match self.shadow[(offset / 8) as usize] {
            [prov, spilled] if spilled == value => Prov(prov),
            _ => Prov::SCALAR,
        }
    }
}

impl Objects {
    /// Whether an address is one of read-only globals.
    pub fn is_constant(&self, addr: u64) -> bool {
        let at = self.places.partition_point(|place| place.start <= addr);
        let place = self.places[..at].last().filter(|place| addr < place.end);
        place.is_some_and(|place| !place.writable)
    }
}
