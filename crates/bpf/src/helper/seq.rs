// SPDX-License-Identifier: GPL-2.0-only
//! Helpers that write the output of iterator programs (`struct seq_file`). The output is stored
//! until the caller of the program takes it.

use super::print::sized;
use crate::engine::func::Func;
use crate::engine::vm::Vm;
use crate::engine::world::World;
use crate::errno::long::*;
use crate::fault::Fault;
use crate::rows::*;

/// Maximum size of one run's output in bytes: the buffer size of a bpf_iter's seq_file (8 pages).
const SIZE: usize = 8 * 4096;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    crate::helpers! {
        126 "bpf_seq_printf"
        { args: [V, read(3), V, read(5), V], returns: Number, rules: PLAIN, native: CALL, run: seq_printf }
        127 "bpf_seq_write"
        { args: [V, read(3), V], returns: Number, rules: PLAIN, native: CALL, run: seq_write }
    }
}

fn append<W: World>(w: &W, seq: u64, data: &[u8]) -> Result<i64, Fault> {
    if seq == 0 {
        return Err(Fault::func("a NULL seq_file"));
    }
    let mut state = w.vm().state().borrow_mut();
    if state.seq.len() + data.len() > SIZE {
        return Ok(-EOVERFLOW);
    }
    state.seq.extend_from_slice(data);
    Ok(0)
}

fn seq_write<W: World>(w: &mut W, seq: u64, data: u64, len: u32) -> Result<i64, Fault> {
    w.vm().charge_bytes(len.into())?;
    append(w, seq, &w.region().bytes(data, len.into())?)
}

fn seq_printf<W: World>(w: &mut W, seq: u64, format: u64, size: u32, args: u64, len: u32) -> Result<i64, Fault> {
    match sized(w, format, size, args, len, SIZE)? {
        Ok(printed) if printed.len > SIZE && seq != 0 => Ok(-EOVERFLOW),
        Ok(printed) => append(w, seq, &printed.bytes),
        Err(error) => Ok(-error),
    }
}

impl<W: World> Vm<W> {
    /// Returns the output that iterator programs have written since the last call of this function.
    pub fn take_seq(&self) -> Vec<u8> {
        std::mem::take(&mut self.state().borrow_mut().seq)
    }
}
