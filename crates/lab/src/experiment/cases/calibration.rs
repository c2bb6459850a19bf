// SPDX-License-Identifier: GPL-2.0-only
//! Published values from which a constant was inferred, as the definition marks them with
//! `calibrated`.

use super::{Case, Planner, join};
use input::error::Error;
use std::collections::BTreeMap;

/// Published values from which a constant was inferred, so that their agreement proves nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// Keys that a row must have.
    pub keys: BTreeMap<String, String>,
    /// Measured columns.
    pub values: Vec<String>,
    pub constant: String,
}

impl Calibration {
    /// Returns whether the constant was inferred from this column of the row with these keys.
    pub fn contains(&self, keys: &BTreeMap<String, String>, column: &str) -> bool {
        let has = |(name, value): (&String, &String)| keys.get(name) == Some(value);
        self.values.iter().any(|value| value == column) && self.keys.iter().all(has)
    }

    /// Returns the keys as text, for example `scheduler = o1, cpus = 2`.
    pub fn keys_text(&self) -> String {
        join(&self.keys, ", ")
    }
}

impl Planner<'_> {
    /// Returns the published values that the definition marks as calibrated.
    pub(super) fn calibrated(&self, cases: &[Case]) -> Result<Vec<Calibration>, Error> {
        let tables = self.definition.calibrated.iter().map(|table| {
            let (at, table) = (table.span().start, table.get_ref());
            let hint = "name the published rows from which the constant was inferred";
            if let Some(value) = table.values.iter().find(|value| !self.measured.contains(value)) {
                let message = format!("calibrated: '{value}' is not a measured column");
                return Err(self.source.error(at, message).hint(self.measured.join(", ")));
            }
            if table.constant.trim().is_empty() {
                let message = "calibrated: the constant is empty";
                let hint = "name the constant and how it follows from the published values";
                return Err(self.source.error(at, message).hint(hint));
            }
            Ok(Calibration {
                keys: self.row_keys(at, "calibrated", &table.keys, cases, hint)?,
                values: match table.values.is_empty() {
                    true => self.measured.clone(),
                    false => table.values.clone(),
                },
                constant: table.constant.clone(),
            })
        });
        tables.collect()
    }
}
