// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the numbers that are found in the memory of a policy.

use super::{Linked, load, parse};
use bpf::link::Target;
use bpf::map::Map;
use bpf::map::numbers::{Number, numbers};

const SOURCE: &str = "
    enum mode { OFF, ON = 300 };
    struct bpf_timer { u64 opaque[2]; };
    struct entry { u32 len; s8 level; u8 low : 3; char name[4]; struct { u16 deep; }; u64 *pointer; struct bpf_timer timer; };
    const volatile u64 fixed = 1;
    u64 total = 1ULL << 63;
    s16 signed_one = -2;
    _Bool flag = 1;
    enum mode mode = ON;
    u64 __loader = 5;
    static u64 hidden = 6;
    static const u64 constant = 7;
    u32 table[2][3];
    struct entry entries[2];
    u64 huge[10000];
    union { u64 a; u32 b; } either;
    struct { __uint(type, 6); __uint(max_entries, 2); __type(key, u32); __type(value, u64); } stats SEC(\".maps\");
    struct { __uint(type, 2); __uint(max_entries, 3); __type(key, u32); __type(value, struct entry); } array SEC(\".maps\");
    struct { __uint(type, 1); __uint(max_entries, 3); __type(key, u32); __type(value, u64); } hash SEC(\".maps\");
    SEC(\"syscall\") u64 f(void *ctx) {
        return total + signed_one + flag + mode + __loader + hidden + table[0][0] + entries[0].len + huge[9] + either.a
            + fixed + constant + hidden++ + (u64)&stats + (u64)&array + (u64)&hash;
    }";

fn found() -> (Linked, Vec<Map>, Vec<Number>) {
    let linked = load(&parse(SOURCE), &Target::default());
    let maps = linked.image.maps.iter();
    let maps: Vec<Map> = maps
        .map(|def| Map::create(def, &linked.region, 4).expect("the map is valid"))
        .collect();
    let numbers = numbers(&linked.image, &maps);
    (linked, maps, numbers)
}

#[test]
fn integers_of_globals_and_array_maps_are_found_by_their_paths() {
    let (_, _, numbers) = found();
    let mut names: Vec<(&str, u64)> = numbers
        .iter()
        .map(|number| (number.name.as_str(), number.elements()))
        .collect();
    names.sort_unstable();
    // Bitfields, texts, pointers, unions, timers, constants, variables of the loader, large tables
    // and hash maps are left out.
    let expected = [
        ("array[].deep", 3),
        ("array[].len", 3),
        ("array[].level", 3),
        ("entries[].deep", 2),
        ("entries[].len", 2),
        ("entries[].level", 2),
        ("flag", 1),
        ("hidden", 1),
        ("mode", 1),
        ("signed_one", 1),
        ("stats[0]", 4),
        ("stats[1]", 4),
        ("table[][]", 6),
        ("total", 1),
    ];
    assert_eq!(names, expected);
}

#[test]
fn numbers_are_read_with_their_signs_and_in_the_order_of_their_indexes() {
    let (linked, maps, numbers) = found();
    let read = |name: &str| {
        let number = numbers.iter().find(|number| number.name == name).expect(name);
        number.read(&linked.region).expect("the memory exists")
    };
    assert_eq!((read("total"), read("hidden")), (vec![1 << 63], vec![6]));
    assert_eq!(
        (read("signed_one"), read("flag"), read("mode")),
        (vec![-2], vec![1], vec![300])
    );
    let set = |path: &str, value: &str| linked.image.set(&linked.region, path, value).expect(path);
    set("table[0][2]", "7");
    set("table[1][0]", "8");
    set("entries[1].level", "-9");
    assert_eq!(read("table[][]"), [0, 0, 7, 8, 0, 0]);
    assert_eq!(read("entries[].level"), [0, -9]);
    let map = |name: &str| maps.iter().find(|map| map.name() == name).expect(name);
    for (cpu, value) in [(1, 11u64), (3, 13)] {
        let updated = map("stats").update(&linked.region, &1u32.to_le_bytes(), &value.to_le_bytes(), 0, cpu);
        assert_eq!(updated.expect("the map can be written"), 0);
    }
    assert_eq!((read("stats[0]"), read("stats[1]")), (vec![0; 4], vec![0, 11, 0, 13]));
}
