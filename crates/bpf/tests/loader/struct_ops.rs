// SPDX-License-Identifier: GPL-2.0-only
//! Tests of struct_ops variables, whose members are matched by name.

use super::{load, parse, target};

const OBJECT: &str = r#"
struct ops___new {
    int (*first)(int); void (*second)(void); void (*unset)(void); void (*newer)(void); u64 flags; u32 timeout; int zero; u64 newer_flag;
    char name[16];
};
struct foreign_ops { int (*connect)(void); };
SEC("struct_ops/first") int my_first(u64 *ctx) { return ctx[0]; }
SEC("struct_ops.s/second") int my_second(u64 *ctx) { return 2; }
SEC("struct_ops/connect") int connect(u64 *ctx) { return 3; }
SEC(".struct_ops.link") struct ops___new main_ops = {
    .first = (void *)my_first, .second = (void *)my_second, .newer = (void *)my_first, .flags = 0x1234567890, .timeout = 5,
    .newer_flag = 1, .name = "tester",
};
SEC("?.struct_ops.link") struct ops___new other_ops = { .second = (void *)my_second };
SEC(".struct_ops.link") struct foreign_ops foreign = { .connect = (void *)connect };
"#;

#[test]
fn members_are_matched_by_name() {
    let mut target = target(
        "struct ops { char name[32]; u32 flags; u64 timeout; void (*second)(void); void *pad[20]; int (*first)(int); } ops;",
    );
    target.struct_ops("ops");
    let linked = load(&parse(OBJECT), &target);
    let image = &linked.image;
    let find = |name: &str| image.struct_ops.iter().find(|ops| ops.map_name == name).unwrap();
    let name = |index: usize| &*image.code.functions[index].name;

    let main = find("main_ops");
    assert_eq!(main.type_name, "ops");
    assert!(main.attachable && main.auto_attach);
    let programs: Vec<_> = main
        .programs
        .iter()
        .map(|(member, &index)| (&**member, name(index)))
        .collect();
    assert_eq!(programs, [("first", "my_first"), ("second", "my_second")]);
    assert!(image.code.functions.iter().all(|function| function.is_callback));
    assert_eq!(
        (main.u64("flags"), main.u64("timeout"), main.u64("zero")),
        (0x3456_7890, 5, 0)
    );
    assert_eq!(
        (
            main.data["flags"].len(),
            main.data["timeout"].len(),
            main.data["name"].len()
        ),
        (4, 8, 32)
    );
    assert_eq!(main.text("name"), "tester");

    let other = find("other_ops");
    assert!(other.attachable && !other.auto_attach);
    assert_eq!(other.programs.len(), 1);

    let foreign = find("foreign");
    assert!(!foreign.attachable);
    assert_eq!(name(foreign.programs["connect"]), "connect");
    assert_eq!(
        image.warnings,
        [
            "main_ops: ops has no member newer in this kernel; the member is ignored",
            "main_ops: ops has no member newer_flag in this kernel; the member is ignored",
            "foreign: the simulator does not have struct foreign_ops, so it will not be attached",
        ]
    );
}
