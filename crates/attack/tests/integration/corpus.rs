// SPDX-License-Identifier: GPL-2.0-only
//! Tests that each hand-written attack ends as expected. The attacks run in child processes, in the
//! JIT and in the interpreter, with and without the sanitizer (`--sanitize`).

use attack::campaign::{self, Failure};
use attack::corpus::{self, Attack};
use attack::execute::{End, MODES};
use attack::kind::{self, InputKind};
use attack::texts;
use std::collections::BTreeMap;
use std::path::Path;

const ATTACK: &str = env!("CARGO_BIN_EXE_attack");
/// Minimum number of attacks in the corpus.
const FEWEST: usize = 200;

/// Runs inputs in parallel, in one child process for each CPU of the host. Returns how each input
/// ended.
fn run(kind: InputKind, count: u64) -> (BTreeMap<u64, String>, Vec<Failure>) {
    let threads = std::thread::available_parallelism().map_or(2, usize::from) as u64;
    // Each child receives many short ranges of inputs, so that no child receives all slow inputs.
    let pieces: Vec<_> = (0..count.div_ceil(16))
        .map(|n| n * 16..(n * 16 + 16).min(count))
        .collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let (mut ends, mut failures) = (BTreeMap::new(), Vec::new());
        while let Some(range) = pieces.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            let mut end = |index, text: &str| drop(ends.insert(index, text.to_owned()));
            let tally = campaign::run(Path::new(ATTACK), kind, 0, range.clone(), None, &mut end);
            failures.extend(tally.expect("the child process can be started").failures);
        }
        (ends, failures)
    };
    let (mut ends, mut failures) = (BTreeMap::new(), Vec::new());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let (some, failed) = worker.join().expect("a worker thread does not panic");
            ends.extend(some);
            failures.extend(failed);
        }
    });
    (ends, failures)
}

/// Returns how an input ended. `text` is the result that the child printed.
fn parse(text: &str) -> End {
    match text.split_once(": ") {
        Some(("refused", message)) => End::Refused(message.to_owned()),
        Some(("ejected", message)) => End::Ejected(message.to_owned()),
        _ => match text.strip_prefix("refused:").or(text.strip_prefix("ejected:")) {
            Some(_) => panic!("an end without a message: {text}"),
            None => End::Runs,
        },
    }
}

fn judge(attack: &Attack, index: u64, ends: &BTreeMap<u64, String>, wrong: &mut Vec<String>) {
    let (_, mode) = kind::corpus_case(index);
    let name = format!("{} {mode:?}", attack.name);
    let Some((hash, text)) = ends.get(&index).and_then(|end| end.split_once(' ')) else {
        return;
    };
    if !attack.expected(mode).holds(&parse(text)) {
        wrong.push(format!("{name}: expected {:?}, found {text}", attack.expected(mode)));
    }
    // An input with an odd index runs an attack in the JIT. The input before it runs the same
    // attack in the interpreter.
    let other = index.wrapping_sub(1);
    if index % 2 == 1
        && let Some(end) = ends.get(&other)
        && *end != format!("{hash} {text}")
    {
        wrong.push(format!("{name}: the interpreter found {end}, the JIT {hash} {text}"));
    }
}

#[test]
fn hand_written_attacks_do_no_harm() {
    let attacks = corpus::attacks().expect("the corpus can be read");
    assert!(attacks.len() >= FEWEST, "{} attacks", attacks.len());
    corpus::compile(&attacks).expect("every attack compiles");
    let modes = MODES.len() as u64;
    let (ends, failures) = run(InputKind::Corpus, attacks.len() as u64 * modes);
    let mut wrong = Vec::new();
    for failure in failures {
        let (attack, mode) = kind::corpus_case(failure.index);
        wrong.push(format!("{} {mode:?}: {}", attacks[attack].name, failure.cause));
    }
    for (number, attack) in (0..).zip(&attacks) {
        for index in number * modes..(number + 1) * modes {
            judge(attack, index, &ends, &mut wrong);
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} runs:\n{}",
        wrong.len(),
        ends.len(),
        wrong.join("\n")
    );
}

#[test]
fn hand_written_texts_do_no_harm() {
    let texts = texts::texts();
    let (ends, failures) = run(InputKind::Text, texts.len() as u64);
    let mut wrong: Vec<String> = failures
        .iter()
        .map(|failure| format!("{}: {}", texts[failure.index as usize].name, failure.cause))
        .collect();
    for (index, end) in &ends {
        let text = &texts[*index as usize];
        if !end.contains(&text.expected) {
            wrong.push(format!("{}: expected '{}', found {end}", text.name, text.expected));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
