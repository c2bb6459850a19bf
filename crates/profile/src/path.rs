// SPDX-License-Identifier: GPL-2.0-only
//! Paths of variables and map entries in profiles (files that replace the user-space part of a
//! policy). The indices of a path determine for which CPUs, pairs of CPUs and words of CPU masks a
//! value is set.

use crate::error::ProfileError;
use crate::expression::Expression;
use crate::facts::{Properties, is_cpu_property, is_pair_property};
use crate::group::{Group, Instance, instances};
use machine::MachineSpec;

/// Maximum number of elements that a setting sets for one CPU, and maximum number of CPUs, pairs
/// and words for which a setting is repeated.
pub(crate) const MAX_PATHS: usize = 1 << 22;

/// The path of a variable or map entry. Its indices are expressions, as in
/// `name[cpu].member[0..3]`.
pub(crate) struct Path<'p> {
    /// The text before each index, and the text after the last index.
    between: Vec<&'p str>,
    indices: Vec<Index>,
}

/// An index of a path: one value, several values (for the key of a map), or a range `from..to`.
enum Index {
    Values(Vec<Expression>),
    Range(Expression, Expression),
}

impl<'p> Path<'p> {
    /// Parses a path.
    ///
    /// # Errors
    /// A bracket or a value is missing.
    pub(crate) fn parse(text: &'p str) -> Result<Path<'p>, ProfileError> {
        let (mut between, mut indices) = (Vec::new(), Vec::new());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('[') {
            let end = after.split_once(']');
            let (index, after) = end.ok_or_else(|| ProfileError::MissingBracket(text.into()))?;
            between.push(before);
            indices.push(match index.split_once("..") {
                Some((from, to)) => Index::Range(Expression::parse(from)?, Expression::parse(to)?),
                None => Index::Values(index.split(',').map(Expression::parse).collect::<Result<_, _>>()?),
            });
            rest = after;
        }
        between.push(rest);
        Ok(Path { between, indices })
    }

    /// Returns the instances (CPUs, pairs or words) for which the path is set. The names in its
    /// indices determine them: `[cpu]` means each CPU, `[llc]` each LLC, and `[llc].x[other_llc]`
    /// each pair of LLCs. If `at` already has a CPU, only that CPU is used.
    ///
    /// # Errors
    /// There are more than [`MAX_PATHS`] instances.
    pub(crate) fn instances(&self, spec: &MachineSpec, at: Instance) -> Result<Vec<Instance>, ProfileError> {
        let topology = &spec.topology;
        let (mut own, mut other, mut words) = (None, None, false);
        let mut name = |name: &str| {
            let finer = |than: &mut Option<Group>, group: Group| {
                *than = Some(than.map_or(group, |than| than.min(group)));
            };
            let second = name.strip_prefix("other_").or(name.strip_prefix("near_"));
            match name {
                "word" => words = true,
                _ if is_pair_property(name) => finer(
                    &mut other,
                    Group::by_name(second.unwrap_or("cpu")).unwrap_or(Group::Cpu),
                ),
                _ if is_cpu_property(name) => finer(&mut own, Group::by_name(name).unwrap_or(Group::Cpu)),
                _ => {}
            }
        };
        for index in &self.indices {
            match index {
                Index::Values(values) => values.iter().for_each(|value| value.names(&mut name)),
                Index::Range(from, to) => [from, to].into_iter().for_each(|value| value.names(&mut name)),
            }
        }
        let mut all = match at.cpu {
            Some(_) => vec![at],
            None => instances(topology, own.or(other)),
        };
        let nr_words = if words {
            topology.nr_cpus().div_ceil(64) as usize
        } else {
            1
        };
        let nr_others = other.map_or(1, |other| other.all(topology).len());
        if all.len().saturating_mul(nr_others).saturating_mul(nr_words) > MAX_PATHS {
            return Err(ProfileError::TooManyInstances {
                cpus: all.len(),
                others: nr_others,
                words: nr_words,
            });
        }
        if let Some(other) = other {
            let others = other.all(topology);
            let pairs = |at: Instance| {
                others.iter().map(move |&other| Instance {
                    other: Some(other),
                    ..at
                })
            };
            all = all.into_iter().flat_map(pairs).collect();
        }
        if words {
            let words = topology.nr_cpus().div_ceil(64);
            let with_words = |at: Instance| (0..words).map(move |word| Instance { word: Some(word), ..at });
            all = all.into_iter().flat_map(with_words).collect();
        }
        Ok(all)
    }

    /// Returns the paths for one instance, with numbers as indices. For a range, there is one path
    /// for each number in it.
    pub(crate) fn at(&self, facts: &Properties) -> Result<Vec<String>, ProfileError> {
        let mut paths = vec![self.between[0].to_owned()];
        for (index, after) in self.indices.iter().zip(&self.between[1..]) {
            let range: Vec<String> = match index {
                Index::Values(values) => {
                    let values = values
                        .iter()
                        .map(|value| value.value(facts).map(|value| value.to_string()));
                    vec![values.collect::<Result<Vec<_>, _>>()?.join(",")]
                }
                Index::Range(from, to) => {
                    let range = from.value(facts)?..to.value(facts)?;
                    let count = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
                    if count.saturating_mul(paths.len()) > MAX_PATHS {
                        return Err(ProfileError::RangeTooLong(count));
                    }
                    range.map(|i| i.to_string()).collect()
                }
            };
            let each = |path: &String| {
                range
                    .iter()
                    .map(|index| format!("{path}[{index}]{after}"))
                    .collect::<Vec<_>>()
            };
            paths = paths.iter().flat_map(each).collect();
        }
        Ok(paths)
    }
}
