// SPDX-License-Identifier: GPL-2.0-only
//! The structs that describe files: struct stat and struct statx.

/// Kind of a file, as in st_mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    File,
    Dir,
    Device,
    Pipe,
}

impl Mode {
    fn bits(self) -> u32 {
        match self {
            Mode::File => libc::S_IFREG | 0o644,
            Mode::Dir => libc::S_IFDIR | 0o755,
            Mode::Device => libc::S_IFCHR | 0o666,
            Mode::Pipe => libc::S_IFIFO | 0o600,
        }
    }
}

/// Returns a struct stat (x86-64).
pub(crate) fn stat(mode: Mode, size: u64) -> [u8; 144] {
    let mut bytes = [0; 144];
    let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(0, 1);
    put(8, 1);
    put(16, 1);
    put(24, mode.bits().into());
    put(48, size);
    put(56, 4096);
    put(64, size.div_ceil(512));
    bytes
}

/// Returns a struct statx.
pub(crate) fn statx(mode: Mode, size: u64) -> [u8; 256] {
    let mut bytes = [0; 256];
    bytes[..4].copy_from_slice(&0x7ffu32.to_le_bytes());
    bytes[4..8].copy_from_slice(&4096u32.to_le_bytes());
    bytes[16..20].copy_from_slice(&1u32.to_le_bytes());
    bytes[28..30].copy_from_slice(&(mode.bits() as u16).to_le_bytes());
    bytes[32..40].copy_from_slice(&1u64.to_le_bytes());
    bytes[40..48].copy_from_slice(&size.to_le_bytes());
    bytes[48..56].copy_from_slice(&size.div_ceil(512).to_le_bytes());
    bytes
}
