// SPDX-License-Identifier: GPL-2.0-only
//! Tests of map definitions, of globals in memory, and of the arena.

use super::{Linked, load, parse};
use bpf::image::{Contains, FieldKind, MapDef};
use bpf::link::Target;
use bpf::memory::{ARENA_SIZE, PAGE, Region};

fn linked(source: &str) -> Linked {
    load(&parse(source), &Target::default())
}

fn map<'a>(linked: &'a Linked, name: &str) -> &'a MapDef {
    linked.image.maps.iter().find(|map| map.name == name).unwrap()
}

#[test]
fn map_definitions_are_read_from_btf() {
    let linked = linked(
        "struct value { u64 a; u32 b; };
         struct { __uint(type, 1); __uint(max_entries, 64); __type(key, u32); __type(value, struct value);
                  __uint(map_flags, 5); } plain SEC(\".maps\");
         struct { __uint(type, 22); __uint(max_entries, 7); __uint(value_size, 4); __ulong(map_extra, 1ull << 44); } queue SEC(\".maps\");
         struct inner { __uint(type, 22); __uint(max_entries, 9); __type(value, u64); };
         struct inner first SEC(\".maps\"), second SEC(\".maps\");
         struct { __uint(type, 12); __uint(max_entries, 4); __type(key, u32); __array(values, struct inner); }
             outer SEC(\".maps\") = { .values = { [1] = &first, [3] = &second } };
         struct { __uint(type, 4); __uint(key_size, 4); __uint(value_size, 4); } events SEC(\".maps\");
         SEC(\"syscall\") u64 f(void *ctx) { return (u64)&queue; }",
    );
    let plain = map(&linked, "plain");
    assert_eq!(
        (
            plain.kind,
            plain.max_entries,
            plain.key_size,
            plain.value_size,
            plain.flags
        ),
        (1, 64, 4, 16, 5)
    );
    let queue = map(&linked, "queue");
    assert_eq!(
        (
            queue.kind,
            queue.max_entries,
            queue.key_size,
            queue.value_size,
            queue.extra
        ),
        (22, 7, 0, 4, 1 << 44)
    );
    assert_eq!(linked.constants("f"), [queue.handle]);
    let outer = map(&linked, "outer");
    let inner = outer.inner.as_ref().unwrap();
    assert_eq!((inner.kind, inner.max_entries, inner.value_size), (22, 9, 8));
    let index = |name: &str| linked.image.maps.iter().position(|map| map.name == name).unwrap();
    assert_eq!(outer.values, [(1, index("first")), (3, index("second"))]);
    assert_eq!(
        map(&linked, "events").max_entries,
        4,
        "without max_entries, the map has one entry per CPU"
    );
}

#[test]
fn inner_maps_are_created_for_entries_without_one() {
    let mut linked = linked(
        "struct inner { __uint(type, 22); __uint(max_entries, 9); __type(value, u64); };
         struct inner first SEC(\".maps\");
         struct { __uint(type, 12); __uint(max_entries, 3); __type(key, u32); __array(values, struct inner); }
             outer SEC(\".maps\") = { .values = { [1] = &first } };
         SEC(\"syscall\") u64 f(void *ctx) { return (u64)&outer; }",
    );
    let before = linked.image.maps.len();
    linked.image.create_inner_maps(&linked.region, "outer").unwrap();
    let maps = &linked.image.maps;
    assert_eq!(maps.len(), before + 2);
    let mut values = map(&linked, "outer").values.clone();
    values.sort_unstable();
    assert_eq!(values.iter().map(|&(index, _)| index).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(maps[values[1].1].name, "first");
    let made = &maps[values[2].1];
    assert_eq!((made.name.as_str(), made.kind, made.max_entries), ("outer[2]", 22, 9));
    assert!(made.handle != 0 && made.handle != maps[values[0].1].handle);
    let message = linked
        .image
        .create_inner_maps(&linked.region, "first")
        .unwrap_err()
        .to_string();
    assert!(message.contains("not a map of maps"), "{message}");
}

#[test]
fn special_fields_are_found_in_nested_types() {
    let linked = linked(
        "struct bpf_spin_lock { u32 val; }; struct bpf_timer { u64 opaque[2]; }; struct bpf_rb_root { u64 opaque[2]; };
         struct bpf_rb_node { u64 opaque[4]; }; struct bpf_list_head { u64 opaque[2]; }; struct bpf_cpumask;
         struct node { u64 key; struct bpf_rb_node rb; struct bpf_cpumask __kptr *mask; };
         struct value { u64 x; struct bpf_timer timers[2]; struct { struct bpf_cpumask __kptr *mask; } nested;
                        struct node __kptr *own; struct value *plain; };
         struct { __uint(type, 2); __uint(max_entries, 1); __type(key, u32); __type(value, struct value); } m SEC(\".maps\");
         int pad = 1; struct node keep;
         static struct bpf_spin_lock lock SEC(\".bss.private\");
         static struct bpf_rb_root tree SEC(\".bss.private\") __tag(\"contains:node:rb\");
         SEC(\"syscall\") u64 f(void *ctx) { lock.val = 1; tree.opaque[0] = pad; return 0; }",
    );
    let fields = &map(&linked, "m").fields;
    let kinds: Vec<_> = fields.iter().map(|field| (field.offset, field.size)).collect();
    assert_eq!(kinds, [(8, 16), (24, 16), (40, 8), (48, 8)]);
    assert!(matches!(fields[1].kind, FieldKind::Timer));
    assert!(matches!(&fields[2].kind, FieldKind::Kptr { to, owned: true, .. } if to == "bpf_cpumask"));
    let FieldKind::Kptr { id: node, .. } = fields[3].kind else {
        panic!("{:?}", fields[3])
    };
    let ty = &linked.image.types[&node];
    assert_eq!((&*ty.name, ty.size, ty.fields.len()), ("node", 48, 2));
    let section = linked
        .image
        .sections
        .iter()
        .find(|section| section.name == ".bss.private")
        .unwrap();
    assert_eq!(section.fields[0].kind, FieldKind::SpinLock);
    assert_eq!(
        section.fields[1].kind,
        FieldKind::RbRoot(Contains { id: node, node: 8 })
    );
}

#[test]
fn a_type_with_invalid_special_fields_is_rejected() {
    let object = parse(
        "struct bpf_rb_root { u64 opaque[2]; };
         struct node { struct bpf_rb_root tree __tag(\"contains:gone:rb\"); };
         struct value { struct node __kptr *own; };
         struct { __uint(type, 2); __uint(max_entries, 1); __type(key, u32); __type(value, struct value); } m SEC(\".maps\");
         SEC(\"syscall\") u64 f(struct node *ctx) { return (u64)&m + ctx->tree.opaque[0]; }",
    );
    let region = Region::new().unwrap();
    let error = bpf::link::link(&object, &Target::default(), &region, 1);
    assert_eq!(
        error.unwrap_err().to_string(),
        "test.bpf.o: struct node: its elements have type struct gone, which is not in BTF"
    );
}

#[test]
fn sizes_can_be_changed_before_linking() {
    let mut object = parse(
        "struct { __uint(type, 2); __uint(max_entries, 1); __type(key, u32); __type(value, u64); } m SEC(\".maps\");",
    );
    object.set_max_entries("m", 512).unwrap();
    object.set_value_size("m", 24).unwrap();
    assert_eq!(
        object.set_max_entries("n", 1).unwrap_err().to_string(),
        "test.bpf.o: no map is called n"
    );
    let linked = load(&object, &Target::default());
    assert_eq!((map(&linked, "m").max_entries, map(&linked, "m").value_size), (512, 24));
}

#[test]
fn globals_have_memory() {
    let linked = linked(
        "int data = 5; static int hidden = 6; const volatile int constant = 7; int zero; static u64 huge[1 << 22];
         SEC(\"syscall\") u64 f(int *ctx) { data += constant; hidden += *ctx; zero++; huge[*ctx]++; return (u64)&hidden; }",
    );
    let image = &linked.image;
    for addr in linked.constants("f") {
        assert!(linked.region.check(addr, 4, true).is_ok(), "{addr:#x}");
    }
    let value = |name| image.get(&linked.region, name).unwrap();
    assert_eq!(
        (value("data"), value("constant"), value("zero")),
        ("5".into(), "7".into(), "0".into())
    );
    assert!(image.variable("hidden").is_err(), "static variables are not exported");
    let size = |name: &str| image.sections.iter().find(|section| section.name == name).unwrap().size;
    assert_eq!(size(".bss") >> 25, 1);
}

const ARENA: &str = "
    #define __arena __attribute__((address_space(1)))
    struct { __uint(type, 33); __uint(map_flags, 1 << 10); __uint(max_entries, PAGES); __ulong(map_extra, EXTRA); } arena SEC(\".maps\");
    struct node { int x; struct node __arena *next; };
    int __arena counter SEC(\".addr_space.1\") = 9;
    struct node __arena head SEC(\".addr_space.1\");
    SEC(\"syscall\") u64 f(void *ctx) { counter++; head.x = 2; return (u64)&arena; }";

#[test]
fn arena_globals_lie_at_the_end_of_its_pages() {
    for (extra, pages) in [("0", 16u64), ("1ull << 44", 1 << 20)] {
        let source = ARENA.replace("PAGES", &pages.to_string()).replace("EXTRA", extra);
        let linked = linked(&source);
        let arena = map(&linked, "arena");
        let base = arena.arena.unwrap();
        assert_eq!((base % ARENA_SIZE, arena.arena_globals), (0, PAGE));
        let place = linked.image.variable("counter").unwrap();
        assert!(place.addr >= base + (pages - 1) * PAGE && place.addr < base + pages * PAGE);
        assert_eq!(linked.image.get(&linked.region, "counter").unwrap(), "9");
        let constants = linked.constants("f");
        assert!(constants.contains(&place.addr), "{constants:x?}");
    }
}

#[test]
fn arena_globals_need_an_arena() {
    let object = parse(
        "#define __arena __attribute__((address_space(1)))
         int __arena counter SEC(\".addr_space.1\") = 9; SEC(\"syscall\") int f(void *ctx) { return counter; }",
    );
    let region = Region::new().unwrap();
    let error = bpf::link::link(&object, &Target::default(), &region, 1)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "test.bpf.o: section .addr_space.1: the object has arena globals, but no map of type ARENA"
    );
}
