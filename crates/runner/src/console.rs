// SPDX-License-Identifier: GPL-2.0-only
//! Standard output and standard error of the commands.
//!
//! Every command prints through this module. It guarantees three things:
//! - A command does not panic if writing to standard output fails, for example because the disk is
//!   full. The first error is stored, and [`finish`] turns it into the exit status.
//! - Names in the output cannot send control sequences to the terminal. The macros
//!   [`out!`](crate::out), [`outln!`](crate::outln) and [`errln!`](crate::errln) escape control
//!   characters with [`trace::escape`]. Tables with colours are printed by [`styled`], and their
//!   builders escape the names.
//! - If the reader of a pipe exits (`| head`), the runs end early, as after Ctrl-C. The output
//!   files are written, and the process then ends with SIGPIPE.

use crate::exit::ExitStatus;
use crate::interrupt;
use clap::error::{ContextKind, ContextValue};
use report::Surface;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};
use terminal_size::terminal_size_of;
use trace::escape;

/// First error of writing to standard output. After an error, nothing more is written.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints to standard output. Control characters other than newline and tab are escaped.
#[macro_export]
macro_rules! out {
    ($($arg:tt)*) => { $crate::console::text(format_args!($($arg)*)) };
}

/// Prints a line to standard output. Control characters other than newline and tab are escaped.
#[macro_export]
macro_rules! outln {
    () => { $crate::console::text(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::console::text(format_args!("{}\n", format_args!($($arg)*))) };
}

/// Prints a line to standard error. Control characters other than newline and tab are escaped.
#[macro_export]
macro_rules! errln {
    ($($arg:tt)*) => { $crate::console::note(format_args!($($arg)*)) };
}

/// Escapes control characters, and writes the text to standard output.
pub fn text(text: fmt::Arguments) {
    styled(&escape::text(&text.to_string()));
}

/// Writes JSON and a newline to standard output. Control characters are written as JSON escapes
/// such as `\u001b`.
pub fn json(text: &str) {
    styled(&escape::json(text));
    styled("\n");
}

/// Writes text that may contain colours. The caller must have escaped the names in it.
pub fn styled(text: &str) {
    let mut out = Stdout;
    // `Stdout` keeps the error for `finish`.
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// Writes a line to standard error, escaped. Errors are ignored, because they cannot be reported
/// anywhere.
pub fn note(text: fmt::Arguments) {
    let text = text.to_string();
    let _ = writeln!(io::stderr().lock(), "{}", escape::text(&text));
}

/// Returns whether standard output and standard error go to the same terminal, pipe or file. A
/// message that was written to one of them then need not be repeated on the other.
pub fn outputs_are_one() -> bool {
    let identity = |fd: BorrowedFd| {
        let metadata = File::from(fd.try_clone_to_owned().ok()?).metadata().ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    let stdout = identity(io::stdout().as_fd());
    stdout.is_some() && stdout == identity(io::stderr().as_fd())
}

/// Confirms on a terminal that a signal was received. The runs may take a moment to end.
pub(crate) fn note_interrupt() {
    if io::stderr().is_terminal() {
        note(format_args!(
            "\nwindtunnel: ending the run; repeat the signal to end at once"
        ));
    }
}

/// Standard output as a [`Write`] that never returns an error. It stores the first error for
/// [`finish`] and discards all later output.
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
            interrupt::note_broken_pipe();
        }
    }
}

/// Parses a command line, which begins with the name of the program. Prints error messages and
/// requested help. `advise` may add advice to an error.
///
/// # Errors
/// If there is no command to run, the exit status of the process: 2 after wrong arguments, 0 after
/// requested help.
pub fn arguments(
    command: clap::Command,
    args: &[OsString],
    advise: impl Fn(&mut clap::Error, &clap::Command, &[String]),
) -> Result<clap::ArgMatches, ExitStatus> {
    command.clone().try_get_matches_from(args).map_err(|mut error| {
        let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        if !correct_advice(&mut error, &args) {
            advise(&mut error, &command, &args);
        }
        usage_error(&error)
    })
}

/// Prints an error of the command line, or the help that the user requested. Returns the exit status
/// of the process.
pub fn usage_error(error: &clap::Error) -> ExitStatus {
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
    ExitStatus::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Corrects clap's advice about negative numbers. For `--seed -1`, clap suggests `--seed -- -1`,
/// which does not work either. Returns whether the error is about such a number.
fn correct_advice(error: &mut clap::Error, args: &[String]) -> bool {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return false;
    };
    let unknown = unknown.clone();
    if error.kind() != clap::error::ErrorKind::UnknownArgument {
        return false;
    }
    if let Some(ContextValue::StyledStrs(advice)) = error.get(ContextKind::Suggested) {
        let useful = advice
            .iter()
            .filter(|advice| !advice.to_string().contains("as a value, use"));
        let useful: Vec<_> = useful.cloned().collect();
        // If the list of suggestions is empty, clap would print an empty line.
        match useful.is_empty() {
            true => error.remove(ContextKind::Suggested),
            false => error.insert(ContextKind::Suggested, ContextValue::StyledStrs(useful)),
        };
    }
    let is_number = |arg: &str| {
        arg.strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    };
    let Some(index) = args
        .iter()
        .position(|arg| is_number(arg) && arg.starts_with(unknown.as_str()))
    else {
        return false;
    };
    if let Some(option) = args[..index].last().filter(|before| before.starts_with('-')) {
        let advice = format!("'{option}' does not accept the negative number '{}'", args[index]);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    }
    true
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Returns the exit status of the process: `code`, or 2 if writing to standard output failed.
pub fn finish(command: &str, code: ExitStatus) -> ExitStatus {
    styled("");
    let failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner).take();
    match failed {
        None => code,
        Some(error) if error.kind() == ErrorKind::BrokenPipe => {
            // SAFETY: SIG_DFL is a valid disposition, and raising a signal accesses no memory.
            unsafe {
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                libc::raise(libc::SIGPIPE);
            }
            code
        }
        Some(error) => {
            note(format_args!("{command}: standard output: {error}"));
            ExitStatus::from(2)
        }
    }
}

/// Returns the width of standard output, and whether colours are printed on it.
pub fn surface() -> Surface {
    let stdout = io::stdout();
    let terminal = stdout.is_terminal();
    let width = terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
    let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    Surface {
        terminal,
        ascii: !has_utf8(&variable),
        width: width.filter(|&width| terminal && width > 0),
        colour: has_colour(terminal, &variable),
    }
}

/// Returns whether the locale allows characters outside of ASCII. The first of LC_ALL, LC_CTYPE and
/// LANG that is set decides, as in setlocale(). Containers often set none of them although the
/// terminal displays UTF-8.
fn has_utf8(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(|name| variable(name));
    let locale = set.map(|value| value.to_lowercase()).find(|value| !value.is_empty());
    locale.is_none_or(|locale| locale.contains("utf-8") || locale.contains("utf8"))
}

/// Returns whether colours are printed. The environment variables NO_COLOR, CLICOLOR_FORCE,
/// CLICOLOR and TERM decide, in this order (no-color.org, bixense.com/clicolors).
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
    fn boxes_need_a_locale_with_utf_8() {
        let utf8 = |variables: &[(&str, &str)]| {
            has_utf8(&|name| {
                let known = variables.iter().find(|(known, _)| *known == name);
                known.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(utf8(&[]) && utf8(&[("LANG", "")]));
        assert!(utf8(&[("LANG", "de_DE.UTF-8")]) && utf8(&[("LANG", "C.utf8")]));
        assert!(!utf8(&[("LANG", "C")]) && !utf8(&[("LANG", "POSIX")]) && !utf8(&[("LANG", "de_DE.ISO-8859-1")]));
        assert!(!utf8(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")]));
        assert!(utf8(&[("LC_ALL", ""), ("LC_CTYPE", "C.UTF-8"), ("LANG", "C")]));
    }

    #[test]
    fn colours_depend_on_the_terminal_and_the_environment() {
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
