// SPDX-License-Identifier: GPL-2.0-only
//! Tests of how kfuncs, kernel variables and configuration values are found.

use super::{load, parse};
use bpf::btf::build::Builder;
use bpf::image::{CALL_HELPER, CALL_KFUNC, TRAP};
use bpf::link::Target;

fn kernel() -> Target {
    let mut types = Builder::new();
    for proto in [
        "s32 create(u64 id, s32 node)",
        "bool insert___v2(struct task_struct *p, u64 id)",
        "void consume(u64 id)",
        "u64 insert(struct task_struct *p, u64 id, u64 flags)",
    ] {
        types.declare_func(proto).unwrap();
    }
    types.declare_var("struct rq runqueues").unwrap();
    types.declare_var("int counter").unwrap();
    let mut target = Target::new(types);
    target.ksym("runqueues", 0x1000);
    target.ksym("counter", 0x2000);
    target.ksym("untyped", 0x3000);
    for (name, value) in [
        ("LINUX_KERNEL_VERSION", "0x70200"),
        ("CONFIG_HZ", "250"),
        ("CONFIG_SMP", "y"),
        ("CONFIG_MODULE", "m"),
        ("CONFIG_NAME", "\"bookworm\""),
    ] {
        target.config(name, value);
    }
    target
}

#[test]
fn kfuncs_resolve_by_name_and_prototype() {
    let object = parse(
        "struct task_struct { int pid; };
         s32 create(u64 id, s32 node) __ksym;
         int insert___v2___compat(struct task_struct *p, u64 id) __ksym __weak;
         int insert___old(struct task_struct *p, u64 id) __ksym __weak;
         void gone(u64 id) __ksym __weak;
         void lost(u64 id) __ksym;
         #define exists(f) ({ !!f; })
         SEC(\"syscall\") int strong(void *ctx) { return create(1, 2); }
         SEC(\"syscall\") int weak(struct task_struct *p) { return exists(insert___v2___compat) ? insert___v2___compat(p, 1) : 5; }
         SEC(\"syscall\") int mismatch(struct task_struct *p) { return exists(insert___old) ? insert___old(p, 1) : 5; }
         SEC(\"syscall\") int missing(void *ctx) { if (exists(gone)) gone(1); return 0; }
         SEC(\"syscall\") int trap(void *ctx) { lost(1); return 0; }
         SEC(\"syscall\") int helper(void *ctx) { return ((u64 (*)(void))5)(); }",
    );
    let linked = load(&object, &kernel());
    let image = &linked.image;
    assert_eq!(image.code.kfuncs, ["create", "insert___v2"]);
    assert_eq!(linked.calls("strong"), [(CALL_KFUNC, 0)]);
    assert_eq!(linked.calls("weak"), [(CALL_KFUNC, 1)]);
    assert_eq!(linked.calls("helper"), [(CALL_HELPER, 5)]);
    // The kfunc's address is not 0, so the program sees that the kfunc exists.
    assert_ne!(linked.constants("weak"), [0]);
    assert_eq!(linked.constants("mismatch"), [0]);
    assert_eq!(linked.constants("missing"), [0]);
    assert!(linked.calls("mismatch").is_empty());
    assert!(image.code.traps.contains(&"kfunc lost is not modelled".to_string()));
    let differs = "kfunc insert differs: declared as \"int insert___old(struct task_struct *, u64)\", but it is \
                   \"u64 insert(struct task_struct *p, u64 id, u64 flags)\"";
    assert!(
        image.code.traps.contains(&differs.to_string()),
        "{:?}",
        image.code.traps
    );
    // The verifier refuses a reachable call of a weak kfunc of a different type.
    let insns = image.code.insns.iter();
    let differing: Vec<_> = insns.filter(|insn| insn.op == TRAP && insn.src == CALL_KFUNC).collect();
    let messages: Vec<&str> = differing
        .iter()
        .map(|insn| image.code.traps[insn.imm as usize].as_str())
        .collect();
    assert_eq!(messages, [differs]);
    // A missing symbol causes a warning only if it is not weak.
    assert_eq!(image.warnings, ["kfunc lost is not modelled"]);
}

#[test]
fn kernel_variables_resolve_by_name_and_type() {
    let object = parse(
        "struct rq { int cpu; };
         extern struct rq runqueues __ksym;
         extern long counter __ksym __weak;
         extern struct rq counter___other __ksym __weak;
         extern const void untyped __ksym;
         extern int gone __ksym __weak;
         extern int lost __ksym;
         SEC(\"syscall\") u64 rq(void *ctx) { return (u64)&runqueues; }
         SEC(\"syscall\") u64 any(void *ctx) { return (u64)&untyped; }
         SEC(\"syscall\") u64 as_long(void *ctx) { return (u64)&counter; }
         SEC(\"syscall\") u64 as_struct(void *ctx) { return (u64)&counter___other; }
         SEC(\"syscall\") u64 weak(void *ctx) { return (u64)&gone; }
         SEC(\"syscall\") u64 strong(void *ctx) { return (u64)&lost; }",
    );
    let linked = load(&object, &kernel());
    assert_eq!(linked.constants("rq"), [0x1000]);
    assert_eq!(linked.constants("any"), [0x3000]);
    assert_eq!(
        linked.constants("as_long"),
        [0x2000],
        "all integer types are compatible"
    );
    assert_eq!(linked.constants("as_struct"), [0]);
    assert_eq!(linked.constants("weak"), [0]);
    assert_eq!(
        linked.first("strong"),
        Err("kernel variable lost is not modelled".to_string())
    );
    assert_eq!(linked.image.warnings, ["kernel variable lost is not modelled"]);
}

#[test]
fn configuration_values_have_the_declared_type() {
    let object = parse(
        "enum libbpf_tristate { TRI_NO = 0, TRI_YES = 1, TRI_MODULE = 2 };
         extern int LINUX_KERNEL_VERSION __kconfig;
         extern unsigned long CONFIG_HZ __kconfig;
         extern _Bool CONFIG_SMP __kconfig;
         extern char CONFIG_MODULE __kconfig __weak;
         extern enum libbpf_tristate CONFIG_MODULE___tri __kconfig __weak;
         extern char CONFIG_NAME[6] __kconfig;
         extern int CONFIG_GONE __kconfig __weak;
         extern int CONFIG_LOST __kconfig;
         #define FN(name, x) SEC(\"syscall\") u64 name(void *ctx) { return (u64)&x; }
         FN(version, LINUX_KERNEL_VERSION) FN(hz, CONFIG_HZ) FN(smp, CONFIG_SMP) FN(module, CONFIG_MODULE)
         FN(name, CONFIG_NAME) FN(gone, CONFIG_GONE) FN(lost, CONFIG_LOST)",
    );
    let linked = load(&object, &kernel());
    let bytes = |function: &str, len| {
        linked
            .region
            .bytes(linked.constants(function)[0], len)
            .unwrap()
            .to_vec()
    };
    assert_eq!(bytes("version", 4), 0x70200u32.to_le_bytes());
    assert_eq!(bytes("hz", 8), 250u64.to_le_bytes());
    assert_eq!(bytes("smp", 1), [1]);
    assert_eq!(bytes("module", 1), *b"m");
    assert_eq!(bytes("name", 6), *b"bookw\0");
    assert_eq!(bytes("gone", 4), [0; 4]);
    assert_eq!(linked.first("lost"), Err("CONFIG_LOST is not configured".to_string()));
}
