// SPDX-License-Identifier: GPL-2.0-only
//! Measures that read a global variable of the policy.

use super::MeasureKind;
use super::result::{PER, Per};
use crate::experiment::observe::Observed;
use input::Error;

/// A global variable of the policy, at a certain time.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Name of the variable as in `--set`.
    pub name: String,
    /// Simulated time at which the variable is read. `None` means the end of the run.
    pub at_ns: Option<u64>,
    per: Per,
}

pub const KINDS: &[MeasureKind] = &[MeasureKind {
    name: "counter",
    about: "a global variable of the policy",
    arguments: &[
        ("name", "name as in `policy show`, with elements as in queue[3].len"),
        ("at", "simulated time of the reading; default: the end of the run"),
        PER,
    ],
    make: |_, arguments| {
        Ok(super::Measure::Policy(Measure {
            name: arguments.required("name")?.to_owned(),
            at_ns: arguments.time("at")?,
            per: Per::parse(arguments)?,
        }))
    },
}];

impl Measure {
    pub fn value(&self, seen: &Observed) -> Result<f64, Error> {
        let value = seen.globals.get(&(self.at_ns, self.name.clone()));
        let value = value.ok_or_else(|| {
            format!(
                "the policy's global {} could not be read as a number at that time",
                self.name
            )
        })?;
        Ok(self.per.divide(*value, seen))
    }
}
