// SPDX-License-Identifier: GPL-2.0-only
//! The address space of one simulated machine.
//!
//! All memory to which a policy can point lies in one reservation of 128 GiB, aligned to its size:
//! kernel objects, maps, globals, objects allocated by BPF code, arenas and BPF stacks. One
//! comparison shows whether an address lies in the region, so a policy cannot reach the simulator's
//! own memory. Unallocated parts are inaccessible, so a wild access inside the region faults in
//! hardware.
//!
//! Kernel objects lie in the upper half. One comparison thus also shows whether a program may store
//! through a pointer. Stores to the upper half are legal only for the few fields that the kernel
//! lets a policy write ([`Region::may_store`]), so the simulator can trust everything else that it
//! keeps there.
//!
//! Policies can see pointers, so pointers must not differ between runs: a policy that hashes a
//! pointer must behave the same in every run. Every region therefore has the same addresses for the
//! policy, and memory is allocated in the order of requests from fixed offsets. This crate uses the
//! policy's addresses throughout. The host's address differs from them by [`Region::delta`], which
//! only the loads and stores themselves add. It is 0 for the first region of a process if the host
//! has these addresses free.
//!
//! The areas of a region (offsets from its base):
//!
//! | from | area |
//! |---|---|
//! | 0 | guard |
//! | 64 KiB | zeros, read-only, for loads through NULL |
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
