// SPDX-License-Identifier: GPL-2.0-only
//! Runs an input of the kind that is the name of the program (`attack::kind::InputKind`). The fuzzer
//! replaces the random numbers with which `make attack` damages valid inputs.
#![no_main]

use attack::kind::InputKind;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let kind = InputKind::by_name(env!("CARGO_BIN_NAME")).expect("the program has the name of a kind");
    kind.run(bytes);
});
