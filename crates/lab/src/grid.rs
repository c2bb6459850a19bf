// SPDX-License-Identifier: GPL-2.0-only
//! Grids: the combinations of the values of several axes.
//!
//! An axis is, for example, `machines` with the values `numa32` and `epyc-2s`. The combinations are
//! in the order of the axes, of which the last one advances fastest. Axes of a `zip` list advance
//! together. `skip` and `only` are filters of combinations.

use input::{Error, Source, suggest};
use serde::Deserialize;
use toml::Spanned;

/// An axis with the texts of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    pub name: String,
    pub values: Vec<String>,
}

impl Axis {
    pub fn new(name: impl Into<String>, values: impl IntoIterator<Item = impl ToString>) -> Axis {
        Axis {
            name: name.into(),
            values: values.into_iter().map(|value| value.to_string()).collect(),
        }
    }
}

/// A filter of combinations: names of axes and a value of each. A combination matches if it has all
/// of them.
pub type Filter = Vec<(String, String)>;

/// The axes, and the filters of their combinations.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    pub axes: Vec<Axis>,
    /// Names of axes that advance together.
    pub zip: Vec<Vec<String>>,
    /// Combinations to leave out.
    pub skip: Vec<Filter>,
    /// If not empty, all combinations that match none of these filters are left out.
    pub only: Vec<Filter>,
}

/// A combination: the names and values of the axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Point<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Point<'a> {
    /// Returns the value of an axis, or `None` if the combination does not have this axis.
    pub fn get(&self, axis: &str) -> Option<&'a str> {
        self.iter().find(|(name, _)| *name == axis).map(|(_, value)| value)
    }

    /// Returns the names and values of the axes, in the order of the grid.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().copied()
    }

    fn matches(&self, filter: &Filter) -> bool {
        filter.iter().all(|(axis, value)| self.get(axis) == Some(value))
    }
}

impl Grid {
    /// Returns the grid of all combinations of these axes.
    pub fn product(axes: Vec<Axis>) -> Grid {
        Grid {
            axes,
            ..Grid::default()
        }
    }

    /// Returns the values of an axis. There are none if the grid does not have the axis.
    pub fn values(&self, axis: &str) -> &[String] {
        let found = self.axes.iter().find(|known| known.name == axis);
        found.map_or(&[], |axis| &axis.values)
    }

    /// Returns the combinations. `has` returns whether a combination has an axis. For example, a
    /// policy does not have the axes of other policies' parameters. Combinations that differ only
    /// in such axes are equal.
    pub fn points(&self, has: impl Fn(&Point, &str) -> bool) -> Vec<Point<'_>> {
        // An axis that advances with others takes its index from the first axis of their group.
        let leader = |index: usize| {
            let is_member = |group: &&Vec<String>| group.contains(&self.axes[index].name);
            let group = self.zip.iter().find(is_member);
            let first = group.and_then(|group| self.axes.iter().position(|axis| group.contains(&axis.name)));
            first.unwrap_or(index)
        };
        let leaders: Vec<usize> = (0..self.axes.len()).map(leader).collect();
        let mut points = Vec::new();
        let mut at = vec![0; self.axes.len()];
        if self.axes.iter().any(|axis| axis.values.is_empty()) {
            return points;
        }
        loop {
            let values = self.axes.iter().zip(&leaders);
            let values = values.map(|(axis, &leader)| (axis.name.as_str(), axis.values[at[leader]].as_str()));
            let all = Point(values.collect());
            let point = Point(all.iter().filter(|(axis, _)| has(&all, axis)).collect());
            let wanted = self.only.is_empty() || self.only.iter().any(|filter| point.matches(filter));
            let skipped = self.skip.iter().any(|filter| point.matches(filter));
            if wanted && !skipped {
                points.push(point);
            }
            let mut axis = at.len();
            loop {
                if axis == 0 {
                    return points;
                }
                axis -= 1;
                if leaders[axis] == axis {
                    at[axis] += 1;
                    if at[axis] < self.axes[axis].values.len() {
                        break;
                    }
                    at[axis] = 0;
                }
            }
        }
    }

    /// Checks that a filter names values of the axes. A misspelt value would match nothing.
    ///
    /// # Errors
    /// The axis or the value that does not exist, with a hint.
    pub fn check_filter(&self, filter: &Filter) -> Result<(), Error> {
        for (axis, value) in filter {
            self.check_name(axis)?;
            let values: Vec<&str> = self.values(axis).iter().map(String::as_str).collect();
            if !values.contains(&value.as_str()) {
                let hint = suggest::hint(value, &values);
                return Err(Error::new(format!("the axis {axis} has no value '{value}': {hint}")));
            }
        }
        Ok(())
    }

    fn check_name(&self, name: &str) -> Result<(), Error> {
        let known: Vec<&str> = self.axes.iter().map(|axis| axis.name.as_str()).collect();
        match known.contains(&name) {
            true => Ok(()),
            false => Err(Error::new(format!(
                "there is no axis '{name}': {}",
                suggest::hint(name, &known)
            ))),
        }
    }

    /// Checks a list of axes that advance together.
    ///
    /// # Errors
    /// The name of an axis is unknown or occurs twice, or the axes have different lengths.
    pub fn check_zip(&self, names: &[String]) -> Result<(), Error> {
        for name in names {
            self.check_name(name)?;
            if self.zip.iter().flatten().filter(|other| *other == name).count() > 1 {
                return Err(Error::new(format!("the axis '{name}' is named twice")));
            }
        }
        let lengths: Vec<usize> = names.iter().map(|name| self.values(name).len()).collect();
        match lengths.iter().all(|length| Some(length) == lengths.first()) {
            true => Ok(()),
            false => Err(Error::new(format!(
                "axes that advance together must have equal numbers of values: {}",
                names
                    .iter()
                    .zip(&lengths)
                    .map(|(name, length)| format!("{name} has {length}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            ))),
        }
    }
}

/// The seeds in a file: a number, which stands for the seeds from 1 to this number, or a list.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Seeds {
    Count(u64),
    List(Vec<u64>),
}

impl Seeds {
    /// Returns the seeds of a file, or seed 1 if the file has none. There may be `max` seeds.
    ///
    /// # Errors
    /// There is no seed, or there are too many. The error shows the position.
    pub fn list(seeds: Option<&Spanned<Seeds>>, max: u64, source: &Source) -> Result<Vec<u64>, Error> {
        let Some(seeds) = seeds else { return Ok(vec![1]) };
        let number = match seeds.get_ref() {
            Seeds::Count(count) => *count,
            Seeds::List(list) => list.len() as u64,
        };
        if !(1..=max).contains(&number) {
            return Err(source.error(seeds.span().start, format!("there must be 1 to {max} seeds")));
        }
        Ok(match seeds.get_ref() {
            Seeds::Count(count) => (1..=*count).collect(),
            Seeds::List(list) => list.clone(),
        })
    }
}
