// SPDX-License-Identifier: GPL-2.0-only
//! Divides the metadata of a CTF trace into tokens, and reads them one after the other.

use super::Type;
use crate::recording::damage::Damage;
use std::collections::BTreeMap;
use std::rc::Rc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A name, number or keyword.
    Word(String),
    Text(String),
    Sign(char),
    /// `:=`
    Assign,
    /// `...`
    Dots,
}

/// Returns the tokens of a text, each with its line.
fn tokens(text: &str) -> Result<Vec<(Token, u32)>, Damage> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut used = first.len_utf8();
        let token = if first == '\n' {
            line += 1;
            None
        } else if first.is_whitespace() {
            None
        } else if rest.starts_with("/*") {
            used = rest.find("*/").map_or(rest.len(), |end| end + 2);
            line += u32::try_from(rest[..used].matches('\n').count()).unwrap_or(0);
            None
        } else if rest.starts_with("//") {
            used = rest.find('\n').unwrap_or(rest.len());
            None
        } else if first == '"' {
            let (text, length) = quoted(&rest[1..]).ok_or_else(|| Damage::Grammar {
                line,
                expected: "'\"'".into(),
                found: "the end".into(),
            })?;
            used = length + 1;
            Some(Token::Text(text))
        } else if rest.starts_with(":=") {
            used = 2;
            Some(Token::Assign)
        } else if rest.starts_with("...") {
            used = 3;
            Some(Token::Dots)
        } else if is_word(first) || first == '-' || first == '+' {
            let end = rest[1..].find(|c| !is_word(c)).map_or(rest.len(), |end| end + 1);
            used = end;
            Some(Token::Word(rest[..end].to_owned()))
        } else {
            Some(Token::Sign(first))
        };
        tokens.extend(token.map(|token| (token, line)));
        rest = &rest[used..];
    }
    Ok(tokens)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns a text up to its quotation mark, and the length with this mark.
fn quoted(text: &str) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, at + 1)),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                other => value.push(other),
            },
            c => value.push(c),
        }
    }
    None
}

/// Parses a decimal, octal or hexadecimal number.
pub fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.trim_end_matches(['u', 'U', 'l', 'L']);
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8).ok()?,
        None => digits.parse().ok()?,
    };
    // The labels of an enumeration of 64 bits use all values.
    let value = value.cast_signed();
    Some(if negative { value.wrapping_neg() } else { value })
}

/// Reads the tokens of the metadata one after the other, and knows the types that they define.
pub struct Parser {
    pub tokens: Vec<(Token, u32)>,
    pub at: usize,
    pub types: BTreeMap<String, Rc<Type>>,
    pub depth: u32,
}

impl Parser {
    /// # Errors
    /// A text has no quotation mark at its end.
    pub fn new(text: &str) -> Result<Parser, Damage> {
        Ok(Parser {
            tokens: tokens(text)?,
            at: 0,
            types: BTreeMap::new(),
            depth: 0,
        })
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.tokens.len()
    }

    pub fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    pub fn next(&mut self) -> Result<Token, Damage> {
        let token = self.peek().cloned().ok_or("the metadata end inside a declaration")?;
        self.at += 1;
        Ok(token)
    }

    pub fn error(&self, expected: &str) -> Damage {
        let last = self.tokens.get(self.at.saturating_sub(1));
        let line = last.map_or(0, |(_, line)| *line);
        let found = match last.map(|(token, _)| token) {
            Some(Token::Word(text) | Token::Text(text)) => format!("'{text}'"),
            Some(Token::Sign(sign)) => format!("'{sign}'"),
            Some(Token::Assign) => "':='".into(),
            Some(Token::Dots) => "'...'".into(),
            None => "the end".into(),
        };
        Damage::Grammar {
            line,
            expected: expected.to_owned(),
            found,
        }
    }

    pub fn is_sign(&self, sign: char) -> bool {
        self.peek() == Some(&Token::Sign(sign))
    }

    pub fn take_sign(&mut self, sign: char) -> bool {
        let is = self.is_sign(sign);
        self.at += usize::from(is);
        is
    }

    pub fn expect(&mut self, sign: char) -> Result<(), Damage> {
        match self.next()? == Token::Sign(sign) {
            true => Ok(()),
            false => Err(self.error(&format!("'{sign}'"))),
        }
    }

    pub fn word(&mut self) -> Result<String, Damage> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            _ => Err(self.error("a name")),
        }
    }
}
