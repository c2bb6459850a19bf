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
    // The program goes on without the other process.
    for (argument, output) in [
        ("fork", "fork: Operation not permitted"),
        ("exec", "exec: Operation not permitted"),
    ] {
        let outcome = run(argument);
        assert_eq!(outcome.failure, None);
        assert_eq!(outcome.output.lines().collect::<Vec<_>>(), [output, "attached"]);
    }
}

#[test]
fn a_program_connects_only_to_itself() {
    let outcome = run("network");
    assert_eq!(outcome.failure, None);
    assert_eq!(
        outcome.output,
        "connect: Connection refused\nthe server read hello\nattached\n"
    );
}

#[test]
fn policies_have_the_priorities_of_linux() {
    let outcome = run("priorities");
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.output, "0 to 0\n1 to 99\n1 to 99\n0 to 0\n-1 to -1\nattached\n");
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

/// Returns the process of the test program that was started with `argument`.
fn process(argument: &str) -> Option<i32> {
    let found = std::fs::read_dir("/proc").ok()?.flatten().find(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
        words.len() > 1 && words[0].ends_with(b"/echo") && words[1] == argument.as_bytes()
    });
    found?.file_name().to_str()?.parse().ok()
}

#[test]
fn a_program_that_is_killed_from_outside_ends_the_run() {
    let run = std::thread::spawn(|| failure("hang"));
    while !run.is_finished() {
        std::thread::sleep(std::time::Duration::from_millis(200));
        if let Some(pid) = process("hang") {
            // On an idle host, the program then computes without system calls.
            std::thread::sleep(std::time::Duration::from_secs(1));
            // SAFETY: the call takes numbers only.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
    let message = run.join().expect("the run ends");
    let killed = ["the signal 9 ended it", "it is gone"]
        .iter()
        .any(|why| message.contains(why));
    assert!(killed, "{message}");
}

#[test]
fn an_early_end_is_an_error() {
    assert!(failure("exit").contains("it ended before it attached a policy (exit status 5)"));
    assert!(failure("leave").contains("it ended during the run (exit status 0)"));
    assert!(failure("abort").contains("it aborted"));
    assert!(failure("crash").contains("segmentation fault"));
}
