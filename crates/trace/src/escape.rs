// SPDX-License-Identifier: GPL-2.0-only
//! Escaping of names and messages for terminals, line-based formats and JSON.
//!
//! Task names, file names and a policy's messages come from objects, workloads and recordings that
//! nobody has checked. They may contain control characters, which a terminal executes: they clear
//! the screen, change the window title or enter input as if the user had typed it. Bidirectional
//! controls display text in another order. After a newline, text can look like another line of a
//! table, or like an event in an ftrace file.
//!
//! All other modules rely on this one to replace such characters. Escaping a text twice has the
//! same result as escaping it once.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns whether a character controls a terminal instead of being displayed: C0, DEL, C1, line
/// separators and bidirectional controls.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the text, in which `write` has replaced each character for which `is_replaced` is true.
fn replace(text: &str, is_replaced: impl Fn(char) -> bool, write: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.chars().any(&is_replaced) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_replaced(c) {
            true => write(&mut out, c),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn write_escape(out: &mut String, c: char) {
    // Writing to a String cannot fail.
    let _ = match c {
        '\n' => write!(out, "\\n"),
        '\r' => write!(out, "\\r"),
        '\t' => write!(out, "\\t"),
        c if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)),
        c => write!(out, "\\u{{{:x}}}", u32::from(c)),
    };
}

/// Escapes a name, or any other part of a line. Newlines and tabs are escaped, too.
pub fn line(text: &str) -> Cow<'_, str> {
    replace(text, is_control, write_escape)
}

/// Escapes a text of several lines. Newlines and tabs are kept.
pub fn text(text: &str) -> Cow<'_, str> {
    replace(text, |c| is_control(c) && c != '\n' && c != '\t', write_escape)
}

/// Escapes control characters inside JSON as `\uXXXX`. The JSON value does not change.
pub fn json(text: &str) -> Cow<'_, str> {
    let is_replaced = |c| is_control(c) && c != '\n' && c != '\t';
    replace(text, is_replaced, |out, c| {
        let _ = write!(out, "\\u{:04x}", u32::from(c));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text that would clear the screen in two ways, ring the bell, reverse the text direction
    /// and add a line.
    const HOSTILE: &str = "a\x1b[2Jb\u{9b}2Jc\x07d\x7fe\u{202e}f\u{2066}g\nh\ti\rj";

    #[test]
    fn no_terminal_control_is_left_unescaped() {
        let line = line(HOSTILE);
        assert_eq!(line, r"a\x1b[2Jb\u{9b}2Jc\x07d\x7fe\u{202e}f\u{2066}g\nh\ti\rj");
        let text = text(HOSTILE);
        assert_eq!(text, line.replace(r"\n", "\n").replace(r"\t", "\t"));
        for c in (0..=0x2fff).filter_map(char::from_u32).filter(|&c| is_control(c)) {
            assert!(super::line(&c.to_string()).starts_with('\\'), "{c:?}");
        }
    }

    #[test]
    fn plain_text_is_borrowed_and_escaping_is_idempotent() {
        for plain in ["kworker/3:1-mm", "größe ✓", r"back\slash", ""] {
            assert!(matches!(line(plain), Cow::Borrowed(same) if same == plain));
        }
        assert_eq!(line(&line(HOSTILE)), line(HOSTILE));
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::Value::from(HOSTILE);
        let plain = serde_json::to_string_pretty(&value).expect("the value can be written as JSON");
        let escaped = json(&plain);
        assert!(
            plain.contains('\u{9b}') && !escaped.chars().any(is_control),
            "{escaped}"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&escaped).expect("the text is valid JSON"),
            value
        );
    }
}
