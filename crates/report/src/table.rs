// SPDX-License-Identifier: GPL-2.0-only
//! The table that compares several results. Each policy has one row.

use crate::failure::Status;
use crate::figure::Figure;
use crate::figures::{FIGURES, RunResult};
use crate::layout::{Grid, Mark, Surface, Text};
use crate::score::Better;
use crate::units;
use trace::escape;

/// Maximum number of characters of a name per line. A longer name continues on the next line.
const NAME_WIDTH: usize = 24;

/// A column of the comparison.
pub(crate) struct Column {
    pub head: String,
    /// Order in which columns are left out on a narrow terminal: those with the highest rank first
    /// ([`Grid`]).
    rank: usize,
    /// Whether higher or lower values are better, or `None` if neither are.
    pub better: Option<Better>,
    value: fn(&RunResult) -> Option<f64>,
    pub text: fn(f64) -> String,
}

/// An input of a run: its label, and the function that returns it as text.
type Input = (&'static str, fn(&RunResult) -> String);

/// Returns the column with the scores. If the units of the results differ, the column contains
/// operations per second.
fn score_column(results: &[RunResult]) -> Column {
    let time = |head: &str, text| Column {
        head: head.to_owned(),
        rank: 0,
        better: Some(Better::Lower),
        value: |r| r.score,
        text,
    };
    let rate = |unit: &str, value| Column {
        head: format!("throughput\n{unit}"),
        rank: 0,
        better: Some(Better::Higher),
        value,
        text: |rate| units::tenths(units::rounded(rate * 10.0)),
    };
    let unit = results.first().map_or("operations/s", |r| r.score_unit.as_str());
    if !results.iter().all(|r| r.score_unit == unit) {
        return rate("operations/s", |r| {
            (r.throughput.operations > 0).then_some(r.throughput.per_second)
        });
    }
    match unit {
        "s" => time("completion\ntime", |s| units::time(units::rounded(s * 1e9))),
        "us/op" => time("time per\noperation", |us| units::time(units::rounded(us * 1e3))),
        "ms" => time("response\nmean", |ms| units::time(units::rounded(ms * 1e6))),
        unit => rate(unit, |r| r.score),
    }
}

/// Returns the columns of the comparison. The first column is the score.
pub(crate) fn columns(results: &[RunResult]) -> Vec<Column> {
    let column = |figure: &Figure| {
        let shown = figure.table?;
        Some(Column {
            head: shown.head.to_owned(),
            rank: shown.rank,
            better: figure.better,
            value: figure.value,
            text: figure.unit.cell(),
        })
    };
    let mut columns = vec![score_column(results)];
    columns.extend(FIGURES.iter().filter_map(column));
    columns
}

impl Column {
    /// Returns the value that this column compares, or `None` if the run has no such value.
    pub fn value(&self, result: &RunResult) -> Option<f64> {
        match result.status {
            Status::Refused => None,
            Status::Ejected if result.simulated_ns == 0 => None,
            Status::Ran | Status::Ejected | Status::Deadlock => (self.value)(result),
        }
    }

    /// Returns the best value. Results that cannot be the best, for example because the policy
    /// failed, do not count ([`RunResult::can_win`]). Returns `None` if all values that count are
    /// equal.
    pub fn best(&self, results: &[RunResult]) -> Option<f64> {
        let winners = results.iter().filter(|r| r.can_win());
        let values: Vec<f64> = winners.filter_map(|r| self.value(r)).collect();
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        let best = match self.better? {
            Better::Higher => most,
            Better::Lower => least,
        };
        (least < most).then_some(best)
    }

    fn cells(&self, results: &[RunResult]) -> Vec<Text> {
        let best = self.best(results);
        let cell = |r: &RunResult| {
            let value = self.value(r);
            let text = value.map_or_else(|| "-".to_owned(), self.text);
            match best {
                None => text.into(),
                Some(_) if value == best && r.can_win() => Text::new(&(text + "*"), Mark::Best),
                Some(_) => (text + " ").into(), // The space keeps the digits of the column aligned.
            }
        };
        results.iter().map(cell).collect()
    }
}

/// Returns the table. Inputs that all results share are printed above it. Failures of policies are
/// printed below it. If higher or lower values of a column are better, the best value has a `*`.
/// The text ends with a newline.
pub fn table(results: &[RunResult], surface: impl Into<Surface>) -> String {
    figures(results, surface.into()) + &failures(results) + &losses(results)
}

/// Returns the table without the failures, for readers who have seen them.
pub fn table_without_failures(results: &[RunResult], surface: impl Into<Surface>) -> String {
    figures(results, surface.into()) + &losses(results)
}

fn figures(results: &[RunResult], surface: Surface) -> String {
    let mut shared = Vec::new();
    let escaped = |text: &str| escape::line(text).into_owned();
    let mut names: Vec<String> = results.iter().map(|r| escaped(&r.policy)).collect();
    // Inputs that all results share are printed once. Other inputs are printed with the name of the
    // row.
    let inputs: [Input; 4] = [
        ("machine", |r| format!("{} ({} CPUs)", r.machine, r.cpus)),
        ("workload", |r| r.workload.clone()),
        ("seed", |r| r.seed.to_string()),
        ("simulated", |r| units::time(r.simulated_ns)),
    ];
    for (label, input) in inputs {
        let values: Vec<String> = results.iter().map(|r| escaped(&input(r))).collect();
        match values.first() {
            Some(first) if values.iter().all(|v| v == first) => shared.push(format!("{label} {first}")),
            _ => {
                let described = names.iter_mut().zip(&values).zip(results);
                for ((name, value), _) in described.filter(|(_, r)| label != "simulated" || !r.failed()) {
                    *name += &format!("\n{label} {value}");
                }
            }
        }
    }
    let mut grid = Grid::new();
    let columns = columns(results);
    grid.left("policy", 0);
    columns.iter().for_each(|c| grid.right(&c.head, c.rank));
    let cells: Vec<Vec<Text>> = columns.iter().map(|c| c.cells(results)).collect();
    for (row, (result, name)) in results.iter().zip(&names).enumerate() {
        let name = match verdict(result) {
            Some(verdict) => break_name(name) + "\n" + &verdict,
            None => break_name(name),
        };
        let mark = if result.can_win() { Mark::Plain } else { Mark::Failed };
        let values = cells.iter().map(|c| c[row].clone());
        grid.row(std::iter::once(Text::new(&name, mark)).chain(values));
    }
    let mut out = match results {
        [] => String::new(),
        _ => surface.line(&shared.join(", "), ", "),
    };
    out += &grid.render(surface);
    out
}

fn losses(results: &[RunResult]) -> String {
    let mut out = String::new();
    for (result, lost) in results.iter().filter_map(|r| Some((r, r.lost_tasks.as_ref()?))) {
        let (policy, lost) = (escape::line(&result.policy), lost.sentence());
        out += &format!("{policy} lost tasks: {}\n", escape::text(&lost));
    }
    out
}

fn failures(results: &[RunResult]) -> String {
    let mut out = String::new();
    for (result, exit) in results.iter().filter_map(|r| Some((r, r.exit.as_ref()?))) {
        let failure = result.failure().unwrap_or_else(|| exit.sentence());
        let kind = match exit.kind.as_str() {
            "" | "SCX_EXIT_NONE" => String::new(),
            kind => format!(" ({kind})"),
        };
        out += &format!("{} {}{kind}\n", escape::line(&result.policy), escape::text(&failure));
        let location = exit.location();
        if !location.is_empty() {
            out += &format!("    in {}\n", escape::line(&location.join(", ")));
        }
        for note in &exit.notes {
            out += &format!("    {}\n", escape::text(note));
        }
    }
    for (result, failure) in results.iter().filter_map(|r| Some((r, r.failure()?))) {
        if result.status == Status::Deadlock {
            out += &format!("{} {}\n", escape::line(&result.policy), escape::text(&failure));
        }
    }
    out
}

/// Returns a short text about why a result cannot be the best, or `None` if it can.
fn verdict(result: &RunResult) -> Option<String> {
    let lost = result.lost_tasks.as_ref();
    match result.fate() {
        Some(fate) => Some(fate),
        None if result.interrupted => Some("interrupted".to_owned()),
        None if lost.is_some() => lost.map(|lost| format!("lost tasks: {}", lost.count)),
        None if result.failed_forks > 0 => Some(format!("failed forks: {}", result.failed_forks)),
        None => None,
    }
}

/// Breaks a long name into several lines, after punctuation if there is any near the limit.
fn break_name(name: &str) -> String {
    let mut out = Vec::new();
    for line in name.lines() {
        let mut rest: Vec<char> = line.chars().collect();
        while rest.len() > NAME_WIDTH + 4 {
            let punctuation = |i: &usize| "/_-. ,:".contains(rest[*i]);
            let at = (NAME_WIDTH / 2..NAME_WIDTH)
                .rev()
                .find(punctuation)
                .map_or(NAME_WIDTH, |i| i + 1);
            let tail = rest.split_off(at);
            out.push(std::mem::replace(&mut rest, tail).into_iter().collect::<String>());
        }
        out.push(rest.into_iter().collect());
    }
    out.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_broken_without_losing_characters() {
        assert_eq!(break_name("scx_simple"), "scx_simple");
        assert_eq!(
            break_name("policies/scx_central_with_options.bpf.o"),
            "policies/scx_central_\nwith_options.bpf.o"
        );
        let long = "x".repeat(60);
        assert_eq!(
            break_name(&long).lines().map(str::len).collect::<Vec<_>>(),
            [24, 24, 12]
        );
        assert_eq!(break_name(&long).replace('\n', ""), long);
    }
}
