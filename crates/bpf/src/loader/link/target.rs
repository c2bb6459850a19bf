// SPDX-License-Identifier: GPL-2.0-only
//! The target of linking: the types, functions, variables and configuration of a kernel.

use std::collections::{BTreeMap, BTreeSet};

use crate::btf::build::Builder;
use crate::btf::{Btf, TypeKind, essential_name};

/// The types, functions, variables and configuration of a kernel.
#[derive(Clone, Debug, Default)]
pub struct Target {
    btf: Btf,
    ksyms: BTreeMap<String, u64>,
    kconfig: BTreeMap<String, String>,
    struct_ops: BTreeSet<String>,
    /// Functions that the kernel is known to lack, each with the reason.
    lacks: BTreeMap<String, String>,
    /// Values of fields that are not among the types, by names such as `task_struct.min_flt`.
    fields: BTreeMap<String, i64>,
    /// Whether a number that a struct lacks reads as 0. Otherwise a load of it is a trap.
    pub missing_numbers_read_as_0: bool,
}

impl Target {
    /// Makes a kernel with these types. The functions among the types are the kernel's kfuncs. The
    /// variables among the types are the kernel variables whose type is known.
    pub fn new(types: Builder) -> Target {
        Target {
            btf: types.finish(),
            ..Target::default()
        }
    }

    /// Makes a kernel with these types, for example those of /sys/kernel/btf/vmlinux.
    pub fn from_btf(mut btf: Btf) -> Target {
        btf.index();
        Target {
            btf,
            ..Target::default()
        }
    }

    /// Sets the address of a kernel variable. For a per-CPU variable, this is the address that
    /// `bpf_per_cpu_ptr` takes.
    pub fn ksym(&mut self, name: &str, addr: u64) {
        self.ksyms.insert(name.to_string(), addr);
    }

    /// Sets a configuration value in the syntax of .config: `y`, `m`, `n`, `250`, `"text"`.
    /// `LINUX_KERNEL_VERSION` is also such a value, for example `0x70200`.
    pub fn config(&mut self, name: &str, value: &str) {
        self.kconfig.insert(name.to_string(), value.to_string());
    }

    /// Sets the reason why the kernel lacks a function. Messages then have the form `kfunc NAME
    /// WHY`.
    pub fn set_missing_reason(&mut self, name: &str, why: &str) {
        self.lacks.insert(name.to_string(), why.to_string());
    }

    /// Sets the value that loads of a field yield. The field must not be among the types. `name` is a
    /// path of members, for example `task_struct.signal`.
    pub fn set_field(&mut self, name: &str, value: i64) {
        self.fields.insert(name.to_string(), value);
    }

    /// Returns the value of a field that is not among the types. `described` is its name after
    /// "struct " or "union ".
    pub(super) fn field(&self, described: &str) -> Option<i64> {
        if self.fields.is_empty() {
            return None;
        }
        let name = described.split_once(' ').map_or(described, |(_, name)| name);
        let (root, members) = name.split_once('.')?;
        self.fields.get(&format!("{}.{members}", essential_name(root))).copied()
    }

    /// Allows objects to implement the callbacks of this struct.
    pub fn struct_ops(&mut self, name: &str) {
        self.struct_ops.insert(name.to_string());
    }

    /// Returns the kernel's types.
    pub fn btf(&self) -> &Btf {
        &self.btf
    }

    /// Returns the BTF id of a kfunc.
    pub(super) fn kfunc(&self, name: &str) -> Option<u32> {
        self.btf.find(name, |kind| matches!(kind, TypeKind::Func { .. }))
    }

    /// Returns the reason why the kernel lacks a function, as the end of a message.
    pub(super) fn why_not(&self, name: &str) -> &str {
        self.lacks.get(name).map_or("is not modelled", String::as_str)
    }

    /// Returns the address of a variable, and its type if it is known.
    pub(super) fn variable(&self, name: &str) -> Option<(u64, Option<u32>)> {
        let addr = *self.ksyms.get(name)?;
        let var = self.btf.find(name, |kind| matches!(kind, TypeKind::Var { .. }));
        let ty = var.and_then(|var| match *self.btf.kind(var) {
            TypeKind::Var { ty, .. } => Some(ty),
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
