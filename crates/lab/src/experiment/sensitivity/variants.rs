// SPDX-License-Identifier: GPL-2.0-only
//! Variants of an experiment, each with one changed constant.

use super::Change;
use crate::experiment::Experiment;
use crate::experiment::cases::Plan;
use crate::experiment::definition::{Sensitivity, text};
use crate::experiment::run::Options;
use input::error::Error;
use machine::scale::Factor;
use runner::inputs::Inputs;
use toml::Value;

/// An experiment and the constants that can be changed in it.
pub struct Family<'a> {
    experiment: &'a Experiment,
    settings: Sensitivity,
    /// Byte offset of the table `[sensitivity]`, for error messages.
    at: usize,
    with: Vec<(String, String)>,
    /// The unchanged experiment, with the rows that the analysis uses.
    pub base: Plan,
    pub seeds: u64,
}

impl<'a> Family<'a> {
    /// Returns the variants of an experiment. Its table `[sensitivity]` shortens the runs.
    ///
    /// # Errors
    /// An error in the definition.
    pub fn new(experiment: &'a Experiment, options: &Options) -> Result<Family<'a>, Error> {
        let table = experiment.definition.sensitivity.as_ref();
        let settings = table.map(|table| table.get_ref().clone()).unwrap_or_default();
        let own = settings.with.iter();
        let own = own.filter_map(|(name, value)| Some((name.clone(), text(value)?)));
        let with: Vec<(String, String)> = own.chain(options.with.iter().cloned()).collect();
        let mut family = Family {
            experiment,
            at: table.map_or(0, |table| table.span().start),
            seeds: options.seeds.or(settings.seeds).unwrap_or(1),
            base: experiment.plan(&with)?,
            settings,
            with,
        };
        family.check()?;
        family.base = family.reduce(family.base.clone());
        if family.base.cases.is_empty() {
            return Err(family.error("only: no row has these keys"));
        }
        Ok(family)
    }

    fn error(&self, message: &str) -> Error {
        self.experiment.source.error(self.at, format!("sensitivity: {message}"))
    }

    fn check(&self) -> Result<(), Error> {
        let is_key = |name: &String| self.base.columns.contains(name) && !self.base.measured.contains(name);
        let keys = self.settings.only.keys().chain(&self.settings.compare);
        for name in keys {
            if !is_key(name) {
                let error = self.error(&format!("'{name}' is not a key column"));
                return Err(error.hint(self.base.columns.join(", ")));
            }
        }
        if self.seeds == 0 {
            return Err(self.error("seeds = 0: expected at least 1"));
        }
        for name in &self.settings.vary {
            self.scaled_variable(name, Factor::Double)?;
            if self.base.columns.contains(name) {
                return Err(self.error(&format!(
                    "vary: '{name}' is a column, so its rows would have other keys"
                )));
            }
        }
        Ok(())
    }

    /// Removes the rows that the table `[sensitivity]` leaves out.
    fn reduce(&self, mut plan: Plan) -> Plan {
        let is_wanted = |value: &Value, own: &String| match value {
            Value::Array(values) => values.iter().any(|value| text(value).as_ref() == Some(own)),
            value => text(value).as_ref() == Some(own),
        };
        for case in &mut plan.cases {
            case.rows.retain(|row| {
                let mut only = self.settings.only.iter();
                only.all(|(name, value)| row.keys.get(name).is_some_and(|own| is_wanted(value, own)))
            });
        }
        plan.cases.retain(|case| !case.rows.is_empty());
        plan
    }

    /// Returns one change for each constant: constants of the machines, then variables.
    ///
    /// # Errors
    /// A machine does not exist.
    pub fn changes(&self, factor: Factor) -> Result<Vec<Change>, Error> {
        let mut names: Vec<String> = Vec::new();
        let inputs = Inputs::default();
        let mut seen = Vec::new();
        for case in &self.base.cases {
            for run in std::iter::once(&case.run).chain(&case.baseline) {
                let machine = (&run.machine, run.no_costs);
                if seen.contains(&machine) {
                    continue;
                }
                seen.push(machine);
                let machine = inputs.machine(run).map_err(|error| {
                    let located = self.experiment.source.error(case.at, &error.message);
                    error.hint.into_iter().fold(located, |located, hint| located.hint(hint))
                })?;
                for name in machine.scalable() {
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
            }
        }
        let costs = names.into_iter().map(|name| Ok(Change::Cost(name, factor)));
        let variables = self.settings.vary.iter().map(|name| {
            let value = self.scaled_variable(name, factor)?;
            Ok(Change::Variable(name.clone(), factor, value))
        });
        costs.chain(variables).collect()
    }

    /// Returns the experiment with one change.
    ///
    /// # Errors
    /// A workload does not accept the new value of a variable.
    pub fn plan(&self, change: &Change) -> Result<Plan, Error> {
        let mut plan = match change {
            Change::Variable(name, _, value) => {
                let changed = [(name.clone(), value.clone())];
                let with: Vec<(String, String)> = self.with.iter().cloned().chain(changed).collect();
                self.reduce(self.experiment.plan(&with)?)
            }
            _ => self.base.clone(),
        };
        for case in &mut plan.cases {
            if *change == Change::Seeds {
                case.first_seed += self.seeds;
            }
            if let Change::Cost(name, factor) = change {
                for run in std::iter::once(&mut case.run).chain(&mut case.baseline) {
                    run.scaled = Some((name.clone(), *factor));
                }
            }
        }
        Ok(plan)
    }

    /// Returns the value of a variable, multiplied by a factor. The unit stays the same.
    fn scaled_variable(&self, name: &str, factor: Factor) -> Result<String, Error> {
        let given = self.with.iter().rev().find(|(known, _)| known == name);
        let own = self.experiment.definition.run.get_ref().with.get(name).and_then(text);
        let Some(value) = given.map(|(_, value)| value.clone()).or(own) else {
            return Err(self
                .error(&format!("vary: there is no variable '{name}'"))
                .hint(format!("for example: [run] with = {{ {name} = \"5us\" }}")));
        };
        scaled(&value, factor)
            .ok_or_else(|| self.error(&format!("vary: {name} = '{value}' is not a number with a unit")))
    }
}

/// Multiplies a number with a unit, for example `5us`. Whole numbers stay whole, because the units
/// of sizes and counts require it: `5k` is halved to `2560`.
fn scaled(value: &str, factor: Factor) -> Option<String> {
    let end = value
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let whole: Option<u64> = number.parse().ok();
    match (whole, factor) {
        (Some(whole), Factor::Double) => Some(format!("{}{unit}", whole.checked_mul(2)?)),
        (Some(whole), Factor::Half) if whole % 2 == 0 => Some(format!("{}{unit}", whole / 2)),
        (Some(whole), Factor::Half) if unit.eq_ignore_ascii_case("k") => Some((whole * 512).to_string()),
        (Some(whole), Factor::Half) if unit.eq_ignore_ascii_case("m") => Some(format!("{}k", whole * 512)),
        (Some(whole), Factor::Half) if unit.is_empty() => Some(whole.div_ceil(2).to_string()),
        _ => {
            let number: f64 = number.parse().ok().filter(|number: &f64| number.is_finite())?;
            let factor = if factor == Factor::Half { 0.5 } else { 2.0 };
            Some(format!("{}{unit}", number * factor))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_scaled_and_keep_their_unit() {
        let both = |value: &str| Factor::ALL.map(|factor| scaled(value, factor).expect("the value is a number"));
        assert_eq!(both("12us"), ["6us", "24us"]);
        assert_eq!(both("5us"), ["2.5us", "10us"]);
        assert_eq!(both("1.5ms"), ["0.75ms", "3ms"]);
        assert_eq!(both("32k"), ["16k", "64k"]);
        assert_eq!(both("5k"), ["2560", "10k"]);
        assert_eq!(both("1m"), ["512k", "2m"]);
        assert_eq!(both("7"), ["4", "14"]);
        assert_eq!(scaled("fast", Factor::Half), None);
        assert_eq!(scaled("", Factor::Double), None);
    }
}
