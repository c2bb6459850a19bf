// SPDX-License-Identifier: GPL-2.0-only
//! The sink (consumer of records) that counts the figures of a run. It needs memory for a few
//! histograms and one entry per task, lock and callback.

use crate::failure::Status;
use crate::figures::RunResult;
use crate::histogram::Histogram;
use crate::lost::lost_tasks;
use crate::result::{Migrations, Run};
use crate::task::Task;
use std::collections::BTreeMap;
use std::rc::Rc;
use trace::{ByNumber, CpuPosition, Event, KTHREADD, Record, Shared, Sink};

mod ended;

pub(crate) use ended::Ended;

const IDLE: u32 = 0;

/// State of one CPU.
struct Cpu {
    position: CpuPosition,
    /// Pid of the running task. 0 means idle.
    pid: u32,
    /// Time at which the task began to run.
    since: u64,
    /// The previous task of the CPU: its pid, and the time at which it began to run.
    before: (u32, u64),
    offline_since: Option<u64>,
}

/// Counters that a real kernel keeps for a task without tracing (getrusage, schedstat).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounters {
    pub cpu_ns: u64,
    /// Number of switches away from the task because it had to wait. Each is followed by a wake-up.
    pub voluntary: u64,
    /// Number of switches away from the task while it was still runnable.
    pub involuntary: u64,
    /// Time during which the task was runnable without a CPU (run_delay).
    pub wait_ns: u64,
    pub waits: u64,
    pub migrations: u64,
}

/// Totals of the tasks that are background work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoiseCounts {
    pub tasks: u64,
    pub cpu_ns: u128,
    pub switches: u64,
    pub wakeups: u64,
}

/// Totals of one callback.
#[derive(Clone, Default)]
struct Callback {
    count: u64,
    insns: u64,
    max: u32,
}

/// Totals of one lock. Times are in ns.
#[derive(Clone, Debug, Default)]
struct Lock {
    waits: u64,
    ns: u64,
    max: u64,
}

/// The sink that counts the figures of a run. CPU numbers in records must be less than the number
/// of CPUs.
#[derive(Default)]
pub struct Summary {
    cpus: Vec<Cpu>,
    tasks: ByNumber<Task>,
    callbacks: Vec<Callback>,
    locks: ByNumber<Lock>,
    pub(crate) busy_ns: u128,
    offline_ns: u128,
    pub(crate) overhead_ns: u64,
    pub(crate) switches: u64,
    pub(crate) migrations: Migrations,
    pub(crate) wakeups: u64,
    /// Pid of the task of the last `Waking` record, or IDLE if a switch followed it.
    woken: u32,
    pub(crate) ipis: u64,
    pub(crate) printed_lines: u64,
    pub(crate) balance_moves: u64,
    operations: u64,
    /// Time at which the measurement began.
    measured_from: u64,
    pub(crate) wakeup: Histogram<7>,
    pub(crate) response: Histogram<7>,
    /// The longest wait for a CPU in ns, among those waits that have ended.
    longest_wait_ns: u64,
    /// Totals of the background work. The other totals do not contain it.
    pub(crate) noise: NoiseCounts,
    /// Names of the tasks. Millions of tasks can have the same name, so they contain only its number.
    names: Names,
    /// Waits for a CPU in the current batch of records. They are not yet added to the histograms.
    waited: Vec<Waited>,
}

impl Summary {
    /// Returns a summary for a machine with these CPUs.
    pub fn new(cpus: &[CpuPosition]) -> Summary {
        let cpu = |&position| Cpu {
            position,
            pid: IDLE,
            since: 0,
            before: (IDLE, 0),
            offline_since: None,
        };
        Summary {
            cpus: cpus.iter().map(cpu).collect(),
            ..Summary::default()
        }
    }

    /// Returns the number of sched_switch events so far.
    pub fn context_switches(&self) -> u64 {
        self.switches
    }

    /// Adds a wake-up with a latency that was measured elsewhere. Used if there are no records of
    /// switches.
    pub fn add_wakeup(&mut self, pid: u32, latency_ns: u64) {
        self.wakeup.add(latency_ns);
        self.tasks.entry(pid).wakeup.add(latency_ns);
    }

    /// Adds the counters that a real kernel kept for a task. A `TaskNew` record of this task must
    /// have been added before.
    pub fn add_counters(&mut self, pid: u32, began_ns: u64, counters: TaskCounters) {
        self.busy_ns += u128::from(counters.cpu_ns);
        self.switches = self.switches.saturating_add(counters.voluntary + counters.involuntary);
        self.wakeups = self.wakeups.saturating_add(counters.voluntary);
        let task = self.tasks.entry(pid);
        task.cpu_ns = task.cpu_ns.saturating_add(counters.cpu_ns);
        task.wait_ns = task.wait_ns.saturating_add(counters.wait_ns);
        task.waits = task.waits.saturating_add(counters.waits);
        task.switches = task.switches.saturating_add(counters.voluntary + counters.involuntary);
        task.preemptions = task.preemptions.saturating_add(counters.involuntary);
        task.migrations = task.migrations.saturating_add(counters.migrations);
        task.slept = counters.voluntary > 0;
        task.begin(began_ns);
    }

    /// Counts one record.
    #[inline(always)]
    fn add(&mut self, record: &Record) {
        let &Record { cpu, ref event, .. } = record;
        let time = record.local_time();
        match *event {
            Event::Switch { prev, prev_state, next } => {
                if prev == next {
                    return;
                }
                let mut noise = false;
                self.woken = IDLE;
                let cpu = &mut self.cpus[cpu as usize];
                let ns = time.saturating_sub(cpu.since);
                cpu.before = (prev, cpu.since);
                (cpu.pid, cpu.since) = (next, time);
                if prev != IDLE {
                    let task = self.tasks.entry(prev);
                    task.switch_out(time, ns, prev_state);
                    if task.noise {
                        self.noise.cpu_ns += u128::from(ns);
                        noise = next == IDLE;
                    } else {
                        self.busy_ns += u128::from(ns);
                    }
                }
                if next != IDLE {
                    let index = self.tasks.index(next);
                    let task = self.tasks.at(index);
                    let waited_before = task.wait_ns;
                    let latency = task.switch_in(time);
                    noise = task.noise;
                    if !noise {
                        self.longest_wait_ns = self.longest_wait_ns.max(task.wait_ns - waited_before);
                    }
                    if let Some(latency) = latency.filter(|_| !noise) {
                        if let Some(counter) = task.wakeup.counter(latency) {
                            prefetch((&raw const *counter).cast());
                        }
                        self.waited.push((index, latency));
                    }
                }
                match noise {
                    true => self.noise.switches += 1,
                    false => self.switches += 1,
                }
            }
            Event::Waking { pid, .. } => {
                self.tasks.entry(pid).wake(time);
                self.woken = pid;
            }
            Event::Wakeup { pid, .. } => {
                match self.noise.tasks > 0 && self.tasks.entry(pid).noise {
                    true => self.noise.wakeups += 1,
                    false => self.wakeups += 1,
                }
                // If the pids are equal, the wake-up was already counted at its Waking record.
                if self.woken != pid {
                    self.tasks.entry(pid).wake(time);
                }
            }
            Event::Overhead { ns } => self.overhead_ns = self.overhead_ns.saturating_add(ns),
            Event::Callback { op, insns, .. } => {
                let op = usize::from(op);
                if op >= self.callbacks.len() {
                    self.callbacks.resize(op + 1, Callback::default());
                }
                let callback = &mut self.callbacks[op];
                callback.count += 1;
                callback.insns += u64::from(insns);
                callback.max = callback.max.max(insns);
            }
            Event::Migrate { pid, from, to, .. } => {
                let task = self.tasks.entry(pid);
                task.migrations += 1;
                if task.noise {
                    return;
                }
                let (from, to) = (self.cpus[from as usize].position, self.cpus[to as usize].position);
                let counter = match from.shared(to) {
                    Shared::Core => &mut self.migrations.core,
                    Shared::Llc => &mut self.migrations.llc,
                    Shared::Node => &mut self.migrations.node,
                    Shared::Machine => &mut self.migrations.remote,
                };
                *counter += 1;
            }
            Event::LockWait { lock, ns, .. } => {
                let lock = self.locks.entry(lock);
                lock.waits += 1;
                lock.ns = lock.ns.saturating_add(ns);
                lock.max = lock.max.max(ns);
            }
            Event::Done { count, response_ns, .. } => {
                self.operations += u64::from(count);
                if response_ns > 0 {
                    self.response.add(response_ns);
                }
            }
            Event::Ipi { .. } => self.ipis += 1,
            Event::Balance { moved } => self.balance_moves += u64::from(moved),
            // If a pid is used again, it belongs to a new task. The totals of the run keep the
            // counts of the old task.
            Event::TaskNew {
                pid,
                parent,
                prio,
                ref comm,
                ..
            } => {
                let task = self.tasks.entry(pid);
                if task.exited {
                    *task = Task::default();
                }
                task.noise = parent == KTHREADD;
                self.noise.tasks += u64::from(task.noise);
                task.prio = prio;
                task.comm = self.names.number(comm);
            }
            Event::TaskRename { pid, ref comm } => self.tasks.entry(pid).comm = self.names.number(comm),
            Event::TaskExit { pid } => self.tasks.entry(pid).exited = true,
            Event::Prio { pid, prio } => self.tasks.entry(pid).prio = prio,
            Event::Hotplug { online } => {
                let cpu = &mut self.cpus[cpu as usize];
                if !online {
                    cpu.offline_since.get_or_insert(time);
                } else if let Some(since) = cpu.offline_since.take() {
                    self.offline_ns += u128::from(time.saturating_sub(since));
                }
            }
            Event::Phase { phase, .. } if phase == workload::MEASURED => self.measured_from = time,
            Event::Printk { .. } => self.printed_lines += 1,
            Event::Phase { .. }
            | Event::Policy { .. }
            | Event::LockName { .. }
            | Event::DsqLength { .. }
            | Event::Slowed { .. } => {}
        }
    }

    /// Returns the result. Tasks that are still running or waiting are counted up to
    /// `run.simulated_ns`.
    pub fn result(mut self, run: Run) -> RunResult {
        let end = run.simulated_ns;
        for cpu in &self.cpus {
            // The time of a CPU can be later than the time of the simulation. The last switch may
            // therefore be later than the end.
            let (before, from) = cpu.before;
            let late = cpu.since.saturating_sub(from.max(end));
            if before != IDLE && late > 0 {
                let task = self.tasks.entry(before);
                task.cpu_ns = task.cpu_ns.saturating_sub(late);
                match task.noise {
                    true => self.noise.cpu_ns -= u128::from(late),
                    false => self.busy_ns -= u128::from(late),
                }
            }
            if cpu.pid != IDLE {
                let ns = end.saturating_sub(cpu.since);
                let task = self.tasks.entry(cpu.pid);
                task.cpu_ns = task.cpu_ns.saturating_add(ns);
                match task.noise {
                    true => self.noise.cpu_ns += u128::from(ns),
                    false => self.busy_ns += u128::from(ns),
                }
            }
            if let Some(since) = cpu.offline_since {
                self.offline_ns += u128::from(end.saturating_sub(since));
            }
        }
        let mut tasks = std::mem::take(&mut self.tasks).into_sorted();
        tasks.retain(|(_, task)| !task.noise);
        for (_, task) in &mut tasks {
            if let Some(latency) = task.end_wait(end) {
                self.wakeup.add(latency);
            }
        }
        let figures = RunResult::computed(&Ended::new(&mut self, &tasks, &run));
        RunResult {
            policy: run.policy,
            machine: run.machine,
            cpus: self.cpus.len() as u64,
            workload: run.workload,
            settings: run.settings,
            profile: run.profile,
            kernel: run.kernel,
            seed: run.seed,
            simulated_ns: end,
            wall_ns: run.wall_ns,
            status: run.status,
            failed_forks: run.failed_forks,
            // If the policy ended early, waiting tasks do not prove that it lost them.
            lost_tasks: match run.status {
                Status::Ran => lost_tasks(&run.waiting, end, self.longest_wait_ns),
                Status::Ejected | Status::Refused | Status::Deadlock => None,
            },
            deadlock: run.deadlock,
            exit: run.exit,
            ..figures
        }
    }
}

/// Different names, with consecutive numbers. The empty name has the number 0.
#[derive(Default)]
struct Names {
    /// All names but the empty one, by their numbers minus 1.
    all: Vec<Rc<str>>,
    numbers: BTreeMap<Rc<str>, u32>,
}

impl Names {
    /// Returns the number of a name. Adds it if it is new.
    fn number(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let name: Rc<str> = name.into();
        self.all.push(Rc::clone(&name));
        let number = u32::try_from(self.all.len()).expect("fewer than 2^32 names");
        self.numbers.insert(name, number);
        number
    }

    fn get(&self, number: u32) -> &str {
        number.checked_sub(1).map_or("", |at| &self.all[at as usize])
    }
}

/// If there are more tasks than this, their entries do not fit into the host's L1 and L2 caches.
/// The entries are then prefetched.
const MANY_TASKS: usize = 2048;

/// A wait that has ended: the index of the task's entry, and the length of the wait in ns.
type Waited = (u32, u64);

impl Summary {
    /// Prefetches the entries of the tasks in the next records into the host's caches.
    fn prefetch(&self, records: &[Record]) {
        for record in records {
            if let Event::Switch { next: pid, .. } | Event::Waking { pid, .. } = record.event
                && let Some(task) = self.tasks.get(pid)
            {
                let task = (&raw const *task).cast::<u8>();
                for line in [0, 64, 128] {
                    prefetch(task.wrapping_add(line));
                }
            }
        }
    }
}

/// Prefetches the host's cache line at an address.
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is only a hint and valid for every address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

impl Sink for Summary {
    fn take(&mut self, records: &[Record]) {
        if self.tasks.len() > MANY_TASKS {
            self.prefetch(records);
        }
        for record in records {
            self.add(record);
        }
        // The histograms are updated only here, after the whole batch. By now the host has
        // prefetched their counters into its caches.
        for (index, ns) in self.waited.drain(..) {
            self.tasks.at(index).wakeup.add(ns);
            self.wakeup.add(ns);
        }
    }
}
