// SPDX-License-Identifier: GPL-2.0-only
//! Slabs: arrays of simulated kernel objects, with one array for each kind of object.

use super::host::Access;
use super::layout::{PAGE, within};
use super::region::Region;

/// Kind of the objects in a slab.
#[derive(Debug)]
pub struct ObjectType {
    /// C name.
    pub name: &'static str,
    /// Offset and size of each field to which programs may store, by ascending offset.
    pub writable: &'static [(u64, u64)],
    /// Parts of an object that functions accept in place of a kernel object of the part's type. For
    /// each part: its offset and the name of its `struct`.
    pub parts: &'static [(u64, &'static str)],
    /// Returns the C name of the field at an offset.
    pub field_at: fn(u64) -> String,
}

/// Position of a slab in memory, and the sizes and type of its objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlabLayout {
    pub base: u64,
    /// Address at which the host has mapped `base`.
    host: u64,
    pub size: u64,
    /// Size of an object in bytes.
    pub object_size: u64,
    /// Distance between two objects in bytes.
    pub stride: u64,
    /// 2^64 / stride, rounded up. A multiplication by this number replaces a division by the
    /// stride.
    inverse: u64,
    pub ty: &'static ObjectType,
}

impl SlabLayout {
    pub fn new(base: u64, delta: u64, object_size: u64, max: u64, ty: &'static ObjectType) -> SlabLayout {
        let stride = object_size.next_multiple_of(64);
        SlabLayout {
            base,
            host: base.wrapping_add(delta),
            size: stride * max,
            object_size,
            stride,
            inverse: u64::MAX / stride + 1,
            ty,
        }
    }

    /// Returns the index of the object that starts at this address.
    #[inline]
    pub fn index(&self, addr: u64) -> Option<u64> {
        let offset = addr.wrapping_sub(self.base);
        let index = self.divide(offset);
        (offset < self.size && index * self.stride == offset).then_some(index)
    }

    /// Returns `offset / stride`. The result is exact within the slab, because offsets and strides
    /// are below 2^35.
    #[inline]
    fn divide(&self, offset: u64) -> u64 {
        ((u128::from(offset) * u128::from(self.inverse)) >> 64) as u64
    }

    /// Returns whether a program may store to these bytes, which begin in the slab.
    #[inline]
    pub fn may_store(&self, addr: u64, size: u64) -> bool {
        let offset = addr - self.base;
        let offset = offset - self.divide(offset) * self.stride;
        let mut fields = self.ty.writable.iter();
        fields.any(|&(start, len)| within(offset, size, start, len))
    }
}

/// An array of objects of one kind. The object that was freed last is reused first.
#[derive(Debug)]
pub struct Slab {
    /// [`Region::id`] of the region that contains the slab.
    region: u64,
    layout: SlabLayout,
    max: u64,
    /// Number of objects that were ever allocated. Object `next` is the first one that was never in
    /// use.
    next: u64,
    /// Address at which the accessible part of the slab ends.
    accessible: u64,
    free: Vec<u32>,
}

impl Slab {
    pub(super) fn new(region: u64, layout: SlabLayout, max: u64) -> Slab {
        Slab {
            region,
            layout,
            max,
            next: 0,
            accessible: layout.base,
            free: Vec::new(),
        }
    }

    /// Allocates an object, filled with zeros. Returns `None` if `max` objects are in use or the
    /// host has no memory left. Panics if the slab belongs to a different region.
    pub fn alloc(&mut self, region: &Region) -> Option<u64> {
        assert!(self.region == region.id(), "a slab is used with its own region");
        if let Some(index) = self.free.pop() {
            let addr = self.addr(u64::from(index));
            // SAFETY: the object was allocated before, so it is accessible, and it is free now.
            unsafe { std::ptr::write_bytes(region.host::<u8>(addr), 0, self.layout.stride as usize) };
            return Some(addr);
        }
        if self.next == self.max {
            return None;
        }
        let addr = self.addr(self.next);
        if addr + self.layout.stride > self.accessible {
            // The accessible part grows in larger and larger steps. If it grew by one page each
            // time, the creation of many tasks would consist mostly of calls of mprotect.
            let used = self.accessible - self.layout.base;
            let end = (self.layout.base + self.layout.stride * self.max).next_multiple_of(PAGE);
            let want = (addr + self.layout.stride + used).next_multiple_of(PAGE).min(end);
            let (from, size) = (self.accessible, want - self.accessible);
            region.protect(from, size, Access::ReadWrite).ok()?;
            self.accessible = want;
        }
        self.next += 1;
        Some(addr)
    }

    /// Frees an object.
    pub fn free(&mut self, addr: u64) {
        let index = self.index(addr).expect("the caller frees an object of this slab");
        self.free.push(index as u32);
    }

    /// Returns the host address of object `index`.
    #[inline]
    pub fn host<T>(&self, index: u64) -> *mut T {
        (self.layout.host + index * self.layout.stride) as *mut T
    }

    /// Returns the address of object `index`.
    #[inline]
    pub fn addr(&self, index: u64) -> u64 {
        self.layout.base + index * self.layout.stride
    }

    /// Returns the distance between two objects in bytes.
    #[inline]
    pub fn stride(&self) -> u64 {
        self.layout.stride
    }

    /// Returns the index of the object that starts at this address. The object may be live or
    /// freed. Callers use this to check pointers that a policy passes.
    #[inline]
    pub fn index(&self, addr: u64) -> Option<u64> {
        self.layout.index(addr).filter(|&index| index < self.next)
    }
}
