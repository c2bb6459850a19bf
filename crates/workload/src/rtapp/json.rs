// SPDX-License-Identifier: GPL-2.0-only
//! Parser for JSON as it occurs in rt-app's files. All values have positions.
//!
//! In addition to the standard, it accepts everything that json-c (rt-app's parser) and workgen
//! (its preprocessor) accept: comments (`/* */` and `//`), a comma before a closing bracket,
//! strings in single quotes, keywords in any case, leading zeros, repeated keys (all values are
//! kept in order), and keys without a value. In contrast to json-c, it refuses text after the end,
//! line breaks in strings, NaN and infinities.

use input::{Error, Position};

/// Maximum nesting, the same as json-c's.
const MAX_DEPTH: usize = 32;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A key without a value.
    Missing,
    Null,
    Bool(bool),
    Int(i64),
    /// A number with a fraction or exponent. rt-app does not use such numbers, but messages show
    /// them.
    Float(String),
    String(String),
    Array(Vec<Node>),
    Object(Vec<Member>),
}

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub at: Position,
    pub value: Value,
}

/// A key, its value and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub at: Position,
    pub key: String,
    pub node: Node,
}

impl Value {
    /// Returns the type of the value for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Missing => "nothing",
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number with a fraction or exponent",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        }
    }
}

/// Parses a text that consists of one value.
///
/// # Errors
/// Returns what was expected, with the position in `file`.
pub fn parse(text: &str, file: &str) -> Result<Node, Error> {
    let mut reader = Reader {
        rest: text.strip_prefix('\u{feff}').unwrap_or(text),
        at: Position { line: 1, column: 1 },
        file,
    };
    let node = reader.value(0)?;
    reader.space()?;
    match reader.rest.chars().next() {
        None => Ok(node),
        Some(c) => Err(reader
            .error(format!("{c:?} after the end of the description"))
            .hint("remove the text, or a closing bracket before it")),
    }
}

struct Reader<'a> {
    rest: &'a str,
    at: Position,
    file: &'a str,
}

impl Reader<'_> {
    fn error(&self, message: impl std::fmt::Display) -> Error {
        Error::at(self.file, message).position(self.at)
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        if c == '\n' {
            self.at.line += 1;
            self.at.column = 1;
        } else {
            self.at.column += 1;
        }
        Some(c)
    }

    /// Skips white space and comments.
    fn space(&mut self) -> Result<(), Error> {
        loop {
            if self.rest.starts_with("//") {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.next();
                }
            } else if self.rest.starts_with("/*") {
                let unended = self.error("a comment has no end").hint("end it with */");
                self.next();
                self.next();
                while !self.rest.starts_with("*/") {
                    self.next().ok_or_else(|| unended.clone())?;
                }
                self.next();
                self.next();
            } else if self.peek().is_some_and(|c| c.is_ascii_whitespace()) {
                self.next();
            } else {
                return Ok(());
            }
        }
    }

    fn unexpected(&self, expected: &str) -> Error {
        match self.peek() {
            Some(c) => self.error(format!("expected {expected}, found {c:?}")),
            None => self.error(format!("expected {expected}, found the end of the file")),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Error> {
        self.space()?;
        let at = self.at;
        if depth >= MAX_DEPTH {
            return Err(self.error(format!("more than {MAX_DEPTH} levels of brackets")));
        }
        let value = match self.peek() {
            Some('{') => self.object(depth)?,
            Some('[') => self.array(depth)?,
            Some('"' | '\'') => Value::String(self.string()?),
            Some('-' | '0'..='9') => self.number()?,
            Some(c) if c.is_ascii_alphabetic() => self.keyword()?,
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Node { at, value })
    }

    fn object(&mut self, depth: usize) -> Result<Value, Error> {
        let mut members = Vec::new();
        self.next();
        loop {
            self.space()?;
            let at = self.at;
            match self.peek() {
                Some('}') => break,
                Some('"' | '\'') => {}
                _ => return Err(self.unexpected("a key in quotes or '}'")),
            }
            let key = self.string()?;
            self.space()?;
            let node = match self.peek() {
                Some(':') => {
                    self.next();
                    self.value(depth + 1)?
                }
                Some(',' | '}') => Node {
                    at: self.at,
                    value: Value::Missing,
                },
                _ => return Err(self.unexpected(&format!("':' after \"{key}\""))),
            };
            members.push(Member { at, key, node });
            self.space()?;
            match self.peek() {
                Some(',') => self.next(),
                Some('}') => break,
                _ => return Err(self.unexpected("',' or '}'")),
            };
        }
        self.next();
        Ok(Value::Object(members))
    }

    fn array(&mut self, depth: usize) -> Result<Value, Error> {
        let mut items = Vec::new();
        self.next();
        loop {
            self.space()?;
            if self.peek() == Some(']') {
                break;
            }
            items.push(self.value(depth + 1)?);
            self.space()?;
            match self.peek() {
                Some(',') => self.next(),
                Some(']') => break,
                _ => return Err(self.unexpected("',' or ']'")),
            };
        }
        self.next();
        Ok(Value::Array(items))
    }

    fn string(&mut self) -> Result<String, Error> {
        let unended = self.error("a string has no end").hint("close it on the same line");
        let quote = self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return Err(unended),
                c if c == quote => return Ok(text),
                Some('\\') => text.push(self.escape()?),
                Some(c) => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Error> {
        let wrong = self
            .error("the escape sequence is unknown")
            .hint("use one of \\\" \\' \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
        Ok(match self.next() {
            Some(c @ ('"' | '\'' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                let high = self.hex4().ok_or_else(|| wrong.clone())?;
                let code = if (0xd800..0xdc00).contains(&high) {
                    // A surrogate pair encodes one character.
                    let follows = self.next() == Some('\\') && self.next() == Some('u');
                    let low = self.hex4().filter(|low| follows && (0xdc00..0xe000).contains(low));
                    0x10000 + ((high - 0xd800) << 10) + (low.ok_or_else(|| wrong.clone())? - 0xdc00)
                } else {
                    high
                };
                char::from_u32(code).ok_or(wrong)?
            }
            _ => return Err(wrong),
        })
    }

    fn hex4(&mut self) -> Option<u32> {
        let mut code = 0;
        for _ in 0..4 {
            code = code * 16 + self.peek()?.to_digit(16)?;
            self.next();
        }
        Some(code)
    }

    fn number(&mut self) -> Result<Value, Error> {
        let begin = self.error("");
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '_');
        let mut text = String::new();
        while let Some(c) = self.peek().filter(|&c| is_part(c)) {
            text.push(c);
            self.next();
        }
        let digits = text.strip_prefix('-').unwrap_or(&text);
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            return text.parse().map(Value::Int).map_err(|_| Error {
                message: format!("{text} is too large"),
                ..begin
            });
        }
        let plain = digits.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
        if plain && text.parse::<f64>().is_ok() {
            return Ok(Value::Float(text));
        }
        Err(Error {
            message: format!("'{text}' is not a number"),
            hint: Some("use a decimal number without a unit".into()),
            ..begin
        })
    }

    fn keyword(&mut self) -> Result<Value, Error> {
        let begin = self.error("");
        let mut word = String::new();
        while let Some(c) = self.peek().filter(|&c| c.is_alphanumeric() || c == '_') {
            word.push(c);
            self.next();
        }
        match word.to_ascii_lowercase().as_str() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            "null" => Ok(Value::Null),
            _ => Err(Error {
                message: format!("'{word}' is not a value"),
                hint: Some("put strings in quotes, or use true, false or null".into()),
                ..begin
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Vec<(String, Value)> {
        match parse(text, "x.json").unwrap().value {
            Value::Object(members) => members.into_iter().map(|m| (m.key, m.node.value)).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn extensions_of_json_c_and_workgen_are_accepted() {
        let text = "{ /* a\n * b */ 'run' : 010, // c\n \"run\": 20, \"suspend\", \"ok\" : TRUE,\n \"cpus\": [1,2,], }";
        let members = object(text);
        let keys: Vec<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["run", "run", "suspend", "ok", "cpus"]);
        assert_eq!(members[0].1, Value::Int(10));
        assert_eq!(members[1].1, Value::Int(20));
        assert_eq!(members[2].1, Value::Missing);
        assert_eq!(members[3].1, Value::Bool(true));
        assert_eq!(
            object(r#"{"a":"\u00e4\ud83d\ude00\n\/"}"#)[0].1,
            Value::String("ä😀\n/".into())
        );
        assert_eq!(object(r#"{"a":-1.5e3}"#)[0].1, Value::Float("-1.5e3".into()));
    }

    #[test]
    fn errors_contain_the_position() {
        let message = |text| parse(text, "x.json").unwrap_err().to_string();
        assert_eq!(
            message("{\n \"a\" 1}"),
            "x.json:2:6: expected ':' after \"a\", found '1'"
        );
        assert_eq!(
            message("{\"a\": 1"),
            "x.json:1:8: expected ',' or '}', found the end of the file"
        );
        for (text, line, column) in [
            ("", 1, 1),
            ("{} }", 1, 4),
            ("[1\n2]", 2, 1),
            ("{\"a\": 0x10}", 1, 7),
            ("{\"a\": 99999999999999999999}", 1, 7),
            ("{\"a\": maybe}", 1, 7),
            ("{\"a\": \"b\n\"}", 1, 7),
            ("{\"a\": \"\\q\"}", 1, 9),
            ("{\"a\": \"\\ud800x\"}", 1, 9),
            ("/* {}", 1, 1),
            (&"[".repeat(100), 1, 33),
        ] {
            let error = parse(text, "x.json").unwrap_err();
            assert_eq!(error.position, Some(Position { line, column }), "{text}: {error}");
        }
    }
}
