// SPDX-License-Identifier: GPL-2.0-only
//! Reads the text of a recording, line by line.

use super::builder::Builder;
use super::line::{self, Parsed};
use super::names::Lines;
use super::{Recording, RecordingError};
use std::io::{BufRead, Read};

const FORMAT_HINT: &str =
    "use the output of 'perf script' or 'trace-cmd report' for events that were recorded on all CPUs (-a)";
/// Maximum length of a line. Real lines are far shorter.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// The part of an HTML page of systrace that is being read. Such a page contains ftrace text in a
/// script.
#[derive(PartialEq)]
enum Page {
    /// The text is no HTML page.
    None,
    Outside,
    Trace,
}

impl Page {
    /// Returns whether a line is part of the trace.
    fn has(&mut self, number: u32, line: &str) -> bool {
        let begin = line.trim_start();
        if number == 1
            && begin
                .get(..9)
                .is_some_and(|begin| begin.eq_ignore_ascii_case("<!doctype"))
        {
            *self = Page::Outside;
        }
        match self {
            Page::Outside if line.contains("# tracer:") => *self = Page::Trace,
            Page::Trace if line.contains("</script>") => *self = Page::Outside,
            _ => {}
        }
        *self != Page::Outside
    }
}

/// Reads the text of a recording line by line. Bytes that are not UTF-8, for example of a name that
/// the kernel cut off, become U+FFFD. A copy of a text can end inside a line, which then counts as
/// a lost event.
pub(super) fn read_text(mut text: impl BufRead) -> Result<Recording, RecordingError> {
    let mut lines = Lines::default();
    let mut bytes = Vec::new();
    let mut number = 0;
    let mut page = Page::None;
    loop {
        number += 1;
        let error = |message| RecordingError {
            line: number,
            message,
            hint: FORMAT_HINT.into(),
        };
        bytes.clear();
        let read = text.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes);
        if read.map_err(|why| error(why.to_string()))? == 0 {
            break;
        }
        if bytes.len() as u64 == MAX_LINE_BYTES {
            return Err(error(format!("the line has more than {MAX_LINE_BYTES} bytes")));
        }
        let text = String::from_utf8_lossy(&bytes);
        if !page.has(number, &text) {
            continue;
        }
        // In old pages of systrace, each line is a part of a JavaScript string.
        let text = text.strip_suffix("\\n\\\n").unwrap_or(&text);
        match line::parse(text) {
            Ok(Parsed::Event(line)) => lines.add(&line),
            Ok(Parsed::Lost(lost)) => lines.add_gap(lost),
            Ok(Parsed::NrCpus(nr_cpus)) => lines.nr_cpus = nr_cpus,
            Ok(Parsed::Nothing) => {}
            Err(_) if !bytes.ends_with(b"\n") && !lines.lines.is_empty() => lines.lost += 1,
            Err(why) => return Err(error(why.to_string())),
        }
    }
    Builder::default().build(lines)
}
