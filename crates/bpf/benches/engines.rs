// SPDX-License-Identifier: GPL-2.0-only
//! Benchmark of the engines (`cargo bench -p bpf`). It runs functions that resemble a scheduler's
//! callbacks in the JIT, in the interpreter, and as machine code that clang compiled for the host.
//! It also measures the cost of a call into a program.
#![expect(clippy::disallowed_types, reason = "a benchmark measures time")]

#[path = "../tests/engine/world.rs"]
#[allow(dead_code)]
mod world;

use std::ffi::CString;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use bpf::btf::build::Builder;
use bpf::cache::Cache;
use bpf::engine::World;
use bpf::engine::{Engine, Vm};
use bpf::link::Image;
use bpf::link::{Target, link};
use bpf::memory::Region;
use bpf::object::Object;

use world::TestWorld;

const FUNCTIONS: [&str; 4] = ["enqueue", "account", "heap", "helpers"];

extern "C" fn ktime() -> u64 {
    std::hint::black_box(1_000_000)
}

/// The functions, compiled by clang for the host.
struct Native(*mut libc::c_void);

impl Native {
    fn load(path: &Path) -> Native {
        let path = CString::new(path.to_str().expect("the path is UTF-8")).unwrap();
        // SAFETY: the library has no initializers.
        let native = Native(unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) });
        assert!(!native.0.is_null(), "cannot load {path:?}");
        // SAFETY: the library declares this variable as a pointer to such a function.
        unsafe { *(native.symbol("native_ktime") as *mut extern "C" fn() -> u64) = ktime };
        native
    }

    fn symbol(&self, name: &str) -> *mut libc::c_void {
        let name = CString::new(name).unwrap();
        // SAFETY: the handle comes from dlopen(), and the name is a C string.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null(), "no {name:?}");
        symbol
    }

    fn call(&self, name: &str, memory: u64) -> u64 {
        // SAFETY: all functions of the library that this benchmark names have this type.
        let function: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(self.symbol(name)) };
        function(memory)
    }
}

fn compile(source: &Path, out: &Path, flags: &[&str]) {
    let status = Command::new("clang-19")
        .args(flags)
        .arg("-o")
        .arg(out)
        .arg(source)
        .status();
    assert!(
        status.expect("clang-19 runs").success(),
        "clang-19 cannot compile {source:?}"
    );
}

/// Returns the time of one run in ns: the shortest of several measurements.
fn time(mut run: impl FnMut()) -> f64 {
    (0..7)
        .map(|_| {
            let start = Instant::now();
            let mut runs = 0;
            while start.elapsed().as_millis() < 40 {
                run();
                runs += 1;
            }
            start.elapsed().as_nanos() as f64 / f64::from(runs)
        })
        .fold(f64::INFINITY, f64::min)
}

/// Returns the cache of one CPU of a machine with two cores that share a last-level cache.
fn cache(cpu: u32) -> Cache {
    Cache {
        own: 1 << cpu,
        llc: 0b11,
        node: 0b11,
        llc_ns: 10,
        node_ns: 10,
        remote_ns: 10,
        memory_ns: 0,
    }
}

/// Measures a function of the program in one engine. The first call of the function must return
/// `result`. Returns the time of a call in ns and the number of executed instructions.
fn measure(world: &mut TestWorld, image: &Image, memory: u64, name: &str, engine: Engine, result: u64) -> (f64, u64) {
    let function = |name: &str| image.code.function(name).expect("the object has this function");
    let args = [memory, 0, 0, 0, 0];
    world
        .load(image.code.clone(), &[], Default::default(), engine)
        .expect("the program can be loaded");
    world.region.fill(memory, 64 << 10, 0).unwrap();
    Vm::call(world, function("setup"), args).expect("setup() returns");
    let before = world.vm().executed();
    assert_eq!(Vm::call(world, function(name), args).expect(name), result, "{name}");
    let insns = world.vm().executed() - before;
    let index = function(name);
    let ns = time(|| {
        Vm::call(world, index, args).expect(name);
    });
    (ns, insns)
}

fn main() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/callbacks.c");
    let dir = std::env::temp_dir().join(format!("bpf-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("the directory can be created");
    let (object_file, library) = (dir.join("callbacks.bpf.o"), dir.join("callbacks.so"));
    compile(
        &source,
        &object_file,
        &["-g", "-O2", "-mcpu=v3", "-target", "bpf", "-c"],
    );
    // Vector registers are not allowed, as in the kernel.
    compile(&source, &library, &["-O2", "-mgeneral-regs-only", "-fPIC", "-shared"]);
    let native = Native::load(&library);
    let bytes = std::fs::read(&object_file).expect("the object file exists");
    let object = Object::parse(&bytes, "callbacks.bpf.o").expect("the object can be parsed");
    std::fs::remove_dir_all(&dir).expect("the directory can be removed");

    let mut world = TestWorld::new();
    let memory = world.region.pages(64 << 10).expect("the region has this memory");
    // The second world (simulated machine) has two caches, so that compiled code has to test which
    // cache holds a cache line. Its times are in the column `lines`.
    let mut region = Region::new().expect("the host has address space for a region");
    region.lines_mut().set_caches(vec![cache(0), cache(1)]);
    let mut shared = TestWorld::with(region);
    let shared_memory = shared.region.pages(64 << 10).expect("the region has this memory");
    let native_memory = vec![0u64; 8 << 10];
    let target = Target::new(Builder::default());
    let image = link(&object, &target, &world.region, 8).expect("the object can be linked");
    let shared_image = link(&object, &target, &shared.region, 8).expect("the object can be linked");

    println!(
        "{:<10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9} {:>8}",
        "ns/insn", "insns", "native", "jit", "lines", "interp", "jit/nat", "lines/nat", "int/jit"
    );
    let mut ratios = [Vec::new(), Vec::new()];
    for name in FUNCTIONS {
        let native_args = native_memory.as_ptr() as u64;
        // SAFETY: `native_memory` is larger, and no reference to it is in use.
        unsafe { std::ptr::write_bytes(native_args as *mut u8, 0, 64 << 10) };
        native.call("setup", native_args);
        let result = native.call(name, native_args);
        let native_ns = time(|| {
            std::hint::black_box(native.call(name, native_args));
        });
        let jit = measure(&mut world, &image, memory, name, Engine::Jit, result);
        let lines = measure(&mut shared, &shared_image, shared_memory, name, Engine::Jit, result);
        let interp = measure(&mut world, &image, memory, name, Engine::Interpreter, result);
        let insns = jit.1;
        let per = |ns: f64| ns / insns as f64;
        ratios[0].push(jit.0 / native_ns);
        ratios[1].push(lines.0 / native_ns);
        println!(
            "{name:<10} {insns:>9} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>8.2} {:>9.2} {:>8.1}",
            per(native_ns),
            per(jit.0),
            per(lines.0),
            per(interp.0),
            jit.0 / native_ns,
            lines.0 / native_ns,
            interp.0 / jit.0
        );
    }
    let mean = |ratios: &[f64]| (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len() as f64).exp();
    println!(
        "JIT over native, geometric mean: {:.2} (goal: at most 1.7); with cache lines watched: {:.2}",
        mean(&ratios[0]),
        mean(&ratios[1])
    );

    world
        .load(image.code.clone(), &image.maps, Default::default(), Engine::Jit)
        .expect("the program can be loaded");
    for name in ["array_lookup", "percpu_lookup", "hash_lookup", "storage_lookup"] {
        let index = image.code.function(name).expect("the object has this function");
        let ns = time(|| {
            Vm::call(&mut world, index, [memory, 0, 0, 0, 0]).expect(name);
        }) / 1000.0;
        println!("{name}: {ns:.1} ns");
    }

    for engine in [Engine::Jit, Engine::Interpreter] {
        let start = Instant::now();
        world
            .load(image.code.clone(), &[], Default::default(), engine)
            .expect("the program can be loaded");
        let load_us = start.elapsed().as_micros();
        let empty = bpf::image::Code {
            insns: vec![bpf::image::Insn {
                op: bpf::insn::EXIT,
                dst: 0,
                src: 0,
                off: 0,
                imm: 0,
            }],
            functions: vec![bpf::image::Function {
                start: 0,
                end: 1,
                ..image.code.functions[0].clone()
            }],
            ..Default::default()
        };
        world
            .load(empty, &[], Default::default(), engine)
            .expect("the program can be loaded");
        let call = time(|| {
            for _ in 0..1000 {
                Vm::call_args(&mut world, 0, &[1, 2, 3]).expect("the empty program returns");
            }
        }) / 1000.0;
        println!(
            "{engine:?}: load {load_us} us for {} instructions; empty call {call:.1} ns",
            image.code.insns.len()
        );
    }
}
