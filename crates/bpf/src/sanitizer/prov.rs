// SPDX-License-Identifier: GPL-2.0-only
//! Provenance: the object to which a pointer originally pointed, encoded in one word. The top four
//! bits are the kind of object. Kind 0 means that the value is not a pointer. The sanitizer tracks
//! the provenance of each value.

/// Provenance of a number.
pub(crate) const SCALAR: u64 = 0;

/// Position of the bits for the kind of object. The constants that follow are the kinds. The enum
/// [`Origin`] explains each kind.
const KIND: u32 = 60;
const VIEW: u64 = 1;
const VALUE: u64 = 2;
const SLAB: u64 = 3;
const FRAME: u64 = 4;
const KERNEL: u64 = 5;
const CONTEXT: u64 = 6;
const NULL: u64 = 7;
const UNTRUSTED: u64 = 8;
const UNSET_KIND: u64 = 9;
const VARIED: u64 = 10;

/// Provenance of a register without a value.
pub(crate) const UNSET: u64 = UNSET_KIND << KIND;

/// Bit in the provenance of a pointer that may be NULL, because a function returned it or because
/// it was loaded from a kptr field. When the program compares the pointer with NULL, the bit is
/// cleared in the compared register only. The bit stays set in copies of the pointer, but
/// `Objects::is_untested` recognises them as compared.
pub(crate) const UNTESTED: u64 = 1 << 59;

/// Mask for the low bits of a view's generation, which a provenance contains. The generation is a
/// counter, which distinguishes objects that use the same slot one after another.
pub(super) const GENERATION: u32 = 0x7ff_ffff;

/// A provenance in its encoded form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Prov(pub u64);

/// A decoded provenance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// A number.
    Scalar,
    /// An object with a limited lifetime, identified by slot and generation in `Objects::views`.
    View { slot: usize, generation: u32 },
    /// Element of an array map, or a section of globals. `area` is the index in `Objects::areas`.
    Value { area: usize, element: u64 },
    /// A kernel object: the number of its slab and its index in the slab.
    Slab { slab: usize, index: u64 },
    /// A stack frame, identified by the value of its r10 as an offset in the stack.
    Frame { top: u64 },
    /// Other kernel memory, read-only.
    Kernel,
    /// The arguments of a program: start and end as offsets in the stack.
    Context { start: u64, end: u64 },
    /// NULL, returned by the call at this instruction.
    Null { pc: usize },
    /// A pointer to a kernel object that may be freed at any time. The program may read through the
    /// pointer but not pass it to functions.
    Untrusted,
    /// A register without a value.
    Unset,
    /// The address of a kernel object plus a number that the verifier would not know. The program
    /// may not access memory through it, and may only pass it to functions that accept any address.
    Varied,
}

impl Prov {
    pub const SCALAR: Prov = Prov(SCALAR);
    pub const KERNEL: Prov = Prov(KERNEL << KIND);
    pub const UNTRUSTED: Prov = Prov(UNTRUSTED << KIND);
    pub const UNSET: Prov = Prov(UNSET);
    pub const VARIED: Prov = Prov(VARIED << KIND);

    pub fn view(slot: usize, generation: u32) -> Prov {
        Prov(VIEW << KIND | u64::from(generation & GENERATION) << 32 | slot as u64)
    }

    pub fn value(area: usize, element: u64) -> Prov {
        Prov(VALUE << KIND | (area as u64) << 40 | element)
    }

    pub fn slab(slab: usize, index: u64) -> Prov {
        Prov(SLAB << KIND | (slab as u64) << 40 | index)
    }

    pub fn context(start: u64, end: u64) -> Prov {
        Prov(CONTEXT << KIND | end << 30 | start)
    }

    pub fn null(pc: usize) -> Prov {
        Prov(NULL << KIND | UNTESTED | pc as u64)
    }

    /// Returns this provenance with the mark of a pointer that the program has not compared with
    /// NULL.
    pub fn untested(self) -> Prov {
        Prov(self.0 | UNTESTED)
    }

    /// Returns this provenance without the mark of [`Prov::untested`].
    pub fn tested(self) -> Prov {
        Prov(self.0 & !UNTESTED)
    }

    pub fn is_untested(self) -> bool {
        self.0 & UNTESTED != 0
    }

    #[inline(always)]
    pub fn origin(self) -> Origin {
        let word = match self.0 >> KIND {
            CONTEXT => self.0,
            _ => self.0 & !UNTESTED,
        };
        let low = |bits: u32| word & ((1 << bits) - 1);
        match word >> KIND {
            VIEW => Origin::View {
                slot: low(32) as usize,
                generation: (low(KIND) >> 32) as u32,
            },
            VALUE => Origin::Value {
                area: (low(KIND) >> 40) as usize,
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
            UNSET_KIND => Origin::Unset,
            VARIED => Origin::Varied,
            _ => Origin::Scalar,
        }
    }
}

impl Origin {
    /// Returns whether a function can return either a pointer with this origin or NULL.
    pub fn may_be_null(self) -> bool {
        !matches!(self, Origin::Context { .. } | Origin::Frame { .. } | Origin::Scalar)
    }
}

/// Returns the provenance of a frame whose r10 points to the start of the stack. For another frame,
/// add the distance from the start of the stack to its r10.
pub(crate) const fn frame() -> u64 {
    FRAME << KIND
}
