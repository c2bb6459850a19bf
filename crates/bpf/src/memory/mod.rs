// SPDX-License-Identifier: GPL-2.0-only
//! The address space of one simulated machine.
//!
//! Everything a policy can point at lies in one reservation of 128 GiB, aligned to its size: kernel objects, maps, globals,
//! objects allocated by BPF code, arenas and BPF stacks. So one compare tells whether an address is the policy's business,
//! and a policy cannot reach the simulator's own memory. The kernel's objects lie in the upper half: one compare tells whether
//! a program may store through a pointer, too. A store to the upper half is legal for the few fields that the kernel lets a
//! policy write ([`Region::may_store`]), so the simulator can trust everything else it keeps there. Inside, addresses are handed out in order of request from fixed
//! offsets, and the first machine of a process sits at the same address on every host: pointers are visible to policies
//! and must not differ between runs. What is not handed out is inaccessible, so a wild access inside faults in hardware.
//!
//! Every region has the same addresses for the policy, whatever else the process has mapped: a policy that hashes a pointer
//! behaves the same in every run. An address as a policy sees it, and as all of this crate passes it on, differs from the
//! host's address by [`Region::delta`], which only the loads and stores themselves add. The first region of a process lies where
//! the policy sees it, so that nothing is to be added there. The area map (offsets from the base):
//!
//! | from | area |
//! |---|---|
//! | 0 | guard |
//! | 64 KiB | zeros, read only: what loads through NULL see |
//! | 1 MiB | pages and small objects of BPF programs: maps, globals, stacks, hash elements, kptrs |
//! | 16 GiB | guard |
//! | 32 GiB | seven arenas of 4 GiB |
//! | 60 GiB | guard |
//! | 80 GiB | kernel objects, in slabs |
//! | 96 GiB | guard |

mod exhausted;
mod heap;
mod host;
mod host_maps;
pub(crate) mod layout;
mod limit;
mod objects;
mod pages;
mod region;
mod slab;

pub use exhausted::Exhausted;
pub use host::want_huge_pages;
pub use host_maps::OutOfMaps;
pub use layout::{ARENA_SIZE, NULL_LIMIT, OWN_SHIFT, PAGE, REACH, SHIFT, SIZE};
pub use limit::{DEFAULT_LIMIT, Memory, OutOfMemory, RECORD, Use};
pub use region::Region;
pub use slab::{ObjectType, Slab};

#[cfg(test)]
mod tests;
