// SPDX-License-Identifier: GPL-2.0-only
//! Everything that a policy can call, from every kind of callback, with arguments drawn by lot: the machine survives.
//!
//! The verifier would refuse such a policy; here it must end with an exit record, or go on, and its tasks with it.
//! HOSTILE_SEEDS=N tries N, HOSTILE_FIRST=N begins with another.

#![allow(clippy::disallowed_methods)] // compiled objects are files

use super::{Kfunc, all};
use crate::load::{LoadError, load};
use crate::profile::Profile;
use crate::release::Release;
use crate::testbed::{Bed, MS, US, sleeper, spec};
use bpf::object::Object;
use bpf::vm::Engine;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Ends the policy by design; no news in that.
const LEFT_OUT: [&str; 3] = ["scx_bpf_error_bstr", "scx_bpf_exit_bstr", "bpf_throw"];

const HEAD: &str = r#"
typedef unsigned char u8; typedef unsigned int u32; typedef unsigned long long u64; typedef int s32; typedef long long s64;
typedef unsigned long size_t; typedef _Bool bool;
#define SEC(name) __attribute__((section(name), used))
#define __ksym __attribute__((section(".ksyms")))
#define __uint(name, val) int (*name)[val]
#define __type(name, val) typeof(val) *name
typedef u64 any(u64, u64, u64, u64, u64);
char _license[] SEC("license") = "GPL";
const volatile u64 seed = 1;
u64 state, results[8];
u32 calls;
struct value { u64 words[16]; };
#define MAP(name, kind, of, flags) struct { __uint(type, kind); __uint(max_entries, 4); __uint(map_flags, flags); \
	__type(key, of); __type(value, struct value); } name SEC(".maps")
MAP(array, 2, u32, 0); MAP(hash, 1, u32, 0); MAP(percpu, 6, u32, 0); MAP(lru, 9, u32, 0); MAP(storage, 29, int, 1);
struct { __uint(type, 22); __uint(max_entries, 4); __type(value, struct value); } queue SEC(".maps");
struct { __uint(type, 27); __uint(max_entries, 4096); } ring SEC(".maps");

static u64 draw(void)
{
	state ^= state << 13; state ^= state >> 7; state ^= state << 17;
	return state;
}

static __attribute__((noinline)) u64 word(u64 which)
{
	switch (which % 10) {
	case 0: return 0;
	case 1: return draw() % 4;
	case 2: return draw() % 64;
	case 3: return -(draw() % 40);
	case 4: return 1ULL << draw() % 64;
	case 5: return draw();
	case 6: return draw() % 2 ? 0x8000000000000001ULL : 0x8000000000000002ULL;
	case 7: return 0xc000000000000000ULL | draw() % 6;
	case 8: return results[draw() % 8] + draw() % 16;
	default: return results[draw() % 8];
	}
}

static u64 argument(u64 p, u64 *buffer)
{
	switch (draw() % 20) {
	case 0: case 1: case 2: return p;
	case 3: case 4: return (u64)buffer;
	case 5: return (u64)buffer + draw() % 64;
	case 6: return (u64)&array;
	case 7: return (u64)&hash;
	case 8: return (u64)&percpu;
	case 9: return (u64)&lru;
	case 10: return (u64)&storage;
	case 11: return (u64)&queue;
	case 12: return (u64)&ring;
	case 13: return (u64)results;
	default: return word(draw());
	}
}
"#;

const TAIL: &str = r#"
static void some(u64 p)
{
	u64 buffer[8] = {}, args[5];
	u32 n, i;

	if (!state)
		state = seed * 0x9e3779b97f4a7c15ULL | 1;
	for (n = draw() % 4; n; n--) {
		for (i = 0; i < 5; i++)
			args[i] = argument(p, buffer);
		results[draw() % 8] = call(draw() % NR, args);
		calls++;
	}
}

#define OP(name, ...) SEC("struct_ops/" #name) name(u64 *ctx)
s32 OP(on_select_cpu) { some(ctx[0]); return draw() % 5; }
void OP(on_enqueue)
{
	some(ctx[0]);
	((void (*)(u64, u64, u64, u64))scx_bpf_dsq_insert)(ctx[0], draw() % 8 ? 0x8000000000000001ULL : 1, 1000000, ctx[1]);
}
void OP(on_dequeue) { some(ctx[0]); }
void OP(on_dispatch) { some(ctx[1]); ((void (*)(u64))scx_bpf_dsq_move_to_local)(1); }
void OP(on_tick) { some(ctx[0]); }
void OP(on_runnable) { some(ctx[0]); }
void OP(on_running) { some(ctx[0]); }
void OP(on_stopping) { some(ctx[0]); }
void OP(on_quiescent) { some(ctx[0]); }
s32 SEC("struct_ops.s/on_init_task") on_init_task(u64 *ctx) { some(ctx[0]); return 0; }
void OP(on_exit_task) { some(ctx[0]); }
s32 SEC("struct_ops.s/on_init") on_init(u64 *ctx)
{
	((s32 (*)(u64, s32))scx_bpf_create_dsq)(1, -1);
	some(0);
	return 0;
}
void OP(on_exit) { }

struct sched_ext_ops {
	void *select_cpu, *enqueue, *dequeue, *dispatch, *tick, *runnable, *running, *stopping, *quiescent, *init_task, *exit_task, *init, *exit;
	char name[128];
};
SEC(".struct_ops.link") struct sched_ext_ops hostile = { on_select_cpu, on_enqueue, on_dequeue, on_dispatch, on_tick,
	on_runnable, on_running, on_stopping, on_quiescent, on_init_task, on_exit_task, on_init, on_exit, "hostile" };
"#;

/// A policy that calls all there is.
fn source() -> String {
    let there = |func: &Kfunc| func.helper.is_some() || Release::default().has_kfunc(func.name);
    let funcs = all().into_iter().filter(|func| there(func) && !LEFT_OUT.contains(&func.name));
    let funcs: Vec<_> = funcs.collect();
    let mut structs = BTreeSet::new();
    for func in &funcs {
        let mut words = func.proto.split(|c: char| !c.is_alphanumeric() && c != '_');
        while let Some(word) = words.next() {
            if word == "struct" {
                structs.extend(words.next());
            }
        }
    }
    let mut text = HEAD.to_owned();
    for name in structs {
        writeln!(text, "struct {name};").expect("a string");
    }
    for func in funcs.iter().filter(|func| func.helper.is_none()) {
        writeln!(text, "extern {} __ksym;", func.proto).expect("a string");
    }
    writeln!(text, "#define NR {}", funcs.len()).expect("a string");
    text += "static __attribute__((noinline)) u64 call(u64 which, const u64 *args)\n{\n\tu64 a = args[0], b = args[1], c = args[2], d = args[3], e = args[4];\n\n\tswitch (which) {\n";
    for (number, func) in funcs.iter().enumerate() {
        let callee = func.helper.map_or(func.name.to_owned(), |helper| helper.to_string());
        writeln!(text, "\tcase {number}: return ((any *){callee})(a, b, c, d, e);").expect("a string");
    }
    text + "\t}\n\treturn 0;\n}\n" + TAIL
}

fn object() -> Vec<u8> {
    let folder = std::env::temp_dir().join(format!("hostile-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (from, to) = (folder.join("hostile.bpf.c"), folder.join("hostile.bpf.o"));
    std::fs::write(&from, source()).expect("written");
    let done = Command::new("clang-19")
        .args(["-g", "-O2", "-mcpu=v3", "-target", "bpf", "-w", "-c"])
        .args([Path::new("-o"), &to, &from])
        .output()
        .expect("clang-19 is installed");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let bytes = std::fs::read(&to).expect("an object");
    std::fs::remove_dir_all(&folder).expect("removed");
    bytes
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect(variable))
}

#[test]
fn no_call_hurts_the_machine() {
    let bytes = object();
    let first = number("HOSTILE_FIRST", 1);
    for seed in first..first + number("HOSTILE_SEEDS", 400) {
        let mut object = Object::parse(&bytes, "hostile.bpf.o").expect("an object");
        object.set("seed", &seed.to_string()).expect("a seed");
        let mut bed = Bed::default();
        for task in 0..6 {
            bed.task(task % 4, sleeper(100 * US + u64::from(task) * 37 * US, 50 * US));
        }
        let mut machine = bed.machine(spec(1, 2, 1, 2));
        match load(&mut machine, &object, &Profile::default(), Engine::Interpreter) {
            Ok(_) | Err(LoadError::Exit(_)) => {}
            Err(LoadError::Refused(why)) => panic!("{why}"),
        }
        machine.run(20 * MS, &mut Vec::new());
        let after = machine.tasks.iter().map(|task| task.sum_exec_runtime).collect::<Vec<_>>();
        machine.run(60 * MS, &mut Vec::new());
        if machine.ext.exit.is_some() {
            // The fair class has those whose fork succeeded.
            for (task, before) in machine.tasks.iter().zip(after) {
                let ran = task.sum_exec_runtime - before;
                assert!(ran > MS, "seed {seed}: {} ran {ran} ns after {:?}", task.comm, machine.ext.exit);
            }
        }
    }
}
