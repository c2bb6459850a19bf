// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the loader. Clang compiles the objects during the tests.

mod core_relo;
mod externs;
mod functions;
mod malformed;
mod maps;
mod params;
mod struct_ops;

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use bpf::image::{CALL, Insn, LD_IMM64, TRAP};
use bpf::link::{Image, Target, link};
use bpf::memory::Region;
use bpf::object::Object;

/// Those parts of libbpf's headers that the tests use.
const PRELUDE: &str = r#"
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef signed char s8; typedef short s16; typedef int s32; typedef long long s64;
#define SEC(name) __attribute__((section(name), used))
#define CORE __attribute__((preserve_access_index))
#define noinline __attribute__((noinline))
#define __weak __attribute__((weak))
#define __ksym __attribute__((section(".ksyms")))
#define __kconfig __attribute__((section(".kconfig")))
#define __tag(x) __attribute__((btf_decl_tag(x)))
#define __kptr __attribute__((btf_type_tag("kptr")))
#define __uint(name, val) int (*name)[val]
#define __type(name, val) typeof(val) *name
#define __array(name, val) typeof(val) *name[]
#define __ulong(name, val) enum { name##__value = val } name
char _license[] SEC("license") = "GPL";
"#;

/// Compiles BPF C with debug information and returns the object file.
fn compile(source: &str) -> Vec<u8> {
    compile_with(source, &["-g"])
}

fn compile_with(source: &str, options: &[&str]) -> Vec<u8> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = format!("{}/loader-{}-{count}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let (input, output) = (format!("{path}.bpf.c"), format!("{path}.bpf.o"));
    std::fs::write(&input, format!("{PRELUDE}{source}")).unwrap();
    let status = Command::new("clang-19")
        .args([
            "-O2",
            "-mcpu=v3",
            "-mlittle-endian",
            "-target",
            "bpf",
            "-Wno-everything",
            "-c",
            &input,
            "-o",
            &output,
        ])
        .args(options)
        .status()
        .expect("clang-19 is installed");
    assert!(status.success(), "clang failed on {source}");
    let bytes = std::fs::read(&output).unwrap();
    std::fs::remove_file(&input).unwrap();
    std::fs::remove_file(&output).unwrap();
    bytes
}

fn parse(source: &str) -> Object {
    Object::parse(&compile(source), "test.bpf.o").unwrap()
}

/// Returns a kernel that has the types and functions of this C source.
fn target(source: &str) -> Target {
    Target::from_btf(parse(source).btf().clone())
}

/// A linked object and its region.
struct Linked {
    image: Image,
    region: Region,
}

fn load(object: &Object, target: &Target) -> Linked {
    let region = Region::new().unwrap();
    let image = link(object, target, &region, 4).unwrap();
    Linked { image, region }
}

impl Linked {
    /// Returns the instructions of a function.
    fn insns(&self, function: &str) -> &[Insn] {
        let index = self
            .image
            .code
            .function(function)
            .unwrap_or_else(|| panic!("no function {function}"));
        let function = &self.image.code.functions[index];
        &self.image.code.insns[function.start..function.end]
    }

    /// Returns the value that the first instruction of a function loads: a constant, or the offset
    /// of a load. If the instruction is a trap, returns its message.
    fn first(&self, function: &str) -> Result<u64, String> {
        match *self.insns(function).first().unwrap() {
            Insn { op: TRAP, imm, .. } => Err(self.image.code.traps[imm as usize].clone()),
            Insn {
                op: LD_IMM64 | 0xb4 | 0xb7,
                imm,
                ..
            } => Ok(imm as u64),
            Insn { op, off, .. } if op & 7 == 1 => Ok(off as u64),
            insn => panic!("{function} starts with {insn:?}"),
        }
    }

    /// Returns the constants that a function loads, in order.
    fn constants(&self, function: &str) -> Vec<u64> {
        self.insns(function)
            .iter()
            .filter(|insn| insn.op == LD_IMM64)
            .map(|insn| insn.imm as u64)
            .collect()
    }

    /// Returns the calls of a function, as (kind, number).
    fn calls(&self, function: &str) -> Vec<(u8, i64)> {
        self.insns(function)
            .iter()
            .filter(|insn| insn.op == CALL)
            .map(|insn| (insn.src, insn.imm))
            .collect()
    }
}
