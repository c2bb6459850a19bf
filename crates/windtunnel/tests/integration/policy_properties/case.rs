// SPDX-License-Identifier: GPL-2.0-only
//! Random machines and workloads for the tests of policy properties. Tasks compute, sleep, fork,
//! and change their nice value, class and affinity. At the same time, CPUs go offline and online.

use super::Tested;
use crate::support::policy::{Observed, Tasks, US};
use machine::MachineSpec;
use proptest::prelude::*;
use std::fmt;
use workload::{Dist, Op, SchedPolicy, Workload};

/// Numbers of nodes, of LLCs per node, of cores per LLC, and of threads per core. The shapes
/// include a single CPU, SMT, several LLCs, several nodes, and all of these together.
pub const SHAPES: [[u32; 4]; 10] = [
    [1, 1, 1, 1],
    [1, 1, 2, 1],
    [1, 1, 3, 1],
    [1, 1, 2, 2],
    [1, 2, 2, 1],
    [2, 1, 2, 1],
    [1, 1, 8, 1],
    [1, 2, 2, 2],
    [2, 2, 2, 1],
    [2, 2, 2, 2],
];
/// Time limit in ms. It is much longer than any case needs on one CPU.
const HORIZON_MS: u64 = 10_000;

/// A set of CPUs, with one bit for each CPU. Bits of CPUs that do not exist are ignored. An empty
/// set means all CPUs.
pub type Mask = u16;

#[derive(Clone, Debug)]
pub enum Step {
    RunUs(u64),
    SleepUs(u64),
    /// Sleeps uninterruptibly.
    Io,
    Yield,
    Nice(i32),
    Batch,
    Idle,
    /// Computes as a real-time task, and then returns to the previous scheduling policy.
    RealtimeUs(u64),
    Affinity(Mask),
    /// Forks a task that computes. If `wait` is set, waits for that task.
    Fork {
        us: u64,
        wait: bool,
    },
    Exec,
}

#[derive(Clone, Debug)]
pub struct TaskCase {
    pub nice: i32,
    pub mask: Mask,
    pub start_us: u64,
    pub steps: Vec<Step>,
}

impl TaskCase {
    /// Returns the CPU time in ns for which the task's program computes.
    pub fn work(&self) -> u64 {
        let us = self.steps.iter().map(|step| match step {
            Step::RunUs(us) | Step::RealtimeUs(us) => *us,
            _ => 0,
        });
        us.sum::<u64>() * US
    }

    /// Returns the affinity masks that the task has one after another.
    pub fn masks(&self) -> impl Iterator<Item = Mask> {
        let changes = self.steps.iter().filter_map(|step| match step {
            Step::Affinity(mask) => Some(*mask),
            _ => None,
        });
        std::iter::once(self.mask).chain(changes)
    }
}

/// A hotplug event: a CPU goes offline or online. The event is ignored if the CPU does not exist,
/// or if it is CPU 0, which always stays online.
#[derive(Clone, Debug)]
pub struct Hotplug {
    pub at_us: u64,
    pub cpu: u32,
    pub online: bool,
}

#[derive(Clone)]
pub struct Case {
    pub shape: [u32; 4],
    /// Time at which the policy is loaded. Tasks may exist before.
    pub load_us: u64,
    pub hotplugs: Vec<Hotplug>,
    pub tasks: Vec<TaskCase>,
    pub seed: u64,
}

/// Both formats, `{:?}` and `{:#?}`, print one line for each task.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, seed {}, loaded at {} us", self.shape, self.seed, self.load_us)?;
        for event in &self.hotplugs {
            write!(
                f,
                "\n  CPU {} to online={} at {} us",
                event.cpu, event.online, event.at_us
            )?;
        }
        for (number, task) in self.tasks.iter().enumerate() {
            let (mask, at) = (task.mask, task.start_us);
            write!(
                f,
                "\n  {}: nice {}, CPUs {mask:#b}, from {at} us",
                name(number),
                task.nice
            )?;
            write!(f, ", {}", format_args!("{:?}", task.steps))?;
        }
        Ok(())
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..4000_u64).prop_map(Step::RunUs),
        6 => (1..3000_u64).prop_map(Step::SleepUs),
        1 => Just(Step::Io),
        1 => Just(Step::Yield),
        2 => (-20..20_i32).prop_map(Step::Nice),
        1 => Just(Step::Batch),
        1 => Just(Step::Idle),
        1 => (1..1000_u64).prop_map(Step::RealtimeUs),
        3 => mask().prop_map(Step::Affinity),
        1 => ((1..2000_u64), any::<bool>()).prop_map(|(us, wait)| Step::Fork { us, wait }),
        1 => Just(Step::Exec),
    ]
}

/// Generates a mask of all CPUs, of several CPUs, or of one CPU.
fn mask() -> impl Strategy<Value = Mask> {
    prop_oneof![
        2 => Just(0),
        2 => any::<Mask>(),
        1 => (0..16_u32).prop_map(|cpu| 1 << cpu),
    ]
}

fn task() -> impl Strategy<Value = TaskCase> {
    let nice = prop_oneof![Just(0), -20..20_i32];
    let steps = prop::collection::vec(step(), 1..8);
    (nice, mask(), 0..3000_u64, steps).prop_map(|(nice, mask, start_us, steps)| TaskCase {
        nice,
        mask,
        start_us,
        steps,
    })
}

/// Generates cases with at most `hotplugs` hotplug events.
pub fn cases(hotplugs: usize) -> impl Strategy<Value = Case> {
    let event = (0..8000_u64, 1..16_u32, any::<bool>());
    let event = event.prop_map(|(at_us, cpu, online)| Hotplug { at_us, cpu, online });
    let parts = (
        prop::sample::select(&SHAPES[..]),
        prop_oneof![Just(0), 0..2000_u64],
        prop::collection::vec(event, 0..=hotplugs),
        prop::collection::vec(task(), 1..20),
        any::<u64>(),
    );
    parts.prop_map(|(shape, load_us, mut hotplugs, tasks, seed)| {
        hotplugs.sort_by_key(|event| event.at_us);
        Case {
            shape,
            load_us,
            hotplugs,
            tasks,
            seed,
        }
    })
}

/// Generates cases in which CPUs often idle. A case has few tasks on at least four CPUs. The tasks
/// sleep, change their affinity and preempt each other.
pub fn sparse_cases() -> impl Strategy<Value = Case> {
    let shapes: Vec<_> = SHAPES
        .into_iter()
        .filter(|shape| shape.iter().product::<u32>() >= 4)
        .collect();
    let step = || {
        prop_oneof![
            4 => (100..2000_u64).prop_map(Step::RunUs),
            2 => (1..1000_u64).prop_map(Step::SleepUs),
            2 => (100..1000_u64).prop_map(Step::RealtimeUs),
            4 => mask().prop_map(Step::Affinity),
        ]
    };
    let task = (mask(), 0..1000_u64, prop::collection::vec(step(), 4..12));
    let task = task.prop_map(|(mask, start_us, steps)| TaskCase {
        nice: 0,
        mask,
        start_us,
        steps,
    });
    let parts = (
        prop::sample::select(shapes),
        prop::collection::vec(task, 2..8),
        any::<u64>(),
    );
    parts.prop_map(|(shape, tasks, seed)| Case {
        shape,
        load_us: 0,
        hotplugs: Vec::new(),
        tasks,
        seed,
    })
}

impl Case {
    pub fn nr_cpus(&self) -> u32 {
        self.shape.iter().product()
    }

    /// Returns the CPUs of a mask, or `None` if it means all CPUs.
    pub fn cpus(&self, mask: Mask) -> Option<Vec<u32>> {
        let cpus: Vec<u32> = (0..self.nr_cpus()).filter(|cpu| mask >> cpu & 1 != 0).collect();
        (!cpus.is_empty()).then_some(cpus)
    }

    /// Returns the workload. The task with the number n is called `name(n)`. After each change of
    /// its affinity, the task enters a new phase, which the trace records. The number of the phase
    /// is the new mask.
    fn workload(&self) -> Workload {
        let mut tasks = Tasks::default();
        for (number, case) in self.tasks.iter().enumerate() {
            let cpus = self.cpus(case.mask);
            let mut policy = SchedPolicy::Normal { nice: case.nice };
            let mut ops = Vec::new();
            for step in &case.steps {
                match *step {
                    Step::RunUs(us) => ops.push(Op::Run(Dist::Fixed(us * US))),
                    Step::SleepUs(us) => ops.push(Op::Sleep(Dist::Fixed(us * US))),
                    Step::Io => ops.push(Op::Io { bytes: 4096 }),
                    Step::Yield => ops.push(Op::Yield),
                    Step::Nice(_) | Step::Batch | Step::Idle => {
                        policy = match *step {
                            Step::Nice(nice) => SchedPolicy::Normal { nice },
                            Step::Batch => SchedPolicy::Batch { nice: 0 },
                            _ => SchedPolicy::Idle,
                        };
                        ops.push(Op::SetPolicy(policy));
                    }
                    Step::RealtimeUs(us) => ops.extend([
                        Op::SetPolicy(SchedPolicy::Fifo { rt_priority: 1 }),
                        Op::Run(Dist::Fixed(us * US)),
                        Op::SetPolicy(policy),
                    ]),
                    Step::Affinity(mask) => {
                        ops.extend([Op::SetAffinity(self.cpus(mask)), Op::Phase(u32::from(mask))]);
                    }
                    Step::Fork { us, wait } => {
                        let task = tasks.workload.tasks.len() as u32;
                        tasks = tasks.add("child", vec![Op::Run(Dist::Fixed(us * US))]);
                        tasks = tasks.with(|task| task.spawn = false);
                        ops.push(Op::Fork { task, thread: false });
                        ops.extend(wait.then_some(Op::WaitChildren));
                    }
                    Step::Exec => ops.push(Op::Exec { comm: "new".into() }),
                }
            }
            tasks = tasks.add(&name(number), ops).with(|task| {
                task.policy = SchedPolicy::Normal { nice: case.nice };
                task.cpus = cpus;
                task.start_ns = case.start_us * US;
            });
        }
        tasks.workload
    }

    /// Runs the case under a policy until all tasks have exited.
    pub fn run(&self, policy: &Tested) -> Observed {
        let [nodes, llcs, cores, threads] = self.shape;
        let run = policy.run();
        let run = run.machine(MachineSpec::regular(nodes, llcs, cores, threads));
        let run = run.workload(self.workload()).seed(self.seed).load_at(self.load_us * US);
        let events = self.hotplugs.iter().filter(|event| event.cpu < self.nr_cpus());
        let run = events.fold(run, |run, event| run.hotplug(event.at_us * US, event.cpu, event.online));
        run.for_ms(HORIZON_MS)
    }
}

pub fn name(task: usize) -> String {
    format!("t{task:02}")
}
