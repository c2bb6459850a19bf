// SPDX-License-Identifier: GPL-2.0-only
//! Owners of single kernel objects in the region.

use super::region::Region;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Owner of a kernel object in the region. The owner reads and writes the object like the contents
/// of a `Box`. Programs read the same memory by its address. They run only while the caller has
/// exclusive access to the owner, so no reference to the object exists at that time.
#[derive(Debug)]
pub struct Owned<T> {
    addr: u64,
    host: NonNull<T>,
}

impl<T> Owned<T> {
    /// Returns the owner of the object at an address.
    ///
    /// # Safety
    /// The region contains a valid `T` at `addr` and lives longer than the owner. The object has no
    /// other owner that is still used, and nothing frees it while the owner is used: the next
    /// [`Slab::alloc`](super::Slab::alloc) would clear it.
    pub unsafe fn new(region: &Region, addr: u64) -> Owned<T> {
        debug_assert!(region.contains(addr), "{addr:#x} is not in the region");
        Owned {
            addr,
            // SAFETY: the caller guarantees that memory of the region is mapped at the address.
            host: unsafe { NonNull::new_unchecked(region.host(addr)) },
        }
    }

    /// Returns the address at which programs see the object.
    #[inline(always)]
    pub fn addr(&self) -> u64 {
        self.addr
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: see `new`. The object is borrowed together with its only owner.
        unsafe { self.host.as_ref() }
    }
}

impl<T> DerefMut for Owned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { self.host.as_mut() }
    }
}
