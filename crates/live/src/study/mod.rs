// SPDX-License-Identifier: GPL-2.0-only
//! `live study`: the questions of the SMP study put to this machine, with the figures of `experiments/smp` beside those measured.
//!
//! Source: Happe, Groenda, Reussner, "Performance Evaluation of Scheduling Policies in Symmetric Multiprocessing Environments"
//! (2008). Tasks are bound to the first CPU until they first run there (7/0), then released. Loads are looked at every 10 ms, from
//! outside.

mod loads;
mod question;
mod reference;
mod side;

use crate::run::{self, CpuList, cpu_list, write_json};
use crate::{kernel, stop};
use question::{Question, about};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use windtunnel::duration;
use windtunnel::error::Error;
use windtunnel::{errln, out};

#[derive(clap::Args)]
pub struct Args {
    /// Which questions [default: all, about 6 minutes]
    #[arg(value_enum)]
    questions: Vec<Question>,
    /// Time of each run [default: 60 s; 20 s for each of the seven pairs of priorities]
    #[arg(long = "for", value_parser = duration::parse)]
    for_ns: Option<u64>,
    /// CPUs: the first is the one that all start on [default: the first two]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<CpuList>,
    /// Simulate the same too, under the same policy, on as many CPUs
    #[arg(long)]
    simulate: bool,
    /// What is simulated: as of `windtunnel run` [default: CPUs of a core each]
    #[arg(long, short, requires = "simulate")]
    machine: Option<String>,
    /// Where chance starts from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the figures as JSON to FILE (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// All that was found, as `--json` prints it.
#[derive(Serialize)]
struct Study {
    kernel: String,
    policy: String,
    answers: Vec<Answer>,
}

#[derive(Serialize)]
struct Answer {
    question: &'static str,
    cpus: Vec<u32>,
    workloads: Vec<String>,
    figures: Vec<Figure>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Figure {
    figure: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<f64>,
    /// Here and now, under the same policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    theory: Option<f64>,
    /// From the experiments, by where they are from.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    references: BTreeMap<String, f64>,
}

impl Args {
    pub fn run(self) -> Result<ExitCode, Error> {
        let questions = match self.questions.as_slice() {
            [] => &Question::ALL,
            some => some,
        };
        let mut study = Study {
            kernel: kernel::release(),
            policy: kernel::scheduler(),
            answers: Vec::new(),
        };
        let to_stdout = self.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
        for &question in questions {
            if let Some(answer) = self.ask(question)? {
                if !to_stdout {
                    out!("{}", told(&study, &answer));
                }
                study.answers.push(answer);
            }
            if stop::asked() {
                break;
            }
        }
        write_json(self.json.as_deref(), &study, || {})?;
        Ok(ExitCode::SUCCESS)
    }

    /// `None`: nobody asked for it by name, and it cannot be answered here.
    fn ask(&self, question: Question) -> Result<Option<Answer>, Error> {
        let there = run::affinity();
        let chosen = self.cpus.as_ref().map_or(there.as_slice(), |list| list.0.as_slice());
        let cases = question.cases(self.for_ns);
        let needed = cases.iter().map(|case| case.cpus).max().unwrap_or(1);
        if chosen.len() < needed {
            let error = Error::new(format!(
                "'{}' needs {needed} CPUs, there are {}",
                question.name(),
                chosen.len()
            ));
            if self.questions.contains(&question) {
                return Err(error.hint("name others with --cpus, or ask priorities and open alone"));
            }
            errln!("windtunnel live: {error}: left out");
            return Ok(None);
        }
        // The single-server questions have one CPU; the others all that were named.
        let cpus = match (needed, &self.cpus) {
            (1, _) | (_, None) => &chosen[..needed],
            _ => chosen,
        };
        let mut answer = Answer {
            question: question.name(),
            cpus: cpus.to_vec(),
            workloads: Vec::new(),
            figures: Vec::new(),
            notes: Vec::new(),
        };
        let references = question.references();
        for case in &cases {
            let (seen, notes) = side::measured(case, cpus, self.seed)?;
            let measured = question.figures(case, cpus.len(), &seen);
            let simulated = match self.simulate {
                true => {
                    let seen = side::simulated(case, cpus.len(), self.seed, self.machine.as_deref())?;
                    question.figures(case, cpus.len(), &seen)
                }
                false => Vec::new(),
            };
            answer.workloads.push(case.workload.clone());
            answer.notes.extend(notes);
            for (at, (name, measured)) in measured.iter().enumerate() {
                let simulated = simulated.get(at).and_then(|(_, value)| *value);
                // The study had two CPUs for the closed questions.
                let references = match needed == cpus.len() {
                    true => references.of(name),
                    false => BTreeMap::new(),
                };
                let figure = Figure {
                    figure: name.clone(),
                    measured: *measured,
                    simulated,
                    theory: question.theory(name, cpus.len()),
                    references,
                };
                if figure.measured.is_some() || figure.simulated.is_some() || !figure.references.is_empty() {
                    answer.figures.push(figure);
                }
            }
            if stop::asked() {
                break;
            }
        }
        answer.notes.sort();
        answer.notes.dedup();
        Ok(Some(answer))
    }
}

/// A table.
fn told(study: &Study, answer: &Answer) -> String {
    let mut columns: Vec<&str> = Vec::new();
    let has = |some: fn(&Figure) -> bool| answer.figures.iter().any(some);
    if has(|figure| figure.simulated.is_some()) {
        columns.push("simulated");
    }
    if has(|figure| figure.theory.is_some()) {
        columns.push("theory");
    }
    let mut from: Vec<&str> = Vec::new();
    for source in answer.figures.iter().flat_map(|figure| figure.references.keys()) {
        if !from.contains(&source.as_str()) {
            from.push(source);
        }
    }
    from.sort_unstable();
    columns.extend(from);
    let cpus: Vec<String> = answer.cpus.iter().map(u32::to_string).collect();
    let mut text = format!(
        "{}: kernel {}, scheduler {}, CPUs {}\n",
        answer.question,
        study.kernel,
        study.policy,
        cpus.join(",")
    );
    for workload in &answer.workloads {
        let _ = writeln!(text, "  {workload}");
    }
    for note in &answer.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    // The distance, which of the two, and requests per minute.
    let unit = if answer.question == "priorities" {
        "requests_per_minute"
    } else {
        ""
    };
    let _ = write!(text, "  {unit:20} {:>9}", "measured");
    for column in &columns {
        let _ = write!(text, "  {:>width$}", column, width = column.len().max(9));
    }
    text.push('\n');
    for figure in &answer.figures {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), short);
        let _ = write!(text, "  {:20} {:>9}", figure.figure, shown(figure.measured));
        for column in &columns {
            let value = match *column {
                "simulated" => figure.simulated,
                "theory" => figure.theory,
                source => figure.references.get(source).copied(),
            };
            let _ = write!(text, "  {:>width$}", shown(value), width = column.len().max(9));
        }
        if let Some(about) = about(&figure.figure) {
            let _ = write!(text, "  {about}");
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

/// Four digits, and all before the point.
fn short(value: f64) -> String {
    let before = value.abs().max(1.0).log10() as usize;
    let text = format!("{value:.places$}", places = 3_usize.saturating_sub(before));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits() {
        let shown = [0.0, 4.0, 3.14259, 865.26, 10036.4, 0.952].map(short);
        assert_eq!(shown, ["0", "4", "3.143", "865.3", "10036", "0.952"]);
    }

    #[test]
    fn what_is_known_stands_beside_what_was_measured() {
        let figure = Figure {
            figure: "mean_response_ms".into(),
            measured: Some(880.0),
            simulated: None,
            theory: Some(875.0),
            references: BTreeMap::from([("linux published".into(), 875.0)]),
        };
        let study = Study {
            kernel: "7.2".into(),
            policy: "default".into(),
            answers: Vec::new(),
        };
        let answer = Answer {
            question: "heavy",
            cpus: vec![0, 1],
            workloads: vec!["closed".into()],
            figures: vec![figure],
            notes: vec!["others".into()],
        };
        let text = told(&study, &answer);
        assert!(
            text.starts_with("heavy: kernel 7.2, scheduler default, CPUs 0,1\n"),
            "{text}"
        );
        assert!(text.contains(" measured     theory  linux published\n"), "{text}");
        assert!(
            text.contains("mean_response_ms           880        875              875\n"),
            "{text}"
        );
    }
}
