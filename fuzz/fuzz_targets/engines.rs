// SPDX-License-Identifier: GPL-2.0-only
//! Uses any bytes as the decisions of the generator of random programs. The JIT must agree with the
//! interpreter.
#![no_main]

#[path = "../../crates/bpf/tests/engine/random.rs"]
#[allow(dead_code)]
mod random;
#[path = "../../crates/bpf/tests/engine/world.rs"]
#[allow(dead_code)]
mod world;

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;

thread_local! {
    static WORLD: RefCell<world::TestWorld> = RefCell::new(world::TestWorld::new());
}

fuzz_target!(|bytes: &[u8]| {
    let code = random::generate(&mut random::Source::new(0, bytes));
    WORLD.with_borrow_mut(|world| {
        // Addresses are never reused, and each program leaves memory behind, so the world is
        // replaced from time to time.
        if world
            .region
            .pages(1)
            .is_none_or(|addr| addr - world.region.base() > 64 << 20)
        {
            *world = world::TestWorld::new();
        }
        if let Err(difference) = random::check(world, &code) {
            panic!("{difference}");
        }
    });
});
