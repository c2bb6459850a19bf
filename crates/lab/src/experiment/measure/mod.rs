// SPDX-License-Identifier: GPL-2.0-only
//! The quantities that an experiment can measure in a run.
//!
//! The list consists of the figures of a run's result ([`report::FIGURES`]) and of the constant
//! `KINDS` of each file in this directory.

mod arguments;
mod control;
mod policy;
mod queue;
mod response;
mod result;

pub use arguments::Arguments;

use super::observe::Observed;
use input::Error;
use report::Better;

/// A kind of measure. The definition file of an experiment selects it by its name.
#[derive(Clone, Copy)]
pub struct MeasureKind {
    pub name: &'static str,
    /// Description in one line, with the unit.
    pub about: &'static str,
    /// Names and meanings of the arguments.
    pub arguments: &'static [(&'static str, &'static str)],
    /// Creates the measure from its name and arguments.
    make: fn(&str, &Arguments) -> Result<Measure, Error>,
}

/// A quantity that is measured in a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    Result(result::Measure),
    Response(response::Measure),
    Policy(policy::Measure),
    Control(control::Measure),
    Queue(queue::Measure),
}

static GROUPS: &[&[MeasureKind]] = &[
    result::KINDS,
    response::KINDS,
    policy::KINDS,
    control::KINDS,
    queue::KINDS,
];

/// Returns all kinds of measures. Those that are figures of a run's result come first.
pub fn kinds() -> impl Iterator<Item = MeasureKind> {
    result::figures().chain(GROUPS.iter().copied().flatten().copied())
}

impl Measure {
    /// Creates the measure with this name and these arguments.
    ///
    /// # Errors
    /// The name or an argument is not valid.
    pub fn make(name: &str, arguments: &Arguments) -> Result<Measure, Error> {
        let Some(kind) = kinds().find(|kind| kind.name == name) else {
            let names: Vec<&str> = kinds().map(|kind| kind.name).collect();
            return Err(Error::new(format!(
                "there is no measure '{name}'\n  hint: relative_percent, speedup_percent, {}",
                names.join(", ")
            )));
        };
        arguments.check_names(kind.arguments)?;
        (kind.make)(name, arguments)
    }

    /// Returns the value in a run.
    ///
    /// # Errors
    /// The reason why the run has no such value.
    pub fn value(&self, seen: &Observed) -> Result<f64, Error> {
        match self {
            Measure::Result(measure) => measure.value(seen),
            Measure::Response(measure) => measure.value(seen),
            Measure::Policy(measure) => measure.value(seen),
            Measure::Control(measure) => measure.value(seen),
            Measure::Queue(measure) => measure.value(seen),
        }
    }

    /// Returns the global variable that the measure reads and the time at which it reads the
    /// variable. The time `None` means the end of the run. Returns `None` if the measure reads no
    /// variable.
    pub fn global(&self) -> Option<(Option<u64>, &str)> {
        match self {
            Measure::Policy(measure) => Some((measure.at_ns, &measure.name)),
            _ => None,
        }
    }

    /// Returns the time at which the measure needs the lengths of queues, in ns.
    pub fn sample_time(&self) -> Option<u64> {
        match self {
            Measure::Queue(measure) => measure.sample_time(),
            _ => None,
        }
    }
}

/// How a value is compared with the value of the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    /// Change in percent of the baseline's value, positive for an improvement. For a value x and a
    /// baseline b this is x/b - 1 if higher values are better, and 1 - x/b if lower values are
    /// better.
    Relative,
    /// Speedup in percent: x/b - 1 if higher values are better, and b/x - 1 if lower values are
    /// better.
    Speedup,
}

impl Against {
    pub fn compare(self, value: f64, baseline: f64, better: Better) -> f64 {
        let gain = match (self, better) {
            (_, Better::Higher) => value / baseline - 1.0,
            (Against::Relative, Better::Lower) => 1.0 - value / baseline,
            (Against::Speedup, Better::Lower) => baseline / value - 1.0,
        };
        gain * 100.0
    }
}

/// How the values for several seeds are combined into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Across {
    Mean,
    Deviation,
    Least,
    Most,
    /// Number of values.
    Count,
    /// Half width of the 95 % confidence interval of the mean.
    HalfWidth,
}

/// A measure, and how a cell of the table is computed from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    pub measure: Measure,
    pub against: Option<Against>,
    /// Whether higher or lower values are better. `None` if the workload defines it, which is the
    /// case for scores.
    pub better: Option<Better>,
    /// Factor by which the value is multiplied, for example because the run is smaller than the
    /// published experiment.
    pub scale: f64,
    pub across: Across,
}

impl Quantity {
    /// Creates the quantity with this name and these arguments.
    ///
    /// # Errors
    /// The name or an argument is not valid.
    pub fn make(name: &str, mut arguments: Arguments) -> Result<Quantity, Error> {
        let across = match arguments.take("across").as_deref() {
            None | Some("mean") => Across::Mean,
            Some("deviation") => Across::Deviation,
            Some("min") => Across::Least,
            Some("max") => Across::Most,
            Some("count") => Across::Count,
            Some("half_width") => Across::HalfWidth,
            Some(other) => {
                return Err(Error::new(format!(
                    "across = '{other}': expected mean, deviation, min, max, count or half_width"
                )));
            }
        };
        let scale = match arguments.take("scale").map(|text| (text.parse(), text)) {
            None => 1.0,
            Some((Ok(scale), _)) => scale,
            Some((Err(_), text)) => return Err(Error::new(format!("scale = '{text}': expected a number"))),
        };
        let against = match name {
            "relative_percent" => Some(Against::Relative),
            "speedup_percent" => Some(Against::Speedup),
            _ => None,
        };
        if against.is_none() {
            let measure = Measure::make(name, &arguments)?;
            return Ok(Quantity {
                measure,
                against,
                better: None,
                scale,
                across,
            });
        }
        let quantity = arguments.take("of").unwrap_or_else(|| "score".into());
        let better = match arguments.take("better").as_deref() {
            None if quantity == "score" => None,
            Some("higher") => Some(Better::Higher),
            Some("lower") => Some(Better::Lower),
            _ => {
                return Err(Error::new(format!(
                    "{name} of {quantity} needs better = \"higher\" or \"lower\""
                )));
            }
        };
        Ok(Quantity {
            measure: Measure::make(&quantity, &arguments)?,
            against,
            better,
            scale,
            across,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_improvement_is_a_positive_change() {
        let compare = |against: Against, value, better| against.compare(value, 8.0, better).round();
        assert_eq!(compare(Against::Relative, 10.0, Better::Higher), 25.0);
        assert_eq!(compare(Against::Relative, 6.0, Better::Lower), 25.0);
        assert_eq!(compare(Against::Speedup, 6.0, Better::Lower), 33.0);
        assert_eq!(compare(Against::Speedup, 10.0, Better::Lower), -20.0);
        assert_eq!(compare(Against::Relative, 4.0, Better::Higher), -50.0);
    }

    #[test]
    fn names_and_arguments_are_checked() {
        let quantity = |name: &str, arguments: &[(&str, &str)]| Quantity::make(name, Arguments::new(arguments));
        assert!(quantity("score", &[]).is_ok());
        assert!(quantity("relative_percent", &[]).is_ok_and(|q| q.against == Some(Against::Relative)));
        assert!(quantity("relative_percent", &[("of", "wakeups"), ("better", "lower")]).is_ok());
        for (name, arguments, message) in [
            ("scores", &[][..], "no measure 'scores'"),
            ("score", &[("tsk", "x")][..], "unknown argument 'tsk'"),
            ("relative_percent", &[("of", "wakeups")][..], "needs better"),
            ("response_ms", &[("stat", "q")][..], "stat"),
            ("response_ms", &[("after", "ten")][..], "after"),
            ("counter", &[][..], "name"),
            ("score", &[("across", "x")][..], "across"),
        ] {
            let error = quantity(name, arguments).expect_err(name);
            assert!(error.message.contains(message), "{error}");
        }
    }
}
