// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel grade` grades a submission for a lab of a course on operating systems.

use super::progress::bar;
use clap::Args as ClapArgs;
use input::error::Error;
use lab::grade::{self, Lab};
use runner::exit::ExitStatus;
use runner::{console, errln, interrupt, outln};
use std::path::{Path, PathBuf};

const AFTER: &str = "\
A lab is a directory (docs/how-to/labs.md). Compiles the submission, runs it on the machines and
workloads of the lab, and gives points for each item whose conditions hold, with the reason if there
are none. The points are the same on every host. A submission that does not compile, fails or never
ends gets 0 points for the items in question.

Exit status: 0 if the submission has all points, 1 if it has fewer, 2 if the usage or an input is
wrong.";

#[derive(ClapArgs)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Directory of a lab, or the name of a shipped one: lab1 (round robin), lab2 (multi-level
    /// feedback queue), lab3 (work stealing)
    #[arg(value_name = "LAB")]
    lab: String,
    /// Source of a policy, or its object [default: print what the lab asks for]
    #[arg(value_name = "FILE")]
    submission: Option<PathBuf>,
    /// Print the grades as JSON
    #[arg(long)]
    json: bool,
    /// Copy the code from which students start to this file, and do not grade
    #[arg(long, value_name = "FILE", conflicts_with_all = ["submission", "json"])]
    starter: Option<PathBuf>,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let lab = Lab::find(&self.lab)?;
        if let Some(path) = &self.starter {
            return copy(&lab, path);
        }
        let Some(submission) = &self.submission else {
            outln!("{}: {}", lab.name, lab.title);
            outln!();
            outln!("{}", lab.about);
            outln!();
            for (item, number) in lab.items.iter().zip(1..) {
                outln!("{number:3}. {} ({} points)", item.about, item.points);
            }
            outln!();
            outln!("begin: windtunnel grade {} --starter mine.bpf.c", self.lab);
            outln!("grade: windtunnel grade {} mine.bpf.c", self.lab);
            return Ok(ExitStatus::SUCCESS);
        };
        interrupt::listen();
        let bar = bar("grade");
        bar.set_length(lab.items.len() as u64);
        let graded = grade::grade(&lab, submission, &|done| bar.set_position(done));
        bar.finish_and_clear();
        let Some(graded) = graded? else {
            errln!("interrupted before all runs were complete, so there are no points");
            return Ok(ExitStatus::from(1));
        };
        if self.json {
            let text =
                serde_json::to_string_pretty(&grade::json(&graded)).map_err(|error| Error::new(error.to_string()))?;
            console::json(&text);
        } else {
            console::styled(&grade::text(&graded, console::surface()));
        }
        Ok(ExitStatus::from(u8::from(graded.points() < graded.of())))
    }
}

/// Copies the starter code of a lab to a file that does not exist yet.
fn copy(lab: &Lab, path: &Path) -> Result<ExitStatus, Error> {
    if path.exists() {
        return Err(Error::new(format!("{}: the file exists", path.display())).hint("give another name"));
    }
    let text = std::fs::read(&lab.starter).map_err(|error| Error::io(&lab.starter, &error))?;
    std::fs::write(path, text).map_err(|error| Error::io(path, &error))?;
    outln!("{}: the code from which to start", path.display());
    Ok(ExitStatus::SUCCESS)
}
