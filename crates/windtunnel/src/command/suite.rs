// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel suite` runs a file of test cases on policies and counts which objects pass.

use super::complete;
use clap::Args as ClapArgs;
use input::duration;
use input::error::Error;
use kernel::release::Release;
use lab::suite::Suite;
use runner::exit::ExitStatus;
use runner::interrupt;
use runner::outln;
use runner::spec::EngineChoice;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(ClapArgs)]
pub struct Args {
    /// Suite file (docs/suites.md)
    suite: PathBuf,
    /// Directory of the objects [default: the suite's directory]
    #[arg(long, value_name = "DIR")]
    objects: Option<PathBuf>,
    /// Run only cases whose object's name contains TEXT
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Linux release of the cases that name none, 6.12 to 7.3
    #[arg(long, value_name = "RELEASE", default_value_t, add = complete::releases())]
    kernel: Release,
    /// Simulated time limit of each case
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse_some)]
    max_time: u64,
    /// Use the interpreter instead of the JIT compiler
    #[arg(long)]
    interpret: bool,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let suite = Suite::read(&self.suite, self.kernel)?;
        let directory = self.suite.parent().unwrap_or(&self.suite).to_owned();
        let objects = self.objects.unwrap_or(directory);
        let engine = match self.interpret {
            true => EngineChoice::Interpreter,
            false => EngineChoice::Auto,
        };
        let only = self.only.unwrap_or_default();
        let cases = suite.cases.iter().filter(|case| case.object.contains(&only));
        // An object passes if all its cases pass.
        let mut objects_passed: BTreeMap<&str, bool> = BTreeMap::new();
        interrupt::listen();
        let mut not_run = 0;
        for case in cases {
            if interrupt::signal().is_some() {
                not_run += 1;
                continue;
            }
            let result = case.run(&objects, engine.engine(), self.max_time);
            *objects_passed.entry(&case.object).or_insert(true) &= result.is_ok();
            match result {
                Ok(()) => outln!("ok   {}: {}", case.object, case.about),
                Err(message) => outln!("FAIL {}: {message}", case.object),
            }
        }
        let (number, passed) = (
            objects_passed.len(),
            objects_passed.values().filter(|&&passed| passed).count(),
        );
        let weaker = suite.cases.iter().filter(|case| case.object.contains(&only));
        let weaker: Vec<_> = weaker
            .filter_map(|case| Some((&case.object, case.weaker.as_deref()?)))
            .collect();
        for (object, why) in &weaker {
            outln!("weaker: {object}: {why}");
        }
        for (test, why) in &suite.left_out {
            outln!("left out: {test}: {why}");
        }
        let mut summary = format!("{passed} of {number} objects pass");
        if !weaker.is_empty() {
            summary += &format!(", weaker than the original: {}", weaker.len());
        }
        if !suite.left_out.is_empty() {
            summary += &format!(", tests left out: {}", suite.left_out.len());
        }
        outln!("{summary}");
        if not_run > 0 {
            outln!("interrupted: {not_run} cases were not run");
        }
        Ok(ExitStatus::from(u8::from(passed < number)))
    }
}
