// SPDX-License-Identifier: GPL-2.0-only
//! Helpers that print formatted text. They accept the same conversions as the kernel. They reject
//! the formats that the kernel's bpf_bprintf_prepare rejects.

mod conversion;

use super::read::string;
use crate::engine::func::Func;
use crate::engine::world::World;
use crate::errno::long::*;
use crate::fault::Fault;
use crate::memory::Region;
use crate::rows::*;
use conversion::{Out, Spec};

/// Maximum length of a format in bytes.
const FORMAT_MAX: u64 = 4096;
/// Maximum number of arguments of one format (MAX_BPRINTF_VARARGS).
const MAX_ARGS: u32 = 12;
/// Maximum size of a logged line in bytes, including its NUL (MAX_BPRINTF_BUF).
const MAX_LINE: usize = 1024;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    let mut table = crate::helpers! {
        6 "bpf_trace_printk"
        { args: [read(2), V, V, V, V], returns: Number, rules: PLAIN.uses_args(2), native: CALL, run: trace_printk }
        165 "bpf_snprintf"
        { args: [write(2), V, TEXT, read(5), V], returns: Number, rules: PLAIN, native: CALL, run: snprintf }
        177 "bpf_trace_vprintk"
        { args: [read(2), V, read(4), V], returns: Number, rules: PLAIN, native: CALL, run: trace_vprintk }
    };
    table.extend(crate::kfuncs! {
        "int bpf_stream_vprintk(int stream_id, const char *fmt__str, const void *args, u32 len__sz)"
        { releases: V7_0.., contexts: ANY, rules: PLAIN.under_lock(), native: CALL, run: stream_vprintk }
        "int bpf_stream_vprintk_impl(int stream_id, const char *fmt__str, const void *args, u32 len__sz, \
         void *aux__prog)"
        { releases: V6_18..V7_0, contexts: ANY, rules: PLAIN.under_lock(), native: CALL, run: stream_vprintk }
    });
    table
}

/// Returns whether the arguments of a format may lie at this address and have `size` bytes.
pub fn args_fit(args: u64, size: u32) -> bool {
    size.is_multiple_of(8) && size <= MAX_ARGS * 8 && (size == 0 || args != 0)
}

/// Reads `size` bytes of arguments.
///
/// # Errors
/// The arguments cannot be read.
pub fn read_args(region: &Region, args: u64, size: u32) -> Result<Vec<u64>, Fault> {
    (0..u64::from(size / 8))
        .map(|i| region.load(args.wrapping_add(i * 8)))
        .collect()
}

/// Reads the format at an address, up to its NUL.
///
/// # Errors
/// The format cannot be read.
pub fn read_format(region: &Region, format: u64) -> Result<Vec<u8>, Fault> {
    let read = string(region, format, FORMAT_MAX);
    let (format, _) = read.ok_or_else(|| Fault::func(format!("format string at {format:#x} cannot be read")))?;
    Ok(format)
}

/// The result of formatting.
#[derive(Debug, PartialEq, Eq)]
pub struct Text {
    /// The output, truncated to the available space.
    pub bytes: Vec<u8>,
    /// Length of the whole output in bytes.
    pub len: usize,
}

/// Formats the arguments and keeps the first `room` bytes of the output. The caller must charge for
/// the work with [`charge`].
///
/// # Errors
/// EINVAL: the format has an unknown conversion, or more conversions than there are arguments.
/// ENOSPC: the arguments contain too much text.
pub fn bprintf(region: &Region, format: &[u8], args: &[u64], room: usize) -> Result<Text, i64> {
    let mut out = Out {
        bytes: Vec::new(),
        room,
        len: 0,
    };
    let mut args = args.iter().copied();
    let mut taken = 0;
    let mut rest = format;
    while let [c, next @ ..] = rest {
        rest = next;
        match c {
            b'%' if rest.first() == Some(&b'%') => {
                out.extend(b"%");
                rest = &rest[1..];
            }
            b'%' => {
                let arg = args.next().ok_or(EINVAL)?;
                let (spec, after) = Spec::parse(rest)?;
                rest = after;
                spec.print(region, arg, &mut taken, &mut out)?;
            }
            // Control characters that are not white space.
            0..=8 | 0xe..=0x1f | 0x7f => return Err(EINVAL),
            c => out.extend(&[*c]),
        }
    }
    let Out { bytes, len, .. } = out;
    Ok(Text { bytes, len })
}

/// Charges a program for a call of [`bprintf`]. The charge is a fixed number of instructions plus a
/// number that depends on the length of the format and of the output.
///
/// # Errors
/// The budget is used up.
pub fn charge<W: World>(w: &W, format: &[u8], room: usize) -> Result<(), Fault> {
    const CALL: u64 = 200;
    w.vm().charge(CALL + (format.len() + room / 16) as u64)
}

/// Logs a line. Returns the length that the line had before it was truncated.
fn log<W: World>(w: &mut W, printed: Text) -> Result<i64, Fault> {
    let Text { bytes, len } = printed;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    let mut end = text.len().min(MAX_LINE - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    w.log(text.trim_end_matches('\n').to_string())?;
    Ok(len as i64)
}

/// Number of bytes of a line that are kept. They are 3 more than the logged length, so that the
/// last UTF-8 character that begins within the logged length is complete.
const LINE_ROOM: usize = MAX_LINE + 3;

/// Formats `len` bytes of arguments with a format that has `size` bytes, including its NUL.
///
/// # Errors
/// Those of [`bprintf`]. Also EINVAL if a size is invalid or the format contains no NUL.
pub(super) fn sized<W: World>(
    w: &W,
    format: u64,
    size: u32,
    args: u64,
    len: u32,
    room: usize,
) -> Result<Result<Text, i64>, Fault> {
    w.vm().charge_bytes(size.into())?;
    let format = w.region().bytes(format, size.into())?;
    if !args_fit(args, len) {
        return Ok(Err(EINVAL));
    }
    let args = read_args(w.region(), args, len)?;
    print(w, until_nul(&format), &args, room)
}

/// Formats the arguments and charges the program for the work.
fn print<W: World>(w: &W, format: Result<&[u8], i64>, args: &[u64], room: usize) -> Result<Result<Text, i64>, Fault> {
    Ok(match format {
        Ok(format) => {
            charge(w, format, room)?;
            bprintf(w.region(), format, args, room)
        }
        Err(error) => Err(error),
    })
}

fn until_nul(format: &[u8]) -> Result<&[u8], i64> {
    let end = format.iter().position(|&c| c == 0);
    end.map(|end| &format[..end]).ok_or(EINVAL)
}

fn trace_printk<W: World>(w: &mut W, format: u64, size: u32, a: u64, b: u64, c: u64) -> Result<i64, Fault> {
    w.vm().charge_bytes(size.into())?;
    let format = w.region().bytes(format, size.into())?;
    let text = print(w, until_nul(&format), &[a, b, c], LINE_ROOM)?;
    text.map_or_else(|error| Ok(-error), |text| log(w, text))
}

fn trace_vprintk<W: World>(w: &mut W, format: u64, size: u32, args: u64, len: u32) -> Result<i64, Fault> {
    let text = sized(w, format, size, args, len, LINE_ROOM)?;
    text.map_or_else(|error| Ok(-error), |text| log(w, text))
}

/// Numbers of the streams BPF_STDOUT and BPF_STDERR.
const STREAMS: std::ops::RangeInclusive<i32> = 1..=2;

fn stream_vprintk<W: World>(w: &mut W, stream: i32, format: u64, args: u64, len: u32) -> Result<i64, Fault> {
    let format = read_format(w.region(), format)?;
    if !STREAMS.contains(&stream) {
        return Ok(-ENOENT);
    }
    if !args_fit(args, len) {
        return Ok(-EINVAL);
    }
    let args = read_args(w.region(), args, len)?;
    Ok(match print(w, Ok(&format), &args, LINE_ROOM)? {
        Ok(text) => {
            log(w, text)?;
            0
        }
        Err(error) => -error,
    })
}

/// Prints into a buffer and truncates the text to the buffer's size. Returns the length of the
/// whole text, including the NUL.
fn snprintf<W: World>(w: &mut W, to: u64, size: u32, format: u64, args: u64, len: u32) -> Result<i64, Fault> {
    let format = read_format(w.region(), format)?;
    if !args_fit(args, len) {
        return Ok(-EINVAL);
    }
    let args = read_args(w.region(), args, len)?;
    let room = (size as usize).saturating_sub(1);
    let printed = match print(w, Ok(&format), &args, room)? {
        Ok(printed) => printed,
        Err(error) => return Ok(-error),
    };
    if size > 0 {
        w.region().check_writable(to, size.into())?;
        w.region().write(to, &[&printed.bytes[..], &[0]].concat())?;
    }
    Ok(printed.len as i64 + 1)
}

#[cfg(test)]
mod tests {
    use super::conversion::MAX_BIN_ARGS;
    use super::*;

    #[test]
    fn conversions_match_the_kernel() {
        let region = Region::new().expect("the host has address space for a region");
        let text = region.alloc(600).expect("the region has this memory");
        region.write(text, b"sched\0").expect("the region has this memory");
        let address = region.alloc(16).expect("the region has this memory");
        let bytes: Vec<u8> = (1..=16).collect();
        region.write(address, &bytes).expect("the region has this memory");
        let print = |format: &str, args: &[u64]| {
            let printed = bprintf(&region, format.as_bytes(), args, 4096)?;
            assert_eq!(printed.bytes.len(), printed.len);
            Ok::<String, i64>(String::from_utf8_lossy(&printed.bytes).into_owned())
        };
        for (format, args, expected) in [
            ("%d %i %ld %lli", vec![-1i64 as u64, 5, -7i64 as u64, 8], "-1 5 -7 8"),
            (
                "%u %lu",
                vec![-1i64 as u64, -1i64 as u64],
                "4294967295 18446744073709551615",
            ),
            ("%x|%X|%lx", vec![0xabc, 0xabc, 1 << 40], "abc|ABC|10000000000"),
            (
                "%5d|%-5d|%05d|%+d|% d",
                vec![7, 7, -7i64 as u64, 7, 7],
                "    7|7    |-0007|+7| 7",
            ),
            (
                "%s|%7s|%-7s|%pks.",
                vec![text, text, text, text],
                "sched|  sched|sched  |sched.",
            ),
            ("%c%3c", vec![65, 66], "A  B"),
            (
                "%p|%px %20p",
                vec![0x12, 0x34, 0x56],
                "0000000000000012|0000000000000034                   56",
            ),
            ("%ps %pB", vec![0x12, 0x34], "0x12 0x34"),
            ("%pI4 %pi4", vec![address, address], "1.2.3.4 001.002.003.004"),
            ("%pI6", vec![address], "0102:0304:0506:0708:090a:0b0c:0d0e:0f10"),
            ("%pi6", vec![address], "0102030405060708090a0b0c0d0e0f10"),
            ("100%% of \u{e9}\t\n", vec![], "100% of \u{e9}\t\n"),
            // A string that cannot be read is printed as an empty string.
            ("<%s>", vec![0], "<>"),
            ("%d", vec![1, 2], "1"),
        ] {
            assert_eq!(print(format, &args).as_deref(), Ok(expected), "{format}");
        }
    }

    #[test]
    fn truncated_output_is_counted() {
        let region = Region::new().expect("the host has address space for a region");
        let print = |format: &str, room| {
            let printed = bprintf(&region, format.as_bytes(), &[7, 8], room).expect("the format is valid");
            (
                String::from_utf8(printed.bytes).expect("the text is UTF-8"),
                printed.len,
            )
        };
        assert_eq!(print("%8388607d%-8388607d|", 6), ("      ".into(), 2 * 8_388_607 + 1));
        assert_eq!(print("%-3d|%08388607d", 6), ("7  |00".into(), 8_388_607 + 4));
        assert_eq!(print("a%db%%c%x", 5), ("a7b%c".into(), 6));
        assert_eq!(print("%d", 0), (String::new(), 1));
    }

    #[test]
    fn formats_that_the_kernel_rejects_are_rejected() {
        let region = Region::new().expect("the host has address space for a region");
        let text = region.alloc(600).expect("the region has this memory");
        region.fill(text, 599, b'x').expect("the region has this memory");
        let print = |format: &str, args: &[u64]| {
            let printed = bprintf(&region, format.as_bytes(), args, 4096)?;
            assert_eq!(printed.bytes.len(), printed.len);
            Ok::<String, i64>(String::from_utf8_lossy(&printed.bytes).into_owned())
        };
        for format in [
            "%", "%d %d", "%#x", "%.3s", "%hd", "%zu", "%f", "%o", "%n", "%sx", "%pz", "%pI5", "%lld%", "\u{1}",
            "\u{7f}", "%\u{e9}",
        ] {
            assert_eq!(print(format, &[1]), Err(EINVAL), "{format}");
        }
        // A string may use all the space that is left. Nothing else fits after it.
        assert_eq!(print("%s", &[text]).map(|text| text.len()), Ok(MAX_BIN_ARGS - 1));
        assert_eq!(
            print("%d %s", &[1, text]).map(|text| text.len()),
            Ok(MAX_BIN_ARGS - 5 + 2)
        );
        assert_eq!(print("%s %s", &[text, text]), Err(ENOSPC));
        assert_eq!(print("%s %d", &[text, 1]), Err(ENOSPC));
        assert!(args_fit(8, 96) && args_fit(0, 0) && !args_fit(8, 104) && !args_fit(8, 4) && !args_fit(0, 8));
    }
}
