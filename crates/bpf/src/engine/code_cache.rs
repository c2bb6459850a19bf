// SPDX-License-Identifier: GPL-2.0-only
//! Compiled code that is kept beyond one program: for later programs of this process, and for later
//! processes.
//!
//! Compiled code is a pure function of its inputs, so a cache of it cannot change a simulation. It
//! is therefore the one piece of state that all simulations of a process share. This crate opens no
//! files. A caller that wants to keep code in files supplies a [`Store`].

use std::sync::OnceLock;

/// Where the machine code of a program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was compiled for this program.
    Compiled,
    /// It was compiled for an earlier program of this process with the same instructions.
    Shared,
    /// An earlier process compiled it and kept it in the [`Store`].
    Stored,
}

/// A place that keeps compiled code for later processes. Its functions are called by all threads.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// Returns what [`Store::save`] was given for this key, or `None` if it does not have it. The
    /// caller checks the bytes, but cannot recognise code that somebody else wrote on purpose. The
    /// store must therefore return only bytes that this user has written.
    pub load: fn(&[u8; 32]) -> Option<Vec<u8>>,
    /// Keeps the bytes of a key. A failure has no consequence.
    pub save: fn(&[u8; 32], &[u8]),
}

static STORE: OnceLock<Store> = OnceLock::new();

/// Sets the store of this process. Only the first call has an effect.
pub fn set_store(store: Store) {
    let _ = STORE.set(store);
}

/// Returns the store of this process, if it has one.
pub fn store() -> Option<&'static Store> {
    STORE.get()
}

/// Drops all code that this process keeps. Code in the [`Store`] stays.
pub fn forget() {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    super::jit::forget();
}
