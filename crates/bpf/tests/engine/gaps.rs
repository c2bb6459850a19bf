// SPDX-License-Identifier: GPL-2.0-only
//! Tests of accesses to pages of an arena that are not allocated. In both engines, the program must
//! continue as in the kernel: loads return 0, and everything else does nothing.

use bpf::engine::{Engine, Gap, World};
use bpf::fault::FaultKind;

use crate::limits::{ENGINES, Ran, call, world};

/// Allocates page 1 of an arena of 100 pages. r6 is the address of page 1. Page 2 is a gap.
const ARENA: &str = "map a arena 0 0 100\nr6 = r2\nr1 = map a\nr2 = 0\nr3 = 1\nr4 = -1\nr5 = 0\n\
    call bpf_arena_alloc_pages\nr6 = cast_kern r0\n";
/// Number of instructions in [`ARENA`].
const START: usize = 8;

/// Runs a program after [`ARENA`] without the sanitizer. Both engines must agree.
fn run(text: &str) -> (Ran, Vec<(usize, Gap)>) {
    let [interpreted, compiled] = ENGINES.map(|engine| {
        let mut world = world(&format!("{ARENA}{text}"), engine, false);
        let ran = call(&mut world, 0);
        let gaps = world.vm().gaps();
        let first = world.vm().maps()[0].arena_addr(0).expect("the map is an arena");
        let relative = gaps.into_iter().map(|(pc, gap)| {
            let addr = gap.addr.wrapping_sub(first);
            (pc - START, Gap { addr, ..gap })
        });
        (ran, relative.collect::<Vec<_>>())
    });
    assert_eq!(interpreted, compiled, "the engines differ: {text}");
    compiled
}

fn value(text: &str) -> u64 {
    run(text).0.0.expect("the program returns")
}

#[test]
fn a_load_from_a_gap_returns_zero() {
    // A load of each kind into each register that can be in use, at offsets of all sizes.
    for load in [
        "*(u8 *)(r6 + 4096)",
        "*(u16 *)(r6 + 4097)",
        "*(u32 *)(r6 + 4100)",
        "*(u64 *)(r6 + 8191)",
        "*(s8 *)(r6 + 4096)",
        "*(s16 *)(r6 + 30000)",
        "*(s32 *)(r6 + 4096)",
        "*(u64 *)(r6 - 8)",
        "*(u64 *)(r6 - 5000)",
    ] {
        for to in ["r0", "r1", "r2", "r3", "r4", "r5", "r7", "r8", "r9", "r6"] {
            let text = format!("{to} = -1\n").replace("r6 = -1\n", "") + &format!("{to} = {load}\nr0 = {to}\nexit");
            assert_eq!(value(&text), 0, "{text}");
        }
    }
    // Pages on both sides of a gap keep their values.
    assert_eq!(
        value("*(u64 *)(r6 + 4088) = 7\nr1 = *(u64 *)(r6 + 4096)\nr0 = *(u64 *)(r6 + 4088)\nr0 += r1\nexit"),
        7
    );
}

#[test]
fn a_store_to_a_gap_does_nothing() {
    for store in [
        "*(u8 *)(r6 + 4096) = r7",
        "*(u16 *)(r6 + 4096) = r7",
        "*(u32 *)(r6 + 4096) = r7",
        "*(u64 *)(r6 + 4096) = r7",
        "*(u64 *)(r6 + 4096) = 5",
        "*(u8 *)(r6 + 4096) = 5",
        "lock *(u64 *)(r6 + 4096) += r7",
        "release *(u64 *)(r6 + 4096) = r7",
    ] {
        // The store is followed by a load from the same address, which the compiler could replace
        // by the stored value.
        let load = "r0 = *(u64 *)(r6 + 4096)\nexit";
        let (ran, gaps) = run(&format!("r7 = 9\n{store}\n{load}"));
        assert_eq!(ran.0, Ok(0), "{store}");
        let gap = |write| Gap {
            addr: 2 * 4096,
            write,
            count: 1,
        };
        assert_eq!(gaps, [(1, gap(true)), (2, gap(false))], "{store}");
    }
}

#[test]
fn an_atomic_instruction_on_a_gap_leaves_its_registers_unchanged() {
    for atomic in [
        "fetch *(u64 *)(r6 + 4096) += r7",
        "fetch *(u32 *)(r6 + 4096) |= r7",
        "xchg *(u64 *)(r6 + 4096) r7",
        "cmpxchg *(u64 *)(r6 + 4096) r8",
        "r7 = acquire *(u64 *)(r6 + 4096)",
        "r7 = acquire *(u8 *)(r6 + 4096)",
    ] {
        let (ran, gaps) = run(&format!(
            "r0 = 3\nr7 = 9\nr8 = 4\n{atomic}\nr1 = *(u64 *)(r6 + 4096)\nr0 *= 100\nr0 += r7\nr0 += r1\nexit"
        ));
        assert_eq!(ran.0, Ok(309), "{atomic}");
        assert!(
            gaps[0].0 == 3 && gaps[0].1.write && gaps[0].1.count == 1,
            "{atomic}: {gaps:?}"
        );
        // An allocated page is not affected.
        let (ran, gaps) = run(&format!("r0 = 0\nr7 = 1\nr8 = 1\n{atomic}\nexit").replace("4096", "0"));
        assert!(ran.0.is_ok() && gaps.is_empty(), "{atomic}: {ran:?}");
    }
}

#[test]
fn accesses_are_counted_for_each_instruction() {
    let text = "r7 = 10\nagain:\nr1 = *(u8 *)(r6 + 4100)\nr2 = *(u8 *)(r6 + 4100)\n*(u64 *)(r6 + 0) = r1\nr7 += -1\n\
        if r7 != 0 goto again\nr0 = r7\nexit";
    let (ran, gaps) = run(text);
    assert_eq!(ran.0, Ok(0));
    let gap = Gap {
        addr: 2 * 4096 + 4,
        write: false,
        count: 10,
    };
    assert_eq!(gaps, [(1, gap), (2, gap)]);
}

#[test]
fn other_bad_accesses_still_end_the_program() {
    // An address between the arenas and the kernel's objects.
    let (ran, gaps) = run("r1 = 0xf00000000 ll\nr6 += r1\nr0 = *(u64 *)(r6 + 0)\nexit");
    assert!(matches!(ran.0, Err((FaultKind::Memory, ..))), "{ran:?}");
    assert_eq!(gaps, []);
}

#[test]
fn the_sanitizer_reports_the_access() {
    for engine in [Engine::Interpreter, Engine::Jit] {
        for access in [
            "r0 = *(u64 *)(r6 + 4096)",
            "*(u64 *)(r6 + 4096) = 1",
            "lock *(u64 *)(r6 + 4096) += r0",
        ] {
            let mut world = world(&format!("{ARENA}{access}\nexit"), engine, true);
            let (result, _) = call(&mut world, 0);
            let (kind, message, pc) = result.expect_err("the sanitizer ends the program");
            assert_eq!((kind, pc), (FaultKind::Check, Some(START)), "{message}");
            assert!(message.starts_with("arena-unallocated: "), "{message}");
            assert_eq!(world.vm().gaps(), []);
        }
    }
}
