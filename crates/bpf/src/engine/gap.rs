// SPDX-License-Identifier: GPL-2.0-only
//! Accesses of a program to pages of its arena that are not allocated (gaps).
//!
//! The kernel lets the program go on, as its x86-64 JIT decides (ex_handler_bpf): a load (LDX)
//! returns 0. All other accesses do nothing, and an atomic instruction leaves its registers
//! unchanged. For each access, the kernel writes a line to the program's BPF stream. [`Context`]
//! counts the accesses instead, separately for each instruction.
//!
//! The interpreter tests each address. Compiled code tests only the addresses of atomic
//! instructions. Its other accesses raise a signal, and the signal handler skips the machine
//! instruction ([`resume`]).

use std::collections::BTreeMap;

use super::context::Context;
use crate::insn::{self, class};
use crate::map::kind;
use crate::memory::{ARENA_SIZE, REACH};

/// Accesses of one instruction to gaps of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Address of the first access, as the kernel reports it: an address of user space.
    pub addr: u64,
    /// Whether the kernel reports the accesses as writes. It does so for all accesses but loads.
    pub write: bool,
    pub count: u64,
}

/// For each instruction that has accessed a gap, by its index, its accesses.
pub(crate) type Gaps = BTreeMap<u32, Gap>;

impl Context {
    /// Returns whether an access of `size` bytes at `addr` touches a page of the arena that is not
    /// allocated. The kernel reserves the addresses next to the arena, too, as far as an
    /// instruction can reach.
    pub(super) fn is_gap(&self, addr: u64, size: u64) -> bool {
        self.arena != 0
            && addr.wrapping_sub(self.arena.wrapping_sub(REACH)) < ARENA_SIZE + 2 * REACH
            && self.region().check(addr, size, false).is_err()
    }

    /// Counts an access of instruction `pc` to a gap. The function takes a pointer because callers
    /// up the stack may have borrowed other fields of the context.
    #[cold]
    pub(super) unsafe fn count_gap(cx: *mut Context, pc: usize, addr: u64) {
        // SAFETY: `cx` is the context of the running program, see [`Entry`](super::context::Entry).
        let (code, maps, gaps) = unsafe { (&(*cx).code, &(*cx).maps, &mut (*cx).gaps) };
        let write = class(code.insns[pc].op) != insn::LDX;
        let low = addr & (ARENA_SIZE - 1);
        // The address at which user space wants to map the arena. If it is 0, the kernel chooses it.
        let wanted = maps.iter().find(|map| map.def().kind == kind::ARENA);
        let user = wanted.map_or(0, |map| map.def().extra) & !(ARENA_SIZE - 1);
        let addr = if user == 0 { addr } else { user | low };
        let gap = gaps.entry(pc as u32).or_insert(Gap { addr, write, count: 0 });
        gap.count += 1;
    }
}

/// Tests whether an atomic instruction at `cx.pc` accesses a gap. Counts the access if it does, and
/// returns 1. The instruction must then be skipped.
pub(crate) unsafe extern "C" fn atomic_gap(cx: *mut Context, base: u64, offset: u64, size: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`](super::context::Entry).
    unsafe {
        let addr = base.wrapping_add(offset);
        if !(*cx).is_gap(addr, size) {
            return 0;
        }
        Context::count_gap(cx, (*cx).pc as usize, addr);
    }
    1
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) use host::{prepare, resume};

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod host {
    use super::{Context, class, insn};
    use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

    /// Longest machine instruction in bytes.
    const LONGEST: u64 = 15;

    /// Makes the decoder build its tables, which needs more stack than a signal handler has.
    pub(in crate::engine) fn prepare() {
        const NOP: [u8; 1] = [0x90];
        let nop = Decoder::new(64, &NOP, DecoderOptions::NONE).decode();
        debug_assert_eq!(nop.mnemonic(), Mnemonic::Nop);
    }

    /// Skips the machine instruction at the instruction pointer in `gregs` if it is a load or store
    /// of `context` that has raised a signal because of a gap in the arena. A skipped load sets its
    /// register to 0. Returns whether the code can continue.
    ///
    /// # Safety
    /// `gregs` must be the registers of this thread when it executed compiled code of `context`.
    pub(in crate::engine) unsafe fn resume(context: *mut Context, gregs: &mut [i64]) -> bool {
        // SAFETY: the program of `context` is running, so its context is alive.
        let cx = unsafe { &*context };
        let ip = gregs[libc::REG_RIP as usize].cast_unsigned();
        let Some(compiled) = &cx.compiled else {
            return false;
        };
        if cx.arena == 0 || cx.sanitizer.is_some() || !compiled.range.contains(&ip) {
            return false;
        }
        let Some(pc) = compiled.pc(ip) else {
            return false;
        };
        let len = (compiled.range.end - ip).min(LONGEST);
        // SAFETY: these bytes are a part of the compiled code, which is alive while it runs.
        let bytes = unsafe { std::slice::from_raw_parts(ip as *const u8, len as usize) };
        let code = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        let Some(host) = address(&code, gregs) else {
            return false;
        };
        let i = cx.code.insns[pc];
        let addr = host.wrapping_sub(cx.delta);
        if !cx.is_gap(addr, insn::size(i.op)) {
            return false;
        }
        if class(i.op) == insn::LDX {
            // The compiler emits a load as a move to a general register.
            let Some(to) = (code.op0_kind() == OpKind::Register)
                .then(|| greg(code.op0_register()))
                .flatten()
            else {
                return false;
            };
            gregs[to] = 0;
        } else if code.op0_kind() != OpKind::Memory {
            return false;
        }
        gregs[libc::REG_RIP as usize] += code.len() as i64;
        // SAFETY: as above. `cx` is not used any more.
        unsafe { Context::count_gap(context, pc, addr) };
        true
    }

    /// Returns the address of an instruction's memory operand.
    fn address(code: &Instruction, gregs: &[i64]) -> Option<u64> {
        if !matches!(
            code.mnemonic(),
            Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd
        ) || code.op_kinds().all(|kind| kind != OpKind::Memory)
        {
            return None;
        }
        let value = |register: Register| match register {
            Register::None => Some(0),
            register => greg(register).map(|at| gregs[at].cast_unsigned()),
        };
        let index = value(code.memory_index())?.wrapping_mul(code.memory_index_scale().into());
        Some(
            value(code.memory_base())?
                .wrapping_add(index)
                .wrapping_add(code.memory_displacement64()),
        )
    }

    /// Returns the index of a general register in the registers of a signal's context.
    fn greg(register: Register) -> Option<usize> {
        // The order in which instructions number the general registers.
        const ORDER: [i32; 16] = [
            libc::REG_RAX,
            libc::REG_RCX,
            libc::REG_RDX,
            libc::REG_RBX,
            libc::REG_RSP,
            libc::REG_RBP,
            libc::REG_RSI,
            libc::REG_RDI,
            libc::REG_R8,
            libc::REG_R9,
            libc::REG_R10,
            libc::REG_R11,
            libc::REG_R12,
            libc::REG_R13,
            libc::REG_R14,
            libc::REG_R15,
        ];
        let after = |first: Register| (register as usize).checked_sub(first as usize);
        let number = [Register::RAX, Register::EAX]
            .into_iter()
            .find_map(|first| after(first).filter(|&number| number < ORDER.len()))?;
        Some(ORDER[number] as usize)
    }
}
