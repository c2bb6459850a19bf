// SPDX-License-Identifier: GPL-2.0-only
//! Collects the messages of libbpf and the verifier while an object is loaded. If the object is
//! rejected, finds the source line in the messages.

use libbpf_rs::{PrintLevel, libbpf_sys, set_print};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::Mutex;

static MESSAGES: Mutex<String> = Mutex::new(String::new());

fn keep(_level: PrintLevel, message: String) {
    if let Ok(mut messages) = MESSAGES.lock() {
        messages.push_str(&message);
    }
}

/// Makes libbpf pass its messages to this module instead of printing them.
pub fn keep_messages() {
    set_print(Some((PrintLevel::Info, keep)));
}

/// Returns the messages that were collected since the last call.
pub fn messages() -> String {
    MESSAGES
        .lock()
        .map(|mut messages| std::mem::take(&mut *messages))
        .unwrap_or_default()
}

/// A program that the verifier rejected.
#[derive(Debug, PartialEq, Eq)]
pub struct Rejection {
    pub program: String,
    /// The source line as `FILE:LINE: TEXT`, if the object contains line information.
    pub source: Option<String>,
    /// The first message after the last instruction in the verifier's log. Linux 7.3 adds advice
    /// after this message.
    pub reason: String,
}

/// Finds the rejected program in libbpf's messages. In the verifier's log, each source line
/// precedes the instructions that were compiled from it. The last source line is therefore the one
/// at which the verifier stopped.
pub fn rejection(messages: &str) -> Option<Rejection> {
    let (before, log) = messages.split_once("-- BEGIN PROG LOAD LOG --\n")?;
    let log = log.split("-- END PROG LOAD LOG --").next()?;
    let program = before.rsplit_once("prog '")?.1.split('\'').next()?.to_owned();
    let mut source = None;
    let mut reason = String::new();
    for line in log.lines() {
        // A source line has the form `; TEXT @ FILE:LINE`. If the verifier continues with another
        // branch, the log repeats the source line after the instruction.
        match line.strip_prefix("; ").and_then(|line| line.rsplit_once(" @ ")) {
            Some((text, location)) => source = Some(format!("{location}: {}", text.trim())),
            None if line.starts_with("processed ") || line.trim().is_empty() => {}
            None if is_state(line) => reason.clear(),
            None if reason.is_empty() => line.trim().clone_into(&mut reason),
            None => {}
        }
    }
    Some(Rejection {
        program,
        source,
        reason,
    })
}

/// Returns whether a line of the log describes an instruction or a state instead of an error.
/// Examples: `12: (85) call ...`, `R1=ctx()`, `from 7 to 9: ...`.
fn is_state(line: &str) -> bool {
    let first = line.split([' ', '=', ':']).next().unwrap_or_default();
    let number = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    let register = line.contains('=') && first.starts_with('R') && first[1..].bytes().all(|byte| byte.is_ascii_digit());
    number && line[first.len()..].starts_with(':') || register && !line.contains(' ') || first == "from"
}

/// Returns the number of instructions that the verifier processed for each program, largest number
/// first.
///
/// The verifier may process an instruction several times, once for each state. It gives up after a
/// million processed instructions, and the time to load the program grows with their number. Linux
/// before 5.16 does not report this number, which is then 0 here.
pub fn effort(object: &libbpf_rs::Object) -> Vec<(String, u32)> {
    let mut programs: Vec<(String, u32)> = object
        .progs()
        .filter(|program| program.autoload())
        .map(|program| {
            let mut info = libbpf_sys::bpf_prog_info::default();
            let mut length = size_of_val(&info) as u32;
            // SAFETY: the kernel writes at most `length` bytes, which is the size of `info`.
            let status = unsafe {
                libbpf_sys::bpf_obj_get_info_by_fd(program.as_fd().as_raw_fd(), (&raw mut info).cast(), &mut length)
            };
            let name = program.name().to_string_lossy().into_owned();
            (name, if status == 0 { info.verified_insns } else { 0 })
        })
        .collect();
    programs.sort_by_key(|(_, instructions)| std::cmp::Reverse(*instructions));
    programs
}

/// Writes the verifier's log of a policy to a new file, which stays. Its name is random, so no other
/// user can put a link to a different file there.
pub fn write_log(name: &str, messages: &str) -> io::Result<PathBuf> {
    let prefix = format!("windtunnel-live-{name}-");
    let mut file = tempfile::Builder::new().prefix(&prefix).suffix(".log").tempfile()?;
    file.write_all(messages.as_bytes())?;
    let (_, path) = file.keep()?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REJECTED: &str = "libbpf: prog 'steal_dispatch': BPF program load failed: -EACCES
libbpf: prog 'steal_dispatch': -- BEGIN PROG LOAD LOG --
0: R1=ctx() R10=fp0
; if (!c) @ steal.bpf.c:232
23: (15) if r7 == 0x0 goto pc+39      ; R7=map_value(id=6,map=cpus,ks=4,vs=72)
; bpf_for(level, idle_balance == 1 ? 2 : 0, LEVELS) { @ steal.bpf.c:155
293: (85) call bpf_iter_num_destroy#65391     ;
294: (5c) w7 &= w6
R7 32-bit pointer arithmetic prohibited
processed 114 insns (limit 1000000) max_states_per_insn 1 total_states 9 peak_states 9 mark_read 0
-- END PROG LOAD LOG --
libbpf: prog 'steal_dispatch': failed to load: -EACCES
";

    #[test]
    fn the_rejected_source_line_is_found() {
        let found = rejection(REJECTED).expect("the log contains a rejection");
        assert_eq!(found.program, "steal_dispatch");
        assert_eq!(
            found.source.as_deref(),
            Some("steal.bpf.c:155: bpf_for(level, idle_balance == 1 ? 2 : 0, LEVELS) {")
        );
        assert_eq!(found.reason, "R7 32-bit pointer arithmetic prohibited");
        let advised = REJECTED.replace("prohibited\n", "prohibited\n\nUse 64-bit arithmetic.\n");
        assert_eq!(rejection(&advised), Some(found));
        assert_eq!(rejection("libbpf: failed to find valid kernel BTF\n"), None);
    }
}
