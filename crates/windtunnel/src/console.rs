// SPDX-License-Identifier: GPL-2.0-only
//! Standard output and standard error of the commands: no panic when they are full or closed, nothing that harms a terminal.
//!
//! Text goes through [`out!`](crate::out), [`outln!`](crate::outln) and [`errln!`](crate::errln), which escape control characters
//! ([`trace::escape`]). Tables that may have colours go through [`styled`]; they have escaped the names in them. The first error of
//! standard output is kept and becomes the exit status of [`finish`]. When nobody reads any more (`| head`), what is still running
//! ends as after Ctrl-C, files are written, and the process ends as SIGPIPE would have ended it.

use crate::interrupt;
use clap::error::{ContextKind, ContextValue};
use report::Surface;
use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use terminal_size::terminal_size_of;
use trace::escape;

/// First error of standard output. Nothing is written after it.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints to standard output; control characters but newlines and tabs are escaped.
#[macro_export]
macro_rules! out {
    ($($arg:tt)*) => { $crate::console::text(format_args!($($arg)*)) };
}

/// Prints a line to standard output; control characters but newlines and tabs are escaped.
#[macro_export]
macro_rules! outln {
    () => { $crate::console::text(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::console::text(format_args!("{}\n", format_args!($($arg)*))) };
}

/// Prints a line to standard error; control characters but newlines and tabs are escaped.
#[macro_export]
macro_rules! errln {
    ($($arg:tt)*) => { $crate::console::note(format_args!($($arg)*)) };
}

/// Writes text to standard output, escaped.
pub fn text(text: fmt::Arguments) {
    styled(&escape::text(&text.to_string()));
}

/// Writes JSON and a newline to standard output, with the control characters that JSON allows escaped as JSON escapes them.
pub fn json(text: &str) {
    styled(&escape::json(text));
    styled("\n");
}

/// Writes text whose names are escaped already and that may have colours.
pub fn styled(text: &str) {
    let mut out = Stdout;
    // An error is kept for the end.
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// Writes a line to standard error, escaped. A full or closed standard error leaves no place to report that.
pub fn note(text: fmt::Arguments) {
    let text = text.to_string();
    let _ = writeln!(io::stderr().lock(), "{}", escape::text(&text));
}

/// Says on a terminal that a signal was noted: what runs may take a moment to end.
pub(crate) fn note_interrupt() {
    if io::stderr().is_terminal() {
        note(format_args!("\nwindtunnel: ending the run; again to end at once"));
    }
}

/// Standard output as a [`Write`] that never fails: the first error is kept, and what comes after it is dropped.
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        keep_error(|| io::stdout().lock().write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        keep_error(|| io::stdout().lock().flush());
        Ok(())
    }
}

fn keep_error(write: impl FnOnce() -> io::Result<()>) {
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    if failed.is_none() {
        *failed = write().err();
        if failed
            .as_ref()
            .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
        {
            interrupt::reader_is_gone();
        }
    }
}

/// Reads the command line. What is wrong with it, or the help that it asks for, is printed: `Err` is the exit status.
///
/// # Errors
/// The exit status if there is nothing to run.
pub fn arguments<Command: clap::Parser>() -> Result<Command, ExitCode> {
    let args: Vec<String> = std::env::args_os()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    Command::try_parse().map_err(|mut error| {
        correct(&mut error, &args);
        let colour = |terminal| has_colour(terminal, &variable);
        let rendered = error.render();
        let text = |colour| {
            if colour {
                rendered.ansi().to_string()
            } else {
                rendered.to_string()
            }
        };
        if error.use_stderr() {
            let _ = io::stderr()
                .lock()
                .write_all(text(colour(io::stderr().is_terminal())).as_bytes());
        } else {
            styled(&text(colour(io::stdout().is_terminal())));
        }
        ExitCode::from(error.exit_code() as u8)
    })
}

/// Takes advice out of an error that does not help: `--seed -1` does not work as `--seed -- -1` either.
fn correct(error: &mut clap::Error, args: &[String]) {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return;
    };
    let unknown = unknown.clone();
    if error.kind() != clap::error::ErrorKind::UnknownArgument {
        return;
    }
    if let Some(ContextValue::StyledStrs(advice)) = error.get(ContextKind::Suggested) {
        let useful = advice
            .iter()
            .filter(|advice| !advice.to_string().contains("as a value, use"));
        let useful: Vec<_> = useful.cloned().collect();
        // An empty list would be printed as an empty line.
        match useful.is_empty() {
            true => error.remove(ContextKind::Suggested),
            false => error.insert(ContextKind::Suggested, ContextValue::StyledStrs(useful)),
        };
    }
    let is_number = |arg: &str| {
        arg.strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    };
    let Some(place) = args
        .iter()
        .position(|arg| is_number(arg) && arg.starts_with(unknown.as_str()))
    else {
        return;
    };
    if let Some(option) = args[..place].last().filter(|before| before.starts_with('-')) {
        let advice = format!("'{}' is below 0, which '{option}' cannot be", args[place]);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Ends a command with the exit status `code`, or with 2 if standard output could not take everything.
pub fn finish(command: &str, code: ExitCode) -> ExitCode {
    styled("");
    let failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner).take();
    match failed {
        None => code,
        Some(error) if error.kind() == ErrorKind::BrokenPipe => {
            // SAFETY: SIG_DFL is a valid disposition, and raising a signal harms no memory.
            unsafe {
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                libc::raise(libc::SIGPIPE);
            }
            code
        }
        Some(error) => {
            note(format_args!("{command}: standard output: {error}"));
            ExitCode::from(2)
        }
    }
}

/// Returns how wide standard output is, and whether it has colours.
pub fn surface() -> Surface {
    let stdout = io::stdout();
    let terminal = stdout.is_terminal();
    let width = terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
    Surface {
        terminal,
        width: width.filter(|&width| terminal && width > 0),
        colour: has_colour(terminal, &|name| {
            std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
        }),
    }
}

/// Whether to print colours: NO_COLOR, then CLICOLOR_FORCE, CLICOLOR and TERM (no-color.org, bixense.com/clicolors).
fn has_colour(terminal: bool, variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let set = |name| variable(name).is_some_and(|value| !value.is_empty());
    let zero = |name| variable(name).as_deref() == Some("0");
    if set("NO_COLOR") {
        return false;
    }
    if set("CLICOLOR_FORCE") && !zero("CLICOLOR_FORCE") {
        return true;
    }
    terminal && !zero("CLICOLOR") && set("TERM") && variable("TERM").as_deref() != Some("dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_have_them() {
        let colour = |terminal, variables: &[(&str, &str)]| {
            has_colour(terminal, &|name| {
                let known = variables.iter().find(|(known, _)| *known == name);
                known.map(|(_, value)| (*value).to_owned())
            })
        };
        let xterm = ("TERM", "xterm");
        assert!(colour(true, &[xterm]));
        assert!(colour(true, &[xterm, ("NO_COLOR", "")]));
        assert!(colour(false, &[("CLICOLOR_FORCE", "1")]));
        assert!(!colour(false, &[xterm]));
        assert!(!colour(true, &[]));
        assert!(!colour(true, &[("TERM", "dumb")]));
        assert!(!colour(true, &[xterm, ("NO_COLOR", "1")]));
        assert!(!colour(true, &[xterm, ("CLICOLOR", "0")]));
        assert!(!colour(false, &[xterm, ("CLICOLOR_FORCE", "0")]));
        assert!(!colour(true, &[xterm, ("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]));
    }
}
