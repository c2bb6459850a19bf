// SPDX-License-Identifier: GPL-2.0-only
//! Settings of the machine that the program makes by writing to a file.

use kernel::{Machine, native};

/// A setting of the machine that a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// The longest permitted exit latency of the idle states of the CPU with this number
    /// (pm_qos_resume_latency_us).
    LatencyLimit(u32),
}

impl Setting {
    /// Makes the setting. Returns whether the text is correct.
    #[must_use]
    pub fn write(self, m: &mut Machine, text: &[u8]) -> bool {
        let Setting::LatencyLimit(cpu) = self;
        let Some(limit) = parse_latency(text) else {
            return false;
        };
        native::set_latency_limit(m, cpu, limit);
        true
    }
}

/// Returns the text of a latency limit: us, 0 without a limit, or `n/a` for a limit of 0
/// (pm_qos_resume_latency_us_show).
pub(super) fn latency_text(limit: Option<u64>) -> String {
    match limit {
        None => "0\n".into(),
        Some(0) => "n/a\n".into(),
        Some(ns) => format!("{}\n", ns / 1000),
    }
}

/// Reads the text of a latency limit. Returns `None` if it is wrong, and `Some(None)` without a limit
/// (pm_qos_resume_latency_us_store).
fn parse_latency(text: &[u8]) -> Option<Option<u64>> {
    match std::str::from_utf8(text).ok()?.trim_end_matches(['\n', '\0']) {
        "n/a" => Some(Some(0)),
        text => match text.parse::<i32>().ok()? {
            // S32_MAX stands for no limit, so users cannot write it.
            i32::MAX | i32::MIN..0 => None,
            0 => Some(None),
            us => Some(Some(1000 * u64::from(us.unsigned_abs()))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_limit_has_the_text_of_linux() {
        assert_eq!(parse_latency(b"32\n"), Some(Some(32_000)));
        assert_eq!(parse_latency(b"0"), Some(None));
        assert_eq!(parse_latency(b"n/a\n"), Some(Some(0)));
        for wrong in ["", "-1", "2147483647", "4294967296", "fast"] {
            assert_eq!(parse_latency(wrong.as_bytes()), None, "{wrong}");
        }
        for limit in [None, Some(0), Some(32_000)] {
            assert_eq!(parse_latency(latency_text(limit).as_bytes()), Some(limit));
        }
    }
}
