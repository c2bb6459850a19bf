// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel check` links and compiles objects. For each object, it lists the fields and
//! functions that the object uses but the simulator does not model.

use super::complete;
use crate::error::Error;
use crate::exit::ExitStatus;
use crate::load;
use crate::outln;
use crate::policy::Policy;
use clap::Args as ClapArgs;
use kernel::release::Release;

#[derive(ClapArgs)]
pub struct Args {
    /// Object files or names of built policies (`policy list`)
    #[arg(required = true, add = complete::policies())]
    objects: Vec<String>,
    /// Linux release to load the objects for, 6.12 to 7.2
    #[arg(long, value_name = "RELEASE", default_value_t, add = complete::releases())]
    kernel: Release,
    /// List every field and function that is not modelled
    #[arg(long, short)]
    verbose: bool,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let mut failed = 0;
        for object in &self.objects {
            match Policy::find(object).and_then(|policy| load::check(&policy, self.kernel)) {
                Ok(warnings) => {
                    outln!("{object}: loads with {} warnings", warnings.len());
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
        outln!("{} objects checked, {failed} refused", self.objects.len());
        Ok(ExitStatus::from(if failed > 0 { 2 } else { 0 }))
    }
}
