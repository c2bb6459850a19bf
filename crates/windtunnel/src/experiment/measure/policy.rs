// SPDX-License-Identifier: GPL-2.0-only
//! Measures that read a global variable of the policy.

use super::Kind;
use super::result::{PER, Per};
use crate::experiment::observe::Observed;

#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// As `--set` spells it.
    pub name: String,
    /// `None`: at the end.
    pub at_ns: Option<u64>,
    per: Per,
}

pub const KINDS: &[Kind] = &[Kind {
    name: "counter",
    about: "a global variable of the policy",
    arguments: &[
        ("name", "as `policy show` tells it; elements as queue[3].len"),
        ("at", "a simulated time; default: at the end"),
        PER,
    ],
    make: |_, arguments| {
        Ok(super::Measure::Policy(Measure {
            name: arguments.needed("name")?.to_owned(),
            at_ns: arguments.time("at")?,
            per: Per::of(arguments)?,
        }))
    },
}];

impl Measure {
    pub fn value(&self, seen: &Observed) -> Result<f64, String> {
        let value = seen.globals.get(&(self.at_ns, self.name.clone()));
        let value = value.ok_or_else(|| format!("the policy's {} could not be read as a number then", self.name))?;
        Ok(self.per.divide(*value, seen))
    }
}
