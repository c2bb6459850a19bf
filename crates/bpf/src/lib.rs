// SPDX-License-Identifier: GPL-2.0-only
//! The BPF loader and virtual machine.
//!
//! This crate reads a BPF object that clang compiled for the kernel and lets the simulated machine
//! call its programs. It handles ELF, BTF, CO-RE, maps and instructions, and knows nothing about
//! scheduling. The caller supplies the kernel functions that programs may call: a table of
//! [functions](engine::Func) that act on a [world](engine::World).
//!
//! Design rules:
//!
//! 1. **Objects are never modified by hand.** The loader changes an object only in the ways in
//!    which the kernel changes it at load.
//! 2. **A policy cannot harm the simulator.** There is no verifier. All memory that a program may
//!    address lies in one aligned [region](memory), so the check of an access is one comparison.
//!    Holes inside the region are inaccessible pages. The bookkeeping of lists, trees and maps lies
//!    outside of the region. A bad access becomes a [`Fault`](fault::Fault), which names the
//!    instruction.
//! 3. **Two engines have the same results.** The interpreter implements the instruction set in the
//!    simplest way. Tests run each program in the JIT and in the interpreter. They compare the
//!    results, the memory, and the number of executed instructions. (The simulation computes the
//!    time of a program from this number.)
//! 4. **Execution is deterministic.** Addresses depend only on the order of allocations. Maps are
//!    never iterated in the order of a host hash table. Clocks and random numbers come only from
//!    the world.
//! 5. **Calls are cheap.** A call into a program, or from a program into a kfunc, allocates
//!    nothing, takes no lock and changes no reference count. Callbacks of a scheduler run millions
//!    of times a second.
//! 6. **Missing kernel features fail late.** An object that refers to an unknown field or function
//!    can still be loaded. Its program faults only when it executes such a reference. The fault
//!    names the field or function.
//! 7. **The [sanitizer] costs nothing when it is off.** It checks each access against the object
//!    from which the pointer was made, and each call against the rules of the called function. The
//!    engines contain these checks only if the sanitizer is on.
//!
//! Terms that all modules use:
//!
//! - The *region* is the memory of one simulated machine that programs can access. It contains slabs,
//!   which are arrays of kernel objects of one kind.
//! - The *world* is the simulated machine, as helpers and kfuncs see it.
//! - The *budget* is the number of instructions that a call from the world may execute, together with
//!   the nested calls that helpers make.
//! - The *host* is the computer that runs the simulation.
//!
//! The table lists the modules. A module imports only from modules below it. The exception is
//! `engine::context`, the state of a program, which is plain data.
//!
//! | module | contents |
//! |---|---|
//! | [`rows`] | syntax for tables of functions |
//! | [`helper`] | helpers and kfuncs that need no scheduling |
//! | [`engine`] | execution: calls, interpreter, JIT |
//! | [`sanitizer`] | run-time checks of `--sanitize` |
//! | [`map`] | BPF maps |
//! | [`loader`] | ELF, BTF, CO-RE, and linking; turns an object's bytes into an [`image`] |
//! | [`memory`] | the address space that programs see |
//! | [`cache`] | model of the simulated CPUs' caches: the cost of fetching a cache line |
//! | [`image`], [`insn`], [`error`], [`fault`], [`errno`] | linked code, instruction set, errors of loading, faults, error numbers |

// Hosts without the JIT do not use its helpers.
#![cfg_attr(
    not(all(target_arch = "x86_64", target_os = "linux")),
    allow(dead_code, unused_imports)
)]

pub mod cache;
pub mod engine;
pub mod errno;
pub mod error;
pub mod fault;
pub mod helper;
pub mod image;
pub mod insn;
pub mod loader;
mod lookup;
pub mod map;
pub mod memory;
pub mod rows;
pub mod sanitizer;

pub use loader::btf::{self, kstruct};
pub use loader::{core_relo, link, object};
