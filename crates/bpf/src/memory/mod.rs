// SPDX-License-Identifier: GPL-2.0-only
//! The address space of one simulated machine (the region).
//!
//! All memory to which a policy can point lies in one reservation of 128 GiB, aligned to its size:
//! kernel objects, maps, globals, objects allocated by BPF code, arenas and BPF stacks. One
//! comparison shows whether an address lies in the region, so a policy cannot reach the simulator's
//! own memory. Unallocated parts are inaccessible, so a bad access inside the region raises
//! SIGSEGV.
//!
//! Kernel objects lie in the upper half. One comparison thus also shows whether a program may store
//! through a pointer. A store to the upper half is legal only if it goes to one of the few fields
//! that the kernel lets a policy write ([`Region::may_store`]). The simulator can therefore trust
//! all other data in the upper half.
//!
//! A policy can see the values of pointers, for example to hash them, and must still behave the
//! same in every run. It therefore sees the same addresses in every region, and memory is allocated
//! in the order of the requests from fixed offsets.
//!
//! This crate uses the policy's addresses throughout. The host's address of the same memory is the
//! policy's address plus [`Region::delta`]. Only the code that loads and stores adds this
//! difference. The difference is 0 for the first region of a process if the host has not used these
//! addresses for something else.
//!
//! The areas of a region (offsets from its base):
//!
//! | from | area |
//! |---|---|
//! | 0 | inaccessible |
//! | 64 KiB | zeros, read-only, for loads through NULL |
//! | 1 MiB | pages and small objects of BPF programs: maps, globals, stacks, hash elements, kptrs |
//! | 16 GiB | inaccessible |
//! | 32 GiB | seven arenas of 4 GiB |
//! | 60 GiB | inaccessible |
//! | 80 GiB | kernel objects, in slabs |
//! | 96 GiB | inaccessible |

mod exhausted;
mod heap;
#[cfg_attr(miri, path = "host_miri.rs")]
pub(crate) mod host;
mod host_maps;
pub(crate) mod layout;
mod limit;
mod objects;
mod owned;
mod pages;
mod region;
mod share;
pub(crate) mod slab;

pub use exhausted::Exhausted;
pub use host::want_huge_pages;
pub use host_maps::OutOfMaps;
pub use layout::{ARENA_SIZE, NULL_LIMIT, OWN_SHIFT, PAGE, REACH, SHIFT, SIZE};
pub use limit::{DEFAULT_LIMIT, Memory, OutOfMemory, RECORD, Use};
pub use owned::Owned;
pub use region::{Bytes, Region};
pub use share::SharedFile;
pub(crate) use share::Window;
pub use slab::{ObjectType, Slab};

#[cfg(test)]
mod tests;
