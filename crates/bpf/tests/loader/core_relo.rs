// SPDX-License-Identifier: GPL-2.0-only
//! Tests of all kinds of CO-RE relocations. The types of the kernel differ from those of the
//! object.

use super::{Linked, load, parse, target};

/// The types as the object declares them.
const LOCAL: &str = r#"
struct inner { int a; int b; } CORE;
struct inner___other_name { int b; } CORE;
enum state { IDLE, RUNNING, GONE_STATE };
enum state___old { OLD_STATE = 1 };
enum wide { WIDE_MAX = 1 };
enum missing_enum { MISSING_VALUE = 7 };
struct gone { int x; } CORE;
struct task {
    u64 first;
    struct inner nested;
    struct inner array[4];
    int flexible[2];
    struct task *parent;
    u32 bits3 : 3;
    s32 bits5 : 5;
    u64 bits40 : 40;
    union { int in_union; long other; };
    int missing;
    u32 grows;
    s32 signed_grows;
    u64 shrinks;
    int changed_kind;
    enum state state;
    s8 small;
    void *becomes_int;
    struct { int deep; } named;
} CORE;
struct task___v2 { int renamed; struct inner nested; } CORE;
typedef struct { int counter; } CORE atomic;
typedef struct task task_alias;
struct matching { int a; struct task *p; } CORE;
struct mismatching { int a; char *p; } CORE;
struct exact { u64 a; struct inner *p; int (*f)(int, struct task *); };
struct has_enum { enum state s; };
struct more { int a; int only_here; };

#define FIELD(kind, path) __builtin_preserve_field_info(path, kind)
#define FN(name, expr) SEC("syscall") u64 name(void *ctx) { return (expr); }
#define T ((struct task *)ctx)
#define TYPE(kind, t) __builtin_preserve_type_info(*(t *)0, kind)
#define ID(kind, t) __builtin_btf_type_id(*(t *)0, kind)
#define ENUM(kind, e, v) __builtin_preserve_enum_value(*(e *)v, kind)
"#;

/// The types of the kernel. Their members have another order and other sizes.
const TARGET: &str = r#"
struct inner { long before; int b; int a; };
enum state { IDLE = 4, RUNNING = 5, OLD_STATE = 9 };
enum wide { WIDE_MAX = 0x1122334455667788 };
struct task {
    int pad[8];
    struct task *parent;
    struct { int x; struct { struct inner array[8]; struct inner nested; }; };
    u64 first;
    u32 grows_pad : 4, bits3 : 4;
    s64 bits5 : 6;
    u64 pad40 : 20;
    u64 bits40 : 41;
    struct { long other; int in_union; };
    u64 grows;
    s64 signed_grows;
    u16 shrinks;
    struct inner changed_kind;
    enum state state;
    u8 small;
    u64 becomes_int;
    int renamed;
    struct { char c; int deep; } named;
    int flexible[];
};
typedef struct { int pad; int counter; } atomic;
struct matching { long z; int a; struct task *p; };
struct mismatching { int a; int p; };
struct exact { char z; u64 a; struct inner *p; int (*f)(int, struct task *); };
struct has_enum { enum state s; };
struct more { int a; };
struct { enum state s; enum wide w; struct task t; atomic a; struct matching m; struct mismatching mm; struct exact e;
    struct more more; struct has_enum h; } *use;
"#;

fn linked(functions: &str) -> Linked {
    load(&parse(&format!("{LOCAL}{functions}")), &target(TARGET))
}

#[test]
fn offsets_and_sizes_are_those_of_the_target() {
    let linked = linked(
        "FN(first, FIELD(0, T->first))
         FN(nested, FIELD(0, T->nested.b))
         FN(element, FIELD(0, T->array[2].a))
         FN(flexible, FIELD(0, T->flexible[1]))
         FN(in_union, FIELD(0, T->in_union))
         FN(flavour, FIELD(0, ((struct task___v2 *)ctx)->renamed))
         FN(flavoured_member, FIELD(0, ((struct task___v2 *)ctx)->nested))
         FN(anonymous_typedef, FIELD(0, ((atomic *)ctx)->counter))
         FN(alias, FIELD(0, ((task_alias *)ctx)->first))
         FN(deep, FIELD(0, T->named.deep))
         FN(root_index, FIELD(0, T[2].first))
         FN(size, FIELD(1, T->array))
         FN(size_of_int, FIELD(1, T->grows))
         FN(sign, FIELD(3, T->signed_grows))
         FN(no_sign, FIELD(3, T->small))",
    );
    // In the kernel's struct task, parent is at offset 32, x at 40, array at 48 (8 elements of 16
    // bytes), nested at 176, first at 192, and the bitfields begin at 200.
    let check = |name: &str, expect: u64| assert_eq!(linked.first(name), Ok(expect), "{name}");
    check("first", 192);
    check("nested", 176 + 8);
    check("element", 48 + 2 * 16 + 12);
    let total = 304;
    check("flexible", 304);
    check("in_union", 224);
    check("flavour", 288);
    check("flavoured_member", 176);
    check("anonymous_typedef", 4);
    check("alias", 192);
    check("deep", 296);
    check("root_index", 2 * total + 192);
    check("size", 128);
    check("size_of_int", 8);
    check("sign", 1);
    check("no_sign", 0);
}

#[test]
fn bitfields_have_the_location_of_the_target() {
    let linked = linked(
        "FN(off3, FIELD(0, T->bits3)) FN(size3, FIELD(1, T->bits3))
         FN(left3, FIELD(4, T->bits3)) FN(right3, FIELD(5, T->bits3))
         FN(sign5, FIELD(3, T->bits5)) FN(left5, FIELD(4, T->bits5)) FN(right5, FIELD(5, T->bits5))
         FN(off40, FIELD(0, T->bits40)) FN(size40, FIELD(1, T->bits40))
         FN(left40, FIELD(4, T->bits40)) FN(right40, FIELD(5, T->bits40))
         FN(plain_left, FIELD(4, T->small)) FN(plain_right, FIELD(5, T->small))",
    );
    let check = |name: &str, expect: u64| assert_eq!(linked.first(name), Ok(expect), "{name}");
    // In the u32 at offset 200, bits3 has the bits 4 to 7, and bits5 has the bits 8 to 13. bits40
    // does not fit after pad40, so it has a u64 of its own at offset 208.
    check("off3", 200);
    check("size3", 4);
    check("left3", 64 - 8);
    check("right3", 64 - 4);
    check("sign5", 1);
    check("left5", 64 - 14);
    check("right5", 64 - 6);
    check("off40", 208);
    check("size40", 8);
    check("left40", 64 - 41);
    check("right40", 64 - 41);
    check("plain_left", 64 - 8);
    check("plain_right", 64 - 8);
}

#[test]
fn existence_matches_and_values_are_those_of_the_target() {
    let linked = linked(
        "FN(field, FIELD(2, T->nested)) FN(no_field, FIELD(2, T->missing)) FN(other_kind, FIELD(2, T->changed_kind))
         FN(pointer_to_int, FIELD(2, T->becomes_int)) FN(no_type, FIELD(2, ((struct gone *)ctx)->x))
         FN(in_flavour, FIELD(2, ((struct task___v2 *)ctx)->renamed))
         FN(type_is, TYPE(0, struct task)) FN(type_not, TYPE(0, struct gone)) FN(typedef_is, TYPE(0, atomic))
         FN(type_size, TYPE(1, struct inner)) FN(no_size, TYPE(1, struct gone))
         FN(matches, TYPE(2, struct matching)) FN(pointee_differs, TYPE(2, struct mismatching))
         FN(matches_exact, TYPE(2, struct exact)) FN(lacks_value, TYPE(2, struct has_enum))
         FN(lacks_member, TYPE(2, struct more))
         FN(value_is, ENUM(0, enum state, RUNNING)) FN(value_not, ENUM(0, enum state, GONE_STATE))
         FN(enum_not, ENUM(0, enum missing_enum, MISSING_VALUE))
         FN(flavoured_value, ENUM(1, enum state___old, OLD_STATE))
         FN(value, ENUM(1, enum state, RUNNING)) FN(wide, ENUM(1, enum wide, WIDE_MAX))",
    );
    let check = |name: &str, expect: u64| assert_eq!(linked.first(name), Ok(expect), "{name}");
    check("field", 1);
    check("no_field", 0);
    check("other_kind", 0);
    check("pointer_to_int", 0);
    check("no_type", 0);
    check("in_flavour", 1);
    check("type_is", 1);
    check("type_not", 0);
    check("typedef_is", 1);
    check("type_size", 16);
    check("no_size", 0);
    check("matches", 1);
    check("pointee_differs", 0);
    check("matches_exact", 1);
    check("lacks_value", 0);
    check("lacks_member", 0);
    check("value_is", 1);
    check("value_not", 0);
    check("enum_not", 0);
    check("flavoured_value", 9);
    check("value", 5);
    check("wide", 0x1122334455667788);
}

#[test]
fn type_ids_are_local_or_those_of_the_target() {
    let object = parse(&format!(
        "{LOCAL} FN(local, ID(0, struct gone)) FN(there, ID(1, struct task)) FN(nowhere, ID(1, struct gone))"
    ));
    let target = target(TARGET);
    let linked = load(&object, &target);
    let gone = object.btf().find_struct("gone").unwrap();
    assert_eq!(linked.first("local"), Ok(gone.into()));
    assert_eq!(
        linked.first("there"),
        Ok(target.btf().find_struct("task").unwrap().into())
    );
    assert_eq!(linked.first("nowhere"), Ok(0));
    assert_eq!(linked.image.types[&gone].name, "gone");
    assert_eq!(linked.image.types[&gone].size, 4);
}

#[test]
fn missing_fields_and_types_trap_by_name() {
    let linked = linked(
        "FN(no_field, T->missing) FN(no_type, ((struct gone *)ctx)->x) FN(no_value, ENUM(1, enum state, GONE_STATE))
         FN(no_nested, FIELD(0, T->array[9].a)) FN(no_bits, FIELD(4, T->missing))
         FN(guarded, FIELD(2, T->missing) ? T->missing : 7)",
    );
    let check = |name: &str, expect: &str| assert_eq!(linked.first(name), Err(expect.to_string()), "{name}");
    check("no_field", "struct task.missing is not modelled");
    check("no_type", "struct gone.x is not modelled");
    check("no_value", "GONE_STATE of enum state is not modelled");
    check("no_nested", "struct task.array[9].a is not modelled");
    check("no_bits", "struct task.missing is not modelled");
    let warnings = &linked.image.warnings;
    assert!(
        warnings.contains(&"struct gone.x is not modelled".to_string()),
        "{warnings:?}"
    );
    assert!(
        !warnings.contains(&"struct task.missing is not modelled".to_string()),
        "a field causes no warning if the code tests whether it exists"
    );
    // The load of the missing field became a trap, an instruction that faults when it is executed.
    // The program tests for the field first, so it does not execute the trap.
    assert!(linked.insns("guarded").iter().any(|insn| insn.op == bpf::image::TRAP));
    assert_ne!(linked.insns("guarded")[0].op, bpf::image::TRAP);
}

#[test]
fn loads_take_the_size_of_the_field() {
    let linked =
        linked("FN(grows, T->grows) FN(shrinks, T->shrinks) FN(signed_grows, T->signed_grows) FN(same, T->first)");
    let op = |name: &str| linked.insns(name)[0].op;
    let (word, half, double) = (0x61, 0x69, 0x79);
    assert_eq!((op("grows"), linked.first("grows")), (double, Ok(232)));
    assert_eq!((op("shrinks"), linked.first("shrinks")), (half, Ok(248)));
    assert_eq!((op("same"), linked.first("same")), (double, Ok(192)));
    // The code expects that a load of a signed field extends the sign. A wider load would not do
    // this.
    assert_eq!(
        linked.first("signed_grows"),
        Err("struct task.signed_grows has 8 bytes instead of 4: this access is not modelled".into())
    );
    assert_ne!(word, op("grows"));
}

#[test]
fn candidates_that_disagree_are_ambiguous() {
    // Two types have the same name, as in a kernel that was built from several units.
    let target = target(
        "struct twice { int pad; int x; } a;
         SEC(\"syscall\") int f(int i) { static struct twice { long pad; int x; } b; b.x += i; return b.x; }",
    );
    let object = parse(
        "struct twice { int x; } CORE;
         SEC(\"syscall\") u64 f(struct twice *p) { return p->x; }
         SEC(\"syscall\") u64 g(struct twice *p) { return __builtin_preserve_field_info(p->x, 1); }",
    );
    let linked = load(&object, &target);
    assert_eq!(linked.first("f"), Err("struct twice.x is ambiguous".to_string()));
    assert_eq!(linked.first("g"), Ok(4), "both types have the same size");
}
