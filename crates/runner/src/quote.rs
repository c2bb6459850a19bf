// SPDX-License-Identifier: GPL-2.0-only
//! Quotes words of command lines. windtunnel prints such command lines so that the user can copy
//! them into a shell.

use input::Error;
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

/// Splits a command line into words, as a shell does: quotes keep spaces, and a backslash keeps the
/// next character. There are no variables and no patterns.
///
/// # Errors
/// A quote is not closed.
pub fn split(line: &str) -> Result<Vec<String>, Error> {
    let mut words: Vec<String> = Vec::new();
    let (mut inside, mut quote) = (false, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, c) if c.is_whitespace() => {
                inside = false;
                continue;
            }
            _ if !inside => {
                words.push(String::new());
                inside = true;
            }
            _ => {}
        }
        let word = words.last_mut().expect("the word has begun");
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None | Some('"'), '\\') => word.extend(chars.next()),
            _ => word.push(c),
        }
    }
    match quote {
        Some(open) => Err(Error::new(format!("the quote {open} is not closed"))),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_is_one_word() {
        let words = |line: &str| split(line).expect("the quotes are closed");
        assert_eq!(
            words(" a  'b c' \"d 'e\" f\\ g h\"i\"j "),
            ["a", "b c", "d 'e", "f g", "hij"]
        );
        assert_eq!(words("''"), [""]);
        assert!(split("a 'b").is_err());
        let line = ["./x", "it's", "a b"].map(quote).join(" ");
        assert_eq!(words(&line), ["./x", "it's", "a b"]);
    }
}
