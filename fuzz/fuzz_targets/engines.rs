// SPDX-License-Identifier: GPL-2.0-only
//! Generates random BPF programs. The input bytes decide which instructions a program has. The
//! result of each program must be the same in the JIT and in the interpreter.
#![no_main]

#[path = "../../crates/bpf/tests/engine/random_programs.rs"]
#[allow(dead_code)]
mod random_programs;
#[path = "../../crates/bpf/tests/engine/world.rs"]
#[allow(dead_code)]
mod world;

use std::cell::RefCell;

use random::Random;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static WORLD: RefCell<world::TestWorld> = RefCell::new(world::TestWorld::new());
}

fuzz_target!(|bytes: &[u8]| {
    let code = random_programs::generate(&mut Random::with_bytes(0, bytes));
    WORLD.with_borrow_mut(|world| {
        // Addresses are never reused, and programs do not free all their memory. The world (the
        // state on which the programs work) is therefore replaced when it has grown too large.
        if world
            .region
            .pages(1)
            .is_none_or(|addr| addr - world.region.base() > 64 << 20)
        {
            *world = world::TestWorld::new();
        }
        if let Err(difference) = random_programs::check(world, &code) {
            panic!("{difference}");
        }
    });
});
