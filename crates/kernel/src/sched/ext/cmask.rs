// SPDX-License-Identifier: GPL-2.0-only
//! Masks of cids in the arena of a policy (struct scx_cmask).

use super::{cid, exit};
use crate::layout::scx_cmask;
use crate::machine::Machine;
use crate::sched::ext::state::cids::words;
use bpf::errno::EINVAL;
use bpf::fault::Fault;
use std::collections::BTreeSet;

/// Returns the size of a mask of `nr_cids` cids, bytes.
pub(super) fn mask_size(nr_cids: u32) -> u64 {
    size_of::<scx_cmask>() as u64 + u64::from(words(nr_cids)) * 8
}

/// A mask of cids in the arena of the current policy (struct scx_cmask_ref).
pub(super) struct MaskRef {
    address: u64,
    base: u32,
    pub(super) nr_cids: u32,
}

impl MaskRef {
    /// Reads the header of a mask. Returns `None` if it is invalid (scx_cmask_ref_init).
    fn new(m: &Machine, pointer: u64) -> Result<Option<MaskRef>, Fault> {
        let address = cid::arena_address(m, pointer);
        let [base, nr_cids, alloc_words] = m.region.load::<[u32; 3]>(address)?;
        let possible = m.nr_cpus();
        let fits = base < possible && nr_cids <= possible - base && words(nr_cids) <= alloc_words;
        Ok(fits.then_some(MaskRef { address, base, nr_cids }))
    }

    pub(super) fn range(&self) -> std::ops::Range<u32> {
        self.base..self.base + self.nr_cids
    }

    /// Returns the address of the word that contains a cid, and the cid's bit.
    fn bit(&self, cid: u32) -> (u64, u64) {
        let word = u64::from(cid / 64 - self.base / 64);
        (self.address + size_of::<scx_cmask>() as u64 + word * 8, 1 << (cid % 64))
    }

    pub(super) fn cids(&self, m: &Machine) -> Result<BTreeSet<u32>, Fault> {
        m.ext.vm().charge(u64::from(self.nr_cids))?;
        let mut cids = BTreeSet::new();
        for cid in self.range() {
            let (at, bit) = self.bit(cid);
            if m.region.load::<u64>(at)? & bit != 0 {
                cids.insert(cid);
            }
        }
        Ok(cids)
    }

    pub(super) fn set(&self, m: &Machine, cid: u32, on: bool) -> Result<(), Fault> {
        let (at, bit) = self.bit(cid);
        let word = m.region.load::<u64>(at)?;
        m.region.store(at, if on { word | bit } else { word & !bit })
    }
}

/// Reads a mask that the policy passed. An invalid mask ends the policy. `what` names the mask.
pub(super) fn mask(m: &mut Machine, pointer: u64, what: &str) -> Result<Result<MaskRef, i32>, Fault> {
    Ok(MaskRef::new(m, pointer)?.ok_or_else(|| {
        exit::error(m, format!("invalid {what} ({})", -EINVAL));
        -EINVAL
    }))
}

/// Writes a mask with its header.
pub(super) fn write_mask(
    m: &Machine,
    address: u64,
    base: u32,
    nr_cids: u32,
    cids: &BTreeSet<u32>,
) -> Result<(), Fault> {
    let nr_words = words(nr_cids);
    m.region.store(address, [base, nr_cids, nr_words])?;
    let mut bits = vec![0u64; nr_words as usize];
    for &cid in cids {
        bits[(cid / 64 - base / 64) as usize] |= 1 << (cid % 64);
    }
    let first = address + size_of::<scx_cmask>() as u64;
    for (at, word) in (first..).step_by(8).zip(bits) {
        m.region.store(at, word)?;
    }
    Ok(())
}
