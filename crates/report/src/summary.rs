// SPDX-License-Identifier: GPL-2.0-only
//! The sink that counts. Memory: a few histograms, one entry a task, a lock and a callback.

use crate::histogram::Histogram;
use crate::jain;
use crate::lost::lost_tasks;

use crate::result::{
    CallbackResult, LockResult, Migrations, Percentiles, Run, RunResult, Status, TaskResult, Throughput, decimals,
    percent, ratio,
};
use crate::score::{Measured, score};
use crate::task::{Task, Whereabouts};
use trace::{ByNumber, Event, Place, Record, Shared, Sink};

const IDLE: u32 = 0;

struct Cpu {
    place: Place,
    /// Who has it, and since when.
    pid: u32,
    since: u64,
    offline_since: Option<u64>,
}

/// What a kernel tells of a task without a trace: getrusage, schedstat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub cpu_ns: u64,
    /// Switches away from it as it had to wait; it was woken after each.
    pub voluntary: u64,
    /// Switches away from it while it was still runnable.
    pub involuntary: u64,
    /// Runnable without a CPU: the kernel's run_delay.
    pub wait_ns: u64,
    pub waits: u64,
    pub migrations: u64,
}

#[derive(Clone, Default)]
struct Callback {
    count: u64,
    insns: u64,
    max: u32,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    waits: u64,
    ns: u64,
    max: u64,
}

/// Counts what a run's records say. CPU numbers of records must be those of the machine.
pub struct Summary {
    cpus: Vec<Cpu>,
    tasks: ByNumber<Task>,
    callbacks: Vec<Callback>,
    locks: ByNumber<Lock>,
    busy_ns: u128,
    offline_ns: u128,
    overhead_ns: u64,
    switches: u64,
    migrations: Migrations,
    wakeups: u64,
    /// Whom `Waking` told of last, and who has not run since.
    woken: u32,
    ipis: u64,
    balance_moves: u64,
    operations: u64,
    /// When what is measured began.
    measured_from: u64,
    wakeup: Histogram<7>,
    response: Histogram<7>,
    /// The longest wait for a CPU that has ended.
    longest_wait_ns: u64,
    /// Waits of the batch at hand that are still to be added to the histograms.
    waited: Vec<Waited>,
}

impl Summary {
    /// A summary for a machine with these CPUs.
    pub fn new(cpus: &[Place]) -> Summary {
        let cpu = |&place| Cpu {
            place,
            pid: IDLE,
            since: 0,
            offline_since: None,
        };
        Summary {
            cpus: cpus.iter().map(cpu).collect(),
            tasks: ByNumber::new(),
            callbacks: Vec::new(),
            locks: ByNumber::new(),
            busy_ns: 0,
            offline_ns: 0,
            overhead_ns: 0,
            switches: 0,
            migrations: Migrations::default(),
            wakeups: 0,
            woken: IDLE,
            ipis: 0,
            balance_moves: 0,
            operations: 0,
            measured_from: 0,
            wakeup: Histogram::default(),
            response: Histogram::default(),
            longest_wait_ns: 0,
            waited: Vec::new(),
        }
    }

    /// sched_switch events so far.
    pub fn context_switches(&self) -> u64 {
        self.switches
    }

    /// A wake-up whose latency was measured, not read off the records: where there is no trace of every switch.
    pub fn woken(&mut self, pid: u32, latency_ns: u64) {
        self.wakeup.add(latency_ns);
        self.tasks.entry(pid).wakeup.add(latency_ns);
    }

    /// What a real kernel counted of a task that `TaskNew` told of.
    pub fn counted(&mut self, pid: u32, began_ns: u64, counted: Counted) {
        self.busy_ns += u128::from(counted.cpu_ns);
        self.switches = self.switches.saturating_add(counted.voluntary + counted.involuntary);
        self.wakeups = self.wakeups.saturating_add(counted.voluntary);
        let task = self.tasks.entry(pid);
        task.cpu_ns = task.cpu_ns.saturating_add(counted.cpu_ns);
        task.wait_ns = task.wait_ns.saturating_add(counted.wait_ns);
        task.waits = task.waits.saturating_add(counted.waits);
        task.switches = task.switches.saturating_add(counted.voluntary + counted.involuntary);
        task.preemptions = task.preemptions.saturating_add(counted.involuntary);
        task.migrations = task.migrations.saturating_add(counted.migrations);
        task.slept = counted.voluntary > 0;
        task.began = Some(began_ns);
    }

    #[inline(always)]
    fn add(&mut self, record: &Record) {
        let &Record { time, cpu, ref event } = record;
        match *event {
            Event::Switch { prev, prev_state, next } => {
                if prev == next {
                    return;
                }
                self.switches += 1;
                self.woken = IDLE;
                let cpu = &mut self.cpus[cpu as usize];
                let ns = time.saturating_sub(cpu.since);
                (cpu.pid, cpu.since) = (next, time);
                if prev != IDLE {
                    self.busy_ns += u128::from(ns);
                    self.tasks.entry(prev).switch_out(time, ns, prev_state);
                }
                if next != IDLE {
                    let place = self.tasks.place(next);
                    let task = self.tasks.at(place);
                    let waited_before = task.wait_ns;
                    let latency = task.switch_in(time);
                    self.longest_wait_ns = self.longest_wait_ns.max(task.wait_ns - waited_before);
                    if let Some(latency) = latency {
                        if let Some(counter) = task.wakeup.counter(latency) {
                            prefetch((&raw const *counter).cast());
                        }
                        self.waited.push((place, latency));
                    }
                }
            }
            Event::Waking { pid, .. } => {
                self.tasks.entry(pid).wake(time);
                self.woken = pid;
            }
            Event::Wakeup { pid, .. } => {
                self.wakeups += 1;
                // The same wake-up's other record.
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
                self.tasks.entry(pid).migrations += 1;
                let (from, to) = (self.cpus[from as usize].place, self.cpus[to as usize].place);
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
            // A pid in use again is a new task; the counters of the run keep the old one's part.
            Event::TaskNew {
                pid, prio, ref comm, ..
            } => {
                let task = self.tasks.entry(pid);
                if task.exited {
                    *task = Task::default();
                }
                task.prio = prio;
                task.comm.clone_from(comm);
            }
            Event::TaskRename { pid, ref comm } => self.tasks.entry(pid).comm.clone_from(comm),
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
            Event::Phase { .. }
            | Event::Printk { .. }
            | Event::Policy { .. }
            | Event::LockName { .. }
            | Event::DsqLength { .. } => {}
        }
    }

    /// The result: ends what still runs or waits at `run.simulated_ns`.
    pub fn result(mut self, run: Run) -> RunResult {
        let end = run.simulated_ns;
        for cpu in &self.cpus {
            if cpu.pid != IDLE {
                let ns = end.saturating_sub(cpu.since);
                self.busy_ns += u128::from(ns);
                let task = self.tasks.entry(cpu.pid);
                task.cpu_ns = task.cpu_ns.saturating_add(ns);
            }
            if let Some(since) = cpu.offline_since {
                self.offline_ns += u128::from(end.saturating_sub(since));
            }
        }
        let mut tasks = self.tasks.into_sorted();
        for (_, task) in &mut tasks {
            if let Some(latency) = task.stop_waiting(end) {
                task.wakeup.add(latency);
                self.wakeup.add(latency);
            }
            task.at = Whereabouts::Away;
        }
        let cpu_ns = (u128::from(end) * self.cpus.len() as u128).saturating_sub(self.offline_ns);
        let Migrations {
            core,
            llc,
            node,
            remote,
        } = self.migrations;
        let fairness = jain::fairness(&tasks, end);
        let callbacks = match run.callbacks.is_empty() {
            true => callback_results(&self.callbacks, &run.ops),
            false => run.callbacks,
        };
        let locks = match run.lock_waits.is_empty() {
            true => lock_results(self.locks.into_sorted(), &run.locks),
            false => by_wait(run.lock_waits),
        };
        let measured_ns = end.saturating_sub(self.measured_from);
        let throughput = Throughput {
            unit: run.unit,
            operations: self.operations,
            per_second: decimals(
                ratio(u128::from(self.operations) * 1_000_000_000, u128::from(measured_ns), 10),
                1,
            ),
        };
        let score = score(
            run.score,
            &Measured {
                ns: measured_ns,
                throughput: &throughput,
                switches: self.switches,
                responses: self.response.count(),
                response_ns: self.response.mean(),
                completed: run.completed,
            },
        );
        RunResult {
            policy: run.policy,
            machine: run.machine,
            cpus: self.cpus.len() as u64,
            workload: run.workload,
            settings: run.settings,
            kernel: run.kernel,
            seed: run.seed,
            simulated_ns: end,
            wall_ns: run.wall_ns,
            score: score.value,
            score_unit: score.unit,
            score_better: score.better,
            throughput,
            response_ns: Percentiles::of(&self.response),
            wakeup_latency_ns: Percentiles::of(&self.wakeup),
            context_switches: self.switches,
            preemptions: tasks.iter().map(|(_, task)| task.preemptions).sum(),
            migrations: core + llc + node + remote,
            migrations_by_distance: self.migrations,
            busy_percent: percent(self.busy_ns, cpu_ns),
            overhead_percent: percent(u128::from(self.overhead_ns), cpu_ns),
            overhead_ns: self.overhead_ns,
            reload_percent: percent(u128::from(run.reload_ns), cpu_ns),
            reload_ns: run.reload_ns,
            line_transfers: run.line_transfers,
            line_transfer_ns: run.line_transfer_ns,
            idle_while_waiting_ns: run.idle_while_waiting_ns,
            wakeups: self.wakeups,
            ipis: self.ipis,
            balance_moves: self.balance_moves,
            lock_wait_ns: locks.iter().fold(0, |sum, lock| sum.saturating_add(lock.wait_ns)),
            tasks_total: tasks.len() as u64,
            callbacks,
            locks: locks.into_iter().take(RunResult::TASKS).collect(),
            fairness,
            tasks: task_results(tasks),
            trace_hash: format!("{:016x}", run.trace_hash),
            checked: None,
            status: run.status,
            failed_forks: run.failed_forks,
            // What an ended policy leaves waiting needs no further evidence.
            lost_tasks: match run.status {
                Status::Ran => lost_tasks(&run.waiting, end, self.longest_wait_ns),
                Status::Ejected | Status::Refused => None,
            },
            interrupted: false,
            exit: run.exit,
        }
    }
}

fn callback_results(callbacks: &[Callback], names: &[String]) -> Vec<CallbackResult> {
    let result = |(op, callback): (usize, &Callback)| {
        let name = names.get(op).cloned().unwrap_or_else(|| format!("callback {op}"));
        CallbackResult::new(&name, callback.count, callback.insns, u64::from(callback.max))
    };
    callbacks
        .iter()
        .enumerate()
        .filter(|(_, callback)| callback.count > 0)
        .map(result)
        .collect()
}

fn lock_results(locks: Vec<(u32, Lock)>, names: &[String]) -> Vec<LockResult> {
    let result = |(number, lock): (u32, Lock)| LockResult {
        lock: names
            .get(number as usize)
            .cloned()
            .unwrap_or_else(|| format!("lock {number}")),
        waits: lock.waits,
        wait_ns: lock.ns,
        wait_max_ns: lock.max,
        ..LockResult::default()
    };
    by_wait(locks.into_iter().map(result).collect())
}

fn by_wait(mut results: Vec<LockResult>) -> Vec<LockResult> {
    // Stable: equals stay in the locks' order.
    results.sort_by_key(|lock| std::cmp::Reverse((lock.wait_ns, lock.acquisitions)));
    results
}

fn task_results(mut tasks: Vec<(u32, Task)>) -> Vec<TaskResult> {
    tasks.sort_by_key(|(_, task)| std::cmp::Reverse(task.cpu_ns));
    let result = |(pid, task): (u32, Task)| TaskResult {
        pid,
        prio: task.prio,
        cpu_ns: task.cpu_ns,
        wait_ns: task.wait_ns,
        waits: task.waits,
        switches: task.switches,
        preemptions: task.preemptions,
        migrations: task.migrations,
        wakeup_latency_p99_ns: task.wakeup.quantile(990_000),
        comm: task.comm,
    };
    tasks.into_iter().take(RunResult::TASKS).map(result).collect()
}

/// More tasks than this are not all in a host's near caches.
const MANY_TASKS: usize = 2048;

/// A wait that has ended: the task's place, ns.
type Waited = (u32, u64);

impl Summary {
    /// Asks the host's caches for what the records are about, which else would be waited for.
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

fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint, whatever the address.
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
        // Put off until the host has fetched the counters.
        for (place, ns) in self.waited.drain(..) {
            self.tasks.at(place).wakeup.add(ns);
            self.wakeup.add(ns);
        }
    }
}
