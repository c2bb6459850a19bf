// SPDX-License-Identifier: GPL-2.0-only
//! Executes a case of a suite, step by step.

use super::definition::Case;
use super::step::{Relation, Step};
use crate::explore::case::Load;
use crate::explore::observe::{STALL_NS, Target};
use crate::explore::{self, text};
use bpf::engine::Engine;
use bpf::link::Image;
use bpf::object::Object;
use input::{Error, duration};
use kernel::Machine;
use kernel::cpuset::CpuSet;
use kernel::ext::{self, EnableState, ExitKind, PreparedPolicy};
use kernel::load::{self, InputError, LoadError};
use kernel::task::State;
use kernel::user_space;
use profile::{Profile, Properties, Run};
use runner::inputs::Inputs;
use runner::spec::RunSpec;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trace::Tee;

/// Simulated time in ns for which the machine runs after a hotplug event. If the event ends the
/// policy, the kernel disables the policy within this time.
const HOTPLUG_NS: u64 = 1_000_000;

impl Case {
    /// Executes the steps of the case. The object is read from the directory `objects`. All steps
    /// together may take `max_ns` of simulated time.
    ///
    /// # Errors
    /// A message that names the step that failed, and the actual value or state.
    pub fn run(&self, objects: &Path, engine: Engine, max_ns: u64) -> Result<(), Error> {
        let path = objects.join(format!("{}.bpf.o", self.object));
        let object = Object::open(&path).map_err(Error::new)?;
        let machine = self.machine().map_err(Error::new)?;
        let mut running = Running {
            case: self,
            path,
            object: Object::clone(&object),
            profile: self.profile.clone(),
            machine,
            image: None,
            engine,
            max_ns,
            left_ns: max_ns,
            since: BTreeMap::new(),
            cpu_since: BTreeMap::new(),
        };
        running.reopen(&object)?;
        for (number, (text, step)) in self.steps.iter().enumerate() {
            running
                .step(step, &object)
                .map_err(|message| format!("step {} '{text}': {message}", number + 1))?;
        }
        Ok(())
    }

    /// Creates the machine on which the steps run.
    fn machine(&self) -> Result<Machine, Error> {
        let machine = Inputs::default().machine(&self.spec)?;
        self.spec.boot(machine, self.workload.clone())
    }
}

/// State of a case between two steps.
struct Running<'a> {
    case: &'a Case,
    path: PathBuf,
    /// The object, with the values of the `set` steps.
    object: Object,
    profile: Profile,
    machine: Machine,
    /// The linked object of the latest `open` or `load` step.
    image: Option<Image>,
    engine: Engine,
    /// Maximum simulated time of the case, in ns.
    max_ns: u64,
    /// Simulated time that the remaining steps may take, in ns.
    left_ns: u64,
    /// Values of globals at the latest `remember` step.
    since: BTreeMap<String, i128>,
    /// CPU time of tasks at the latest `remember` step, in ns.
    cpu_since: BTreeMap<u32, u64>,
}

impl Running<'_> {
    fn step(&mut self, step: &Step, object: &Object) -> Result<(), Error> {
        match step {
            Step::Reopen => self.reopen(object),
            Step::Set { name, value } => self.set(name, value),
            Step::Ops { member, value } => {
                self.profile.ops.retain(|(known, _)| known != member);
                self.profile.ops.push((member.clone(), value.clone()));
                Ok(())
            }
            Step::Open => self.open().map(drop).map_err(Error::new),
            Step::Refused { text } => self.refused(text),
            Step::Load => self.load(),
            Step::Program { name, args } => self.program(name, args),
            Step::Run { ns } => self.advance(*ns),
            Step::Hammer {
                task,
                every_ns,
                ns,
                cpus,
            } => self.hammer(task, *every_ns, *ns, (*cpus).clamp(1, self.machine.nr_cpus())),
            Step::Hotplug { cpu, online } => {
                if *cpu >= self.machine.nr_cpus() {
                    return Err(Error::new(format!("the machine has no CPU {cpu}")));
                }
                self.machine.plan_hotplug(self.machine.now, *cpu, *online);
                self.advance(HOTPLUG_NS)
            }
            Step::Explored { seed, ns, holds } => self.explored(*seed, *ns, holds),
            Step::Unload => {
                ext::unload(&mut self.machine);
                Ok(())
            }
            Step::Loaded => match self.machine.ext().state {
                EnableState::Enabled => Ok(()),
                state => Err(Error::new(format!("the policy is {state:?}{}", self.exit_text()))),
            },
            Step::Exit { kind, code, message } => self.exit(kind, code.as_deref(), message.as_deref()),
            Step::Remember => self.remember(),
            Step::Expect { left, relation, right } => self.expect(left, *relation, right),
        }
    }

    fn reopen(&mut self, object: &Object) -> Result<(), Error> {
        self.object = object.clone();
        self.image = None;
        self.profile = self.case.profile.clone();
        self.since.clear();
        self.profile
            .apply(
                &mut self.object,
                Properties::new(self.machine.spec(), &self.case.spec.kernel),
            )
            .map_err(Error::new)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let value = Properties::new(self.machine.spec(), &self.case.spec.kernel)
            .value(value)
            .map_err(Error::new)?
            .to_string();
        let result = match &self.image {
            Some(image) => image.set(self.machine.region(), name, &value),
            None => self.object.set(name, &value),
        };
        result.map_err(Error::new)
    }

    fn open(&mut self) -> Result<PreparedPolicy, LoadError> {
        let left = self.image.take().map(|image| live_bytes(&self.machine, &image));
        let (image, policy) = load::open(&self.machine, &self.object, &self.profile, self.engine)?;
        for (addr, bytes) in live_addresses(&image).into_iter().zip(left.into_iter().flatten()) {
            let written = self.machine.region().write(addr, &bytes);
            written.map_err(InputError::Memory)?;
        }
        self.image = Some(image);
        Ok(policy)
    }

    fn refused(&mut self, text: &str) -> Result<(), Error> {
        let refused = match self.open() {
            Err(error) => refusal(error)?,
            Ok(policy) => {
                let image = self.image.clone().expect("open() has set the image");
                match load::attach(&mut self.machine, &image, policy, &self.profile) {
                    Err(error) => refusal(error)?,
                    Ok(()) => return Err("the object loads".into()),
                }
            }
        };
        if refused.contains(text) {
            return Ok(());
        }
        Err(Error::new(format!(
            "the object is refused with the message '{refused}'"
        )))
    }

    fn load(&mut self) -> Result<(), Error> {
        let policy = self.open().map_err(Error::new)?;
        let image = self.image.as_ref().expect("open() has set the image");
        match load::attach(&mut self.machine, image, policy, &self.profile) {
            Ok(()) => Ok(()),
            // The policy ended itself while it was being enabled. In the kernel, loading succeeds
            // in this case, and the exit is reported afterwards.
            Err(LoadError::Refused(_)) if self.machine.ext().exit.is_some() => Ok(()),
            Err(error) => Err(Error::new(error)),
        }
    }

    fn program(&mut self, name: &str, args: &[String]) -> Result<(), Error> {
        let image = self.image.as_ref().ok_or("no policy was loaded")?;
        let program = image.programs.iter().find(|program| program.name == name);
        let program = program.ok_or("there is no such program")?.clone();
        let args = args.iter().map(|arg| match arg.strip_prefix("pid:") {
            Some(comm) => {
                let pid = self.tasks(comm).next().map(|(pid, _)| pid.to_string().as_str().into());
                pid.ok_or_else(|| Error::new(format!("there is no task '{comm}'")))
            }
            None => Ok(arg.as_str().into()),
        });
        let run = Run {
            program: name.to_owned(),
            args: args.collect::<Result<_, Error>>()?,
            ..Run::default()
        };
        let done = user_space::run_program(&mut self.machine, &program, &run);
        done.map(drop).map_err(Error::new)
    }

    /// Executes a run of its own, in which callbacks overlap.
    ///
    /// # Errors
    /// The run shows a race, a stall or an error. The message is the first line of the finding.
    fn explored(&mut self, seed: u64, ns: u64, holds: &[(u64, u64)]) -> Result<(), Error> {
        if self.case.has_profile {
            return Err("the step uses the profile that belongs to the object: leave out the key 'profile'".into());
        }
        self.spend(ns)?;
        let spec = RunSpec {
            policy: self.path.display().to_string(),
            kernel: self.case.spec.kernel,
            ..RunSpec::default()
        };
        let case = explore::case::Case {
            machine: self.case.spec.machine.clone().unwrap_or_default(),
            load: Load::Named(String::new()),
            seed,
            for_ns: ns,
            holds: holds.to_vec(),
            stall_ns: STALL_NS,
        };
        let workload = self.case.workload.clone();
        let observed = Target::new(spec).observe_workload(&case, Some(workload), false);
        let observed = observed.map_err(Error::new)?;
        match observed.findings.first() {
            None => Ok(()),
            Some(finding) => {
                let text = text::finding(finding, &observed.code);
                Err(Error::new(text.lines().next().unwrap_or_default()))
            }
        }
    }

    fn hammer(&mut self, comm: &str, every_ns: u64, ns: u64, cpus: u32) -> Result<(), Error> {
        let pids: Vec<u32> = self.tasks(comm).map(|(pid, _)| pid).collect();
        if pids.is_empty() {
            return Err(Error::new(format!("there is no task '{comm}'")));
        }
        let turns = (0..cpus)
            .cycle()
            .flat_map(|cpu| pids.iter().map(move |&pid| (pid, cpu)));
        for (_, (pid, cpu)) in (0..ns / every_ns).zip(turns) {
            let only = CpuSet::from_cpus(self.machine.nr_cpus(), &[cpu]);
            self.machine.sched_setaffinity(pid, only);
            self.advance(every_ns)?;
        }
        Ok(())
    }

    /// Takes `ns` from the simulated time that the case may still use.
    fn spend(&mut self, ns: u64) -> Result<(), Error> {
        self.left_ns = self.left_ns.checked_sub(ns).ok_or_else(|| {
            let max = duration::format(self.max_ns);
            format!("the case exceeds {max} of simulated time; --max-time changes the limit")
        })?;
        Ok(())
    }

    /// Runs the machine for `ns` of simulated time.
    ///
    /// # Errors
    /// The time limit of the case would be exceeded.
    fn advance(&mut self, ns: u64) -> Result<(), Error> {
        self.spend(ns)?;
        let until = self.machine.now + ns;
        while self.machine.now < until {
            let before = self.machine.now;
            let ended = self.machine.advance(until, &mut Tee::new());
            if ended.is_none() {
                // No event is left before `until`.
                self.machine.now = until;
            } else if self.machine.now == before {
                break;
            }
        }
        Ok(())
    }

    /// Returns the exit record of the policy in parentheses, to be appended to an error message. If
    /// no policy has ended, the text is empty.
    fn exit_text(&self) -> String {
        match &self.machine.ext().exit {
            Some(exit) => format!(
                " ({}: {} {})",
                exit.kind.name(),
                exit.message,
                exit.backtrace.join(" < ")
            ),
            None => String::new(),
        }
    }

    fn exit(&self, kind: &str, code: Option<&str>, message: Option<&str>) -> Result<(), Error> {
        if self.machine.ext().state != EnableState::Disabled {
            return Err(Error::new(format!("the policy is {:?}", self.machine.ext().state)));
        }
        let exit = self.machine.ext().exit.as_ref().ok_or("no policy has ended")?;
        if exit.kind.name() != kind {
            return Err(Error::new(format!(
                "the policy ended in another way{}",
                self.exit_text()
            )));
        }
        if let Some(code) = code {
            let expected = self.value(code)?;
            if expected != i128::from(exit.code) {
                return Err(Error::new(format!("the exit code is {}, not {expected}", exit.code)));
            }
        }
        match message {
            Some(message) if message != exit.message => {
                Err(Error::new(format!("the exit message is '{}'", exit.message)))
            }
            _ => Ok(()),
        }
    }

    fn remember(&mut self) -> Result<(), Error> {
        self.since.clear();
        if let Some(image) = &self.image {
            for variable in image.variables().iter().filter(|variable| variable.live) {
                if let Ok(value) = self.global(&variable.name) {
                    self.since.insert(variable.name.clone(), value);
                }
            }
        }
        self.cpu_since = self
            .machine
            .tasks()
            .iter()
            .map(|task| (task.pid(), task.sum_exec_runtime()))
            .collect();
        Ok(())
    }

    fn global(&self, path: &str) -> Result<i128, Error> {
        let text = match &self.image {
            Some(image) => image.get(self.machine.region(), path),
            None => self.object.get(path),
        };
        let text = text.map_err(Error::new)?;
        match text.as_str() {
            "true" => Ok(1),
            "false" => Ok(0),
            text => text
                .parse()
                .map_err(|_| Error::new(format!("{path} is {text}, which is not a number"))),
        }
    }

    /// Returns the pid and the CPU time of each live task that is called `comm`, `comm-0`, `comm-1`
    /// and so on.
    fn tasks<'a>(&'a self, comm: &'a str) -> impl Iterator<Item = (u32, u64)> + 'a {
        let called = move |name: &str| {
            let rest = name.strip_prefix(comm);
            rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(|n| n.parse::<u32>().is_ok()))
        };
        let live = self.machine.tasks().iter().filter(|task| task.state() != State::Dead);
        live.filter(move |task| called(&task.comm()))
            .map(|task| (task.pid(), task.sum_exec_runtime()))
    }

    fn value(&self, text: &str) -> Result<i128, Error> {
        let mut product: i128 = 1;
        for factor in text.split('*') {
            let multiplied = product.checked_mul(self.factor(factor)?);
            product = multiplied.ok_or_else(|| format!("{text} does not fit in 128 bits"))?;
        }
        Ok(product)
    }

    fn factor(&self, text: &str) -> Result<i128, Error> {
        if let Some(name) = text.strip_prefix('+') {
            return Ok(self.global(name)? - self.since.get(name).copied().unwrap_or(0));
        }
        if let Some(comm) = text.strip_prefix("cpu:") {
            let used = |(pid, ns): (u32, u64)| i128::from(ns - self.cpu_since.get(&pid).copied().unwrap_or(0));
            return Ok(self.tasks(comm).map(used).sum());
        }
        match Properties::new(self.machine.spec(), &self.case.spec.kernel).value(text) {
            Ok(value) => Ok(value.into()),
            Err(_) => self.global(text),
        }
    }

    fn expect(&self, left: &str, relation: Relation, right: &str) -> Result<(), Error> {
        let (a, b) = (self.value(left)?, self.value(right)?);
        if relation.holds(a, b) {
            return Ok(());
        }
        Err(Error::new(format!("{left} is {a}, {right} is {b}{}", self.exit_text())))
    }
}

/// Returns the reason why an object was refused before any of its code ran.
///
/// # Errors
/// The policy failed later, while it was being enabled.
fn refusal(error: LoadError) -> Result<String, Error> {
    match error {
        LoadError::Input(error) => Ok(error.to_string()),
        LoadError::Refused(exit) if exit.kind == ExitKind::None => Ok(exit.message),
        LoadError::Refused(exit) => Err(Error::new(format!(
            "the policy was loaded and failed while it was being enabled: {exit}"
        ))),
    }
}

/// Returns the addresses of the sections that contain writable globals, in order.
fn live_addresses(image: &Image) -> Vec<u64> {
    let live = image.sections.iter().filter(|section| section.live);
    live.map(|section| section.addr).collect()
}

/// Returns the contents of the sections that contain writable globals. Fields that belong to the
/// kernel (locks, timers, kptrs) are set to 0.
fn live_bytes(machine: &Machine, image: &Image) -> Vec<Vec<u8>> {
    let live = image.sections.iter().filter(|section| section.live);
    live.map(|section| {
        let bytes = machine.region().bytes(section.addr, section.size);
        let mut bytes = bytes.map_or(Vec::new(), bpf::memory::Bytes::into_vec);
        for field in &section.fields {
            let (start, end) = (field.offset as usize, (field.offset + field.size) as usize);
            bytes[start..end].fill(0);
        }
        bytes
    })
    .collect()
}
