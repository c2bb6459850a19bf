// SPDX-License-Identifier: GPL-2.0-only
//! Expands an experiment's definition into cases. A case is a run together with the table rows that
//! show its values.
//!
//! For example, `keys = { rooms = [10, 20], policy = ["dss", "o1"] }` makes four cases. In the
//! texts of each case, `{rooms}` and `{policy}` are replaced by its values.

use super::definition::{Definition, Named, Row, Run, text};
use super::equation;
use super::measure::{Arguments, Quantity};
use input::Source;
use input::duration;
use input::error::Error;
use runner::spec::RunSpec;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use toml::{Spanned, Value};

mod calibration;
mod check;
mod scopes;

pub use calibration::Calibration;

/// A run, its baseline (the run with which it is compared), and the table rows that show its
/// results. The descriptions of the runs have seed 1, which [`Case::seeds`] replaces.
#[derive(Clone, Debug)]
pub struct Case {
    pub run: RunSpec,
    pub baseline: Option<RunSpec>,
    pub seeds: u64,
    /// The first seed of the runs, 1 unless other seeds are wanted.
    pub first_seed: u64,
    pub rows: Vec<CaseRow>,
    /// Byte offset of the case in the definition, for error messages.
    pub at: usize,
}

/// A row of the table. If the definition has `each_run`, there is one row for each seed.
#[derive(Clone, Debug)]
pub struct CaseRow {
    pub keys: BTreeMap<String, String>,
    pub values: BTreeMap<String, Quantity>,
    pub expected: BTreeMap<String, f64>,
}

/// An experiment whose definition is expanded into cases, ready to be executed.
#[derive(Clone, Debug)]
pub struct Plan {
    pub columns: Vec<String>,
    /// Columns with measured values.
    pub measured: Vec<String>,
    pub each_run: Option<String>,
    /// The definition's [`no_difference`](Definition::no_difference), with values as texts.
    pub no_difference: BTreeMap<String, String>,
    /// Published values from which a constant was inferred.
    pub calibrated: Vec<Calibration>,
    pub cases: Vec<Case>,
}

impl Plan {
    /// Returns a plan in which every run uses the policy `policy` with its default parameters. The
    /// machine of every run is `machine`, with its own costs and tick rate.
    #[must_use]
    pub fn with_policy(mut self, policy: &str, machine: &str) -> Plan {
        for case in &mut self.cases {
            for run in std::iter::once(&mut case.run).chain(&mut case.baseline) {
                *run = RunSpec {
                    for_ns: run.for_ns,
                    ..RunSpec::new(policy, machine, &run.workload)
                };
            }
        }
        self
    }
}

/// The names that can be used as `{name}` in a text, with their values.
type Scope = BTreeMap<String, String>;

/// State of the expansion of a definition.
struct Planner<'a> {
    source: &'a Source,
    definition: &'a Definition,
    with: Named,
    measured: Vec<String>,
    /// Keys and variables that have been used as `{name}` in a text.
    used: RefCell<BTreeSet<String>>,
}

/// Expands a definition. `with` contains variables of the `[run]` table and the values that the
/// user gives them.
///
/// # Errors
/// An error in the definition, with its position.
pub fn plan(source: &Source, definition: &Definition, with: &[(String, String)]) -> Result<Plan, Error> {
    let at = definition.columns.span().start;
    let columns = definition.columns.get_ref();
    let values = || {
        let row_values = definition.rows.iter().flat_map(|row| row.get_ref().values.iter());
        definition.values.iter().chain(row_values)
    };
    if let Some((name, value)) = values().find(|(name, _)| !columns.contains(name)) {
        let message = format!("value '{name}' is not a column");
        return Err(source.error(value.span().start, message).hint(columns.join(", ")));
    }
    let measured: Vec<String> = columns
        .iter()
        .filter(|column| values().any(|(name, _)| name == *column))
        .cloned()
        .collect();
    if measured.is_empty() {
        return Err(source
            .error(at, "no column has a measured value")
            .hint("for example: [values] column = \"score\""));
    }
    let mut variables = definition.run.get_ref().with.clone();
    for (name, value) in with {
        if !variables.contains_key(name) {
            let known: Vec<&str> = variables.keys().map(String::as_str).collect();
            return Err(
                Error::new(format!("--with {name}={value}: no such variable")).hint(format!(
                    "{} has the variables {}",
                    source.place,
                    if known.is_empty() {
                        "none".into()
                    } else {
                        known.join(", ")
                    }
                )),
            );
        }
        variables.insert(name.clone(), Value::String(value.clone()));
    }
    let planner = Planner {
        source,
        definition,
        with: variables,
        measured,
        used: RefCell::default(),
    };
    let cases = planner.cases()?;
    planner.check_keys(&cases)?;
    Ok(Plan {
        no_difference: planner.no_difference(&cases)?,
        calibrated: planner.calibrated(&cases)?,
        columns: columns.clone(),
        measured: planner.measured,
        each_run: definition.each_run.as_ref().map(|name| name.get_ref().clone()),
        cases,
    })
}

impl Planner<'_> {
    /// Returns the keys of the definition's `no_difference`.
    fn no_difference(&self, cases: &[Case]) -> Result<BTreeMap<String, String>, Error> {
        let Some(table) = &self.definition.no_difference else {
            return Ok(BTreeMap::new());
        };
        let hint = "name the rows of the baseline, with which the other rows are compared";
        self.row_keys(table.span().start, "no_difference", table.get_ref(), cases, hint)
    }

    /// Reads keys that select rows of the table. `what` is the name of the definition's key that
    /// contains them.
    fn row_keys(
        &self,
        at: usize,
        what: &str,
        named: &Named,
        cases: &[Case],
        hint: &str,
    ) -> Result<BTreeMap<String, String>, Error> {
        let columns = self.definition.columns.get_ref();
        let mut keys = BTreeMap::new();
        for (name, value) in named {
            let is_key = columns.contains(name) && !self.measured.contains(name);
            let message = format!("{what}: '{name}' is not a key column with a text or number");
            let value = text(value).filter(|_| is_key);
            let value = value.ok_or_else(|| self.source.error(at, message).hint(columns.join(", ")))?;
            keys.insert(name.clone(), value);
        }
        let mut rows = cases.iter().flat_map(|case| &case.rows);
        if !rows.any(|row| keys.iter().all(|(name, value)| row.keys.get(name) == Some(value))) {
            let message = format!("{what}: no row has {}", join(&keys, " and "));
            return Err(self.source.error(at, message).hint(hint));
        }
        Ok(keys)
    }

    fn cases(&self) -> Result<Vec<Case>, Error> {
        let whole = [self.definition.run.clone()];
        let tables = match self.definition.cases.as_slice() {
            [] => &whole[..],
            cases => cases,
        };
        let mut cases = Vec::new();
        for table in tables {
            let (at, case) = (table.span().start, table.get_ref());
            let run = self.definition.run.get_ref();
            let merged = match self.definition.cases.is_empty() {
                true => run.clone(),
                false => merge(run, case),
            };
            // Without a [[case]], the `[run]` table is the only case. `self.with` contains its
            // variables, with the values that the user gives them.
            let own = if self.definition.cases.is_empty() {
                &Named::new()
            } else {
                &case.with
            };
            let outer = self.scope(at, &[&self.with, own])?;
            let mut scopes = self.expand(at, &outer, &merged.keys, &run.each)?;
            if !self.definition.cases.is_empty() && !case.each.is_empty() {
                let inner = |scope: &Scope| self.expand(at, scope, &Named::new(), &case.each);
                scopes = scopes.iter().map(inner).collect::<Result<Vec<_>, _>>()?.concat();
            }
            for scope in scopes {
                cases.push(self.case(at, &merged, &scope)?);
            }
        }
        self.check_used()?;
        Ok(cases)
    }

    fn case(&self, at: usize, table: &Run, scope: &Scope) -> Result<Case, Error> {
        let run = self.run(at, table, scope)?;
        let baseline = match &self.definition.baseline {
            None => None,
            Some(baseline) => {
                let at = baseline.span().start;
                let own = baseline.get_ref();
                let inherited = [&own.keys, &own.with].iter().any(|named| !named.is_empty());
                if inherited || !own.each.is_empty() || !own.expected.is_empty() || own.seeds.is_some() {
                    return Err(self.source.error(
                        at,
                        "[baseline] must not have keys, each, expected, seeds or with: it uses those of its case",
                    ));
                }
                // The baseline can have another policy, so the settings of the case do not apply to
                // it.
                let mut base = table.clone();
                base.set = self.definition.run.get_ref().set.clone();
                Some(self.run(at, &merge(&base, own), scope)?)
            }
        };
        let seeds = table.seeds.unwrap_or(1);
        if seeds == 0 {
            return Err(self.source.error(at, "seeds = 0: expected at least 1"));
        }
        let one = [Spanned::new(at..at, Row::default())];
        let rows = match self.definition.rows.as_slice() {
            [] => &one[..],
            rows => rows,
        };
        let mut case_rows = Vec::new();
        for row in rows {
            let (at, row) = (row.span().start, row.get_ref());
            if !self.applies(at, &row.when, scope)? {
                continue;
            }
            for scope in self.expand(at, scope, &row.keys, &row.each)? {
                case_rows.push(self.row(&table.expected, row, &scope)?);
            }
        }
        if case_rows.is_empty() {
            return Err(self.source.error(at, "no [[row]] applies to this case"));
        }
        let relative = |row: &CaseRow| row.values.values().any(|quantity| quantity.against.is_some());
        if baseline.is_none() && case_rows.iter().any(relative) {
            return Err(self
                .source
                .error(at, "a value is relative to a baseline, but there is no [baseline]"));
        }
        Ok(Case {
            run,
            baseline,
            seeds,
            first_seed: 1,
            rows: case_rows,
            at,
        })
    }

    fn row(&self, expected: &BTreeMap<String, Spanned<Value>>, row: &Row, scope: &Scope) -> Result<CaseRow, Error> {
        let columns = self.definition.columns.get_ref();
        let mut values = BTreeMap::new();
        for (column, value) in self.definition.values.iter().chain(&row.values) {
            let (name, arguments) = self.call(value, "measure", scope)?;
            let quantity = Quantity::make(&name, arguments);
            let quantity = quantity.map_err(|message| self.at(&value.span(), &format!("{column}: {message}")))?;
            values.insert(column.clone(), quantity);
        }
        let mut theory = BTreeMap::new();
        for (column, value) in expected.iter().chain(&row.expected) {
            if !self.measured.contains(column) {
                return Err(self.at(&value.span(), &format!("expected: '{column}' is not a measured column")));
            }
            let (name, arguments) = self.call(value, "equation", scope)?;
            let solved = equation::solve(&name, &arguments);
            theory.insert(
                column.clone(),
                solved.map_err(|error| self.at(&value.span(), &error.message))?,
            );
        }
        Ok(CaseRow {
            keys: scope
                .iter()
                .filter(|(name, _)| columns.contains(name) && !self.measured.contains(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            values,
            expected: theory,
        })
    }

    /// Parses `"name"` or `{ measure = "name", argument = ... }`. `kind` is the key that contains
    /// the name, here `measure`.
    fn call(&self, value: &Spanned<Value>, kind: &str, scope: &Scope) -> Result<(String, Arguments), Error> {
        let at = value.span().start;
        let (name, arguments) = match value.get_ref() {
            Value::String(name) => (name.clone(), Vec::new()),
            Value::Table(table) => {
                let name = table.get(kind).and_then(Value::as_str);
                let name = name.ok_or_else(|| self.source.error(at, format!("expected {{ {kind} = \"name\" }}")))?;
                let others = table.iter().filter(|(key, _)| *key != kind);
                let pairs = others.map(|(key, value)| Ok((key.clone(), self.fill(at, &self.text(at, value)?, scope)?)));
                (name.to_owned(), pairs.collect::<Result<Vec<_>, Error>>()?)
            }
            _ => {
                return Err(self
                    .source
                    .error(at, format!("expected the name of the {kind} or a table")));
            }
        };
        Ok((name, Arguments::new(&arguments)))
    }

    fn run(&self, at: usize, table: &Run, scope: &Scope) -> Result<RunSpec, Error> {
        let given = |name: &str, value: &Option<String>| match value {
            Some(value) => self.fill(at, value, scope),
            None => Err(self
                .source
                .error(at, format!("{name} is missing"))
                .hint(format!("set {name} here or in [run]"))),
        };
        let set = table.set.iter().map(|(name, value)| {
            let value = self.fill(at, &self.text(at, value)?, scope)?;
            Ok(format!("{}={value}", self.fill(at, name, scope)?))
        });
        let for_ns = match &table.for_time {
            None => None,
            Some(time) => {
                let time = duration::parse(&self.fill(at, time, scope)?);
                Some(time.map_err(|error| self.source.error(at, format!("for: {error}")))?)
            }
        };
        let noise = table.noise.as_ref().map(|noise| {
            let level = self.fill(at, noise, scope)?.parse();
            level.map_err(|error| self.source.error(at, format!("noise: {error}")))
        });
        Ok(RunSpec {
            policy: given("policy", &table.policy)?,
            machine: Some(given("machine", &table.machine)?),
            workload: given("workload", &table.workload)?,
            set: set.collect::<Result<_, Error>>()?,
            for_ns,
            no_costs: table.costs == Some(false),
            hz: table.hz,
            noise: noise.transpose()?,
            ..RunSpec::default()
        })
    }

    fn applies(&self, at: usize, when: &Named, scope: &Scope) -> Result<bool, Error> {
        for (name, value) in when {
            let Some(own) = scope.get(name) else {
                return Err(self.source.error(at, format!("when: no key has the name '{name}'")));
            };
            self.used.borrow_mut().insert(name.clone());
            let wanted = self.alternatives(at, value)?;
            if !wanted.contains(own) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns an error at a position. The message may include a hint.
    fn at(&self, span: &Range<usize>, message: &str) -> Error {
        let (message, hint) = message.split_once("\n  hint: ").unwrap_or((message, ""));
        let error = self.source.error(span.start, message);
        if hint.is_empty() { error } else { error.hint(hint) }
    }
}

/// Joins keys with their values, for example `scheduler = o1, cpus = 2`.
fn join(keys: &BTreeMap<String, String>, separator: &str) -> String {
    let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    keys.join(separator)
}

/// Merges two tables. A value that both tables have is taken from `over`.
fn merge(under: &Run, over: &Run) -> Run {
    let named = |under: &Named, over: &Named| -> Named {
        let pairs = under.iter().chain(over);
        pairs.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let expected = under.expected.iter().chain(&over.expected);
    Run {
        policy: over.policy.clone().or_else(|| under.policy.clone()),
        machine: over.machine.clone().or_else(|| under.machine.clone()),
        workload: over.workload.clone().or_else(|| under.workload.clone()),
        set: named(&under.set, &over.set),
        for_time: over.for_time.clone().or_else(|| under.for_time.clone()),
        seeds: over.seeds.or(under.seeds),
        costs: over.costs.or(under.costs),
        hz: over.hz.or(under.hz),
        noise: over.noise.clone().or_else(|| under.noise.clone()),
        with: named(&under.with, &over.with),
        keys: named(&under.keys, &over.keys),
        each: over.each.clone(),
        expected: expected.map(|(name, value)| (name.clone(), value.clone())).collect(),
    }
}
