// SPDX-License-Identifier: GPL-2.0-only
//! Reads that may fail, and strings.

use crate::func::{Fault, Func, World};
use crate::map::errno::*;
use crate::region::Region;

/// The string kfuncs give up after this many bytes: XATTR_SIZE_MAX.
pub(super) const STRING_MAX: u64 = 64 << 10;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    vec![
        Func::helper(4, "bpf_probe_read", probe_read),
        Func::helper(45, "bpf_probe_read_str", probe_read_str),
        Func::helper(
            105,
            "bpf_strtol",
            |w: &mut W, buf: u64, len: u64, flags: u64, res: u64| strto(w, buf, len, flags, res, true),
        ),
        Func::helper(
            106,
            "bpf_strtoul",
            |w: &mut W, buf: u64, len: u64, flags: u64, res: u64| strto(w, buf, len, flags, res, false),
        ),
        Func::helper(112, "bpf_probe_read_user", probe_read),
        Func::helper(113, "bpf_probe_read_kernel", probe_read),
        Func::helper(114, "bpf_probe_read_user_str", probe_read_str),
        Func::helper(115, "bpf_probe_read_kernel_str", probe_read_str),
        Func::helper(182, "bpf_strncmp", strncmp),
    ]
}

/// The bytes up to the NUL, at most `max`; whether there was one. `None` if they cannot be read.
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

fn probe_read<W: World>(w: &mut W, to: u64, size: u32, from: u64) -> Result<i64, Fault> {
    let region = w.region();
    let size = u64::from(size);
    region.check_given(to, size)?;
    if region.check(from, size, false).is_err() {
        region.bytes_mut(to, size)?.fill(0);
        return Ok(-EFAULT);
    }
    // Of nothing the address may be any.
    if size == 0 {
        return Ok(0);
    }
    w.vm().load_line(w.cpu(), from);
    w.vm().store_line(w.cpu(), to);
    region.copy(to, from, size)?;
    Ok(0)
}

/// Copies at most `size` bytes, NUL included; the length with the NUL.
fn probe_read_str<W: World>(w: &mut W, to: u64, size: u32, from: u64) -> Result<i64, Fault> {
    if size == 0 {
        return Ok(-EINVAL);
    }
    let source = string(w.region(), from, u64::from(size) - 1);
    let to = w.region().bytes_mut(to, size.into())?;
    let Some((bytes, _)) = source else {
        to.fill(0);
        return Ok(-EFAULT);
    };
    to[..bytes.len()].copy_from_slice(&bytes);
    to[bytes.len()] = 0;
    Ok(bytes.len() as i64 + 1)
}

fn strncmp<W: World>(w: &mut W, a: u64, size: u32, b: u64) -> Result<i32, Fault> {
    let region = w.region();
    for i in 0..u64::from(size) {
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

/// The number at the start of a buffer; how many bytes it takes.
fn strto<W: World>(w: &mut W, buf: u64, len: u64, flags: u64, res: u64, signed: bool) -> Result<i64, Fault> {
    if !matches!(flags, 0 | 8 | 10 | 16) || len == 0 {
        return Ok(-EINVAL);
    }
    let text = w.region().bytes(buf, len)?;
    let mut at = text.iter().take_while(|c| c.is_ascii_whitespace()).count();
    let negative = signed && text.get(at) == Some(&b'-');
    at += usize::from(negative);
    let hex = text.get(at) == Some(&b'0') && matches!(text.get(at + 1), Some(b'x' | b'X'));
    let radix = match flags {
        0 if hex => 16,
        0 if text.get(at) == Some(&b'0') => 8,
        0 => 10,
        flags => flags as u32,
    };
    at += if radix == 16 && hex { 2 } else { 0 };
    let digits = text[at..].iter().map_while(|&c| (c as char).to_digit(radix));
    let (mut value, mut nr) = (0u64, 0);
    for digit in digits {
        let Some(next) = value
            .checked_mul(radix.into())
            .and_then(|v| v.checked_add(digit.into()))
        else {
            return Ok(-ERANGE);
        };
        (value, nr) = (next, nr + 1);
    }
    if nr == 0 {
        return Ok(-EINVAL);
    }
    if signed && value > i64::MAX as u64 + u64::from(negative) {
        return Ok(-ERANGE);
    }
    w.region()
        .store(res, if negative { value.wrapping_neg() } else { value })?;
    Ok((at + nr) as i64)
}
