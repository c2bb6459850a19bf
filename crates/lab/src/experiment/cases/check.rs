// SPDX-License-Identifier: GPL-2.0-only
//! Checks the cases of a definition: their keys identify rows, and all their variables are used.

use super::{Case, Planner};
use input::error::Error;
use std::collections::BTreeSet;

impl Planner<'_> {
    /// Checks that every row has a value in every key column, and that no two rows have the same
    /// values in all key columns.
    pub(super) fn check_keys(&self, cases: &[Case]) -> Result<(), Error> {
        let each_run = self.definition.each_run.as_ref();
        for case in cases {
            for row in &case.rows {
                for column in self.definition.columns.get_ref() {
                    let is_run = each_run.is_some_and(|name| name.get_ref() == column);
                    if !is_run && !self.measured.contains(column) && !row.keys.contains_key(column) {
                        let message = format!("column '{column}' has neither a key nor a measured value in this case");
                        return Err(self
                            .source
                            .error(case.at, message)
                            .hint("for example: keys = { column = \"value\" }"));
                    }
                }
            }
        }
        let mut known = BTreeSet::new();
        for case in cases {
            if let Some(row) = case.rows.iter().find(|row| !known.insert(&row.keys)) {
                let keys: Vec<&str> = row.keys.values().map(String::as_str).collect();
                let error = format!("two rows have the same keys: {}", keys.join(", "));
                return Err(self.source.error(case.at, error).hint("the keys must identify a row"));
            }
        }
        match each_run {
            Some(name) if !self.definition.columns.get_ref().contains(name.get_ref()) => Err(self.at(
                &name.span(),
                &format!("each_run: there is no column '{}'", name.get_ref()),
            )),
            _ => Ok(()),
        }
    }

    /// Checks that every variable is a column or is used in a text. An unused variable is an error.
    pub(super) fn check_used(&self) -> Result<(), Error> {
        let columns = self.definition.columns.get_ref();
        let used = self.used.borrow();
        let tables = [&self.definition.run].into_iter().chain(&self.definition.cases);
        let named = tables.flat_map(|table| {
            let own = table.get_ref();
            let names = own.keys.keys().chain(own.with.keys());
            names
                .chain(own.each.iter().flat_map(|each| each.keys()))
                .map(move |name| (table.span(), name))
        });
        let rows = self.definition.rows.iter().flat_map(|row| {
            let names = row.get_ref().keys.keys();
            names
                .chain(row.get_ref().each.iter().flat_map(|each| each.keys()))
                .map(move |name| (row.span(), name))
        });
        for (span, name) in named.chain(rows) {
            if !used.contains(name) && !columns.contains(name) {
                let message = format!("'{name}' is neither a column nor used as {{{name}}}");
                return Err(self
                    .at(&span, &message)
                    .hint(format!("columns: {}", columns.join(", "))));
            }
        }
        Ok(())
    }
}
