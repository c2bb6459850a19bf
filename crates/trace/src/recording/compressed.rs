// SPDX-License-Identifier: GPL-2.0-only
//! Decompresses files, and compressed parts of files.

use super::damage::Damage;
use super::input::{Input, MAX_PART, Span};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};

/// Maximum size of a decompressed file.
const MAX_BYTES: u64 = 16 << 30;

/// The last block of a zstd frame, without content.
pub const LAST_BLOCK: [u8; 3] = [1, 0, 0];

/// How a part is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    None,
    Gzip,
    Zlib,
    Zstd,
}

/// Returns how the file is compressed that begins with these bytes.
pub fn method(bytes: &[u8]) -> Method {
    match bytes {
        [0x1f, 0x8b, ..] => Method::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Method::Zstd,
        _ => Method::None,
    }
}

/// Returns a reader of the decompressed bytes.
///
/// # Errors
/// The compressed bytes do not begin as they should.
pub fn reader<'a>(method: Method, packed: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let packed = BufReader::new(packed);
    Ok(match method {
        Method::None => Box::new(packed),
        Method::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
        Method::Zlib => Box::new(flate2::bufread::ZlibDecoder::new(packed)),
        Method::Zstd => Box::new(Frames { packed, frame: None }),
    })
}

/// Decompresses a part whose decompressed size is known.
///
/// # Errors
/// Fails if the part is damaged or has another size.
pub fn decompress(method: Method, packed: &[u8], size: u64) -> Result<Vec<u8>, Damage> {
    if size > MAX_PART {
        return Err(Damage::LargePart(size));
    }
    let mut bytes = Vec::new();
    let read = reader(method, packed).and_then(|reader| reader.take(size).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 == size => Ok(bytes),
        Ok(_) => Err(format!("a compressed part has {} bytes instead of {size}", bytes.len()).into()),
        Err(error) => Err(format!("a compressed part is damaged: {error}").into()),
    }
}

/// Decompresses a file into a temporary file without a name.
///
/// # Errors
/// Fails if the file is damaged or too large, or the temporary file cannot be written.
pub fn spool(method: Method, packed: &dyn Input) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    let mut reader = reader(method, Span::whole(packed))?.take(MAX_BYTES);
    let written = io::copy(&mut reader, &mut file)?;
    if written == MAX_BYTES {
        let message = format!("it has more than {MAX_BYTES} bytes after decompression");
        return Err(io::Error::other(message));
    }
    file.flush()?;
    Ok(file)
}

/// Reads the frames of a zstd file, one after the other.
pub struct Frames<R: Read> {
    packed: R,
    frame: Option<Box<ruzstd::decoding::FrameDecoder>>,
}

impl<R: io::BufRead> Read for Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
        let damaged = |error: &dyn std::fmt::Display| io::Error::other(format!("zstd: {error}"));
        loop {
            let mut decoder = match self.frame.take() {
                Some(decoder) => decoder,
                // A frame that has ended needs no last block.
                None if matches!(self.packed.fill_buf()?, [] | [1, 0, 0]) => return Ok(0),
                None => {
                    let mut decoder = Box::new(FrameDecoder::new());
                    decoder.init(&mut self.packed).map_err(|error| damaged(&error))?;
                    decoder
                }
            };
            if decoder.can_collect() == 0 && !decoder.is_finished() {
                let strategy = BlockDecodingStrategy::UptoBytes(into.len());
                let decoded = decoder.decode_blocks(&mut self.packed, strategy);
                decoded.map_err(|error| damaged(&error))?;
            }
            let read = decoder.read(into)?;
            let ended = decoder.is_finished() && decoder.can_collect() == 0;
            if !ended {
                self.frame = Some(decoder);
            }
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
        }
    }
}
