// SPDX-License-Identifier: GPL-2.0-only
//! `live compare`: the same object and workload, simulated on a machine like this one and executed on it.

use crate::journal::Journal;
use crate::load::setting;
use crate::policy::{Failure, Source};
use crate::{kernel, run};
use bpf::vm::Engine;
use report::RunResult;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use windtunnel::duration;
use windtunnel::error::Error;
use windtunnel::policy::Policy;
use windtunnel::scenario::Scenario;
use windtunnel::search;

/// How long a workload without an end runs on either side.
const DEFAULT_NS: u64 = 5_000_000_000;

#[derive(clap::Args)]
pub struct Args {
    /// A sched_ext object, the name of a built policy, or `eevdf` for the kernel's default scheduler
    policy: String,
    /// An rt-app JSON file or a generator (`windtunnel workload list`)
    workload: String,
    /// Time of each side [default: what the workload asks for, else until its tasks have exited, 5 s at most]
    #[arg(long = "for", value_parser = duration::parse)]
    for_ns: Option<u64>,
    /// What is simulated: as of `windtunnel run`; a file of `machine calibrate` has this machine's costs
    #[arg(long, short, default_value = "host")]
    machine: String,
    /// Where chance starts from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A policy's parameter: NAME=VALUE (`windtunnel policy show`)
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

impl Args {
    pub fn run(self) -> Result<ExitCode, Error> {
        let policy = Policy::find(&self.policy)?;
        let folders = |name| search::folders(name);
        let machine = machine::load(&self.machine, &paths(&folders("machines")))?;
        let workload = workload::load(&self.workload, &paths(&folders("workloads")))?;
        let settings: Vec<(String, String)> = self.set.iter().map(|text| setting(text)).collect::<Result<_, _>>()?;
        let limit = self.for_ns.or(workload.duration_ns).unwrap_or(DEFAULT_NS);

        let live = match &policy {
            Policy::Eevdf if !kernel::ops().is_empty() => {
                return Err(
                    Error::new(format!("'{}' is loaded, not the default scheduler", kernel::ops()))
                        .hint("unload it: `windtunnel live unload`"),
                );
            }
            Policy::Eevdf => run::execute(workload.clone(), Some(limit), self.seed)?,
            Policy::Object { name, path } => {
                kernel::can_load()?;
                let source = Source::new(name.clone(), path.clone(), &settings)?;
                match source.load(&mut Journal::from_now()) {
                    Ok(_loaded) => run::execute(workload.clone(), Some(limit), self.seed)?,
                    Err(Failure::Policy(words)) => {
                        eprintln!("{words}");
                        return Ok(ExitCode::from(1));
                    }
                    Err(Failure::Restart) => return Err(Error::new("CPUs came or went: run it again")),
                    Err(Failure::Refused(error)) => return Err(error),
                }
            }
        };
        let scenario = Scenario {
            policy,
            settings,
            engine: Engine::default(),
            machine,
            workload,
            seed: self.seed,
            for_ns: Some(limit),
            hotplug: Vec::new(),
            trace: None,
            draw: None,
        };
        let simulated = scenario.run(&mut |_| {})?.result;
        for note in live.1 {
            eprintln!("windtunnel live: {note}");
        }
        print!("{}", table(&simulated, &live.0));
        Ok(ExitCode::SUCCESS)
    }
}

fn paths(folders: &[PathBuf]) -> Vec<&Path> {
    folders.iter().map(PathBuf::as_path).collect()
}

/// Both sides and the error of the simulation, a line a figure. Live counts of switches and busy time are the whole machine's.
fn table(simulated: &RunResult, live: &RunResult) -> String {
    let seconds = |r: &RunResult| r.simulated_ns.max(1) as f64 / 1e9;
    let ms = |ns: u64| ns as f64 / 1e6;
    let mut rows = vec![
        ("time of the run, s".to_owned(), seconds(simulated), seconds(live)),
        (
            format!("{}/s", live.throughput.unit),
            simulated.throughput.per_second,
            live.throughput.per_second,
        ),
    ];
    if let (Some(simulated), Some(score)) = (simulated.score, live.score) {
        rows.insert(0, (format!("score, {}", live.score_unit), simulated, score));
    }
    if live.response_ns.count > 0 {
        let (s, l) = (simulated.response_ns, live.response_ns);
        rows.push(("response mean, ms".into(), ms(s.mean), ms(l.mean)));
        rows.push(("response p50, ms".into(), ms(s.p50), ms(l.p50)));
        rows.push(("response p99, ms".into(), ms(s.p99), ms(l.p99)));
    }
    let rate = |count: u64, r: &RunResult| count as f64 / seconds(r);
    rows.push((
        "context switches/s".into(),
        rate(simulated.context_switches, simulated),
        rate(live.context_switches, live),
    ));
    rows.push(("busy, %".into(), simulated.busy_percent, live.busy_percent));
    let mut text = format!(
        "{} under {}\n{:24} {:>14} {:>14} {:>9}\n",
        live.workload, simulated.policy, "", "simulated", "live", "error"
    );
    for (name, simulated, live) in rows {
        let error = if live == 0.0 {
            "-".to_owned()
        } else {
            format!("{:+.1} %", 100.0 * (simulated - live) / live)
        };
        text += &format!("{name:24} {simulated:14.3} {live:14.3} {error:>9}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_the_simulations_of_the_live_figures() {
        let mut simulated = RunResult {
            simulated_ns: 2_000_000_000,
            context_switches: 300,
            ..RunResult::default()
        };
        simulated.throughput.per_second = 110.0;
        let mut live = RunResult {
            simulated_ns: 1_000_000_000,
            context_switches: 100,
            ..RunResult::default()
        };
        live.throughput.per_second = 100.0;
        let text = table(&simulated, &live);
        let line = |name: &str| {
            text.lines()
                .find(|line| line.contains(name))
                .unwrap_or_default()
                .to_owned()
        };
        assert!(
            line("context switches/s").ends_with("150.000        100.000   +50.0 %"),
            "{text}"
        );
        assert!(line("/s").contains("+10.0 %"), "{text}");
        assert!(!text.contains("response"), "{text}");
    }
}
