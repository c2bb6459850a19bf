// SPDX-License-Identifier: GPL-2.0-only
//! The conversions of a format, such as `%5d`: parses them and prints their arguments.

use crate::errno::long::{EINVAL, ENOSPC};
use crate::helper::read::string;
use crate::memory::{Bytes, Region};

/// Maximum size of all arguments together in bytes, including the text of strings
/// (MAX_BPRINTF_BIN_ARGS).
pub(super) const MAX_BIN_ARGS: usize = 512;

/// An output buffer with a limit. Bytes beyond the limit are counted but not stored. Even a field
/// width of eight million therefore uses no memory.
pub(super) struct Out {
    pub(super) bytes: Vec<u8>,
    pub(super) room: usize,
    pub(super) len: usize,
}

impl Out {
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        let left = self.room - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(left)]);
        self.len += bytes.len();
    }

    fn fill(&mut self, byte: u8, count: usize) {
        let left = self.room - self.bytes.len();
        self.bytes.extend(std::iter::repeat_n(byte, count.min(left)));
        self.len += count;
    }
}

/// A conversion of a format, such as `%5d`.
#[derive(Default)]
pub(super) struct Spec {
    left: bool,
    zeros: bool,
    plus: bool,
    blank: bool,
    width: usize,
    kind: Conversion,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Conversion {
    #[default]
    Char,
    String,
    /// A pointer. `symbol` marks `%ps` and its variants, which print the name of a symbol in the
    /// kernel. Here they print the address, because there are no symbols.
    Pointer {
        symbol: bool,
    },
    /// An IP address of 4 or 16 bytes. `usual` marks `%pI`, which prints the usual separators.
    Ip {
        bytes: u64,
        usual: bool,
    },
    Integer {
        long: bool,
        conversion: u8,
    },
}

/// Returns whether a conversion may end where the text `rest` follows. It may not end before a
/// letter or a digit, because it would then be the start of a longer conversion.
fn may_end(rest: &[u8]) -> bool {
    let is_blank = |c: &u8| matches!(*c, b'\t'..=b'\r' | b' ' | 0xa0);
    rest.first().is_none_or(|c| is_blank(c) || c.is_ascii_punctuation())
}

impl Spec {
    /// Parses a conversion after its `%`. Returns the conversion and the rest of the format.
    pub(super) fn parse(mut rest: &[u8]) -> Result<(Spec, &[u8]), i64> {
        let mut spec = Spec::default();
        while let [flag @ (b'0' | b'+' | b'-' | b' '), next @ ..] = rest {
            match flag {
                b'0' => spec.zeros = true,
                b'+' => spec.plus = true,
                b'-' => spec.left = true,
                _ => spec.blank = true,
            }
            rest = next;
        }
        while let [digit @ b'0'..=b'9', next @ ..] = rest {
            // FIELD_WIDTH_MAX
            spec.width = (spec.width * 10 + usize::from(digit - b'0')).min((1 << 23) - 1);
            rest = next;
        }
        (spec.kind, rest) = match rest {
            [b'p', b'k' | b'u', b's', next @ ..] | [b's', next @ ..] if may_end(next) => (Conversion::String, next),
            [b'p', next @ ..] if may_end(next) => (Conversion::Pointer { symbol: false }, next),
            [b'p', b'K' | b'x', next @ ..] => (Conversion::Pointer { symbol: false }, next),
            [b'p', b's' | b'S' | b'B', next @ ..] => (Conversion::Pointer { symbol: true }, next),
            [b'p', i @ (b'i' | b'I'), n @ (b'4' | b'6'), next @ ..] => {
                let (bytes, usual) = (if *n == b'4' { 4 } else { 16 }, *i == b'I');
                (Conversion::Ip { bytes, usual }, next)
            }
            [b'c', next @ ..] => (Conversion::Char, next),
            rest => {
                let number = rest.strip_prefix(b"l").unwrap_or(rest);
                let long = number.len() < rest.len();
                let number = number.strip_prefix(b"l").filter(|_| long).unwrap_or(number);
                match number {
                    [conversion @ (b'i' | b'd' | b'u' | b'x' | b'X'), next @ ..] => {
                        let conversion = *conversion;
                        (Conversion::Integer { long, conversion }, next)
                    }
                    _ => return Err(EINVAL),
                }
            }
        };
        Ok((spec, rest))
    }

    /// Prints an argument. `taken` is the number of bytes that the arguments before this one use.
    /// The function adds the bytes of this argument.
    pub(super) fn print(&self, region: &Region, arg: u64, taken: &mut usize, out: &mut Out) -> Result<(), i64> {
        let mut take = |align: usize, bytes: usize| {
            *taken = taken.next_multiple_of(align) + bytes;
            if *taken <= MAX_BIN_ARGS { Ok(()) } else { Err(ENOSPC) }
        };
        match self.kind {
            Conversion::Char => {
                take(1, 1)?;
                self.pad(&[arg as u8], out);
            }
            Conversion::String => {
                let room = MAX_BIN_ARGS.saturating_sub(*taken);
                let room = room.checked_sub(1).ok_or(ENOSPC)?;
                let text = string(region, arg, room as u64).map_or(Vec::new(), |(text, _)| text);
                *taken += text.len() + 1;
                self.pad(&text, out);
            }
            Conversion::Pointer { symbol: true } => {
                take(4, 8)?;
                self.pad(format!("{arg:#x}").as_bytes(), out);
            }
            Conversion::Pointer { symbol: false } => {
                take(4, 8)?;
                let digits = if self.width == 0 { 16 } else { 0 };
                self.number("", &format!("{arg:0digits$x}"), out);
            }
            Conversion::Ip { bytes, usual } => {
                let text = ip(
                    &region.bytes(arg, bytes).unwrap_or(Bytes::from_elem(0, bytes as usize)),
                    usual,
                );
                take(1, text.len() + 1)?;
                self.pad(text.as_bytes(), out);
            }
            Conversion::Integer { long, conversion } => {
                take(4, if long { 8 } else { 4 })?;
                let unsigned = if long { arg } else { u64::from(arg as u32) };
                let signed = if long { arg as i64 } else { i64::from(arg as i32) };
                match conversion {
                    b'x' => self.number("", &format!("{unsigned:x}"), out),
                    b'X' => self.number("", &format!("{unsigned:X}"), out),
                    b'u' => self.number("", &unsigned.to_string(), out),
                    _ => {
                        let sign = match signed {
                            ..0 => "-",
                            _ if self.plus => "+",
                            _ if self.blank => " ",
                            _ => "",
                        };
                        self.number(sign, &signed.unsigned_abs().to_string(), out);
                    }
                }
            }
        }
        Ok(())
    }

    fn number(&self, sign: &str, digits: &str, out: &mut Out) {
        let missing = self.width.saturating_sub(sign.len() + digits.len());
        let (blanks, zeros) = match self.zeros {
            true => (0, missing),
            false => (missing, 0),
        };
        match self.left {
            true => {
                out.extend(sign.as_bytes());
                out.extend(digits.as_bytes());
                out.fill(b' ', missing);
            }
            false => {
                out.fill(b' ', blanks);
                out.extend(sign.as_bytes());
                out.fill(b'0', zeros);
                out.extend(digits.as_bytes());
            }
        }
    }

    fn pad(&self, text: &[u8], out: &mut Out) {
        let missing = self.width.saturating_sub(text.len());
        if !self.left {
            out.fill(b' ', missing);
        }
        out.extend(text);
        if self.left {
            out.fill(b' ', missing);
        }
    }
}

/// Formats an IPv4 or IPv6 address: as `%pI` does if `usual` is set, otherwise as `%pi` does.
fn ip(bytes: &[u8], usual: bool) -> String {
    let parts: Vec<String> = match (bytes.len(), usual) {
        (4, true) => bytes.iter().map(u8::to_string).collect(),
        (4, false) => bytes.iter().map(|byte| format!("{byte:03}")).collect(),
        _ => bytes
            .chunks(2)
            .map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]))
            .collect(),
    };
    parts.join(match (bytes.len(), usual) {
        (4, _) => ".",
        (_, true) => ":",
        (_, false) => "",
    })
}
