// SPDX-License-Identifier: GPL-2.0-only
//! The conditions of `compare --fail-if`, for example `p99_wakeup > +5%`.
//!
//! A condition describes how much a metric changes from policy A to policy B:
//!
//! ```text
//! condition = metric ( ">" | ">=" | "<" | "<=" ) amount
//!           | metric "worse" loss
//! amount    = ["+" | "-"] number unit  |  number "x"  |  ( "+" | "-" ) number
//! loss      = number unit  |  "+" number
//! unit      = "%" | "ns" | "us" | "ms" | "s" | "pp"
//! ```
//!
//! | amount | meaning |
//! |---|---|
//! | `+5%` | relative change, in percent of A's value |
//! | `1.5x` | ratio B / A |
//! | `+20us` | difference B - A, for a metric that is a time |
//! | `+1pp` | difference B - A in percentage points, for a metric that is a percentage |
//! | `+1000` | difference B - A, for a metric that is a count or a score; its sign is required |
//!
//! `worse` depends on the direction in which the metric is better. For `score`, the workload
//! determines this direction: `score worse 3%` is `score > +3%` for hackbench, whose score is a
//! time, and `score < -3%` for a workload whose score is a rate.
//!
//! A condition holds only if the whole 95 % confidence interval of the change satisfies it. Random
//! variation between the seeds therefore rarely makes a condition hold.

use super::effect::Effect;
use super::metric::{self, Metric};
use input::error::Error;
use report::{Better, Unit};
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
    /// Worse by more than the amount. The amount is that of a rise.
    Worse,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    /// B / A.
    Ratio(f64),
    /// B - A, in the metric's unit.
    Difference(f64),
}

/// How the confidence interval of a change is related to the limit of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The whole interval satisfies the condition.
    Holds,
    /// No value of the interval satisfies the condition.
    DoesNotHold,
    /// The limit is inside the interval.
    Undecided,
}

/// A parsed condition.
#[derive(Clone, Debug)]
pub struct Condition {
    pub metric: Metric,
    operator: Operator,
    amount: Amount,
    text: String,
}

/// The text that is parsed and the position of the parser in it. Error messages show both.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn skip_blanks(&mut self) {
        self.take(|c| c.is_whitespace());
    }

    fn take(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn error(&self, at: usize, message: impl fmt::Display) -> Error {
        let column = self.text[..at].chars().count();
        Error::new(format!(
            "--fail-if: {message}\n  {}\n  {}^ column {}",
            self.text,
            " ".repeat(column),
            column + 1
        ))
    }
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// An error that shows the position in the text and what is expected there.
    pub fn parse(text: &str) -> Result<Condition, Error> {
        let mut reader = Reader { text, at: 0 };
        reader.skip_blanks();
        let at = reader.at;
        let name = reader.take(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() {
            return Err(reader
                .error(at, "expected the name of a metric")
                .hint(format!("the metrics are {}", metric::names(", "))));
        }
        let metric = Metric::find(name)
            .map_err(|hint| reader.error(at, format_args!("there is no metric '{name}'")).hint(hint))?;
        reader.skip_blanks();
        let at = reader.at;
        let operator = match reader.take(|c| "<>=!".contains(c) || c.is_ascii_alphabetic()) {
            ">" => Operator::Above,
            ">=" => Operator::AtLeast,
            "<" => Operator::Below,
            "<=" => Operator::AtMost,
            "worse" if metric.figure.unit == Unit::Score || metric.figure.better.is_some() => Operator::Worse,
            "worse" => {
                let message = format!("neither higher nor lower values of {} are worse", metric.name);
                return Err(reader.error(at, message).hint("use >, >=, < or <="));
            }
            other => {
                let found = if other.is_empty() {
                    String::new()
                } else {
                    format!(", not '{other}'")
                };
                return Err(reader
                    .error(at, format_args!("expected >, >=, <, <= or worse{found}"))
                    .hint("for example 'p99_wakeup > +5%' or 'score worse 3%'"));
            }
        };
        reader.skip_blanks();
        let amount = parse_amount(&mut reader, &metric, operator == Operator::Worse)?;
        reader.skip_blanks();
        if reader.at < text.len() {
            return Err(reader
                .error(reader.at, "unexpected text after the condition")
                .hint("repeat --fail-if for each condition"));
        }
        Ok(Condition {
            metric,
            operator,
            amount,
            text: text.trim().to_owned(),
        })
    }

    /// Compares the confidence interval with the limit. With a single pair of runs there is no
    /// interval, so the value itself is compared. `better` is the direction of better values, which
    /// only the operator `worse` needs.
    pub fn judge(&self, effect: &Effect, better: Option<Better>) -> Judgement {
        let falls = self.operator == Operator::Worse && better == Some(Better::Higher);
        let (interval, limit) = match self.amount {
            // The ratio 1 - x is as far below 1 as the ratio 1 + x is above it.
            Amount::Ratio(ratio) => (&effect.ratio, if falls { 2.0 - ratio } else { ratio }),
            Amount::Difference(amount) => (&effect.difference, if falls { -amount } else { amount }),
        };
        let (low, high) = interval.ends();
        // Whether each end of the interval satisfies the condition.
        let ends = [low, high].map(|end| match self.operator {
            Operator::Above => end > limit,
            Operator::AtLeast => end >= limit,
            Operator::Below => end < limit,
            Operator::AtMost => end <= limit,
            Operator::Worse => (end > limit) != falls && end != limit,
        });
        match ends {
            [true, true] => Judgement::Holds,
            [false, false] => Judgement::DoesNotHold,
            _ => Judgement::Undecided,
        }
    }
}

/// Parses an amount. With `is_loss`, the amount has no sign and is no ratio, because `worse` says in
/// which direction the metric changes.
fn parse_amount(reader: &mut Reader, metric: &Metric, is_loss: bool) -> Result<Amount, Error> {
    let at = reader.at;
    let sign = reader.take(|c| c == '+' || c == '-');
    let digits = reader.take(|c| c.is_ascii_digit() || c == '.');
    let number: f64 = match digits.parse() {
        Ok(number) if sign.len() <= 1 && !(is_loss && sign == "-") => number,
        _ => {
            let hint = match is_loss {
                true => "for example 'score worse 3%'",
                false => "for example +5%, -2.5%, 1.5x or +20us",
            };
            return Err(reader.error(at, "expected an amount of change").hint(hint));
        }
    };
    let number = if sign == "-" { -number } else { number };
    reader.skip_blanks();
    let unit_at = reader.at;
    let unit = reader.take(|c| c.is_ascii_alphabetic() || c == '%');
    let (is_time, is_percent) = match metric.figure.unit {
        Unit::Duration | Unit::TotalTime => (true, false),
        Unit::Percent => (false, true),
        Unit::Count | Unit::Score | Unit::Index => (false, false),
    };
    let time = |ns: f64| is_time.then_some(Amount::Difference(number * ns));
    let found = match unit {
        "" if sign.is_empty() => {
            let metric = metric.name;
            let difference = match (is_time, is_percent, is_loss) {
                (true, _, true) => format!("{digits}us (B - A)"),
                (true, _, false) => format!("+{digits}us (B - A)"),
                (_, true, true) => format!("{digits}pp (percentage points)"),
                (_, true, false) => format!("+{digits}pp (percentage points)"),
                (false, false, _) => format!("+{digits} (B - A, in the unit of {metric})"),
            };
            let relative = match is_loss {
                true => format!("{digits}% (of A)"),
                false => format!("+{digits}% (of A), {digits}x (times A)"),
            };
            return Err(reader
                .error(at, format_args!("'{digits}' has no unit"))
                .hint(format!("write {relative} or {difference}")));
        }
        _ if is_loss && !sign.is_empty() && !unit.is_empty() => {
            return Err(reader
                .error(at, format_args!("'{sign}{digits}{unit}' has a sign"))
                .hint(format!("an amount after worse has no sign: {digits}{unit}")));
        }
        "%" => Some(Amount::Ratio(1.0 + number / 100.0)),
        "x" if sign.is_empty() && !is_loss => Some(Amount::Ratio(number)),
        "ns" => time(1.0),
        "us" => time(1e3),
        "ms" => time(1e6),
        "s" => time(1e9),
        "pp" => is_percent.then_some(Amount::Difference(number)),
        "" => (!is_time && !is_percent).then_some(Amount::Difference(number)),
        _ => None,
    };
    found.ok_or_else(|| {
        let ratio = if is_loss { "%" } else { "%, x (without a sign)" };
        let fits = match (is_time, is_percent) {
            (true, _) => "ns, us, ms, s",
            (_, true) => "pp (percentage points)",
            (false, false) => "a difference with a sign (+1000)",
        };
        let written = if unit.is_empty() {
            "a number without a unit"
        } else {
            unit
        };
        reader.error(
            unit_at,
            format_args!(
                "{written} does not fit the metric {}: expected {ratio} or {fits}",
                metric.name
            ),
        )
    })
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(condition: &str, pairs: &[(f64, f64)]) -> bool {
        let condition = Condition::parse(condition).unwrap_or_else(|error| panic!("{error}"));
        let effect = Effect::from_pairs(pairs, 1).expect("the list of pairs is not empty");
        condition.judge(&effect, condition.metric.figure.better) == Judgement::Holds
    }

    #[test]
    fn a_condition_is_undecided_if_the_interval_contains_the_limit() {
        // The interval of the ratio is 1.079 to 1.121.
        let pairs = [(100.0, 109.0), (100.0, 110.0), (100.0, 111.0)];
        let effect = Effect::from_pairs(&pairs, 1).expect("the list of pairs is not empty");
        for (condition, expected) in [
            ("score > +7%", Judgement::Holds),
            ("score > +10%", Judgement::Undecided),
            ("score > +13%", Judgement::DoesNotHold),
            ("score < +13%", Judgement::Holds),
            ("score <= +10%", Judgement::Undecided),
            ("score < +7%", Judgement::DoesNotHold),
        ] {
            let parsed = Condition::parse(condition).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(parsed.judge(&effect, None), expected, "{condition}");
        }
        // With more evaluations, the interval is wider: 1.062 to 1.139 for three of them.
        let wider = Effect::from_pairs(&pairs, 3).expect("the list of pairs is not empty");
        let condition = Condition::parse("score > +7%").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(condition.judge(&wider, None), Judgement::Undecided);
    }

    #[test]
    fn worse_means_the_direction_of_the_metric() {
        let judge = |text: &str, pairs: &[(f64, f64)], better| {
            let effect = Effect::from_pairs(pairs, 1).expect("the list of pairs is not empty");
            let condition = Condition::parse(text).unwrap_or_else(|error| panic!("{error}"));
            condition.judge(&effect, Some(better))
        };
        let rise = [(100.0, 105.9), (100.0, 106.0), (100.0, 106.1)];
        let fall = [(100.0, 94.1), (100.0, 94.0), (100.0, 93.9)];
        let unclear = [(100.0, 90.0), (100.0, 97.0), (100.0, 104.0)];
        for (condition, pairs, lower, higher) in [
            ("score worse 5%", rise, Judgement::Holds, Judgement::DoesNotHold),
            ("score worse 5%", fall, Judgement::DoesNotHold, Judgement::Holds),
            ("score worse 7%", rise, Judgement::DoesNotHold, Judgement::DoesNotHold),
            ("score worse 7%", fall, Judgement::DoesNotHold, Judgement::DoesNotHold),
            ("score worse 6%", rise, Judgement::Undecided, Judgement::DoesNotHold),
            ("score worse 3%", unclear, Judgement::Undecided, Judgement::Undecided),
            ("score worse +5", fall, Judgement::DoesNotHold, Judgement::Holds),
            ("score worse +5", rise, Judgement::Holds, Judgement::DoesNotHold),
        ] {
            assert_eq!(judge(condition, &pairs, Better::Lower), lower, "{condition}");
            assert_eq!(judge(condition, &pairs, Better::Higher), higher, "{condition}");
        }
        // A change by exactly the amount is not worse by more than the amount.
        let same = [(100.0, 100.0), (100.0, 100.0)];
        for better in [Better::Lower, Better::Higher] {
            assert_eq!(judge("score worse 0%", &same, better), Judgement::DoesNotHold);
        }
        assert!(holds("p99_wakeup worse 20us", &[(1000.0, 25_000.0)]));
        assert!(!holds("p99_wakeup worse 20us", &[(25_000.0, 1000.0)]));
    }

    #[test]
    fn a_condition_holds_if_the_whole_interval_exceeds_the_limit() {
        let steady = [(100.0, 109.9), (100.0, 110.0), (100.0, 110.1)];
        for (condition, expected) in [
            ("p99_wakeup > +5%", true),
            ("p99_wakeup>5%", true),
            ("  p99_wakeup  >=  9 % ", true),
            ("p99_wakeup > 9.8 %", false),
            ("p99_wakeup < 1.2x", true),
            ("p99_wakeup > +9ns", true),
            ("p99_wakeup > +0.011us", false),
            ("p99_wakeup <= -1%", false),
        ] {
            assert_eq!(holds(condition, &steady), expected, "{condition}");
        }
        // The mean exceeds the limit, but the confidence interval includes smaller changes.
        assert!(!holds(
            "p99_wakeup > +5%",
            &[(100.0, 80.0), (100.0, 150.0), (100.0, 105.0)]
        ));
        // A single pair has no interval, so its value is compared.
        assert!(holds("overhead > +1pp", &[(1.0, 2.5)]) && !holds("overhead > +2pp", &[(1.0, 2.5)]));
        assert!(holds("score < -10%", &[(10.0, 8.0)]) && holds("switches > +1000", &[(0.0, 1001.0)]));
        // If A's value is 0, the ratio is infinite.
        assert!(holds("idle_while_waiting > +500%", &[(0.0, 1.0), (0.0, 1.1)]));
    }

    #[test]
    fn errors_show_the_position() {
        for (condition, column, part) in [
            ("p99_wakup > 5%", 1, "did you mean 'p99_wakeup'"),
            ("> 5%", 1, "expected the name of a metric"),
            ("score = 5%", 7, "not '='"),
            ("score 5%", 7, "expected >, >=, <, <= or worse"),
            ("score worst 5%", 7, "expected >, >=, <, <= or worse, not 'worst'"),
            (
                "score worse +5%",
                13,
                "'+5%' has a sign\n  score worse +5%\n              ^ column 13\n  hint: an amount after worse has no sign: 5%",
            ),
            ("score worse -5", 13, "expected an amount"),
            (
                "score worse 2x",
                14,
                "x does not fit the metric score: expected % or a difference with a sign (+1000)",
            ),
            (
                "score > 3",
                9,
                "hint: write +3% (of A), 3x (times A) or +3 (B - A, in the unit of score)",
            ),
            (
                "score worse 3",
                13,
                "hint: write 3% (of A) or +3 (B - A, in the unit of score)",
            ),
            (
                "p99_wakeup >= 20",
                15,
                "hint: write +20% (of A), 20x (times A) or +20us (B - A)",
            ),
            ("p99_wakeup worse 20", 18, "hint: write 20% (of A) or 20us (B - A)"),
            (
                "overhead > 5",
                12,
                "hint: write +5% (of A), 5x (times A) or +5pp (percentage points)",
            ),
            (
                "switches worse 5%",
                10,
                "neither higher nor lower values of switches are worse",
            ),
            ("score > ", 9, "expected an amount"),
            ("score > five", 9, "expected an amount"),
            ("score > 5us", 10, "us does not fit the metric score"),
            (
                "overhead > +5",
                14,
                "a number without a unit does not fit the metric overhead",
            ),
            ("p99_wakeup > +2x", 16, "x does not fit the metric p99_wakeup"),
            ("score > 5% and more", 12, "unexpected text after"),
        ] {
            let error = Condition::parse(condition).expect_err(condition).to_string();
            assert!(error.contains(part), "{condition}: {error}");
            assert!(error.contains(&format!("^ column {column}")), "{condition}: {error}");
            assert!(
                error.contains(&format!("\n  {condition}\n  {}^", " ".repeat(column - 1))),
                "{error}"
            );
        }
    }
}
