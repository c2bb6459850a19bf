// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel score` compares a policy with a baseline on several machines and workloads, and
//! prints one number.

use super::complete;
use super::progress::bar;
use clap::Args as ClapArgs;
use input::error::Error;
use input::size;
use kernel::release::Release;
use lab::score::{self, ScoreSuite};
use runner::exit::ExitStatus;
use runner::inputs::Inputs;
use runner::profiles;
use runner::quote::quote;
use runner::spec::{Phase, RunSpec};
use runner::{console, errln, interrupt, outln, search};
use std::num::NonZero;
use std::path::{Path, PathBuf};

#[derive(ClapArgs)]
pub struct Args {
    /// Policy: an object file, the name of a built policy (`policy list`), `exec: COMMAND`, or
    /// `eevdf`
    #[arg(add = complete::policies())]
    policy: String,
    /// Score suite: a TOML file with machines, workloads and figures, or the name of a shipped one
    /// (scores/NAME.toml)
    #[arg(long, value_name = "FILE", default_value = "default", add = complete::score_suites())]
    suite: String,
    /// Set a parameter of the policy (`policy show`)
    #[arg(long, value_name = "NAME=VALUE", add = complete::settings())]
    set: Vec<String>,
    /// Profile, which replaces the policy's user-space part: a file, a name in profiles/, or `none`
    /// [default: for a policy NAME, NAME.toml beside its object, else profiles/NAME.toml]
    #[arg(long, value_name = "FILE", add = complete::profiles())]
    profile: Option<String>,
    /// Linux release for which the policy is loaded, 6.12 to 7.3
    #[arg(long, value_name = "RELEASE", default_value_t, add = complete::releases())]
    kernel: Release,
    /// Whether the seed also determines the times of the ticks and of the tasks' starts
    #[arg(long, value_enum, default_value = "random")]
    phase: Phase,
    /// Do not run the policy in the sanitizer. The score is the same and takes less time, but the
    /// policy may break rules of the kernel's verifier
    #[arg(long)]
    no_sanitize: bool,
    /// Memory that one run may use on this host. A policy that needs more has no score
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = size::parse)]
    memory: u64,
    /// Number of threads [default: one for each CPU of this host]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Print the score and its parts as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let suite = ScoreSuite::read(&find(&self.suite)?)?;
        let policy = Inputs::default().complete(&self.spec())?;
        interrupt::listen();
        let bar = bar("score");
        let scored = score::run(&suite, &policy, self.threads, &|done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let Some(scored) = scored? else {
            errln!("interrupted before all runs were complete, so there is no score");
            return Ok(ExitStatus::from(1));
        };
        let profile = policy.profile.last().filter(|word| *word != profiles::NONE);
        for warning in &scored.warnings {
            errln!("{}: warning: {warning}", scored.policy);
        }
        if self.json {
            let mut json = score::json(&scored, &self.suite, &self.command(&policy));
            json["profile"] = serde_json::json!(profile);
            let text = serde_json::to_string_pretty(&json).map_err(|error| Error::new(error.to_string()))?;
            console::json(&text);
        } else {
            console::styled(&score::table(&scored, console::surface()));
            for line in score::lines(&scored) {
                outln!("{line}");
            }
            if let Some(word) = profile {
                outln!("{}: profile {word}", scored.policy);
            }
            outln!("repeat: {}", self.command(&policy));
        }
        Ok(ExitStatus::from(u8::from(scored.score.is_none())))
    }

    /// Returns the description of the policy's runs, apart from the inputs that the suite defines.
    fn spec(&self) -> RunSpec {
        RunSpec {
            policy: self.policy.clone(),
            set: self.set.clone(),
            profile: self.profile.iter().cloned().collect(),
            kernel: self.kernel,
            phase: Some(self.phase),
            memory: self.memory,
            sanitize: !self.no_sanitize,
            ..RunSpec::default()
        }
    }

    /// Returns the command line that repeats the runs.
    fn command(&self, policy: &RunSpec) -> String {
        let given = RunSpec {
            phase: policy.phase.filter(|&phase| phase != Phase::Random),
            ..policy.clone()
        };
        let (policy, suite) = (quote(&self.policy), quote(&self.suite));
        let mut words = vec![format!("windtunnel score {policy} --suite {suite}")];
        words.extend(given.options());
        if self.no_sanitize {
            words.push("--no-sanitize".to_owned());
        }
        words.join(" ")
    }
}

/// Finds a score suite by its path, or by its name in a `scores` directory.
fn find(suite: &str) -> Result<PathBuf, Error> {
    let path = Path::new(suite);
    if path.is_file() {
        return Ok(path.to_owned());
    }
    let name = if suite.ends_with(".toml") {
        suite.to_owned()
    } else {
        format!("{suite}.toml")
    };
    let folders = search::folders("scores");
    let found = folders
        .iter()
        .map(|folder| folder.join(&name))
        .find(|path| path.is_file());
    found.ok_or_else(|| {
        Error::new(format!("there is no score suite '{suite}'"))
            .hint("give the path of a TOML file, or `default` for the shipped suite")
    })
}
