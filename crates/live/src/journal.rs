// SPDX-License-Identifier: GPL-2.0-only
//! Reads sched_ext's messages in the kernel log. The most important one is the exit record of an
//! ejected policy.
//!
//! The kernel writes the exit record of every object to its log. An object could also store the
//! record in its exit callback, but not every object does so.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

/// Text that follows the policy's name in the kernel's message that the policy has ended.
const DISABLED: &str = " disabled (";

/// The kernel log from a certain point on.
pub struct Journal {
    kmsg: Option<File>,
}

impl Journal {
    /// Starts at the current end of the log. If this process may not read the log, there are no
    /// messages.
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

    /// Waits up to a second for the message that the policy has ended, and returns the new
    /// messages. The kernel writes this message from a worker thread, shortly after the policy has
    /// ended.
    pub fn settled(&mut self) -> Vec<String> {
        let mut lines = self.new_lines();
        for _ in 0..20 {
            if lines.iter().any(|line| line.contains(DISABLED)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
            lines.extend(self.new_lines());
        }
        lines.extend(self.new_lines());
        lines
    }

    /// Returns the sched_ext messages since the last call.
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
                // EPIPE: the kernel has overwritten records before they were read. The next read
                // continues after them.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(_) => break,
            }
        }
        lines
    }
}

/// Returns the text of a log record `priority,sequence,time,flags;text` if sched_ext has written
/// it. Leaves out the warning about direct stores to fields of tasks, because the kernel prints it
/// at every load.
fn message(record: &str) -> Option<String> {
    let text = record.split_once(';')?.1.lines().next()?;
    let text = text.strip_prefix("sched_ext: ")?;
    (!text.contains("is deprecated")).then(|| text.to_owned())
}

/// The cause for which a policy ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// An error of the policy.
    Ejected,
    /// CPUs went online or offline, and the policy has no callback for that. The kernel asks the
    /// loader to load the policy again.
    Restart,
    /// A request by the policy itself, by an operator, or by the loader.
    Requested,
}

/// Finds the line `BPF scheduler "NAME" disabled (REASON)`. The kernel function scx_exit_reason()
/// defines the reasons.
pub fn end(lines: &[String]) -> End {
    let disabled = lines.iter().rev().find(|line| line.contains(DISABLED));
    match disabled.and_then(|line| line.split_once(DISABLED)) {
        Some((_, reason)) if reason.starts_with("unregistered from the main kernel") => End::Restart,
        Some((_, reason))
            if ["unregistered from", "disabled by sysrq"]
                .iter()
                .any(|request| reason.starts_with(request)) =>
        {
            End::Requested
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
    fn the_exit_reason_gives_the_kind_of_end() {
        let end_for = |reason: &str| end(&[format!("BPF scheduler \"o1\" disabled ({reason})"), "o1: more".into()]);
        assert_eq!(end_for("runtime error"), End::Ejected);
        assert_eq!(end_for("runnable task stall"), End::Ejected);
        assert_eq!(end_for("unregistered from the main kernel"), End::Restart);
        assert_eq!(end_for("unregistered from user space"), End::Requested);
        assert_eq!(end_for("unregistered from BPF"), End::Requested);
        assert_eq!(end(&[]), End::Ejected);
    }
}
