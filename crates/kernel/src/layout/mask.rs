// SPDX-License-Identifier: GPL-2.0-only
//! CPU masks in the region, the memory that BPF programs can access. Policies and the simulated
//! kernel use the same masks.

use crate::simulation::id::CpuId;
use crate::simulation::table::Id;
use bpf::fault::Fault;
use bpf::memory::Region;

/// A `struct cpumask` in the region, with one bit for each CPU. Each word is read and written
/// separately, because masks may overlap and policies may change them between two accesses.
///
/// A mask is a copy of an address, which neither borrows the region nor knows when the object is
/// freed. The indexes of words are checked only in builds with debug assertions, because the masks
/// are read in every wake-up. This is sound only inside this crate, where each machine uses only
/// its own masks and CPU numbers, so no other crate can get a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask {
    addr: u64,
    /// Address of the mask in the memory of the host, the computer that runs the simulation.
    host: u64,
    nr_cpus: u32,
}

impl Mask {
    /// Returns the mask at the address `addr`.
    ///
    /// # Safety
    /// While the mask or a copy of it is in use, `region` is alive and the memory at `addr` is
    /// mapped for `nr_cpus` bits, rounded up to words. Only a mask in memory of the simulated kernel,
    /// to which there is no reference, may be written.
    pub(crate) unsafe fn at(region: &Region, addr: u64, nr_cpus: u32) -> Mask {
        Mask {
            addr,
            host: region.host::<u64>(addr) as u64,
            nr_cpus,
        }
    }

    /// Returns the mask at an address that a policy has passed, after checking that the memory is
    /// readable. The caller only reads the mask, and drops it before BPF code runs again.
    pub(crate) fn checked(region: &Region, addr: u64, nr_cpus: u32) -> Result<Mask, Fault> {
        region.check(addr, u64::from(nr_cpus.div_ceil(64)) * 8, false)?;
        // SAFETY: the memory was just checked. Pages are unmapped only when a program ends or frees
        // them, and no program runs while a kfunc uses the mask.
        Ok(unsafe { Mask::at(region, addr, nr_cpus) })
    }

    pub(crate) fn addr(self) -> u64 {
        self.addr
    }

    /// Returns the number of 64-bit words.
    pub(crate) fn words(self) -> u32 {
        self.nr_cpus.div_ceil(64)
    }

    #[inline]
    pub(crate) fn word(self, index: u32) -> u64 {
        debug_assert!(index < self.words());
        // SAFETY: the words of the mask are mapped, see `at`. The index exists, because callers
        // iterate over `words` or have the number of a CPU of the machine.
        unsafe { (self.host as *const u64).add(index as usize).read_unaligned() }
    }

    #[inline]
    pub(crate) fn set_word(self, index: u32, value: u64) {
        debug_assert!(index < self.words());
        // SAFETY: as in `word`. Only masks of the simulated kernel are written, and there is no
        // reference to their words.
        unsafe { (self.host as *mut u64).add(index as usize).write_unaligned(value) }
    }

    /// Returns whether the mask contains the CPU.
    #[inline]
    pub(crate) fn contains(self, cpu: CpuId) -> bool {
        self.word(cpu.nr() / 64) >> (cpu.nr() % 64) & 1 != 0
    }

    #[inline]
    pub(crate) fn insert(self, cpu: CpuId) {
        self.set_word(cpu.nr() / 64, self.word(cpu.nr() / 64) | 1 << (cpu.nr() % 64));
    }

    #[inline]
    pub(crate) fn remove(self, cpu: CpuId) {
        self.set_word(cpu.nr() / 64, self.word(cpu.nr() / 64) & !(1 << (cpu.nr() % 64)));
    }

    pub(crate) fn copy_from(self, words: &[u64]) {
        for (index, &word) in words.iter().enumerate() {
            self.set_word(index as u32, word);
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        (0..self.words()).all(|index| self.word(index) == 0)
    }

    /// Returns the number of CPUs in the mask (cpumask_weight()).
    pub(crate) fn weight(self) -> u32 {
        (0..self.words()).map(|index| self.word(index).count_ones()).sum()
    }

    pub(crate) fn first(self) -> Option<CpuId> {
        self.next_and(self, 0)
    }

    /// Returns the first CPU at or after `from` that is in both masks.
    pub(crate) fn next_and(self, other: Mask, from: u32) -> Option<CpuId> {
        let mut index = from / 64;
        if index >= self.words() {
            return None;
        }
        let mut word = self.word(index) & other.word(index) & (!0 << (from % 64));
        loop {
            if word != 0 {
                let cpu = index * 64 + word.trailing_zeros();
                // A mask of a policy may contain CPUs that the machine does not have.
                return (cpu < self.nr_cpus).then(|| CpuId::new(cpu as usize));
            }
            index += 1;
            if index == self.words() {
                return None;
            }
            word = self.word(index) & other.word(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::cpu_id;

    #[test]
    fn next_and_stays_in_both_masks() {
        let region = Region::new().unwrap();
        let new = |cpus: &[u32]| {
            // SAFETY: the mask has three words, and the region outlives it.
            let mask = unsafe { Mask::at(&region, region.alloc(24).unwrap(), 192) };
            cpus.iter().for_each(|&cpu| mask.insert(cpu_id(cpu)));
            mask
        };
        let (a, b) = (new(&[1, 63, 64, 130]), new(&[1, 2, 64, 130, 191]));
        assert_eq!(a.next_and(b, 0), Some(cpu_id(1)));
        assert_eq!(a.next_and(b, 2), Some(cpu_id(64)));
        assert_eq!(a.next_and(b, 131), None);
        assert_eq!(new(&[]).next_and(b, 0), None);
        assert_eq!((a.weight(), a.first(), a.is_empty()), (4, Some(cpu_id(1)), false));
        a.remove(cpu_id(63));
        assert_eq!(a.weight(), 3);
        assert!(Mask::checked(&region, 8, 64).is_err());
    }
}
