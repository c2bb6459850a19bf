// SPDX-License-Identifier: GPL-2.0-only
//! Checks whether the verdict of a comparison depends on the constants of the machine.
//!
//! Each constant is halved and doubled. The first pair of runs is repeated with each of these
//! changes, which shows the constants that matter. The whole comparison is then repeated with those
//! that change the result most.

use super::effect::{Conclusion, Effect};
use super::{Comparison, Plan, run};
use input::error::Error;
use machine::scale::Factor;
use report::layout::{Grid, Surface};
use runner::inputs::Inputs;
use runner::parallel::Progress;
use runner::spec::RunSpec;
use serde_json::{Value, json};
use std::num::NonZero;

/// Number of changes with which the whole comparison is repeated.
const REPEATED: usize = 6;
/// A change of the ratio by less than this, relative to 1, is no effect.
const NO_EFFECT: f64 = 1e-4;

/// The comparison with one constant changed.
#[derive(Clone, Debug)]
pub struct Variant {
    pub constant: String,
    pub factor: Factor,
    /// Change of the score from A to B in all pairs of runs. `None` if a run has no score.
    pub effect: Option<Effect>,
    /// Whether the score changes in the same direction as in the comparison itself.
    pub stands: bool,
}

/// Whether the verdict of a comparison stands if constants are wrong by a factor of two.
#[derive(Clone, Debug)]
pub struct Robustness {
    /// The repeated comparisons, in the order of their effect on the first pair of runs.
    pub variants: Vec<Variant>,
    /// Number of constants that were changed.
    pub constants: usize,
    /// Number of constants whose change does not affect the score of the first pair.
    pub without_effect: usize,
    /// The largest change of the ratio B / A, in percent, by a change that was not repeated with all
    /// pairs.
    pub rest_percent: f64,
    /// Whether a signal ended the check early.
    pub interrupted: bool,
}

fn conclusion(comparison: &Comparison) -> Option<Conclusion> {
    Some(comparison.metrics.first()?.effect.as_ref()?.conclusion())
}

/// Returns the ratio B / A of the scores.
fn ratio(comparison: &Comparison) -> Option<f64> {
    let ratio = comparison.metrics.first()?.effect.as_ref()?.ratio.value;
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

/// Repeats the comparison `base` with constants halved and doubled. `progress` is called with the
/// number of simulated pairs of runs and their expected total.
///
/// # Errors
/// User errors, as of [`run`].
pub fn check(
    inputs: &Inputs,
    sides: &[RunSpec; 2],
    plan: &Plan,
    base: &Comparison,
    threads: Option<NonZero<usize>>,
    progress: &Progress,
) -> Result<Robustness, Error> {
    let constants = inputs.machine(&sides[0])?.scalable();
    let pairs = base.seeds.len() as u64;
    let changes: Vec<(&String, Factor)> = constants
        .iter()
        .flat_map(|name| Factor::ALL.map(|factor| (name, factor)))
        .collect();
    let total = changes.len() as u64 + 1 + REPEATED as u64 * pairs;
    let compare = |change: Option<(&String, Factor)>, runs: u64| {
        let scaled = change.map(|(name, factor)| (name.clone(), factor));
        let sides = sides.clone().map(|side| RunSpec {
            scaled: scaled.clone(),
            ..side
        });
        let plan = Plan {
            runs,
            max_runs: runs,
            ..*plan
        };
        run(inputs, &sides, &plan, &[], threads, &|_, _| {})
    };
    let mut found = Robustness {
        variants: Vec::new(),
        constants: constants.len(),
        without_effect: 0,
        rest_percent: 0.0,
        interrupted: false,
    };
    let first = compare(None, 1)?;
    let mut effects: Vec<((&String, Factor), f64)> = Vec::new();
    for (done, &change) in (1..).zip(&changes) {
        progress(done, total);
        if runner::interrupt::signal().is_some() {
            found.interrupted = true;
            return Ok(found);
        }
        let one = compare(Some(change), 1)?;
        // A run without a score is the largest possible effect.
        let effect = match (ratio(&first), ratio(&one)) {
            (Some(a), Some(b)) => (b / a).ln().abs(),
            (None, None) => 0.0,
            _ => f64::INFINITY,
        };
        effects.push((change, effect));
    }
    found.without_effect = constants
        .iter()
        .filter(|name| {
            effects
                .iter()
                .all(|((other, _), effect)| other != name || *effect < NO_EFFECT)
        })
        .count();
    effects.retain(|(_, effect)| *effect >= NO_EFFECT);
    // The sort is stable, so changes with equal effects stay in the order of the cost table.
    effects.sort_by(|a, b| b.1.total_cmp(&a.1));
    found.rest_percent = effects
        .get(REPEATED)
        .map_or(0.0, |(_, effect)| (effect.exp() - 1.0) * 100.0);
    for (done, &(change, _)) in (0..).zip(effects.iter().take(REPEATED)) {
        progress(changes.len() as u64 + done * pairs, total);
        if runner::interrupt::signal().is_some() {
            found.interrupted = true;
            return Ok(found);
        }
        let comparison = compare(Some(change), pairs)?;
        found.variants.push(Variant {
            constant: change.0.clone(),
            factor: change.1,
            effect: comparison.metrics.first().and_then(|known| known.effect),
            stands: conclusion(&comparison) == conclusion(base) && !comparison.failed(),
        });
    }
    Ok(found)
}

impl Robustness {
    /// Returns the table of the repeated comparisons and the conclusion.
    pub fn text(&self, base: &Comparison, surface: impl Into<Surface>) -> String {
        let surface = surface.into();
        let mut text = String::new();
        let percent = |ratio: f64| super::verdict::change(ratio);
        if !self.variants.is_empty() {
            let mut grid = Grid::new();
            grid.left("constant", 0);
            grid.right("", 0);
            grid.right("change of the score", 0);
            grid.right("95 % CI", 1);
            grid.left("verdict", 0);
            let row = |constant: &str, factor: &str, effect: Option<&Effect>, verdict: &str| {
                let interval = effect.and_then(|effect| effect.ratio.bounds);
                [
                    constant.to_owned(),
                    factor.to_owned(),
                    effect.map_or_else(|| "-".to_owned(), |effect| percent(effect.ratio.value)),
                    interval.map_or_else(String::new, |(low, high)| {
                        format!("{} to {}", percent(low), percent(high))
                    }),
                    verdict.to_owned(),
                ]
            };
            let unchanged = base.metrics.first().and_then(|known| known.effect.as_ref());
            grid.row(row("as in the machine", "", unchanged, ""));
            for variant in &self.variants {
                let verdict = if variant.stands { "stands" } else { "turns" };
                grid.row(row(
                    &variant.constant,
                    variant.factor.name(),
                    variant.effect.as_ref(),
                    verdict,
                ));
            }
            text += &grid.render(surface);
        }
        text + &surface.line(&self.conclusion(), " ")
    }

    fn conclusion(&self) -> String {
        if self.interrupted {
            return "interrupted: the constants were not all changed".to_owned();
        }
        let turned = self.variants.iter().filter(|variant| !variant.stands);
        let turned: Vec<String> = turned
            .map(|variant| format!("{} {}", variant.constant, variant.factor.name()))
            .collect();
        let changed = format!(
            "{} constants halved and doubled, {} of them without effect on the first pair of runs",
            self.constants, self.without_effect
        );
        let rest = match self.rest_percent {
            none if none < 0.05 => String::new(),
            rest => format!("; all others change the ratio of the first pair by less than {rest:.1} %"),
        };
        match turned.as_slice() {
            [] => format!("the verdict stands ({changed}{rest})"),
            turned => format!("the verdict depends on {} ({changed}{rest})", turned.join(", ")),
        }
    }

    pub fn json(&self) -> Value {
        let variant = |variant: &Variant| {
            json!({
                "constant": variant.constant,
                "factor": variant.factor.name(),
                "change_percent": variant.effect.map(|effect| (effect.ratio.value - 1.0) * 100.0),
                "stands": variant.stands,
            })
        };
        json!({
            "stands": !self.interrupted && self.variants.iter().all(|variant| variant.stands),
            "constants": self.constants,
            "without_effect": self.without_effect,
            "rest_percent": self.rest_percent,
            "variants": self.variants.iter().map(variant).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn robustness(stands: bool) -> Robustness {
        Robustness {
            variants: vec![Variant {
                constant: "wakeup".into(),
                factor: Factor::Double,
                effect: Effect::from_pairs(&[(100.0, 90.0), (100.0, 91.0)], 1),
                stands,
            }],
            constants: 30,
            without_effect: 20,
            rest_percent: 1.24,
            interrupted: false,
        }
    }

    #[test]
    fn the_constant_that_turns_the_verdict_is_named() {
        assert_eq!(
            robustness(false).conclusion(),
            "the verdict depends on wakeup x2 (30 constants halved and doubled, 20 of them without effect on the \
             first pair of runs; all others change the ratio of the first pair by less than 1.2 %)"
        );
        assert!(
            robustness(true)
                .conclusion()
                .starts_with("the verdict stands (30 constants")
        );
        assert_eq!(robustness(true).json()["stands"], true);
        assert_eq!(robustness(false).json()["stands"], false);
    }
}
