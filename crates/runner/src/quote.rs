// SPDX-License-Identifier: GPL-2.0-only
//! Quotes words of command lines. windtunnel prints such command lines so that the user can copy
//! them into a shell.

use trace::escape;

/// Quotes a word for a shell. Control characters are written in the form `$'\x1b'`, which bash and
/// zsh decode.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else if escape::line(word) == word {
        format!("'{}'", word.replace('\'', r"'\''"))
    } else {
        let byte = |byte: u8| match byte {
            b'\'' | b'\\' => format!("\\{}", char::from(byte)),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        };
        format!("$'{}'", word.bytes().map(byte).collect::<String>())
    }
}
