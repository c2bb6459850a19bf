// SPDX-License-Identifier: GPL-2.0-only
//! Executes scripts (crate `script`) with the policies that the command knows by name.

use crate::load::{self, Loaded};
use crate::policy::Policy;
use bpf::engine::Engine;
use input::Source;
use input::error::Error;
use kernel::Machine;
use kernel::release::Release;
use profile::Properties;
use script::Script;
use std::path::Path;

/// Largest script that is read, bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Reads and executes a script. Returns its log.
///
/// # Errors
/// The script cannot be read or is wrong, or its policy cannot be loaded.
pub fn run(path: &Path) -> Result<String, Error> {
    let place = path.display().to_string();
    let source = Source::read(path, MAX_BYTES)?;
    let script = Script::parse(&place, &source.text)?;
    script::run(&script, |machine, policy| load_policy(&place, machine, policy))
}

/// Loads the policy of a script, as `run` would load it.
fn load_policy(place: &str, machine: &mut Machine, policy: &script::Policy) -> Result<(), Error> {
    let here = |error: Error| Error::new(format!("{place}:{}: {error}", policy.line));
    let Policy::Object { name, path } = Policy::find(&policy.name).map_err(here)? else {
        return Ok(());
    };
    let release = Release::default();
    let facts = Properties::new(machine.spec(), &release);
    let (object, profile) = load::prepare(&name, &path, &policy.parameters, facts).map_err(here)?;
    match load::enable(machine, &object, &profile, Engine::default()).map_err(here)? {
        Loaded::Enabled(_) => Ok(()),
        Loaded::Refused(exit) => Err(here(Error::new(format!("the policy was refused: {exit}")))),
    }
}
