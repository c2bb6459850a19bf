// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel score` compares a policy with a baseline on several machines and workloads, and
//! prints one number.

use super::complete;
use super::progress::bar;
use crate::error::Error;
use crate::exit::ExitStatus;
use crate::policy::Policy;
use crate::profiles;
use crate::quote::quote;
use crate::scenario::Phase;
use crate::score::{self, Options, ScoreSuite};
use crate::{console, errln, interrupt, outln, search, size};
use clap::Args as ClapArgs;
use kernel::release::Release;
use std::num::NonZero;
use std::path::{Path, PathBuf};

#[derive(ClapArgs)]
pub struct Args {
    /// Policy: an object file, the name of a built policy (`policy list`), or `eevdf`
    #[arg(add = complete::policies())]
    policy: String,
    /// Score suite: a TOML file with machines, workloads and figures, or the name of a shipped one
    /// (scores/NAME.toml)
    #[arg(long, value_name = "FILE", default_value = "default", add = complete::score_suites())]
    suite: String,
    /// Set a parameter of the policy (`policy show`)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting, add = complete::settings())]
    set: Vec<(String, String)>,
    /// Profile, which replaces the policy's user-space part: a file, a name in profiles/, or `none`
    /// [default: for a policy NAME, NAME.toml beside its object, else profiles/NAME.toml]
    #[arg(long, value_name = "FILE", add = complete::profiles())]
    profile: Option<PathBuf>,
    /// Linux release for which the policy is loaded, 6.12 to 7.2
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

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let suite = ScoreSuite::read(&find(&self.suite)?)?;
        let policy = Policy::find(&self.policy)?;
        let options = Options {
            settings: self.set.clone(),
            profile: self.profile.clone(),
            kernel: self.kernel,
            phase: self.phase,
            sanitizer: !self.no_sanitize,
            memory: self.memory,
            threads: self.threads,
        };
        interrupt::listen();
        let bar = bar("score");
        let scored = score::run(&suite, &policy, &options, &|done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let Some(scored) = scored? else {
            errln!("interrupted before all runs were complete, so there is no score");
            return Ok(ExitStatus::from(1));
        };
        for warning in &scored.warnings {
            errln!("{}: warning: {warning}", scored.policy);
        }
        if self.json {
            let mut json = score::json(&scored, &self.suite, &self.command());
            json["profile"] = serde_json::json!(self.profile_word());
            let text = serde_json::to_string_pretty(&json).map_err(|error| Error::new(error.to_string()))?;
            console::json(&text);
        } else {
            console::styled(&score::table(&scored, console::surface()));
            for line in score::lines(&scored) {
                outln!("{line}");
            }
            if let Some(word) = self.profile_word() {
                outln!("{}: profile {word}", scored.policy);
            }
            outln!("repeat: {}", self.command());
        }
        Ok(ExitStatus::from(u8::from(scored.score.is_none())))
    }

    /// Returns the argument of `--profile` that selects the profile of the policy.
    fn profile_word(&self) -> Option<String> {
        let Ok(Policy::Object { name, path }) = Policy::find(&self.policy) else {
            return None;
        };
        let located = profiles::locate(self.profile.as_deref(), &name, &path).ok()??;
        Some(located.word)
    }

    /// Returns the command line that repeats the runs.
    fn command(&self) -> String {
        let mut words = vec![format!(
            "windtunnel score {} --suite {}",
            quote(&self.policy),
            quote(&self.suite)
        )];
        words.extend(
            self.set
                .iter()
                .map(|(name, value)| format!("--set {}", quote(&format!("{name}={value}")))),
        );
        words.extend(self.profile_word().map(|word| format!("--profile {}", quote(&word))));
        if self.kernel != Release::default() {
            words.push(format!("--kernel {}", self.kernel));
        }
        if self.phase != Phase::Random {
            words.push(format!("--phase {}", self.phase.name()));
        }
        if self.no_sanitize {
            words.push("--no-sanitize".to_owned());
        }
        if self.memory != bpf::memory::DEFAULT_LIMIT {
            words.push(format!("--memory {}", size::format(self.memory)));
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
