// SPDX-License-Identifier: GPL-2.0-only
//! Interface of the cache of compiled code, which saves this process and later ones from compiling
//! the same program again.
//!
//! Compiled code is a pure function of its inputs, so the cache cannot change a simulation. That is
//! why it is the only state that the simulations of a process may share. This crate opens no files;
//! a caller that wants to keep code in files supplies a [`Store`].

use std::sync::OnceLock;

/// Where the machine code of a program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was compiled for this program.
    Compiled,
    /// This process has compiled it before, for a program with the same instructions.
    Shared,
    /// An earlier process compiled it and kept it in the [`Store`].
    Stored,
}

/// A place that keeps compiled code for later processes. Its functions are called by all threads.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// Returns the bytes that [`Store::save`] has kept under this key, or `None` if there are none.
    /// The cache detects and refuses damaged bytes, but it cannot recognise malicious code.
    pub load: fn(&[u8; 32]) -> Option<Vec<u8>>,
    /// Keeps bytes under a key. If this function fails, a later process compiles the code again.
    pub save: fn(&[u8; 32], &[u8]),
}

static STORE: OnceLock<Store> = OnceLock::new();

/// Sets the store of this process. Only the first call has an effect.
///
/// # Safety
/// This process executes the bytes that [`Store::load`] returns. The store must return only bytes
/// that [`Store::save`] of this user's processes has received for the same key. Damaged bytes are
/// allowed, because a checksum detects them.
pub unsafe fn set_store(store: Store) {
    let _ = STORE.set(store);
}

/// Returns the store of this process, if it has one.
pub fn store() -> Option<&'static Store> {
    STORE.get()
}
