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

use crate::grid::{self, Axis, Grid, Seeds};
use bpf::memory::DEFAULT_LIMIT;
use input::duration;
use input::{Error, Source, size};
use kernel::release::Release;
use runner::spec::{NoiseLevel, Phase, RunSpec};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;

/// Largest sweep file that is read, in bytes.
const MAX_BYTES: u64 = 8 << 20;
/// Largest number of seeds.
const MAX_SEEDS: u64 = 1_000_000;
/// Prefix of the names of axes that are parameters of policies.
pub const SET: &str = "set.";

/// A parsed sweep file.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The axes `policies`, `machines`, `workloads`, `kernels`, perhaps `noise`, `set.NAME` for each
    /// parameter, and `seeds`.
    pub grid: Grid,
    /// The options that all runs have in common.
    pub common: RunSpec,
}

/// A filter of combinations. A combination matches if it agrees with all fields that are set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    policy: Option<String>,
    machine: Option<String>,
    workload: Option<String>,
    kernel: Option<String>,
    noise: Option<String>,
    seed: Option<u64>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
}

impl Filter {
    fn parse(self) -> grid::Filter {
        let fields = [
            ("policies", self.policy),
            ("machines", self.machine),
            ("workloads", self.workload),
            ("kernels", self.kernel),
            ("noise", self.noise),
            ("seeds", self.seed.map(|seed| seed.to_string())),
        ];
        let fields = fields
            .into_iter()
            .filter_map(|(axis, value)| Some((axis.to_owned(), value?)));
        let set = self
            .set
            .iter()
            .map(|(name, value)| (format!("{SET}{name}"), value.text()));
        fields.chain(set).collect()
    }
}

/// A value of a parameter. It is formatted like a value of the option `--set`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Integer(i64),
    Flag(bool),
    Text(String),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Value::Integer(n) => n.to_string(),
            Value::Flag(flag) => u8::from(*flag).to_string(),
            Value::Text(text) => text.clone(),
        }
    }
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
        let at = |error: Error, at: usize| source.error(at, error);
        let list = |name: &str, list: Spanned<Vec<String>>| match list.get_ref().is_empty() {
            true => Err(source.error(list.span().start, format!("{name} is empty"))),
            false => Ok(Axis::new(name, list.into_inner())),
        };
        let mut axes = vec![
            list("policies", written.policies)?,
            list("machines", written.machines)?,
            list("workloads", written.workloads)?,
        ];
        let kernels = written.kernels.iter().flatten().map(|name| {
            let release = name.get_ref().parse::<Release>();
            release.map_err(|error| source.error(name.span().start, error))
        });
        let kernels: Vec<Release> = kernels.collect::<Result<_, Error>>()?;
        axes.push(match written.kernels.is_some() {
            true => Axis::new("kernels", kernels),
            false => Axis::new("kernels", [Release::default()]),
        });
        if let Some(levels) = &written.noise {
            if levels.get_ref().is_empty() {
                return Err(source.error(levels.span().start, "noise is empty"));
            }
            let levels = levels.get_ref().iter().map(|level| {
                let parsed = level.get_ref().parse::<NoiseLevel>();
                parsed.map_err(|error| at(error, level.span().start))
            });
            axes.push(Axis::new("noise", levels.collect::<Result<Vec<_>, Error>>()?));
        }
        for (name, values) in written.set {
            if values.get_ref().is_empty() {
                return Err(source.error(values.span().start, format!("{name} has no values")));
            }
            axes.push(Axis::new(
                format!("{SET}{name}"),
                values.get_ref().iter().map(Value::text),
            ));
        }
        axes.push(Axis::new(
            "seeds",
            Seeds::list(written.seeds.as_ref(), MAX_SEEDS, source)?,
        ));
        let phase = written.phase.as_ref().map(|phase| {
            let parsed = phase.get_ref().parse();
            parsed.map_err(|error| at(error, phase.span().start))
        });
        let for_ns = written.length.as_ref().map(|length| {
            let parsed = duration::parse_some(&length.get_ref().0);
            parsed.map_err(|error| at(error, length.span().start))
        });
        let memory = written.memory.as_ref().map(|memory| {
            let parsed = size::parse(&memory.get_ref().0);
            parsed.map_err(|error| at(error, memory.span().start))
        });
        let mut grid = Grid::product(axes);
        grid.zip = written.zip.iter().map(|names| names.get_ref().clone()).collect();
        for names in &written.zip {
            grid.check_zip(names.get_ref())
                .map_err(|error| at(error, names.span().start))?;
        }
        let filters = |filters: Vec<Spanned<Filter>>| -> Result<Vec<grid::Filter>, Error> {
            let parse = |filter: Spanned<Filter>| {
                let start = filter.span().start;
                let filter = filter.into_inner().parse();
                grid.check_filter(&filter).map_err(|error| at(error, start))?;
                Ok(filter)
            };
            filters.into_iter().map(parse).collect()
        };
        let (skip, only) = (filters(written.skip)?, filters(written.only)?);
        // Fixed is the default of single runs, so their command lines do not name it.
        let phase = phase.transpose()?.unwrap_or(Phase::Random);
        Ok(Sweep {
            grid: Grid { skip, only, ..grid },
            common: RunSpec {
                phase: Some(phase).filter(|&phase| phase != Phase::Fixed),
                for_ns: for_ns.transpose()?,
                memory: memory.transpose()?.unwrap_or(DEFAULT_LIMIT),
                ..RunSpec::default()
            },
        })
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
        let seeds = |more| parse(more).map(|sweep| sweep.grid.values("seeds").join(" "));
        assert_eq!(seeds("seeds = 3").as_deref(), Ok("1 2 3"));
        assert_eq!(seeds("seeds = [7, 5]").as_deref(), Ok("7 5"));
        assert_eq!(seeds("").as_deref(), Ok("1"));
    }

    #[test]
    fn errors_show_the_position() {
        for (more, error) in [
            ("seeds = 0", "sweep.toml:4:9: there must be 1 to 1000000 seeds"),
            (
                "seeds = 1000000000000",
                "sweep.toml:4:9: there must be 1 to 1000000 seeds",
            ),
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
            ("[[only]]\nseed = 2", "sweep.toml:4:1: the axis seeds has no value '2'"),
            ("[[only]]\nset = { slice_ns = 1 }", "there is no axis 'set.slice_ns'"),
        ] {
            let found = parse(more).expect_err(more);
            assert!(found.contains(error), "{more}: {found}");
        }
    }
}
