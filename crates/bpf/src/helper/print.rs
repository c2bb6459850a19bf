// SPDX-License-Identifier: GPL-2.0-only
//! Formatted output, with the conversions BPF programs may use.

use super::read::string;
use crate::func::{ANY, Fault, Func, World};
use crate::map::errno::*;
use crate::region::Region;

/// Longest string a `%s` prints and longest format.
const STRING_MAX: u64 = 4096;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    vec![
        Func::helper(6, "bpf_trace_printk", trace_printk),
        Func::helper(165, "bpf_snprintf", snprintf),
        Func::helper(177, "bpf_trace_vprintk", trace_vprintk),
        Func::kfunc(
            ANY,
            "int bpf_stream_vprintk(int stream_id, const char *fmt__str, const void *args, u32 len__sz)",
            stream_vprintk,
        ),
        Func::kfunc(
            ANY,
            "int bpf_stream_vprintk_impl(int stream_id, const char *fmt__str, const void *args, u32 len__sz, \
             void *aux__prog)",
            stream_vprintk,
        ),
    ]
}

/// What a `*_bstr` kfunc or helper prints: a NUL-terminated format and `size` bytes of u64 arguments.
pub fn bstr(region: &Region, format: u64, args: u64, size: u32) -> Result<String, Fault> {
    let Some((format, _)) = string(region, format, STRING_MAX) else {
        return Err(Fault::func(format!("format string at {format:#x} cannot be read")));
    };
    let args: Vec<u64> = (0..u64::from(size / 8))
        .map(|i| region.load(args.wrapping_add(i * 8)))
        .collect::<Result<_, _>>()?;
    format_text(region, &format, &args)
}

fn format_text(region: &Region, format: &[u8], args: &[u64]) -> Result<String, Fault> {
    let mut out = Vec::new();
    let mut args = args.iter().copied();
    let mut rest = format.iter().copied().peekable();
    while let Some(c) = rest.next() {
        if c != b'%' {
            out.push(c);
            continue;
        }
        let mut flags = Vec::new();
        while let Some(flag) = rest.next_if(|c| b"-+ #0".contains(c)) {
            flags.push(flag);
        }
        let width = number(&mut rest).unwrap_or(0).min(512);
        let precision = rest.next_if_eq(&b'.').map(|_| number(&mut rest).unwrap_or(0).min(512));
        let mut long = false;
        while rest.next_if(|c| b"lzh".contains(c)).is_some() {
            long = true;
        }
        let Some(conversion) = rest.next() else { break };
        if conversion == b'%' {
            out.push(b'%');
            continue;
        }
        let Some(arg) = args.next() else {
            let format = String::from_utf8_lossy(format);
            return Err(Fault::func(format!(
                "format '{format}' has more conversions than arguments"
            )));
        };
        let mut text = match conversion {
            b'd' | b'i' => {
                let value = if long { arg as i64 } else { i64::from(arg as i32) };
                let plus = if flags.contains(&b'+') && value >= 0 { "+" } else { "" };
                format!("{plus}{value}").into_bytes()
            }
            b'u' => (if long { arg } else { u64::from(arg as u32) })
                .to_string()
                .into_bytes(),
            b'x' | b'X' => {
                let value = if long { arg } else { u64::from(arg as u32) };
                let prefix = if flags.contains(&b'#') { "0x" } else { "" };
                let text = format!("{prefix}{value:x}");
                (if conversion == b'X' { text.to_uppercase() } else { text }).into_bytes()
            }
            b'c' => vec![arg as u8],
            b'p' => {
                // %px, %pK, %ps, ...: there are no symbols to look up, all print the address.
                while rest.next_if(|c| b"xKsSBb".contains(c)).is_some() {}
                format!("{arg:016x}").into_bytes()
            }
            b's' => string(region, arg, precision.map_or(STRING_MAX, |p| p as u64)).map_or(Vec::new(), |s| s.0),
            other => return Err(Fault::func(format!("conversion %{} is not supported", other as char))),
        };
        let pad = width.saturating_sub(text.len());
        if flags.contains(&b'-') {
            text.extend(std::iter::repeat_n(b' ', pad));
        } else if flags.contains(&b'0') && !matches!(conversion, b's' | b'c') {
            let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
            text.splice(sign..sign, std::iter::repeat_n(b'0', pad));
        } else {
            text.splice(0..0, std::iter::repeat_n(b' ', pad));
        }
        out.extend(text);
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// The decimal number at the start of what is left of a format.
fn number(rest: &mut std::iter::Peekable<impl Iterator<Item = u8>>) -> Option<usize> {
    let mut value: Option<usize> = None;
    while let Some(digit) = rest.next_if(u8::is_ascii_digit) {
        value = Some(
            value
                .unwrap_or(0)
                .saturating_mul(10)
                .saturating_add(usize::from(digit - b'0')),
        );
    }
    value
}

fn log<W: World>(w: &mut W, text: String) -> i64 {
    let len = text.len() as i64;
    w.log(text.trim_end_matches('\n').to_string());
    len
}

fn trace_printk<W: World>(w: &mut W, format: u64, _size: u32, a: u64, b: u64, c: u64) -> Result<i64, Fault> {
    let Some((format, _)) = string(w.region(), format, STRING_MAX) else {
        return Ok(-EFAULT);
    };
    let text = format_text(w.region(), &format, &[a, b, c])?;
    Ok(log(w, text))
}

fn trace_vprintk<W: World>(w: &mut W, format: u64, _size: u32, args: u64, len: u32) -> Result<i64, Fault> {
    let text = bstr(w.region(), format, args, len)?;
    Ok(log(w, text))
}

fn stream_vprintk<W: World>(w: &mut W, _stream: i32, format: u64, args: u64, len: u32) -> Result<i64, Fault> {
    let text = bstr(w.region(), format, args, len)?;
    log(w, text);
    Ok(0)
}

/// Prints into a buffer, truncated; the length needed, NUL included.
fn snprintf<W: World>(w: &mut W, to: u64, size: u32, format: u64, args: u64, len: u32) -> Result<i64, Fault> {
    let text = bstr(w.region(), format, args, len)?;
    if let Some(room) = (size as usize).checked_sub(1) {
        let to = w.region().bytes_mut(to, size.into())?;
        let nr = text.len().min(room);
        to[..nr].copy_from_slice(&text.as_bytes()[..nr]);
        to[nr] = 0;
    }
    Ok(text.len() as i64 + 1)
}
