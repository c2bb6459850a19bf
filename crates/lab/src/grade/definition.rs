// SPDX-License-Identifier: GPL-2.0-only
//! The file format of labs. A lab is a directory with the file `lab.toml`, workloads, and the code
//! from which students start:
//!
//! ```toml
//! title = "Round robin"
//! about = "Every task runs for 10 ms, then the next one."
//! starter = "starter.bpf.c"
//! machine = "up"                    # for all items, as in `run --machine`
//! for = "1s"                        # simulated time
//! profile = "llcs.toml"             # sets global variables of the student's policy
//!
//! [[item]]
//! about = "the policy loads"
//! points = 10                       # an item without a workload only needs a policy that loads
//!
//! [[item]]
//! about = "a turn lasts 10 ms"
//! points = 20
//! workload = "hogs.json"            # a file of the lab, or as in `run --workload`
//! require = ["turn.max(hog) <= 11ms", "turn.mean(hog) >= 9ms"]
//! hint = "which argument of scx_bpf_dsq_insert() is the time slice?"
//!
//! [turnaround]                      # the run whose tasks the table shows
//! workload = "jobs.json"
//! ```

use super::condition::Condition;
use input::{Error, Source, duration};
use runner::search;
use runner::spec::RunSpec;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Name of the file that describes a lab.
const FILE: &str = "lab.toml";
/// Largest lab file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Longest simulated time of a run. It limits how long a submission can keep the host busy.
const MAX_NS: u64 = 60_000_000_000;

/// A parsed lab.
#[derive(Clone, Debug)]
pub struct Lab {
    /// Name of the lab's directory.
    pub name: String,
    pub folder: PathBuf,
    pub title: String,
    pub about: String,
    /// The file from which students start.
    pub starter: PathBuf,
    pub items: Vec<Item>,
    /// The run whose tasks the turnaround table shows.
    pub turnaround: Option<RunSpec>,
}

/// An item for which a submission gets points.
#[derive(Clone, Debug)]
pub struct Item {
    pub about: String,
    pub points: u32,
    /// The run, without a policy. `None` if the policy only has to load.
    pub run: Option<RunSpec>,
    /// All of these must hold.
    pub conditions: Vec<Condition>,
    /// What to think about if the item fails.
    pub hint: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LabFile {
    title: String,
    about: String,
    starter: Spanned<String>,
    machine: Option<String>,
    #[serde(rename = "for")]
    length: Option<Spanned<duration::Text>>,
    profile: Option<String>,
    item: Vec<ItemTable>,
    turnaround: Option<RunTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemTable {
    about: String,
    points: Spanned<u32>,
    workload: Option<Spanned<String>>,
    machine: Option<String>,
    #[serde(rename = "for")]
    length: Option<Spanned<duration::Text>>,
    seed: Option<u64>,
    #[serde(default)]
    require: Vec<Spanned<String>>,
    hint: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunTable {
    workload: Spanned<String>,
    machine: Option<String>,
    #[serde(rename = "for")]
    length: Option<Spanned<duration::Text>>,
    seed: Option<u64>,
}

impl Lab {
    /// Finds a lab by the path of its directory, or by its name in a `labs` directory.
    ///
    /// # Errors
    /// There is no such lab, or its file is not valid. The error shows the position.
    pub fn find(word: &str) -> Result<Lab, Error> {
        let path = Path::new(word);
        if path.join(FILE).is_file() {
            return Lab::read(path);
        }
        let folders = search::folders("labs");
        let shipped = folders.iter().map(|folder| folder.join(word));
        let found = shipped.into_iter().find(|folder| folder.join(FILE).is_file());
        match found {
            Some(folder) if !word.contains('/') => Lab::read(&folder),
            _ => {
                let names: BTreeSet<String> = Lab::names().into_iter().collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let hint = match names.as_slice() {
                    [] => format!("give a directory with a file {FILE}"),
                    names => format!("give a directory with a file {FILE}, or one of {}", names.join(", ")),
                };
                Err(Error::new(format!("there is no lab '{word}'")).hint(hint))
            }
        }
    }

    /// Returns the names of all labs in `labs` directories.
    pub fn names() -> Vec<String> {
        let folders = search::folders("labs");
        let entries = folders
            .iter()
            .flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten());
        let labs = entries.flatten().filter(|entry| entry.path().join(FILE).is_file());
        let mut names: Vec<String> = labs
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Reads the lab in a directory.
    ///
    /// # Errors
    /// The file cannot be read or is not a valid lab. The error shows the position.
    pub fn read(folder: &Path) -> Result<Lab, Error> {
        let source = Source::read(&folder.join(FILE), MAX_BYTES)?;
        let file: LabFile = source.toml()?;
        if file.item.is_empty() {
            return Err(source.error(0, "a lab needs at least one [[item]]"));
        }
        let starter = folder.join(file.starter.get_ref());
        if !starter.is_file() {
            let message = format!("there is no file '{}'", starter.display());
            return Err(source.error(file.starter.span().start, message));
        }
        let defaults = Defaults {
            folder,
            machine: file.machine.as_deref(),
            length: file.length.as_ref(),
            profile: file.profile.as_deref(),
        };
        let items = file.item.iter().map(|item| item.parse(&defaults, &source));
        let turnaround = file.turnaround.as_ref().map(|run| {
            defaults.run(
                &run.workload,
                run.machine.as_deref(),
                run.length.as_ref(),
                run.seed,
                &source,
            )
        });
        let canonical = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Ok(Lab {
            name: canonical
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            folder: folder.to_owned(),
            title: file.title,
            about: file.about.trim().to_owned(),
            starter,
            items: items.collect::<Result<_, _>>()?,
            turnaround: turnaround.transpose()?,
        })
    }

    /// Returns the highest number of points.
    pub fn points(&self) -> u32 {
        self.items.iter().map(|item| item.points).sum()
    }
}

/// The keys of a lab that apply to all of its runs.
struct Defaults<'a> {
    folder: &'a Path,
    machine: Option<&'a str>,
    length: Option<&'a Spanned<duration::Text>>,
    profile: Option<&'a str>,
}

impl Defaults<'_> {
    fn run(
        &self,
        workload: &Spanned<String>,
        machine: Option<&str>,
        length: Option<&Spanned<duration::Text>>,
        seed: Option<u64>,
        source: &Source,
    ) -> Result<RunSpec, Error> {
        let Some(length) = length.or(self.length) else {
            let message = "the run has no length";
            return Err(source
                .error(workload.span().start, message)
                .hint("add `for = \"1s\"` to the item, or to the lab for all items"));
        };
        let at = length.span().start;
        let for_ns = duration::parse_some(&length.get_ref().0).map_err(|message| source.error(at, message))?;
        if for_ns > MAX_NS {
            let most = duration::format(MAX_NS);
            return Err(source.error(at, format!("a run of a lab may simulate at most {most}")));
        }
        let own = self.folder.join(workload.get_ref());
        let workload = match own.is_file() {
            true => own.display().to_string(),
            false => workload.get_ref().clone(),
        };
        Ok(RunSpec {
            machine: machine.or(self.machine).map(str::to_owned),
            for_ns: Some(for_ns),
            seed: seed.unwrap_or(1),
            profile: vec![match self.profile {
                Some(file) => self.folder.join(file).display().to_string(),
                None => runner::profiles::NONE.to_owned(),
            }],
            sanitize: true,
            ..RunSpec::new("", "", &workload)
        })
    }
}

impl ItemTable {
    fn parse(&self, defaults: &Defaults, source: &Source) -> Result<Item, Error> {
        if *self.points.get_ref() == 0 {
            return Err(source.error(self.points.span().start, "an item needs at least one point"));
        }
        let conditions = self.require.iter().map(|text| {
            let at = text.span().start;
            Condition::parse(text.get_ref()).map_err(|message| source.error(at, message))
        });
        let run = self.workload.as_ref().map(|workload| {
            defaults.run(
                workload,
                self.machine.as_deref(),
                self.length.as_ref(),
                self.seed,
                source,
            )
        });
        if let (None, Some(first)) = (&run, self.require.first()) {
            return Err(source
                .error(first.span().start, "a condition needs a run")
                .hint("add a `workload` to the item"));
        }
        Ok(Item {
            about: self.about.clone(),
            points: *self.points.get_ref(),
            run: run.transpose()?,
            conditions: conditions.collect::<Result<_, _>>()?,
            hint: self.hint.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(text: &str) -> Result<Lab, String> {
        let folder = tempfile::tempdir().expect("the directory can be created");
        let head = "title = 'T'\nabout = 'A'\nstarter = 's.bpf.c'\n";
        std::fs::write(folder.path().join("s.bpf.c"), "").expect("the file can be written");
        std::fs::write(folder.path().join("own.json"), "{}").expect("the file can be written");
        std::fs::write(folder.path().join(FILE), format!("{head}{text}")).expect("the file can be written");
        Lab::read(folder.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_item_takes_the_keys_of_its_lab() {
        let text = "machine = 'up'\nfor = '2s'\n[[item]]\nabout = 'a'\npoints = 3\nworkload = 'own.json'\n\
                    [[item]]\nabout = 'b'\npoints = 4\nworkload = 'chat'\nmachine = 'smp2'\nfor = '1s'\nseed = 7\n";
        let lab = lab(text).expect("the lab is valid");
        assert_eq!(lab.points(), 7);
        let run = |item: usize| lab.items[item].run.clone().expect("the item has a run");
        assert_eq!(
            (run(0).machine.as_deref(), run(0).for_ns, run(0).seed),
            (Some("up"), Some(2_000_000_000), 1)
        );
        assert!(run(0).workload.ends_with("/own.json") && run(0).sanitize);
        assert_eq!(
            (run(1).machine.as_deref(), run(1).for_ns, run(1).seed),
            (Some("smp2"), Some(1_000_000_000), 7)
        );
        assert_eq!(run(1).workload, "chat");
    }

    #[test]
    fn errors_show_the_position() {
        let item = "[[item]]\nabout = 'a'\npoints = 3\n";
        for (text, error) in [
            ("item = []".to_owned(), "a lab needs at least one [[item]]"),
            (
                item.replace('3', "0"),
                "lab.toml:6:10: an item needs at least one point",
            ),
            (
                format!("{item}workload = 'chat'"),
                "lab.toml:7:12: the run has no length",
            ),
            (
                format!("{item}workload = 'chat'\nfor = '2min'"),
                "lab.toml:8:7: a run of a lab may simulate at most 60s",
            ),
            (
                format!("{item}require = ['idle.max < 1ms']"),
                "lab.toml:7:12: a condition needs a run",
            ),
            (
                format!("{item}workload = 'chat'\nfor = '1s'\nrequire = ['idle < 1ms']"),
                "lab.toml:9:12: there is no measure 'idle'",
            ),
            (format!("{item}wokload = 'chat'"), "unknown key 'wokload'"),
        ] {
            let found = lab(&text).expect_err(&text);
            assert!(found.contains(error), "{text}: {found}");
        }
    }
}
