// SPDX-License-Identifier: GPL-2.0-only
//! Lists of CPUs in the notation of Linux, for example `0-3,8`.

use crate::Error;

/// Hint that shows an example of the notation.
pub const EXAMPLE: &str = "a CPU list reads like 0-3,8";

/// Returns the CPUs of a list, in the order of the list.
///
/// # Errors
/// A message that names the wrong part of the list. A part is wrong if it is not a CPU or a range
/// of CPUs below `limit`, or if a CPU occurs twice.
pub fn parse(text: &str, limit: u32) -> Result<Vec<u32>, Error> {
    let mut cpus = Vec::new();
    let mut seen = vec![false; limit as usize];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) else {
            return Err(Error::new(format!("{part:?} is not a range of CPUs")));
        };
        if first > last {
            return Err(Error::new(format!("CPUs {part} are not an ascending range")));
        }
        if last >= limit {
            return Err(Error::new(format!(
                "CPUs {part} of a machine with CPUs 0-{}",
                limit.saturating_sub(1)
            )));
        }
        for cpu in first..=last {
            if std::mem::replace(&mut seen[cpu as usize], true) {
                return Err(Error::new(format!("CPU {cpu} is named twice")));
            }
            cpus.push(cpu);
        }
    }
    Ok(cpus)
}

/// Formats CPUs as a list. They must be in ascending order.
pub fn format(cpus: &[u32]) -> String {
    let runs = cpus.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        assert_eq!(parse("0-3,8", 16), Ok(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse(" 4 - 5 , 2", 6), Ok(vec![4, 5, 2]));
        assert_eq!(format(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(format(&[]), "");
    }

    #[test]
    fn an_error_names_the_invalid_part() {
        let error = |text: &str| parse(text, 8).unwrap_err();
        assert_eq!(error(""), "\"\" is not a range of CPUs".into());
        assert_eq!(error("0,x"), "\"x\" is not a range of CPUs".into());
        assert_eq!(error("3-1"), "CPUs 3-1 are not an ascending range".into());
        assert_eq!(
            error("0-4294967295"),
            "CPUs 0-4294967295 of a machine with CPUs 0-7".into()
        );
        assert_eq!(error("8"), "CPUs 8 of a machine with CPUs 0-7".into());
        assert_eq!(error("0-2,1"), "CPU 1 is named twice".into());
    }
}
