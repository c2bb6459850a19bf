// SPDX-License-Identifier: GPL-2.0-only
//! The closed list of what can be measured of a run: figures of the result ([`report::FIGURES`]), and one file for each
//! other kind of evidence, with its entries in a list `KINDS`.

mod arguments;
mod control;
mod policy;
mod queue;
mod response;
mod result;

pub use arguments::Arguments;

use super::observe::Observed;
use report::Better;

/// One entry of the list.
#[derive(Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    /// One line, with the unit.
    pub about: &'static str,
    /// Names and meanings of its arguments.
    pub arguments: &'static [(&'static str, &'static str)],
    /// Makes the measure from the name and the arguments.
    make: fn(&str, &Arguments) -> Result<Measure, String>,
}

/// A number of one run.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    Result(result::Measure),
    Response(response::Measure),
    Policy(policy::Measure),
    Control(control::Measure),
    Queue(queue::Measure),
}

static GROUPS: &[&[Kind]] = &[
    result::KINDS,
    response::KINDS,
    policy::KINDS,
    control::KINDS,
    queue::KINDS,
];

/// All kinds: the figures of a result first.
pub fn kinds() -> impl Iterator<Item = Kind> {
    result::figures().chain(GROUPS.iter().copied().flatten().copied())
}

impl Measure {
    /// # Errors
    /// What is wrong with the name or an argument.
    pub fn make(name: &str, arguments: &Arguments) -> Result<Measure, String> {
        let Some(kind) = kinds().find(|kind| kind.name == name) else {
            let names: Vec<&str> = kinds().map(|kind| kind.name).collect();
            return Err(format!(
                "there is no measure '{name}'\n  hint: relative_percent, speedup_percent, {}",
                names.join(", ")
            ));
        };
        arguments.only(kind.arguments)?;
        (kind.make)(name, arguments)
    }

    /// Its value.
    ///
    /// # Errors
    /// Why the run has none.
    pub fn value(&self, seen: &Observed) -> Result<f64, String> {
        match self {
            Measure::Result(measure) => measure.value(seen),
            Measure::Response(measure) => measure.value(seen),
            Measure::Policy(measure) => measure.value(seen),
            Measure::Control(measure) => measure.value(seen),
            Measure::Queue(measure) => measure.value(seen),
        }
    }

    /// The global of the policy that it reads, and when (`None`: at the end).
    pub fn global(&self) -> Option<(Option<u64>, &str)> {
        match self {
            Measure::Policy(measure) => Some((measure.at_ns, &measure.name)),
            _ => None,
        }
    }

    /// When it looks at the queues.
    pub fn look(&self) -> Option<u64> {
        match self {
            Measure::Queue(measure) => measure.look(),
            _ => None,
        }
    }
}

/// How a case's value is compared with the baseline's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    /// Change in percent of the baseline's value, + is better: a rate x/b - 1, a time 1 - t/b.
    Relative,
    /// How much faster in percent: a rate x/b - 1, a time b/t - 1.
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

/// What becomes of the values of several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Across {
    Mean,
    Deviation,
    Least,
    Most,
    /// How many there are.
    Count,
    /// Half the width of the mean's 95 % confidence interval.
    HalfWidth,
}

/// What a cell shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    pub measure: Measure,
    pub against: Option<Against>,
    /// Which is better, unless the workload's score says so.
    pub better: Option<Better>,
    /// A factor, where the run is smaller than the source's or the unit another one.
    pub scale: f64,
    pub across: Across,
}

impl Quantity {
    /// # Errors
    /// What is wrong with the name or an argument.
    pub fn make(name: &str, mut arguments: Arguments) -> Result<Quantity, String> {
        let across = match arguments.take("across").as_deref() {
            None | Some("mean") => Across::Mean,
            Some("deviation") => Across::Deviation,
            Some("min") => Across::Least,
            Some("max") => Across::Most,
            Some("count") => Across::Count,
            Some("half_width") => Across::HalfWidth,
            Some(other) => {
                return Err(format!(
                    "across = '{other}': expected mean, deviation, min, max, count or half_width"
                ));
            }
        };
        let scale = match arguments.take("scale").map(|text| (text.parse(), text)) {
            None => 1.0,
            Some((Ok(scale), _)) => scale,
            Some((Err(_), text)) => return Err(format!("scale = '{text}': expected a number")),
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
        let of = arguments.take("of").unwrap_or_else(|| "score".into());
        let better = match arguments.take("better").as_deref() {
            None if of == "score" => None,
            Some("higher") => Some(Better::Higher),
            Some("lower") => Some(Better::Lower),
            _ => return Err(format!("{name} of {of} needs better = \"higher\" or \"lower\"")),
        };
        Ok(Quantity {
            measure: Measure::make(&of, &arguments)?,
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
    fn gains_are_positive_where_it_is_better() {
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
            ("score", &[("tsk", "x")][..], "it takes no argument 'tsk'"),
            ("relative_percent", &[("of", "wakeups")][..], "needs better"),
            ("response_ms", &[("stat", "q")][..], "stat"),
            ("response_ms", &[("after", "ten")][..], "after"),
            ("counter", &[][..], "name"),
            ("score", &[("across", "x")][..], "across"),
        ] {
            let error = quantity(name, arguments).expect_err(name);
            assert!(error.contains(message), "{error}");
        }
    }
}
