// SPDX-License-Identifier: GPL-2.0-only
//! A workload is executed: a process for each of its processes, a thread for each task; they start together, are watched, and
//! are ended when the time is over.

use super::attributes::{affinity, set_affinity, set_class};
use super::cgroup::{self, Cgroups};
use super::execute::{self, World};
use super::shared::Shared;
use super::watch::{Look, Watch};
use super::{counts, exec, outcome};
use crate::statistics::{MachineCounts, machine_counts};
use crate::stop;
use report::{RunResult, TaskCounters};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use trace::Record;
use windtunnel::error::Error;
use workload::Workload;

/// How long a workload without an end runs.
const DEFAULT_NS: u64 = 10_000_000_000;
/// How often it is looked whether it is over: when it was the tasks tell themselves.
const POLL: Duration = Duration::from_millis(5);
/// How often something else is done.
const OTHER: Duration = Duration::from_millis(1);
/// How often it is looked where its tasks are.
const LOOK: Duration = Duration::from_millis(10);

/// How it is executed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `None`: what the workload asks for.
    pub for_ns: Option<u64>,
    pub seed: u64,
    /// CPUs of this machine that are the workload's 0, 1, ...; empty: all that there are.
    pub cpus: Vec<u32>,
    /// Look at where tasks are, every 10 ms.
    pub watch: bool,
}

/// What was.
pub struct Executed {
    pub result: RunResult,
    /// What its tasks logged, in order of time from `begun`: tasks coming, requests done, tasks going.
    pub log: Vec<Record>,
    /// ns of CLOCK_MONOTONIC.
    pub begun: u64,
    /// CPU time by pid.
    pub cpu_ns: BTreeMap<u32, u64>,
    pub looks: Vec<Look>,
    /// What to know of it.
    pub notes: Vec<String>,
}

/// What is known when the workload is over.
pub(super) struct Ended {
    pub at_ns: u64,
    /// All tasks have exited.
    pub completed: bool,
    pub machine: (MachineCounts, MachineCounts),
    /// Of tasks that were alive, by id.
    pub alive: BTreeMap<u32, TaskCounters>,
}

/// Executes it, and does something else about each millisecond if there is something to do.
///
/// # Errors
/// If the kernel does not give what it needs.
pub fn conduct(
    workload: Workload,
    options: &Options,
    mut meanwhile: Option<&mut dyn FnMut()>,
) -> Result<Executed, Error> {
    if !workload.disturbances.is_empty() {
        return Err(Error::new(format!(
            "workload {}: its disturbances would change this machine",
            workload.name
        ))
        .hint("leave \"disturbances\" out to run it for real"));
    }
    let limit = options.for_ns.or(workload.duration_ns).unwrap_or(DEFAULT_NS);
    let spawned: Vec<u32> = (0..workload.tasks.len() as u32)
        .filter(|&task| workload.tasks[task as usize].spawn)
        .collect();
    let machine = affinity();
    let cpus = match options.cpus.as_slice() {
        [] => machine.clone(),
        cpus => cpus.to_vec(),
    };
    if let Some(other) = cpus.iter().find(|cpu| !machine.contains(cpu)) {
        return Err(Error::new(format!("there is no CPU {other} for this process"))
            .hint(format!("it may use {machine:?} (taskset)")));
    }
    let mut notes = Vec::new();
    let cgroups = match workload.cgroups.len() {
        0 | 1 => None,
        _ => Cgroups::make(&workload.cgroups).map_err(|why| notes.push(why)).ok(),
    };
    let world = Arc::new(World {
        rounds_per_1024_ns: execute::calibrate(),
        shared: Shared::new(&workload)?,
        can_exec: exec::can_read_again(&workload),
        cgroups: cgroups.as_ref().map(Cgroups::folder),
        cpus,
        seed: options.seed,
        workload,
    });
    stop::remember();
    let mut company = Company::gather(&world, &spawned)?;
    // Where the workload is not, if there is such a place.
    let others: Vec<u32> = machine
        .iter()
        .copied()
        .filter(|cpu| !world.cpus.contains(cpu))
        .collect();
    if !others.is_empty() {
        set_affinity(0, &others);
    }
    let mut watch = options.watch.then(|| Watch::new(&world.cpus));
    // Other work is not to come before the workload.
    let attention = meanwhile.is_none().then(Attention::pay).flatten();

    let before = machine_counts();
    world
        .shared
        .open_gate(spawned.len() as u32, || !company.is_over() && !stop::asked());
    while !company.is_over() && world.shared.now() < limit && !stop::asked() {
        if let Some(watch) = &mut watch {
            watch.look(&world.shared);
        }
        let left = Duration::from_nanos(limit.saturating_sub(world.shared.now()));
        thread::sleep(left.min(match (&watch, &meanwhile) {
            (_, Some(_)) => OTHER,
            (Some(_), _) => LOOK,
            _ => POLL,
        }));
        if let Some(meanwhile) = &mut meanwhile {
            meanwhile();
        }
    }
    let at_ns = world.shared.now();
    company.halt();
    let ended = Ended {
        at_ns,
        completed: company.is_over(),
        machine: (before, machine_counts()),
        alive: outcome::alive(&world.shared)
            .into_iter()
            .filter_map(|tid| Some((tid, counts::of(&tid.to_string())?)))
            .collect(),
    };
    drop(company);
    drop(attention);
    set_affinity(0, &machine);
    drop(cgroups);
    let mut executed = outcome::executed(&world, &ended);
    executed.looks = watch.map(|watch| watch.looks).unwrap_or_default();
    notes.append(&mut executed.notes);
    executed.notes = notes;
    Ok(executed)
}

/// The workload's processes; ended when dropped.
struct Company {
    /// Those that have not ended.
    leaders: BTreeSet<i32>,
}

impl Company {
    fn gather(world: &Arc<World>, spawned: &[u32]) -> Result<Company, Error> {
        let of = |task: u32| world.workload.tasks[task as usize].process;
        let processes: BTreeSet<u32> = spawned.iter().map(|&task| of(task)).collect();
        let mut company = Company {
            leaders: BTreeSet::new(),
        };
        for process in processes {
            let own: Vec<u32> = spawned.iter().copied().filter(|&task| of(task) == process).collect();
            // SAFETY: this process has one thread; the child ends with _exit.
            match unsafe { libc::fork() } {
                -1 => {
                    let error = std::io::Error::last_os_error();
                    return Err(Error::new(format!("no process for the workload: {error}")));
                }
                0 => {
                    lead(world, &own);
                    // SAFETY: ends the child without the parent's exit handlers.
                    unsafe { libc::_exit(0) }
                }
                pid => {
                    company.leaders.insert(pid);
                }
            }
        }
        Ok(company)
    }

    /// Whether all have ended.
    fn is_over(&mut self) -> bool {
        self.collect(libc::WNOHANG);
        self.leaders.is_empty()
    }

    /// Nobody runs on: what is counted stays.
    fn halt(&self) {
        for &pid in &self.leaders {
            // SAFETY: the group of a child of ours that was not waited for.
            unsafe { libc::kill(-pid, libc::SIGSTOP) };
        }
    }

    fn collect(&mut self, flags: i32) {
        while !self.leaders.is_empty() {
            // SAFETY: no status is asked for.
            match unsafe { libc::waitpid(-1, std::ptr::null_mut(), flags) } {
                ended @ 1.. => self.leaders.remove(&ended),
                _ => return,
            };
        }
    }
}

impl Drop for Company {
    fn drop(&mut self) {
        for &pid in &self.leaders {
            // SAFETY: the group of a child of ours that was not waited for.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        }
        self.collect(0);
    }
}

/// The leader of a process: each of its tasks is a thread; if there is but one, it is that itself.
fn lead(world: &Arc<World>, own: &[u32]) {
    // SAFETY: a group of its own, so that its children end with it; signals end it again; timers are as precise as they can be.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    if let Some(folder) = &world.cgroups {
        // What it may not, its threads may not either, and they tell.
        let _ = cgroup::enter_process(folder);
    }
    if let [only] = own {
        return execute::start(world, *only, true);
    }
    let thread = |&task: &u32| {
        let world = Arc::clone(world);
        let thread = thread::Builder::new().stack_size(256 << 10);
        thread.spawn(move || execute::start(&world, task, false))
    };
    let threads: Vec<_> = own.iter().map(thread).collect();
    for thread in threads {
        match thread {
            Ok(thread) => {
                let _ = thread.join();
            }
            Err(_) => {
                world.shared.refused(super::refusal::Request::Thread);
                world.shared.missing_at_gate();
            }
        }
    }
}

/// This process comes before the workload it looks at, as far as the kernel lets it.
struct Attention;

impl Attention {
    /// `None`: somebody has given this process another class than that which most have.
    fn pay() -> Option<Attention> {
        // SAFETY: of the calling thread.
        let class = unsafe { libc::sched_getscheduler(0) };
        (class == libc::SCHED_OTHER).then(|| {
            set_class(libc::SCHED_FIFO, 1);
            Attention
        })
    }
}

impl Drop for Attention {
    fn drop(&mut self) {
        set_class(libc::SCHED_OTHER, 0);
    }
}
