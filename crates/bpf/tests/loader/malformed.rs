// SPDX-License-Identifier: GPL-2.0-only
//! Tests with damaged objects. They must cause an error with a location, and never a panic. The crate
//! attack damages objects at random.

use super::{compile, target};
use bpf::link::{Target, link};
use bpf::memory::Region;
use bpf::object::Object;

/// An object that uses every feature of the loader.
const SOURCE: &str = r#"
#define __arena __attribute__((address_space(1)))
struct bpf_spin_lock { u32 val; };
struct task { int pid; u32 bits : 5; struct { int x[4]; }; struct task *parent; } CORE;
enum kind { ONE = 1, BIG = 0x100000000 };
struct ops { int (*first)(struct task *); u64 flags; char name[16]; };
struct value { u64 a; struct bpf_spin_lock lock; struct task __kptr *owner; };
struct { __uint(type, 1); __uint(max_entries, 64); __type(key, u32); __type(value, struct value); } hash SEC(".maps");
struct { __uint(type, 33); __uint(max_entries, 4); } arena SEC(".maps");
struct inner { __uint(type, 2); __uint(max_entries, 9); __type(key, u32); __type(value, u64); } inner SEC(".maps");
struct { __uint(type, 12); __uint(max_entries, 2); __type(key, u32); __array(values, struct inner); }
    outer SEC(".maps") = { .values = { &inner } };
const volatile u64 slice __tag("unit:ns") = 5; int data[4] = { 1, 2 }; int zero;
int __arena counter SEC(".addr_space.1") = 9;
int known(struct task *p) __ksym; int weak___flavour(int) __ksym __weak;
extern int CONFIG_HZ __kconfig __weak;
static noinline int leaf(struct task *p) { return p->pid + p->x[2] + __builtin_preserve_field_info(p->bits, 4); }
static int callback(void *p) { return zero; }
SEC("struct_ops/first") int first(u64 *ctx) {
    int sum = leaf((void *)ctx[0]) + data[ctx[1] & 3] + CONFIG_HZ + counter++;
    for (u64 i = 0; i < slice; i++) { sum += known((void *)ctx[0]); asm volatile("" ::: "memory"); }
    if (weak___flavour) sum += weak___flavour(1);
    ((int (*)(void *, void *, u64))181)(&hash, callback, __builtin_preserve_enum_value(*(enum kind *)BIG, 1));
    return sum;
}
SEC(".struct_ops.link") struct ops ops = { .first = (void *)first, .flags = 3, .name = "fuzz" };
"#;

fn kernel() -> Target {
    let mut target = target(
        "struct task { long pad; int pid; u64 bits : 9; int x[8]; struct task *parent; };
         struct ops { int (*first)(struct task *); u64 flags; char name[16]; } ops;
         SEC(\"syscall\") int known(struct task *p) { return 0; }",
    );
    target.struct_ops("ops");
    target
}

/// Uses every function of the loader on a file. If the region (the memory for programs) is full,
/// replaces it by a new one.
fn exercise(bytes: &[u8], target: &Target, region: &mut Region) -> Result<(), String> {
    let mut object = Object::parse(bytes, "fuzz.o").map_err(|error| error.to_string())?;
    let names: Vec<String> = object.variables().iter().map(|v| v.name.clone()).collect();
    for name in &names {
        let value = object.get(name).unwrap_or_default();
        let _ = object.set(name, &value);
        let _ = object.set(&format!("{name}[1].a"), "1");
    }
    let image = match link(&object, target, region, 4) {
        Ok(image) => image,
        Err(error) if error.message.contains("the simulated address space is full") => {
            *region = Region::new().unwrap();
            return Err(error.to_string());
        }
        Err(error) => return Err(error.to_string()),
    };
    for name in &names {
        let _ = image.get(region, name);
    }
    for ty in 0..object.btf().len() {
        object.btf().c_definition(ty);
    }
    for (pc, _) in image.code.insns.iter().enumerate() {
        image.code.describe(pc);
    }
    Ok(())
}

#[test]
fn the_undamaged_object_links() {
    let mut region = Region::new().unwrap();
    exercise(&compile(SOURCE), &kernel(), &mut region).unwrap();
}

#[test]
fn an_object_truncated_at_any_length_is_an_error() {
    let (bytes, target) = (compile(SOURCE), kernel());
    let mut region = Region::new().unwrap();
    for len in 0..bytes.len() {
        let error = exercise(&bytes[..len], &target, &mut region);
        assert!(error.is_err(), "an object of {len} bytes instead of {}", bytes.len());
    }
}

#[test]
fn errors_name_section_and_offset() {
    let check = |bytes: &[u8], expect: &str| {
        let error = Object::parse(bytes, "x.o")
            .and_then(|object| link(&object, &Target::default(), &Region::new().unwrap(), 1).map(|_| ()));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(
        b"",
        "x.o: offset 0x0: the file is not an ELF file (give the .bpf.o file that clang -target bpf writes)",
    );
    check(
        &[b"\x7fELF\x01\x01".as_slice(), &[0; 60]].concat(),
        "x.o: offset 0x4: the file is not a 64-bit little-endian ELF file",
    );
    let source = "SEC(\"syscall\") u64 f(u64 *ctx) { if (ctx[0] == 77) return 1; return 0x1122334455667788; }";
    let bytes = compile(source);
    let find = |pattern: &[u8]| {
        bytes
            .windows(pattern.len())
            .position(|window| window == pattern)
            .unwrap()
    };
    let patched = |at: usize, with: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        bytes
    };
    check(&patched(18, &[62, 0]), "x.o: offset 0x12: the machine is");
    // Finds the conditional jump that compares with 77.
    let jump = find(&[77, 0, 0, 0]) - 4;
    check(&patched(jump + 2, &[0xff, 0x7f]), "x.o: section syscall, offset 0x");
    check(
        &patched(jump + 2, &[0xff, 0x7f]),
        "a jump by 32767 instructions leaves function f",
    );
    check(&patched(jump + 1, &[0x0f]), "register 15 does not exist");
    let constant = find(&[0x88, 0x77, 0x66, 0x55]) - 4;
    check(
        &patched(constant + 1, &[0x10]),
        "64-bit constant of kind 1 without a relocation",
    );
    check(&patched(constant + 8, &[0x95]), "half of a 64-bit constant is missing");
    let btf = find(&[0x9f, 0xeb, 1, 0]);
    check(
        &patched(btf + 2, &[9]),
        "x.o: section .BTF, offset 0x2: the BTF version is 9, but only version 1 is supported",
    );
    check(
        &patched(btf + 12, &[0xff, 0xff, 0xff]),
        "x.o: section .BTF, offset 0x0: the table from",
    );
}
