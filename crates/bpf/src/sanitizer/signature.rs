// SPDX-License-Identifier: GPL-2.0-only
//! Descriptions of what functions do with their arguments, in particular with pointers, for the
//! sanitizer.
//!
//! The description of a kfunc follows from its prototype by the kernel's conventions
//! (Documentation/bpf/kfuncs.rst): types, `const`, and suffixes of parameter names. The description
//! of a helper is a list of its arguments. With `--sanitize`, a program is not loaded if it can
//! call a function without a description.

use super::rules::Rules;
use crate::error::Error;
use crate::image::FieldKind;

/// Size of the memory to which an argument points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Len {
    Bytes(u64),
    /// The size of a key of the map that is the argument r1.
    Key,
    /// The size of a value of the map that is the argument r1.
    Value,
    /// The value of the argument with this number, counted from 1.
    Arg(usize),
}

/// Kind of a special field, which only helpers and kfuncs may access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Special {
    SpinLock,
    ResSpinLock,
    Timer,
    Workqueue,
    List,
    ListNode,
    Tree,
    TreeNode,
    /// A kptr that owns a reference to its object.
    Kptr,
}

/// Kernel data that lies in a program's stack and that the program may not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opaque {
    /// An iterator, with the name of its struct.
    Iterator(&'static str),
    Dynptr,
    /// A saved interrupt flag. `with_lock` says whether the function that saved it also acquired a
    /// lock.
    IrqFlag {
        with_lock: bool,
    },
}

impl Opaque {
    /// Size of a struct bpf_dynptr in bytes.
    pub const DYNPTR_SIZE: u64 = 16;

    pub fn is_irq_flag(self) -> bool {
        matches!(self, Opaque::IrqFlag { .. })
    }

    pub fn name(self) -> &'static str {
        match self {
            Opaque::Iterator(tag) => tag,
            Opaque::Dynptr => "bpf_dynptr",
            Opaque::IrqFlag { with_lock: true } => "flag of bpf_res_spin_lock_irqsave()",
            Opaque::IrqFlag { with_lock: false } => "flag of bpf_local_irq_save()",
        }
    }
}

impl Special {
    pub fn name(self) -> &'static str {
        match self {
            Special::SpinLock => "bpf_spin_lock",
            Special::ResSpinLock => "bpf_res_spin_lock",
            Special::Timer => "bpf_timer",
            Special::Workqueue => "bpf_wq",
            Special::List => "bpf_list_head",
            Special::ListNode => "bpf_list_node",
            Special::Tree => "bpf_rb_root",
            Special::TreeNode => "bpf_rb_node",
            Special::Kptr => "kptr",
        }
    }

    pub fn is(self, field: &FieldKind) -> bool {
        match self {
            Special::SpinLock => *field == FieldKind::SpinLock,
            Special::ResSpinLock => *field == FieldKind::ResSpinLock,
            Special::Timer => *field == FieldKind::Timer,
            Special::Workqueue => *field == FieldKind::Workqueue,
            Special::List => matches!(field, FieldKind::ListHead(_)),
            Special::ListNode => *field == FieldKind::ListNode,
            Special::Tree => matches!(field, FieldKind::RbRoot(_)),
            Special::TreeNode => *field == FieldKind::RbNode,
            Special::Kptr => matches!(field, FieldKind::Kptr { owned: true, .. }),
        }
    }
}

/// How a function uses one of its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arg {
    /// A number, or a value that the function checks itself: a pointer to a map, to an allocated
    /// object or to a function.
    Value,
    /// An argument that need not have a value, for one of two reasons. Either the kernel passes the
    /// value itself (`__prog`), or the function accepts an invalid pointer (`__ign`), or a pointer into the program's
    /// arena (`__arena`).
    Ignored,
    /// Pointer to memory in a map's value.
    MapMemory(Len),
    /// Pointer to a kernel object of this type, or to a part of a kernel object if the part has
    /// this type.
    Kernel {
        tag: &'static str,
        or_null: bool,
    },
    /// Pointer to a CPU mask that the function reads: a kernel mask, a bpf_cpumask, or program
    /// memory.
    Mask,
    Read(Len),
    Write(Len),
    /// Pointer to a bpf_cpumask that the function writes. The number is the size of the mask in
    /// bytes.
    OwnMask(u64),
    /// Pointer to the start of a special field of a map value, object or section.
    Field(Special),
    /// Pointer to memory in the stack, in which the function creates kernel data of this kind. The
    /// number is the size of the data in bytes.
    Make(Opaque, u64),
    /// Pointer to kernel data of this kind in the stack. An earlier call must have created the
    /// data.
    Use(Opaque),
    /// Pointer to a per-CPU object. The function returns a pointer to the copy of one CPU.
    PerCpu,
}

/// Result of a helper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returns {
    /// RET_VOID
    Nothing,
    /// RET_INTEGER
    Number,
    /// RET_PTR_TO_*
    Pointer,
    /// RET_PTR_TO_*_OR_NULL
    PointerOrNull,
}

/// Declaration from which a function's description is made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Declared {
    /// C prototype of a kfunc.
    Prototype(&'static str),
    /// Arguments and result of a helper.
    Arguments(&'static [Arg], Returns),
}

impl Declared {
    /// Returns the description of the function with this declaration.
    ///
    /// # Errors
    /// The meaning of a pointer argument is not known.
    pub fn resolve(self, name: &str, kernel: &Rules) -> Result<Signature, Error> {
        match self {
            Declared::Prototype(proto) => parse_prototype(name, proto, kernel),
            Declared::Arguments(args, returns) => Ok(Signature {
                args: args.to_vec(),
                pointer: matches!(returns, Returns::Pointer | Returns::PointerOrNull),
                nullable: returns == Returns::PointerOrNull,
                void: returns == Returns::Nothing,
            }),
        }
    }
}

/// Description of a function's arguments and result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub args: Vec<Arg>,
    pub pointer: bool,
    /// Whether a helper may return NULL. For a kfunc, its `CallRules` contain this information.
    pub nullable: bool,
    /// Whether the function returns nothing.
    pub void: bool,
}

/// Returns the description of a kfunc, derived from its prototype.
///
/// # Errors
/// The meaning of a pointer argument is unknown.
fn parse_prototype(name: &str, proto: &'static str, rules: &Rules) -> Result<Signature, Error> {
    let unknown = |param: &str| format!("kfunc {name}: the sanitizer has no rule for the parameter \"{param}\"");
    let (head, params) = proto.split_once('(').ok_or_else(|| unknown(proto))?;
    let params = split(params.strip_suffix(')').ok_or_else(|| unknown(proto))?);
    let mut args = Vec::new();
    for (n, param) in params.iter().enumerate() {
        args.push(parse_param(param, params.get(n + 1), n, name, rules).ok_or_else(|| unknown(param))?);
    }
    Ok(Signature {
        args,
        pointer: head.contains('*'),
        nullable: false,
        void: head.starts_with("void ") && !head.contains('*'),
    })
}

/// Splits the text between the outermost parentheses into parameters.
fn split(params: &'static str) -> Vec<&'static str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in params.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(params[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(params[start..].trim());
    found.retain(|param| !param.is_empty() && *param != "void");
    found
}

fn parse_param(param: &'static str, next: Option<&&str>, n: usize, name: &str, rules: &Rules) -> Option<Arg> {
    if param.contains('(') || !param.contains('*') {
        return Some(Arg::Value);
    }
    let (ty, variable) = param.rsplit_once('*')?;
    let (ty, variable) = (ty.trim(), variable.trim());
    if ty.contains('*') {
        return None;
    }
    if ["__ign", "__prog", "__arena", "__arena__nullable"]
        .iter()
        .any(|suffix| variable.ends_with(suffix))
    {
        return Some(Arg::Ignored);
    }
    if ["__map", "__alloc", "__refcounted_kptr"]
        .iter()
        .any(|suffix| variable.ends_with(suffix))
    {
        return Some(Arg::Value);
    }
    let is_const = ty.starts_with("const ");
    let ty = ty.strip_prefix("const ").unwrap_or(ty);
    let memory = |len| if is_const { Arg::Read(len) } else { Arg::Write(len) };
    let size_follows = next.is_some_and(|next| {
        let size = next.rsplit(' ').next().unwrap_or("");
        (size.ends_with("__sz") || size.ends_with("__szk"))
            && size.starts_with(variable.split("__").next().unwrap_or("-"))
            || name.starts_with("bpf_stream_vprintk") && size == "len__sz"
    });
    if size_follows {
        return Some(memory(Len::Arg(n + 2)));
    }
    if variable.ends_with("__irq_flag") {
        let flag = Opaque::IrqFlag {
            with_lock: name.contains("lock"),
        };
        return Some(match name.contains("restore") {
            true => Arg::Use(flag),
            false => Arg::Make(flag, 8),
        });
    }
    let Some(tag) = ty.strip_prefix("struct ") else {
        return match ty {
            "char" => Some(Arg::Read(Len::Bytes(1))),
            "bool" | "u8" => Some(memory(Len::Bytes(1))),
            "int" | "s32" | "u32" => Some(memory(Len::Bytes(4))),
            "s64" | "u64" | "unsigned long" => Some(memory(Len::Bytes(8))),
            "void" if name == "bpf_cast_to_kern_ctx" => Some(Arg::Value),
            _ => None,
        };
    };
    let field = match tag {
        "bpf_res_spin_lock" => Some(Special::ResSpinLock),
        "bpf_timer" => Some(Special::Timer),
        "bpf_wq" => Some(Special::Workqueue),
        "bpf_list_head" => Some(Special::List),
        "bpf_list_node" => Some(Special::ListNode),
        "bpf_rb_root" => Some(Special::Tree),
        "bpf_rb_node" => Some(Special::TreeNode),
        _ => None,
    };
    if let Some(field) = field {
        return Some(Arg::Field(field));
    }
    match tag {
        "bpf_dynptr" if variable.ends_with("__uninit") => Some(Arg::Make(Opaque::Dynptr, Opaque::DYNPTR_SIZE)),
        "bpf_dynptr" => Some(Arg::Use(Opaque::Dynptr)),
        "bpf_cpumask" if !is_const => Some(Arg::OwnMask(rules.struct_size(tag)?)),
        "cpumask" if is_const => Some(Arg::Mask),
        "cpumask" => None,
        tag if rules.is_object(tag) => Some(Arg::Kernel {
            tag,
            or_null: variable.ends_with("__nullable"),
        }),
        tag if tag.starts_with("bpf_iter_") => Some(match name.ends_with("_new") {
            true => Arg::Make(Opaque::Iterator(tag), rules.struct_size(tag)?),
            false => Arg::Use(Opaque::Iterator(tag)),
        }),
        tag => Some(memory(Len::Bytes(rules.struct_size(tag)?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::ObjectType;

    const fn object(name: &'static str, parts: &'static [(u64, &'static str)]) -> ObjectType {
        ObjectType {
            name,
            writable: &[],
            parts,
            field_at: |_| String::new(),
        }
    }

    static TASK: ObjectType = object("task_struct", &[(0, "cpumask")]);
    static CGROUP: ObjectType = object("cgroup", &[(0, "cgroup_subsys_state")]);

    fn args(proto: &'static str) -> Result<Vec<Arg>, Error> {
        let rules = Rules {
            structs: vec![("args", 24), ("bpf_iter_x", 40)],
            objects: vec![&TASK, &CGROUP],
            ..Rules::default()
        };
        let name = proto.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap();
        parse_prototype(name, proto, &rules).map(|signature| signature.args)
    }

    #[test]
    fn prototypes_describe_their_pointers() {
        for (proto, expected) in [
            ("void f(void)", vec![]),
            (
                "s32 f(struct task_struct *p, struct cgroup *c__nullable, u64 flags)",
                vec![
                    Arg::Kernel {
                        tag: "task_struct",
                        or_null: false,
                    },
                    Arg::Kernel {
                        tag: "cgroup",
                        or_null: true,
                    },
                    Arg::Value,
                ],
            ),
            ("s32 f(bool *is_idle)", vec![Arg::Write(Len::Bytes(1))]),
            ("void f(struct args *args)", vec![Arg::Write(Len::Bytes(24))]),
            (
                "void f(const s32 *a, u32 a__sz)",
                vec![Arg::Read(Len::Arg(2)), Arg::Value],
            ),
            (
                "void f(u64 x, struct scx_cid_topo *out__uninit, size_t out__sz)",
                vec![Arg::Value, Arg::Write(Len::Arg(3)), Arg::Value],
            ),
            ("int f(const char *s__ign)", vec![Arg::Ignored]),
            ("void f(char *fmt)", vec![Arg::Read(Len::Bytes(1))]),
            ("u32 f(const struct cpumask *m)", vec![Arg::Mask]),
            ("u32 f(struct bpf_cpumask *m)", vec![Arg::OwnMask(1032)]),
            (
                "int f_new(struct bpf_iter_x *it)",
                vec![Arg::Make(Opaque::Iterator("bpf_iter_x"), 40)],
            ),
            (
                "int *f_next(struct bpf_iter_x *it)",
                vec![Arg::Use(Opaque::Iterator("bpf_iter_x"))],
            ),
            (
                "void f_save(unsigned long *flags__irq_flag)",
                vec![Arg::Make(Opaque::IrqFlag { with_lock: false }, 8)],
            ),
            (
                "int f(struct bpf_rb_root *root, struct bpf_rb_node *node, bool (less)(struct bpf_rb_node *, u64), u64 off)",
                vec![
                    Arg::Field(Special::Tree),
                    Arg::Field(Special::TreeNode),
                    Arg::Value,
                    Arg::Value,
                ],
            ),
        ] {
            assert_eq!(args(proto), Ok(expected), "{proto}");
        }
    }

    #[test]
    fn a_pointer_of_unknown_meaning_is_rejected() {
        for proto in [
            "void f(void *p)",
            "void f(struct unknown *p)",
            "void f(u64 **p)",
            "int f_new(struct bpf_iter_y *it)",
            "void f(struct cpumask *m)",
        ] {
            assert!(args(proto).is_err(), "{proto}");
        }
    }
}
