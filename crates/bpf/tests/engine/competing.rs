// SPDX-License-Identifier: GPL-2.0-only
//! Cache lines that evict each other while a program runs.

use bpf::cache::{Cache, Competitors, LINE, Sets};
use bpf::engine::{Vm, World};
use bpf::memory::Region;

use crate::asm;
use crate::limits::ENGINES;
use crate::world::{NR_CPUS, TestWorld};

/// Loads the first cache line, the second one, and the first one again.
const PROGRAM: &str =
    "func main:\nr7 = r1\nr0 = *(u64 *)(r7 + 0)\nr0 = *(u64 *)(r7 + 64)\nr0 = *(u64 *)(r7 + 8)\nexit\n";

#[test]
fn a_line_that_was_evicted_is_charged_again() {
    let cache = Cache {
        own: 1,
        llc: 1,
        node: 1,
        llc_ns: 0,
        node_ns: 0,
        remote_ns: 0,
        memory_ns: 500,
    };
    // With one way, the cache has room for one of the two lines, so all three loads are charged.
    // With two ways, it has room for both.
    for (ways, expected) in [(1, 3 * 500), (2, 2 * 500)] {
        for engine in ENGINES {
            let mut region = Region::new().expect("the host has address space for a region");
            region.lines_mut().set_caches(vec![cache; NR_CPUS as usize]);
            let sets = Sets {
                count: 1,
                ways,
                first: cache,
                next: cache,
            };
            region.lines_mut().set_sets(vec![sets; NR_CPUS as usize]);
            let mut world = TestWorld::with(region);
            let program = asm::assemble(PROGRAM).expect("the text is a valid program");
            world
                .load(program.code, &program.maps, program.types, engine)
                .expect("the program can be loaded");
            let competitors = Competitors {
                base: world.memory,
                stride: LINE,
                count: 2,
                lines: 1,
            };
            world.region.lines().add_competitors(competitors);
            let memory = world.memory;
            Vm::call(&mut world, 0, [memory, 0, 0, 0, 0]).expect("the program ends");
            assert_eq!(world.vm().cost(), expected, "{engine:?} with {ways} ways");
        }
    }
}
