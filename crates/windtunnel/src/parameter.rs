// SPDX-License-Identifier: GPL-2.0-only
//! What a policy says of its parameters: a declaration tag `param: UNIT, LOW..HIGH: MEANING` on a global.

/// The words of a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub unit: String,
    /// Lowest and highest value, both allowed.
    pub range: Option<(i128, i128)>,
    pub meaning: String,
}

impl Parameter {
    /// Reads a declaration tag; `None` if it is not a parameter's.
    pub fn parse(tag: &str) -> Option<Parameter> {
        let text = tag.strip_prefix("param: ")?;
        let (head, meaning) = text.split_once(": ").unwrap_or(("", text));
        let (unit, range) = match head.rsplit_once(", ") {
            Some((unit, range)) => (unit, parse_range(range)),
            None => (head, None),
        };
        // A head that is not `UNIT, LOW..HIGH` is part of the meaning.
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

    /// # Errors
    /// If `value` is outside of the range: what the range is.
    pub fn check(&self, value: i128) -> Result<(), String> {
        match self.range {
            Some((low, high)) if !(low..=high).contains(&value) => Err(format!(
                "{value} is out of range: {low}..{high} {} ({})",
                self.unit, self.meaning
            )),
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
    fn tags_are_taken_apart() {
        let parameter = Parameter::parse("param: ns, 100..5000: time a task runs: its slice").expect("a parameter");
        assert_eq!((parameter.unit.as_str(), parameter.range), ("ns", Some((100, 5000))));
        assert_eq!(parameter.meaning, "time a task runs: its slice");
        assert_eq!(parameter.check(100), Ok(()));
        assert_eq!(parameter.check(5000), Ok(()));
        assert!(parameter.check(5001).unwrap_err().contains("100..5000 ns"));
        assert!(parameter.check(-1).is_err());
    }

    #[test]
    fn tags_without_a_range_allow_everything() {
        let parameter = Parameter::parse("param: note: whatever").expect("a parameter");
        assert_eq!((parameter.range, parameter.meaning.as_str()), (None, "note: whatever"));
        assert_eq!(parameter.check(i128::MAX), Ok(()));
        assert_eq!(Parameter::parse("something else"), None);
    }
}
