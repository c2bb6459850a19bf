// SPDX-License-Identifier: GPL-2.0-only
//! Refuses to run programs: this host's system calls are unknown to the other modules.

use input::Error;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use crate::{Report, Settings};

const MESSAGE: &str = "programs of schedulers need a host with x86-64: use the object of the scheduler instead";

/// # Errors
/// Always.
pub fn files(_: &[String]) -> Result<Vec<PathBuf>, Error> {
    Err(MESSAGE.into())
}

/// # Errors
/// Always.
pub fn start(_: &mut kernel::Machine, _: Settings) -> Result<Rc<RefCell<Report>>, Error> {
    Err(MESSAGE.into())
}
