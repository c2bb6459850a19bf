// SPDX-License-Identifier: GPL-2.0-only
//! Executes a case and looks for findings: the oracles of an exploration.

use super::case::{Case, Load};
use super::guide::Covered;
use bpf::engine::{NOT_TAKEN, TAKEN};
use bpf::image::Code;
use bpf::map::numbers::Number;
use input::error::Error;
use kernel::ext::ExitKind;
use kernel::ext::ops::NAMES;
use kernel::release::Release;
use kernel::{Plan, Priorities, Race, RaceKind, Seen, Step};
use runner::counters;
use runner::inputs::Inputs;
use runner::policy::Policy;
use runner::repeat;
use runner::running::Running;
use runner::scenario::Scenario;
use runner::scripts::{self, Converted};
use runner::spec::{EngineChoice, RunSpec};
use trace::Tee;
use workload::Workload;

/// A task that waits longer than this for a CPU is a stall, ns. The load of a generated case is far
/// smaller: with 20 tasks per CPU and slices of 20 ms, a task waits at most 400 ms.
pub const STALL_NS: u64 = 500_000_000;

/// Something that is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Two CPUs change a variable, and nothing orders the changes.
    Race(Race),
    /// The kernel or the policy itself ended the policy with an error.
    Ended { message: String, places: Vec<String> },
    /// A task waits for a CPU without end.
    Stall {
        comm: String,
        pid: u32,
        from_ns: u64,
        ns: u64,
    },
    /// A task ran on a CPU that its affinity excludes.
    Affinity { comm: String, pid: u32, cpu: u32 },
}

/// What the run of a case has shown.
#[derive(Default)]
pub struct Observed {
    pub findings: Vec<Finding>,
    /// Number of races on statistics counters, which are no findings.
    pub nr_benign: usize,
    /// Number of races on plain flags, which are no findings.
    pub nr_flags: usize,
    /// What the run has covered.
    pub covered: Covered,
    /// Number of points that the run reached.
    pub points: u64,
    /// Number of forced switches that took place.
    pub nr_held: u64,
    /// The forced switches that priorities have caused: point and length in ns.
    pub ranked: Vec<(u64, u64)>,
    /// Simulated time of the run, ns.
    pub simulated_ns: u64,
    /// Whether the policy has ops.cpu_online() and ops.cpu_offline().
    pub hotplug: bool,
    /// The accesses, if they were recorded.
    pub steps: Vec<Step>,
    /// The policy's variables, if the accesses were recorded.
    pub names: Vec<Number>,
    /// The linked code of the policy.
    pub code: Code,
}

/// The policy of an exploration, and the options of its runs.
pub struct Target {
    pub spec: RunSpec,
    pub inputs: Inputs,
    /// Whether races on statistics counters are findings, too.
    pub statistics: bool,
    /// Whether races on plain flags are findings, too.
    pub flags: bool,
    /// If set, only a stall of a task with this name is a finding.
    pub stalled: Option<String>,
}

impl Target {
    pub fn new(spec: RunSpec) -> Target {
        Target {
            spec,
            inputs: Inputs::default(),
            statistics: false,
            flags: false,
            stalled: None,
        }
    }

    /// Returns the command that repeats a case. The token contains the policy and the release, but
    /// no other options.
    pub fn replay(&self, case: &Case) -> String {
        let token = case.token(&self.spec.policy, self.spec.kernel);
        let mut words = vec![format!("windtunnel explore --replay {token}")];
        words.extend(self.settings());
        words.extend(self.races());
        words.join(" ")
    }

    /// Returns the options with which a command gives the policy the same parameters and profiles.
    pub fn settings(&self) -> Vec<String> {
        let spec = RunSpec {
            kernel: Release::default(),
            ..self.spec.clone()
        };
        spec.options()
    }

    /// Returns the options with which `explore` reports the same kinds of races.
    pub fn races(&self) -> Vec<String> {
        let options = [(self.statistics, "--statistics"), (self.flags, "--flags")];
        let options = options.into_iter().filter(|(is_set, _)| *is_set);
        options.map(|(_, option)| option.to_owned()).collect()
    }

    /// Returns the description of a case's run under the workload `workload`.
    pub fn spec(&self, case: &Case, workload: &str) -> RunSpec {
        RunSpec {
            machine: Some(case.machine.clone()),
            workload: workload.to_owned(),
            seed: case.seed,
            for_ns: Some(case.for_ns),
            engine: EngineChoice::Interpreter,
            ..self.spec.clone()
        }
    }

    /// Returns the run of a case. `workload` takes the place of the case's own.
    fn scenario(&self, case: &Case, workload: Option<Workload>) -> Result<Scenario, Error> {
        let generated = workload.map_or_else(|| case.workload(), |workload| Ok(Some(workload)))?;
        let word = match (&case.load, &generated) {
            (Load::Named(word), None) => word,
            _ => &self.spec.workload,
        };
        let spec = self.spec(case, word);
        let mut scenario = self.inputs.resolve(&spec)?;
        if let Some(workload) = generated {
            scenario.workload = workload;
        }
        Ok(scenario)
    }

    /// Executes a case. `record` keeps all accesses.
    ///
    /// # Errors
    /// The policy, the machine or the workload does not exist or cannot be used.
    pub fn observe(&self, case: &Case, record: bool) -> Result<Observed, Error> {
        repeat::with(self.replay(case), || self.observe_workload(case, None, record))
    }

    /// Returns whether a case without forced switches shows a finding even if each callback is
    /// executed at one instant. Races need callbacks that overlap.
    ///
    /// # Errors
    /// Those of [`Target::observe`].
    pub fn needs_no_overlap(&self, case: &Case, finding: &Finding) -> Result<bool, Error> {
        if matches!(finding, Finding::Race(_)) || !case.holds.is_empty() {
            return Ok(false);
        }
        let scenario = self.scenario(case, None)?;
        let mut running = scenario.start()?;
        running.machine.watch(u64::MAX, case.stall_ns);
        running.advance(running.until(), &mut Tee::new())?;
        running.end(&mut Tee::new());
        let findings = judge(&mut running);
        Ok(findings.iter().any(|other| other.same_as(finding, &Code::default())))
    }

    /// Converts a case without overlap into a script that shows the same finding in the simulator.
    /// Returns `None` if the script shows something else.
    ///
    /// # Errors
    /// A script cannot express the case.
    pub fn script(&self, case: &Case, finding: &Finding) -> Result<Option<Converted>, Error> {
        if !self.spec.profile.is_empty() {
            return Err(Error::new(
                "a script uses the profile beside the object, or the one of the object's name",
            ));
        }
        let scenario = self.scenario(case, None)?;
        let converted = scripts::convert(&scenario, case.for_ns, case.stall_ns)?;
        let shows = match finding {
            Finding::Stall { .. } => converted.stalled.is_some(),
            Finding::Ended { message, .. } if message.contains("runnable task stall") => {
                converted.stalled.is_some() || converted.ended.is_some()
            }
            Finding::Ended { message, .. } => {
                let ended = converted.ended.as_deref();
                ended.is_some_and(|ended| words(ended) == words(message))
            }
            Finding::Race(_) | Finding::Affinity { .. } => false,
        };
        Ok(shows.then_some(converted))
    }

    /// Executes a case with a different workload than its own, if there is one.
    ///
    /// # Errors
    /// Those of [`Target::observe`].
    pub fn observe_workload(&self, case: &Case, workload: Option<Workload>, record: bool) -> Result<Observed, Error> {
        let plan = Plan {
            holds: case.plan(),
            record,
            priorities: None,
        };
        self.execute(case, workload, plan)
    }

    /// Executes a case in the order of the CPUs' priorities. The forced switches that the priorities
    /// cause become those of the case, so the case repeats the run without priorities.
    ///
    /// # Errors
    /// Those of [`Target::observe`].
    pub fn observe_ranked(&self, case: &mut Case, priorities: Priorities) -> Result<Observed, Error> {
        let plan = Plan {
            priorities: Some(priorities),
            ..Plan::default()
        };
        let mut observed = self.execute(case, None, plan)?;
        case.holds = std::mem::take(&mut observed.ranked);
        Ok(observed)
    }

    fn execute(&self, case: &Case, workload: Option<Workload>, plan: Plan) -> Result<Observed, Error> {
        let record = plan.record;
        let scenario = self.scenario(case, workload)?;
        let mut running = scenario.start()?;
        if let Some(exit) = running.refused() {
            return Err(Error::new(format!("the kernel refuses the policy: {}", exit.message)));
        }
        // The tasks have exited before the uptime of the policy's profile, so there is nothing to see.
        if running.image().is_none() && matches!(scenario.policy, Policy::Object { .. }) {
            return Ok(Observed::default());
        }
        running.machine.overlap_callbacks(plan).map_err(Error::new)?;
        running.machine.watch(u64::MAX, case.stall_ns);
        running.advance(running.until(), &mut Tee::new())?;
        running.end(&mut Tee::new());
        let mut findings = judge(&mut running);
        let machine = &running.machine;
        let hotplug = machine.ext().ops().defines(kernel::ext::Callback::CpuOnline);
        let simulated_ns = machine.now;
        let image = running.image().filter(|_| record);
        let names = image.map(|image| counters::found(&running.machine, image));
        let vm = running.machine.ext().last_vm();
        let branches = vm.map(|vm| directions(vm.branches())).unwrap_or_default();
        let code = running.take_image().map(|image| image.code).unwrap_or_default();
        let Some(overlap) = running.machine.overlap() else {
            return Err(Error::new("callbacks do not overlap"));
        };
        let races = overlap.detector.races();
        let (benign, races): (Vec<Race>, Vec<Race>) = races.into_iter().partition(|race| race.benign);
        let (flags, mut races): (Vec<Race>, Vec<Race>) =
            races.into_iter().partition(|race| race.kind == RaceKind::Flag);
        let (nr_benign, nr_flags) = (benign.len(), flags.len());
        races.extend(flags.into_iter().filter(|_| self.flags));
        races.extend(benign.into_iter().filter(|_| self.statistics));
        findings.extend(races.into_iter().map(Finding::Race));
        findings.sort_by_key(Finding::rank);
        if let Some(name) = &self.stalled {
            findings.retain(|finding| finding.is_stall_of(name));
        }
        Ok(Observed {
            findings,
            nr_benign,
            nr_flags,
            covered: Covered {
                branches,
                pairs: overlap.detector.pairs(),
            },
            points: overlap.points,
            nr_held: overlap.nr_held,
            ranked: overlap.ranked.iter().map(|hold| (hold.point, hold.ns)).collect(),
            simulated_ns,
            hotplug,
            steps: overlap.steps.clone(),
            names: names.unwrap_or_default(),
            code,
        })
    }
}

/// Returns what is wrong with a run that has ended, except for races.
fn judge(running: &mut Running) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(exit) = running.exit().filter(|exit| exit.kind.is_error()) {
        findings.push(Finding::Ended {
            message: match exit.message.is_empty() {
                true => exit.reason.to_owned(),
                false if exit.kind == ExitKind::ErrorStall => format!("{}: {}", exit.reason, exit.message),
                false => exit.message.clone(),
            },
            places: exit.backtrace.clone(),
        });
    }
    let machine = &mut running.machine;
    let watched = machine.take_violations();
    if let Some(first) = watched.starvation.first {
        findings.push(Finding::Stall {
            comm: first.comm,
            pid: first.pid,
            from_ns: first.from,
            ns: first.until - first.from,
        });
    }
    if let Some(first) = watched.affinity.first {
        findings.push(Finding::Affinity {
            comm: first.comm,
            pid: first.pid,
            cpu: first.cpu.unwrap_or(0),
        });
    }
    findings
}

/// Returns the directions that jumps have taken, with the instructions.
fn directions(branches: &[u8]) -> Vec<(usize, bool)> {
    let all = branches.iter().enumerate();
    all.flat_map(|(pc, &taken)| {
        let both = [(TAKEN, true), (NOT_TAKEN, false)].into_iter();
        both.filter(move |(bit, _)| taken & bit != 0)
            .map(move |(_, is_taken)| (pc, is_taken))
    })
    .collect()
}

impl Finding {
    /// Returns the position of a finding in a list: the likeliest defects are first. Errors, stalls
    /// and wrong CPUs precede races. A race that has lost a value precedes others of its kind.
    pub fn rank(&self) -> impl Ord + use<> {
        match self {
            Finding::Race(race) => (1, race.benign, Some(race.kind), !race.lost),
            _ => (0, false, None, false),
        }
    }

    /// Returns whether the finding is that a task with this name does not run.
    fn is_stall_of(&self, name: &str) -> bool {
        match self {
            Finding::Stall { comm, .. } => comm == name,
            Finding::Ended { message, .. } => message.contains(&format!("runnable task stall: {name}[")),
            _ => false,
        }
    }

    /// Returns whether two findings have the same cause, as far as this is known: the same pair of
    /// lines, or the same error, or an error at the same place.
    pub fn same_as(&self, other: &Finding, code: &Code) -> bool {
        match (self, other) {
            (Finding::Race(a), Finding::Race(b)) => {
                let lines = |race: &Race| {
                    let mut pair = [place(code, race.store.pc), place(code, race.other.pc)];
                    pair.sort();
                    pair
                };
                lines(a) == lines(b)
            }
            (Finding::Ended { message: a, places: p }, Finding::Ended { message: b, places: q }) => {
                words(a) == words(b) || (!p.is_empty() && p.first() == q.first())
            }
            (Finding::Stall { .. }, Finding::Stall { .. }) | (Finding::Affinity { .. }, Finding::Affinity { .. }) => {
                true
            }
            _ => false,
        }
    }
}

/// Returns a message without the names of tasks and without numbers, which differ from run to run. The
/// kernel prints a task as `NAME[PID]`.
pub(super) fn words(message: &str) -> String {
    let is_task = |word: &&str| {
        let pid = word.trim_end_matches([',', '.', ')', ':']).strip_suffix(']');
        let pid = pid.and_then(|word| word.rsplit_once('['));
        pid.is_some_and(|(_, pid)| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let others = message.split(' ').filter(|word| !is_task(word));
    let text: Vec<&str> = others.collect();
    text.join(" ").chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Returns `file:line` of an instruction, or its function and index without line information.
pub fn place(code: &Code, pc: usize) -> String {
    match code.line_at(pc) {
        Some(line) => {
            let file = line.file.rsplit('/').next().unwrap_or(&line.file);
            format!("{file}:{}", line.line)
        }
        None => code.describe(pc),
    }
}

/// Returns the source text of an instruction.
pub fn source(code: &Code, pc: usize) -> String {
    code.line_at(pc).map(|line| line.text.to_string()).unwrap_or_default()
}

/// Returns the name of the callback of an access.
pub fn callback(seen: &Seen) -> String {
    named(seen.op)
}

/// Returns the name of a callback, or of BPF code that is no callback.
pub fn named(op: Option<kernel::ext::Callback>) -> String {
    op.map_or_else(|| "timer".to_owned(), |op| format!("ops.{}()", NAMES[op as usize]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_repeats_a_case_has_the_options_of_its_target() {
        let case = crate::explore::case::Space::default().case(1, 2);
        let target = Target {
            flags: true,
            ..Target::new(RunSpec {
                policy: "steal".to_owned(),
                set: vec!["slice_ns=1000".to_owned()],
                profile: vec!["steal.toml".to_owned()],
                kernel: Release::LINUX_7_3,
                ..RunSpec::default()
            })
        };
        let command = target.replay(&case);
        let words = command.strip_prefix("windtunnel explore --replay ");
        let (token, options) = words.and_then(|words| words.split_once(' ')).expect("a token");
        assert_eq!(options, "--set slice_ns=1000 --profile steal.toml --flags");
        assert_eq!(
            Case::from_token(token).expect("a token"),
            ("steal".to_owned(), case, Release::LINUX_7_3)
        );
    }

    #[test]
    fn messages_about_different_tasks_have_the_same_words() {
        let message = |task: &str| format!("SCX_DSQ_LOCAL[_ON] target CPU 1 not allowed for {task}");
        assert_eq!(words(&message("moved0[1]")), words(&message("roamer5_2[19]")));
        assert_ne!(words(&message("moved0[1]")), words("invalid target CPU 3"));
        assert_eq!(words("queue[3] of CPU 7"), "of CPU ");
    }
}
