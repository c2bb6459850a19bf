// SPDX-License-Identifier: GPL-2.0-only
//! Tests of global variables as the parameters of a policy.

use super::{compile, load, parse, target};
use bpf::link::Target;
use bpf::object::Object;

fn object() -> Object {
    parse(
        "enum mode { FAST = 1, SLOW = 2 };
         struct point { s16 x; u8 low : 3, high : 5; struct { int deep; }; struct { u64 w[2]; } inner; };
         const volatile u64 slice_ns __tag(\"unit:ns\") = 20000000;
         const volatile _Bool partial = 1;
         const volatile s8 tiny = -3;
         const volatile enum mode mode = FAST;
         const volatile u32 cpus[4] = { 1, 2, 3, 4 };
         const volatile char label[8] = \"abc\";
         struct point points[2];
         u64 live = 11;
         u64 resized[1] SEC(\".data.resized\");
         u32 table[1] SEC(\".rodata.table\");
         int *pointer;
         static int hidden = 3;
         SEC(\"syscall\") u64 f(void *ctx) { hidden += points[1].x; return slice_ns + live + resized[0] + table[0] + (u64)pointer; }",
    )
}

#[test]
fn parameters_are_listed_with_types_and_values() {
    let object = object();
    let list: Vec<_> = object
        .variables()
        .iter()
        .map(|v| {
            (
                &*v.name,
                &*v.section,
                v.live,
                &*v.type_name,
                object.get(&v.name).unwrap(),
            )
        })
        .collect();
    let expect = |name, section, live, ty, value: &str| {
        assert!(
            list.contains(&(name, section, live, ty, value.to_string())),
            "{name}: {list:#?}"
        )
    };
    expect("slice_ns", ".rodata", false, "const volatile u64", "20000000");
    expect("partial", ".rodata", false, "const volatile _Bool", "true");
    expect("tiny", ".rodata", false, "const volatile s8", "-3");
    expect("mode", ".rodata", false, "const volatile enum mode", "FAST");
    expect("cpus", ".rodata", false, "const volatile u32[4]", "{1, 2, 3, 4}");
    expect("label", ".rodata", false, "const volatile char[8]", "\"abc\"");
    expect("live", ".data", true, "u64", "11");
    expect("pointer", ".bss", true, "int *", "0x0");
    assert!(list.iter().all(|v| v.0 != "hidden"));
    let slice = object.variables().iter().find(|v| v.name == "slice_ns").unwrap();
    assert_eq!(slice.tags, ["unit:ns"]);
}

#[test]
fn setting_is_checked_against_the_type() {
    let mut object = object();
    for (path, text, value) in [
        ("slice_ns", "5_000_000", "5000000"),
        ("slice_ns", "0xffffffffffffffff", "18446744073709551615"),
        ("partial", "false", "false"),
        ("tiny", "-128", "-128"),
        ("mode", "SLOW", "SLOW"),
        ("mode", "1", "FAST"),
        ("cpus", "9,8", "{9, 8, 3, 4}"),
        ("cpus[3]", "7", "7"),
        ("label", "longest", "\"longest\""),
        ("points[1].x", "-2", "-2"),
        ("points[1].high", "31", "31"),
        ("points[1].low", "5", "5"),
        ("points[0].deep", "-1", "-1"),
        ("points[1].inner.w[1]", "12", "12"),
        ("live", "42", "42"),
    ] {
        object.set(path, text).unwrap();
        assert_eq!(object.get(path).unwrap(), value, "{path}");
    }
    assert_eq!(
        object.get("points[1].high").unwrap(),
        "31",
        "setting the bitfield next to it does not change it"
    );
    let linked = load(&object, &Target::default());
    let image = &linked.image;
    assert_eq!(image.get(&linked.region, "points[1].inner.w[1]").unwrap(), "12");
    assert_eq!(image.get(&linked.region, "cpus").unwrap(), "{9, 8, 3, 7}");

    image.set(&linked.region, "live", "43").unwrap();
    assert_eq!(image.get(&linked.region, "live").unwrap(), "43");
    let error = image.set(&linked.region, "slice_ns", "1").unwrap_err().to_string();
    assert_eq!(
        error,
        "test.bpf.o: slice_ns = 1: the variable is constant after the policy is loaded"
    );
}

#[test]
fn wrong_values_are_rejected_with_the_expected_type() {
    let mut object = object();
    let mut check = |path: &str, text: &str, expect: &str| {
        let error = object.set(path, text).unwrap_err().to_string();
        assert_eq!(error, format!("test.bpf.o: {expect}"));
    };
    check(
        "tiny",
        "128",
        "tiny = 128: 128 is out of range: const volatile s8 holds -128 to 127",
    );
    check(
        "slice_ns",
        "-1",
        "slice_ns = -1: -1 is out of range: const volatile u64 holds 0 to 18446744073709551615",
    );
    check(
        "slice_ns",
        "5ms",
        "slice_ns = 5ms: \"5ms\" is not a value of type const volatile u64",
    );
    check(
        "partial",
        "maybe",
        "partial = maybe: \"maybe\" is not a truth value; expected true or false",
    );
    check(
        "mode",
        "MEDIUM",
        "mode = MEDIUM: \"MEDIUM\" is not a value of type const volatile enum mode; its values: FAST, SLOW",
    );
    check(
        "cpus[4]",
        "1",
        "cpus[4]: index 4 is out of range: the array has 4 elements",
    );
    check(
        "cpus",
        "1,2,3,4,5",
        "cpus = 1,2,3,4,5: 5 values were given for the 4 elements of const volatile u32[4]",
    );
    check(
        "label",
        "too long.",
        "label = too long.: the text has 9 bytes, but const volatile char[8] holds at most 7",
    );
    check(
        "points[0]",
        "1",
        "points[0] = 1: struct point cannot be set as a whole: set its members, as in NAME.MEMBER",
    );
    check(
        "points[0].z",
        "1",
        "points[0].z: there is no member \"z\"; the members are x, low, high, inner",
    );
    check(
        "points[0].low",
        "8",
        "points[0].low = 8: 8 is out of range: u8 holds 0 to 7",
    );
    check("live.x", "1", "live.x: the variable is not a struct");
    check("pointer", "1", "pointer = 1: a value of type int * cannot be set");
    check(
        "slice_nss",
        "1",
        "no variable is called slice_nss (did you mean slice_ns?)",
    );
    check("nothing_like_it", "1", "no variable is called nothing_like_it");
}

#[test]
fn arrays_can_grow() {
    let mut object = object();
    object.resize("resized", 100).unwrap();
    object.set("resized[99]", "5").unwrap();
    object.resize("table", 3).unwrap();
    object.set("table", "4,5,6").unwrap();
    let error = object.resize("cpus", 100).unwrap_err().to_string();
    assert_eq!(
        error,
        "test.bpf.o: cpus: only the last variable of a section can be resized"
    );
    let error = object.resize("live", 2).unwrap_err().to_string();
    assert_eq!(error, "test.bpf.o: live: u64 is not an array");
    assert!(object.resize("resized", u32::MAX).is_err());

    let linked = load(&object, &Target::default());
    let place = linked.image.variable("resized[99]").unwrap();
    assert_eq!(linked.region.bytes(place.addr, 8).unwrap().to_vec(), 5u64.to_le_bytes());
    assert_eq!(linked.image.get(&linked.region, "table").unwrap(), "{4, 5, 6}");
}

/// Values far from the start of a section of zeros are stored without the zeros before them.
#[test]
fn values_can_be_set_anywhere_in_a_section_of_zeros() {
    let mut object = parse("char huge[200000000]; SEC(\"syscall\") int f(void *ctx) { return huge[5]; }");
    let value = |at: usize| format!("huge[{at}]");
    let places = [0, 4095, 4096, 4097, 199_999_999];
    for (number, &at) in (1..).zip(&places) {
        object.set(&value(at), &format!("{number}")).unwrap();
    }
    for (number, &at) in (1..).zip(&places) {
        assert_eq!(object.get(&value(at)).unwrap(), format!("{number}"));
    }
    assert_eq!(object.get(&value(4098)).unwrap(), "0");
    let section = object.section(".bss").unwrap();
    assert_eq!(
        (section.len(), section[4097], section[199_999_999]),
        (200_000_000, 4, 5)
    );
    let linked = load(&object, &Target::default());
    for (number, &at) in (1..).zip(&places) {
        let place = linked.image.variable(&value(at)).unwrap();
        assert_eq!(linked.region.bytes(place.addr, 1).unwrap().to_vec(), [number]);
    }
    // A smaller section forgets the values beyond its end.
    object.resize("huge", 4097).unwrap();
    object.resize("huge", 5000).unwrap();
    assert_eq!(
        (object.get(&value(4096)).unwrap(), object.get(&value(4097)).unwrap()),
        ("3".into(), "0".into())
    );
}

/// Returns the maximum of the memory that this process has used so far, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

#[test]
fn a_variable_that_claims_gigabytes_does_not_allocate_them() {
    let mut object = parse("char huge[0xf0000000]; SEC(\"syscall\") int f(void *ctx) { return huge[5]; }");
    assert_eq!(object.get("huge").unwrap(), "\"\"");
    object.set("huge[5]", "7").unwrap();
    assert_eq!(object.get("huge[5]").unwrap(), "7");
    let error = object.set("huge[4000000000]", "7").unwrap_err().to_string();
    assert_eq!(
        error,
        "test.bpf.o: huge[4000000000]: a value can be set in the first 256 MiB of a section, this one ends at 4000000001 bytes"
    );
    assert!(peak_mib() < 1024, "{} MiB", peak_mib());
}

#[test]
fn a_struct_ops_member_that_claims_gigabytes_does_not_allocate_them() {
    let mut bytes = compile(
        "struct ops { u64 flags; char name[0x23571]; }; SEC(\".struct_ops.link\") struct ops main_ops = { .flags = 3 };",
    );
    // Enlarges the length of the array and the size of the struct in the .BTF section. The first
    // occurrence of each number in the section is the right one.
    let btf = bytes.windows(4).position(|magic| magic == [0x9f, 0xeb, 1, 0]).unwrap();
    for (small, large) in [(0x23571u32, 0x7fff_ff00u32), (0x23580, 0x7fff_ff08)] {
        let found = bytes[btf..].windows(4).position(|word| word == small.to_le_bytes());
        let at = btf + found.unwrap();
        bytes[at..at + 4].copy_from_slice(&large.to_le_bytes());
    }
    // Changes the section header of the struct_ops section: the type becomes NOBITS, and the size
    // becomes that of the struct.
    let is_header =
        |at: &usize| bytes[*at..*at + 8] == 0x23580u64.to_le_bytes() && bytes[at - 28..at - 24] == [1, 0, 0, 0];
    let at = (28..bytes.len() - 8).find(is_header).unwrap();
    bytes[at - 28] = 8;
    bytes[at..at + 8].copy_from_slice(&0x7fff_ff08u64.to_le_bytes());
    let object = Object::parse(&bytes, "test.bpf.o").unwrap();
    let mut target = target("struct ops { u64 flags; char name[16]; } ops;");
    target.struct_ops("ops");
    let linked = load(&object, &target);
    assert_eq!(linked.image.struct_ops[0].u64("flags"), 0);
    assert!(peak_mib() < 1024, "{} MiB", peak_mib());
}
