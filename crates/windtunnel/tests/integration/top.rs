// SPDX-License-Identifier: GPL-2.0-only
//! Tests of `windtunnel top`. Without a terminal, it prints lines. On a terminal, it uses the full
//! screen, and restores the terminal at the end.

use crate::support::{object, root, windtunnel};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, Stdio};

#[test]
fn without_a_terminal_top_prints_a_line_for_each_interval() {
    let fifo = object("policies/fifo.bpf.c").display().to_string();
    let ran = windtunnel(&[
        "top",
        &fifo,
        "-m",
        "smp4",
        "-w",
        "closed:n=8,compute=1s",
        "--for",
        "1s",
        "--every",
        "250ms",
    ]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 5, "{}", ran.stdout);
    for (line, time) in lines[1..].iter().zip(["250.000", "500.000", "750.000", "1000.000"]) {
        let words: Vec<&str> = line.split_whitespace().collect();
        // There are eight tasks on four CPUs. Half of the tasks wait, and no CPU idles.
        assert_eq!((words[0], words[1], words[2]), (time, "8", "4"), "{line}");
        assert!(words[3].parse::<f64>().is_ok_and(|busy| busy > 99.0), "{line}");
        assert!(!line.contains('\u{1b}'), "{line:?}");
    }
    let ran = windtunnel(&[
        "top",
        &fifo,
        "-m",
        "smp4",
        "-w",
        "closed:n=8,compute=1s",
        "--for",
        "1s",
        "--every",
        "500ms",
        "--json",
    ]);
    let lines: Vec<serde_json::Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("valid JSON"))
        .collect();
    assert_eq!(lines.len(), 2, "{}", ran.stdout);
    assert_eq!(
        (&lines[0]["at_ns"], &lines[0]["waiting"]),
        (&500_000_000.into(), &4.into()),
        "{}",
        lines[0]
    );
    assert_eq!(lines[1]["cpus"].as_array().map(Vec::len), Some(4));
    let ran = windtunnel(&["top", &fifo, "--speed", "0"]);
    assert!(ran.status == 2 && ran.stderr.contains("--speed"), "{}", ran.stderr);
}

/// Runs `top` on a terminal of 100 columns and 30 rows, and sends the keys `typed` to it. Returns
/// the exit status and the output.
fn on_terminal(typed: &[u8]) -> (Option<i32>, String) {
    let (mut master, mut slave) = (0, 0);
    let size = libc::winsize {
        ws_row: 30,
        ws_col: 100,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the pointers refer to local variables that live until the call returns, or they are
    // null where that is allowed.
    let opened = unsafe {
        let (name, modes) = (std::ptr::null_mut(), std::ptr::null_mut());
        libc::openpty(
            &raw mut master,
            &raw mut slave,
            name,
            modes,
            (&raw const size).cast_mut(),
        )
    };
    assert_eq!(opened, 0, "openpty() failed");
    // SAFETY: both descriptors have just been opened, and nothing else owns them.
    let (mut master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    let terminal = || Stdio::from(slave.try_clone().expect("the terminal's descriptor can be duplicated"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_windtunnel"))
        .args([
            "top",
            "eevdf",
            "-m",
            "smp4",
            "-w",
            "closed:n=8,compute=1s",
            "--for",
            "60s",
        ])
        .current_dir(root())
        .stdin(terminal())
        .stdout(terminal())
        .stderr(terminal())
        .spawn()
        .expect("the command starts");
    drop(slave);
    // The keys are sent when the screen is visible.
    let (mut shown, mut buffer, mut sent) = (Vec::new(), [0; 4096], false);
    while let Ok(n @ 1..) = master.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..n]);
        if !sent && String::from_utf8_lossy(&shown).contains("q quit") {
            master.write_all(typed).expect("keys can be sent to the terminal");
            sent = true;
        }
    }
    let status = child.wait().expect("the command can be waited for").code();
    (status, String::from_utf8_lossy(&shown).into_owned())
}

#[test]
fn top_restores_the_terminal_at_the_end() {
    // The keys are q and Ctrl-C. A terminal in raw mode passes Ctrl-C on as a character.
    for typed in [b"q".as_slice(), b" +\x03"] {
        let (status, shown) = on_terminal(typed);
        assert_eq!(status, Some(0), "{shown}");
        for part in ["eevdf on machine smp4", "8 tasks", "fair queue of CPU", "closed:"] {
            assert!(shown.contains(part), "no '{part}' in {shown:?}");
        }
        // At the end, the terminal must have left the alternate screen, and the cursor must be
        // visible.
        let (enter, leave) = (shown.rfind("\u{1b}[?1049h"), shown.rfind("\u{1b}[?1049l"));
        assert!(enter.is_some() && enter < leave, "{shown:?}");
        assert!(shown.rfind("\u{1b}[?25l") < shown.rfind("\u{1b}[?25h"), "{shown:?}");
    }
}
