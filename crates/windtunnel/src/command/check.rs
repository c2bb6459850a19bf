// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel check` links and compiles objects, and analyses the code of all their programs. For
//! each object, it lists the reasons why the kernel refuses the object. It also lists the fields and
//! functions that the object uses but the simulator does not model.

use super::complete;
use clap::Args as ClapArgs;
use input::error::Error;
use kernel::release::Release;
use runner::exit::ExitStatus;
use runner::load;
use runner::outln;
use runner::policy::Policy;

#[derive(ClapArgs)]
pub struct Args {
    /// Object files or names of built policies (`policy list`)
    #[arg(required = true, add = complete::policies())]
    objects: Vec<String>,
    /// Linux release to load the objects for, 6.12 to 7.3
    #[arg(long, value_name = "RELEASE", default_value_t, add = complete::releases())]
    kernel: Release,
    /// List every field and function that is not modelled
    #[arg(long, short)]
    verbose: bool,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let (mut refused, mut unusable) = (0, 0);
        for object in &self.objects {
            match Policy::find(object).and_then(|policy| load::check(&policy, self.kernel)) {
                Ok(checked) => {
                    match checked.refused.as_slice() {
                        [] => outln!("{object}: loads with {} warnings", checked.warnings.len()),
                        [reason] => outln!("{object}: refused: {reason}"),
                        reasons => {
                            outln!("{object}: refused for {} reasons", reasons.len());
                            reasons.iter().for_each(|reason| outln!("  {reason}"));
                        }
                    }
                    refused += usize::from(!checked.refused.is_empty());
                    if self.verbose {
                        checked.warnings.iter().for_each(|warning| outln!("  {warning}"));
                    }
                }
                Err(error) => {
                    outln!("{object}: {error}");
                    unusable += 1;
                }
            }
        }
        let rest = match unusable {
            0 => String::new(),
            unusable => format!(", {unusable} with an error"),
        };
        let (number, s) = (self.objects.len(), if self.objects.len() == 1 { "" } else { "s" });
        outln!("{number} object{s} checked, {refused} refused{rest}");
        Ok(match (refused, unusable) {
            (0, 0) => ExitStatus::SUCCESS,
            (_, 0) => ExitStatus::from(1),
            _ => ExitStatus::from(2),
        })
    }
}
