// SPDX-License-Identifier: GPL-2.0-only
//! Creation of a machine for a workload, and the reasons why it can fail.

use crate::hardware::cpufreq::state::Cpufreq;
use crate::hardware::cpuidle::state::CpuIdle;
use crate::hardware::footprint::state::{Caches, line_caches, line_sets};
use crate::hardware::memory::state::Memory;
use crate::hardware::smt::state::Smt;
use crate::hardware::turns::state::Turns;
use crate::layout::{Layout, MAX_TASKS};
use crate::machine::{BATCH, Machine, Options};
use crate::programs::state::noise::Noise;
use crate::programs::state::resource::Sync;
use crate::sched::cgroup::state::Cgroups;
use crate::sched::ext::state::core::Core;
use crate::sched::ext::state::idle_masks::Idle;
use crate::sched::fair::state::domains::Domains;
use crate::sched::fair::state::numa::Numa;
use crate::sched::fair::state::sched_cache::SchedCache;
use crate::sched::fair::state::task_group::TaskGroups;
use crate::sched::nohz_full::state::NohzFull;
use crate::sched::rt::state::cpupri::RootDomain;
use crate::sched::schedutil::state::Schedutil;
use crate::sched::state::rq::{Entry, Rq};
use crate::simulation::cpuset::CpuSet;
use crate::simulation::event::Event;
use crate::simulation::event_queue::EventQueue;
use crate::simulation::id::{CpuId, IDLE};
use crate::simulation::rng::Rng;
use crate::simulation::table::Table;
use crate::simulation::timeline::Locks;
use crate::watch::state::check::Checks;
use crate::watch::state::decision::Decisions;
use crate::watch::state::stepped::Mover;
use bpf::memory::Region;
use machine::{Feature, MachineSpec};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use workload::{Op, Workload};

/// Why a machine cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    #[error("the workload starts {0} tasks, but Linux has at most {MAX_TASKS} (PID_MAX_LIMIT): start fewer tasks")]
    TooManyTasks(u64),
    #[error(
        "task '{task}' uses CPU {cpu}, but machine '{machine}' has CPUs 0-{last}: choose a larger machine or change the task"
    )]
    TaskCpu {
        task: String,
        cpu: u32,
        machine: String,
        last: u32,
    },
    #[error(
        "a disturbance uses CPU {cpu}, but machine '{machine}' has CPUs 0-{last}: choose a larger machine or change the disturbance"
    )]
    DisturbanceCpu { cpu: u32, machine: String, last: u32 },
    /// The region cannot be reserved, or has no room for the objects of the kernel.
    #[error(transparent)]
    Memory(#[from] bpf::error::Error),
}

/// Creates the task groups of the fair class, one for each cgroup of the workload.
fn task_groups(layout: &Layout, workload: &Workload, nr_cpus: u32) -> TaskGroups {
    let cgroup = |(number, known): (usize, &workload::Cgroup)| {
        let above = layout.parent_of_cgroup(number as u32);
        (above, known.weight)
    };
    let cgroups: Vec<_> = workload.cgroups.iter().enumerate().map(cgroup).collect();
    TaskGroups::new(nr_cpus, &cgroups)
}

/// Checks that the workload does not start more tasks than a machine can have.
fn check_tasks(workload: &Workload) -> Result<(), MachineError> {
    let nr_tasks = workload.tasks.iter().filter(|task| task.spawn).count() as u64;
    match nr_tasks > MAX_TASKS {
        true => Err(MachineError::TooManyTasks(nr_tasks)),
        false => Ok(()),
    }
}

/// Checks that all CPUs that the workload names exist in the machine.
fn check_cpus(spec: &MachineSpec, workload: &Workload) -> Result<(), MachineError> {
    let nr_cpus = spec.topology.nr_cpus();
    let (machine, last) = (&spec.name, nr_cpus - 1);
    for task in &workload.tasks {
        let program = workload.programs.get(task.program as usize);
        let changes = program.into_iter().flat_map(|program| &program.ops);
        let later = changes.filter_map(|op| match op {
            Op::SetAffinity(cpus) => cpus.as_ref(),
            _ => None,
        });
        let named = task.cpus.iter().chain(later).flatten().chain(&task.start_cpu);
        if let Some(&cpu) = named.into_iter().find(|&&cpu| cpu >= nr_cpus) {
            let (task, machine) = (task.comm.clone(), machine.clone());
            return Err(MachineError::TaskCpu {
                task,
                cpu,
                machine,
                last,
            });
        }
    }
    let disturbed = workload
        .disturbances
        .iter()
        .flat_map(|disturbance| disturbance.action.cpus());
    match disturbed.max().filter(|&&cpu| cpu >= nr_cpus) {
        Some(&cpu) => {
            let machine = machine.clone();
            Err(MachineError::DisturbanceCpu { cpu, machine, last })
        }
        None => Ok(()),
    }
}

impl Machine {
    /// Creates a machine on which no task exists yet and all CPUs are idle. The first tasks of the
    /// workload are created by events at their start times.
    pub fn new(
        mut spec: MachineSpec,
        mut workload: Workload,
        options: impl Into<Options>,
    ) -> Result<Machine, MachineError> {
        let options = options.into();
        let seed = options.seed;
        let nr_cpus = spec.topology.nr_cpus();
        if let Some(recorded) = &workload.recorded_on {
            spec.costs.leave_out_recorded();
            if recorded.no_hrtick {
                spec.kernel.features.set(Feature::Hrtick, false);
            }
        }
        let replays = workload.recorded_on.is_some();
        let noise = Noise::new(&spec, &mut workload, seed);
        check_cpus(&spec, &workload)?;
        check_tasks(&workload)?;
        let mut region = Region::new()?;
        region.lines_mut().set_caches(line_caches(&spec));
        if let Some(sets) = line_sets(&spec) {
            region.lines_mut().set_sets(sets);
        }
        if options.hotspots {
            region.lines_mut().watch_transfers();
        }
        let region = Rc::new(region);
        // The upper bound prevents an overflow when the used memory is added to the limit.
        region.memory().set_limit(options.memory_limit.min(1 << 62));
        let tick_ns = 1_000_000_000 / u64::from(spec.hz);
        let layout = Layout::new(&region, &spec, &workload)?;
        region.lines().add_competitors(layout.hot_lines());
        let mut machine = Machine {
            rqs: CpuSet::all(nr_cpus)
                .iter()
                .zip(&spec.topology.cpus)
                .map(|(cpu, known)| Rq::new(cpu, spec.speed(cpu.nr()).into(), known.capacity.into()))
                .collect(),
            locks: Locks::new(nr_cpus, options.hotspots),
            sync: Sync::new(&workload.resources, &workload.tasks),
            noise,
            caches: Caches::new(&spec, workload.tasks.iter().any(|task| task.footprint_bytes > 0)),
            memory: Memory::new(&spec, &workload),
            numa: Numa::new(&spec, &workload),
            sched_cache: SchedCache::new(&spec, &options.isolated),
            smt: Smt::new(&spec),
            turns: Turns::new(spec.turn_ns, nr_cpus),
            cpufreq: Cpufreq::new(&spec),
            schedutil: Schedutil::new(&spec),
            cpuidle: CpuIdle::new(&spec),
            nohz_full: NohzFull::new(&spec),
            domains: Domains::new(&spec.topology, &spec.priorities, &options.isolated),
            task_groups: task_groups(&layout, &workload, nr_cpus),
            root_domain: RootDomain::new(nr_cpus),
            online_cpus: CpuSet::all(nr_cpus),
            idle_cpus: CpuSet::all(nr_cpus),
            rng: Rng::new(seed),
            ext: Core::new(&spec.topology),
            cgroups: Cgroups::new(&workload),
            hotplug_requests: VecDeque::new(),
            cpus_write_locked: false,
            idle: Idle::new(&region, &spec.topology)?,
            checks: Checks::new(nr_cpus),
            invariants: None,
            decisions: Decisions::default(),
            tasks: Table::with_capacity(workload.tasks.iter().filter(|task| task.spawn).count()),
            programs: workload
                .programs
                .iter()
                .map(|program| program.ops.as_slice().into())
                .collect(),
            spec,
            workload,
            replays,
            tick_ns,
            since_tick_ns: (tick_ns - options.first_tick_ns % tick_ns) % tick_ns,
            options,
            now: 0,
            events: EventQueue::new(nr_cpus),
            free_tasks: Vec::new(),
            pids: vec![IDLE],
            soft_timers: Vec::new(),
            threads: BTreeSet::new(),
            nr_alive: 0,
            failed_forks: Vec::new(),
            ended_tasks: Vec::new(),
            this_cpu: CpuId::BOOT,
            entry: Entry::default(),
            layout,
            region,
            stopped: false,
            left_waiting: Vec::new(),
            left_on: Vec::new(),
            details: false,
            records: Vec::with_capacity(2 * BATCH),
            texts: false,
            texts_bytes: 0,
            stepped: None,
            mover: Mover::None,
            overlap: None,
            native: None,
            native_posted: false,
            nr_events: 0,
        };
        if machine.turns.is_some() {
            // A CPU does nothing before its first turn.
            machine.rqs.iter_mut().for_each(|rq| rq.speed = 0);
        }
        let tasks = (0..).zip(&machine.workload.tasks);
        let started = tasks.filter(|(_, task)| task.spawn);
        machine.sync.pending_spawns = started.clone().count() as u32;
        machine
            .events
            .push_starts(started.map(|(index, task)| (task.start_ns, index)));
        machine.start_remote_ticks();
        machine.start_noise();
        for (index, disturbance) in machine.workload.disturbances.iter().enumerate() {
            let index = index as u32;
            machine.events.push(disturbance.at_ns, Event::Disturb { index });
        }
        Ok(machine)
    }
}
