// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel check`: does an object load, and what of it would not work here?

use clap::Args as ClapArgs;
use kernel::release::Release;
use std::process::ExitCode;
use windtunnel::error::Error;
use windtunnel::load;
use windtunnel::outln;
use windtunnel::policy::Policy;

#[derive(ClapArgs)]
pub struct Args {
    /// Objects or names of policies
    #[arg(required = true)]
    objects: Vec<String>,
    /// The release of Linux whose functions, callbacks and fields there are: 6.12 to 7.2
    #[arg(long, value_name = "RELEASE", default_value_t)]
    kernel: Release,
    /// Name every field and function that is not modelled
    #[arg(long, short)]
    verbose: bool,
}

impl Args {
    pub fn run(self) -> Result<ExitCode, Error> {
        let mut failed = 0;
        for object in &self.objects {
            match Policy::find(object).and_then(|policy| load::check(&policy, self.kernel)) {
                Ok(warnings) => {
                    outln!("{object}: loads, {} warnings", warnings.len());
                    if self.verbose {
                        warnings.iter().for_each(|warning| outln!("  {warning}"));
                    }
                }
                Err(error) => {
                    outln!("{object}: {error}");
                    failed += 1;
                }
            }
        }
        outln!("{} objects, {failed} refused", self.objects.len());
        Ok(ExitCode::from(if failed > 0 { 2 } else { 0 }))
    }
}
