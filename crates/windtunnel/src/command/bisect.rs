// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel bisect` finds the commit or object at which a condition changes.

use clap::Args as ClapArgs;
use input::error::Error;
use lab::bisect::{Change, Verdict, search};
use runner::exit::ExitStatus;
use runner::quote::quote;
use runner::{interrupt, outln};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const AFTER: &str = "\
CONDITION is a windtunnel command, in which {} stands for the object. A version is good if the
command ends with status 0, and bad if it ends with status 1. A version that cannot be built or
loaded is skipped.

With --object, OLD and NEW are commits. Each tested commit is checked out in a private clone of the
repository, which is deleted at the end, and --build is executed there. Of a merge, only the branch
into which it was merged is searched. Without --object, the versions are object files, oldest first.

Exit status: 0 if the change was found, 2 if the usage or an input is wrong, for example if both ends
are good.";

/// Longest text of a build's output that a reason contains.
const MAX_REASON: usize = 200;

#[derive(ClapArgs)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Two commits, or object files from the oldest to the newest
    #[arg(required = true, num_args = 2.., value_names = ["OLD", "NEW"])]
    versions: Vec<String>,
    /// Path of the object in the repository, after the build
    #[arg(long, value_name = "PATH", requires = "build")]
    object: Option<PathBuf>,
    /// Shell command that builds the object, executed in a clone of the repository
    #[arg(long, value_name = "COMMAND", requires = "object")]
    build: Option<String>,
    /// Repository with the commits
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = clap::ValueHint::DirPath)]
    repo: PathBuf,
    /// Command that decides, for example: explore {} --runs 200
    #[arg(last = true, required = true, value_name = "CONDITION")]
    condition: Vec<String>,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        if !self.condition.iter().any(|word| word.contains("{}")) {
            return Err(
                Error::new("the condition does not contain {}, which stands for the object").hint(
                    "for example: windtunnel bisect v1 v2 --object o.bpf.o --build make -- explore {} --runs 200",
                ),
            );
        }
        interrupt::listen();
        match (&self.object, &self.build) {
            (Some(object), Some(build)) => self.commits(object, build),
            _ => self.objects(),
        }
    }

    /// Searches in the objects of the command line.
    fn objects(&self) -> Result<ExitStatus, Error> {
        if let Some(missing) = self.versions.iter().find(|path| !Path::new(path).is_file()) {
            return Err(Error::new(format!("{missing}: no such object file"))
                .hint("to search in commits, add --object PATH and --build COMMAND"));
        }
        let change = search(self.versions.len(), |index| {
            let path = &self.versions[index];
            self.judge(path, Path::new(path))
        })?;
        report(&change, |index| self.versions[index].clone());
        Ok(ExitStatus::SUCCESS)
    }

    /// Searches in the commits from the first to the second version.
    fn commits(&self, object: &Path, build: &str) -> Result<ExitStatus, Error> {
        let [old, new] = self.versions.as_slice() else {
            return Err(Error::new(
                "with --object, exactly two commits are expected: OLD and NEW",
            ));
        };
        let id = |name: &str| {
            git(
                &self.repo,
                &["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")],
            )
        };
        let missing = |name: &str| Error::new(format!("{}: there is no commit '{name}'", self.repo.display()));
        let old_id = id(old).map_err(|_| missing(old))?;
        let new_id = id(new).map_err(|_| missing(new))?;
        git(&self.repo, &["merge-base", "--is-ancestor", &old_id, &new_id]).map_err(|_| {
            Error::new(format!(
                "{old} is no ancestor of {new}, so no path of commits leads from one to the other"
            ))
        })?;
        let list = git(
            &self.repo,
            &[
                "rev-list",
                "--reverse",
                "--first-parent",
                &format!("{old_id}..{new_id}"),
            ],
        )?;
        let commits: Vec<String> = std::iter::once(old_id).chain(list.lines().map(str::to_owned)).collect();
        let folder = TempDir::with_prefix("windtunnel-bisect-").map_err(|error| Error::new(error.to_string()))?;
        let clone = folder.path().join("clone");
        let from = std::fs::canonicalize(&self.repo).map_err(|error| Error::io(&self.repo, &error))?;
        let (from, to) = (from.display().to_string(), clone.display().to_string());
        git(
            folder.path(),
            &["clone", "--quiet", "--shared", "--no-checkout", &from, &to],
        )?;
        let title = |index: usize| {
            let title = git(&clone, &["log", "-1", "--format=%h %s", &commits[index]]);
            title.unwrap_or_else(|_| commits[index].clone())
        };
        let change = search(commits.len(), |index| {
            git(&clone, &["checkout", "--quiet", "--force", "--detach", &commits[index]])?;
            let path = clone.join(object);
            // An object of an earlier commit is no result of this build.
            let _ = std::fs::remove_file(&path);
            match built(&clone, build, &path) {
                Ok(()) => self.judge(&title(index), &path),
                Err(reason) => {
                    stop_if_interrupted()?;
                    outln!("skipped  {}: {reason}", title(index));
                    Ok(Verdict::Skipped(reason.to_string()))
                }
            }
        })?;
        report(&change, title);
        Ok(ExitStatus::SUCCESS)
    }

    /// Executes the condition for an object and prints the verdict.
    fn judge(&self, title: &str, object: &Path) -> Result<Verdict, Error> {
        let failed = |error: std::io::Error| Error::new(format!("the condition cannot be executed: {error}"));
        let object = object.display().to_string();
        let words = self.condition.iter().enumerate();
        let words = words.filter(|(index, word)| *index > 0 || *word != "windtunnel");
        let words: Vec<String> = words.map(|(_, word)| word.replace("{}", &object)).collect();
        let program = std::env::current_exe().map_err(failed)?;
        let output = Command::new(program)
            .args(&words)
            .stdin(Stdio::null())
            .output()
            .map_err(failed)?;
        stop_if_interrupted()?;
        let verdict = match output.status.code() {
            Some(0) => Verdict::Good,
            Some(1) => Verdict::Bad,
            _ => {
                let reason = first_line(&output.stderr);
                let command: Vec<String> = words.iter().map(|word| quote(word)).collect();
                Verdict::Skipped(format!("windtunnel {}: {reason}", command.join(" ")))
            }
        };
        match &verdict {
            Verdict::Good => outln!("good     {title}"),
            Verdict::Bad => outln!("bad      {title}: {}", first_line(&output.stdout)),
            Verdict::Skipped(reason) => outln!("skipped  {title}: {reason}"),
        }
        Ok(verdict)
    }
}

/// Prints where the condition changes.
fn report(change: &Change, title: impl Fn(usize) -> String) {
    let what = if change.is_regression { "bad" } else { "good" };
    outln!();
    if change.after - change.before == 1 {
        outln!("first {what} version: {}", title(change.after));
    } else {
        outln!("the first {what} version is one of these, and the earlier ones could not be tested:");
        for index in change.before + 1..=change.after {
            outln!("  {}", title(index));
        }
    }
}

fn stop_if_interrupted() -> Result<(), Error> {
    match interrupt::signal() {
        Some(_) => Err(Error::new("interrupted")),
        None => Ok(()),
    }
}

/// Executes git in a directory. Returns its output without the last newline.
fn git(folder: &Path, arguments: &[&str]) -> Result<String, Error> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Error::new(format!("git cannot be executed: {error}")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
        false => Err(Error::new(format!(
            "git {} failed: {}",
            arguments.first().unwrap_or(&""),
            first_line(&output.stderr)
        ))),
    }
}

/// Builds the object. Returns the reason if this fails.
fn built(folder: &Path, build: &str, object: &Path) -> Result<(), Error> {
    let output = Command::new("sh")
        .args(["-c", build])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("sh cannot be executed: {error}"))?;
    if !output.status.success() {
        return Err(Error::new(format!("the build fails: {}", first_line(&output.stderr))));
    }
    match object.is_file() {
        true => Ok(()),
        false => Err(Error::new(format!(
            "the build makes no file {}",
            object.strip_prefix(folder).unwrap_or(object).display()
        ))),
    }
}

/// Returns the first line of an output, shortened.
fn first_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no output");
    trace::escape::line(line).chars().take(MAX_REASON).collect()
}
