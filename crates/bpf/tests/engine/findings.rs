// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the errors that are found in the code without running it. The programs that have no error
//! test a pointer in a way that only the outcomes of earlier comparisons show.

use bpf::engine::{Engine, World};

use crate::limits::world;

/// Looks up an element of a hash map. r6 and r7 are unknown numbers. r0 is the pointer.
const LOOKUP: &str = "map m hash 8 8 10\nr6 = *(u64 *)(r1 + 0)\nr7 = r2\n*(u64 *)(r10 - 8) = 1\nr1 = map m\n\
    r2 = r10\nr2 += -8\ncall bpf_map_lookup_elem\n";
/// Number of instructions in [`LOOKUP`].
const START: usize = 7;

/// Returns the errors in a program after [`LOOKUP`]: for each its instruction, counted from the end of
/// the look-up, and its check.
fn findings(text: &str) -> Vec<(usize, &'static str)> {
    let world = world(&format!("{LOOKUP}{text}"), Engine::Interpreter, true);
    let findings = world.vm().findings();
    findings
        .iter()
        .map(|finding| (finding.pc - START, finding.check))
        .collect()
}

#[test]
fn a_pointer_that_is_used_before_a_test_is_found() {
    for (text, at) in [
        ("r0 = *(u64 *)(r0 + 0)\nexit", 0),
        ("*(u64 *)(r0 + 0) = 1\nr0 = 0\nexit", 0),
        ("lock *(u64 *)(r0 + 0) += r6\nr0 = 0\nexit", 0),
        ("r0 = acquire *(u64 *)(r0 + 0)\nexit", 0),
        ("r0 += 4\nr0 = 0\nexit", 0),
        ("r8 = 4\nr8 += r0\nr0 = 0\nexit", 1),
        // A copy in a register or on the stack.
        ("r8 = r0\nr0 = *(u64 *)(r8 + 0)\nexit", 1),
        (
            "*(u64 *)(r10 - 16) = r0\nr9 = *(u64 *)(r10 - 16)\nr0 = *(u64 *)(r9 + 0)\nexit",
            2,
        ),
        // The test is on another path, or after the use.
        (
            "if r6 == 0 goto use\nif r0 == 0 goto out\nuse:\nr0 = *(u64 *)(r0 + 0)\nout:\nexit",
            2,
        ),
        ("r8 = *(u64 *)(r0 + 0)\nif r0 == 0 goto out\nout:\nexit", 0),
        // A loop.
        (
            "r8 = 9\nagain:\nr8 += -1\nif r8 != 0 goto again\nr0 = *(u64 *)(r0 + 0)\nexit",
            3,
        ),
    ] {
        assert_eq!(findings(text), [(at, "untested")], "{text}");
    }
    assert_eq!(
        findings("if r0 == 0 goto null\nr0 = 0\nexit\nnull:\nr0 = *(u64 *)(r0 + 8)\nexit"),
        [(3, "null-dereference")]
    );
}

#[test]
fn all_errors_are_found_not_only_the_first() {
    let text = "if r6 == 0 goto other\nr0 = *(u64 *)(r0 + 0)\nexit\nother:\nr0 = *(u64 *)(r0 + 8)\nr0 += r9\nexit";
    assert_eq!(findings(text), [(1, "untested"), (3, "untested"), (4, "uninitialised")]);
}

#[test]
fn a_tested_pointer_causes_no_finding() {
    for text in [
        "if r0 == 0 goto out\nr0 = *(u64 *)(r0 + 0)\nout:\nexit",
        "if r0 != 0 goto use\nr0 = 0\nexit\nuse:\nr0 = *(u64 *)(r0 + 0)\nexit",
        // The test of a copy holds for all copies.
        "r8 = r0\n*(u64 *)(r10 - 16) = r0\nif r8 == 0 goto out\nr0 = *(u64 *)(r10 - 16)\nr0 = *(u64 *)(r0 + 0)\nexit\n\
         out:\nr0 = 0\nexit",
        // Pointers that are compared or passed to a function of the program count as tested.
        "if r0 == r6 goto out\nr0 = *(u64 *)(r0 + 0)\nout:\nexit",
        // No path leads to the use.
        "goto out\nr0 = *(u64 *)(r0 + 0)\nout:\nr0 = 0\nexit",
        "r8 = 1\nif r8 == 1 goto out\nr0 = *(u64 *)(r0 + 0)\nout:\nr0 = 0\nexit",
    ] {
        assert_eq!(findings(text), [], "{text}");
    }
}

#[test]
fn paths_that_the_verifier_knows_to_be_impossible_are_not_followed() {
    // Under the first condition the program tests the pointer, under the second it uses the pointer.
    let twice = |first: &str, second: &str| {
        format!(
            "r8 = r0\nif {first} goto test\ngoto next\ntest:\nif r8 == 0 goto out\nnext:\nif {second} goto use\ngoto out\n\
             use:\nr0 = *(u64 *)(r8 + 0)\nexit\nout:\nr0 = 0\nexit"
        )
    };
    for (first, second) in [
        ("r6 == 0", "r6 == 0"),
        ("r6 > 5", "r6 > 5"),
        ("r6 > 5", "r6 > 6"),
        ("r6 >= 5", "r6 > 4"),
        ("r6 <= 5", "r6 < 3"),
        ("r6 != 3", "r6 > 3"),
        ("r6 < 9", "r6 == 8"),
        ("r6 s> 0", "r6 s> 0"),
        ("r6 & 4", "r6 & 4"),
        ("w6 == 1", "w6 == 1"),
        ("w6 < 4", "w6 < 2"),
    ] {
        let text = twice(first, second);
        assert_eq!(findings(&text), [], "{first}, {second}");
    }
    for (first, second) in [
        ("r6 == 0", "r7 == 0"),
        ("r6 > 5", "r6 > 4"),
        ("r6 <= 5", "r6 < 7"),
        ("r6 s> 0", "r6 s> -1"),
        ("w6 == 1", "r6 == 1"),
    ] {
        let found = findings(&twice(first, second));
        assert!(matches!(found[..], [(_, "untested")]), "{first}, {second}: {found:?}");
    }
    // A flag that the program sets together with the test, in a register and on the stack.
    let flag = "r8 = r0\nr9 = 0\nif r8 != 0 goto set\ngoto next\nset:\nr9 = 1\nnext:\n*(u64 *)(r10 - 16) = r9\n\
        if r6 > 3 goto later\nlater:\nr1 = *(u64 *)(r10 - 16)\nif r1 == 0 goto out\nr0 = *(u64 *)(r8 + 0)\nexit\n\
        out:\nr0 = 0\nexit";
    assert_eq!(findings(flag), []);
    // A condition that is spilled before the look-up.
    let spilled = "r8 = r0\nr1 = *(u64 *)(r10 - 24)\nif r1 == 0 goto out\nif r8 == 0 goto out\nr1 = *(u64 *)(r10 - 24)\n\
        if r1 == 0 goto out\nr0 = *(u64 *)(r8 + 0)\nexit\nout:\nr0 = 0\nexit";
    assert_eq!(findings(spilled), []);
}

#[test]
fn an_access_through_the_constant_null_is_found() {
    assert_eq!(
        findings("r8 = 0\nr9 = r8\nr0 = *(u64 *)(r9 + 8)\nexit"),
        [(2, "null-dereference")]
    );
    assert_eq!(
        findings("r8 = 0\n*(u64 *)(r8 + 8) = 1\nr0 = 0\nexit"),
        [(1, "null-dereference")]
    );
    for text in [
        // Another path has another value.
        "r8 = 0\nif r6 == 0 goto use\nr8 = r10\nuse:\nr0 = *(u64 *)(r8 - 8)\nexit",
        // A comparison that is always true guards the access.
        "r8 = 0\nif r8 == 0 goto out\nr0 = *(u64 *)(r8 + 0)\nout:\nr0 = 0\nexit",
    ] {
        assert_eq!(findings(text), [], "{text}");
    }
}

#[test]
fn a_search_with_too_many_states_ends_in_silence() {
    // 30 numbers on the stack, each of which is compared with a constant.
    let mut text = String::from("r8 = r0\n");
    for n in 0..30 {
        text += &format!("r1 = *(u64 *)(r10 - {0})\nif r1 > 5 goto l{n}\nl{n}:\n", 16 + 8 * n);
    }
    text += "r0 = *(u64 *)(r8 + 0)\nexit";
    assert_eq!(findings(&text), []);
}

#[test]
fn a_register_without_a_value_on_all_paths_is_found() {
    for (text, at) in [
        ("r0 = r9\nexit", 0),
        ("r0 = 0\nr0 += r3\nexit", 1),
        ("if r6 == 0 goto out\nr9 = 1\nr9 = 2\nout:\nr0 = r8\nexit", 3),
    ] {
        assert_eq!(findings(text), [(at, "uninitialised")], "{text}");
    }
    // On one path the register has a value.
    assert_eq!(findings("if r6 == 0 goto out\nr9 = 1\nout:\nr0 = r9\nexit"), []);
    // Instructions that no path reaches.
    assert_eq!(findings("r0 = 0\nexit\nr0 = r9\nexit"), []);
}
