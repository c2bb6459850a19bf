// SPDX-License-Identifier: GPL-2.0-only
//! Expressions for the values in profiles (files that replace the user-space part of a policy). An
//! expression is an integer expression of C without assignment. Names in them stand for properties
//! of the machine.
//!
//! These operators exist, in order of increasing precedence: `|`, `&`, comparisons (1 or 0), `<<
//! >>`, `+ -`, `* / %`, and a minus sign before a factor. A factor is one of these:
//! - a number: decimal, which may contain `_`, or hexadecimal
//! - `true`, `false` or a name
//! - an expression in parentheses
//! - `min(a, b)`, `max(a, b)`, `log2(a)` (rounded down), `sizeof(type)` or `has(variable)`
//!
//! Values are 64-bit integers. If a result does not fit in 64 bits, it wraps.

use crate::error::{ExpressionError as E, ProfileError};

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    Number(i64),
    Name(String),
    SizeOf(String),
    Has(String),
    Minus(Box<Expression>),
    Log2(Box<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    AtMost,
    AtLeast,
    Less,
    Greater,
    Left,
    Right,
    Plus,
    Minus,
    Times,
    Over,
    Modulo,
    Min,
    Max,
}

use Operator::*;

/// The operators, in order of increasing precedence. If an operator begins with the characters of
/// another one (`<=` and `<`), the longer operator is listed first.
const LEVELS: &[&[(&str, Operator)]] = &[
    &[("|", Or)],
    &[("&", And)],
    &[
        ("==", Equal),
        ("!=", Unequal),
        ("<=", AtMost),
        (">=", AtLeast),
        ("<", Less),
        (">", Greater),
    ],
    &[("<<", Left), (">>", Right)],
    &[("+", Plus), ("-", Minus)],
    &[("*", Times), ("/", Over), ("%", Modulo)],
];

/// Maximum depth to which parentheses, calls and signs can be nested.
pub(crate) const MAX_DEPTH: u32 = 32;
/// Maximum number of numbers and names in an expression. The limit exists because the evaluation of
/// an expression is recursive.
pub(crate) const MAX_FACTORS: u32 = 256;

/// Returns the values of the names in an expression.
pub(crate) trait Names {
    fn name(&self, name: &str) -> Result<i64, E>;
    fn size_of(&self, ty: &str) -> Result<i64, E>;

    /// Returns 1 if the policy's object has this global variable or map, otherwise 0.
    ///
    /// # Errors
    /// The object is not known.
    fn has(&self, variable: &str) -> Result<i64, E>;
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// The text is not an expression.
    pub(crate) fn parse(text: &str) -> Result<Expression, ProfileError> {
        let mut reader = Reader {
            rest: text.trim_start(),
            depth: 0,
            factors: 0,
        };
        let value = reader
            .level(0)
            .and_then(|value| match reader.rest {
                "" => Ok(value),
                rest => Err(E::Unexpected(rest.into())),
            })
            .map_err(|error| error.of(text))?;
        Ok(value)
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// The expression uses an unknown name or divides by 0.
    pub(crate) fn value(&self, names: &impl Names) -> Result<i64, E> {
        Ok(match self {
            Expression::Number(number) => *number,
            Expression::Name(name) => names.name(name)?,
            Expression::SizeOf(ty) => names.size_of(ty)?,
            Expression::Has(variable) => names.has(variable)?,
            Expression::Minus(operand) => operand.value(names)?.wrapping_neg(),
            Expression::Log2(operand) => match operand.value(names)? {
                value @ 1.. => i64::from(value.ilog2()),
                value => return Err(E::Log2(value)),
            },
            Expression::Binary(operator, left, right) => operator.apply(left.value(names)?, right.value(names)?)?,
        })
    }

    /// Calls `each` with every name in the expression.
    pub(crate) fn names<'e>(&'e self, each: &mut dyn FnMut(&'e str)) {
        match self {
            Expression::Number(_) | Expression::SizeOf(_) | Expression::Has(_) => {}
            Expression::Name(name) => each(name),
            Expression::Minus(operand) | Expression::Log2(operand) => operand.names(each),
            Expression::Binary(_, left, right) => {
                left.names(each);
                right.names(each);
            }
        }
    }
}

impl Operator {
    fn apply(self, a: i64, b: i64) -> Result<i64, E> {
        Ok(match self {
            Or => a | b,
            And => a & b,
            Equal => i64::from(a == b),
            Unequal => i64::from(a != b),
            AtMost => i64::from(a <= b),
            AtLeast => i64::from(a >= b),
            Less => i64::from(a < b),
            Greater => i64::from(a > b),
            // Bits that are shifted beyond bit 63 are lost, as in C.
            Left => u32::try_from(b).ok().and_then(|by| a.checked_shl(by)).unwrap_or(0),
            Right => u32::try_from(b).ok().and_then(|by| a.checked_shr(by)).unwrap_or(0),
            Plus => a.wrapping_add(b),
            Minus => a.wrapping_sub(b),
            Times => a.wrapping_mul(b),
            Over | Modulo if b == 0 => return Err(E::DivisionByZero),
            Over => a.wrapping_div(b),
            Modulo => a.wrapping_rem(b),
            Min => a.min(b),
            Max => a.max(b),
        })
    }
}

struct Reader<'t> {
    rest: &'t str,
    /// Nesting depth of the factor that is being parsed.
    depth: u32,
    /// Number of factors that have been parsed.
    factors: u32,
}

impl<'t> Reader<'t> {
    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &'static str) -> Result<(), E> {
        match self.take(token) {
            true => Ok(()),
            false => Err(E::MissingToken {
                token,
                before: self.rest.into(),
            }),
        }
    }

    fn operator(&mut self, level: usize) -> Option<Operator> {
        // The first `<` of `<<` is not a comparison, and neither is the first `>` of `>>`.
        if LEVELS[level].contains(&("<", Less)) && (self.rest.starts_with("<<") || self.rest.starts_with(">>")) {
            return None;
        }
        let found = LEVELS[level]
            .iter()
            .find(|(spelling, _)| self.rest.starts_with(spelling));
        let &(spelling, operator) = found?;
        self.take(spelling);
        Some(operator)
    }

    fn level(&mut self, level: usize) -> Result<Expression, E> {
        if level == LEVELS.len() {
            return self.factor();
        }
        let mut value = self.level(level + 1)?;
        while let Some(operator) = self.operator(level) {
            let right = self.level(level + 1)?;
            value = Expression::Binary(operator, Box::new(value), Box::new(right));
        }
        Ok(value)
    }

    fn word(&mut self) -> &'t str {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    fn factor(&mut self) -> Result<Expression, E> {
        self.factors += 1;
        if self.factors > MAX_FACTORS {
            return Err(E::TooManyValues);
        }
        if self.depth == MAX_DEPTH {
            return Err(E::TooDeep);
        }
        self.depth += 1;
        let factor = self.nested_factor();
        self.depth -= 1;
        factor
    }

    fn nested_factor(&mut self) -> Result<Expression, E> {
        if self.take("-") {
            return Ok(Expression::Minus(Box::new(self.factor()?)));
        }
        if self.take("(") {
            let inner = self.level(0)?;
            self.expect(")")?;
            return Ok(inner);
        }
        let word = self.word();
        match word {
            "" => Err(E::MissingValue {
                before: (!self.rest.is_empty()).then(|| self.rest.into()),
            }),
            "true" => Ok(Expression::Number(1)),
            "false" => Ok(Expression::Number(0)),
            _ if word.starts_with(|c: char| c.is_ascii_digit()) => number(word).map(Expression::Number),
            _ if self.take("(") => self.call(word),
            _ => Ok(Expression::Name(word.into())),
        }
    }

    fn call(&mut self, function: &str) -> Result<Expression, E> {
        let called = match function {
            "sizeof" => Expression::SizeOf(self.word().into()),
            "has" => Expression::Has(self.word().into()),
            "log2" => Expression::Log2(Box::new(self.level(0)?)),
            "min" | "max" => {
                let left = self.level(0)?;
                self.expect(",")?;
                let operator = if function == "min" { Min } else { Max };
                Expression::Binary(operator, Box::new(left), Box::new(self.level(0)?))
            }
            _ => return Err(E::UnknownFunction(function.into())),
        };
        self.expect(")")?;
        Ok(called)
    }
}

/// Parses a number up to the maximum of u64. Numbers above the maximum of i64 wrap to negative
/// values.
fn number(word: &str) -> Result<i64, E> {
    let digits = word.replace('_', "");
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    value.map(u64::cast_signed).map_err(|error| E::Number {
        word: word.into(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestNames;

    impl Names for TestNames {
        fn name(&self, name: &str) -> Result<i64, E> {
            match name {
                "two" => Ok(2),
                _ => Err(E::UnknownName(name.into())),
            }
        }

        fn size_of(&self, ty: &str) -> Result<i64, E> {
            Ok(ty.len() as i64)
        }

        fn has(&self, variable: &str) -> Result<i64, E> {
            Ok(i64::from(variable == "known"))
        }
    }

    fn value(text: &str) -> Result<i64, String> {
        let value = Expression::parse(text).and_then(|value| value.value(&TestNames).map_err(|error| error.of(text)));
        value.map_err(|error| error.to_string())
    }

    #[test]
    fn operators_have_the_precedence_of_c() {
        for (text, expect) in [
            ("1 | 2 * 3", 7),
            ("7 & 1 + 1", 2),
            ("1 << 2 + 1", 8),
            ("6 - 2 - 1", 3),
            ("-two * 3 + 10 / 3 % two", -5),
            ("1 + 1 == two", 1),
            ("1 <= 0 | 3 >= 3 | 1 < 0 | 0 > 1 | 1 != 1", 1),
            ("(1 | 2) * 3", 9),
            ("0xffff_ffff", 0xffff_ffff),
            ("18446744073709551615", -1),
            ("1 << 64", 0),
            ("min(3, two) + max(3, two) + log2(9) + sizeof(abcd)", 12),
            ("true + false", 1),
            ("has(known) * 2 + has(other)", 2),
        ] {
            assert_eq!(value(text), Ok(expect), "{text}");
        }
    }

    #[test]
    fn invalid_expressions_are_refused_with_the_reason() {
        for (text, expect) in [
            ("", "a value is missing"),
            ("1 +", "a value is missing"),
            ("1 2", "unexpected '2'"),
            ("(1", "')' is missing"),
            ("min(1)", "',' is missing"),
            ("sin(1)", "no function sin"),
            ("1 / 0", "division by 0"),
            ("log2(0)", "log2(0) is undefined"),
            ("three", "'three' is neither a property"),
            ("3x", "'3x'"),
        ] {
            let error = value(text).expect_err(text);
            assert!(error.contains(expect), "{text}: {error}");
        }
    }

    #[test]
    fn long_and_deep_expressions_are_refused() {
        let deep = |nr: usize| format!("{}1{}", "(".repeat(nr), ")".repeat(nr));
        assert_eq!(value(&deep(31)), Ok(1));
        for text in [
            deep(32),
            deep(1_000_000),
            "-".repeat(1_000_000),
            "log2(".repeat(1_000_000),
        ] {
            let error = value(&text).expect_err("too deep");
            assert!(error.ends_with("the expression nests deeper than 32 levels: split it"));
        }
        assert_eq!(value(&vec!["1"; 256].join("+")), Ok(256));
        let error = value(&vec!["1"; 1_000_000].join("+")).expect_err("too long");
        assert!(error.ends_with("the expression has more than 256 values: split it"));
    }
}
