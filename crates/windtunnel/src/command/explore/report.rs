// SPDX-License-Identifier: GPL-2.0-only
//! Prints the findings of an exploration, and writes the files that repeat them.

use super::super::progress::runs_bar;
use input::error::Error;
use lab::explore::case::{Case, Load};
use lab::explore::difference::{by_functions, only};
use lab::explore::observe::{Finding, Observed, STALL_NS, Target};
use lab::explore::shrink::Shrink;
use lab::explore::{Explored, Found, Limits, text};
use runner::exit::ExitStatus;
use runner::outln;
use runner::quote::quote;
use std::num::NonZero;
use std::path::Path;
use std::time::Duration;

/// Longest time that a finding is shrunk.
const SHRINK: Duration = Duration::from_secs(30);

/// Calls an exploration with a function that moves a progress bar.
///
/// # Errors
/// Those of the exploration.
pub fn progress(
    limits: Limits,
    run: impl FnOnce(&(dyn Fn(u64, Duration) + Sync)) -> Result<Explored, Error>,
) -> Result<Explored, Error> {
    let bar = runs_bar(limits.runs.unwrap_or(0));
    let explored = run(&|runs, time| {
        if limits.runs.is_none() {
            // The length is a guess from the time that is left.
            let all = u128::from(runs) * limits.time.as_millis() / time.as_millis().max(1);
            bar.set_length(u64::try_from(all).unwrap_or(runs));
        }
        bar.set_position(runs);
    })?;
    bar.finish_and_clear();
    Ok(explored)
}

/// How findings are printed.
pub struct Report<'a> {
    /// Whether findings are shrunk first.
    pub shrinks: bool,
    /// Whether each pair of lines is printed, or one for each pair of functions.
    pub pairs: bool,
    /// Directory for the files of the first finding.
    pub out: Option<&'a Path>,
    /// Number of threads that shrink a finding.
    pub threads: Option<NonZero<usize>>,
}

impl Report<'_> {
    /// Shrinks and prints what was found. Returns the exit status of the command.
    ///
    /// # Errors
    /// A run cannot be repeated, or a file cannot be written.
    pub fn print(&self, target: &Target, explored: &Explored) -> Result<ExitStatus, Error> {
        for (index, group) in self.groups(&explored.found, explored).iter().enumerate() {
            if index > 0 {
                outln!();
            }
            self.print_found(target, group[0], index == 0)?;
            print_others(group);
        }
        let seconds = explored.time.as_secs_f64();
        if explored.interrupted {
            outln!("interrupted");
        }
        if explored.found.is_empty() {
            outln!(
                "nothing found in {} runs with {} forced switches",
                explored.runs,
                explored.nr_held
            );
            if explored.nr_benign > 0 && !target.statistics && target.stalled.is_none() {
                let nr = explored.nr_benign;
                outln!("not shown: races on statistics counters at up to {nr} pairs of places (--statistics)");
            }
            if explored.nr_flags > 0 && !target.flags && target.stalled.is_none() {
                let nr = explored.nr_flags;
                outln!("not shown: races on plain flags at up to {nr} pairs of places (--flags)");
            }
        }
        runner::errln!(
            "{} runs in {seconds:.1} s ({:.0} per second), {:.1} s of simulated time",
            explored.runs,
            explored.runs as f64 / seconds.max(1e-9),
            explored.simulated_ns as f64 / 1e9
        );
        Ok(ExitStatus::from(u8::from(!explored.found.is_empty())))
    }

    /// Prints what only one of two versions of a policy shows, the older one first. Returns the exit
    /// status of the command.
    ///
    /// # Errors
    /// As for [`Report::print`].
    pub fn print_difference(&self, targets: [&Target; 2], explored: [&Explored; 2]) -> Result<ExitStatus, Error> {
        let [old, new] = explored;
        let [gone, added] = [only(old, new), only(new, old)];
        let quiet = Report { out: None, ..*self };
        for (report, target, one, found) in [(&quiet, targets[0], old, &gone), (self, targets[1], new, &added)] {
            let policy = Path::new(&target.spec.policy);
            let name = policy
                .file_name()
                .map_or_else(|| policy.to_string_lossy(), |name| name.to_string_lossy());
            outln!("only in {name}: {} of {} findings", found.len(), one.found.len());
            for (index, group) in report.groups(found.iter().copied(), one).iter().enumerate() {
                outln!();
                report.print_found(target, group[0], index == 0)?;
                outln!("shown by {} of {} runs", group[0].nr_runs, one.runs);
                print_others(group);
            }
            outln!();
        }
        outln!("in both: {} findings", new.found.len() - added.len());
        outln!("a finding that few runs show may be missing in the other version by chance: try more --runs");
        Ok(ExitStatus::from(u8::from(!added.is_empty())))
    }

    /// Returns the findings that are printed together.
    fn groups<'a>(&self, found: impl IntoIterator<Item = &'a Found>, explored: &Explored) -> Vec<Vec<&'a Found>> {
        match self.pairs {
            true => found.into_iter().map(|found| vec![found]).collect(),
            false => by_functions(found, &explored.code),
        }
    }

    fn print_found(&self, target: &Target, found: &Found, is_first: bool) -> Result<(), Error> {
        let (mut case, mut runs) = (found.case.clone(), 0);
        if self.shrinks {
            let shrink = Shrink::new(target, found.finding.clone(), case, SHRINK);
            (case, runs) = shrink.threads(self.threads).run()?;
        }
        let observed = target.observe(&case, false)?;
        let same = |finding: &&Finding| finding.same_as(&found.finding, &observed.code);
        let number = observed.findings.iter().position(|finding| same(&finding));
        let finding = number.map_or(&found.finding, |number| &observed.findings[number]);
        runner::out!("{}", text::finding(finding, &observed.code));
        outln!("found in run {}", found.run);
        let tasks = case.nr_tasks().map_or_else(String::new, |nr| format!(", tasks: {nr}"));
        let what = if runs > 0 { "shrunk to" } else { "shown with" };
        outln!(
            "{what} forced switches: {}, machine: {}{tasks}, simulated time: {}",
            observed.nr_held,
            case.machine,
            text::ms(observed.simulated_ns)
        );
        if target.needs_no_overlap(&case, finding)? {
            outln!("`windtunnel run` shows the same: no callback needs to overlap with a different one");
        }
        if let (Some(folder), true) = (self.out, is_first) {
            write(folder, target, &case, finding, &observed)?;
        }
        let which = match number {
            Some(number) if number > 0 => format!(" --finding {}", number + 1),
            _ => String::new(),
        };
        outln!("replay: {}{which}", target.replay(&case));
        Ok(())
    }
}

/// Prints how many findings of a group are not printed.
fn print_others(group: &[&Found]) {
    let nr = group.len() - 1;
    if nr > 0 {
        let s = if nr == 1 { "" } else { "s" };
        outln!("in the same functions: {nr} more pair{s} of lines (--pairs)");
    }
}

/// Writes the files that repeat a case.
fn write(folder: &Path, target: &Target, case: &Case, finding: &Finding, observed: &Observed) -> Result<(), Error> {
    let failed = |path: &Path, error: std::io::Error| Error::new(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let workload = match (&case.load, case.json()) {
        (Load::Named(word), _) => word.clone(),
        (Load::Parts(_), json) => {
            let path = folder.join("workload.json");
            std::fs::write(&path, json.unwrap_or_default() + "\n").map_err(|error| failed(&path, error))?;
            path.display().to_string()
        }
    };
    let holds = case.holds.iter().map(|(point, ns)| format!("--hold {point}@{ns}ns"));
    let holds: Vec<String> = match case.holds.is_empty() {
        // A hold at point 0, which no CPU reaches, makes the command execute one run.
        true => vec!["--hold 0@1ns".to_owned()],
        false => holds.collect(),
    };
    let spec = target.spec(case, &workload);
    let command = [vec![spec.command("explore")], holds, target.races()]
        .concat()
        .join(" ");
    let is_sequential = target.needs_no_overlap(case, finding)?;
    let run = match is_sequential {
        true => format!("\nwithout overlap: {}", spec.command("run")),
        false => String::new(),
    };
    let path = folder.join("finding.txt");
    let text = format!("{}\nrepeat: {command}{run}\n", text::finding(finding, &observed.code));
    std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
    outln!("files: {}", path.display());
    if is_sequential {
        write_script(folder, target, case, finding)?;
    }
    // A suite uses the object's own profile, and no other parameters.
    let object = Path::new(&target.spec.policy);
    let name = object
        .file_name()
        .and_then(|name| name.to_str()?.strip_suffix(".bpf.o"));
    let is_plain = target.settings().is_empty() && target.races().is_empty() && case.stall_ns == STALL_NS;
    if let (Some(name), true) = (name, is_plain) {
        let path = folder.join("suite.toml");
        let suite = text::suite(name, target.spec.kernel, case, finding, &observed.code);
        std::fs::write(&path, suite).map_err(|error| failed(&path, error))?;
        let objects = object.parent().filter(|folder| !folder.as_os_str().is_empty());
        let objects = objects.unwrap_or(Path::new(".")).display().to_string();
        let suite = path.display().to_string();
        outln!("test: windtunnel suite {} --objects {}", quote(&suite), quote(&objects));
    }
    Ok(())
}

/// Writes a script that shows a finding without overlap, if there is one.
fn write_script(folder: &Path, target: &Target, case: &Case, finding: &Finding) -> Result<(), Error> {
    let converted = match target.script(case, finding) {
        Ok(Some(converted)) => converted,
        Ok(None) => {
            outln!("no script: on a machine whose kernel takes no time, the finding does not show");
            return Ok(());
        }
        Err(error) => {
            outln!("no script: {error}");
            return Ok(());
        }
    };
    let path = folder.join("finding.script");
    std::fs::write(&path, &converted.text).map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
    let policies = Path::new(&target.spec.policy).parent();
    let policies = policies.filter(|folder| !folder.as_os_str().is_empty());
    let policies = policies.map_or_else(String::new, |folder| {
        format!(" --policies {}", quote(&folder.display().to_string()))
    });
    outln!(
        "script: windtunnel script {}{policies}",
        quote(&path.display().to_string())
    );
    for part in converted.left_out {
        outln!("the script leaves out {part}");
    }
    Ok(())
}
