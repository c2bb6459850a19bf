// SPDX-License-Identifier: GPL-2.0-only
//! A BPF object becomes callable code.
//!
//! This crate takes the bytes clang made for the kernel and lets the simulated machine call them. It knows ELF, BTF, CO-RE,
//! maps and instructions, and not a word of scheduling: what a program can call comes in as a table of functions over a
//! world of the caller's ([`func`]).
//!
//! What holds throughout:
//!
//! 1. **The policy's bytes are untouched.** What a kernel would do with the object at load is done here, and nothing else.
//! 2. **No policy can hurt the simulator.** Everything a program may point at lies in one aligned [`region`]; each access is
//!    checked against it with one compare, holes inside are inaccessible, and what helpers keep of lists, trees and maps
//!    lives outside. There is no verifier: a bad access is a [`Fault`](func::Fault) with the instruction that made it.
//! 3. **Two engines, one meaning.** The interpreter is the plain reading of the instruction set; the JIT is compared with
//!    it, program by program: results, memory, and the number of instructions executed, which the simulation charges.
//! 4. **Deterministic.** Addresses depend on the order of requests alone; no map is iterated in the order of a hash that the
//!    program cannot see; nothing reads a clock or a random number but through the world.
//! 5. **A call is cheap.** No allocation, no lock, no reference count on the way into a program or out of it to a kfunc: a
//!    scheduler's callbacks run millions of times a second.
//! 6. **What is not there says so, late.** An object that refers to a field or function we do not have still loads; the
//!    reference faults by name if it is really executed.
//! 7. **Checked mode costs nothing when it is off.** [`guard`] is a sanitizer: it holds each access to what the pointer was made
//!    from, and each call to what it took. Neither engine has code for it unless asked.
//!
//! The way of an object: `object` reads the ELF file, `btf` its types, `core_relo` fits it to the kernel's types, `link`
//! makes the [`image`]; [`map`] creates its maps and [`vm`] runs its code, by `interp` or `jit`, through `enter`; `helper`
//! has the helpers that need no scheduling.

pub mod btf;
pub mod conflicts;
pub mod core_relo;
mod enter;
pub mod func;
pub mod guard;
pub mod helper;
pub mod image;
pub mod insn;
mod interp;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod jit;
pub mod kstruct;
pub mod lines;
pub mod link;
pub mod map;
mod native;
pub mod object;
pub mod region;
pub mod vm;
