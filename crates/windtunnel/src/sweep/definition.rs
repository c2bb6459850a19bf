// SPDX-License-Identifier: GPL-2.0-only
//! The file format of sweeps, for example:
//!
//! ```toml
//! policies = ["eevdf", "fifo", "./mine.bpf.o"]
//! machines = ["numa32", "epyc-2s"]
//! workloads = ["schbench", "hackbench:groups=4,loops=100"]
//! kernels = ["7.2"]                # by default the newest
//! noise = ["off", "server"]        # background work; by default that of the machines
//! seeds = 10                       # 1 to 10; or a list
//! phase = "fixed"                  # by default random: the seed also shifts ticks and starts
//! for = "500ms"                    # by default the workload's own length
//! zip = [["machines", "workloads"]] # the first machine with the first workload, and so on
//!
//! [set]                            # parameters of the policies that have them
//! slice_ns = [1_000_000, 5_000_000]
//!
//! [[skip]]                         # combinations to leave out
//! policy = "fifo"
//! machine = "epyc-2s"
//!
//! [[only]]                         # if there is such an entry, only these combinations run
//! seed = 1
//! [[only]]
//! machine = "numa32"
//! ```

use crate::duration;
use crate::scenario::Phase;
use bpf::memory::DEFAULT_LIMIT;
use input::{Error, Source, size, suggest};
use kernel::release::Release;
use machine::Noise;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;

/// Largest sweep file that is read, in bytes.
const MAX_BYTES: u64 = 8 << 20;
/// Prefix of the names of axes that are parameters of policies.
pub const SET: &str = "set.";

/// Name of the axis of background work.
pub(super) const NOISE: &str = "noise";

/// A parsed sweep file.
#[derive(Clone, Debug)]
pub struct Sweep {
    pub policies: Vec<String>,
    pub machines: Vec<String>,
    pub workloads: Vec<String>,
    pub kernels: Vec<Release>,
    /// Levels of background work, or "off". Empty if the machines determine it.
    pub noise: Vec<String>,
    pub seeds: Vec<u64>,
    pub phase: Phase,
    /// Simulated time in ns. `None` means the length that the workload defines.
    pub for_ns: Option<u64>,
    /// Maximum host memory of a run, in bytes.
    pub memory: u64,
    /// Values of the policies' parameters, by name.
    pub set: BTreeMap<String, Vec<String>>,
    /// Names of axes that advance together.
    pub zip: Vec<Vec<String>>,
    /// Combinations to leave out.
    pub skip: Vec<Filter>,
    /// If not empty, all combinations that match none of these filters are left out.
    pub only: Vec<Filter>,
}

/// A filter of combinations. A combination matches if it agrees with all fields that are set.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    pub policy: Option<String>,
    pub machine: Option<String>,
    pub workload: Option<String>,
    pub kernel: Option<String>,
    pub noise: Option<String>,
    pub seed: Option<u64>,
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
}

/// A value of a parameter. It is formatted like a value of the option `--set`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Integer(i64),
    Flag(bool),
    Text(String),
}

impl Value {
    pub(super) fn text(&self) -> String {
        match self {
            Value::Integer(n) => n.to_string(),
            Value::Flag(flag) => u8::from(*flag).to_string(),
            Value::Text(text) => text.clone(),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Seeds {
    Count(u64),
    List(Vec<u64>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepFile {
    policies: Spanned<Vec<String>>,
    machines: Spanned<Vec<String>>,
    workloads: Spanned<Vec<String>>,
    kernels: Option<Vec<Spanned<String>>>,
    noise: Option<Spanned<Vec<Spanned<String>>>>,
    seeds: Option<Spanned<Seeds>>,
    phase: Option<Spanned<String>>,
    #[serde(rename = "for")]
    length: Option<Spanned<duration::Text>>,
    memory: Option<Spanned<size::Text>>,
    #[serde(default)]
    set: BTreeMap<String, Spanned<Vec<Value>>>,
    #[serde(default)]
    zip: Vec<Spanned<Vec<String>>>,
    #[serde(default)]
    skip: Vec<Spanned<Filter>>,
    #[serde(default)]
    only: Vec<Spanned<Filter>>,
}

impl Sweep {
    /// Reads a sweep file.
    ///
    /// # Errors
    /// The file cannot be read, or it is not a valid sweep. The error shows the position.
    pub fn read(path: &Path) -> Result<Sweep, Error> {
        Sweep::parse(&Source::read(path, MAX_BYTES)?)
    }

    /// Parses the text of a sweep file.
    ///
    /// # Errors
    /// The text is not a valid sweep. The error shows the position.
    pub fn parse(source: &Source) -> Result<Sweep, Error> {
        let written: SweepFile = source.toml()?;
        let list = |name: &str, list: Spanned<Vec<String>>| match list.get_ref().is_empty() {
            true => Err(source.error(list.span().start, format!("{name} is empty"))),
            false => Ok(list.into_inner()),
        };
        let kernels = match written.kernels {
            None => vec![Release::default()],
            Some(names) => names
                .iter()
                .map(|name| {
                    let release = name.get_ref().parse();
                    release.map_err(|error: String| source.error(name.span().start, error))
                })
                .collect::<Result<_, Error>>()?,
        };
        let mut noise = Vec::new();
        if let Some(levels) = &written.noise {
            if levels.get_ref().is_empty() {
                return Err(source.error(levels.span().start, "noise is empty"));
            }
            for level in levels.get_ref() {
                Noise::parse(level.get_ref()).map_err(|error| source.error(level.span().start, error))?;
                noise.push(level.get_ref().clone());
            }
        }
        let seeds = match &written.seeds {
            None => vec![1],
            Some(seeds) => {
                let found: Vec<u64> = match seeds.get_ref() {
                    Seeds::Count(count) => (1..=*count).collect(),
                    Seeds::List(list) => list.clone(),
                };
                if found.is_empty() {
                    return Err(source.error(seeds.span().start, "there must be at least one seed"));
                }
                found
            }
        };
        let phase = match &written.phase {
            None => Phase::Random,
            Some(phase) => {
                let parsed = phase.get_ref().parse();
                parsed.map_err(|error: String| source.error(phase.span().start, error))?
            }
        };
        let for_ns = written.length.as_ref().map(|length| {
            let parsed = duration::parse_some(&length.get_ref().0);
            parsed.map_err(|error| source.error(length.span().start, error))
        });
        let memory = written.memory.as_ref().map(|memory| {
            let parsed = size::parse(&memory.get_ref().0);
            parsed.map_err(|error| source.error(memory.span().start, error))
        });
        let mut set = BTreeMap::new();
        for (name, values) in written.set {
            if values.get_ref().is_empty() {
                return Err(source.error(values.span().start, format!("{name} has no values")));
            }
            set.insert(name, values.get_ref().iter().map(Value::text).collect());
        }
        let sweep = Sweep {
            policies: list("policies", written.policies)?,
            machines: list("machines", written.machines)?,
            workloads: list("workloads", written.workloads)?,
            kernels,
            noise,
            seeds,
            phase,
            for_ns: for_ns.transpose()?,
            memory: memory.transpose()?.unwrap_or(DEFAULT_LIMIT),
            set,
            zip: written.zip.iter().map(|names| names.get_ref().clone()).collect(),
            skip: written.skip.iter().map(|filter| filter.get_ref().clone()).collect(),
            only: written.only.iter().map(|filter| filter.get_ref().clone()).collect(),
        };
        for filter in written.skip.iter().chain(&written.only) {
            sweep
                .check_filter(filter.get_ref())
                .map_err(|message| source.error(filter.span().start, message))?;
        }
        for names in &written.zip {
            sweep
                .check_zip(names.get_ref())
                .map_err(|message| source.error(names.span().start, message))?;
        }
        Ok(sweep)
    }

    /// Returns the names and lengths of the axes, in the order of the rows.
    pub(super) fn axes(&self) -> Vec<(String, usize)> {
        let mut axes = vec![
            ("policies".to_owned(), self.policies.len()),
            ("machines".to_owned(), self.machines.len()),
            ("workloads".to_owned(), self.workloads.len()),
            ("kernels".to_owned(), self.kernels.len()),
        ];
        if !self.noise.is_empty() {
            axes.push((NOISE.to_owned(), self.noise.len()));
        }
        axes.extend(
            self.set
                .iter()
                .map(|(name, values)| (format!("{SET}{name}"), values.len())),
        );
        axes.push(("seeds".to_owned(), self.seeds.len()));
        axes
    }

    /// Checks that a filter names values of the axes. A misspelt value would match nothing.
    fn check_filter(&self, filter: &Filter) -> Result<(), String> {
        let known = |axis: &str, value: &str, values: &[String]| match values.iter().any(|known| known == value) {
            true => Ok(()),
            false => {
                let values: Vec<&str> = values.iter().map(String::as_str).collect();
                let hint = suggest::hint(value, &values);
                Err(format!("the axis {axis} has no value '{value}': {hint}"))
            }
        };
        for (axis, value, values) in [
            ("policies", &filter.policy, &self.policies),
            ("machines", &filter.machine, &self.machines),
            ("workloads", &filter.workload, &self.workloads),
            (
                "kernels",
                &filter.kernel,
                &self.kernels.iter().map(Release::to_string).collect(),
            ),
        ] {
            value.as_ref().map_or(Ok(()), |value| known(axis, value, values))?;
        }
        if let Some(level) = &filter.noise {
            known(NOISE, level, &self.noise)?;
        }
        if let Some(seed) = filter.seed.filter(|seed| !self.seeds.contains(seed)) {
            return Err(format!("the axis seeds has no value {seed}"));
        }
        for (name, value) in &filter.set {
            let names: Vec<String> = self.set.keys().cloned().collect();
            known("[set]", name, &names)?;
            known(&format!("{SET}{name}"), &value.text(), &self.set[name])?;
        }
        Ok(())
    }

    /// Checks a list of axes that advance together.
    fn check_zip(&self, names: &[String]) -> Result<(), String> {
        let axes = self.axes();
        let known: Vec<&str> = axes.iter().map(|(name, _)| name.as_str()).collect();
        let mut lengths = Vec::new();
        for name in names {
            let axis = axes.iter().find(|(known, _)| known == name);
            let (_, length) =
                axis.ok_or_else(|| format!("there is no axis '{name}': {}", suggest::hint(name, &known)))?;
            lengths.push(*length);
            if self.zip.iter().flatten().filter(|other| *other == name).count() > 1 {
                return Err(format!("the axis '{name}' is named twice"));
            }
        }
        match lengths.iter().all(|length| Some(length) == lengths.first()) {
            true => Ok(()),
            false => Err(format!(
                "axes that advance together must have equal numbers of values: {}",
                names
                    .iter()
                    .zip(&lengths)
                    .map(|(name, length)| format!("{name} has {length}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXES: &str = "policies = ['fifo']\nmachines = ['smp4']\nworkloads = ['schbench']\n";

    fn parse(more: &str) -> Result<Sweep, String> {
        Sweep::parse(&Source::new("sweep.toml", format!("{AXES}{more}"))).map_err(|error| error.to_string())
    }

    #[test]
    fn seeds_are_a_number_or_a_list() {
        assert_eq!(parse("seeds = 3").expect("the sweep is valid").seeds, [1, 2, 3]);
        assert_eq!(parse("seeds = [7, 5]").expect("the sweep is valid").seeds, [7, 5]);
        assert_eq!(parse("").expect("the sweep is valid").seeds, [1]);
    }

    #[test]
    fn errors_show_the_position() {
        for (more, error) in [
            ("seeds = 0", "sweep.toml:4:9: there must be at least one seed"),
            (
                "phase = 'randm'",
                "sweep.toml:4:9: phase randm: expected fixed or random",
            ),
            ("for = '3 parsecs'", "sweep.toml:4:7: "),
            (
                "for = 100",
                "sweep.toml:4:7: '100' has no unit: write a text with ns, us, ms, s or min, for example \"100ms\"",
            ),
            (
                "for = '100'",
                "sweep.toml:4:7: '100' has no unit, expected ns, us, ms, s or min, for example 100ms",
            ),
            (
                "memory = 512",
                "sweep.toml:4:10: '512' has no unit: write a text with B, KiB, MiB or GiB",
            ),
            ("kernels = ['5.4']", "sweep.toml:4:12: "),
            ("noise = []", "sweep.toml:4:9: noise is empty"),
            (
                "noise = ['off', 'sever']",
                "sweep.toml:4:17: there is no level of background work 'sever': did you mean 'server'?",
            ),
            (
                "noise = ['off']\n[[skip]]\nnoise = 'quiet'",
                "the axis noise has no value 'quiet'",
            ),
            ("[set]\nslice_ns = []", "sweep.toml:5:12: slice_ns has no values"),
            (
                "zip = [['machines', 'seeds']]\nseeds = 2",
                "sweep.toml:4:8: axes that advance together must have equal numbers of values: machines has 1, seeds has 2",
            ),
            ("zip = [['machine']]", "did you mean"),
            ("zip = [['seeds', 'seeds']]", "the axis 'seeds' is named twice"),
            ("[[skip]]\nmachin = 'x'", "unknown key 'machin'"),
            (
                "[[skip]]\npolicy = 'fifoo'",
                "the axis policies has no value 'fifoo': did you mean 'fifo'?",
            ),
            ("[[only]]\nseed = 2", "sweep.toml:4:1: the axis seeds has no value 2"),
            (
                "[[only]]\nset = { slice_ns = 1 }",
                "the axis [set] has no value 'slice_ns'",
            ),
        ] {
            let found = parse(more).expect_err(more);
            assert!(found.contains(error), "{more}: {found}");
        }
    }
}
