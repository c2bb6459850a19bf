// SPDX-License-Identifier: GPL-2.0-only
//! Parameters of generators: their declarations, and the values that a user gives.

use input::{Error, suggest};

/// Unit of a parameter's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    Count,
    /// Plain numbers separated by `/`. Each must be within the range.
    Counts,
    /// Time in ns, written with ns, us, ms or s.
    Time,
    /// Times separated by `/`. Each must be within the range.
    Times,
    /// Bytes. The suffixes k, m and g are powers of 1024. KiB and KB mean the same as k.
    Bytes,
    /// A word from this list.
    Choice(&'static [&'static str]),
}

/// A parameter of a generator.
#[derive(Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub unit: Unit,
    /// Default value in the user's notation; empty for no default.
    pub default: &'static str,
    /// Lowest and highest value in the user's notation. Unused for choices.
    pub range: (&'static str, &'static str),
    /// Description in one line.
    pub meaning: &'static str,
}

/// Makes the table of a generator's parameters. A row has the name, the unit, the default, the
/// range (unless the parameter is a choice) and the description. The last row can be a
/// [`Parameter`] that several generators have.
macro_rules! parameters {
    (
        $($name:literal: $unit:expr, $default:literal, $(($low:literal, $high:literal),)? $meaning:literal;)*
        $(..$shared:expr)?
    ) => {{
        use $crate::generator::arguments::{Parameter, Unit::*};
        &[
            $(Parameter {
                name: $name,
                unit: $unit,
                default: $default,
                range: [$(($low, $high),)? ("", "")][0],
                meaning: $meaning,
            },)*
            $($shared)?
        ]
    }};
}
pub(super) use parameters;

/// The values of all parameters of one generator.
pub struct Arguments<'a> {
    spec: &'a str,
    parameters: &'static [Parameter],
    given: Vec<Option<&'a str>>,
}

impl<'a> Arguments<'a> {
    /// Parses `key=value,key=value` and checks each value against its parameter.
    pub(crate) fn parse(
        spec: &'a str,
        parameters: &'static [Parameter],
        text: &'a str,
    ) -> Result<Arguments<'a>, Error> {
        let mut arguments = Arguments {
            spec,
            parameters,
            given: vec![None; parameters.len()],
        };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                return Err(Error::at(spec, format!("'{part}' has no value"))
                    .hint(format!("write {part}=VALUE and separate parameters by commas")));
            };
            let Some(index) = parameters.iter().position(|p| p.name == key) else {
                let names: Vec<&str> = parameters.iter().map(|p| p.name).collect();
                return Err(Error::at(spec, format!("there is no parameter '{key}'")).hint(suggest::hint(key, &names)));
            };
            if arguments.given[index].is_some() {
                return Err(Error::at(spec, format!("'{key}' is given twice")).hint("give each parameter once"));
            }
            parameters[index]
                .values(value)
                .map_err(|(message, hint)| Error::at(spec, format!("{key}={value}: {message}")).hint(hint))?;
            arguments.given[index] = Some(value);
        }
        Ok(arguments)
    }

    /// Returns the text that the user gave for a parameter, or the parameter's default.
    fn text(&self, name: &str) -> &str {
        let index = self.parameters.iter().position(|p| p.name == name);
        let index = index.expect("a generator asks only for parameters in its table");
        self.given[index].unwrap_or(self.parameters[index].default)
    }

    fn all(&self, name: &str) -> Vec<u64> {
        let parameter = self.parameters.iter().find(|p| p.name == name);
        let values = parameter.map(|p| p.values(self.text(name)));
        values
            .and_then(Result::ok)
            .expect("`parse` checked the given values, and a test checks the defaults")
    }

    /// Returns the value of a count, time or size. The parameter must be given or have a default.
    pub(crate) fn get(&self, name: &str) -> u64 {
        self.all(name)[0]
    }

    /// Returns the value of a count, time or size as a smaller type. The parameter's range must fit
    /// the type.
    pub(crate) fn small<N: TryFrom<u64>>(&self, name: &str) -> N {
        N::try_from(self.get(name)).unwrap_or_else(|_| panic!("the range of '{name}' exceeds its type"))
    }

    /// Returns the value of a parameter, or `None` if the user gave no value and the parameter has
    /// no default.
    pub(crate) fn optional(&self, name: &str) -> Option<u64> {
        (!self.text(name).is_empty()).then(|| self.get(name))
    }

    pub(crate) fn list(&self, name: &str) -> Vec<u64> {
        self.all(name)
    }

    pub(crate) fn choice(&self, name: &str) -> &str {
        self.text(name)
    }

    /// Returns whether the user gave a value.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.parameters
            .iter()
            .zip(&self.given)
            .any(|(p, given)| p.name == name && given.is_some())
    }

    pub(crate) fn error(&self, message: impl std::fmt::Display) -> Error {
        Error::at(self.spec, message)
    }
}

impl Parameter {
    /// Parses the values in `text`. The error is a message and a hint.
    fn values(&self, text: &str) -> Result<Vec<u64>, (String, String)> {
        match self.unit {
            Unit::Choice(words) => match words.iter().position(|word| *word == text) {
                Some(index) => Ok(vec![index as u64]),
                None => Err(("there is no such choice".into(), suggest::hint(text, words))),
            },
            Unit::Times | Unit::Counts => text.split('/').map(|text| self.value(text)).collect(),
            _ => Ok(vec![self.value(text)?]),
        }
    }

    fn value(&self, text: &str) -> Result<u64, (String, String)> {
        let expected = || format!("expected {}", self.expected());
        let value = self.unit.number(text).ok_or_else(|| {
            // A number that is valid with a unit lacks only the unit.
            let with_unit = self.unit.example().map(|unit| format!("{text}{unit}"));
            match with_unit.filter(|with_unit| self.unit.number(with_unit).is_some()) {
                Some(with_unit) => (
                    format!("'{text}' has no unit, write for example {with_unit}"),
                    expected(),
                ),
                None => (format!("'{text}' is not a value"), expected()),
            }
        })?;
        let bound = |text| self.unit.number(text).expect("a test checks the ranges");
        if (bound(self.range.0)..=bound(self.range.1)).contains(&value) {
            Ok(value)
        } else {
            Err(("out of range".into(), expected()))
        }
    }

    /// Returns a description of valid values for users: "a time such as 250ms or 20us, 0 to 10s".
    pub fn expected(&self) -> String {
        let (lo, hi) = self.range;
        match self.unit {
            Unit::Count => format!("a number, {lo} to {hi}"),
            Unit::Counts => format!("numbers such as 4/3, each {lo} to {hi}"),
            Unit::Time => format!("a time such as 250ms or 20us, {lo} to {hi}"),
            Unit::Times => format!("one or more times such as 1ms/2ms, each {lo} to {hi}"),
            Unit::Bytes => format!("a number of bytes such as 100 or 64k, {lo} to {hi}"),
            Unit::Choice(words) => words.join("|"),
        }
    }
}

impl Unit {
    /// Returns a usual unit of a time.
    fn example(self) -> Option<&'static str> {
        matches!(self, Unit::Time | Unit::Times).then_some("ms")
    }

    /// Parses a number with a suffix of this unit. A decimal such as 1.5ms is accepted if the value
    /// is an integer in ns or bytes.
    fn number(self, text: &str) -> Option<u64> {
        let suffix_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, suffix) = text.split_at(suffix_at);
        let lower = suffix.to_ascii_lowercase();
        let suffix = if self == Unit::Bytes { &lower } else { suffix };
        let scale: u64 = match (self, suffix) {
            (Unit::Count | Unit::Counts, "") | (Unit::Bytes, "" | "b") | (Unit::Time | Unit::Times, "ns") => 1,
            (Unit::Time | Unit::Times, "us") => 1_000,
            (Unit::Time | Unit::Times, "ms") => 1_000_000,
            (Unit::Time | Unit::Times, "s") => 1_000_000_000,
            (Unit::Time | Unit::Times, "") if number == "0" => 1,
            (Unit::Bytes, "k" | "kb" | "kib") => 1 << 10,
            (Unit::Bytes, "m" | "mb" | "mib") => 1 << 20,
            (Unit::Bytes, "g" | "gb" | "gib") => 1 << 30,
            _ => return None,
        };
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(decimals) || decimals.len() > 9 {
            return None;
        }
        let mut value = whole.parse::<u64>().ok()?.checked_mul(scale)?;
        if !decimals.is_empty() {
            let unit = decimals.bytes().fold(1u64, |unit, _| unit * 10);
            let part = decimals.parse::<u64>().ok()?.checked_mul(scale)?;
            if part % unit != 0 {
                return None;
            }
            value = value.checked_add(part / unit)?;
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_parsed() {
        for (unit, text, value) in [
            (Unit::Time, "250ms", Some(250_000_000)),
            (Unit::Time, "1.5us", Some(1_500)),
            (Unit::Time, "20", None),
            (Unit::Time, "0", Some(0)),
            (Unit::Time, "1.5ns", None),
            (Unit::Time, "99999999999999999999s", None),
            (Unit::Bytes, "64k", Some(65_536)),
            (Unit::Bytes, "64 KiB", None),
            (Unit::Bytes, "64KiB", Some(65_536)),
            (Unit::Bytes, "64K", Some(65_536)),
            (Unit::Bytes, "1MB", Some(1 << 20)),
            (Unit::Bytes, "100b", Some(100)),
            (Unit::Bytes, "100iB", None),
            (Unit::Count, "7", Some(7)),
            (Unit::Count, "7k", None),
            (Unit::Count, "-7", None),
            (Unit::Count, "", None),
            (Unit::Count, "1..2", None),
        ] {
            assert_eq!(unit.number(text), value, "{unit:?} {text}");
        }
    }

    #[test]
    fn a_time_without_a_unit_is_refused_with_an_example() {
        let parameter = |unit| Parameter {
            name: "compute",
            unit,
            default: "",
            range: ("1ns", "10s"),
            meaning: "",
        };
        let (message, hint) = parameter(Unit::Times).values("1ms/20").expect_err("no unit");
        assert_eq!(message, "'20' has no unit, write for example 20ms");
        assert_eq!(hint, "expected one or more times such as 1ms/2ms, each 1ns to 10s");
        let (message, _) = parameter(Unit::Time).values("20kg").expect_err("a wrong unit");
        assert_eq!(message, "'20kg' is not a value");
    }
}
