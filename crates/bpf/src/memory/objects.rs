// SPDX-License-Identifier: GPL-2.0-only
//! Slabs (arrays) of kernel objects in the region. Programs may read these objects, and may store
//! to some of their fields.

use super::layout::*;
use super::region::Region;
use super::slab::{ObjectType, Slab, SlabLayout};
use crate::error::Error;
use crate::fault::{Fault, FaultKind};

impl Region {
    /// Reserves space in the area of kernel objects for at most `max` objects of `size` bytes.
    /// Programs may read these objects, and may store to the fields that the type declares as
    /// writable.
    ///
    /// # Errors
    /// The kernel area is too small for that many objects.
    pub fn slab(&self, ty: &'static ObjectType, size: u64, max: u64) -> Result<Slab, Error> {
        let base = self.kernel_next.get();
        let end = size
            .checked_next_multiple_of(64)
            .and_then(|stride| stride.checked_mul(max))
            .filter(|&bytes| bytes <= KERNEL_END - KERNEL)
            .map(|bytes| base + bytes.next_multiple_of(PAGE) + PAGE)
            .filter(|&end| end <= self.base + KERNEL_END);
        let Some(end) = end else {
            let name = ty.name;
            return Err(Error::new(format!(
                "{max} objects of {size} bytes ({name}) do not fit the memory of the simulated kernel: \
                 choose a smaller machine or fewer cgroups"
            )));
        };
        self.kernel_next.set(end);
        let layout = SlabLayout::new(base, self.delta, size, max, ty);
        if !ty.writable.is_empty() {
            let _ = self.writable.set(layout);
        }
        self.slabs.borrow_mut().push(layout);
        Ok(Slab::new(self.id(), layout, max))
    }

    /// Returns whether a program may store to these bytes in kernel memory. The bytes must belong
    /// to a field for which the kernel's verifier accepts stores (`btf_struct_access` of struct
    /// bpf_verifier_ops).
    #[inline]
    pub fn may_store(&self, addr: u64, size: u64) -> bool {
        match self.writable.get() {
            Some(slab) if addr.wrapping_sub(slab.base) < slab.size => slab.may_store(addr, size),
            _ => self.may_store_elsewhere(addr, size),
        }
    }

    fn may_store_elsewhere(&self, addr: u64, size: u64) -> bool {
        let slabs = self.slabs.borrow();
        let slab = slabs.iter().find(|slab| addr.wrapping_sub(slab.base) < slab.size);
        slab.is_some_and(|slab| slab.may_store(addr, size))
    }

    /// Returns whether a store of `size` bytes at `offset` from a pointer may go to a writable
    /// field of a kernel object. The pointer may point to the object, to the struct that begins
    /// with the first writable field, or to the field itself.
    ///
    /// If this function returns `false` for a store instruction, the store never goes to a writable
    /// field. The JIT and the interpreter then refuse the store through any pointer into kernel
    /// memory. If all stores through a pointer are of this kind, compiled code checks the pointer
    /// only once, whatever the offsets of the stores are.
    pub(crate) fn may_be_field(&self, offset: i64, size: u64) -> bool {
        let slabs = self.slabs.borrow();
        let mut types = slabs.iter().map(|slab| slab.ty.writable);
        types.any(|fields| {
            let first = fields.first().map_or(0, |&(first, _)| first);
            let matches = |&(at, len): &(u64, u64)| {
                [at, at - first, 0]
                    .iter()
                    .any(|&start| within(offset as u64, size, start, len))
            };
            fields.iter().any(matches)
        })
    }

    /// Returns the fault for a store to these bytes in kernel memory.
    #[cold]
    pub(crate) fn store_fault(&self, addr: u64, size: u64) -> Fault {
        let slabs = self.slabs.borrow();
        let slab = slabs.iter().find(|slab| addr.wrapping_sub(slab.base) < slab.size);
        let Some(slab) = slab else {
            return Fault::new(FaultKind::Memory, format!("store at a bad address: {addr:#x}"));
        };
        let offset = (addr - slab.base) % slab.stride;
        let (name, field) = (slab.ty.name, (slab.ty.field_at)(offset));
        let names: Vec<String> = slab.ty.writable.iter().map(|&(at, _)| (slab.ty.field_at)(at)).collect();
        let allowed = match names.split_last() {
            None => "a policy may only read this object".to_string(),
            Some((last, names)) => format!("a policy may store only to {} and {last}", names.join(", ")),
        };
        Fault::new(
            FaultKind::Memory,
            format!("store of {size} bytes to {field} of a {name}, which the kernel does not allow: {allowed}"),
        )
    }

    /// Returns the type of the kernel object that contains this address, and the C name of the field
    /// there.
    pub fn kernel_field(&self, addr: u64) -> Option<(&'static str, String)> {
        let slabs = self.slabs.borrow();
        let slab = slabs.iter().find(|slab| addr.wrapping_sub(slab.base) < slab.size)?;
        let offset = (addr - slab.base) % slab.stride;
        Some((slab.ty.name, (slab.ty.field_at)(offset)))
    }

    /// Returns the types of all kernel objects.
    pub fn object_types(&self) -> Vec<&'static ObjectType> {
        self.slabs.borrow().iter().map(|slab| slab.ty).collect()
    }

    /// Returns the number of the slab that contains this address, and the index of the object that
    /// starts at the address. Slabs are numbered in the order of their creation.
    #[inline]
    pub fn object(&self, addr: u64) -> Option<(usize, usize)> {
        for (n, slab) in self.slabs.borrow().iter().enumerate() {
            if addr.wrapping_sub(slab.base) < slab.size {
                return slab.index(addr).map(|index| (n, index as usize));
            }
        }
        None
    }
}
