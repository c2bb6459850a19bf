// SPDX-License-Identifier: GPL-2.0-only
//! The binary encoding of records. It is exact, compact and the same on every host.
//!
//! An encoded record consists of the items in the list below. A varint is a number in LEB128, which
//! takes few bytes if the number is small.
//!
//! - One byte with the tag (low 5 bits) and the flag. The tag is the number of the event's kind.
//! - The difference between the times of this record and the record before it (zigzag varint,
//!   because it may be negative).
//! - The CPU (varint).
//! - The difference between the CPU's local time and the record's time (varint).
//! - The numbers of the event (varints), and its text (length as a varint, then UTF-8). The tag
//!   determines which numbers exist, and whether there is a text.
//!
//! A Switch takes about 9 bytes.

use crate::canonical::{Form, LAYOUT};
use crate::event::Record;

/// Version of the encoding and of the file format. A reader refuses all other versions.
pub const VERSION: u32 = 3;

/// Reason why bytes cannot be decoded as a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Index of the first byte of the item that is wrong.
    pub at: usize,
    pub problem: &'static str,
}

/// Appends records to a buffer. Each record's time is stored relative to the time of the record
/// before.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    time: u64,
}

impl Encoder {
    /// Returns an encoder that stores the time of the first record relative to 0.
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// Appends a record to `out`.
    pub fn put(&mut self, record: &Record, out: &mut Vec<u8>) {
        let form = Form::from_event(&record.event);
        out.push(form.tag | form.flag << 5);
        let delta = record.time.wrapping_sub(self.time).cast_signed();
        self.time = record.time;
        put_varint((delta << 1 ^ delta >> 63).cast_unsigned(), out);
        put_varint(u64::from(record.cpu), out);
        put_varint(u64::from(record.after), out);
        for &word in LAYOUT[form.tag as usize].0 {
            put_varint(form.words[word], out);
        }
        if let Some(text) = form.text {
            put_text(text, out);
        }
    }
}

/// Decodes the bytes that an [`Encoder`] produced.
pub struct Decoder<'a> {
    bytes: Bytes<'a>,
    time: u64,
}

impl<'a> Decoder<'a> {
    /// Returns a decoder of `bytes` that starts at index `at`. The time of the first record is
    /// stored relative to `time`.
    pub fn new(bytes: &'a [u8], at: usize, time: u64) -> Decoder<'a> {
        Decoder {
            bytes: Bytes { bytes, at },
            time,
        }
    }

    /// Returns the index of the next byte to decode.
    pub fn at(&self) -> usize {
        self.bytes.at
    }

    /// Returns the time of the last decoded record.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Decodes the next record. Returns `None` at the end of the bytes.
    pub fn get(&mut self) -> Result<Option<Record>, DecodeError> {
        let start = self.bytes.at;
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let head = self.bytes.byte()?;
        let (tag, flag) = (head & 31, head >> 5);
        let Some(&(layout, has_text)) = LAYOUT.get(usize::from(tag)) else {
            return Err(DecodeError {
                at: start,
                problem: "an unknown kind of event",
            });
        };
        let zigzag = self.bytes.varint()?;
        let delta = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
        let time = self.time.wrapping_add_signed(delta);
        let cpu = self.bytes.u32()?;
        let after = self.bytes.u32()?;
        let mut words = [0; 4];
        for &word in layout {
            words[word] = self.bytes.varint()?;
        }
        let text = if has_text { Some(self.bytes.text()?) } else { None };
        let event = Form { tag, flag, words, text }
            .event()
            .map_err(|problem| DecodeError { at: start, problem })?;
        self.time = time;
        Ok(Some(Record {
            time,
            cpu,
            after,
            event,
        }))
    }
}

/// A cursor over bytes. Reading past the end is an error.
pub(crate) struct Bytes<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Bytes<'a> {
    pub fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.bytes.get(self.at).ok_or(DecodeError {
            at: self.at,
            problem: "the data ends within an item",
        })?;
        self.at += 1;
        Ok(byte)
    }

    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let start = self.at;
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError {
            at: start,
            problem: "a number has more than 64 bits",
        })
    }

    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        let at = self.at;
        u32::try_from(self.varint()?).map_err(|_| DecodeError {
            at,
            problem: "a number has more than 32 bits",
        })
    }

    pub fn text(&mut self) -> Result<&'a str, DecodeError> {
        let at = self.at;
        let len = self.varint()?;
        let rest = &self.bytes[self.at..];
        let text = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        let text = text.ok_or(DecodeError {
            at,
            problem: "a text is longer than the data",
        })?;
        self.at += text.len();
        std::str::from_utf8(text).map_err(|_| DecodeError {
            at,
            problem: "a text is not UTF-8",
        })
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "each byte takes the lowest 7 bits")]
pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_text(text: &str, out: &mut Vec<u8>) {
    put_varint(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::sample_events;
    use crate::event::{Event, TaskState};

    fn decode(bytes: &[u8]) -> Result<Vec<Record>, DecodeError> {
        let mut decoder = Decoder::new(bytes, 0, 0);
        let mut records = Vec::new();
        while let Some(record) = decoder.get()? {
            records.push(record);
        }
        Ok(records)
    }

    #[test]
    fn every_record_is_decoded_unchanged() {
        // The times jump between the ends of their range. The encoding must be exact even if times
        // are not in order.
        let times = [0, 1, u64::MAX, 3, 1 << 63, 0, 127, 128];
        let records: Vec<Record> = sample_events()
            .into_iter()
            .enumerate()
            .map(|(i, event)| Record {
                time: times[i % times.len()],
                cpu: [0, 1, 200, u32::MAX][i % 4],
                after: [0, 1200, u32::MAX][i % 3],
                event,
            })
            .collect();
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new();
        records.iter().for_each(|r| encoder.put(r, &mut bytes));
        assert_eq!(decode(&bytes).unwrap(), records);

        for end in 0..bytes.len() {
            let (Ok(part) | Err((part, _))) = decode(&bytes[..end]).map_err(|e| (Vec::new(), e));
            assert!(part.len() < records.len());
        }
    }

    #[test]
    fn a_switch_is_small() {
        let event = Event::Switch {
            prev: 900,
            prev_state: TaskState::Interruptible,
            next: 901,
        };
        let mut bytes = Vec::new();
        Encoder { time: 1_000_000 }.put(
            &Record {
                time: 1_000_800,
                cpu: 63,
                after: 2_000,
                event,
            },
            &mut bytes,
        );
        assert_eq!(bytes.len(), 10);
    }

    #[test]
    fn errors_name_the_byte() {
        let error = |bytes: &[u8]| decode(bytes).map_err(|e| (e.at, e.problem)).unwrap_err();
        assert_eq!(error(&[31]), (0, "an unknown kind of event"));
        assert_eq!(error(&[2, 0]), (2, "the data ends within an item"));
        assert_eq!(
            error(&[2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f]),
            (0, "a number has more than 32 bits")
        );
        assert_eq!(
            error(&[2, 0, 0xff, 0xff, 0xff, 0xff, 0x7f, 0]),
            (2, "a number has more than 32 bits")
        );
        let too_long = [[9, 0, 0, 0].as_slice(), &[0xff; 9], &[2]].concat();
        assert_eq!(error(&too_long), (4, "a number has more than 64 bits"));
        assert_eq!(error(&[16, 0, 0, 0, 5, b'a']), (4, "a text is longer than the data"));
        assert_eq!(error(&[16, 0, 0, 0, 1, 0xff]), (4, "a text is not UTF-8"));
    }
}
