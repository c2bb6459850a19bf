// SPDX-License-Identifier: GPL-2.0-only
//! Offsets and sizes of the areas of a region (the memory of one simulated machine).
//! [`memory`](super) has a table of the areas.

/// Base-2 logarithm of the unit in which the large areas are measured: 1 GiB. Miri cannot reserve
/// address space without using memory, so the unit is 256 KiB there.
const UNIT_SHIFT: u32 = if cfg!(miri) { 18 } else { 30 };
const UNIT: u64 = 1 << UNIT_SHIFT;

/// Size and alignment of a region in bytes.
pub const SIZE: u64 = 1 << SHIFT;
/// Base-2 logarithm of [`SIZE`]. `addr >> SHIFT` has the same value for all addresses in a region,
/// and a different value for all other addresses.
pub const SHIFT: u32 = UNIT_SHIFT + 7;
/// Base-2 logarithm of the size of the lower half, which contains the program's own memory. `addr
/// >> OWN_SHIFT` has the same value for all addresses in this half.
pub const OWN_SHIFT: u32 = SHIFT - 1;
/// First address of every region, as policies see it.
pub(crate) const BASE: u64 = 0x2000_0000_0000;
/// Alignment of a region on the host if [`BASE`] is not free there. It makes huge pages possible.
pub(crate) const HOST_ALIGN: u64 = 2 << 20;

/// Size of a page.
pub const PAGE: u64 = 4096;
/// If the base register of a load is below this address, the load reads zeros, as the kernel's
/// PROBE_MEM loads do.
pub const NULL_LIMIT: u64 = 64 << 10;
/// Maximum distance of a BPF load or store from its base register. The offset field has 16 bits,
/// including the sign.
pub const REACH: u64 = 64 << 10;

/// Number of bytes that are reserved on the host for a region: the region and an inaccessible
/// margin on each side.
pub(crate) const RESERVED: usize = (SIZE + 2 * REACH) as usize;
// Offsets and sizes of the areas. The comment of `memory` explains each area.
pub(crate) const ZEROS: u64 = 64 << 10;
pub(crate) const ZEROS_SIZE: u64 = 2 * REACH;
pub(crate) const BPF: u64 = 1 << 20;
pub(crate) const BPF_END: u64 = 16 * UNIT;
pub(crate) const ARENAS: u64 = 32 * UNIT;
pub(crate) const KERNEL: u64 = 80 * UNIT;
pub(crate) const KERNEL_END: u64 = 96 * UNIT;
/// Size and alignment of an arena. Because of the alignment, a cast of a pointer into the arena is
/// only `base | low 32 bits of the pointer`.
pub const ARENA_SIZE: u64 = 4 * UNIT;
pub(crate) const NR_ARENAS: u64 = 7;
/// Offset from the region's base to the words of the cache model, which lie beyond the region.
pub(crate) const LINES: u64 = SIZE + UNIT;

/// Size of a chunk. A chunk contains small objects of one size class.
pub(crate) const CHUNK: u64 = 64 << 10;
/// Sizes in bytes to which the sizes of small objects are rounded up.
pub(crate) const CLASSES: [u64; 19] = [
    16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 32768,
];

/// Largest size of a small object. A larger object has its own pages.
pub(crate) const LARGEST_CLASS: u64 = CLASSES[CLASSES.len() - 1];

/// Returns whether the `size` bytes at `offset` lie within the `len` bytes at `start`.
pub(super) fn within(offset: u64, size: u64, start: u64, len: u64) -> bool {
    offset >= start && offset - start < len && size <= len - (offset - start)
}

/// Returns whether an access through a checked base register can reach this address. This is true
/// for addresses in the region that begins at `base`, and within [`REACH`] of the region.
pub(crate) fn in_reach(base: u64, addr: u64) -> bool {
    addr.wrapping_sub(base - REACH) < SIZE + 2 * REACH
}
