// SPDX-License-Identifier: GPL-2.0-only
//! Tests that a campaign (a series of inputs in child processes) finds each kind of harm and
//! continues after it: a panic, a signal, a time-out, excessive memory use and an exit.

use attack::campaign;
use attack::kind::InputKind;
use std::path::Path;

#[test]
fn each_kind_of_harm_is_found_with_its_input() {
    let attack = Path::new(env!("CARGO_BIN_EXE_attack"));
    let mut ended = Vec::new();
    let mut end = |index, text: &str| ended.push((index, text.to_owned()));
    let tally =
        campaign::run(attack, InputKind::Harm, 0, 0..7, None, &mut end).expect("the child process can be started");
    let found: Vec<(u64, &str)> = tally
        .failures
        .iter()
        .map(|failure| (failure.index, &failure.cause[..]))
        .collect();
    let panicked = found.first().expect("a failure was found");
    assert!(panicked.0 == 1 && panicked.1.contains("harm: a panic"), "{panicked:?}");
    assert_eq!(found[1], (2, "signal 6"));
    assert_eq!(found[2], (3, "time-out"));
    assert_eq!(found[3], (4, "more memory than the limit"));
    assert_eq!(found[4], (5, "exit status 3"));
    assert_eq!(found.len(), 5);
    assert_eq!(ended.iter().map(|end| end.0).collect::<Vec<_>>(), [0, 4, 6]);
    assert_eq!(tally.inputs, 7);
}
