// SPDX-License-Identifier: GPL-2.0-only
//! Tests of linking functions: calls, callbacks, unreachable code, source lines, and objects that
//! libbpf's linker made from several files.

use std::process::Command;

use super::{compile, compile_with, load, parse};
use bpf::image::{CALL_FUNCTION, FUNC_BASE, TRAP};
use bpf::link::Target;
use bpf::object::{Object, ProgramKind};

const CALLS: &str = r#"
static noinline int leaf(int x) { return x * 7 + 1; }
noinline int global(int x) { return leaf(x) + leaf(x + 1); }
__weak noinline int unused(int x) { return x * 3; }
static int callback(void *map, void *key) { return leaf(3); }
SEC("?tp_btf/some_event") int event(void *ctx) { return global(1); }
SEC("struct_ops.s/run") int run(void *ctx) {
    u64 (*for_each)(void *, void *, void *, u64) = (void *)164;
    for_each(ctx, callback, 0, 0);
    return leaf(2);
}
"#;

#[test]
fn calls_and_callbacks_become_indices() {
    let linked = load(&parse(CALLS), &Target::default());
    let code = &linked.image.code;
    let index = |name: &str| code.function(name).unwrap() as i64;
    assert_eq!(linked.calls("global"), [(CALL_FUNCTION, index("leaf")); 2]);
    assert_eq!(linked.calls("event"), [(CALL_FUNCTION, index("global"))]);
    assert_eq!(linked.constants("run"), [FUNC_BASE + index("callback") as u64]);
    assert_eq!(
        code.function("unused"),
        None,
        "a function that is never called is left out"
    );
    assert!(code.functions[index("global") as usize].is_global && !code.functions[index("leaf") as usize].is_global);
    assert_eq!(code.functions[index("leaf") as usize].params, Some(1));
    let callbacks = code.functions.iter().filter(|function| function.is_callback);
    assert_eq!(callbacks.map(|function| &*function.name).collect::<Vec<_>>(), ["run"]);
    let programs: Vec<_> = linked
        .image
        .programs
        .iter()
        .map(|p| (&*p.name, p.kind, &*p.attach_to, p.auto_attach, p.sleepable))
        .collect();
    assert_eq!(
        programs,
        [
            ("event", ProgramKind::TpBtf, "some_event", false, false),
            ("run", ProgramKind::StructOps, "run", true, true),
        ]
    );
}

#[test]
fn an_instruction_has_a_source_line() {
    let linked = load(&parse(CALLS), &Target::default());
    let code = &linked.image.code;
    let leaf = &code.functions[code.function("leaf").unwrap()];
    let text = code.describe(leaf.start);
    assert!(
        text.starts_with("leaf (") && text.ends_with("static noinline int leaf(int x) { return x * 7 + 1; })"),
        "{text}"
    );
    assert!(
        leaf.lines
            .iter()
            .all(|line| line.insn >= leaf.start && line.insn < leaf.end && line.line > 0)
    );
}

#[test]
fn without_debug_information_names_remain() {
    let object = Object::parse(&compile_with(CALLS, &[]), "test.bpf.o").unwrap();
    let linked = load(&object, &Target::default());
    let code = &linked.image.code;
    let leaf = &code.functions[code.function("leaf").unwrap()];
    assert_eq!(code.describe(leaf.start + 1), "leaf+1");
    assert_eq!((leaf.params, leaf.lines.len()), (None, 0));
}

#[test]
fn stack_use_is_estimated_from_the_code() {
    let object = parse(
        "static void (*use)(void *, int) = (void *)1;
         #define FN(name, n) SEC(\"syscall\") int name(void *ctx) { volatile char a[n]; a[0] = 1; use((void *)a, 2); return a[n - 1]; }
         FN(small, 5) FN(large, 200) SEC(\"syscall\") int none(void *ctx) { return 0; }",
    );
    let linked = load(&object, &Target::default());
    let stack = |name: &str| linked.image.code.functions[linked.image.code.function(name).unwrap()].stack;
    assert_eq!((stack("small"), stack("large"), stack("none")), (8, 200, 0));
}

#[test]
fn a_function_without_an_exit_traps_at_its_end() {
    let object = parse(
        "void __attribute__((noreturn)) bpf_throw(u64) __ksym;
         SEC(\"syscall\") int f(void *ctx) { bpf_throw(1); }",
    );
    let mut types = bpf::btf::build::Builder::new();
    types.declare_func("void bpf_throw(u64 cookie)").unwrap();
    let linked = load(&object, &Target::new(types));
    let last = linked.insns("f").last().unwrap();
    assert_eq!(last.op, TRAP);
    assert_eq!(
        linked.image.code.traps[last.imm as usize],
        "the end of function f was reached"
    );
}

#[test]
fn units_joined_by_the_libbpf_linker_load() {
    let one = "extern int shared; noinline int other(int x); struct a { int x; } CORE;
               __weak noinline int both(void *p) { return 1; }
               SEC(\"syscall\") u64 first(struct a *p) { return p->x + other(shared) + both(p); }";
    let two = "int before = 3; int shared = 4; noinline int other(int x) { return x + 1; } struct b { int y; } CORE;
               __weak noinline int both(void *p) { return 2; }
               SEC(\"syscall\") u64 second(struct b *p) { return p->y + both(p); }";
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("units-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name);
    std::fs::write(path("one.o"), compile(one)).unwrap();
    std::fs::write(path("two.o"), compile(two)).unwrap();
    // The command bpftool runs libbpf's linker. Debian installs bpftool in a directory that is only
    // in root's PATH.
    let tool = ["/usr/sbin/bpftool", "bpftool"]
        .into_iter()
        .find(|tool| Command::new(tool).arg("version").output().is_ok());
    let status = Command::new(tool.expect("this test needs the command bpftool (install the package bpftool)"))
        .args(["gen", "object"])
        .args([path("all.o"), path("one.o"), path("two.o")])
        .status()
        .unwrap();
    assert!(status.success());
    let object = Object::parse(&std::fs::read(path("all.o")).unwrap(), "all.o").unwrap();
    std::fs::remove_dir_all(&folder).unwrap();

    let target = super::target("struct a { long pad; int x; } a; struct b { char pad[12]; int y; } b;");
    let linked = load(&object, &target);
    let code = &linked.image.code;
    let index = |name: &str| code.function(name).unwrap() as i64;
    assert!(linked.calls("first").contains(&(CALL_FUNCTION, index("other"))));
    assert!(linked.calls("first").contains(&(CALL_FUNCTION, index("both"))));
    assert_eq!(linked.calls("second"), [(CALL_FUNCTION, index("both"))]);
    let loads = |name: &str| {
        linked
            .insns(name)
            .iter()
            .filter(|i| i.op == 0x61)
            .map(|i| i.off)
            .collect::<Vec<_>>()
    };
    assert!(loads("first").contains(&8) && loads("second") == [12]);
    assert_eq!(linked.image.get(&linked.region, "shared").unwrap(), "4");
    let shared = linked.image.variable("shared").unwrap().addr;
    assert!(linked.constants("first").contains(&shared));
}
