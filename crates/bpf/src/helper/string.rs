// SPDX-License-Identifier: GPL-2.0-only
//! String kfuncs: the string functions of C, for memory that may be invalid.
//!
//! The functions return an index, the result of a comparison, or an error:
//!
//! - -ERANGE: the address is not a kernel address.
//! - -EFAULT: the memory is invalid.
//! - -E2BIG: the string is longer than XATTR_SIZE_MAX.
//! - -ENOENT: the character or string was not found.
//!
//! The functions read byte by byte and stop as early as possible. For example, memory after the
//! first difference between two strings need not be valid.

use super::read::{STRING_MAX, may_be_kernel};
use crate::engine::func::Func;
use crate::engine::world::World;
use crate::errno::long::*;
use crate::fault::Fault;
use crate::rows::*;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    crate::kfuncs! {
        "int bpf_strlen(const char *s__ign)"
        { releases: V6_17.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, s: u64| into_result(strnlen(w, s, STRING_MAX)) }
        "int bpf_strnlen(const char *s__ign, size_t count)"
        { releases: V6_17.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, s: u64, count: u64| into_result(strnlen(w, s, count)) }
        "int bpf_strcmp(const char *s1__ign, const char *s2__ign)"
        { releases: V6_17.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, a: u64, b: u64| into_result(compare(w, a, b, STRING_MAX, false)) }
        "int bpf_strcasecmp(const char *s1__ign, const char *s2__ign)"
        { releases: V6_18.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, a: u64, b: u64| into_result(compare(w, a, b, STRING_MAX, true)) }
        "int bpf_strncasecmp(const char *s1__ign, const char *s2__ign, size_t len)"
        { releases: V7_0.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, a: u64, b: u64, len: u64| into_result(compare(w, a, b, len, true)) }
        "int bpf_strchr(const char *s__ign, char c)"
        { releases: V6_17.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, s: u64, c: u32| into_result(strnchr(w, s, STRING_MAX, c)) }
        "int bpf_strnchr(const char *s__ign, size_t count, char c)"
        { releases: V6_17.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, s: u64, count: u64, c: u32| into_result(strnchr(w, s, count, c)) }
        "int bpf_strchrnul(const char *s__ign, char c)"
        { releases: V6_17.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, s: u64, c: u32| into_result(strchrnul(w, s, c)) }
        "int bpf_strrchr(const char *s__ign, int c)"
        { releases: V6_17.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, s: u64, c: u32| into_result(strrchr(w, s, c)) }
        "int bpf_strspn(const char *s__ign, const char *accept__ign)"
        { releases: V6_17.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, s: u64, set: u64| into_result(span(w, s, set, true)) }
        "int bpf_strcspn(const char *s__ign, const char *reject__ign)"
        { releases: V6_17.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, s: u64, set: u64| into_result(span(w, s, set, false)) }
        "int bpf_strstr(const char *s1__ign, const char *s2__ign)"
        { releases: V6_17.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, a: u64, b: u64| into_result(find(w, a, b, STRING_MAX, false)) }
        "int bpf_strcasestr(const char *s1__ign, const char *s2__ign)"
        { releases: V6_19.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, a: u64, b: u64| into_result(find(w, a, b, STRING_MAX, true)) }
        "int bpf_strnstr(const char *s1__ign, const char *s2__ign, size_t len)"
        { releases: V6_17.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, a: u64, b: u64, len: u64| into_result(find(w, a, b, len, false)) }
        "int bpf_strncasestr(const char *s1__ign, const char *s2__ign, size_t len)"
        { releases: V6_19.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, a: u64, b: u64, len: u64| into_result(find(w, a, b, len, true)) }
    }
}

/// Reason why a function has no result.
enum Stop {
    Errno(i64),
    /// The program has used up its instruction budget.
    Fault(Fault),
}

impl From<i64> for Stop {
    fn from(errno: i64) -> Stop {
        Stop::Errno(errno)
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

/// Reads a byte. The error is EFAULT if the byte cannot be read. Each byte is charged as one
/// instruction.
fn byte<W: World>(w: &W, addr: u64) -> Result<u8, Stop> {
    w.vm().charge(1)?;
    w.region().load(addr).map_err(|_| EFAULT.into())
}

/// Checks that strings may lie at these addresses.
fn check_addresses<W: World>(w: &W, strings: &[u64]) -> Result<(), i64> {
    match strings.iter().all(|&addr| may_be_kernel(w.region(), addr)) {
        true => Ok(()),
        false => Err(ERANGE),
    }
}

/// Converts to lower case as the kernel's tolower() does, which also converts letters of Latin-1.
fn to_lower(c: u8) -> u8 {
    match c {
        b'A'..=b'Z' | 0xc0..=0xd6 | 0xd8..=0xde => c + 32,
        _ => c,
    }
}

fn into_result(result: Result<i32, Stop>) -> Result<i32, Fault> {
    match result {
        Err(Stop::Errno(errno)) => Ok(-(errno as i32)),
        Err(Stop::Fault(fault)) => Err(fault),
        Ok(found) => Ok(found),
    }
}

fn strnlen<W: World>(w: &W, s: u64, count: u64) -> Result<i32, Stop> {
    check_addresses(w, &[s])?;
    for i in 0..count.min(STRING_MAX) {
        if byte(w, s.wrapping_add(i))? == 0 {
            return Ok(i as i32);
        }
    }
    if count < STRING_MAX {
        Ok(count as i32)
    } else {
        Err(E2BIG.into())
    }
}

fn compare<W: World>(w: &W, a: u64, b: u64, len: u64, fold: bool) -> Result<i32, Stop> {
    check_addresses(w, &[a, b])?;
    for i in 0..len.min(STRING_MAX) {
        let (mut x, mut y) = (byte(w, a.wrapping_add(i))?, byte(w, b.wrapping_add(i))?);
        if fold {
            (x, y) = (to_lower(x), to_lower(y));
        }
        if x != y {
            return Ok(if x < y { -1 } else { 1 });
        }
        if x == 0 {
            return Ok(0);
        }
    }
    if len < STRING_MAX { Ok(0) } else { Err(E2BIG.into()) }
}

/// Finds a character. The search includes the NUL at the end of the string.
fn strnchr<W: World>(w: &W, s: u64, count: u64, c: u32) -> Result<i32, Stop> {
    check_addresses(w, &[s])?;
    for i in 0..count.min(STRING_MAX) {
        match byte(w, s.wrapping_add(i))? {
            found if found == c as u8 => return Ok(i as i32),
            0 => return Err(ENOENT.into()),
            _ => {}
        }
    }
    Err(if count < STRING_MAX { ENOENT } else { E2BIG }.into())
}

fn strchrnul<W: World>(w: &W, s: u64, c: u32) -> Result<i32, Stop> {
    check_addresses(w, &[s])?;
    for i in 0..STRING_MAX {
        let here = byte(w, s.wrapping_add(i))?;
        if here == 0 || here == c as u8 {
            return Ok(i as i32);
        }
    }
    Err(E2BIG.into())
}

/// Finds the last occurrence of a character. `c` is an int. If its value is not that of a char, it
/// is not found.
fn strrchr<W: World>(w: &W, s: u64, c: u32) -> Result<i32, Stop> {
    check_addresses(w, &[s])?;
    let mut last = Err(ENOENT.into());
    for i in 0..STRING_MAX {
        let here = byte(w, s.wrapping_add(i))?;
        if u32::from(here) == c {
            last = Ok(i as i32);
        }
        if here == 0 {
            return last;
        }
    }
    Err(E2BIG.into())
}

/// Returns whether the string at `set` contains a character.
fn contains_char<W: World>(w: &W, c: u8, set: u64) -> Result<bool, Stop> {
    for i in 0..STRING_MAX {
        match byte(w, set.wrapping_add(i))? {
            member if member == c => return Ok(true),
            0 => return Ok(false),
            _ => {}
        }
    }
    Err(E2BIG.into())
}

/// Returns the length of the longest prefix of `s` whose bytes are all in the set (if `within` is
/// set), or whose bytes are all outside of the set.
fn span<W: World>(w: &W, s: u64, set: u64, within: bool) -> Result<i32, Stop> {
    check_addresses(w, &[s, set])?;
    for i in 0..STRING_MAX {
        let c = byte(w, s.wrapping_add(i))?;
        if c == 0 || contains_char(w, c, set)? != within {
            return Ok(i as i32);
        }
    }
    Err(E2BIG.into())
}

/// Returns the index at which the string `b` begins in the first `len` bytes of the string `a`.
fn find<W: World>(w: &W, a: u64, b: u64, len: u64, fold: bool) -> Result<i32, Stop> {
    check_addresses(w, &[a, b])?;
    let same = |x: u8, y: u8| x == y || fold && to_lower(x) == to_lower(y);
    for i in 0..STRING_MAX {
        let mut j = 0;
        loop {
            if j == STRING_MAX {
                return Err(E2BIG.into());
            }
            // If `b` ends here, it was found. This also holds if it ends at `len`.
            let wanted = byte(w, b.wrapping_add(j))?;
            if wanted == 0 {
                return Ok(i as i32);
            }
            if i + j == len {
                return Err(ENOENT.into());
            }
            let here = byte(w, a.wrapping_add(i + j))?;
            if here == 0 {
                return Err(ENOENT.into());
            }
            if !same(here, wanted) {
                break;
            }
            j += 1;
        }
    }
    Err(E2BIG.into())
}
