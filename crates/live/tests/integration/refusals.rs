// SPDX-License-Identifier: GPL-2.0-only
//! Tests of errors that occur on every kernel, without loading a policy. `make live-test` tests
//! loading in a virtual machine.

use std::path::Path;
use std::process::{Command, Output};

fn live(args: &[&str]) -> Output {
    let command = Command::new(env!("CARGO_BIN_EXE_windtunnel-live")).args(args).output();
    command.expect("windtunnel-live can be started")
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

fn has_sched_ext() -> bool {
    Path::new("/sys/kernel/sched_ext").exists()
}

#[test]
fn without_sched_ext_the_error_names_the_kernel_and_a_next_step() {
    if has_sched_ext() {
        golden::skip!("this kernel has sched_ext");
        return;
    }
    let refused = live(&["load", "fifo"]);
    assert_eq!(refused.status.code(), Some(2));
    let text = printed(&refused);
    assert!(text.contains("has no sched_ext"), "{text}");
    assert!(text.contains("hint: boot a kernel of 6.12 or later"), "{text}");
    for args in [&["set", "slice_ns=1"][..], &["unload"][..]] {
        let refused = live(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert!(printed(&refused).contains("has no sched_ext"), "{args:?}");
    }
    let status = live(&["status"]);
    assert_eq!(status.status.code(), Some(0));
    assert!(printed(&status).contains("sched_ext: none"), "{}", printed(&status));
}
