// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel compare` runs two policies under many seeds and prints a verdict on the difference.

use super::complete;
use super::profiles;
use super::progress::bar;
use super::replay;
use clap::Args as ClapArgs;
use input::error::Error;
use lab::compare::places::{self, Place};
use lab::compare::robust::{self, Robustness};
use lab::compare::{self, Comparison, Condition, Judgement, Plan, metric};
use lab::validate::Validation;
use report::Surface;
use report::attribution::Attribution;
use runner::console;
use runner::destination;
use runner::exit::ExitStatus;
use runner::inputs::Inputs;
use runner::interrupt;
use runner::quote::quote;
use runner::scenario::Scenario;
use runner::spec::{Phase, RunSpec, SIDES};
use runner::{out, outln};
use serde_json::Value;
use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::PathBuf;
use trace::escape;

/// Width of the help text.
const WIDTH: usize = 100;

fn after_help() -> String {
    let indent = " ".repeat("  metrics     ".len());
    let help = Surface {
        width: Some(WIDTH - indent.len()),
        ..Surface::default()
    };
    let metrics = help.line(&metric::names(" "), " ");
    let metrics = metrics.trim_end().replace('\n', &format!("\n{indent}"));
    format!(
        "\
A condition of --fail-if is METRIC OPERATOR AMOUNT. It describes a change from A to B:
  operators   > >= < <=, or worse: 'score worse 3%' holds if the score gets worse by more than 3 %
  amounts     +5% or -5% (of A), 1.5x (times A), or a difference: +20us for times, +1pp (percentage
              point) for busy and overhead, +1000 (with its sign) for counts and scores
  metrics     {metrics}
A condition holds if the whole 95 % confidence interval of the change is beyond the amount. It is
undecided if the interval contains the amount. More runs make the interval narrower. Conditions are
for regressions: they compare two simulations, and do not consider the model's error, which is
printed below the verdict.

Exit status: 0 if no condition holds, 1 if a condition holds or cannot be evaluated or a policy
failed, 2 if the usage or an input is wrong."
    )
}

#[derive(ClapArgs)]
#[command(after_help = after_help())]
pub struct Args {
    /// Baseline: an object file, the name of a built policy (`policy list`), `exec: COMMAND`,
    /// or `eevdf`
    #[arg(add = complete::policies())]
    a: String,
    /// Policy to compare with the baseline
    #[arg(add = complete::policies())]
    b: String,
    #[command(flatten)]
    spec: RunSpec,
    /// A further machine: compare on each machine under each workload, in one table; can be repeated
    #[arg(long, value_name = "MACHINE", add = complete::machines())]
    and_machine: Vec<String>,
    /// A further workload, as for --and-machine; can be repeated
    #[arg(long, value_name = "WORKLOAD")]
    and_workload: Vec<String>,
    /// Number of pairs of runs. The first pair has the seed of --seed, and each further pair has
    /// the next seed
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    runs: u64,
    /// While a condition of --fail-if is undecided (without conditions: the change of the score),
    /// double the number of pairs, up to this number. The confidence intervals are corrected for
    /// the repeated evaluation
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    max_runs: Option<u64>,
    /// Number of runs at the same time [default: number of CPUs]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Exit with status 1 if this condition holds, for example 'score worse 3%'; can be repeated
    #[arg(long, value_name = "CONDITION", add = complete::metrics())]
    fail_if: Vec<String>,
    /// Repeat the comparison with the machine's constants halved and doubled. Prints whether the
    /// verdict stands, and which constants turn it
    #[arg(long)]
    robust: bool,
    /// Also say where the difference of the first pair comes from, in parts that add up: waiting,
    /// slower CPUs, caches, the kernel, the policy, locks, ..., by group of tasks. It is the
    /// difference of the completion times if all tasks exit, otherwise that of the time per
    /// operation
    #[arg(long)]
    why: bool,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
    /// Write the comparison as an HTML page to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// What is known about a comparison in addition to its figures.
struct Checks {
    robustness: Option<Robustness>,
    /// The validation of the replay, if the workload is a recording.
    validation: Option<Validation>,
    /// Where the difference comes from, if the user asked for it.
    attribution: Option<Attribution>,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let conditions = self.fail_if.iter().map(|text| Condition::parse(text));
        let conditions = conditions.collect::<Result<Vec<_>, _>>()?;
        if let Some(max_runs) = self.max_runs.filter(|&max_runs| max_runs < self.runs) {
            return Err(Error::new(format!(
                "--max-runs {max_runs}: the number is below --runs {}",
                self.runs
            ))
            .hint("give --max-runs a larger number, or --runs a smaller one"));
        }
        // First, because the check creates a temporary file, which a signal must not leave behind.
        interrupt::listen();
        destination::check(self.html.as_deref())?;
        let policies = [self.a.clone(), self.b.clone()];
        let spec = RunSpec {
            phase: self.spec.phase.or(Some(Phase::Random)),
            ..self.spec.clone()
        };
        let inputs = Inputs::default();
        if !self.and_machine.is_empty() || !self.and_workload.is_empty() {
            return self.compare_places(&inputs, &spec, &policies, &conditions);
        }
        let Ok(runs) = <[_; 2]>::try_from(spec.for_policies(&policies, &SIDES)?) else {
            unreachable!("for_policies() returns one description for each policy");
        };
        let sides = [inputs.resolve(&runs[0])?, inputs.resolve(&runs[1])?];
        sides.iter().for_each(Scenario::print_notes);
        let plan = Plan {
            seed: self.spec.seed,
            runs: self.runs,
            max_runs: self.max_runs.unwrap_or(self.runs),
        };
        let bar = bar("compare");
        let comparison = compare::run(&inputs, &runs, &plan, &conditions, self.threads, &|done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let comparison = comparison?;
        let robustness = match self.robust && !comparison.failed() {
            true => Some(self.check_constants(&inputs, &runs, &plan, &comparison)?),
            false => None,
        };
        let validation = replay::validated(&inputs, &runs[0]);
        let judged: Vec<(Condition, Option<Judgement>)> = conditions
            .into_iter()
            .map(|condition| {
                let judgement = comparison.judge(&condition);
                (condition, judgement)
            })
            .collect();
        let attribution = match self.why && !comparison.failed() {
            true => Some(compare::attribution::explain(&sides, &comparison.names)?),
            false => None,
        };
        let checks = Checks {
            robustness,
            validation,
            attribution,
        };
        self.print(&sides, &comparison, &judged, &checks)?;
        if let Some(path) = &self.html {
            let notes = comparison.model_errors(checks.validation.as_ref());
            let repeat = self.command(&sides);
            let page = compare::page::page(&comparison, checks.attribution.as_ref(), &notes, &repeat);
            destination::write(path, page.as_bytes())?;
        }
        let holds = judged
            .iter()
            .any(|(_, judgement)| matches!(judgement, None | Some(Judgement::Holds)));
        Ok(ExitStatus::from(u8::from(holds || comparison.failed())))
    }

    /// Compares on several machines and under several workloads.
    fn compare_places(
        &self,
        inputs: &Inputs,
        spec: &RunSpec,
        policies: &[String],
        conditions: &[Condition],
    ) -> Result<ExitStatus, Error> {
        if self.robust {
            let message = "--robust: the constants of one machine are changed at a time";
            return Err(Error::new(message).hint("leave out --and-machine and --and-workload"));
        }
        let machines = std::iter::once(spec.machine.clone()).chain(self.and_machine.iter().cloned().map(Some));
        let workloads = std::iter::once(&spec.workload).chain(&self.and_workload);
        let mut all = Vec::new();
        for machine in machines {
            all.extend(workloads.clone().map(|workload| RunSpec {
                machine: machine.clone(),
                workload: workload.clone(),
                ..spec.clone()
            }));
        }
        let plan = Plan {
            seed: self.spec.seed,
            runs: self.runs,
            max_runs: self.max_runs.unwrap_or(self.runs),
        };
        // First, because a wrong name should be reported before anything runs.
        let mut runs = Vec::new();
        let mut defaults = BTreeSet::new();
        for spec in &all {
            let Ok(pair) = <[_; 2]>::try_from(spec.for_policies(policies, &SIDES)?) else {
                unreachable!("for_policies() returns one description for each policy");
            };
            let side = inputs.resolve(&pair[0])?;
            if spec.machine.is_none() {
                defaults.insert(side.spec.machine);
            }
            runs.push(pair);
        }
        let mut first = [inputs.resolve(&runs[0][0])?, inputs.resolve(&runs[0][1])?];
        // A recording chooses its own machine by default, so one name cannot stand for the defaults
        // of several workloads.
        if defaults.len() > 1 {
            first[0].spec.machine = None;
        }
        let repeat = self.command(&first);
        let bar = bar("compare");
        let number = runs.len() as u64;
        let mut places = Vec::new();
        for (done, pair) in (0..).zip(&runs) {
            if interrupt::signal().is_some() {
                break;
            }
            let progress = |part: u64, total: u64| {
                bar.set_length(1000 * number);
                bar.set_position(1000 * done + part * 1000 / total.max(1));
            };
            let comparison = compare::run(inputs, pair, &plan, conditions, self.threads, &progress)?;
            let attribution = match self.why && !comparison.failed() {
                true => {
                    let sides = [inputs.resolve(&pair[0])?, inputs.resolve(&pair[1])?];
                    Some(compare::attribution::explain(&sides, &comparison.names)?)
                }
                false => None,
            };
            places.push(Place {
                comparison,
                attribution,
            });
        }
        bar.finish_and_clear();
        self.print_places(&places, conditions, &repeat)
    }

    fn print_places(&self, places: &[Place], conditions: &[Condition], repeat: &str) -> Result<ExitStatus, Error> {
        let judged = |place: &Place| -> Vec<(Condition, Option<Judgement>)> {
            let all = conditions.iter().cloned();
            all.map(|condition| {
                let judgement = place.comparison.judge(&condition);
                (condition, judgement)
            })
            .collect()
        };
        let mut failed = false;
        let mut lines = Vec::new();
        for place in places {
            let c = &place.comparison;
            let at = format!("{} under {}", escape::line(&c.machine), escape::line(&c.workload));
            for (condition, judgement) in judged(place) {
                if matches!(judgement, None | Some(Judgement::Holds)) {
                    failed = true;
                    let what = judgement.map_or("cannot be evaluated", |_| "holds in the simulation");
                    lines.push(format!("{at}: fail if {condition}: {what}"));
                }
            }
            for (side, failures) in c
                .failures
                .iter()
                .enumerate()
                .filter(|(_, failures)| !failures.is_empty())
            {
                failed = true;
                let first = failures.first().map_or("", String::as_str);
                lines.push(format!("{at}: {} failed: {}", c.names[side], escape::line(first)));
            }
            lines.extend(
                place
                    .attribution
                    .as_ref()
                    .map(|why| format!("{at}: {}", why.headline())),
            );
        }
        if self.json {
            let json = places.iter().map(|place| {
                let mut json = compare::json(&place.comparison, &judged(place));
                if let Some(attribution) = &place.attribution {
                    json["why"] = attribution.json();
                }
                json
            });
            let text = serde_json::to_string_pretty(&json.collect::<Vec<_>>());
            console::json(&text.map_err(|error| Error::new(error.to_string()))?);
        } else if !places.is_empty() {
            let surface = console::surface();
            console::styled(&places::table(places, surface));
            lines.iter().for_each(|line| out!("{}", surface.line(line, " ")));
            outln!("repeat: {repeat}");
        }
        if let Some(path) = &self.html {
            destination::write(path, compare::page::page_of_places(places, &lines, repeat).as_bytes())?;
        }
        Ok(ExitStatus::from(u8::from(failed)))
    }

    fn check_constants(
        &self,
        inputs: &Inputs,
        runs: &[RunSpec; 2],
        plan: &Plan,
        comparison: &Comparison,
    ) -> Result<Robustness, Error> {
        let bar = bar("constants");
        let found = robust::check(inputs, runs, plan, comparison, self.threads, &|done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        found
    }

    fn print(
        &self,
        sides: &[Scenario; 2],
        comparison: &Comparison,
        judged: &[(Condition, Option<Judgement>)],
        checks: &Checks,
    ) -> Result<(), Error> {
        if self.json {
            let mut json = compare::json(comparison, judged);
            json["profiles"] = profiles::json(sides);
            json["validation"] = checks.validation.as_ref().map_or(Value::Null, Validation::json);
            json["robust"] = checks.robustness.as_ref().map_or(Value::Null, Robustness::json);
            if let Some(attribution) = &checks.attribution {
                json["why"] = attribution.json();
            }
            let text = serde_json::to_string_pretty(&json).map_err(|error| Error::new(error.to_string()))?;
            console::json(&text);
            return Ok(());
        }
        let surface = console::surface();
        if !comparison.failed() {
            console::styled(&compare::table(comparison, surface));
            outln!();
        }
        if comparison.seeds.len() < comparison.planned {
            let (pairs, planned) = (comparison.seeds.len(), comparison.planned);
            outln!("interrupted: {pairs} of {planned} pairs of runs are complete; only these are compared");
        }
        let verdict = compare::verdict(comparison);
        verdict.lines().for_each(|line| out!("{}", surface.line(line, " ")));
        for sentence in comparison.model_errors(checks.validation.as_ref()) {
            out!("{}", surface.line(&sentence, " "));
        }
        if let Some(robustness) = &checks.robustness {
            console::styled(&robustness.text(comparison, surface));
        }
        if let Some(attribution) = &checks.attribution {
            let seed = sides[0].spec.seed;
            outln!("where the difference comes from, with seed {seed}:");
            for line in attribution.text().lines() {
                match line.starts_with(' ') {
                    true => outln!("{line}"),
                    false => out!("{}", surface.line(line, " ")),
                }
            }
        }
        for (condition, judgement) in judged {
            let verdict = match judgement {
                Some(Judgement::Holds) => "holds in the simulation",
                Some(Judgement::DoesNotHold) => "does not hold in the simulation",
                Some(Judgement::Undecided) => {
                    "does not hold in the simulation (undecided: the interval contains the limit)"
                }
                None => "cannot be evaluated: a run has no such number",
            };
            outln!("fail if {condition}: {verdict}");
        }
        if comparison.looks > 1 {
            let (pairs, looks) = (comparison.seeds.len(), comparison.looks);
            outln!("{pairs} pairs of runs; the confidence intervals are corrected for up to {looks} evaluations");
        }
        if let Some(validation) = &checks.validation {
            console::styled(&validation.text(surface));
        }
        for note in profiles::notes(sides, &SIDES) {
            outln!("{note}");
        }
        outln!("repeat: {}", self.command(sides));
        Ok(())
    }

    /// Returns the command line that repeats the comparison.
    fn command(&self, sides: &[Scenario; 2]) -> String {
        let mut words = vec![self.spec.command_for("compare", sides, &SIDES)];
        let machines = self.and_machine.iter();
        words.extend(machines.map(|machine| format!("--and-machine {}", quote(machine))));
        let workloads = self.and_workload.iter();
        words.extend(workloads.map(|workload| format!("--and-workload {}", quote(workload))));
        words.push(format!("--runs {}", self.runs));
        if let Some(max_runs) = self.max_runs {
            words.push(format!("--max-runs {max_runs}"));
            // The conditions determine how many pairs are simulated.
            let conditions = self.fail_if.iter();
            words.extend(conditions.map(|condition| format!("--fail-if {}", quote(condition))));
        }
        words.join(" ")
    }
}
