// SPDX-License-Identifier: GPL-2.0-only
//! Provenance: what a pointer was made from, in one word. The kind is in the top four bits, 0 is no pointer.

/// No pointer.
pub(crate) const SCALAR: u64 = 0;

const KIND: u32 = 60;
const VIEW: u64 = 1;
const VALUE: u64 = 2;
const SLAB: u64 = 3;
const FRAME: u64 = 4;
const KERNEL: u64 = 5;
const CONTEXT: u64 = 6;
const NULL: u64 = 7;
const UNTRUSTED: u64 = 8;

/// A provenance as it is kept beside a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Prov(pub u64);

/// The same, read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// An integer.
    Scalar,
    /// Something with a lifetime: slot and generation in `Objects::views`.
    View { slot: usize, generation: u32 },
    /// Element of a map that is an array, or a section of globals: `Objects::places`.
    Value { place: usize, element: u64 },
    /// A kernel object: slab and place in it.
    Slab { slab: usize, index: u64 },
    /// A stack frame: its r10, as an offset in the stack.
    Frame { top: u64 },
    /// Other memory of the kernel, to be read.
    Kernel,
    /// The arguments: offsets in the stack.
    Context { start: u64, end: u64 },
    /// What a call returned was NULL: the instruction.
    Null { pc: usize },
    /// A kernel pointer that nothing keeps alive: may be read, and given to nobody.
    Untrusted,
}

impl Prov {
    pub const SCALAR: Prov = Prov(SCALAR);
    pub const KERNEL: Prov = Prov(KERNEL << KIND);
    pub const UNTRUSTED: Prov = Prov(UNTRUSTED << KIND);

    pub fn view(slot: usize, generation: u32) -> Prov {
        Prov(VIEW << KIND | u64::from(generation & 0xfff_ffff) << 32 | slot as u64)
    }

    pub fn value(place: usize, element: u64) -> Prov {
        Prov(VALUE << KIND | (place as u64) << 40 | element)
    }

    pub fn slab(slab: usize, index: u64) -> Prov {
        Prov(SLAB << KIND | (slab as u64) << 40 | index)
    }

    pub fn context(start: u64, end: u64) -> Prov {
        Prov(CONTEXT << KIND | end << 30 | start)
    }

    pub fn null(pc: usize) -> Prov {
        Prov(NULL << KIND | pc as u64)
    }

    #[inline(always)]
    pub fn origin(self) -> Origin {
        let low = |bits: u32| self.0 & ((1 << bits) - 1);
        match self.0 >> KIND {
            VIEW => Origin::View {
                slot: low(32) as usize,
                generation: (low(KIND) >> 32) as u32,
            },
            VALUE => Origin::Value {
                place: (low(KIND) >> 40) as usize,
                element: low(40),
            },
            SLAB => Origin::Slab {
                slab: (low(KIND) >> 40) as usize,
                index: low(40),
            },
            FRAME => Origin::Frame { top: low(32) },
            KERNEL => Origin::Kernel,
            CONTEXT => Origin::Context {
                start: low(30),
                end: low(KIND) >> 30,
            },
            NULL => Origin::Null { pc: low(32) as usize },
            UNTRUSTED => Origin::Untrusted,
            _ => Origin::Scalar,
        }
    }
}

/// The provenance of r10 of the frame with this offset in the stack is this plus the offset.
pub(crate) const fn frame() -> u64 {
    FRAME << KIND
}
