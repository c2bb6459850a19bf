// SPDX-License-Identifier: GPL-2.0-only
//! Kernel functions that BPF code can call (kfuncs and helpers), written as plain Rust functions.
//! The macros in [`rows`](crate::rows) declare tables of them.
//!
//! Each function has the kernel's C prototype, from which its name and its BTF are made. The Rust
//! function takes the world and up to five arguments. It returns a register value or a [`Result`]
//! of one. Compiled code calls a shim, which converts the arguments, calls the Rust function and
//! converts the result. If the Rust function returns an `Err`, the running BPF program ends, and
//! [`Vm::call`](super::Vm::call) returns this error. The shim drops all other values before it
//! unwinds the stack, so no destructor is skipped.

use crate::error::Error;
use std::fmt;

use super::context::{ANY, Context, Target};
use super::raise::raise;
use super::releases::Releases;
use super::world::World;
use crate::fault::Fault;
use crate::rows::V6_12;
use crate::sanitizer::callee::CallRules;
use crate::sanitizer::rules::Rules;
use crate::sanitizer::signature::{Arg, Declared, Returns};

/// Description of a kfunc: one row of a table. [`rows`](crate::rows) explains the columns.
pub struct Row {
    /// C prototype with parameter names, as the kernel declares it.
    pub proto: &'static str,
    pub releases: Releases,
    pub contexts: u32,
    pub rules: CallRules,
    pub native: Option<u32>,
    /// Newest name of the function if the kernel has renamed it, otherwise empty.
    pub now: &'static str,
}

/// Description of a helper: one row of a table. [`rows`](crate::rows) explains the columns.
pub struct HelperRow {
    /// Number in include/uapi/linux/bpf.h.
    pub number: u32,
    pub name: &'static str,
    pub args: &'static [Arg],
    pub returns: Returns,
    pub rules: CallRules,
    pub native: Option<u32>,
}

/// One kernel function that programs can call.
pub struct Func<W> {
    /// C name.
    pub name: &'static str,
    /// C prototype with parameter names, as the kernel declares it. Empty for helpers.
    pub proto: &'static str,
    /// Helper number in include/uapi/linux/bpf.h, or `None` for kfuncs.
    pub helper: Option<u32>,
    /// Releases of Linux that have the function.
    pub releases: Releases,
    /// Contexts (kinds of callbacks) in which programs may call the function, one bit for each. A
    /// call is allowed if one of these bits is also set in the program's current context; see
    /// [`Vm::set_contexts`](super::Vm::set_contexts).
    pub contexts: u32,
    /// Number of instructions that would replace a call of this function in a scheduler in C that
    /// is compiled into the kernel. `None` if such a scheduler would make the same call.
    pub native: Option<u32>,
    /// Name under which a machine's cost table lists the function. If the kernel has renamed the
    /// function, this is its newest name.
    pub priced_as: &'static str,
    /// Cost in ns that every call adds to [`Vm::cost`](super::Vm::cost).
    pub cost: u32,
    target: Target,
    world: std::marker::PhantomData<fn(&mut W)>,
}

impl<W: World> Func<W> {
    /// Returns whether only programs that may sleep may call the function (KF_SLEEPABLE).
    pub fn may_sleep(&self) -> bool {
        self.target.rules.may_sleep()
    }

    /// Makes a kfunc. Its name is taken from the prototype.
    pub fn kfunc<Args, F: Body<W, Args>>(row: Row, body: F) -> Func<W> {
        let head = row.proto.split('(').next().unwrap_or(row.proto);
        let name = &head[head.rfind([' ', '*']).map_or(0, |i| i + 1)..];
        let signature = Declared::Prototype(row.proto);
        Func {
            proto: row.proto,
            releases: row.releases,
            contexts: row.contexts,
            native: row.native,
            priced_as: if row.now.is_empty() { name } else { row.now },
            ..Func::make(name, None, signature, row.rules, body)
        }
    }

    /// Makes a numbered helper.
    pub fn helper<Args, F: Body<W, Args>>(row: HelperRow, body: F) -> Func<W> {
        let signature = Declared::Arguments(row.args, row.returns);
        Func {
            native: row.native,
            ..Func::make(row.name, Some(row.number), signature, row.rules, body)
        }
    }

    fn make<Args, F: Body<W, Args>>(
        name: &'static str,
        helper: Option<u32>,
        signature: Declared,
        rules: CallRules,
        _: F,
    ) -> Func<W> {
        const {
            assert!(
                size_of::<F>() == 0,
                "the function is passed as an item, not as a pointer or a capturing closure"
            )
        };
        Func {
            name,
            proto: "",
            helper,
            releases: (V6_12..).into(),
            contexts: ANY,
            native: None,
            priced_as: name,
            cost: 0,
            target: Target {
                entry: shim::<W, Args, F>,
                contexts: ANY,
                cost: 0,
                args: F::ARGS,
                name,
                signature,
                rules,
            },
            world: std::marker::PhantomData,
        }
    }

    /// Returns the data that the engines need for a call instruction.
    pub(super) fn target(&self) -> Target {
        Target {
            contexts: self.contexts,
            cost: self.cost,
            ..self.target
        }
    }

    /// Checks that the row describes every argument of the function for the sanitizer. A program
    /// that calls a function without a description is not loaded if the sanitizer is on.
    ///
    /// # Errors
    /// A description is missing. The message names the function and the argument.
    pub fn check_signature(&self, kernel: &Rules) -> Result<(), Error> {
        let nr = self.target.signature.resolve(self.name, kernel)?.args.len();
        // A prototype may have trailing arguments that the Rust function ignores.
        match nr >= usize::from(self.target.args) {
            true => Ok(()),
            false => Err(Error::new(format!(
                "{} takes {} arguments, but its row describes {nr}",
                self.name, self.target.args
            ))),
        }
    }
}

impl<W> fmt::Debug for Func<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Func({})", self.name)
    }
}

/// Entry point of one function. Converts registers to Rust values, calls the function, and converts
/// its result to a register.
unsafe extern "C" fn shim<W: World, Args, F: Body<W, Args>>(
    cx: *mut Context,
    r1: u64,
    r2: u64,
    r3: u64,
    r4: u64,
    r5: u64,
) -> u64 {
    // SAFETY: a function item has size 0, which `make` asserts, so any pointer is valid for it. The
    // world outlives this call.
    let result = unsafe {
        let body = std::ptr::NonNull::<F>::dangling().read();
        body.call(&mut *(*cx).world.cast::<W>(), [r1, r2, r3, r4, r5])
    };
    match result {
        Ok(value) => value,
        // SAFETY: nothing with a destructor is alive in this frame, and all frames from the
        // trampoline to this one belong to compiled code or the interpreter.
        Err(fault) => unsafe { raise(cx, fault) },
    }
}

/// A Rust function callable from BPF. Implemented for functions that take the world and up to five
/// register arguments.
pub trait Body<W, Args>: Copy + 'static {
    /// Number of arguments.
    const ARGS: u8;
    /// Calls the function with the five argument registers.
    fn call(self, world: &mut W, regs: [u64; 5]) -> Result<u64, Fault>;
}

/// A type that an argument of a [`Body`] can have.
pub trait FromReg {
    /// Converts a register to the type. Truncates the value as the C calling convention does.
    fn from_reg(reg: u64) -> Self;
}

/// A type that a [`Body`] can return.
pub trait IntoReg {
    /// Converts the result to a register. Extends the value to 64 bits as the C calling convention
    /// does.
    fn into_reg(self) -> Result<u64, Fault>;
}

macro_rules! reg {
    ($($t:ty: $from:expr, $into:expr;)*) => {$(
        impl FromReg for $t {
            #[inline(always)]
            fn from_reg(reg: u64) -> $t { ($from)(reg) }
        }
        impl IntoReg for $t {
            #[inline(always)]
            fn into_reg(self) -> Result<u64, Fault> { Ok(($into)(self)) }
        }
    )*};
}

reg! {
    u64: |r| r, |v| v;
    i64: |r| r as i64, |v| v as u64;
    u32: |r| r as u32, u64::from;
    i32: |r| r as i32, |v| i64::from(v) as u64;
    bool: |r: u64| r as u8 != 0, u64::from;
}

impl IntoReg for () {
    #[inline(always)]
    fn into_reg(self) -> Result<u64, Fault> {
        Ok(0)
    }
}

impl<T: IntoReg> IntoReg for Result<T, Fault> {
    #[inline(always)]
    fn into_reg(self) -> Result<u64, Fault> {
        self?.into_reg()
    }
}

macro_rules! body {
    ($($arg:ident $index:tt),*) => {
        impl<W, F, R: IntoReg, $($arg: FromReg),*> Body<W, fn($($arg),*) -> R> for F
        where
            F: Fn(&mut W, $($arg),*) -> R + Copy + 'static,
        {
            const ARGS: u8 = <[usize]>::len(&[$($index),*]) as u8;

            #[inline(always)]
            fn call(self, world: &mut W, _regs: [u64; 5]) -> Result<u64, Fault> {
                self(world, $($arg::from_reg(_regs[$index])),*).into_reg()
            }
        }
    };
}

body!();
body!(A 0);
body!(A 0, B 1);
body!(A 0, B 1, C 2);
body!(A 0, B 1, C 2, D 3);
body!(A 0, B 1, C 2, D 3, E 4);
