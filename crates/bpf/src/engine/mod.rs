// SPDX-License-Identifier: GPL-2.0-only
//! Execution of a loaded program.
//!
//! - `context` is the state of a program, as plain data.
//! - `enter`, `raise` and `host_stack` handle the transitions into BPF code and out of it.
//! - `interpreter` and `jit` execute the instructions. `gap` handles accesses to pages of the arena
//!   that are not allocated.
//! - `counting` counts the executed instructions by call path.
//! - `overlap` suspends a call at a shared access while other calls run.
//! - [`code_cache`] keeps compiled code for later loads of the same program.
//! - [`Vm`] owns a program and calls it. `budget` limits the number of instructions of each call.
//! - [`Func`] is a function of the kernel that a program can call. [`World`] is the simulated
//!   machine, on which such a function acts.

mod budget;
mod call;
pub mod code_cache;
pub(crate) mod context;
mod counting;
mod enter;
pub(crate) mod func;
mod gap;
mod host_stack;
mod interpreter;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod jit;
mod load;
mod overlap;
pub(crate) mod raise;
pub(crate) mod releases;
pub(crate) mod vm;
pub(crate) mod world;

pub use budget::BUDGET;
pub use context::{ANY, Entry};
pub use counting::PathCounts;
pub use func::{Body, FromReg, Func, HelperRow, IntoReg, Row};
pub use gap::Gap;
pub use load::Engine;
pub use overlap::{Access, AccessKind, Execution, NOT_TAKEN, TAKEN};
pub use vm::Vm;
pub use world::World;
