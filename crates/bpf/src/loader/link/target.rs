// SPDX-License-Identifier: GPL-2.0-only
//! What an object is linked against: the kernel it will run on, as far as objects can see it.

use std::collections::{BTreeMap, BTreeSet};

use crate::btf::build::Builder;
use crate::btf::{Btf, Kind};

/// A kernel's types, functions, variables and configuration.
#[derive(Clone, Debug, Default)]
pub struct Target {
    btf: Btf,
    ksyms: BTreeMap<String, u64>,
    kconfig: BTreeMap<String, String>,
    struct_ops: BTreeSet<String>,
    /// Functions that it is known not to have, and why.
    lacks: BTreeMap<String, String>,
}

impl Target {
    /// A kernel with these types. kfuncs are the functions among them; typed variables the variables.
    pub fn new(types: Builder) -> Target {
        Target {
            btf: types.finish(),
            ..Target::default()
        }
    }

    /// A kernel with these types, for example those of /sys/kernel/btf/vmlinux.
    pub fn from_btf(mut btf: Btf) -> Target {
        btf.index();
        Target {
            btf,
            ..Target::default()
        }
    }

    /// Gives a kernel variable its address: of per-CPU ones what `bpf_per_cpu_ptr` takes.
    pub fn ksym(&mut self, name: &str, addr: u64) {
        self.ksyms.insert(name.to_string(), addr);
    }

    /// Sets a configuration value as .config spells it: `y`, `m`, `n`, `250`, `"text"`.
    /// `LINUX_KERNEL_VERSION` is one too: `0x70200`.
    pub fn config(&mut self, name: &str, value: &str) {
        self.kconfig.insert(name.to_string(), value.to_string());
    }

    /// Says why it has no function of this name, for messages: `kfunc NAME WHY`.
    pub fn lacks(&mut self, name: &str, why: &str) {
        self.lacks.insert(name.to_string(), why.to_string());
    }

    /// Objects may implement this struct's callbacks.
    pub fn struct_ops(&mut self, name: &str) {
        self.struct_ops.insert(name.to_string());
    }

    /// Its types.
    pub fn btf(&self) -> &Btf {
        &self.btf
    }

    pub(super) fn kfunc(&self, name: &str) -> Option<u32> {
        self.btf.find(name, |kind| matches!(kind, Kind::Func { .. }))
    }

    pub(super) fn why_not(&self, name: &str) -> &str {
        self.lacks.get(name).map_or("is not modelled", String::as_str)
    }

    /// Address and, when known, type of a variable.
    pub(super) fn variable(&self, name: &str) -> Option<(u64, Option<u32>)> {
        let addr = *self.ksyms.get(name)?;
        let var = self.btf.find(name, |kind| matches!(kind, Kind::Var { .. }));
        let ty = var.and_then(|var| match *self.btf.kind(var) {
            Kind::Var { ty, .. } => Some(ty),
            _ => None,
        });
        Some((addr, ty))
    }

    pub(super) fn config_value(&self, name: &str) -> Option<&str> {
        self.kconfig.get(name).map(String::as_str)
    }

    pub(super) fn is_struct_ops(&self, name: &str) -> bool {
        self.struct_ops.contains(name)
    }
}
