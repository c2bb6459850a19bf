// SPDX-License-Identifier: GPL-2.0-only
//! Reads published.csv, and writes measured.csv and the agreement in an experiment's README.

use super::Experiment;
use super::cases::Plan;
use super::compare::{Comparison, Published};
use super::present;
use crate::destination;
use crate::error::Error;
use std::collections::BTreeMap;
use std::path::PathBuf;

const BEGIN: &str = "<!-- agreement -->";
const END: &str = "<!-- end -->";

impl Experiment {
    /// Returns the rows of published.csv, or none if there is no such file.
    ///
    /// # Errors
    /// The file is not valid CSV, its columns differ from those of the definition, or a value is
    /// not a number.
    pub fn published(&self, plan: &Plan) -> Result<Vec<Published>, Error> {
        let path = self.folder.join("published.csv");
        if !path.is_file() {
            return Ok(Vec::new());
        }
        let file = path.display();
        let broken = |error: csv::Error| Error::new(format!("{file}: {error}"));
        let mut reader = csv::Reader::from_path(&path).map_err(broken)?;
        let columns: Vec<String> = reader.headers().map_err(broken)?.iter().map(str::to_owned).collect();
        if columns != plan.columns {
            return Err(
                Error::new(format!("{file}:1: the columns are {}", columns.join(","))).hint(format!(
                    "expected the columns of {}: {}",
                    definition_place(&self.source),
                    plan.columns.join(",")
                )),
            );
        }
        let mut rows = Vec::new();
        for (index, record) in reader.records().enumerate() {
            let record = record.map_err(broken)?;
            let mut row = Published {
                keys: Vec::new(),
                values: BTreeMap::new(),
            };
            for (column, text) in columns.iter().zip(&record) {
                let text = text.trim();
                if !plan.measured.contains(column) {
                    row.keys.push(text.to_owned());
                } else if !text.is_empty() {
                    let value = text.parse().map_err(|_| {
                        let line = index + 2;
                        Error::new(format!("{file}:{line}: {column} = '{text}': expected a number"))
                    })?;
                    row.values.insert(column.clone(), value);
                }
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// Returns the path of measured.csv.
    pub fn measured(&self) -> PathBuf {
        self.folder.join("measured.csv")
    }

    /// Writes measured.csv. If the README has markers for it, also writes the agreement with the
    /// published values there. Returns the paths of the files that were written.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn update(&self, plan: &Plan, comparison: &Comparison) -> Result<Vec<PathBuf>, Error> {
        let path = self.measured();
        let broken = |error: csv::Error| Error::new(format!("{}: {error}", path.display()));
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(&plan.columns).map_err(broken)?;
        for row in &comparison.rows {
            let cell = |column: &String| {
                if let Some(key) = comparison.keys.iter().position(|key| key == column) {
                    return row.keys[key].clone();
                }
                let value = comparison.values.iter().position(|value| value == column);
                let compared = value.and_then(|index| row.cells[index].as_ref());
                let estimate = compared.and_then(|compared| compared.measured.as_ref().ok());
                estimate
                    .map(|estimate| present::number(estimate.mean))
                    .unwrap_or_default()
            };
            writer.write_record(plan.columns.iter().map(cell)).map_err(broken)?;
        }
        let bytes = writer.into_inner().map_err(|error| Error::io(&path, error.error()))?;
        destination::write(&path, &bytes)?;
        let readme = self.folder.join("README.md");
        let mut written = vec![path.clone()];
        if let Ok(text) = std::fs::read_to_string(&readme)
            && let Some((before, rest)) = text.split_once(BEGIN)
            && let Some((_, after)) = rest.split_once(END)
        {
            let agreement = present::agreement(comparison);
            let text = format!("{before}{BEGIN}\n{agreement}{END}{after}");
            destination::write(&readme, text.as_bytes())?;
            written.push(readme);
        }
        Ok(written)
    }
}

fn definition_place(source: &input::Source) -> String {
    source.place.clone()
}
