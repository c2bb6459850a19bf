// SPDX-License-Identifier: GPL-2.0-only
//! Tables of the kernel functions that a program can call. Each function has one row.
//!
//! A row states every property of its function. A row that omits a column does not compile:
//!
//! ```
//! use bpf::engine::{Func, World};
//! use bpf::fault::Fault;
//! use bpf::rows::*;
//!
//! fn table<W: World>() -> Vec<Func<W>> {
//!     bpf::kfuncs! {
//!         "s32 scx_bpf_task_cpu(struct task_struct *p)"
//!         { releases: V6_12.., contexts: ANY, rules: PLAIN, native: 1, run: task_cpu }
//!         "struct task_struct *bpf_task_acquire(struct task_struct *p)"
//!         { releases: V6_12.., contexts: ANY, rules: does(Acquire).ret_null(), native: CALL, run: |_: &mut W, p: u64| p }
//!     }
//! }
//!
//! fn task_cpu<W: World>(world: &mut W, task: u64) -> Result<i32, Fault> {
//!     world.region().load::<i32>(task)
//! }
//! ```
//!
//! For example, this row without `releases` does not compile:
//!
//! ```compile_fail
//! # use bpf::engine::{Func, World};
//! # use bpf::rows::*;
//! fn table<W: World>() -> Vec<Func<W>> {
//!     bpf::kfuncs! {
//!         "s32 f(s32 a)"
//!         { contexts: ANY, rules: PLAIN, native: CALL, run: |_: &mut W, a: i32| a }
//!     }
//! }
//! ```
//!
//! Columns:
//!
//! - prototype: the kernel's C prototype, including the suffixes of arguments (`__nullable`,
//!   `__sz`). It contains the function's name and BTF types. It also describes each pointer
//!   argument to the sanitizer.
//! - `releases`: releases of Linux that have the function. `V6_13..` means 6.13 and later.
//!   `V6_12..V6_17` means that 6.17 removed the function.
//! - `contexts`: contexts (kinds of callbacks) in which programs may call the function. [`ANY`]
//!   means all contexts.
//! - `rules`: rules that the sanitizer enforces for callers (the kernel's `KF_*` flags and the
//!   verifier's special cases). The value is [`PLAIN`], or [`does`] with an [`Effect`]. Methods of
//!   [`CallRules`] can add further rules to it.
//! - `native`: number of instructions that would replace a call of the function in a scheduler in C
//!   that is compiled into the kernel, or [`CALL`] if such a scheduler would make the same call.
//! - `run`: the Rust function, which takes the world and up to five arguments.
//! - `now` (optional): the newest name of a kfunc that the kernel has renamed. The cost tables of
//!   machines use this name.
//!
//! Helpers have no prototype that describes their pointers. A row of [`helpers!`](crate::helpers)
//! therefore has `args` (the `arg*_type`s of the helper's `bpf_func_proto`) and `returns`. It has
//! no column `releases`, because all helpers are older than sched_ext. It has no column `contexts`,
//! because programs may call helpers in every context.

pub use crate::engine::context::ANY;
pub use crate::engine::releases::{Releases, Version};
pub use crate::sanitizer::Arg::{self, MapMemory, PerCpu};
pub use crate::sanitizer::Effect::{self, *};
pub use crate::sanitizer::Returns::{self, *};
pub use crate::sanitizer::{CallRules, Len, Opaque, Special};

/// The first release with sched_ext.
pub const V6_12: Version = Version(6, 12);
pub const V6_13: Version = Version(6, 13);
pub const V6_14: Version = Version(6, 14);
pub const V6_15: Version = Version(6, 15);
pub const V6_16: Version = Version(6, 16);
pub const V6_17: Version = Version(6, 17);
pub const V6_18: Version = Version(6, 18);
pub const V6_19: Version = Version(6, 19);
pub const V7_0: Version = Version(7, 0);
pub const V7_1: Version = Version(7, 1);
pub const V7_2: Version = Version(7, 2);
pub const V7_3: Version = Version(7, 3);

/// Value of `native` if a scheduler in C would make the same call. All other values of `native`
/// were counted by hand, in i386 instructions. For example, reading a field is one load, appending
/// to a list is six stores and two loads, and testing a bit of a mask is two instructions.
pub const CALL: Option<u32> = None;

/// Rules of a function that neither creates nor releases a reference, a lock, or anything else that
/// the program must release.
pub const PLAIN: CallRules = CallRules::new(Plain);

/// Returns the rules of a function with this effect.
pub const fn does(effect: Effect) -> CallRules {
    CallRules::new(effect)
}

/// Describes an argument that is a number, or a pointer that the function itself looks up.
pub const V: Arg = Arg::Value;
/// Describes a pointer to a key of the map that is the argument r1.
pub const KEY: Arg = Arg::Read(Len::Key);
/// Describes a pointer to a value of the map that is the argument r1.
pub const VALUE: Arg = Arg::Read(Len::Value);
/// Describes a pointer to memory to which the function writes a value of the map in r1.
pub const TO_VALUE: Arg = Arg::Write(Len::Value);
/// Describes a pointer to a string that ends with a NUL. The sanitizer checks only the access to
/// the first byte.
pub const TEXT: Arg = Arg::Read(Len::Bytes(1));
/// Describes a pointer to a `struct bpf_timer`.
pub const TIMER: Arg = Arg::Field(Special::Timer);
/// Describes a pointer to a `struct bpf_spin_lock`.
pub const SPIN_LOCK: Arg = Arg::Field(Special::SpinLock);
/// Describes a pointer to a kptr field.
pub const KPTR: Arg = Arg::Field(Special::Kptr);
/// Describes a pointer to a `struct bpf_dynptr` that an earlier call has initialised.
pub const DYNPTR: Arg = Arg::Use(Opaque::Dynptr);
/// Describes a pointer to memory in which the function initialises a `struct bpf_dynptr`.
pub const MAKE_DYNPTR: Arg = Arg::Make(Opaque::Dynptr, Opaque::DYNPTR_SIZE);

/// Describes a pointer to memory that the function reads. The size of the memory is the argument
/// with the number `len`, counted from 1.
pub const fn read(len: usize) -> Arg {
    Arg::Read(Len::Arg(len))
}

/// Describes a pointer to memory that the function writes. The size of the memory is the argument
/// with the number `len`, counted from 1.
pub const fn write(len: usize) -> Arg {
    Arg::Write(Len::Arg(len))
}

/// Describes a pointer to `len` bytes of memory that the function writes.
pub const fn bytes(len: u64) -> Arg {
    Arg::Write(Len::Bytes(len))
}

/// Describes a pointer to a kernel object of this type, or NULL.
pub const fn object_or_null(tag: &'static str) -> Arg {
    Arg::Kernel { tag, or_null: true }
}

/// A value of the column `native`: a number of instructions, or [`CALL`].
pub trait Native {
    fn instructions(self) -> Option<u32>;
}

impl Native for u32 {
    fn instructions(self) -> Option<u32> {
        Some(self)
    }
}

impl Native for Option<u32> {
    fn instructions(self) -> Option<u32> {
        self
    }
}

/// Makes a table of kfuncs; see [`rows`](crate::rows).
#[macro_export]
macro_rules! kfuncs {
    ($($proto:literal {
        releases: $releases:expr, contexts: $contexts:expr, rules: $rules:expr, native: $native:expr, run: $run:expr
        $(, now: $now:literal)?
    })*) => {
        ::std::vec![$($crate::engine::Func::kfunc(
            $crate::engine::Row {
                proto: $proto,
                releases: ($releases).into(),
                contexts: $contexts,
                rules: $rules,
                native: $crate::rows::Native::instructions($native),
                now: [$($now,)? ""][0],
            },
            $run,
        )),*]
    };
}

/// Makes a table of numbered helpers; see [`rows`](crate::rows).
#[macro_export]
macro_rules! helpers {
    ($($number:literal $name:literal {
        args: $args:expr, returns: $returns:expr, rules: $rules:expr, native: $native:expr, run: $run:expr
    })*) => {
        ::std::vec![$($crate::engine::Func::helper(
            $crate::engine::HelperRow {
                number: $number,
                name: $name,
                args: const { &$args },
                returns: $returns,
                rules: $rules,
                native: $crate::rows::Native::instructions($native),
            },
            $run,
        )),*]
    };
}
