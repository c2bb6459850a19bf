// SPDX-License-Identifier: GPL-2.0-only
//! Paths of variables and map entries, whose indices say for which CPUs, pairs and words of masks something is set.

use crate::expression::Expression;
use crate::facts::{Facts, is_of_cpu, is_of_other};
use crate::group::{Group, Instance, instances};
use machine::MachineSpec;

/// Most elements that one setting sets for one CPU, and most CPUs, pairs and words that it is for.
const MAX_PATHS: usize = 1 << 22;

/// A variable or map with indices which are worked out: `name[cpu].member[0..3]`.
pub(crate) struct Path<'p> {
    /// The text before each index, and after the last index.
    between: Vec<&'p str>,
    indices: Vec<Index>,
}

/// An index, `from..to` or, for keys of maps, several values.
enum Index {
    Values(Vec<Expression>),
    Range(Expression, Expression),
}

impl<'p> Path<'p> {
    /// # Errors
    /// If a bracket or a value is missing.
    pub(crate) fn parse(text: &'p str) -> Result<Path<'p>, String> {
        let (mut between, mut indices) = (Vec::new(), Vec::new());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('[') {
            let (index, after) = after.split_once(']').ok_or_else(|| format!("{text}: ']' is missing"))?;
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

    /// Returns the instances for which the path is set, by the facts in its indices: `[cpu]` is each CPU, `[llc]` each LLC, `[llc].x[other_llc]` each
    /// pair. If `at` already has a CPU, only that CPU is used.
    ///
    /// # Errors
    /// If there are more than [`MAX_PATHS`].
    pub(crate) fn instances(&self, spec: &MachineSpec, at: Instance) -> Result<Vec<Instance>, String> {
        let topology = &spec.topology;
        let (mut own, mut other, mut words) = (None, None, false);
        let mut name = |name: &str| {
            let finer = |than: &mut Option<Group>, group: Group| {
                *than = Some(than.map_or(group, |than| than.min(group)));
            };
            let second = name.strip_prefix("other_").or(name.strip_prefix("near_"));
            match name {
                "word" => words = true,
                _ if is_of_other(name) => finer(
                    &mut other,
                    Group::by_name(second.unwrap_or("cpu")).unwrap_or(Group::Cpu),
                ),
                _ if is_of_cpu(name) => finer(&mut own, Group::by_name(name).unwrap_or(Group::Cpu)),
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
            return Err(format!(
                "its indices stand for {} instances, {nr_others} others and {nr_words} words of each: more than {MAX_PATHS}",
                all.len()
            ));
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
            let of = |at: Instance| (0..words).map(move |word| Instance { word: Some(word), ..at });
            all = all.into_iter().flat_map(of).collect();
        }
        Ok(all)
    }

    /// Returns the paths at one instance with numbers for indices: one path, or one for each element of its ranges.
    pub(crate) fn at(&self, facts: &Facts) -> Result<Vec<String>, String> {
        let mut paths = vec![self.between[0].to_owned()];
        for (index, after) in self.indices.iter().zip(&self.between[1..]) {
            let range: Vec<String> = match index {
                Index::Values(values) => {
                    let values: Result<Vec<String>, String> =
                        values.iter().map(|value| Ok(value.value(facts)?.to_string())).collect();
                    vec![values?.join(",")]
                }
                Index::Range(from, to) => {
                    let range = from.value(facts)?..to.value(facts)?;
                    let count = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
                    if count.saturating_mul(paths.len()) > MAX_PATHS {
                        return Err(format!(
                            "a range of {count} elements: a setting reaches {MAX_PATHS} at most"
                        ));
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
