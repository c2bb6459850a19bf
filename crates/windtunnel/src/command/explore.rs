// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel explore` searches for races and stalls with overlapping callbacks.

use super::complete;
use super::progress::runs_bar;
use clap::Args as ClapArgs;
use input::duration;
use input::error::Error;
use kernel::release::Release;
use lab::explore::case::{Case, Load, Space};
use lab::explore::observe::{Finding, Observed, Target};
use lab::explore::shrink::Shrink;
use lab::explore::{Explored, Found, Limits, explore, text};
use runner::exit::ExitStatus;
use runner::interrupt;
use runner::outln;
use runner::quote::quote;
use runner::spec::RunSpec;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

const AFTER: &str = "\
Executes many short runs in which callbacks of different CPUs overlap: a CPU is delayed at an access
to shared memory while other CPUs continue. Reports races, stalls, and errors that end the policy,
and shrinks what it finds. docs/explore.md explains the method and its limits.

Exit status: 0 if nothing was found, 1 if something was found, 2 if the usage or an input is wrong.";

/// Longest time that a finding is shrunk, ns.
const SHRINK_NS: u64 = 30_000_000_000;

#[derive(ClapArgs)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Object file, or name of a built policy (`policy list`)
    #[arg(required_unless_present = "replay", add = complete::policies())]
    policy: Option<String>,
    /// Machine of all runs [default: smp2 and smp4]
    #[arg(long, short, value_name = "MACHINE")]
    machine: Option<String>,
    /// Workload of all runs [default: each run generates its own]
    #[arg(long, short, value_name = "WORKLOAD")]
    workload: Option<String>,
    /// Simulated time after which a run ends at the latest
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse, default_value = "2s")]
    for_ns: u64,
    /// Real time after which no further run begins
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "60s")]
    wall: u64,
    /// Number of runs after which the exploration ends [default: no limit]
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Seed of the exploration
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Continue after the first finding, and report each different one
    #[arg(long)]
    all: bool,
    /// Also report races on statistics counters
    #[arg(long)]
    statistics: bool,
    /// Do not shrink the findings
    #[arg(long)]
    no_shrink: bool,
    /// Write the machine, the workload and the command of the first finding to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Execute one run, with a forced switch at this point (may be repeated)
    #[arg(long, value_name = "POINT@TIME", value_parser = parse_hold)]
    hold: Vec<(u64, u64)>,
    /// Repeat the run of a finding, and list the accesses of its CPUs side by side
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["policy", "machine", "workload", "runs", "hold", "all"])]
    replay: Option<String>,
    /// Set a parameter of the policy (`policy show`)
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Profile, which replaces a policy's user-space part (profiles/README.md)
    #[arg(long, value_name = "FILE")]
    profile: Vec<String>,
    /// Linux release for which objects are loaded
    #[arg(long, value_name = "RELEASE", default_value_t)]
    kernel: Release,
    /// Number of threads [default: one for each CPU of the host]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
}

/// Parses `POINT@TIME`.
fn parse_hold(text: &str) -> Result<(u64, u64), String> {
    let (point, time) = text
        .split_once('@')
        .ok_or("expected POINT@TIME, for example 120@20us")?;
    let point = point
        .parse()
        .map_err(|_| format!("'{point}' is no number of a point"))?;
    Ok((point, duration::parse(time)?))
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        interrupt::listen();
        if let Some(token) = &self.replay {
            let (policy, case) = Case::from_token(token)?;
            return self.replay(&policy, &case);
        }
        let policy = self.policy.clone().unwrap_or_default();
        let target = self.target(&policy);
        if !self.hold.is_empty() {
            return self.replay(&policy, &self.one_case());
        }
        let space = Space {
            machine: self.machine.clone(),
            workload: self.workload.clone(),
            for_ns: self.for_ns,
            points: 1,
            hotplug: false,
        };
        let limits = Limits {
            runs: self.runs,
            time: Duration::from_nanos(self.wall),
            all: self.all,
            threads: self.threads,
        };
        let bar = runs_bar(self.runs.unwrap_or(0));
        let explored = explore(&target, &space, self.seed, limits, &|runs, time| {
            if self.runs.is_none() {
                // The length is a guess from the time that is left.
                let all = u128::from(runs) * limits.time.as_millis() / time.as_millis().max(1);
                bar.set_length(u64::try_from(all).unwrap_or(runs));
            }
            bar.set_position(runs);
        })?;
        bar.finish_and_clear();
        self.print(&target, &policy, &explored)
    }

    fn target(&self, policy: &str) -> Target {
        let spec = RunSpec {
            policy: policy.to_owned(),
            set: self.set.clone(),
            profile: self.profile.clone(),
            kernel: self.kernel,
            ..RunSpec::default()
        };
        Target::new(spec, self.statistics)
    }

    /// Returns the case that the options describe without any random choice.
    fn one_case(&self) -> Case {
        let mut holds = self.hold.clone();
        holds.sort_unstable();
        Case {
            machine: self.machine.clone().unwrap_or_else(|| "smp2".to_owned()),
            load: Load::Named(self.workload.clone().unwrap_or_else(|| RunSpec::default().workload)),
            seed: self.seed,
            for_ns: self.for_ns,
            holds,
        }
    }

    fn print(&self, target: &Target, policy: &str, explored: &Explored) -> Result<ExitStatus, Error> {
        for (index, found) in explored.found.iter().enumerate() {
            if index > 0 {
                outln!();
            }
            self.print_found(target, policy, found, index == 0)?;
        }
        let seconds = explored.time.as_secs_f64();
        if explored.interrupted {
            outln!("interrupted");
        }
        if explored.found.is_empty() {
            outln!(
                "nothing found in {} runs with {} forced switches",
                explored.runs,
                explored.nr_held
            );
            if explored.nr_benign > 0 && !self.statistics {
                let nr = explored.nr_benign;
                outln!("not shown: races on statistics counters at up to {nr} pairs of places (--statistics)");
            }
        }
        runner::errln!(
            "{} runs in {seconds:.1} s ({:.0} per second), {:.1} s of simulated time",
            explored.runs,
            explored.runs as f64 / seconds.max(1e-9),
            explored.simulated_ns as f64 / 1e9
        );
        Ok(ExitStatus::from(u8::from(!explored.found.is_empty())))
    }

    fn print_found(&self, target: &Target, policy: &str, found: &Found, is_first: bool) -> Result<(), Error> {
        let (mut case, mut runs) = (found.case.clone(), 0);
        if !self.no_shrink {
            let time = Duration::from_nanos(SHRINK_NS);
            (case, runs) = Shrink::new(target, found.finding.clone(), case, time).run()?;
        }
        let observed = target.observe(&case, false)?;
        let same = |finding: &&Finding| finding.same_as(&found.finding, &observed.code);
        let finding = observed.findings.iter().find(same).unwrap_or(&found.finding);
        runner::out!("{}", text::finding(finding, &observed.code));
        outln!("found in run {}", found.run);
        let tasks = case.nr_tasks().map_or_else(String::new, |nr| format!(", tasks: {nr}"));
        let what = if runs > 0 { "shrunk to" } else { "shown with" };
        outln!(
            "{what} forced switches: {}, machine: {}{tasks}, simulated time: {}",
            observed.nr_held,
            case.machine,
            text::ms(observed.simulated_ns)
        );
        if let (Some(folder), true) = (&self.out, is_first) {
            self.write(folder, policy, &case, finding, &observed)?;
        }
        outln!("replay: windtunnel explore --replay {}", case.token(policy));
        Ok(())
    }

    /// Repeats a case and lists the accesses around its first finding.
    fn replay(&self, policy: &str, case: &Case) -> Result<ExitStatus, Error> {
        let observed = self.target(policy).observe(case, true)?;
        let Some(finding) = observed.findings.first() else {
            outln!("nothing found in this run, which reached {} points", observed.points);
            return Ok(ExitStatus::SUCCESS);
        };
        runner::out!("{}", text::finding(finding, &observed.code));
        outln!();
        runner::out!("{}", text::listing(&observed, finding));
        Ok(ExitStatus::from(1))
    }

    /// Writes the files that repeat a case.
    fn write(
        &self,
        folder: &Path,
        policy: &str,
        case: &Case,
        finding: &Finding,
        observed: &Observed,
    ) -> Result<(), Error> {
        let failed = |path: &Path, error: std::io::Error| Error::new(format!("{}: {error}", path.display()));
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        let workload = match (&case.load, case.json()) {
            (Load::Named(word), _) => word.clone(),
            (Load::Parts(_), json) => {
                let path = folder.join("workload.json");
                std::fs::write(&path, json.unwrap_or_default() + "\n").map_err(|error| failed(&path, error))?;
                path.display().to_string()
            }
        };
        let holds = case.holds.iter().map(|(point, ns)| format!(" --hold {point}@{ns}ns"));
        let holds: String = match case.holds.is_empty() {
            // A hold at point 0, which no CPU reaches, makes the command execute one run.
            true => " --hold 0@1ns".to_owned(),
            false => holds.collect(),
        };
        let settings: String = self.set.iter().map(|set| format!(" --set {}", quote(set))).collect();
        let profiles: String = self
            .profile
            .iter()
            .map(|file| format!(" --profile {}", quote(file)))
            .collect();
        let command = format!(
            "windtunnel explore {} --machine {} --workload {} --for {}ns --seed {}{holds}{settings}{profiles}",
            quote(policy),
            quote(&case.machine),
            quote(&workload),
            case.for_ns,
            case.seed
        );
        let path = folder.join("finding.txt");
        let text = format!("{}\nrepeat: {command}\n", text::finding(finding, &observed.code));
        std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
        outln!("files: {}", path.display());
        Ok(())
    }
}
