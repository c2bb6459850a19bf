// SPDX-License-Identifier: GPL-2.0-only
//! What a program must not do ends the run with an error.

use super::support::run;

/// Runs the program and returns the error with which the run ends.
fn failure(argument: &str) -> String {
    let outcome = run(argument);
    outcome
        .failure
        .unwrap_or_else(|| panic!("{argument}: the run ended with {:?}", outcome.ended))
}

#[test]
fn processes_cannot_be_created() {
    assert!(failure("fork").contains("it creates a process"));
    assert!(failure("exec").contains("it executes another program"));
}

#[test]
fn there_is_no_network() {
    assert!(failure("network").contains("it uses the network"));
}

#[test]
fn unknown_calls_are_refused() {
    let message = failure("reboot");
    assert!(
        message.contains("it makes the system call reboot, which is not answered"),
        "{message}"
    );
}

#[test]
fn files_of_the_host_do_not_exist() {
    let message = failure("shadow");
    assert!(message.contains("shadow: No such file or directory"), "{message}");
}

#[test]
fn an_early_end_is_an_error() {
    assert!(failure("exit").contains("it ended before it attached a policy (exit status 5)"));
    assert!(failure("leave").contains("it ended during the run (exit status 0)"));
    assert!(failure("abort").contains("it aborted"));
    assert!(failure("crash").contains("segmentation fault"));
}
