// SPDX-License-Identifier: GPL-2.0-only
//! The string kfuncs: C's functions on strings in memory that may not be there. They give an index or a comparison, or
//! -EFAULT, -E2BIG (longer than XATTR_SIZE_MAX), -ENOENT.

use super::read::{STRING_MAX, string};
use crate::func::{ANY, Func, World};
use crate::map::errno::*;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    vec![
        Func::kfunc(ANY, "int bpf_strlen(const char *s__ign)", |w: &mut W, s: u64| {
            strnlen(w, s, STRING_MAX)
        }),
        Func::kfunc(ANY, "int bpf_strnlen(const char *s__ign, size_t count)", strnlen),
        Func::kfunc(
            ANY,
            "int bpf_strcmp(const char *s1__ign, const char *s2__ign)",
            |w: &mut W, a: u64, b: u64| compare(w, a, b, STRING_MAX, false),
        ),
        Func::kfunc(
            ANY,
            "int bpf_strcasecmp(const char *s1__ign, const char *s2__ign)",
            |w: &mut W, a: u64, b: u64| compare(w, a, b, STRING_MAX, true),
        ),
        Func::kfunc(
            ANY,
            "int bpf_strncasecmp(const char *s1__ign, const char *s2__ign, size_t len)",
            |w: &mut W, a: u64, b: u64, len: u64| compare(w, a, b, len.min(STRING_MAX), true),
        ),
        Func::kfunc(
            ANY,
            "int bpf_strchr(const char *s__ign, char c)",
            |w: &mut W, s: u64, c: u32| strnchr(w, s, STRING_MAX, c),
        ),
        Func::kfunc(
            ANY,
            "int bpf_strnchr(const char *s__ign, size_t count, char c)",
            strnchr,
        ),
        Func::kfunc(ANY, "int bpf_strchrnul(const char *s__ign, char c)", strchrnul),
        Func::kfunc(ANY, "int bpf_strrchr(const char *s__ign, int c)", strrchr),
        Func::kfunc(
            ANY,
            "int bpf_strspn(const char *s__ign, const char *accept__ign)",
            |w: &mut W, s: u64, set: u64| span(w, s, set, true),
        ),
        Func::kfunc(
            ANY,
            "int bpf_strcspn(const char *s__ign, const char *reject__ign)",
            |w: &mut W, s: u64, set: u64| span(w, s, set, false),
        ),
        Func::kfunc(
            ANY,
            "int bpf_strstr(const char *s1__ign, const char *s2__ign)",
            |w: &mut W, a: u64, b: u64| find(w, a, b, STRING_MAX, false),
        ),
        Func::kfunc(
            ANY,
            "int bpf_strcasestr(const char *s1__ign, const char *s2__ign)",
            |w: &mut W, a: u64, b: u64| find(w, a, b, STRING_MAX, true),
        ),
        Func::kfunc(
            ANY,
            "int bpf_strnstr(const char *s1__ign, const char *s2__ign, size_t len)",
            |w: &mut W, a: u64, b: u64, len: u64| find(w, a, b, len.min(STRING_MAX), false),
        ),
        Func::kfunc(
            ANY,
            "int bpf_strncasestr(const char *s1__ign, const char *s2__ign, size_t len)",
            |w: &mut W, a: u64, b: u64, len: u64| find(w, a, b, len.min(STRING_MAX), true),
        ),
    ]
}

/// A string of at most `max` bytes, in small letters if `fold`. An errno if it cannot be read, or is longer than any string may be.
fn text<W: World>(w: &W, s: u64, max: u64, fold: bool) -> Result<Vec<u8>, i32> {
    match string(w.region(), s, max) {
        None => Err(-EFAULT as i32),
        Some((bytes, false)) if bytes.len() as u64 == STRING_MAX => Err(-E2BIG as i32),
        Some((bytes, _)) if fold => Ok(bytes.to_ascii_lowercase()),
        Some((bytes, _)) => Ok(bytes),
    }
}

fn index(found: Option<usize>) -> i32 {
    found.map_or(-ENOENT as i32, |at| at as i32)
}

fn either(result: Result<i32, i32>) -> i32 {
    result.unwrap_or_else(|errno| errno)
}

fn strnlen<W: World>(w: &mut W, s: u64, count: u64) -> i32 {
    either(text(w, s, count.min(STRING_MAX), false).map(|bytes| bytes.len() as i32))
}

fn compare<W: World>(w: &mut W, a: u64, b: u64, len: u64, fold: bool) -> i32 {
    let both = text(w, a, len, fold).and_then(|a| Ok((a, text(w, b, len, fold)?)));
    either(both.map(|(a, b)| a.cmp(&b) as i32))
}

/// The NUL is part of the string.
fn strnchr<W: World>(w: &mut W, s: u64, count: u64, c: u32) -> i32 {
    let Some((mut bytes, ended)) = string(w.region(), s, count.min(STRING_MAX)) else {
        return -EFAULT as i32;
    };
    if ended {
        bytes.push(0);
    }
    index(bytes.iter().position(|&b| b == c as u8))
}

fn strchrnul<W: World>(w: &mut W, s: u64, c: u32) -> i32 {
    let bytes = text(w, s, STRING_MAX, false);
    either(bytes.map(|bytes| bytes.iter().position(|&b| b == c as u8).unwrap_or(bytes.len()) as i32))
}

fn strrchr<W: World>(w: &mut W, s: u64, c: u32) -> i32 {
    let bytes = text(w, s, STRING_MAX, false).map(|mut bytes| {
        bytes.push(0);
        index(bytes.iter().rposition(|&b| b == c as u8))
    });
    either(bytes)
}

/// Bytes at the start that are all in the set, or all not in it.
fn span<W: World>(w: &mut W, s: u64, set: u64, within: bool) -> i32 {
    let both = text(w, s, STRING_MAX, false).and_then(|s| Ok((s, text(w, set, STRING_MAX, false)?)));
    either(both.map(|(s, set)| s.iter().take_while(|byte| set.contains(byte) == within).count() as i32))
}

fn find<W: World>(w: &mut W, a: u64, b: u64, len: u64, fold: bool) -> i32 {
    let both = text(w, a, len, fold).and_then(|a| Ok((a, text(w, b, STRING_MAX, fold)?)));
    either(both.map(|(a, b)| match b.is_empty() {
        true => 0,
        false => index(a.windows(b.len()).position(|part| part == b)),
    }))
}
