// SPDX-License-Identifier: GPL-2.0-only
//! A scheduler's program (`exec: COMMAND`) on this machine: starts the program, waits until it has
//! enabled its scheduler, and ends it.

use crate::{host_kernel, stop};
use input::error::Error;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time that a program may need to enable its scheduler.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Longest time that a program may need to end after SIGINT.
const END_LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
/// Number of lines of the program's output in an error.
const LINES: usize = 5;

/// A running scheduler. Dropping this value ends the program, which unloads its scheduler.
pub struct Scheduler {
    child: Child,
    name: String,
    /// Output of the program.
    output: File,
}

impl Scheduler {
    /// Starts the program, and waits until its scheduler is enabled.
    ///
    /// # Errors
    /// The kernel cannot load a scheduler, or the program cannot be executed, ends, or enables no
    /// scheduler within a minute.
    pub fn start(name: &str, command: &[String]) -> Result<Scheduler, Error> {
        host_kernel::can_load()?;
        Scheduler::start_until(name, command, START_LIMIT, &|| host_kernel::state() == "enabled")
    }

    fn start_until(
        name: &str,
        command: &[String],
        limit: Duration,
        enabled: &dyn Fn() -> bool,
    ) -> Result<Scheduler, Error> {
        let [program, arguments @ ..] = command else {
            return Err(Error::new("exec: the command line is empty"));
        };
        let failed = |error: std::io::Error| Error::new(format!("{program}: {error}"));
        let output = tempfile::tempfile().map_err(failed)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output.try_clone().map_err(failed)?);
        // A shell starts background jobs with SIGINT ignored, and a program inherits that.
        // SAFETY: signal() may be called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let child = command.spawn().map_err(failed)?;
        let mut scheduler = Scheduler {
            child,
            name: name.to_owned(),
            output,
        };
        let begun = Instant::now();
        while !enabled() {
            if let Ok(Some(status)) = scheduler.child.try_wait() {
                return Err(scheduler.error(&format!("ended before it enabled its scheduler ({status})")));
            }
            if stop::requested() {
                return Err(Error::new("interrupted"));
            }
            if begun.elapsed() > limit {
                return Err(scheduler.error(&format!("has enabled no scheduler within {} s", limit.as_secs())));
            }
            thread::sleep(POLL);
        }
        Ok(scheduler)
    }

    /// Checks that the scheduler is still enabled.
    ///
    /// # Errors
    /// The kernel or the program has disabled it.
    pub fn check(&mut self) -> Result<(), Error> {
        match host_kernel::state().as_str() {
            "enabled" => Ok(()),
            _ => Err(self.error("was disabled while the workload ran")),
        }
    }

    /// Returns an error with the last lines that the program has printed.
    fn error(&mut self, what: &str) -> Error {
        let mut bytes = Vec::new();
        // An output that cannot be read is an empty one.
        let _ = self.output.rewind();
        let _ = self.output.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(LINES)..];
        let printed = last.iter().map(|line| format!("\n  {}", trace::escape::line(line)));
        Error::new(format!("{} {what}{}", self.name, printed.collect::<String>()))
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        if running(&mut self.child) {
            // SAFETY: the child has not been reaped, so no other process has its pid.
            unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGINT) };
        }
        let begun = Instant::now();
        while running(&mut self.child) && begun.elapsed() < END_LIMIT {
            thread::sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The kernel disables the scheduler after the program's last descriptor is closed.
        while host_kernel::state() == "disabling" && begun.elapsed() < END_LIMIT {
            thread::sleep(POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn start(script: &str, limit: Duration, enabled: &dyn Fn() -> bool) -> Result<Scheduler, Error> {
        let words = ["sh", "-c", script].map(str::to_owned);
        Scheduler::start_until("sched", &words, limit, enabled)
    }

    #[test]
    fn a_scheduler_is_enabled_used_and_interrupted() {
        let folder = tempfile::tempdir().expect("a directory");
        let ended = folder.path().join("ended");
        let checks = Cell::new(0);
        // Enabled once the program has set its handler.
        let ready = folder.path().join("ready");
        let enabled = || {
            checks.set(checks.get() + 1);
            ready.exists()
        };
        let script = format!(
            "trap 'touch {}; exit' INT; touch {}; while true; do sleep 0.01; done",
            ended.display(),
            ready.display()
        );
        let scheduler = start(&script, START_LIMIT, &enabled).expect("the program starts");
        assert!(checks.get() > 0);
        assert!(!ended.exists());
        drop(scheduler);
        assert!(ended.exists(), "the program gets SIGINT, and its end is awaited");
    }

    #[test]
    fn errors_contain_the_last_lines_of_the_output() {
        let message = |script, limit| start(script, limit, &|| false).err().expect("an error").message;
        assert_eq!(
            message("for i in 1 2 3 4 5 6; do echo line $i; done; exit 3", START_LIMIT),
            "sched ended before it enabled its scheduler (exit status: 3)\n  line 2\n  line 3\n  line 4\n  line 5\n  line 6"
        );
        assert_eq!(
            message("sleep 9", Duration::ZERO),
            "sched has enabled no scheduler within 0 s"
        );
    }
}
