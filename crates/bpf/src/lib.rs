// SPDX-License-Identifier: GPL-2.0-only
//! A BPF object becomes callable code.
//!
//! This crate takes the bytes clang made for the kernel and lets the simulated machine call them. It knows ELF, BTF, CO-RE,
//! maps and instructions, and not a word of scheduling: what a program can call comes in as a table of [functions](engine::Func)
//! over a [world](engine::World) of the caller's.
//!
//! What holds throughout:
//!
//! 1. **The policy's bytes are untouched.** What a kernel would do with the object at load is done here, and nothing else.
//! 2. **No policy can hurt the simulator.** Everything a program may point at lies in one aligned [region](memory); each access
//!    is checked against it with one compare, holes inside are inaccessible, and what helpers keep of lists, trees and maps
//!    lies outside. There is no verifier: a bad access is a [`Fault`](fault::Fault) with the instruction that made it.
//! 3. **Two engines, one meaning.** The interpreter is the plain reading of the instruction set; the JIT is compared with
//!    it, program by program: results, memory, and the number of instructions executed, which the simulation charges.
//! 4. **Deterministic.** Addresses depend on the order of requests alone; no map is iterated in the order of a hash that the
//!    program cannot see; nothing reads a clock or a random number but through the world.
//! 5. **A call is cheap.** No allocation, no lock, no reference count on the way into a program or out of it to a kfunc: a
//!    scheduler's callbacks run millions of times a second.
//! 6. **What is not there says so, late.** An object that refers to a field or function we do not have still loads; the
//!    reference faults by name if it is really executed.
//! 7. **The [sanitizer] costs nothing when it is off.** It holds each access to what the pointer was made from, and each call to
//!    what it took. Neither engine has code for it unless asked.
//!
//! The rooms, from the top; each imports only from those below it, and a program's state (`engine::context`) is plain data:
//!
//! | room | what |
//! |---|---|
//! | [`rows`] | how tables of functions are written |
//! | [`helper`] | the helpers and kfuncs that need no scheduling |
//! | [`engine`] | running a program: calls, interpreter, JIT |
//! | [`sanitizer`] | the run-time checks of `--check` |
//! | [`map`] | the maps of a program |
//! | [`loader`] | from an object's bytes to an [`image`]: ELF, BTF, CO-RE, linking |
//! | [`memory`] | the address space that programs see |
//! | [`cache`] | which CPU's cache has which line, and what getting one costs |
//! | [`image`], [`insn`], [`fault`], [`errno`] | linked code, the instruction set, why a program stopped, error numbers |

pub mod cache;
pub mod engine;
pub mod errno;
pub mod fault;
pub mod helper;
pub mod image;
pub mod insn;
pub mod loader;
pub mod map;
pub mod memory;
pub mod rows;
pub mod sanitizer;

pub use loader::btf::{self, kstruct};
pub use loader::{core_relo, link, object};
