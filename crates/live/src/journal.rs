// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel says of sched_ext in its log: the exit record of a policy that it ejected. This works with any object,
//! whether or not its exit callback keeps the record.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

/// What follows a policy's name when it has ended.
const DISABLED: &str = " disabled (";

/// The kernel's log from now on.
pub struct Journal {
    kmsg: Option<File>,
}

impl Journal {
    /// Without permission to read the log, there is nothing in it.
    pub fn from_now() -> Journal {
        let kmsg = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg");
        let kmsg = kmsg.ok().and_then(|mut file| {
            file.seek(SeekFrom::End(0)).ok()?;
            Some(file)
        });
        Journal { kmsg }
    }

    /// What was said once the policy has ended: a worker of the kernel's own says it, a little later.
    pub fn settled(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(50));
            lines.extend(self.new_lines());
            if lines.iter().any(|line| line.contains(DISABLED)) {
                break;
            }
        }
        lines.extend(self.new_lines());
        lines
    }

    /// What was said of sched_ext since the last call.
    pub fn new_lines(&mut self) -> Vec<String> {
        let Some(kmsg) = &mut self.kmsg else {
            return Vec::new();
        };
        let mut lines = Vec::new();
        let mut record = [0; 8192];
        loop {
            match kmsg.read(&mut record) {
                Ok(0) => break,
                Ok(length) => lines.extend(message(&String::from_utf8_lossy(&record[..length]))),
                // EPIPE: records were overwritten before they were read; the next read goes on behind them.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(_) => break,
            }
        }
        lines
    }
}

/// The text of a record `priority,sequence,time,flags;text`, if it is about sched_ext and not about a deprecated way of
/// writing a task's fields, which the kernel mentions at each load.
fn message(record: &str) -> Option<String> {
    let text = record.split_once(';')?.1.lines().next()?;
    let text = text.strip_prefix("sched_ext: ")?;
    (!text.contains("is deprecated")).then(|| text.to_owned())
}

/// How a policy ended, by the kernel's words.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// By an error of the policy.
    Ejected,
    /// The kernel wants it loaded anew: CPUs came or went, and it has no callback for that.
    Restart,
    /// By its own wish, by an operator's, or unloaded.
    Asked,
}

/// Reads the line `BPF scheduler "NAME" disabled (REASON)`; reasons as in scx_exit_reason().
pub fn end(lines: &[String]) -> End {
    let disabled = lines.iter().rev().find(|line| line.contains(DISABLED));
    match disabled.and_then(|line| line.split_once(DISABLED)) {
        Some((_, reason)) if reason.starts_with("unregistered from the main kernel") => End::Restart,
        Some((_, reason))
            if ["unregistered from", "disabled by sysrq"]
                .iter()
                .any(|asked| reason.starts_with(asked)) =>
        {
            End::Asked
        }
        _ => End::Ejected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_about_sched_ext_are_kept() {
        let text =
            message("4,812,9154,-;sched_ext: steal: runnable task stall (a[7] failed to run for 2.5s)\n SUB=x\n");
        assert_eq!(
            text.as_deref(),
            Some("steal: runnable task stall (a[7] failed to run for 2.5s)")
        );
        assert_eq!(message("6,1,2,-;smpboot: CPU 3 is now offline\n"), None);
        assert_eq!(
            message("4,1,2,-;sched_ext: Writing directly to p->scx.slice/dsq_vtime is deprecated, use\n"),
            None
        );
    }

    #[test]
    fn the_reason_tells_how_it_ended() {
        let told = |reason: &str| end(&[format!("BPF scheduler \"o1\" disabled ({reason})"), "o1: more".into()]);
        assert_eq!(told("runtime error"), End::Ejected);
        assert_eq!(told("runnable task stall"), End::Ejected);
        assert_eq!(told("unregistered from the main kernel"), End::Restart);
        assert_eq!(told("unregistered from user space"), End::Asked);
        assert_eq!(told("unregistered from BPF"), End::Asked);
        assert_eq!(end(&[]), End::Ejected);
    }
}
