// SPDX-License-Identifier: GPL-2.0-only
//! Reads and writes the files of an experiment: published.csv, measured.csv, and a part of
//! README.md between two marker lines. This part states the agreement: how well the measured values
//! agree with the published ones.

use super::Experiment;
use super::cases::Plan;
use super::compare::{Comparison, Published, compare};
use super::present;
use super::run::{Measured, MeasuredRow};
use super::statistics::Estimate;
use input::error::Error;
use runner::destination;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const MEASURED: &str = "measured.csv";
const BEGIN: &str = "<!-- agreement -->";
const END: &str = "<!-- end -->";

impl Experiment {
    /// Returns the rows of published.csv, or none if there is no such file.
    ///
    /// # Errors
    /// The file is not valid CSV, its columns differ from those of the definition, or a value is
    /// not a number.
    pub fn published(&self, plan: &Plan) -> Result<Vec<Published>, Error> {
        self.read_rows(plan, "published.csv")
    }

    /// Compares the values in measured.csv with the published ones, without running anything. The
    /// comparison has no confidence intervals.
    ///
    /// # Errors
    /// As [`Experiment::published`], for both files.
    pub fn compare_measured(&self, plan: &Plan) -> Result<Comparison, Error> {
        let names: Vec<&String> = plan.columns.iter().filter(|c| !plan.measured.contains(c)).collect();
        let rows = self.read_rows(plan, MEASURED)?.into_iter().map(|row| {
            let keys: BTreeMap<String, String> = names.iter().copied().cloned().zip(row.keys).collect();
            let mut planned = plan.cases.iter().flat_map(|case| &case.rows);
            let same = |name: &&String| plan.each_run.as_ref() == Some(*name);
            let known = planned.find(|row| {
                let mut names = names.iter().filter(|name| !same(name));
                names.all(|name| row.keys.get(*name) == keys.get(*name))
            });
            let exact = |mean| Ok(Estimate { mean, half_width: None });
            MeasuredRow {
                expected: known.map(|row| row.expected.clone()).unwrap_or_default(),
                cells: row.values.into_iter().map(|(name, mean)| (name, exact(mean))).collect(),
                keys,
            }
        });
        let measured = Measured {
            rows: rows.collect(),
            runs: 0,
            planned: 0,
            wall: Duration::ZERO,
        };
        compare(self, plan, measured)
    }

    /// Returns the rows of a CSV file of the experiment, or none if there is no such file.
    fn read_rows(&self, plan: &Plan, name: &str) -> Result<Vec<Published>, Error> {
        let path = self.folder.join(name);
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
        self.folder.join(MEASURED)
    }

    /// Writes measured.csv. If the README has marker lines, also writes the agreement of
    /// measured.csv with the published values between them. Returns the paths of the files that
    /// were written.
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
        let mut written = vec![path];
        written.extend(self.update_readme(plan)?);
        Ok(written)
    }

    /// Writes the agreement of measured.csv with the published values into the README. Returns the
    /// path of the README, or `None` if there is no README with marker lines.
    ///
    /// # Errors
    /// As [`Experiment::compare_measured`], or the file cannot be written.
    pub fn update_readme(&self, plan: &Plan) -> Result<Option<PathBuf>, Error> {
        let readme = self.folder.join("README.md");
        let Ok(text) = std::fs::read_to_string(&readme) else {
            return Ok(None);
        };
        let parts = text
            .split_once(BEGIN)
            .and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
        let Some((before, after)) = parts else {
            return Ok(None);
        };
        let agreement = present::agreement(&self.compare_measured(plan)?);
        let text = format!("{before}{BEGIN}\n{agreement}{END}{after}");
        destination::write(&readme, text.as_bytes())?;
        Ok(Some(readme))
    }
}

fn definition_place(source: &input::Source) -> String {
    source.place.clone()
}
