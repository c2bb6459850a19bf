// SPDX-License-Identifier: GPL-2.0-only
//! Runs the command on a pseudo-terminal.

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::process::{Command, Stdio};

/// Runs the command. Its standard output is a terminal with `columns` columns. Returns the exit
/// status and the text that the terminal received.
pub fn on_terminal(columns: u16, variables: &[(&str, &str)], args: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windtunnel"));
    command.args(args).current_dir(super::root());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
        .env("TERM", "xterm")
        .env("LC_ALL", "C.UTF-8")
        .envs(variables.iter().copied());
    command.stderr(Stdio::null());
    run_on_terminal(command, 24, columns)
}

/// Runs `command`, whose standard output becomes a terminal of this size. Returns the exit status,
/// and the text that the terminal received. If standard error is a pipe, its text follows.
pub fn run_on_terminal(mut command: Command, rows: u16, columns: u16) -> (i32, String) {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let (mut ours, mut theirs) = (0, 0);
    // SAFETY: openpty stores two new file descriptors, which have no other owner.
    let (mut ours, theirs) = unsafe {
        let name = std::ptr::null_mut();
        let opened = libc::openpty(&raw mut ours, &raw mut theirs, name, std::ptr::null(), &raw const size);
        assert_eq!(opened, 0, "openpty() failed");
        (File::from_raw_fd(ours), File::from_raw_fd(theirs))
    };
    command.stdin(Stdio::null()).stdout(theirs);
    let mut child = command.spawn().expect("the command starts");
    // Closes this process's copies of the command's descriptors. While they are open, reading would
    // never end.
    drop(command);
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    // When the command closes its side of the terminal, reading fails.
    while let Ok(read @ 1..) = ours.read(&mut buffer) {
        received.extend_from_slice(&buffer[..read]);
    }
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_end(&mut received).expect("standard error can be read");
    }
    let status = child.wait().expect("the command can be waited for");
    let text = String::from_utf8(received)
        .expect("the text is UTF-8")
        .replace("\r\n", "\n");
    (status.code().expect("no signal has ended the command"), text)
}

/// Removes the colours from a text. Checks that it contains no other escape sequences.
pub fn without_colours(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (colour, rest) = part.split_once('m').expect("the escape sequence is a colour");
        let digits = colour.strip_prefix('[').expect("the escape sequence is a colour");
        assert!(digits.chars().all(|c| c.is_ascii_digit() || c == ';'), "{part:?}");
        plain += rest;
    }
    plain
}
