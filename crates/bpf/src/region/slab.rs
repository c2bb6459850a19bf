// SPDX-License-Identifier: GPL-2.0-only
//! Slabs: where the kernel's objects lie, each kind in its own.

use super::{PAGE, Region};

/// Where a slab's objects are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub base: u64,
    pub size: u64,
    pub stride: u64,
    /// 2^64 / stride, rounded up: a multiplication instead of a division.
    inverse: u64,
}

impl Places {
    pub fn new(base: u64, stride: u64, max: u64) -> Places {
        Places {
            base,
            size: stride * max,
            stride,
            inverse: u64::MAX / stride + 1,
        }
    }

    /// Which object starts at this address?
    #[inline]
    pub fn index(&self, addr: u64) -> Option<u64> {
        let offset = addr.wrapping_sub(self.base);
        // Exact within the slab: its offsets and strides are below 2^35.
        let index = ((u128::from(offset) * u128::from(self.inverse)) >> 64) as u64;
        (offset < self.size && index * self.stride == offset).then_some(index)
    }
}

/// Objects of one kind at a fixed stride: `task_struct`s, `cgroup`s. Last freed, first reused.
#[derive(Debug)]
pub struct Slab {
    places: Places,
    max: u64,
    /// Objects ever handed out.
    next: u64,
    /// End of what is accessible.
    accessible: u64,
    free: Vec<u32>,
}

impl Slab {
    pub(super) fn new(places: Places, max: u64) -> Slab {
        Slab {
            places,
            max,
            next: 0,
            accessible: places.base,
            free: Vec::new(),
        }
    }

    /// A zeroed object; `None` when `max` are in use or the host gives no memory.
    pub fn alloc(&mut self, region: &Region) -> Option<u64> {
        if let Some(index) = self.free.pop() {
            let addr = self.addr(u64::from(index));
            unsafe { std::ptr::write_bytes(addr as *mut u8, 0, self.places.stride as usize) };
            return Some(addr);
        }
        if self.next == self.max {
            return None;
        }
        let addr = self.addr(self.next);
        self.next += 1;
        if addr + self.places.stride > self.accessible {
            // Grow in larger and larger steps: a page-wise mprotect would dominate the creation of many tasks.
            let used = self.accessible - self.places.base;
            let end = (self.places.base + self.places.stride * self.max).next_multiple_of(PAGE);
            let want = (addr + self.places.stride + used).next_multiple_of(PAGE).min(end);
            let (start, size) = (self.accessible, want - self.accessible);
            if region.protect(start, size, libc::PROT_READ | libc::PROT_WRITE).is_err() {
                self.next -= 1;
                return None;
            }
            self.accessible = want;
        }
        Some(addr)
    }

    /// Returns an object.
    pub fn free(&mut self, addr: u64) {
        let index = self.index(addr).expect("an object of this slab");
        self.free.push(index as u32);
    }

    /// Address of object `index`.
    #[inline]
    pub fn addr(&self, index: u64) -> u64 {
        self.places.base + index * self.places.stride
    }

    /// Which object starts at this address? For checking pointers of policies; freed objects still count.
    #[inline]
    pub fn index(&self, addr: u64) -> Option<u64> {
        self.places.index(addr).filter(|&index| index < self.next)
    }
}
