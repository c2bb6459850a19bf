// SPDX-License-Identifier: GPL-2.0-only
//! Running a program: its state, the two engines, and what they call.
//!
//! Plain data below, behaviour above: `context` is a program's state; `enter`, `raise` and `host_stack` are the ways into BPF code
//! and out of it; `interpreter` and `jit` execute it; [`Vm`] owns it and calls it, within a `budget`. [`Func`] is what it can call,
//! [`World`] what that acts on.

mod budget;
mod call;
pub(crate) mod context;
mod enter;
pub(crate) mod func;
mod host_stack;
mod interpreter;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod jit;
pub(crate) mod raise;
pub(crate) mod releases;
pub(crate) mod vm;
pub(crate) mod world;

pub use budget::BUDGET;
pub use context::{ANY, Entry};
pub use func::{Body, FromReg, Func, HelperRow, IntoReg, Row};
pub use vm::{Engine, Vm};
pub use world::World;
