// SPDX-License-Identifier: GPL-2.0-only
//! What BPF code can call: kfuncs and helpers, written as plain Rust functions over the world they act on.
//!
//! ```
//! # use bpf::func::{Fault, Func, World, ANY};
//! fn scx_bpf_task_cpu<W: World>(world: &mut W, task: u64) -> Result<i32, Fault> {
//!     world.region().load::<i32>(task)
//! }
//! fn table<W: World>() -> Vec<Func<W>> {
//!     vec![Func::kfunc(ANY, "s32 scx_bpf_task_cpu(struct task_struct *p)", scx_bpf_task_cpu::<W>)]
//! }
//! ```
//!
//! The C prototype is the kernel's: it names the function and becomes its BTF. The Rust function takes the world and up to
//! five arguments and returns a register value or a [`Result`] of one. Compiled code calls the monomorphised shim directly;
//! an `Err` ends the running BPF program and surfaces from [`Vm::call`](crate::vm::Vm::call), skipping nothing that has a
//! destructor: the shim drops everything before it unwinds.

use std::fmt;

use crate::region::Region;
use crate::vm::{self, Context, Vm};

/// Callable from every context.
pub const ANY: u32 = u32::MAX;

/// Why a BPF program was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A load or store at an address the program has no business with.
    Memory,
    /// More instructions than the budget of one call.
    Budget,
    /// BPF stack overflow: calls too deep.
    Stack,
    /// Something not modelled (a kernel field, a kfunc, an instruction) was really executed.
    Trap,
    /// A helper or kfunc refused its arguments.
    Func,
    /// No error: `bpf_throw`, with its cookie. The program that the kernel called ends and returns it.
    Throw(u64),
    /// A kfunc not allowed in the current context.
    NotAllowed,
    /// Found by checked mode; [`Details::report`] tells more.
    Check,
}

/// What checked mode tells of a fault beside its message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The address it is about, if it is about one.
    pub addr: Option<u64>,
    /// What is known of it, a sentence each; of places in the code their instruction.
    pub notes: Vec<(String, Option<usize>)>,
    /// The calls under way, innermost first: the instruction that makes the call.
    pub callers: Vec<usize>,
}

/// A policy's fault: what, and where in the BPF code. [`Code::describe`](crate::image::Code::describe) words the place.
#[derive(Clone, PartialEq, Eq)]
pub struct Fault(Box<Details>);

/// The contents of a [`Fault`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    /// Which kind.
    pub kind: FaultKind,
    /// In the kernel's words where the kernel has some.
    pub message: String,
    /// Index of the running instruction in the linked code; filled in by the VM.
    pub pc: Option<usize>,
    /// In checked mode.
    pub report: Option<Report>,
}

impl Fault {
    /// A fault whose place the VM fills in.
    #[cold]
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault(Box::new(Details {
            kind,
            message: message.into(),
            pc: None,
            report: None,
        }))
    }

    /// A helper or kfunc refuses, with the kernel's message.
    #[cold]
    pub fn func(message: impl Into<String>) -> Fault {
        Fault::new(FaultKind::Func, message)
    }

    pub(crate) fn with_report(mut self, report: Report) -> Fault {
        self.0.report.get_or_insert(report);
        self
    }

    /// With this report, whatever it had.
    pub(crate) fn with_whole_report(mut self, report: Report) -> Fault {
        self.0.report = Some(report);
        self
    }

    pub(crate) fn at(mut self, pc: usize) -> Fault {
        self.0.pc.get_or_insert(pc);
        self
    }
}

impl std::ops::Deref for Fault {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

/// What the helpers of this crate need to know of the machine they run on.
pub trait World: Sized + 'static {
    /// The machine's address space.
    fn region(&self) -> &Region;
    /// The loaded program.
    fn vm(&self) -> &Vm<Self>;
    /// Monotonic clock: `bpf_ktime_get_ns`.
    fn now_ns(&self) -> u64;
    /// The same at the last tick: `bpf_ktime_get_coarse_ns`.
    fn coarse_ns(&self) -> u64;
    /// `jiffies_64`.
    fn jiffies(&self) -> u64;
    /// The CPU the program runs on.
    fn cpu(&self) -> u32;
    /// CPU ids are below this.
    fn nr_cpu_ids(&self) -> u32;
    /// NUMA nodes are numbered below this.
    fn nr_node_ids(&self) -> u32;
    /// Are interrupts off where the program runs? Then no timer can be waited for.
    fn irqs_disabled(&self) -> bool;
    /// What to add to the address of a per-CPU kernel variable for this CPU's copy: `bpf_per_cpu_ptr`. `cpu` is valid.
    fn per_cpu_offset(&self, cpu: u32) -> u64;
    /// Address of the running task's `task_struct`.
    fn current_task(&self) -> u64;
    /// `tgid << 32 | pid` of the running task.
    fn current_pid_tgid(&self) -> u64;
    /// `comm` of the running task, NUL-padded.
    fn current_comm(&self) -> [u8; 16];
    /// The next number of the machine's seeded generator.
    fn prandom_u32(&mut self) -> u32;
    /// A line of `bpf_printk` or of a stream.
    ///
    /// # Errors
    /// If the run has no memory left for it.
    fn log(&mut self, line: String) -> Result<(), Fault>;
    /// A map value that held a reference to a kernel object (`__kptr`) is gone: gives the reference back.
    fn release_object(&mut self, object: u64);
    /// Can a map of this kind (TASK_STORAGE, CGRP_STORAGE) be given a value for the object at this address? Not if that is gone, or
    /// going: nothing would free the value.
    ///
    /// # Errors
    /// It is not an object that such a map keeps values for.
    fn can_own_storage(&self, kind: u32, owner: u64) -> Result<bool, Fault>;
    /// A `bpf_spin_lock` or `bpf_res_spin_lock` at this address is taken: charge the wait.
    ///
    /// # Errors
    /// If the run has no memory left to note the lock.
    fn spin_lock(&mut self, lock: u64) -> Result<(), Fault>;
    /// It is released.
    fn spin_unlock(&mut self, lock: u64);
    /// Start (or move) the timer whose `struct bpf_timer` is at this address; `flags` as for `bpf_timer_start`
    /// (BPF_F_TIMER_ABS, BPF_F_TIMER_CPU_PIN). On expiry call [`Vm::run_timer`].
    ///
    /// # Errors
    /// If the run has no memory left to note it.
    fn timer_start(&mut self, timer: u64, ns: u64, flags: u64) -> Result<(), Fault>;
    /// Stop the timer; was it pending?
    fn timer_cancel(&mut self, timer: u64) -> bool;
}

/// The machine code entry of a function: context, then r1 to r5.
pub type Entry = unsafe extern "C" fn(*mut Context, u64, u64, u64, u64, u64) -> u64;

/// One callable function.
pub struct Func<W> {
    /// C name.
    pub name: &'static str,
    /// C prototype with parameter names, as the kernel declares it; empty for helpers.
    pub proto: &'static str,
    /// Helper number of include/uapi/linux/bpf.h; `None` for kfuncs.
    pub helper: Option<u32>,
    /// The contexts it may be called from: one common bit with [`Vm::set_contexts`] is needed.
    pub contexts: u32,
    /// Added to [`Vm::cost`] by every call, in units of the world's choice.
    pub cost: u32,
    pub(crate) args: u8,
    pub(crate) entry: Entry,
    world: std::marker::PhantomData<fn(&mut W)>,
}

impl<W: World> Func<W> {
    /// A kfunc. Its name is taken from the prototype.
    pub fn kfunc<Args, F: Body<W, Args>>(contexts: u32, proto: &'static str, body: F) -> Func<W> {
        let name = proto.split('(').next().unwrap_or(proto);
        let start = name.rfind([' ', '*']).map_or(0, |i| i + 1);
        Func {
            proto,
            ..Func::make(&name[start..], None, contexts, body)
        }
    }

    /// A numbered helper.
    pub fn helper<Args, F: Body<W, Args>>(number: u32, name: &'static str, body: F) -> Func<W> {
        Func::make(name, Some(number), ANY, body)
    }

    fn make<Args, F: Body<W, Args>>(name: &'static str, helper: Option<u32>, contexts: u32, _: F) -> Func<W> {
        const {
            assert!(
                size_of::<F>() == 0,
                "a function item, not a pointer or a capturing closure"
            )
        };
        Func {
            name,
            proto: "",
            helper,
            contexts,
            cost: 0,
            args: F::ARGS,
            entry: shim::<W, Args, F>,
            world: std::marker::PhantomData,
        }
    }
}

impl<W> fmt::Debug for Func<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Func({})", self.name)
    }
}

/// The entry of one function: registers to Rust values and back.
unsafe extern "C" fn shim<W: World, Args, F: Body<W, Args>>(
    cx: *mut Context,
    r1: u64,
    r2: u64,
    r3: u64,
    r4: u64,
    r5: u64,
) -> u64 {
    // SAFETY: a function item has no bytes; `make` asserts it. The world outlives the call that set it.
    let result = unsafe {
        let body = std::ptr::NonNull::<F>::dangling().read();
        body.call(&mut *(*cx).world.cast::<W>(), [r1, r2, r3, r4, r5])
    };
    match result {
        Ok(value) => value,
        // SAFETY: nothing with a destructor is alive in this frame, and below it are compiled or interpreted frames only.
        Err(fault) => unsafe { vm::raise(cx, fault) },
    }
}

/// A Rust function callable from BPF: implemented for functions of the world and up to five register arguments.
pub trait Body<W, Args>: Copy + 'static {
    /// How many arguments it takes.
    const ARGS: u8;
    /// Calls it with the five argument registers.
    fn call(self, world: &mut W, regs: [u64; 5]) -> Result<u64, Fault>;
}

/// A value in an argument register.
pub trait FromReg {
    /// Truncates as the C calling convention does.
    fn from_reg(reg: u64) -> Self;
}

/// A result in r0, possibly a fault.
pub trait IntoReg {
    /// Extends to 64 bits as the C calling convention does.
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
