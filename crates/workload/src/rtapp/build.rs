// SPDX-License-Identifier: GPL-2.0-only
//! Conversion of the tasks of an rt-app file into programs.

use super::disturbances;
use super::event::{self, Context, Event};
use super::file::File;
use super::global::Global;
use super::json::Member;
use super::resources::Resources;
use super::sched::{Name, Sched};
use super::task::{Phase, Task};
use crate::builder::{Builder, Loop};
use crate::check;
use crate::program::{Attributes, Cgroup, Dist, Op, Program, SchedPolicy, TaskKind, Workload};
use crate::task_specs::TaskSpec;
use input::{Error, Position, suggest};
use std::collections::{BTreeMap, BTreeSet};

/// Builds the workload from the sections of a file.
pub fn build(
    file: File,
    global: &Global,
    resources: Resources,
    tasks: &[Task],
    section: Option<&Member>,
) -> Result<Workload, Error> {
    let mut programs = Programs {
        file,
        resources,
        names: tasks.iter().map(|task| task.name).collect(),
        cgroups: vec![root()],
        timer_users: BTreeMap::new(),
        implicit_done: !events(tasks).any(|(event, _)| event == Event::Done),
        signalled: events(tasks)
            .filter_map(|(event, member)| event::signals(event, member))
            .collect(),
    };
    let mut workload = Workload {
        name: stem(file.name).into(),
        unit: if programs.implicit_done { "loops" } else { "requests" }.into(),
        duration_ns: global.duration_ns,
        ..Workload::default()
    };
    let mut positions = Vec::new();
    let mut specs = Vec::new();
    let mut processes = Processes::default();
    // For each task object, the index of its first task.
    let mut firsts = Vec::new();
    for task in tasks {
        let (program, position, spec) = programs.task(global, task, input::index(workload.programs.len()))?;
        workload.programs.push(program);
        positions.push(position);
        let parent = parent(file, task, tasks, &firsts)?;
        let mut spec = spec;
        if parent.is_some() {
            spec.attributes.parent = parent;
        }
        firsts.push(input::index(workload.tasks.len()));
        spec.process = processes.number(file, task)?;
        for instance in 0..task.instances {
            if instance > 0 && task.kthread {
                spec.process = processes.next();
            }
            workload.tasks.push(spec.clone());
        }
        specs.push(spec);
    }
    fork_templates(&mut workload, specs);
    programs.shared_timers(tasks, &workload)?;
    workload.resources = programs.resources.list;
    workload.cgroups = programs.cgroups;
    if let Some(section) = section {
        disturbances::read(file, section, &mut workload)?;
    }
    check::check(&workload).map_err(|finding| {
        let error = Error::at(file.name, finding.message).hint(finding.hint);
        let error = match finding.op {
            Some((program, op)) if waits_for_resume(&workload, program, op) => error.hint(format!(
                "a \"suspend\" waits for a \"resume\" of its own task, whatever its string is: add \"resume\" : \"{}\" \
                 to another task",
                tasks[program].name
            )),
            _ => error,
        };
        match finding.op {
            None => error,
            // An error at the end of the program has no step, so it gets the position of the task.
            Some((program, op)) => match positions.get(program) {
                Some(positions) => error.position(*positions.get(op).unwrap_or(&tasks[program].at)),
                // The error is in a program that was added for a disturbance, which has no
                // position.
                None => error,
            },
        }
    })?;
    Ok(workload)
}

/// Returns whether a step is the wait of a `suspend`: for the condition with the name of the task.
fn waits_for_resume(workload: &Workload, program: usize, op: usize) -> bool {
    let task = workload.tasks.iter().find(|task| task.program as usize == program);
    let op = workload.programs.get(program).and_then(|program| program.ops.get(op));
    let (Some(task), Some(Op::CondWait { cond, .. })) = (task, op) else {
        return false;
    };
    workload.resources[*cond as usize].name() == task.comm
}

/// Numbers of the processes of a file. Process 0 contains all tasks that name no process.
#[derive(Default)]
struct Processes {
    names: BTreeMap<String, u32>,
    last: u32,
}

impl Processes {
    /// Returns the number of a task's process.
    fn number(&mut self, file: File, task: &Task) -> Result<u32, Error> {
        let Some(member) = task.process else {
            return Ok(if task.kthread { self.next() } else { 0 });
        };
        let name = file.name(member)?;
        if let Some(number) = self.names.get(name) {
            return Ok(*number);
        }
        let number = self.next();
        self.names.insert(name.to_owned(), number);
        Ok(number)
    }

    /// Returns the number of a new process.
    fn next(&mut self) -> u32 {
        self.last += 1;
        self.last
    }
}

/// Returns the parent of a task, as an index into the workload's tasks. `firsts` contains the first
/// task of each earlier object.
fn parent(file: File, task: &Task, tasks: &[Task], firsts: &[u32]) -> Result<Option<u32>, Error> {
    let Some(member) = task.parent else { return Ok(None) };
    let name = file.name(member)?;
    let earlier = &tasks[..firsts.len()];
    let Some(at) = earlier.iter().position(|other| other.name == name) else {
        let error = file.error(
            member.node.at,
            format!("the parent \"{name}\" is not an earlier task of the file"),
        );
        let names: Vec<&str> = earlier.iter().map(|other| other.name).collect();
        return Err(match names.is_empty() {
            true => error.hint("move the parent before its children"),
            false => error.hint(suggest::hint(name, &names)),
        });
    };
    if earlier[at].instances == 0 {
        return Err(file
            .error(member.node.at, format!("the parent \"{name}\" is never created"))
            .hint("set \"instance\" of the parent to 1 or more"));
    }
    Ok(Some(firsts[at]))
}

fn root() -> Cgroup {
    Cgroup {
        path: "/".into(),
        weight: 100,
    }
}

fn events<'n>(tasks: &[Task<'n>]) -> impl Iterator<Item = (Event, &'n Member)> {
    tasks.iter().flat_map(|t| &t.phases).flat_map(|p| &p.events).copied()
}

/// Returns the name of a file, without its directory and its extension.
fn stem(name: &str) -> &str {
    let base = name.rsplit('/').next().unwrap_or(name);
    base.strip_suffix(".json").unwrap_or(base)
}

/// Makes forks refer to templates. A template is a copy of one of the file's tasks. The copy is not
/// created at the start, but only by forks.
fn fork_templates(workload: &mut Workload, specs: Vec<TaskSpec>) {
    let forks = workload.programs.iter_mut().flat_map(|p| &mut p.ops);
    let mut templates: BTreeMap<u32, u32> = BTreeMap::new();
    let mut next = input::index(workload.tasks.len());
    for op in forks {
        if let Op::Fork { task, .. } = op {
            *task = *templates.entry(*task).or_insert_with(|| {
                next += 1;
                next - 1
            });
        }
    }
    let mut order: Vec<(u32, u32)> = templates.into_iter().map(|(task, at)| (at, task)).collect();
    order.sort_unstable();
    for (_, task) in order {
        let mut template = specs[task as usize].clone();
        template.spawn = false;
        workload.tasks.push(template);
    }
}

/// State of the conversion of all tasks.
struct Programs<'a> {
    file: File<'a>,
    resources: Resources,
    names: Vec<&'a str>,
    cgroups: Vec<Cgroup>,
    /// For each timer that is not private to a task, the tasks that use it (by index in the file)
    /// and the positions of the uses.
    timer_users: BTreeMap<String, Vec<(usize, Position)>>,
    /// Whether rounds of loops count as operations. This is so if the file has no `done` event.
    implicit_done: bool,
    /// Names of all conditions that some task signals.
    signalled: BTreeSet<&'a str>,
}

/// A program under construction, with the position in the file of each of its steps.
#[derive(Default)]
struct TrackedBuilder {
    builder: Builder,
    positions: Vec<Position>,
}

impl TrackedBuilder {
    fn op(&mut self, op: Op, at: Position) {
        self.builder.op(op);
        self.mark(at);
    }

    fn begin(&mut self, rounds: Option<u64>, at: Position) -> Loop {
        let begun = self.builder.begin_loop(rounds);
        self.mark(at);
        begun
    }

    fn end(&mut self, begun: Loop, at: Position) {
        self.builder.end_loop(begun);
        self.mark(at);
    }

    fn mark(&mut self, at: Position) {
        self.positions.resize(self.builder.len(), at);
    }
}

impl Programs<'_> {
    /// Builds the program of a task. Also returns the positions of its steps and the task's
    /// description.
    fn task(
        &mut self,
        global: &Global,
        task: &Task,
        program: u32,
    ) -> Result<(Program, Vec<Position>, TaskSpec), Error> {
        let timers = self.timers(task, program as usize)?;
        let sched = Sched {
            policy: task.set.sched.policy.or(Some(global.policy)),
            ..task.set.sched
        };
        let policy = sched.resolve(self.file, global.policy)?;
        let policy = policy.unwrap_or(SchedPolicy::Normal { nice: 0 });
        let cgroup = self.cgroup(task.set.taskgroup, Name::from_policy(policy))?;
        // If all phases have the same affinity, the task has this affinity from its creation.
        let affinity = |phase: &Phase| phase.set.cpus.clone().or_else(|| task.set.cpus.clone());
        let first = affinity(&task.phases[0]);
        let steady = task.phases.iter().all(|phase| affinity(phase) == first);

        let mut out = TrackedBuilder::default();
        if task.delay_ns > 0 {
            out.op(Op::Sleep(Dist::Fixed(task.delay_ns)), task.at);
        }
        // A timer counts from the start of its task, not from its first use.
        for timer in 0..input::index(timers.len()) {
            let start = Op::Timer {
                timer,
                period: 0,
                absolute: true,
            };
            out.op(start, task.at);
        }
        let rounds = out.begin(task.rounds, task.at);
        let mut current = Name::from_policy(policy);
        let mut in_group = task.set.taskgroup;
        for (index, phase) in task.phases.iter().enumerate() {
            if task.phases.len() > 1 {
                out.op(Op::Phase(input::index(index)), phase.at);
            }
            if !steady {
                out.op(Op::SetAffinity(affinity(phase)), phase.at);
            }
            if let Some(policy) = phase.set.sched.resolve(self.file, current)? {
                self.unambiguous(task, phase, current)?;
                current = Name::from_policy(policy);
                out.op(Op::SetPolicy(policy), phase.at);
                if let Some(ns) = phase.set.sched.slice(current) {
                    out.op(Op::SetSlice(ns), phase.at);
                }
            } else if let Some((_, runtime)) = phase.set.sched.runtime {
                return Err(self
                    .file
                    .error(
                        runtime.at,
                        "\"dl-runtime\" of a phase needs a \"policy\" or a \"priority\"",
                    )
                    .hint("add \"policy\" : \"SCHED_OTHER\", because rt-app would ignore the key"));
            }
            in_group = phase.set.taskgroup.or(in_group);
            let cgroup = self.cgroup(in_group, current)?;
            if phase.set.taskgroup.is_some() {
                out.op(Op::SetCgroup(cgroup), phase.at);
            }
            let times = out.begin(phase.rounds, phase.at);
            for (event, member) in &phase.events {
                let mut context = Context {
                    file: self.file,
                    resources: &mut self.resources,
                    tasks: &self.names,
                    task: task.name,
                    instances: task.instances,
                    timers: &timers,
                    signalled: &self.signalled,
                };
                for op in event::ops(&mut context, *event, member)? {
                    out.op(op, member.at);
                }
            }
            if self.implicit_done && phase.rounds.is_none() {
                out.op(Op::Done { count: 1 }, phase.at);
            }
            out.end(times, phase.at);
        }
        if self.implicit_done && task.phases.iter().all(|phase| phase.rounds.is_some()) {
            out.op(Op::Done { count: 1 }, task.at);
        }
        out.end(rounds, task.at);

        let built = out.builder.finish();
        let spec = TaskKind {
            comm: task.name.into(),
            program,
            policy,
            cpus: if steady { first } else { task.set.cpus.clone() },
            start_cpu: None,
            start_ns: 0,
            cgroup,
            spawn: true,
            footprint_bytes: task
                .footprint
                .unwrap_or_else(|| footprint(&built, global.mem_buffer_size)),
            touch_mbps: task.touch,
            attributes: Attributes {
                parent: None,
                uid: task.uid,
                kthread: task.kthread,
                timer_slack_ns: task.slack_ns,
                slice_ns: sched.slice(Name::from_policy(policy)),
            },
        }
        .in_process(0);
        Ok((built, out.positions, spec))
    }

    /// Returns the name of each timer of a task, and whether it is absolute. A timer is absolute if
    /// one of its uses has the mode "absolute".
    fn timers(&mut self, task: &Task, index: usize) -> Result<Vec<(String, bool)>, Error> {
        let mut timers: Vec<(String, bool)> = Vec::new();
        for (event, member) in task.phases.iter().flat_map(|phase| &phase.events) {
            if *event != Event::Timer {
                continue;
            }
            let timer = event::timer(self.file, member)?;
            match timers.iter_mut().find(|(name, _)| name == timer.name) {
                Some((_, absolute)) => *absolute |= timer.absolute,
                None => {
                    timers.push((timer.name.into(), timer.absolute));
                    if !timer.name.starts_with("unique") {
                        let users = self.timer_users.entry(timer.name.into()).or_default();
                        users.push((index, timer.at));
                    }
                }
            }
        }
        Ok(timers)
    }

    /// Refuses timers that several tasks share. In rt-app, such tasks change each other's timer.
    /// The simulation cannot reproduce this, because each task has its own timers.
    fn shared_timers(&self, tasks: &[Task], workload: &Workload) -> Result<(), Error> {
        let forked: BTreeSet<u32> = workload.tasks.iter().filter(|t| !t.spawn).map(|t| t.program).collect();
        for (name, users) in &self.timer_users {
            let sole =
                |&(task, _): &(usize, Position)| tasks[task].instances <= 1 && !forked.contains(&input::index(task));
            if let [user] = users.as_slice()
                && sole(user)
            {
                continue;
            }
            let (_, at) = users.iter().find(|user| !sole(user)).unwrap_or(&users[users.len() - 1]);
            return Err(self
                .file
                .error(*at, format!("timer \"{name}\" is shared by several tasks"))
                .hint(format!("\"unique_{name}\" gives each task a timer of its own")));
        }
        Ok(())
    }

    /// Refuses a phase that has a priority but no policy, if the task can have different policies
    /// when it reaches the phase.
    fn unambiguous(&self, task: &Task, phase: &Phase, current: Name) -> Result<(), Error> {
        let Some((_, priority)) = phase.set.sched.priority else {
            return Ok(());
        };
        let last = task.phases.iter().filter_map(|p| p.set.sched.policy).next_back();
        let mut earlier = task.phases.iter().take_while(|p| !std::ptr::eq(*p, phase));
        let set_before = earlier.any(|p| p.set.sched.policy.is_some());
        let own = phase.set.sched.policy.is_some();
        if own || set_before || last.is_none_or(|last| last == current) || task.rounds == Some(1) {
            return Ok(());
        }
        Err(self
            .file
            .error(
                priority.at,
                "\"priority\" needs a \"policy\" here, because the current policy differs between rounds",
            )
            .hint("add the \"policy\""))
    }

    /// Returns the index of a taskgroup's cgroup, or of the root if there is no taskgroup.
    fn cgroup(&mut self, group: Option<&super::json::Member>, policy: Name) -> Result<u32, Error> {
        let Some(member) = group else { return Ok(0) };
        let path = self.file.string(member)?;
        if policy.is_rt() {
            return Err(self
                .file
                .error(member.at, format!("a real-time task cannot be in taskgroup \"{path}\""))
                .hint("groups only divide the time of SCHED_OTHER and SCHED_IDLE tasks; remove the taskgroup"));
        }
        if let Some(index) = self.cgroups.iter().position(|cgroup| cgroup.path == path) {
            return Ok(input::index(index));
        }
        self.cgroups.push(Cgroup {
            path: path.into(),
            ..root()
        });
        Ok(input::index(self.cgroups.len()) - 1)
    }
}

/// Returns the footprint of a task: the largest number of bytes that a `mem` event of the task
/// writes, but at most the size of the buffer. (A longer event writes the same buffer again.)
fn footprint(program: &Program, buffer: u64) -> u64 {
    let written = program.ops.iter().map(|op| match op {
        Op::Mem { bytes } => *bytes,
        _ => 0,
    });
    written.max().unwrap_or(0).min(buffer)
}
