// SPDX-License-Identifier: GPL-2.0-only
//! Linux error numbers (include/uapi/asm-generic/errno*.h). Those of the host may differ. Kernel
//! functions return them negated.
#![allow(missing_docs)]

macro_rules! errno {
    ($($name:ident = $number:literal)*) => {
        $(pub const $name: i32 = $number;)*

        /// The error numbers as `i64`, for functions that return a `long`.
        pub mod long {
            $(pub const $name: i64 = $number;)*
        }
    };
}

errno! {
    EPERM = 1
    ENOENT = 2
    E2BIG = 7
    EAGAIN = 11
    ENOMEM = 12
    EACCES = 13
    EFAULT = 14
    EBUSY = 16
    EEXIST = 17
    ENODEV = 19
    EINVAL = 22
    ENOSPC = 28
    ERANGE = 34
    EDEADLK = 35
    EPROTO = 71
    EOVERFLOW = 75
    EOPNOTSUPP = 95
}
