// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the loader. Clang compiles the objects during the tests.

mod core_relo;
mod externs;
mod functions;
mod malformed;
mod maps;
mod numbers;
mod params;
mod struct_ops;

use std::path::Path;

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
    let text = format!("{PRELUDE}{source}");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("loader");
    std::fs::create_dir_all(&folder).unwrap();
    let name = format!("{:016x}", clang::fingerprint((&text, options)));
    let (input, output) = (
        folder.join(format!("{name}.bpf.c")),
        folder.join(format!("{name}.bpf.o")),
    );
    // Tests run in parallel, and several may compile this source. The file is therefore written
    // under another name, and renamed when it is complete.
    if !input.exists() {
        let own = format!("{name}-{}-{:?}.part", std::process::id(), std::thread::current().id());
        let own = folder.join(own);
        std::fs::write(&own, text).unwrap();
        std::fs::rename(&own, &input).unwrap();
    }
    let options = [&["-mlittle-endian", "-Wno-everything"], options].concat();
    clang::compile(&input, &options, &output).unwrap_or_else(|error| panic!("{error}\n{source}"));
    std::fs::read(&output).unwrap()
}

fn parse(source: &str) -> Object {
    Object::parse(&compile(source), "test.bpf.o").unwrap()
}

/// Returns a kernel that has the types and functions of this C source.
fn target(source: &str) -> Target {
    Target::from_btf(parse(source).btf().clone())
}

/// A linked object, and the region (the memory of programs) for which it was linked.
struct Linked {
    image: Image,
    region: Region,
}

/// Links an object for a machine with four CPUs.
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
    /// of the load. If this instruction is a trap, which stands for a missing symbol, returns the
    /// message of the trap.
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

    /// Returns the calls in a function: for each, the kind and the number of the called function.
    fn calls(&self, function: &str) -> Vec<(u8, i64)> {
        self.insns(function)
            .iter()
            .filter(|insn| insn.op == CALL)
            .map(|insn| (insn.src, insn.imm))
            .collect()
    }
}
