// SPDX-License-Identifier: GPL-2.0-only
//! The kernel threads and interrupt sources of the background work (noise), see `programs::noise`.

use crate::layout::{PF_KTHREAD, PF_WQ_WORKER};
use crate::simulation::rng::Rng;
use machine::MachineSpec;
use machine::noise::{ACTIVITIES, Activity, Scope};
use workload::{Dist, Op, Program, SchedPolicy, TaskSpec, Workload};

/// Makes the random generator of the background work differ from that of the machine, whose seed
/// is the seed of the run.
const SEED: u64 = 0x6e6f_6973_6500_0000;

/// The background work of a machine.
pub struct Noise {
    /// Index of the first task of the background work in the workload's list of tasks. All later
    /// tasks are also background work.
    first: u32,
    /// Number of tasks of the background work that will be created or that exist.
    pub nr_tasks: u32,
    /// Random generators of the tasks in their initial state.
    rngs: Vec<Rng>,
    pub(crate) interrupts: Vec<Interrupts>,
}

/// A source of interrupts at one CPU.
pub(crate) struct Interrupts {
    pub(crate) cpu: u32,
    pub(crate) interval: Dist,
    pub(crate) length: Dist,
    pub(crate) rng: Rng,
}

impl Noise {
    /// Adds the tasks of the background work to `workload`. Does nothing if the machine has no
    /// background work.
    pub fn new(spec: &MachineSpec, workload: &mut Workload, seed: u64) -> Noise {
        let mut noise = Noise {
            first: workload.tasks.len() as u32,
            nr_tasks: 0,
            rngs: Vec::new(),
            interrupts: Vec::new(),
        };
        let Some(level) = spec.noise else { return noise };
        let nr_cpus = spec.topology.nr_cpus();
        let mut seeds = Rng::new(seed ^ SEED);
        for (number, activity) in (0..).zip(&ACTIVITIES) {
            // The number in the name, the first CPU, and the CPUs of each copy of the activity.
            let places: Vec<(u32, u32, u64)> = match activity.scope {
                Scope::Cpu => (0..nr_cpus).map(|cpu| (cpu, cpu, 1)).collect(),
                Scope::Llc => (0..)
                    .zip(&spec.topology.llcs)
                    .map(|(llc, cpus)| (llc, cpus[0], cpus.len() as u64))
                    .collect(),
                // Devices and tasks are distributed over the CPUs.
                Scope::Machine => vec![(0, number % nr_cpus, 1)],
            };
            for (name, cpu, cpus) in places {
                let Some(mean) = activity.interval_ns(level, cpus) else {
                    continue;
                };
                let interval = Dist::Exponential { mean };
                let rng = Rng::new(seeds.next_u64());
                if activity.interrupt {
                    noise.interrupts.push(Interrupts {
                        cpu,
                        interval,
                        length: Dist::Exponential {
                            mean: activity.mean_ns.into(),
                        },
                        rng,
                    });
                } else {
                    add_task(workload, activity, name, cpu, interval);
                    noise.rngs.push(rng);
                    noise.nr_tasks += 1;
                }
            }
        }
        noise
    }

    /// Returns whether a task of the workload's list is background work.
    pub fn contains(&self, index: u32) -> bool {
        index >= self.first
    }

    /// Returns the PF_* flags of a new task with the name `comm`. They are 0 if the task is not
    /// background work.
    pub fn flags(&self, index: u32, comm: &str) -> u32 {
        match (self.contains(index), comm.starts_with("kworker")) {
            (false, _) => 0,
            (true, false) => PF_KTHREAD,
            (true, true) => PF_KTHREAD | PF_WQ_WORKER,
        }
    }

    /// Returns the random generator of a task, or `None` if the task is not background work.
    pub fn rng(&self, index: u32) -> Option<Rng> {
        let number = index.checked_sub(self.first)?;
        self.rngs.get(number as usize).cloned()
    }
}

/// Adds a kernel thread. It sleeps, works, and so on. The length of its work does not delay the
/// following intervals.
fn add_task(workload: &mut Workload, activity: &Activity, number: u32, cpu: u32, interval: Dist) {
    let ops = vec![
        Op::Interval {
            timer: 0,
            length: interval,
        },
        Op::Run(Dist::Exponential {
            mean: activity.mean_ns.into(),
        }),
        Op::LoopBack {
            counter: 0,
            times: None,
            target: 0,
        },
    ];
    let program = workload.programs.len() as u32;
    workload.programs.push(Program { ops, counters: 1 });
    let number = number.to_string();
    let process = workload.tasks.iter().map(|task| task.process).max();
    let comm = activity.name.replace("{cpu}", &number).replace("{pool}", &number);
    let mut task = TaskSpec::new(comm, program, process.map_or(0, |process| process + 1));
    task.policy = SchedPolicy::Normal { nice: activity.nice };
    task.cpus = (activity.scope == Scope::Cpu).then(|| vec![cpu]);
    task.start_cpu = Some(cpu);
    workload.tasks.push(task);
}
