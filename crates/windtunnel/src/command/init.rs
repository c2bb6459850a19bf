// SPDX-License-Identifier: GPL-2.0-only
//! The command `init`: writes a starter project.

use clap::Args as ClapArgs;
use input::error::Error;
use runner::exit::ExitStatus;
use runner::outln;
use runner::quote::quote;
use std::path::PathBuf;

#[derive(ClapArgs)]
pub struct Args {
    /// Directory of the project. It is created, or must be empty
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Names and contents of the project's files. The headers that policies include are written in
/// addition.
const FILES: [(&str, &str); 6] = [
    ("first.bpf.c", include_str!("../../starter/first.bpf.c")),
    ("Makefile", include_str!("../../starter/Makefile")),
    ("machine.toml", include_str!("../../starter/machine.toml")),
    ("workload.json", include_str!("../../starter/workload.json")),
    (".gitignore", include_str!("../../starter/.gitignore")),
    (
        ".github/workflows/scheduler.yml",
        include_str!("../../starter/.github/workflows/scheduler.yml"),
    ),
];

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let folder = &self.folder;
        if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Error::new(format!("{}: the directory is not empty", folder.display()))
                .hint("give the name of a new directory"));
        }
        let shipped = shipped::files().map_err(|error| Error::new(error.to_string()))?;
        let headers = shipped.iter().filter_map(|(name, contents)| {
            let name = name
                .strip_prefix("policies/")
                .filter(|name| name.starts_with("include/"))?;
            Some((name, *contents))
        });
        let files = FILES.iter().map(|(name, text)| (*name, text.as_bytes()));
        for (name, contents) in files.chain(headers) {
            let path = folder.join(name);
            let parent = path.parent().unwrap_or(folder);
            std::fs::create_dir_all(parent).map_err(|error| Error::io(parent, &error))?;
            std::fs::write(&path, contents).map_err(|error| Error::io(&path, &error))?;
        }
        outln!(
            "{}: a policy (first.bpf.c), a machine, a workload and a job for CI",
            folder.display()
        );
        outln!("next: cd {} && make run", quote(&folder.display().to_string()));
        Ok(ExitStatus::SUCCESS)
    }
}
