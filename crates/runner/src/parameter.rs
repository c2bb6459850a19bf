// SPDX-License-Identifier: GPL-2.0-only
//! Parses the documentation of a policy's parameters. A parameter is a global variable with a BTF
//! declaration tag `param: UNIT, LOW..HIGH: MEANING`.

/// The content of a parameter's declaration tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub unit: String,
    /// Lowest and highest allowed value.
    pub range: Option<(i128, i128)>,
    pub meaning: String,
}

impl Parameter {
    /// Parses a declaration tag. Returns `None` if it does not begin with `param: `.
    pub fn parse(tag: &str) -> Option<Parameter> {
        let text = tag.strip_prefix("param: ")?;
        let (head, meaning) = text.split_once(": ").unwrap_or(("", text));
        let (unit, range) = match head.rsplit_once(", ") {
            Some((unit, range)) => (unit, parse_range(range)),
            None => (head, None),
        };
        // If the text before the first colon is not `UNIT, LOW..HIGH`, it is part of the meaning.
        if range.is_none() && !head.is_empty() {
            return Some(Parameter {
                unit: String::new(),
                range: None,
                meaning: text.to_owned(),
            });
        }
        Some(Parameter {
            unit: unit.to_owned(),
            range,
            meaning: meaning.to_owned(),
        })
    }

    /// Checks that `value` is in the parameter's range.
    ///
    /// # Errors
    /// A message with the range.
    pub fn check(&self, value: i128) -> Result<(), input::Error> {
        match self.range {
            Some((low, high)) if !(low..=high).contains(&value) => Err(input::Error::new(format!(
                "{value} is out of range: expected {low} to {high} {} ({})",
                self.unit, self.meaning
            ))),
            _ => Ok(()),
        }
    }
}

fn parse_range(text: &str) -> Option<(i128, i128)> {
    let (low, high) = text.split_once("..")?;
    Some((low.trim().parse().ok()?, high.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_has_a_unit_a_range_and_a_meaning() {
        let parameter =
            Parameter::parse("param: ns, 100..5000: time a task runs: its slice").expect("the declaration is valid");
        assert_eq!((parameter.unit.as_str(), parameter.range), ("ns", Some((100, 5000))));
        assert_eq!(parameter.meaning, "time a task runs: its slice");
        assert_eq!(parameter.check(100), Ok(()));
        assert_eq!(parameter.check(5000), Ok(()));
        assert!(
            parameter
                .check(5001)
                .unwrap_err()
                .message
                .contains("expected 100 to 5000 ns")
        );
        assert!(parameter.check(-1).is_err());
    }

    #[test]
    fn a_tag_without_a_range_allows_every_value() {
        let parameter = Parameter::parse("param: note: whatever").expect("the declaration is valid");
        assert_eq!((parameter.range, parameter.meaning.as_str()), (None, "note: whatever"));
        assert_eq!(parameter.check(i128::MAX), Ok(()));
        assert_eq!(Parameter::parse("something else"), None);
    }
}
