// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel explore` searches for races and stalls with overlapping callbacks.

mod report;
mod step;

pub(super) use report::{Report, progress};

use super::complete;
use clap::Args as ClapArgs;
use input::duration;
use input::error::Error;
use kernel::release::Release;
use lab::explore::case::{Case, Load, Space, parse_hold};
use lab::explore::observe::{Finding, Observed, STALL_NS, Target};
use lab::explore::order::Order;
use lab::explore::step::Stepper;
use lab::explore::{Limits, explore, text};
use runner::exit::ExitStatus;
use runner::interrupt;
use runner::load::Fit;
use runner::outln;
use runner::spec::RunSpec;
use std::io::{self, IsTerminal};
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

const AFTER: &str = "\
Executes many short runs in which callbacks of different CPUs overlap: a CPU is delayed at an access
to shared memory while other CPUs continue. Reports races, stalls, and errors that end the policy,
and shrinks what it finds. docs/explore.md explains the method and its limits.

Exit status: 0 if nothing was found, 1 if something was found, 2 if the usage or an input is wrong.
With --against, 1 means that the newer version shows something that the older one does not.";

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
    /// An older version of the policy. Both versions are explored, and only what one of them shows is
    /// reported
    #[arg(long, value_name = "OLD", add = complete::policies(), conflicts_with_all = ["replay", "hold"])]
    against: Option<String>,
    /// Also report races on statistics counters
    #[arg(long)]
    statistics: bool,
    /// Also report races on plain flags, which the other CPU stores without a look at their values
    #[arg(long)]
    flags: bool,
    /// Print each pair of lines that race, not only one for each pair of functions
    #[arg(long)]
    pairs: bool,
    /// Let half of the runs be changes of runs that reached new code or a new order of accesses
    #[arg(long)]
    guided: bool,
    /// Order of the CPUs. `delays` delays CPUs at random points. `pct[:DEPTH]` gives them random
    /// priorities, which drop at DEPTH - 1 random points
    #[arg(long, value_name = "ORDER", default_value = "delays", conflicts_with_all = ["guided", "hold", "replay"])]
    order: Order,
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
    /// With --replay: walk through the accesses, forward and backward. On a terminal, keys move;
    /// otherwise all accesses are printed, one a line
    #[arg(long)]
    step: bool,
    /// With --replay: which finding of the run to show, counted from the likeliest defect on
    /// [default: 1]
    #[arg(long, value_name = "N")]
    finding: Option<NonZero<usize>>,
    /// Set a parameter of the policy (`policy show`)
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Profile, which replaces a policy's user-space part (profiles/README.md)
    #[arg(long, value_name = "FILE")]
    profile: Vec<String>,
    /// Parts of the profile that do not fit the object: an error, or left out without a warning
    #[arg(long, value_name = "FIT", value_enum, default_value_t)]
    profile_fit: Fit,
    // The default of a token is its own release, so the help names it as a text.
    #[arg(long, value_name = "RELEASE", help = format!(
        "Linux release for which objects are loaded [default: {}, or the release of the token]",
        Release::default()
    ))]
    kernel: Option<Release>,
    /// Number of threads [default: one for each CPU of the host]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
}

/// Walks through the accesses of a run: with the keyboard, or as a list without a terminal.
fn step_through(observed: &Observed, finding: Option<&Finding>) -> Result<ExitStatus, Error> {
    let text = finding.map(|finding| text::finding(finding, &observed.code));
    let text = text.unwrap_or_else(|| "nothing found in this run\n".to_owned());
    let Some(mut stepper) = Stepper::new(observed, finding) else {
        return Err(Error::new("--step: the policy accesses no shared memory in this run"));
    };
    if io::stdout().is_terminal() && io::stdin().is_terminal() {
        step::walk(text.lines().next().unwrap_or_default(), &mut stepper)?;
    } else {
        runner::out!("{text}\n{}", stepper.listing());
    }
    Ok(ExitStatus::from(u8::from(finding.is_some())))
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        interrupt::listen();
        if let Some(token) = &self.replay {
            let (policy, case, kernel) = Case::from_token(token)?;
            return self.replay(&policy, kernel, &case);
        }
        if self.step {
            return Err(Error::new(
                "--step walks through the run of a token: add --replay TOKEN",
            ));
        }
        if self.finding.is_some() {
            return Err(Error::new(
                "--finding chooses a finding of a token's run: add --replay TOKEN",
            ));
        }
        let policy = self.policy.clone().unwrap_or_default();
        let kernel = Release::default();
        let target = self.target(&policy, kernel);
        if !self.hold.is_empty() {
            return self.replay(&policy, kernel, &self.one_case());
        }
        let space = Space {
            machine: self.machine.clone(),
            workload: self.workload.clone(),
            for_ns: self.for_ns,
            order: self.order,
            ..Space::default()
        };
        let limits = Limits {
            runs: self.runs,
            time: Duration::from_nanos(self.wall),
            all: self.all,
            guided: self.guided,
            threads: self.threads,
        };
        let report = Report {
            shrinks: !self.no_shrink,
            pairs: self.pairs,
            out: self.out.as_deref(),
            threads: self.threads,
        };
        if let Some(old) = &self.against {
            let limits = Limits { all: true, ..limits };
            let old = self.target(old, kernel);
            let before = progress(limits, |each| explore(&old, &space, self.seed, limits, each))?;
            let after = progress(limits, |each| explore(&target, &space, self.seed, limits, each))?;
            return report.print_difference([&old, &target], [&before, &after]);
        }
        let explored = progress(limits, |each| explore(&target, &space, self.seed, limits, each))?;
        report.print(&target, &explored)
    }

    /// Returns the policy with the options of its runs. `kernel` is the release unless `--kernel`
    /// names one.
    fn target(&self, policy: &str, kernel: Release) -> Target {
        let spec = RunSpec {
            policy: policy.to_owned(),
            set: self.set.clone(),
            profile: self.profile.clone(),
            profile_fit: self.profile_fit,
            kernel: self.kernel.unwrap_or(kernel),
            ..RunSpec::default()
        };
        Target {
            statistics: self.statistics,
            flags: self.flags,
            ..Target::new(spec)
        }
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
            stall_ns: STALL_NS,
            holds,
        }
    }

    /// Repeats a case and lists the accesses around one of its findings.
    fn replay(&self, policy: &str, kernel: Release, case: &Case) -> Result<ExitStatus, Error> {
        let observed = self.target(policy, kernel).observe(case, true)?;
        let (number, nr) = (self.finding.map_or(1, NonZero::get), observed.findings.len());
        if number > nr.max(1) {
            return Err(Error::new(format!(
                "--finding {number}: the last finding of this run is {nr}"
            )));
        }
        let finding = observed.findings.get(number - 1);
        if self.step {
            return step_through(&observed, finding);
        }
        let Some(finding) = finding else {
            outln!("nothing found in this run, which reached {} points", observed.points);
            return Ok(ExitStatus::SUCCESS);
        };
        runner::out!("{}", text::finding(finding, &observed.code));
        outln!();
        runner::out!("{}", text::listing(&observed, finding));
        Ok(ExitStatus::from(1))
    }
}
