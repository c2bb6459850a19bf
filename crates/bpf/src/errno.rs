// SPDX-License-Identifier: GPL-2.0-only
//! Error numbers of Linux (include/uapi/asm-generic/errno*.h), whatever the host's are. Kernel functions return them negated.
#![allow(missing_docs)]

pub const EPERM: i64 = 1;
pub const ENOENT: i64 = 2;
pub const E2BIG: i64 = 7;
pub const EAGAIN: i64 = 11;
pub const ENOMEM: i64 = 12;
pub const EACCES: i64 = 13;
pub const EFAULT: i64 = 14;
pub const EBUSY: i64 = 16;
pub const EEXIST: i64 = 17;
pub const EINVAL: i64 = 22;
pub const ENOSPC: i64 = 28;
pub const ERANGE: i64 = 34;
pub const EOVERFLOW: i64 = 75;
pub const EDEADLK: i64 = 35;
pub const EOPNOTSUPP: i64 = 95;
