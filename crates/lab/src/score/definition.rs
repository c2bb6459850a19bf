// SPDX-License-Identifier: GPL-2.0-only
//! The file format of score suites, for example:
//!
//! ```toml
//! baseline = "eevdf"        # the policy that has the score 1
//! seeds = 2                 # 1 and 2; or a list
//!
//! [[case]]
//! machine = "numa32"
//! workload = "schbench"
//! for = "600ms"             # simulated time
//! metric = "p99_wakeup"     # by default the workload's score
//! weight = 2.0              # by default 1
//! aspect = "latency"        # cases with the same aspect have a partial score
//! name = "requests"         # by default the workload
//!
//! [[probe]]                 # the policy must get through this run, which has no figure
//! machine = "smp8"
//! workload = "compat.json"
//! for = "1s"
//! ```

use crate::compare::metric::Metric;
use crate::grid::Seeds;
use input::duration;
use input::{Error, Source};
use runner::policy::EEVDF;
use serde::Deserialize;
use std::path::Path;
use toml::Spanned;

/// Largest score suite that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Maximum number of seeds.
const MAX_SEEDS: u64 = 1000;

/// A parsed score suite.
#[derive(Clone, Debug)]
pub struct ScoreSuite {
    /// The policy that has the score 1.
    pub baseline: String,
    pub seeds: Vec<u64>,
    pub cases: Vec<Case>,
    /// Runs that have no figure. A policy that fails in one of them has no score.
    pub probes: Vec<Setting>,
}

/// A machine and a workload, without a policy and a seed.
#[derive(Clone, Debug)]
pub struct Setting {
    pub machine: String,
    pub workload: String,
    /// Simulated time in ns at which a run ends at the latest.
    pub for_ns: u64,
}

/// A machine and a workload, with the figure that counts.
#[derive(Clone, Debug)]
pub struct Case {
    pub setting: Setting,
    pub metric: Metric,
    pub weight: f64,
    /// Aspect that the case measures, for example `latency`. Cases with the same aspect have a
    /// partial score.
    pub aspect: Option<String>,
    /// Short name of the case in tables: by default the workload.
    pub name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuiteFile {
    baseline: Option<String>,
    seeds: Option<Spanned<Seeds>>,
    case: Vec<CaseTable>,
    #[serde(default)]
    probe: Vec<ProbeTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseTable {
    machine: String,
    workload: String,
    #[serde(rename = "for")]
    length: Spanned<duration::Text>,
    metric: Option<Spanned<String>>,
    weight: Option<Spanned<f64>>,
    aspect: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProbeTable {
    machine: String,
    workload: String,
    #[serde(rename = "for")]
    length: Spanned<duration::Text>,
}

impl ScoreSuite {
    /// Reads a score suite.
    ///
    /// # Errors
    /// The file cannot be read, or it is not a valid score suite. The error shows the position.
    pub fn read(path: &Path) -> Result<ScoreSuite, Error> {
        ScoreSuite::parse(&Source::read(path, MAX_BYTES)?)
    }

    /// Parses the text of a score suite.
    ///
    /// # Errors
    /// The text is not a valid score suite. The error shows the position.
    pub fn parse(source: &Source) -> Result<ScoreSuite, Error> {
        let written: SuiteFile = source.toml()?;
        let seeds = Seeds::list(written.seeds.as_ref(), MAX_SEEDS, source)?;
        let cases: Vec<Case> = written
            .case
            .into_iter()
            .map(|case| case.parse(source))
            .collect::<Result<_, Error>>()?;
        if cases.is_empty() {
            return Err(source.error(0, "a score suite needs at least one [[case]]"));
        }
        Ok(ScoreSuite {
            baseline: written.baseline.unwrap_or_else(|| EEVDF.to_owned()),
            seeds,
            cases,
            probes: written
                .probe
                .into_iter()
                .map(|probe| Setting::parse(probe.machine, probe.workload, &probe.length, source))
                .collect::<Result<_, Error>>()?,
        })
    }
}

impl Setting {
    fn parse(
        machine: String,
        workload: String,
        length: &Spanned<duration::Text>,
        source: &Source,
    ) -> Result<Setting, Error> {
        let for_ns =
            duration::parse_some(&length.get_ref().0).map_err(|message| source.error(length.span().start, message))?;
        Ok(Setting {
            machine,
            workload,
            for_ns,
        })
    }
}

impl CaseTable {
    fn parse(self, source: &Source) -> Result<Case, Error> {
        let setting = Setting::parse(self.machine, self.workload, &self.length, source)?;
        let metric = match &self.metric {
            None => Metric::find("score").map_err(|message| source.error(0, message))?,
            Some(name) => {
                let at = name.span().start;
                let metric = Metric::find(name.get_ref()).map_err(|hint| {
                    source
                        .error(at, format!("there is no metric '{}'", name.get_ref()))
                        .hint(hint)
                })?;
                if metric.figure.better.is_none() && metric.name != "score" {
                    let message = format!("neither more nor less of '{}' is better", metric.name);
                    return Err(source.error(at, message).hint("use score or a wake-up latency"));
                }
                metric
            }
        };
        let weight = match &self.weight {
            None => 1.0,
            Some(weight) if weight.get_ref().is_finite() && *weight.get_ref() > 0.0 => *weight.get_ref(),
            Some(weight) => {
                let message = format!("the weight {} is not a positive number", weight.get_ref());
                return Err(source.error(weight.span().start, message));
            }
        };
        Ok(Case {
            name: self.name.unwrap_or_else(|| setting.workload.clone()),
            setting,
            metric,
            weight,
            aspect: self.aspect,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(more: &str) -> Result<ScoreSuite, String> {
        let text = format!("[[case]]\nmachine = 'smp4'\nworkload = 'schbench'\n{more}");
        ScoreSuite::parse(&Source::new("x.toml", text)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_case_has_defaults() {
        let suite = parse("for = '1s'").expect("the suite is valid");
        assert_eq!((suite.baseline.as_str(), suite.seeds), ("eevdf", vec![1]));
        let case = &suite.cases[0];
        assert_eq!((case.metric.name, case.weight), ("score", 1.0));
        assert_eq!((case.name.as_str(), &case.aspect), ("schbench", &None));
        assert!(suite.probes.is_empty());
    }

    #[test]
    fn a_probe_has_a_length_and_no_figure() {
        let probe = "for = '1s'\n[[probe]]\nmachine = 'rpi4'\nworkload = 'compat.json'\n";
        let suite = parse(&format!("{probe}for = '700ms'")).expect("the suite is valid");
        assert_eq!(
            (suite.probes[0].machine.as_str(), suite.probes[0].for_ns),
            ("rpi4", 700_000_000)
        );
        let error = parse(&format!("{probe}for = '1 parsec'")).expect_err("a wrong length");
        assert!(error.starts_with("x.toml:8:7: "), "{error}");
        let error = parse(&format!("{probe}for = '1s'\nmetric = 'score'")).expect_err("a probe with a figure");
        assert!(error.contains("x.toml:9:1: unknown key 'metric'"), "{error}");
    }

    #[test]
    fn errors_show_the_position() {
        for seeds in ["0", "[]", "1001", "18446744073709551615"] {
            let found = ScoreSuite::parse(&Source::new("x.toml", format!("seeds = {seeds}\ncase = []")));
            let found = found.expect_err(seeds).to_string();
            assert!(found.contains("x.toml:1:9: there must be 1 to 1000 seeds"), "{found}");
        }
        for (more, error) in [
            ("", "missing"),
            ("for = '1 parsec'", "x.toml:4:7: "),
            (
                "for = 1",
                "x.toml:4:7: '1' has no unit: write a text with ns, us, ms, s or min",
            ),
            (
                "for = '1s'\nmetric = 'p99_wakup'",
                "x.toml:5:10: there is no metric 'p99_wakup'",
            ),
            ("for = '1s'\nmetric = 'switches'", "x.toml:5:10: neither more nor less"),
            (
                "for = '1s'\nweight = -1.0",
                "x.toml:5:10: the weight -1 is not a positive number",
            ),
            ("for = '1s'\nfrom = 1", "unknown key 'from'"),
        ] {
            let found = parse(more).expect_err(more);
            assert!(found.contains(error), "{more}: {found}");
        }
    }
}
