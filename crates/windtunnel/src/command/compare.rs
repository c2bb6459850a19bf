// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel compare` runs two policies under many seeds and prints a verdict on the difference.

use super::complete;
use super::profiles;
use super::progress::bar;
use super::replay;
use clap::Args as ClapArgs;
use input::error::Error;
use lab::compare::robust::{self, Robustness};
use lab::compare::{self, Attribution, Comparison, Condition, Judgement, Plan, metric};
use lab::validate::Validation;
use report::Surface;
use runner::console;
use runner::exit::ExitStatus;
use runner::inputs::Inputs;
use runner::interrupt;
use runner::scenario::Scenario;
use runner::spec::{Phase, RunSpec, SIDES};
use runner::{out, outln};
use serde_json::Value;
use std::num::NonZero;

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
    /// Baseline: an object file, the name of a built policy (`policy list`), or `eevdf`
    #[arg(add = complete::policies())]
    a: String,
    /// Policy to compare with the baseline
    #[arg(add = complete::policies())]
    b: String,
    #[command(flatten)]
    spec: RunSpec,
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
    /// Also say where the difference between the completion times of the first pair comes from, in
    /// parts that add up: waiting, slower CPUs, overhead, ..., by group of tasks. The tasks of the
    /// workload must exit
    #[arg(long)]
    why: bool,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
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
        let policies = [self.a.clone(), self.b.clone()];
        let spec = RunSpec {
            phase: self.spec.phase.or(Some(Phase::Random)),
            ..self.spec.clone()
        };
        let inputs = Inputs::default();
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
        interrupt::listen();
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
            true => Some(compare::attribute(&sides, &comparison.names)?),
            false => None,
        };
        let checks = Checks {
            robustness,
            validation,
            attribution,
        };
        self.print(&sides, &comparison, &judged, &checks)?;
        let holds = judged
            .iter()
            .any(|(_, judgement)| matches!(judgement, None | Some(Judgement::Holds)));
        Ok(ExitStatus::from(u8::from(holds || comparison.failed())))
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
            out!("{}", attribution.text());
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
        let max_runs = self.max_runs.map(|max_runs| format!(" --max-runs {max_runs}"));
        outln!(
            "repeat: {} --runs {}{}",
            self.spec.command_for("compare", sides, &SIDES),
            self.runs,
            max_runs.unwrap_or_default()
        );
        Ok(())
    }
}
