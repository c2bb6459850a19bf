// SPDX-License-Identifier: GPL-2.0-only
//! Conditions of a lab, for example `turn.max(hog) <= 11ms` or
//! `turnaround.mean(job) <= 0.8 * fifo:turnaround.mean(job)`.
//!
//! A condition compares a measure of the submission with a value, or with a measure of the
//! submission or of another policy in the same run. Both sides may have a factor.

use super::measure::{Measure, Unit};
use input::Error;
use input::duration;

/// A comparison of two terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The condition as the lab has it.
    pub text: String,
    pub left: Term,
    pub relation: Relation,
    pub right: Term,
}

/// A product of a factor and a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    pub factor: f64,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number in the unit of the other side: ns, percent or a count.
    Number(f64),
    /// A measure of a run. `policy` is `None` for the submission.
    Measure { policy: Option<String>, measure: Measure },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// The relations with their texts, those of two characters first.
const RELATIONS: [(&str, Relation); 4] = [
    ("<=", Relation::LessEqual),
    (">=", Relation::GreaterEqual),
    ("<", Relation::Less),
    (">", Relation::Greater),
];

impl Relation {
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Relation::Less => left < right,
            Relation::LessEqual => left <= right,
            Relation::Greater => left > right,
            Relation::GreaterEqual => left >= right,
        }
    }

    /// Returns the relation in words, as in `at most 11 ms`.
    pub fn words(self) -> &'static str {
        match self {
            Relation::Less => "less than",
            Relation::LessEqual => "at most",
            Relation::Greater => "more than",
            Relation::GreaterEqual => "at least",
        }
    }
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// The text is not a condition. The message says what is wrong with it.
    pub fn parse(text: &str) -> Result<Condition, Error> {
        let found = RELATIONS
            .iter()
            .find_map(|&(sign, relation)| Some((text.split_once(sign)?, relation)));
        let Some(((left, right), relation)) = found else {
            return Err(Error::new(format!(
                "'{text}' is not a condition, expected for example turn.max(hog) <= 11ms"
            )));
        };
        let left = Term::parse(left, None)?;
        let Value::Measure { policy: None, measure } = &left.value else {
            return Err(Error::new(format!(
                "'{text}': the left side must be a measure of the submission"
            )));
        };
        let unit = measure.unit();
        let right = Term::parse(right, Some(unit))?;
        if let Value::Measure { measure, .. } = &right.value
            && measure.unit() != unit
        {
            return Err(Error::new(format!("'{text}': the two sides have different units")));
        }
        Ok(Condition {
            text: text.trim().to_owned(),
            left,
            relation,
            right,
        })
    }
}

impl Term {
    /// Parses a term. `unit` is the unit of a number, or `None` if the term must be a measure.
    fn parse(text: &str, unit: Option<Unit>) -> Result<Term, Error> {
        let (factor, value) = match text.split_once('*') {
            Some((factor, value)) => (number(factor)?, value.trim()),
            None => (1.0, text.trim()),
        };
        let value = match unit {
            Some(unit) if value.starts_with(|c: char| c.is_ascii_digit()) => Value::Number(match unit {
                Unit::Time => nanoseconds(duration::parse(value)?),
                Unit::Percent => number(value.trim_end_matches('%'))?,
                Unit::Count => number(value)?,
            }),
            _ => {
                let (policy, name) = match value.split_once(':') {
                    Some((policy, name)) => (Some(policy.trim().to_owned()), name),
                    None => (None, value),
                };
                let measure = Measure::parse(name.trim())?;
                Value::Measure { policy, measure }
            }
        };
        Ok(Term { factor, value })
    }
}

fn number(text: &str) -> Result<f64, Error> {
    let text = text.trim();
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
    value.ok_or_else(|| Error::new(format!("'{text}' is not a number")))
}

/// Converts a time to a number. The conversion is exact up to 104 days.
#[allow(clippy::cast_precision_loss)]
pub fn nanoseconds(ns: u64) -> f64 {
    ns as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_compares_a_measure_with_a_value_or_a_measure() {
        let parse = |text: &str| Condition::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let condition = parse("turn.max(hog) <= 11ms");
        assert_eq!(
            (condition.relation, condition.right.value.clone()),
            (Relation::LessEqual, Value::Number(11e6))
        );
        let condition = parse("turnaround.mean(job) < 0.8 * fifo:turnaround.mean(job)");
        assert_eq!((condition.right.factor, condition.relation), (0.8, Relation::Less));
        assert!(matches!(&condition.right.value, Value::Measure { policy, .. } if policy.as_deref() == Some("fifo")));
        assert_eq!(parse("overhead <= 3%").right.value, Value::Number(3.0));
        assert_eq!(parse("llc_migrations(job) <= 5").right.value, Value::Number(5.0));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (text, error) in [
            ("turn.max(hog)", "is not a condition"),
            ("turn.max(hog) <= 11", "has no unit"),
            ("trun.max(hog) <= 11ms", "there is no measure 'trun.max'"),
            ("turn.max <= 11ms", "turn.max needs the name of a task"),
            ("idle.max(hog) <= 11ms", "idle.max is a measure of the whole run"),
            ("fifo:idle.max <= 11ms", "must be a measure of the submission"),
            ("idle.max <= switches", "different units"),
            ("idle.max <= x * switches", "'x' is not a number"),
        ] {
            let found = Condition::parse(text).expect_err(text);
            assert!(found.message.contains(error), "{text}: {found}");
        }
    }
}
