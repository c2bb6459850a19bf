// SPDX-License-Identifier: GPL-2.0-only
//! One row for each function that a program can call, and the names that rows are written with.
//!
//! A row has every fact about its function, and leaving out a column does not compile:
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
//! Without a release, for example:
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
//! | column | what |
//! |---|---|
//! | prototype | the kernel's, with its suffixes (`__nullable`, `__sz`): names the function, becomes its BTF, and tells the sanitizer what becomes of each pointer |
//! | `releases` | which releases of Linux have it: `V6_13..`, or `V6_12..V6_17` if a later one has removed it |
//! | `contexts` | from where it may be called; [`ANY`] for everywhere |
//! | `rules` | what the sanitizer holds its callers to (the kernel's `KF_*` flags and the verifier's special cases): [`PLAIN`], or [`does`] an [`Effect`], with methods of [`CallRules`] |
//! | `native` | instructions that a scheduler in C executes in place of the call, or [`CALL`] if it would call a function, too |
//! | `run` | the Rust function, which takes the world and up to five arguments |
//! | `now` | optional: the present name of a kfunc that was renamed, under which machines list its cost |
//!
//! Helpers have no prototype that tells what becomes of pointers: a row of [`helpers!`](crate::helpers) has `args` (the
//! `arg*_type`s of its `bpf_func_proto`) and `returns` instead, and neither releases (all are older than sched_ext) nor contexts
//! (all are callable everywhere).

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

/// A scheduler in C would call a function here, too. Instructions are counted by hand on what i386 code needs: a field is one
/// load, an entry at the end of a list six stores and two loads, a look at a bit of a mask two instructions.
pub const CALL: Option<u32> = None;

/// A function that takes nothing and gives nothing: it may be called wherever its contexts allow.
pub const PLAIN: CallRules = CallRules::new(Plain);

/// The rules of a function with an effect on what the program holds.
pub const fn does(effect: Effect) -> CallRules {
    CallRules::new(effect)
}

/// A number, or a pointer that the function looks up among those it knows.
pub const V: Arg = Arg::Value;
/// A key of the map in r1.
pub const KEY: Arg = Arg::Read(Len::Key);
/// A value of the map in r1.
pub const VALUE: Arg = Arg::Read(Len::Value);
/// Room for a value of the map in r1.
pub const TO_VALUE: Arg = Arg::Write(Len::Value);
pub const TEXT: Arg = Arg::Read(Len::Bytes(1));
pub const TIMER: Arg = Arg::Field(Special::Timer);
pub const SPIN_LOCK: Arg = Arg::Field(Special::SpinLock);
pub const KPTR: Arg = Arg::Field(Special::Kptr);
pub const DYNPTR: Arg = Arg::Use(Opaque::Dynptr);
pub const MAKE_DYNPTR: Arg = Arg::Make(Opaque::Dynptr, Opaque::DYNPTR_SIZE);

/// Memory that is read: as many bytes as that argument says, from 1.
pub const fn read(len: usize) -> Arg {
    Arg::Read(Len::Arg(len))
}

/// Memory that is written: as many bytes as that argument says, from 1.
pub const fn write(len: usize) -> Arg {
    Arg::Write(Len::Arg(len))
}

/// Room for so many bytes.
pub const fn bytes(len: u64) -> Arg {
    Arg::Write(Len::Bytes(len))
}

/// A kernel object of this type, or NULL.
pub const fn object_or_null(tag: &'static str) -> Arg {
    Arg::Kernel { tag, or_null: true }
}

/// The column `native`: a number of instructions, or [`CALL`].
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

/// A table of kfuncs: see [`rows`](crate::rows).
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

/// A table of numbered helpers: see [`rows`](crate::rows).
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
