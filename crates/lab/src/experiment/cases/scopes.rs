// SPDX-License-Identifier: GPL-2.0-only
//! The scopes of cases. A scope contains the value of each key and variable, which replaces
//! `{name}` in texts.

use super::{Planner, Scope};
use crate::experiment::definition::{Named, text};
use crate::grid::{Axis, Grid};
use input::error::Error;
use toml::Value;

/// Maximum number of numbers in a range `{ from, to, step }`.
const MAX_RANGE: usize = 10_000;

impl Planner<'_> {
    /// Returns one scope for each combination of the keys' values, in the order of the columns. If
    /// `each` contains tables, returns one scope for each combination and each table. Such a scope
    /// also contains the values of the table.
    pub(super) fn expand(&self, at: usize, outer: &Scope, keys: &Named, each: &[Named]) -> Result<Vec<Scope>, Error> {
        let columns = self.definition.columns.get_ref();
        let column_index = |name: &str| {
            columns
                .iter()
                .position(|column| column == name)
                .unwrap_or(columns.len())
        };
        let mut order: Vec<(&String, &Value)> = keys.iter().collect();
        order.sort_by_key(|(name, _)| column_index(name));
        let axes = order
            .into_iter()
            .map(|(name, value)| Ok(Axis::new(name, self.alternatives(at, value)?)));
        let grid = Grid::product(axes.collect::<Result<_, Error>>()?);
        let scopes = grid.points(|_, _| true).into_iter().map(|point| {
            let keys = point.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
            outer.clone().into_iter().chain(keys).collect()
        });
        let scopes: Vec<Scope> = scopes.collect();
        if each.is_empty() {
            return Ok(scopes);
        }
        let mut all = Vec::new();
        for scope in &scopes {
            for together in each {
                let mut scope = scope.clone();
                for (name, value) in together {
                    scope.insert(name.clone(), self.text(at, value)?);
                }
                all.push(scope);
            }
        }
        Ok(all)
    }

    pub(super) fn scope(&self, at: usize, tables: &[&Named]) -> Result<Scope, Error> {
        let all = tables.iter().flat_map(|table| table.iter());
        all.map(|(name, value)| Ok((name.clone(), self.text(at, value)?)))
            .collect()
    }

    /// Returns the alternatives that a value describes: the elements of a list, the numbers of a
    /// range `{ from, to, step }`, or the value itself.
    pub(super) fn alternatives(&self, at: usize, value: &Value) -> Result<Vec<String>, Error> {
        match value {
            Value::Array(values) => values.iter().map(|value| self.text(at, value)).collect(),
            Value::Table(range) => {
                let number = |name: &str| range.get(name).and_then(Value::as_integer);
                let step = range.get("step").map_or(Some(1), Value::as_integer);
                match (number("from"), number("to"), step) {
                    (Some(from), Some(to), Some(step)) if step > 0 && from <= to => {
                        let numbers = i128::from(from)..=i128::from(to);
                        let mut numbers = numbers.step_by(usize::try_from(step).unwrap_or(usize::MAX));
                        let values = numbers.by_ref().take(MAX_RANGE).map(|number| number.to_string());
                        let values: Vec<String> = values.collect();
                        match numbers.next() {
                            None => Ok(values),
                            Some(_) => Err(self
                                .source
                                .error(at, format!("the range has more than {MAX_RANGE} numbers"))),
                        }
                    }
                    _ => Err(self
                        .source
                        .error(at, "expected a value, a list, or { from = 1, to = 60, step = 1 }")),
                }
            }
            _ => Ok(vec![self.text(at, value)?]),
        }
    }

    pub(super) fn text(&self, at: usize, value: &Value) -> Result<String, Error> {
        text(value).ok_or_else(|| {
            self.source
                .error(at, format!("{value:?}: expected a string or a number"))
        })
    }

    /// Replaces each `{name}` in a text by its value.
    pub(super) fn fill(&self, at: usize, template: &str, scope: &Scope) -> Result<String, Error> {
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else {
                return Err(self.source.error(at, format!("'{template}': '{{' without '}}'")));
            };
            let Some(value) = scope.get(name) else {
                let known: Vec<&str> = scope.keys().map(String::as_str).collect();
                let error = self
                    .source
                    .error(at, format!("'{template}': no key or variable has the name '{name}'"));
                return Err(error.hint(format!("the names are {}", known.join(", "))));
            };
            self.used.borrow_mut().insert(name.to_owned());
            text.push_str(before);
            text.push_str(value);
            rest = after;
        }
        Ok(text + rest)
    }
}
