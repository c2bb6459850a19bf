// SPDX-License-Identifier: GPL-2.0-only
//! Walks through the accesses of a run one at a time, forward and backward, as a debugger does.
//!
//! The run is recorded once. Going backward therefore costs nothing, and shows the same values.

use super::observe::{Finding, Observed, named, place, source};
use super::text::{number, us};
use bpf::engine::AccessKind;
use kernel::{CpuId, Seen, Step};
use std::fmt::Write;
use trace::escape;

/// A position among the accesses of a run.
pub struct Stepper<'a> {
    observed: &'a Observed,
    /// The CPUs that access anything, in the order of their first accesses.
    cpus: Vec<CpuId>,
    /// Steps that belong to the finding, in order.
    marks: Vec<usize>,
    at: usize,
}

/// A movement of the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// By this number of steps, forward or backward.
    By(isize),
    /// To the next access by a different CPU.
    NextSwitch,
    /// To the last access before the current CPU's turn.
    PreviousSwitch,
    /// To the next access that belongs to the finding.
    NextMark,
    PreviousMark,
    First,
    Last,
}

/// A row of a listing with one column for each CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub step: usize,
    pub cpu: CpuId,
    pub text: String,
    /// Whether the finding consists of this access, among others.
    pub is_marked: bool,
}

impl<'a> Stepper<'a> {
    /// Begins at the first access of the finding. Returns `None` if the run has no accesses.
    pub fn new(observed: &'a Observed, finding: Option<&Finding>) -> Option<Stepper<'a>> {
        let last = observed.steps.len().checked_sub(1)?;
        let marks = match finding {
            Some(Finding::Race(race)) => {
                let is_part = |step: &Step, seen: &Seen| {
                    (step.time, step.cpu, step.pc) == (seen.time, seen.cpu, seen.pc) && step.kind != AccessKind::Call
                };
                let all = [race.load, race.store, race.other];
                let steps = observed.steps.iter().enumerate();
                let parts = steps.filter(|(_, step)| all.iter().any(|seen| is_part(step, seen)));
                parts.map(|(index, _)| index).collect()
            }
            Some(Finding::Stall { from_ns, .. }) => {
                let after = observed.steps.partition_point(|step| step.time <= *from_ns);
                vec![after.saturating_sub(1)]
            }
            _ => vec![last],
        };
        let at = marks.first().copied().unwrap_or(0);
        let mut cpus = Vec::new();
        for step in &observed.steps {
            if !cpus.contains(&step.cpu) {
                cpus.push(step.cpu);
            }
        }
        Some(Stepper {
            observed,
            cpus,
            marks,
            at,
        })
    }

    /// Returns the number of steps.
    pub fn nr(&self) -> usize {
        self.observed.steps.len()
    }

    /// Returns the index of the current step.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Moves the position. It stays where it is if there is no such step.
    pub fn go(&mut self, to: Move) {
        let steps = &self.observed.steps;
        let last = steps.len() - 1;
        let cpu = steps[self.at].cpu;
        let other = |step: &Step| step.cpu != cpu;
        let next = match to {
            Move::By(nr) => Some(self.at.saturating_add_signed(nr).min(last)),
            Move::NextSwitch => (self.at..=last).find(|&index| other(&steps[index])),
            Move::PreviousSwitch => (0..self.at).rfind(|&index| other(&steps[index])),
            Move::NextMark => self.marks.iter().copied().find(|&mark| mark > self.at),
            Move::PreviousMark => self.marks.iter().copied().rfind(|&mark| mark < self.at),
            Move::First => Some(0),
            Move::Last => Some(last),
        };
        self.at = next.unwrap_or(self.at);
    }

    /// Returns the CPUs that access anything, at most `most` of them: those of the finding and of the
    /// current step first.
    pub fn cpus(&self, most: usize) -> Vec<CpuId> {
        let mut cpus = Vec::new();
        let important = std::iter::once(&self.at).chain(&self.marks);
        let important = important.map(|&index| &self.observed.steps[index].cpu);
        for cpu in important.chain(&self.cpus) {
            if !cpus.contains(cpu) {
                cpus.push(*cpu);
            }
        }
        cpus.truncate(most);
        cpus.sort();
        cpus
    }

    /// Returns the rows from step `first` on.
    pub fn rows(&self, first: usize, nr: usize) -> Vec<Row> {
        let indexes = (first..self.nr()).take(nr);
        let row = |index: usize| {
            let step = &self.observed.steps[index];
            let line = self.line(step.pc);
            Row {
                step: index,
                cpu: step.cpu,
                text: clean(&format!("{line}: {}", self.access(index))),
                is_marked: self.marks.contains(&index),
            }
        };
        indexes.map(row).collect()
    }

    /// Describes the current step in detail: what it does to which variable, who stored there last,
    /// and where the other CPUs are.
    pub fn details(&self) -> Vec<String> {
        let step = &self.observed.steps[self.at];
        let code = &self.observed.code;
        let mut lines = vec![
            format!(
                "step {} of {}  {}  CPU {} {}",
                self.at + 1,
                self.nr(),
                us(step.time),
                step.cpu,
                named(step.op)
            ),
            format!("{}: {}", place(code, step.pc), source(code, step.pc)),
            format!("{}{}", self.access(self.at), held(step)),
        ];
        if step.kind != AccessKind::Call {
            lines.push(match self.last_store(self.at) {
                Some(index) => {
                    let store = &self.observed.steps[index];
                    let (number, cpu, at) = (index + 1, store.cpu, place(code, store.pc));
                    format!("last stored in step {number} by CPU {cpu} at {at}")
                }
                None => "not stored before in this run".to_owned(),
            });
        }
        lines.extend(self.elsewhere());
        lines.iter().map(|line| clean(line)).collect()
    }

    /// Lists all steps as text, one a line. A line of the finding begins with `>`.
    pub fn listing(&self) -> String {
        let mut text = format!(
            "{:>7} {:>14}  {:<6} {:<18} {:<24} {:<44} other CPUs\n",
            "step", "time", "CPU", "callback", "line", "access"
        );
        let mut copy = Stepper {
            observed: self.observed,
            cpus: self.cpus.clone(),
            marks: Vec::new(),
            at: 0,
        };
        for index in 0..self.nr() {
            copy.at = index;
            let step = &self.observed.steps[index];
            let mark = if self.marks.contains(&index) { '>' } else { ' ' };
            let line = format!(
                "{mark}{:>6} {:>14}  CPU {:<2} {:<18} {:<24} {:<44} {}",
                index + 1,
                us(step.time),
                step.cpu,
                named(step.op),
                place(&self.observed.code, step.pc),
                format!("{}{}", self.access(index), held(step)),
                copy.elsewhere().join("; ")
            );
            let _ = writeln!(text, "{}", clean(line.trim_end()));
        }
        text
    }

    /// Describes the callbacks in which the other CPUs are suspended.
    fn elsewhere(&self) -> Vec<String> {
        let steps = &self.observed.steps;
        let current = steps[self.at].cpu;
        let others = self.cpus.iter().copied().filter(|cpu| *cpu != current);
        let describe = |cpu: CpuId| {
            let before = steps[..self.at].iter().rev().find(|step| step.cpu == cpu)?;
            let after = steps[self.at..].iter().find(|step| step.cpu == cpu)?;
            let is_inside = before.callback == after.callback && before.op == after.op;
            let (from, to) = (self.line(before.pc), self.line(after.pc));
            is_inside.then(|| match from == to {
                true => format!("CPU {cpu} is in line {from} of {}", named(after.op)),
                false => format!("CPU {cpu} is between lines {from} and {to} of {}", named(after.op)),
            })
        };
        others.filter_map(describe).collect()
    }

    /// Returns the number of the source line, or the instruction without line information.
    fn line(&self, pc: usize) -> String {
        let place = place(&self.observed.code, pc);
        place.rsplit(':').next().unwrap_or_default().to_owned()
    }

    /// Describes an access: `load ring.tail = 32`.
    fn access(&self, index: usize) -> String {
        let step = &self.observed.steps[index];
        let verb = match step.kind {
            AccessKind::Call => return format!("call {}", step.callee.unwrap_or("a function")),
            AccessKind::Load => "load",
            AccessKind::Acquire => "load-acquire",
            AccessKind::Store => "store",
            AccessKind::Release => "store-release",
            AccessKind::Atomic | AccessKind::AtomicUnordered => "atomic",
        };
        let name = self.observed.names.iter().find_map(|name| name.name_at(step.addr));
        let name = name.unwrap_or_else(|| format!("{:#x}", step.addr));
        let sign = match step.kind {
            AccessKind::Load | AccessKind::Acquire => "=",
            _ => ":=",
        };
        format!("{verb} {name} {sign} {}", number(step.value))
    }

    /// Returns the last step before `index` that stored the same variable.
    fn last_store(&self, index: usize) -> Option<usize> {
        let steps = &self.observed.steps;
        let Step { addr, size, .. } = steps[index];
        let overlaps =
            |step: &Step| step.addr < addr + u64::from(size) && addr < step.addr.saturating_add(step.size.into());
        let stores = |step: &Step| !matches!(step.kind, AccessKind::Call | AccessKind::Load | AccessKind::Acquire);
        (0..index).rfind(|&earlier| stores(&steps[earlier]) && overlaps(&steps[earlier]))
    }
}

/// Returns the forced delay before a step, as a text that follows the access.
fn held(step: &Step) -> String {
    match step.held_ns {
        0 => String::new(),
        ns => format!(" (held {})", us(ns)),
    }
}

/// Removes control characters, which source lines of a hostile object may contain.
fn clean(text: &str) -> String {
    escape::line(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::Machine;
    use kernel::ext::Callback;
    use workload::Workload;

    fn step(cpu: CpuId, time: u64, kind: AccessKind, callback: u64) -> Step {
        Step {
            time,
            cpu,
            op: Some(Callback::Enqueue),
            callback,
            pc: 0,
            kind,
            addr: 0x100,
            size: 8,
            value: time,
            callee: None,
            held_ns: 0,
        }
    }

    /// CPU 0 loads and stores a variable, and CPU 1 stores it in between.
    fn observed() -> Observed {
        use AccessKind::{Call, Load, Store};
        let smp2 = machine::MachineSpec::smp(2);
        let machine = Machine::new(smp2, Workload::default(), 1).expect("a machine");
        let cpus: Vec<CpuId> = machine.cpus().collect();
        Observed {
            steps: vec![
                step(cpus[0], 1, Load, 1),
                step(cpus[1], 2, Store, 2),
                step(cpus[1], 3, Call, 2),
                step(cpus[0], 4, Store, 1),
                step(cpus[1], 5, Load, 3),
            ],
            ..Observed::default()
        }
    }

    #[test]
    fn steps_go_forward_and_backward_and_stop_at_the_ends() {
        let observed = observed();
        let mut stepper = Stepper::new(&observed, None).expect("there are steps");
        assert_eq!(stepper.at(), 4);
        for (to, at) in [
            (Move::By(1), 4),
            (Move::By(-1), 3),
            (Move::PreviousSwitch, 2),
            (Move::PreviousSwitch, 0),
            (Move::By(-1), 0),
            (Move::NextSwitch, 1),
            (Move::NextSwitch, 3),
            (Move::NextMark, 4),
            (Move::NextMark, 4),
            (Move::First, 0),
            (Move::Last, 4),
            (Move::PreviousMark, 4),
        ] {
            stepper.go(to);
            assert_eq!(stepper.at(), at, "{to:?}");
        }
    }

    #[test]
    fn a_step_shows_who_stored_last_and_where_other_cpus_are() {
        let observed = observed();
        let mut stepper = Stepper::new(&observed, None).expect("there are steps");
        stepper.go(Move::PreviousSwitch);
        let details = stepper.details().join("\n");
        assert!(details.contains("step 4 of 5"), "{details}");
        assert!(details.contains("last stored in step 2 by CPU 1"), "{details}");
        // CPU 1 begins a different callback after this step, so it is in none.
        assert!(!details.contains("CPU 1 is"), "{details}");
        stepper.go(Move::PreviousSwitch);
        assert_eq!(stepper.at(), 2);
        let details = stepper.details().join("\n");
        assert!(details.contains("CPU 0 is in line"), "{details}");
        assert_eq!(stepper.cpus(1).len(), 1);
    }

    #[test]
    fn the_listing_has_a_line_for_each_step() {
        let observed = observed();
        let stepper = Stepper::new(&observed, None).expect("there are steps");
        let listing = stepper.listing();
        let lines: Vec<&str> = listing.lines().collect();
        assert_eq!(lines.len(), 6);
        assert!(lines[5].starts_with(">     5"), "{listing}");
        assert!(
            lines[2].contains("ops.enqueue()") && lines[2].contains("store 0x100 := 2"),
            "{listing}"
        );
    }

    #[test]
    fn a_run_without_accesses_has_no_stepper() {
        assert!(Stepper::new(&Observed::default(), None).is_none());
    }
}
