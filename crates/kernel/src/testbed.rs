// SPDX-License-Identifier: GPL-2.0-only
//! Small machines, workloads and measurements for the unit tests of this crate.

use crate::machine::Machine;
use crate::sched::state::task::State;
use crate::simulation::id::{CpuId, TaskId};
use crate::simulation::table::Id;
use machine::MachineSpec;
use trace::{Event, Record};
use workload::{Action, Dist, Disturbance, Op, Program, TaskSpec, Workload};

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

/// Lets tests compare a CPU with a plain number.
impl PartialEq<u32> for CpuId {
    fn eq(&self, other: &u32) -> bool {
        self.nr() == *other
    }
}

pub(crate) fn cpu_id(nr: u32) -> CpuId {
    CpuId::new(nr as usize)
}

/// Returns a machine with `nodes` nodes, `llcs` LLCs per node, `cores` cores per LLC and `threads`
/// threads per core.
pub fn spec(nodes: u32, llcs: u32, cores: u32, threads: u32) -> MachineSpec {
    MachineSpec::regular(nodes, llcs, cores, threads)
}

/// Returns `spec` with all costs of kernel work set to zero.
pub fn free(spec: MachineSpec) -> MachineSpec {
    spec.free()
}

/// Returns a program that computes forever without sleeping.
pub fn hog() -> Vec<Op> {
    vec![
        Op::Run(Dist::Fixed(100 * US)),
        Op::LoopBack {
            counter: 0,
            times: None,
            target: 0,
        },
    ]
}

/// Returns a program that alternates forever between computing for `run` ns and sleeping for
/// `sleep` ns.
pub fn sleeper(run: u64, sleep: u64) -> Vec<Op> {
    vec![
        Op::Run(Dist::Fixed(run)),
        Op::Sleep(Dist::Fixed(sleep)),
        Op::LoopBack {
            counter: 0,
            times: None,
            target: 0,
        },
    ]
}

/// A workload under construction.
#[derive(Default)]
pub struct Bed {
    workload: Workload,
}

impl Bed {
    /// Adds a task with nice 0 that starts on CPU `cpu`. Returns the task's specification, so that
    /// the caller can change it.
    pub fn task(&mut self, cpu: u32, ops: Vec<Op>) -> &mut TaskSpec {
        let number = self.workload.tasks.len() as u32;
        self.workload.programs.push(Program { ops, counters: 2 });
        let mut task = TaskSpec::new(format!("t{number}"), number, number);
        task.start_cpu = Some(cpu);
        self.workload.tasks.push(task);
        self.workload.tasks.last_mut().expect("a task was pushed just now")
    }

    /// Adds a task that may run only on CPU `cpu`.
    pub fn pinned(&mut self, cpu: u32, ops: Vec<Op>) -> &mut TaskSpec {
        let task = self.task(cpu, ops);
        task.cpus = Some(vec![cpu]);
        task
    }

    /// Adds a cgroup whose cpu.weight is `weight`. Returns the number of the cgroup. The first call
    /// also adds the root cgroup.
    pub fn cgroup(&mut self, path: &str, weight: u32) -> u32 {
        let cgroups = &mut self.workload.cgroups;
        let named = |path: &str, weight| workload::Cgroup {
            path: path.into(),
            weight,
        };
        if cgroups.is_empty() {
            cgroups.push(named("/", 100));
        }
        cgroups.push(named(path, weight));
        cgroups.len() as u32 - 1
    }

    /// Adds a semaphore with the value 0. Returns its number.
    pub fn semaphore(&mut self) -> u32 {
        let resources = &mut self.workload.resources;
        let name = format!("s{}", resources.len());
        resources.push(workload::Resource::Semaphore { name, value: 0 });
        resources.len() as u32 - 1
    }

    /// Adds a disturbance (such as CPU hotplug) that takes place `at_ns` after the start of the
    /// run.
    pub fn disturb(&mut self, at_ns: u64, action: Action) {
        self.workload.disturbances.push(Disturbance { at_ns, action });
    }

    /// Makes the workload the replay of a recording.
    pub fn replay(&mut self) {
        self.workload.recorded_on = Some(workload::RecordedMachine::default());
    }

    pub fn machine(self, spec: MachineSpec) -> Machine {
        Machine::new(spec, self.workload, 1).expect("the workload and the machine of the test are valid")
    }

    /// Runs the workload until the time `until` (ns). Returns the machine and all trace records.
    pub fn run(self, spec: MachineSpec, until: u64) -> (Machine, Vec<Record>) {
        let mut m = self.machine(spec);
        let mut records = Vec::new();
        m.run(until, &mut records);
        (m, records)
    }
}

/// Returns the slot of task number `n` of the workload, counted from 0. This is correct if all
/// tasks start at the same time and none exits.
pub(crate) fn nth(n: u32) -> TaskId {
    TaskId::new(n as usize)
}

/// Returns the CPU time that task number `n` of the workload has used, in ns.
pub fn used(m: &Machine, n: u32) -> u64 {
    m.tasks[nth(n)].sum_exec_runtime()
}

/// Returns the wake-up latencies of a task: the times from each wake-up until the task runs, in ns.
pub fn latencies(records: &[Record], pid: u32) -> Vec<u64> {
    let mut woken = None;
    let mut found = Vec::new();
    for record in records {
        match record.event {
            Event::Waking { pid: p, .. } if p == pid => woken = Some(record.time),
            Event::Switch { next, .. } if next == pid => found.extend(woken.take().map(|at| record.time - at)),
            _ => {}
        }
    }
    found
}

/// Returns the time at which each of the first `nr` tasks exited, ns.
pub fn exits(records: &[Record], nr: u32) -> Vec<u64> {
    let exit = |pid| {
        let last = records
            .iter()
            .rev()
            .find(|r| matches!(r.event, Event::Switch { prev, .. } if prev == pid));
        last.expect("the task has left its CPU").time
    };
    (1..=nr).map(exit).collect()
}

/// Returns the lengths of the periods in which the task ran without interruption, in ns. A period
/// lasts from a switch to the task until the next switch to another task.
pub fn stretches(records: &[Record], pid: u32) -> Vec<u64> {
    let mut since = None;
    let mut found = Vec::new();
    for record in records {
        if let Event::Switch { prev, next, .. } = record.event {
            if prev == pid {
                found.extend(since.take().map(|at| record.time - at));
            }
            if next == pid {
                since = Some(record.time);
            }
        }
    }
    found
}

/// Returns the number of runnable tasks on each CPU.
pub fn queued(m: &Machine) -> Vec<usize> {
    let on = |cpu| {
        m.tasks
            .iter()
            .filter(|t| t.state() == State::Running && t.on_rq() && t.cpu() == cpu)
            .count()
    };
    m.cpus().map(on).collect()
}
