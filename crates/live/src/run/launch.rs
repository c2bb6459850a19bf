// SPDX-License-Identifier: GPL-2.0-only
//! Executes a workload on this machine.
//!
//! Each process of the workload becomes a process of this machine, and each task becomes a thread.
//! All tasks start together and are observed while they run. They are killed when the time limit
//! has passed.

use super::attributes::{affinity, set_affinity, set_class, set_class_of};
use super::cgroup::{self, Cgroups};
use super::children::{self, Reaped};
use super::execute::{self, World};
use super::shared::{Shared, gettid};
use super::watch::{LoadSample, Watch};
use super::{counts, exec, outcome};
use crate::statistics::{MachineCounts, machine_counts};
use crate::stop;
use input::error::Error;
use report::{RunResult, TaskCounters};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use trace::Record;
use workload::Workload;

/// Time limit for a workload that defines no length of its own.
const DEFAULT_NS: u64 = 10_000_000_000;
/// Time between two attempts to reap the last process of the workload. At the first attempt, the
/// files of the last process are already closed, but it may not be a zombie yet.
const END_POLL: Duration = Duration::from_millis(1);
/// Interval between two samples of the CPUs on which the tasks run or wait.
const LOOK: Duration = Duration::from_millis(10);
/// Time for which this process sleeps before it creates the first tasks. Some policies let a child
/// inherit how much its parent ran and slept. The first simulated tasks inherit as if from a shell, but
/// this process has just computed ([`execute::calibrate`]).
const REST: Duration = Duration::from_secs(1);

/// Options of an execution.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Time limit in ns. `None` means the workload's own length.
    pub for_ns: Option<u64>,
    pub seed: u64,
    /// CPUs of this machine that are used as the workload's CPUs 0, 1, and so on. An empty list
    /// means all available CPUs.
    pub cpus: Vec<u32>,
    /// Whether to sample every 10 ms on which CPUs tasks run or wait.
    pub watch: bool,
}

/// Work that the caller does while the workload runs.
pub struct Meanwhile<'a> {
    /// The work is done whenever one of these files is readable. Each time, the observing process
    /// wakes up and delays the workload, so the files must not become readable often.
    pub files: Vec<RawFd>,
    pub work: &'a mut dyn FnMut(),
}

/// Result of an execution.
pub struct Executed {
    pub result: RunResult,
    /// Records that the tasks logged, for example of their creation, finished requests and their
    /// exit. They are in order of time. Times are in ns since `begun`.
    pub log: Vec<Record>,
    /// Time of the start, in ns of CLOCK_MONOTONIC.
    pub begun: u64,
    /// CPU time of each task in ns, by pid.
    pub cpu_ns: BTreeMap<u32, u64>,
    pub looks: Vec<LoadSample>,
    /// Warnings for the user.
    pub notes: Vec<String>,
}

/// Measurements at the end of a workload.
pub(super) struct Ended {
    pub at_ns: u64,
    /// Whether all tasks have exited.
    pub completed: bool,
    /// CPU times of the whole machine, at the start and at the end.
    pub machine: (MachineCounts, MachineCounts),
    /// The kernel's counters of the tasks that had not exited, by thread id.
    pub alive: BTreeMap<u32, TaskCounters>,
    /// CPU time in ns of the processes that this process has reaped, by process id.
    pub reaped: BTreeMap<u32, u64>,
}

/// Executes a workload. If `meanwhile` is given, does its work whenever one of its files is
/// readable.
///
/// # Errors
/// The workload would change this machine, or it names CPUs that are not available. The kernel may
/// also refuse a resource that the workload needs.
pub fn launch(workload: Workload, options: &Options, mut meanwhile: Option<Meanwhile>) -> Result<Executed, Error> {
    if !workload.disturbances.is_empty() {
        return Err(Error::new(format!(
            "workload {}: executing its disturbances would change this machine",
            workload.name
        ))
        .hint("remove \"disturbances\" from the workload to execute it here"));
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
        return Err(Error::new(format!("there is no CPU {other} that this process may use"))
            .hint(format!("it may use {machine:?}; change that with taskset")));
    }
    let mut notes = Vec::new();
    let cgroups = match workload.cgroups.len() {
        0 | 1 => None,
        _ => Cgroups::make(&workload.cgroups)
            .map_err(|why| notes.push(why.to_string()))
            .ok(),
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
    stop::install_handlers();
    let files = meanwhile.as_ref().map_or(&[][..], |meanwhile| &meanwhile.files);
    thread::sleep(REST);
    let mut processes = Processes::start(&world, &spawned, files)?;
    // If this machine has CPUs that the workload does not use, this process runs only on these
    // CPUs.
    let others: Vec<u32> = machine
        .iter()
        .copied()
        .filter(|cpu| !world.cpus.contains(cpu))
        .collect();
    if !others.is_empty() {
        set_affinity(0, &others);
    }
    let mut watch = options.watch.then(|| Watch::new(&world.cpus));
    let mut raised_priority = RaisedPriority::raise();
    // The work of `meanwhile` must not preempt the workload. If there is such work, the priority of
    // this process is therefore raised only at the time limit.
    if meanwhile.is_some() && raised_priority.is_some() {
        let world = Arc::clone(&world);
        raised_priority = Some(RaisedPriority::later(move || limit.saturating_sub(world.shared.now())));
    }

    let before = machine_counts();
    world
        .shared
        .open_gate(spawned.len() as u32, || !processes.is_over() && !stop::requested());
    while !processes.is_over() && world.shared.now() < limit && !stop::requested() {
        if let Some(watch) = &mut watch {
            watch.sample(&world.shared);
        }
        let left = Duration::from_nanos(limit.saturating_sub(world.shared.now()));
        let files = meanwhile.as_ref().map_or(&[][..], |meanwhile| &meanwhile.files);
        processes.wait(files, if watch.is_some() { left.min(LOOK) } else { left });
        if let Some(meanwhile) = &mut meanwhile {
            (meanwhile.work)();
        }
    }
    let at_ns = world.shared.now();
    processes.stop();
    let ended = Ended {
        at_ns,
        completed: processes.is_over(),
        machine: (before, machine_counts()),
        alive: outcome::alive(&world.shared)
            .into_iter()
            .filter_map(|tid| Some((tid, counts::thread(tid)?)))
            .collect(),
        reaped: processes.reaped.clone(),
    };
    drop(processes);
    drop(raised_priority);
    set_affinity(0, &machine);
    drop(cgroups);
    let mut executed = outcome::executed(&world, &ended);
    executed.looks = watch.map(|watch| watch.looks).unwrap_or_default();
    notes.append(&mut executed.notes);
    executed.notes = notes;
    Ok(executed)
}

/// The processes of the workload. Dropping this value kills them.
struct Processes {
    /// Pids of the processes that have not ended.
    leaders: BTreeSet<i32>,
    /// Read end of a pipe. All processes of the workload inherit the write end, and none of them
    /// writes to it. When the last process exits, the kernel closes the write end, and this process
    /// wakes up. It thus wakes up only once.
    last_exit: OwnedFd,
    /// CPU time in ns of the processes that have been reaped, by process id.
    reaped: BTreeMap<u32, u64>,
}

impl Processes {
    /// Starts the processes. They close their copies of `files`. Otherwise, the exit of each process
    /// would wake this process, because closing a file of tracefs wakes all its readers.
    fn start(world: &Arc<World>, spawned: &[u32], files: &[RawFd]) -> Result<Processes, Error> {
        let process_id = |task: u32| world.workload.tasks[task as usize].process;
        let numbers: BTreeSet<u32> = spawned.iter().map(|&task| process_id(task)).collect();
        let (last_exit, held) = pipe()?;
        let mut processes = Processes {
            leaders: BTreeSet::new(),
            last_exit,
            reaped: BTreeMap::new(),
        };
        for process in numbers {
            let own: Vec<u32> = spawned
                .iter()
                .copied()
                .filter(|&task| process_id(task) == process)
                .collect();
            // SAFETY: this process has one thread, and the child ends with _exit.
            match unsafe { libc::fork() } {
                -1 => {
                    let error = std::io::Error::last_os_error();
                    return Err(Error::new(format!(
                        "a process of the workload cannot be created: {error}"
                    )));
                }
                0 => {
                    for &file in files {
                        // SAFETY: this process does not use its copies of these files.
                        unsafe { libc::close(file) };
                    }
                    lead(world, &own);
                    // SAFETY: this ends the child without running the parent's exit handlers.
                    unsafe { libc::_exit(0) }
                }
                pid => {
                    processes.leaders.insert(pid);
                }
            }
        }
        drop(held);
        Ok(processes)
    }

    /// Waits until all processes have exited, until one of the files can be read, or until the time
    /// has passed.
    fn wait(&self, files: &[RawFd], longest: Duration) {
        let readable = |&fd: &RawFd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut polled: Vec<libc::pollfd> = files.iter().map(readable).collect();
        polled.push(readable(&self.last_exit.as_raw_fd()));
        let timeout = libc::timespec {
            tv_sec: longest.as_secs() as i64,
            tv_nsec: i64::from(longest.subsec_nanos()),
        };
        // SAFETY: the array and the timeout are valid during the call.
        unsafe {
            libc::ppoll(
                polled.as_mut_ptr(),
                polled.len() as libc::nfds_t,
                &timeout,
                std::ptr::null(),
            )
        };
        if polled.last().is_some_and(|last| last.revents != 0) {
            // When a process exits, its files are closed first. Only later can the process be
            // reaped.
            thread::sleep(END_POLL.min(longest));
        }
    }

    /// Returns whether all processes have ended.
    fn is_over(&mut self) -> bool {
        self.collect(libc::WNOHANG);
        self.leaders.is_empty()
    }

    /// Stops all processes, so that their counters no longer change while they are read.
    fn stop(&self) {
        for &pid in &self.leaders {
            // SAFETY: the signal is sent to the process group of a child that has not been waited
            // for.
            unsafe { libc::kill(-pid, libc::SIGSTOP) };
        }
    }

    fn collect(&mut self, flags: i32) {
        while !self.leaders.is_empty()
            && let Reaped::Process { pid, cpu_ns } = children::reap(flags)
        {
            self.leaders.remove(&pid.cast_signed());
            self.reaped.insert(pid, cpu_ns);
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for &pid in &self.leaders {
            // SAFETY: the signal is sent to the process group of a child that has not been waited
            // for.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        }
        self.collect(0);
    }
}

/// Returns the two ends of a new pipe: for reading and for writing. Programs that a process executes
/// inherit both.
fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both descriptors.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(Error::new(format!("a pipe cannot be created: {error}")));
    }
    // SAFETY: the descriptors are new, and nothing else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Executes the tasks of one process, each in a thread. If there is only one task, the process's
/// first thread executes it.
fn lead(world: &Arc<World>, own: &[u32]) {
    // SAFETY: these calls change only this process. The process gets its own process group, so that
    // its children are killed with it. Signals have their default effect again. Timers are as
    // precise as possible.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    if let Some(folder) = &world.cgroups {
        // If this process may not enter the cgroup, its threads may not either. The threads record
        // the refusal.
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

/// Real-time priority for this process. With a normal priority, this process would get no time to
/// observe the tasks, or to end the workload at its time limit, if the workload keeps all CPUs busy.
/// Dropping this value restores the default priority.
struct RaisedPriority {
    /// A thread that raises the priority later. It ends when the sender is dropped.
    later: Option<(Sender<()>, JoinHandle<()>)>,
}

impl RaisedPriority {
    const PRIORITY: u32 = 1;

    /// Raises the priority, unless this process was started with a class other than SCHED_OTHER.
    fn raise() -> Option<RaisedPriority> {
        // SAFETY: 0 is the calling thread.
        let class = unsafe { libc::sched_getscheduler(0) };
        (class == libc::SCHED_OTHER).then(|| {
            set_class(libc::SCHED_FIFO, Self::PRIORITY);
            RaisedPriority { later: None }
        })
    }

    /// Starts a thread that raises the priority of the calling thread as soon as `left` returns 0.
    /// Otherwise, `left` returns the time in ns after which the thread calls it again. The new thread
    /// has the current class and priority of the calling thread. The caller continues with the
    /// default priority.
    fn later(left: impl Fn() -> u64 + Send + 'static) -> RaisedPriority {
        let (sender, receiver) = channel();
        let caller = gettid().cast_signed();
        let thread = thread::spawn(move || {
            loop {
                let ns = left();
                if ns == 0 {
                    set_class_of(caller, libc::SCHED_FIFO, Self::PRIORITY);
                    return;
                }
                if receiver.recv_timeout(Duration::from_nanos(ns)) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        set_class(libc::SCHED_OTHER, 0);
        RaisedPriority {
            later: Some((sender, thread)),
        }
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.later.take() {
            drop(sender);
            let _ = thread.join();
        }
        set_class(libc::SCHED_OTHER, 0);
    }
}
