// SPDX-License-Identifier: GPL-2.0-only
//! Writes the verdict of a comparison: a few sentences that say which policy is better, and by how
//! much.

use super::Comparison;
use super::effect::{Conclusion, Effect};
use super::metric::Metric;
use report::{Better, Unit};
use trace::escape;

/// Minimum relative change that the verdict mentions. The table also shows smaller changes.
pub(super) const WORTH_WORDS: f64 = 0.01;
/// Larger ratios are printed as "over 10000x", because their exact value has no meaning.
const LARGE: f64 = 10_000.0;
/// Minimum ratio that is printed as a factor. Smaller ratios are printed as a percentage.
const FACTOR: f64 = 2.0;

/// Returns the verdict: the failures, the change of the score, and the other metrics that improved
/// or worsened.
pub fn verdict(c: &Comparison) -> String {
    let mut lines = Vec::new();
    for side in [0, 1] {
        if let Some(first) = c.failures[side].first() {
            let (failed, runs) = (c.failures[side].len(), c.seeds.len());
            lines.push(format!(
                "{} did not complete {failed} of {runs} runs ({first})",
                c.names[side]
            ));
        }
        if let Some(first) = c.lost[side].first() {
            let (lost, runs) = (c.lost[side].len(), c.seeds.len());
            let name = &c.names[side];
            lines.push(format!(
                "{name} lost tasks in {lost} of {runs} runs ({first}); see `windtunnel invariants`"
            ));
        }
    }
    if c.failed() {
        lines.push(format!(
            "no verdict on {}: runs that ended early are not compared",
            c.workload
        ));
        return joined(&lines);
    }
    lines.push(describe_score(c));
    for known in c.metrics.iter().filter(|known| known.metric.figure.better.is_some()) {
        if let Some(effect) = &known.effect
            && let Some(text) = describe_change(&known.metric, effect)
        {
            lines.push(format!("- {text}"));
        }
    }
    for (name, storms) in c.names.iter().zip(&c.storms) {
        if let Some(first) = storms.first() {
            lines.push(format!("{name} in {} of {} runs: {first}", storms.len(), c.seeds.len()));
        }
    }
    if seeds_have_no_effect(c) {
        lines.push("all pairs are the same: the seed has no effect on these runs".to_owned());
    }
    joined(&lines)
}

/// Joins lines and escapes the names in them.
fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| escape::line(line) + "\n").collect()
}

/// Returns whether the seed does not influence the runs: there are several pairs of runs, and every
/// metric has the same values in all pairs.
fn seeds_have_no_effect(c: &Comparison) -> bool {
    let fixed = |effect: &Effect| effect.a.half_width == Some(0.0) && effect.b.half_width == Some(0.0);
    c.seeds.len() > 1 && c.metrics.iter().filter_map(|known| known.effect.as_ref()).all(fixed)
}

/// Returns the sentence about the score.
fn describe_score(c: &Comparison) -> String {
    let [a, b] = &c.names;
    let on = format!("on {}", c.workload);
    let Some(effect) = c.metrics.first().and_then(|known| known.effect.as_ref()) else {
        return format!("no verdict {on}: a run has no score (the workload did not finish, or did no work)");
    };
    let pairs = match c.seeds.len() {
        1 => "1 pair of runs shows".to_owned(),
        n => format!("{n} pairs of runs show"),
    };
    match effect.conclusion() {
        Conclusion::Equal => {
            let effects = c.metrics.iter().filter_map(|known| known.effect.as_ref());
            match effects.map(Effect::conclusion).all(|found| found == Conclusion::Equal) {
                true => format!("{pairs} no difference at all between {a} and {b} {on}"),
                false => format!("{pairs} the same score for {a} and {b} {on}, but other figures differ"),
            }
        }
        Conclusion::Unclear => {
            let (low, high) = effect.ratio.ends();
            format!(
                "{pairs} no difference between {a} and {b} {on} (95 % CI {} to {})",
                change(low),
                change(high)
            )
        }
        conclusion => {
            // If the score is a time, the sentence says "more time" or "less time" instead of
            // "slower" or "faster".
            let words = match (c.score_better, effect.ratio.value > 1.0) {
                (Better::Higher, true) => ["faster", "as fast as"],
                (Better::Higher, false) => ["slower", "as fast as"],
                (Better::Lower, true) => ["more time", "the time of"],
                (Better::Lower, false) => ["less time", "the time of"],
            };
            let verb = if c.score_better == Better::Higher {
                "is"
            } else {
                "needs"
            };
            let than = |word: &str| format!("{word} than {a}");
            let amount = amount(effect.ratio.value, &than(words[0]), &format!("{} {a}", words[1]));
            let sure = if conclusion == Conclusion::OnePair {
                " in the one pair of runs".to_owned()
            } else {
                interval(effect)
            };
            format!("{b} {verb} {amount} {on}{sure}")
        }
    }
}

/// Returns a sentence about the change of `metric`, if the change is significant and large enough.
fn describe_change(metric: &Metric, effect: &Effect) -> Option<String> {
    let ratio = effect.ratio.value;
    if !matches!(effect.conclusion(), Conclusion::More | Conclusion::Less) || (ratio - 1.0).abs() < WORTH_WORDS {
        return None;
    }
    let about = metric.figure.about;
    if !ratio.is_finite() {
        return Some(format!("{about}: {}, up from 0", metric.text(effect.b.mean, "")));
    }
    let words = match (metric.figure.unit == Unit::Duration, ratio > 1.0) {
        (true, true) => ["longer", "as long"],
        (true, false) => ["shorter", "as long"],
        (false, true) => ["more", "as much"],
        (false, false) => ["less", "as much"],
    };
    Some(format!(
        "{about}: {}{}",
        amount(ratio, words[0], words[1]),
        interval(effect)
    ))
}

/// Formats a ratio in words: `12 % faster` or `3.0 times as fast`.
fn amount(ratio: f64, comparative: &str, equal: &str) -> String {
    if ratio >= FACTOR {
        let times = if ratio < 0.1 {
            format!("{ratio:.2}")
        } else {
            format!("{ratio:.1}")
        };
        return format!("{times} times {equal}");
    }
    format!("{} % {comparative}", percent((ratio - 1.0).abs() * 100.0))
}

fn interval(effect: &Effect) -> String {
    let Some((low, high)) = effect.ratio.bounds else {
        return String::new();
    };
    let ratio = effect.ratio.value;
    if ratio >= FACTOR {
        return format!(" (95 % CI {low:.1} to {high:.1})");
    }
    // The interval is printed with the same sign as the percentage before it.
    let (low, high) = if ratio > 1.0 {
        (low - 1.0, high - 1.0)
    } else {
        (1.0 - high, 1.0 - low)
    };
    format!(" (95 % CI {:.1} to {:.1} %)", low * 100.0, high * 100.0)
}

/// Formats a ratio as a signed change.
pub(super) fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if !ratio.is_finite() {
        return "from 0".to_owned();
    }
    if ratio >= LARGE {
        return format!("over {LARGE}x");
    }
    if ratio >= 10.0 {
        return format!("{ratio:.1}x");
    }
    // A small decrease is printed as "+0.0 %", not as "-0.0 %".
    let percent = if percent.abs() < 0.05 { 0.0 } else { percent };
    format!("{percent:+.1} %")
}

fn percent(percent: f64) -> String {
    if percent >= 10.0 {
        format!("{percent:.0}")
    } else {
        format!("{percent:.1}")
    }
}
