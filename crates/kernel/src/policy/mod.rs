// SPDX-License-Identifier: GPL-2.0-only
//! Loading of a policy's BPF object, and the parts of the simulated kernel that the policy uses:
//! types, kfuncs and callbacks.

mod allowed;
pub mod bpf_world;
pub mod iterator;
pub mod kfuncs;
pub mod load;
mod load_error;
pub mod nullable;
mod open;
mod refusal;
pub mod sanitizer;
pub mod target;
pub mod user_space;
pub mod user_space_error;
