// SPDX-License-Identifier: GPL-2.0-only
//! Helpers that read memory at addresses that may be invalid, and helpers for strings.
//!
//! Helpers charge their work to the budget of the program.

use crate::engine::func::Func;
use crate::engine::world::World;
use crate::errno::long::*;
use crate::fault::Fault;
use crate::memory::Region;
use crate::rows::*;

/// Number of characters of a string that are read at a time. Each character is charged as one
/// instruction.
const PART: u64 = 256;
/// Maximum number of bytes of a string that the string kfuncs read: XATTR_SIZE_MAX.
pub(super) const STRING_MAX: u64 = 64 << 10;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    crate::helpers! {
        4 "bpf_probe_read"
        { args: [write(2), V, V], returns: Number, rules: PLAIN, native: CALL,
          run: |w: &mut W, to: u64, size: u32, from: u64|
              probe_read(w, to, size, from, AddressSpace::from_address(w.region(), from)) }
        45 "bpf_probe_read_str"
        { args: [write(2), V, V], returns: Number, rules: PLAIN, native: CALL,
          run: |w: &mut W, to: u64, size: u32, from: u64|
              probe_read_str(w, to, size, from, AddressSpace::from_address(w.region(), from)) }
        105 "bpf_strtol"
        { args: [read(2), V, V, bytes(8)], returns: Number, rules: PLAIN, native: CALL,
          run: |w: &mut W, buf: u64, len: u64, flags: u64, res: u64| strto(w, buf, len, flags, res, true) }
        106 "bpf_strtoul"
        { args: [read(2), V, V, bytes(8)], returns: Number, rules: PLAIN, native: CALL,
          run: |w: &mut W, buf: u64, len: u64, flags: u64, res: u64| strto(w, buf, len, flags, res, false) }
        112 "bpf_probe_read_user"
        { args: [write(2), V, V], returns: Number, rules: PLAIN, native: CALL,
          run: |w: &mut W, to: u64, size: u32, from: u64| probe_read(w, to, size, from, AddressSpace::User) }
        113 "bpf_probe_read_kernel"
        { args: [write(2), V, V], returns: Number, rules: PLAIN, native: CALL,
          run: |w: &mut W, to: u64, size: u32, from: u64| probe_read(w, to, size, from, AddressSpace::Kernel) }
        114 "bpf_probe_read_user_str"
        { args: [write(2), V, V], returns: Number, rules: PLAIN, native: CALL,
          run: |w: &mut W, to: u64, size: u32, from: u64| probe_read_str(w, to, size, from, AddressSpace::User) }
        115 "bpf_probe_read_kernel_str"
        { args: [write(2), V, V], returns: Number, rules: PLAIN, native: CALL,
          run: |w: &mut W, to: u64, size: u32, from: u64| probe_read_str(w, to, size, from, AddressSpace::Kernel) }
        182 "bpf_strncmp"
        { args: [read(2), V, TEXT], returns: Number, rules: PLAIN, native: CALL, run: strncmp }
    }
}

/// Reads a string of any length with [`string`], and charges the program for the work.
fn long_string<W: World>(w: &W, addr: u64, max: u64) -> Result<Option<(Vec<u8>, bool)>, Fault> {
    let mut bytes = Vec::new();
    loop {
        let at = addr.wrapping_add(bytes.len() as u64);
        let Some((part, ended)) = string(w.region(), at, (max - bytes.len() as u64).min(PART)) else {
            return Ok(None);
        };
        w.vm().charge(part.len() as u64)?;
        bytes.extend(&part);
        if ended || (part.len() as u64) < PART {
            return Ok(Some((bytes, ended)));
        }
    }
}

/// Returns the bytes before the NUL, but at most `max`, and whether a NUL was found. Returns `None`
/// if the bytes cannot be read.
pub(super) fn string(region: &Region, addr: u64, max: u64) -> Option<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < max {
        match region.load::<u8>(addr.wrapping_add(bytes.len() as u64)).ok()? {
            0 => return Some((bytes, true)),
            byte => bytes.push(byte),
        }
    }
    Some((bytes, false))
}

/// Returns whether this address can be kernel memory (copy_from_kernel_nofault_allowed). Addresses
/// in the upper half of the address space can be, and addresses in the region, because it contains
/// the simulated kernel's objects. The region may lie in the lower half.
pub(super) fn may_be_kernel(region: &Region, addr: u64) -> bool {
    region.contains(addr) || addr >= 0xffff_8000_0000_0000
}

/// Kind of memory from which a helper reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AddressSpace {
    Kernel,
    /// User memory. Simulated tasks have none, so all reads fail.
    User,
}

impl AddressSpace {
    /// Determines the kind of memory from the address, as the old helpers do
    /// (bpf_probe_read_compat).
    fn from_address(region: &Region, addr: u64) -> AddressSpace {
        match region.contains(addr) || addr >> 63 != 0 {
            true => AddressSpace::Kernel,
            false => AddressSpace::User,
        }
    }

    /// Returns the error of a read, if it follows from the address alone.
    fn error(self, region: &Region, addr: u64) -> Option<i64> {
        match self {
            AddressSpace::User => Some(EFAULT),
            AddressSpace::Kernel => (!may_be_kernel(region, addr)).then_some(ERANGE),
        }
    }
}

fn probe_read<W: World>(w: &mut W, to: u64, size: u32, from: u64, space: AddressSpace) -> Result<i64, Fault> {
    let region = w.region();
    let size = u64::from(size);
    w.vm().charge_bytes(size)?;
    region.check_writable(to, size)?;
    // A read of zero bytes may have any address, even an invalid one.
    if size == 0 {
        return Ok(0);
    }
    let readable = || region.check(from, size, false).is_ok();
    if let Some(error) = space.error(region, from).or_else(|| (!readable()).then_some(EFAULT)) {
        region.fill(to, size, 0)?;
        return Ok(-error);
    }
    w.vm().load_line(w.cpu(), from);
    w.vm().store_line(w.cpu(), to);
    region.copy(to, from, size)?;
    Ok(0)
}

/// Copies at most `size` bytes of a string, including the NUL. Returns the number of copied bytes.
fn probe_read_str<W: World>(w: &mut W, to: u64, size: u32, from: u64, space: AddressSpace) -> Result<i64, Fault> {
    if size == 0 {
        return Ok(0);
    }
    let source = match space.error(w.region(), from) {
        Some(error) => Err(error),
        None => long_string(w, from, size.into())?.ok_or(EFAULT),
    };
    w.vm().charge_bytes(size.into())?;
    w.region().check_writable(to, size.into())?;
    match source {
        Ok((mut bytes, _)) => {
            bytes.truncate(size as usize - 1);
            bytes.push(0);
            w.region().write(to, &bytes)?;
            Ok(bytes.len() as i64)
        }
        Err(error) => {
            w.region().fill(to, size.into(), 0)?;
            Ok(-error)
        }
    }
}

fn strncmp<W: World>(w: &mut W, a: u64, size: u32, b: u64) -> Result<i32, Fault> {
    let region = w.region();
    for i in 0..u64::from(size) {
        w.vm().charge(1)?;
        let (x, y) = (
            region.load::<u8>(a.wrapping_add(i))?,
            region.load::<u8>(b.wrapping_add(i))?,
        );
        if x != y {
            return Ok(if x < y { -1 } else { 1 });
        }
        if x == 0 {
            break;
        }
    }
    Ok(0)
}

/// Parses the number at the start of a buffer, stores it at `res`, and returns its length in bytes.
/// Stores 0 on an error.
fn strto<W: World>(w: &mut W, buf: u64, len: u64, flags: u64, res: u64, signed: bool) -> Result<i64, Fault> {
    w.region().store(res, 0u64)?;
    // Charges for the whole buffer, because all its characters may be white space, which is skipped
    // character by character.
    w.vm().charge(len)?;
    let (negative, value, taken) = match parse(&w.region().bytes(buf, len)?, flags) {
        Ok(parsed) => parsed,
        Err(error) => return Ok(-error),
    };
    if !signed && negative {
        return Ok(-EINVAL);
    }
    if signed && value > i64::MAX as u64 + u64::from(negative) {
        return Ok(-ERANGE);
    }
    w.region()
        .store(res, if negative { value.wrapping_neg() } else { value })?;
    Ok(taken as i64)
}

/// Returns sign, value and length of a number, or an error number. If `base` is 0, the prefix of
/// the number determines the base.
fn parse(text: &[u8], base: u64) -> Result<(bool, u64, usize), i64> {
    /// Maximum length of prefix and digits.
    const LONGEST: usize = 63;
    if !matches!(base, 0 | 8 | 10 | 16) {
        return Err(EINVAL);
    }
    // These are the characters of the kernel's isspace().
    let is_blank = |c: &&u8| matches!(**c, b'\t'..=b'\r' | b' ' | 0xa0);
    let mut at = text.iter().take_while(is_blank).count();
    let negative = text.get(at) == Some(&b'-');
    at += usize::from(negative);
    let digits = &text[at..text.len().min(at + LONGEST)];
    if digits.is_empty() {
        return Err(EINVAL);
    }
    let hex = digits[0] == b'0' && matches!(digits.get(1), Some(b'x' | b'X'));
    let radix = match base {
        0 if hex && digits.get(2).is_some_and(u8::is_ascii_hexdigit) => 16,
        0 if digits[0] == b'0' => 8,
        0 => 10,
        base => base as u32,
    };
    let prefix = if radix == 16 && hex { 2 } else { 0 };
    let digits = digits[prefix..].iter().map_while(|&c| (c as char).to_digit(radix));
    let (mut value, mut nr) = (0u64, 0);
    for digit in digits {
        let next = value
            .checked_mul(radix.into())
            .and_then(|v| v.checked_add(digit.into()));
        (value, nr) = (next.ok_or(ERANGE)?, nr + 1);
    }
    if nr == 0 {
        return Err(EINVAL);
    }
    Ok((negative, value, at + prefix + nr))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_as_in_the_kernel() {
        for (text, base, expected) in [
            ("42", 10, Ok((false, 42, 2))),
            (" \t\x0b-42 ", 0, Ok((true, 42, 6))),
            ("0x1F", 0, Ok((false, 31, 4))),
            ("0x1f", 16, Ok((false, 31, 4))),
            ("017", 0, Ok((false, 15, 3))),
            ("18", 8, Ok((false, 1, 1))),
            // "0x" is not a prefix if no digit follows.
            ("0x", 0, Ok((false, 0, 1))),
            ("0xg", 0, Ok((false, 0, 1))),
            ("0x", 16, Err(EINVAL)),
            ("", 10, Err(EINVAL)),
            ("  ", 10, Err(EINVAL)),
            ("-", 10, Err(EINVAL)),
            ("+1", 10, Err(EINVAL)),
            ("z", 10, Err(EINVAL)),
            ("1", 7, Err(EINVAL)),
            ("1", 32, Err(EINVAL)),
            ("18446744073709551615", 10, Ok((false, u64::MAX, 20))),
            ("18446744073709551616", 10, Err(ERANGE)),
            ("-18446744073709551616", 10, Err(ERANGE)),
        ] {
            assert_eq!(parse(text.as_bytes(), base), expected, "{text:?} in base {base}");
        }
        // Bytes beyond the first 63 are ignored.
        let long = [&[b'0'; 70][..], b"1"].concat();
        assert_eq!(parse(&long, 10), Ok((false, 0, 63)));
    }
}
