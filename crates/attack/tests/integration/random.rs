// SPDX-License-Identifier: GPL-2.0-only
//! Tests with a fixed number of damaged inputs and hostile policies. `make attack` runs more of
//! them.

use attack::campaign;
use attack::kind::{InputKind, RANDOM};
use std::path::Path;

/// Returns the number of inputs of a kind that a test runs. With these numbers, all kinds together
/// take a few seconds.
fn count(kind: InputKind) -> u64 {
    match kind {
        InputKind::Policy | InputKind::Object | InputKind::Suite => 100,
        _ => 300,
    }
}

#[test]
fn damaged_inputs_and_hostile_policies_do_no_harm() {
    let attack = Path::new(env!("CARGO_BIN_EXE_attack"));
    let mut wrong = Vec::new();
    for kind in RANDOM {
        let mut ends = 0;
        let tally = campaign::run(attack, kind, 0, 0..count(kind), None, &mut |_, _| ends += 1)
            .expect("the child process can be started");
        assert_eq!(ends + tally.failures.len() as u64, count(kind), "{}", kind.name());
        for failure in tally.failures {
            wrong.push(format!("{} {}: {}", kind.name(), failure.index, failure.cause));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_same_seed_makes_the_same_inputs() {
    for kind in RANDOM {
        assert_eq!(kind.make(7, 11), kind.make(7, 11), "{}", kind.name());
        let different = (0..20)
            .filter(|&index| kind.make(7, index) != kind.make(8, index))
            .count();
        assert!(
            different > 10,
            "{}: {different} of 20 inputs depend on the seed",
            kind.name()
        );
    }
}

#[test]
fn some_damaged_inputs_can_still_be_read() {
    // If every damaged input were refused at once, only the first check of each reader would be
    // tested.
    let attack = Path::new(env!("CARGO_BIN_EXE_attack"));
    for kind in RANDOM {
        let (mut accepted, mut refused, mut located) = (0, 0, 0);
        let mut end = |_: u64, text: &str| match text.strip_prefix("refused") {
            None => accepted += 1,
            Some(message) => {
                refused += 1;
                located += u32::from(message.contains("offset 0x"));
            }
        };
        campaign::run(attack, kind, 1, 0..60, None, &mut end).expect("the child process can be started");
        assert!(accepted >= 3, "{}: {accepted} of 60 inputs are read", kind.name());
        if kind == InputKind::Object {
            assert!(located * 2 > refused, "{located} of {refused} errors name a location");
        }
    }
}
