// SPDX-License-Identifier: GPL-2.0-only
//! Runs policies under workloads that a test defines. Reads schedules, latencies and the policy's
//! counters from the run. For example, two hogs take turns of 5 ms on one CPU:
//!
//! ```text
//! let tasks = Tasks::default().add_many(2, "hog", &hog());
//! let ran = Run::new("rr").set("slice_ns", 5 * MS).tasks(tasks).for_ms(100);
//! assert_eq!(ran.stints()[1].from, 5 * MS);
//! ```

use bpf::engine::Engine;
use bpf::link::Image;
use bpf::object::Object;
use kernel::Machine;
use kernel::task::Task;
use machine::MachineSpec;
use std::collections::BTreeSet;
use trace::{Event, Record};
use workload::{Dist, Op, Workload};

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;

/// Returns a machine with `cpus` cores of one thread each, which share one LLC. It has 1000 ticks
/// per second and the default costs.
pub fn costly(cpus: u32) -> MachineSpec {
    MachineSpec::smp(cpus)
}

/// Returns a machine with `cpus` cores of one thread each, of which `per_llc` share an LLC. Each
/// LLC is a package and a node of its own.
pub fn grouped(cpus: u32, per_llc: u32) -> MachineSpec {
    MachineSpec::regular(cpus / per_llc, 1, per_llc, 1)
}

/// Returns the machine of [`costly`], but the work of the kernel takes no time.
pub fn free(cpus: u32) -> MachineSpec {
    costly(cpus).free()
}

pub use workload::Tasks;

pub fn run(ns: u64) -> Op {
    Op::Run(Dist::Fixed(ns))
}

pub fn sleep(ns: u64) -> Op {
    Op::Sleep(Dist::Fixed(ns))
}

/// Returns a program that repeats `ops` without end.
pub fn forever(mut ops: Vec<Op>) -> Vec<Op> {
    ops.push(Op::LoopBack {
        counter: 0,
        times: None,
        target: 0,
    });
    ops
}

/// Returns a program that computes without end.
pub fn hog() -> Vec<Op> {
    forever(vec![run(MS)])
}

/// Returns the workload that a generator makes. `spec` is the generator's name with its parameters,
/// such as `closed:n=6,compute=1ms`.
pub fn generated(spec: &str) -> Workload {
    workload::load(spec, &[]).expect("the workload is valid")
}

/// A run of a policy, to be configured and started.
pub struct Run {
    policy: Option<String>,
    settings: Vec<(String, String)>,
    divisors: Vec<(String, u64)>,
    changes: Vec<(u64, String, String)>,
    hotplugs: Vec<(u64, u32, bool)>,
    load_at: u64,
    migration_disabled: Vec<String>,
    machine: MachineSpec,
    workload: Workload,
    seed: u64,
}

impl Run {
    /// Runs a policy on one CPU, where the work of the kernel and the policy takes no time.
    /// `policy` is a name for `policies/NAME.bpf.c`, or a path without `.bpf.c`.
    pub fn new(policy: &str) -> Run {
        Run {
            policy: Some(policy.into()),
            ..Run::fair()
        }
    }

    /// Runs the kernel's fair class on one CPU, where the work of the kernel takes no time.
    pub fn fair() -> Run {
        Run {
            policy: None,
            settings: Vec::new(),
            divisors: Vec::new(),
            changes: Vec::new(),
            hotplugs: Vec::new(),
            load_at: 0,
            migration_disabled: Vec::new(),
            machine: free(1),
            workload: Workload::default(),
            seed: 1,
        }
    }

    pub fn set(mut self, name: &str, value: impl ToString) -> Run {
        self.settings.push((name.into(), value.to_string()));
        self
    }

    /// Sets a parameter to a fraction of its default.
    pub fn divide(mut self, name: &str, divisor: u64) -> Run {
        self.divisors.push((name.into(), divisor));
        self
    }

    /// Changes a parameter while the policy runs.
    pub fn change(mut self, at_ns: u64, name: &str, value: impl ToString) -> Run {
        self.changes.push((at_ns, name.into(), value.to_string()));
        self
    }

    /// Takes a CPU offline or online at a time. Calls must be in order of time.
    pub fn hotplug(mut self, at_ns: u64, cpu: u32, online: bool) -> Run {
        self.hotplugs.push((at_ns, cpu, online));
        self
    }

    /// Loads the policy at this time instead of at the start.
    pub fn load_at(mut self, at_ns: u64) -> Run {
        self.load_at = at_ns;
        self
    }

    /// From the loading of the policy on, the tasks called `comm` have migration disabled, as after
    /// migrate_disable(). The sched_ext core puts such a task on its CPU's local DSQ without calling
    /// ops.enqueue().
    pub fn migration_disabled(mut self, comm: &str) -> Run {
        self.migration_disabled.push(comm.into());
        self
    }

    pub fn machine(mut self, spec: MachineSpec) -> Run {
        self.machine = spec;
        self
    }

    /// Uses a machine from the directory `machines`.
    pub fn on(self, name: &str) -> Run {
        self.machine(machine::load(name, &[]).expect("the machine is known"))
    }

    pub fn tasks(mut self, tasks: Tasks) -> Run {
        self.workload = tasks.workload;
        self
    }

    pub fn workload(mut self, workload: Workload) -> Run {
        self.workload = workload;
        self
    }

    pub fn seed(mut self, seed: u64) -> Run {
        self.seed = seed;
        self
    }

    /// Runs until the time `until` in ns. Panics if the policy fails before.
    pub fn for_ns(self, until: u64) -> Observed {
        // Profiles (files that replace the user-space parts of policies) are searched in the
        // current directory.
        std::env::set_current_dir(super::root()).expect("the repository's directory exists");
        let policy = self.policy.as_ref().map(|name| {
            let source = if name.contains('/') {
                format!("{name}.bpf.c")
            } else {
                format!("policies/{name}.bpf.c")
            };
            let path = super::object(&source);
            let bytes = std::fs::read(&path).expect("the object file exists");
            let mut object = Object::parse(&bytes, name).expect("the object can be parsed");
            let profile = runner::profiles::find(name, &path).expect("the profile can be read");
            profile
                .apply(
                    &mut object,
                    profile::Properties::new(&self.machine, &kernel::release::Release::MODELLED),
                )
                .expect("the profile matches the object");
            for (name, divisor) in &self.divisors {
                let default: u64 = object
                    .get(name)
                    .expect("the policy has this parameter")
                    .parse()
                    .expect("the text is a number");
                object
                    .set(name, &(default / divisor).to_string())
                    .expect("the parameter accepts the value");
            }
            for (name, value) in &self.settings {
                object
                    .set(name, value)
                    .unwrap_or_else(|error| panic!("{name}={value}: {error}"));
            }
            (object, profile)
        });
        let mut machine =
            Machine::new(self.machine, self.workload, self.seed).expect("the machine can run the workload");
        for &(at, cpu, online) in &self.hotplugs {
            machine.plan_hotplug(at, cpu, online);
        }
        let mut records = Vec::new();
        if self.load_at > 0 {
            machine.advance(self.load_at, &mut records);
        }
        let stay = |task: &&Task| self.migration_disabled.contains(&task.comm());
        let stay: Vec<u32> = machine.tasks().iter().filter(stay).map(Task::pid).collect();
        for pid in stay {
            machine.set_migration_disabled(pid, 1);
        }
        let image = policy
            .as_ref()
            .map(|(object, profile)| kernel::load::load(&mut machine, object, profile, Engine::default()))
            .transpose()
            .unwrap_or_else(|error| panic!("{error}"));
        for (at, name, value) in &self.changes {
            machine.advance(*at, &mut records);
            let image = image
                .as_ref()
                .expect("the run has a policy, because the fair class has no parameters");
            image
                .set(machine.region(), name, value)
                .expect("the parameter can be changed during a run");
        }
        machine.run(until, &mut records);
        if let Some(exit) = &machine.ext().exit {
            panic!("{exit}");
        }
        Observed {
            machine,
            image,
            records,
        }
    }

    pub fn for_ms(self, ms: u64) -> Observed {
        self.for_ns(ms * MS)
    }
}

/// A time during which a task was on a CPU without a break. The times are in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stint {
    pub pid: u32,
    pub comm: String,
    pub cpu: u32,
    pub from: u64,
    pub to: u64,
}

/// The machine after a run, and the records of the run.
pub struct Observed {
    pub machine: Machine,
    /// The linked object of the policy, if there is a policy.
    pub image: Option<Image>,
    pub records: Vec<Record>,
}

impl Observed {
    /// Returns the value of a global variable of the policy.
    pub fn counter(&self, name: &str) -> u64 {
        let image = self.image.as_ref().expect("the run has a policy");
        let text = image
            .get(self.machine.region(), name)
            .expect("the policy has this variable");
        text.parse::<i128>().unwrap_or_else(|_| panic!("{name} is {text}")) as u64
    }

    /// Returns the stints of all tasks, sorted by their start and their CPU. Stints of zero length
    /// are left out. A task has such a stint if it blocks at once on a machine whose work takes no
    /// time.
    pub fn stints(&self) -> Vec<Stint> {
        let mut names = std::collections::BTreeMap::new();
        let mut on = vec![(0_u32, 0_u64); self.machine.nr_cpus() as usize];
        let mut stints = Vec::new();
        for record in &self.records {
            match &record.event {
                Event::TaskNew { pid, comm, .. } => {
                    names.insert(*pid, comm.clone());
                }
                Event::Switch { next, .. } => {
                    let before = std::mem::replace(&mut on[record.cpu as usize], (*next, record.time));
                    stints.push((before, record.cpu, record.time));
                }
                _ => {}
            }
        }
        for (cpu, before) in on.into_iter().enumerate() {
            stints.push((before, cpu as u32, self.machine.now));
        }
        stints.retain(|((pid, from), _, to)| *pid != 0 && from < to);
        stints.sort_by_key(|&((_, from), cpu, _)| (from, cpu));
        let stint = |((pid, from), cpu, to)| Stint {
            pid,
            comm: names.get(&pid).cloned().unwrap_or_default(),
            cpu,
            from,
            to,
        };
        stints.into_iter().map(stint).collect()
    }

    /// Returns the CPU time in ns that the tasks whose name begins with `comm` used between two
    /// times.
    pub fn cpu_ns_between(&self, comm: &str, from: u64, to: u64) -> u64 {
        let stints = self.stints();
        let matching = stints.iter().filter(|stint| stint.comm.starts_with(comm));
        matching
            .map(|stint| stint.to.min(to).saturating_sub(stint.from.max(from)))
            .sum()
    }

    pub fn cpu_ns(&self, comm: &str) -> u64 {
        self.cpu_ns_between(comm, 0, u64::MAX)
    }

    /// Returns the CPUs on which the tasks whose name begins with `comm` ran.
    pub fn cpus(&self, comm: &str) -> BTreeSet<u32> {
        let stints = self.stints();
        let matching = stints.iter().filter(|stint| stint.comm.starts_with(comm));
        matching.map(|stint| stint.cpu).collect()
    }

    /// Returns the response times in ns of the tasks whose name begins with `comm`.
    pub fn responses(&self, comm: &str) -> Vec<u64> {
        let mut names = std::collections::BTreeMap::new();
        let mut times = Vec::new();
        for record in &self.records {
            match &record.event {
                Event::TaskNew { pid, comm, .. } => {
                    names.insert(*pid, comm.clone());
                }
                Event::Done { pid, response_ns, .. } if names[pid].starts_with(comm) => times.push(*response_ns),
                _ => {}
            }
        }
        times
    }

    /// Returns the longest and the mean wake-up latency in ns of the tasks whose name begins with
    /// `comm`.
    pub fn wakeup_latency(&self, comm: &str) -> (u64, u64) {
        self.wakeup_latency_after(comm, 0)
    }

    /// Like `wakeup_latency`, but only for wake-ups after `from`.
    pub fn wakeup_latency_after(&self, comm: &str, from: u64) -> (u64, u64) {
        let mut woken = std::collections::BTreeMap::new();
        let mut names = std::collections::BTreeMap::new();
        let (mut longest, mut sum, mut n) = (0, 0, 0_u64);
        for record in &self.records {
            match &record.event {
                Event::TaskNew { pid, comm, .. } => {
                    names.insert(*pid, comm.clone());
                }
                Event::Wakeup { pid, .. } if record.time >= from => {
                    woken.insert(*pid, record.time);
                }
                Event::Switch { next, .. } => {
                    if let Some(at) = woken.remove(next)
                        && names[next].starts_with(comm)
                    {
                        longest = longest.max(record.time - at);
                        sum += record.time - at;
                        n += 1;
                    }
                }
                _ => {}
            }
        }
        (longest, sum / n.max(1))
    }
}
