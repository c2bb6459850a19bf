// SPDX-License-Identifier: GPL-2.0-only
//! Tests with damaged input. The readers return a workload or an error with a position, and never
//! panic. The fuzz target `rtapp` tests the same property; this test uses fixed seeds.

use workload::{rtapp, to_rtapp_json};

const SEED: u64 = 0x5eed_0fa1;
const ROUNDS: usize = 20_000;

/// The random generator splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

const FILE: &str = r#"{ /* all keys and events */
  "resources": {"p": {"type": "pipe", "capacity": 100}, "s": {"type": "semaphore", "value": 1}},
  "tasks": {
    "a": {"instance": 3, "delay": 5, "loop": -1, "cpus": [0, 1], "policy": "SCHED_FIFO", "priority": 5,
          "phases": {"x": {"loop": 2, "run0": 10, "runtime": 5, "timer": {"ref": "unique", "period": 9, "mode": "absolute"}},
                     "y": {"cpus": [2], "sleep": 7, "mem": 10, "iorun": 5, "barrier": "B", "yield": ""}}},
    "b": {"taskgroup": "/g", "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m", "suspend",
          "send": {"ref": "p", "bytes": 10}, "sem_wait": "s", "begin": "", "done": 2},
    "c": {"instance": 0, "loop": 1, "run": 3, "recv": "p", "sem_post": "s"},
    "d": {"signal": "c", "resume": "b", "fork": "c", "run": 1, },
    "e": {"dl-runtime": 5000, "period": 9, "phases": {
            "x": {"priority": 2, "dl-runtime": 100, "suspend0": "d2", "timers": {}, "lock": "", "unlock": ""}}},
    "f": {"resume": "d2", "sleep": 9, "loop": -9}
  },
  "global": {"duration": 2, "default_policy": "SCHED_OTHER", "calibration": "CPU0", "logdir": "./"}
}"#;

/// Tokens to insert as damage, in addition to bytes.
const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "'",
    "/*",
    "*/",
    "//",
    "\\u",
    "\\",
    "-1",
    "0",
    "1e9",
    "null",
    "true",
    "\"loop\"",
    "\"run\"",
    "\"phases\"",
    "2147483647",
    "99999999999999999999",
    "\"instance\"",
    "\u{e4}",
    "\n",
];

fn damage(random: &mut Random, text: &str, tokens: &[&str]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(5) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] = random.below(256) as u8,
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => {
                let end = (at + random.below(60)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            _ => drop(bytes.splice(at..at, tokens[random.below(tokens.len())].bytes())),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn damaged_files_never_panic() {
    let mut random = Random(SEED);
    let (mut read, mut written) = (0, 0);
    rtapp::read(FILE, "x.json").unwrap_or_else(|error| panic!("{error}"));
    for _ in 0..ROUNDS {
        let text = damage(&mut random, FILE, TOKENS);
        match rtapp::read(&text, "x.json") {
            Ok(workload) => {
                read += 1;
                workload.check().unwrap_or_else(|error| panic!("{text}\n{error}"));
                if let Ok(first) = to_rtapp_json(&workload) {
                    written += 1;
                    let again = rtapp::read(&first, "x.json");
                    let again = again.unwrap_or_else(|error| panic!("{text}\n{first}\n{error}"));
                    assert_eq!(to_rtapp_json(&again).as_ref(), Ok(&first), "{text}");
                }
            }
            Err(error) => {
                assert!(error.place == "x.json" && !error.message.is_empty(), "{error}");
            }
        }
    }
    assert!(
        read > ROUNDS / 100 && written > 0,
        "{read} read, {written} written: too much damage"
    );
}

#[test]
fn damaged_specifications_never_panic() {
    let specs: Vec<_> = workload::generator::generators().iter().map(|g| g.example()).collect();
    let tokens = [
        ":",
        ",",
        "=",
        "/",
        "ms",
        "k",
        "0",
        "-",
        ".",
        "99999999999999999999",
        "cv2=1",
        "\u{e4}",
    ];
    let mut random = Random(SEED);
    let mut made = 0;
    for round in 0..ROUNDS {
        let text = damage(&mut random, &specs[round % specs.len()], &tokens);
        match workload::generator::generate(&text) {
            Ok(workload) => {
                made += 1;
                workload.check().unwrap_or_else(|error| panic!("{text}: {error}"));
            }
            Err(error) => assert!(error.place == text && error.hint.is_some(), "{error}"),
        }
    }
    assert!(made > ROUNDS / 100, "{made}");
}
