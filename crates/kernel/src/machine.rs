// SPDX-License-Identifier: GPL-2.0-only
//! The simulated machine. It owns the clock, the event queue, the CPUs, the tasks, the policy and
//! the random generator.

mod build;

pub use build::MachineError;

use crate::hardware::cpufreq::state::Cpufreq;
use crate::hardware::cpuidle::state::CpuIdle;
use crate::hardware::footprint::state::Caches;
use crate::hardware::memory::state::Memory;
use crate::hardware::smt::state::Smt;
use crate::hardware::turns::state::Turns;
use crate::layout::release::Release;
use crate::layout::{Layout, rq};
use crate::programs::state::native::Native;
use crate::programs::state::noise::Noise;
use crate::programs::state::resource::Sync;
use crate::sched::cgroup::state::Cgroups;
use crate::sched::ext::state::core::Core;
use crate::sched::ext::state::exit_info::Exit;
use crate::sched::ext::state::idle_masks::Idle;
use crate::sched::fair::state::domains::Domains;
use crate::sched::fair::state::numa::Numa;
use crate::sched::fair::state::sched_cache::SchedCache;
use crate::sched::fair::state::task_group::TaskGroups;
use crate::sched::nohz_full::state::NohzFull;
use crate::sched::overlap::state::Overlap;
use crate::sched::rt::state::cpupri::RootDomain;
use crate::sched::schedutil::state::Schedutil;
use crate::sched::state::rq::{Entry, Rq};
use crate::sched::state::task::{SoftTimer, Task};
use crate::simulation::cpuset::CpuSet;
use crate::simulation::event::Event;
use crate::simulation::event_queue::EventQueue;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::rng::Rng;
use crate::simulation::table::Table;
use crate::simulation::timeline::{LockId, LockStat, Locks};
use crate::watch::state::check::Checks;
use crate::watch::state::decision::Decisions;
use crate::watch::state::stepped::{Mover, Stepped};
use crate::watch::state::violation::Invariants;
use crate::watch::state::waiting::BlockedTask;
use bpf::memory::{DEFAULT_LIMIT, Region};
use machine::MachineSpec;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use trace::Record;
use workload::{Op, Workload};

/// Number of trace records that are collected before they are passed to the sink, the consumer of
/// the trace. This many records fit into the L1 cache of the computer that runs the simulation.
pub(crate) const BATCH: usize = 128;

/// A simulated machine with the workload that it executes and the policy that schedules it.
pub struct Machine {
    pub(crate) spec: MachineSpec,
    pub(crate) options: Options,
    pub(crate) workload: Workload,
    /// Programs of the workload's tasks. Several tasks can share one program.
    pub(crate) programs: Vec<Rc<[Op]>>,
    /// Whether the workload replays a recording. Its computing times then contain the kernel's
    /// work.
    pub(crate) replays: bool,
    /// Interval between two scheduler ticks, ns.
    pub(crate) tick_ns: u64,
    /// Time from the last tick before the run to the start of the run, ns.
    pub(crate) since_tick_ns: u64,
    /// Simulated time, ns since the run's start.
    pub now: u64,
    pub(crate) events: EventQueue,
    pub(crate) rqs: Table<CpuId, Rq>,
    pub(crate) tasks: Table<TaskId, Task>,
    /// Free task slots of exited tasks. The slot that was freed last is reused first.
    pub(crate) free_tasks: Vec<TaskId>,
    /// Slot of each pid's task, indexed by the pid. IDLE if the task has exited.
    pub(crate) pids: Vec<TaskId>,
    /// Sleeps with timer slack.
    pub(crate) soft_timers: Vec<SoftTimer>,
    /// Sort keys of the live tasks ([`Task::sort_key`]).
    pub(crate) threads: BTreeSet<u64>,
    pub nr_alive: u32,
    /// Name and errno of each task that could not be created, because ops.init_task() failed or
    /// because a limit of tasks or memory was reached.
    pub failed_forks: Vec<(String, i32)>,
    /// One sentence for each task that the machine ended because the task's program is an endless
    /// loop.
    pub ended_tasks: Vec<String>,
    /// CPU that executes the current event handler (smp_processor_id()).
    pub(crate) this_cpu: CpuId,
    /// How `this_cpu` entered the kernel for the current handler.
    pub(crate) entry: Entry,
    pub(crate) online_cpus: CpuSet,
    pub(crate) idle_cpus: CpuSet,
    pub(crate) rng: Rng,
    /// Memory that BPF programs can access, called the region. It contains all BPF memory, such as
    /// maps, and the simulated kernel objects that a policy can access.
    pub(crate) region: Rc<Region>,
    /// Addresses of the kernel objects in the region.
    pub(crate) layout: Layout,
    pub(crate) idle: Idle,
    pub(crate) locks: Locks,
    pub(crate) sync: Sync,
    pub(crate) noise: Noise,
    pub(crate) caches: Caches,
    pub(crate) memory: Memory,
    pub(crate) numa: Numa,
    pub(crate) sched_cache: SchedCache,
    pub(crate) smt: Smt,
    /// State of the turns of the CPUs, or `None` if they run at the same time.
    pub(crate) turns: Option<Box<Turns>>,
    pub(crate) cpufreq: Cpufreq,
    /// State of the frequency governor schedutil, if the machine uses it.
    pub(crate) schedutil: Option<Box<Schedutil>>,
    pub(crate) cpuidle: CpuIdle,
    pub(crate) nohz_full: NohzFull,
    pub(crate) domains: Domains,
    pub(crate) task_groups: TaskGroups,
    pub(crate) root_domain: RootDomain,
    pub(crate) ext: Core,
    pub(crate) cgroups: Cgroups,
    /// Requests to take a CPU offline (false) or to bring it online that have not been served yet.
    pub(crate) hotplug_requests: VecDeque<(CpuId, bool)>,
    /// Whether a CPU goes offline or comes online at the moment (cpus_write_lock).
    pub(crate) cpus_write_locked: bool,
    pub(crate) checks: Checks,
    /// Invariants that are checked during the run, or `None`.
    pub(crate) invariants: Option<Box<Invariants>>,
    /// Log of scheduling decisions. Decisions are recorded only if `Decisions::on` is set.
    pub decisions: Decisions,
    /// Whether the policy has ended and [`Options::stop_with_policy`] is set.
    pub(crate) stopped: bool,
    /// Tasks that waited for a CPU at the end of the run, longest wait first.
    pub(crate) left_waiting: Vec<TaskId>,
    /// Descriptions of the queues that contain the first of these tasks.
    pub(crate) left_on: Vec<String>,
    /// Whether the trace also contains detail records, which exist only on request
    /// (`trace::Event::is_detail`).
    pub details: bool,
    pub(crate) records: Vec<Record>,
    /// Whether any of `records` owns a string, which must be freed by dropping the record.
    pub(crate) texts: bool,
    /// Number of bytes that were charged to the memory limit for the strings in `records`.
    pub(crate) texts_bytes: u64,
    /// Log of a script that is executed step by step (`stepping`).
    pub(crate) stepped: Option<Box<Stepped>>,
    /// Part of the scheduler that is moving tasks.
    pub(crate) mover: Mover,
    /// State of callbacks that overlap, or `None` if each runs at one instant.
    pub(crate) overlap: Option<Box<Overlap>>,
    /// The program outside of the simulator whose threads are tasks of this machine, or `None`.
    pub native: Option<Box<dyn Native>>,
    /// Whether an event is pending that calls [`Native::event`].
    pub(crate) native_posted: bool,
    /// Number of handled events. Counted only in builds with debug assertions.
    pub(crate) nr_events: u64,
}

/// Properties of a run that do not belong to the machine or the workload. A plain seed converts to
/// options with this seed.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    /// Linux release against which policies are linked.
    pub release: Release,
    /// Whether policies run with the sanitizer (`bpf::sanitizer`, `--sanitize`), which enforces the
    /// rules of the kernel's verifier at run time.
    pub sanitizer: bool,
    /// Whether to record where the policy's costs come from: instructions by source line
    /// ([`bpf::engine::Vm::instruction_counts`]), transfers of cache lines by field
    /// ([`bpf::map::fields`]) and waits for locks by callback ([`Machine::lock_pairs`]). The
    /// schedule is the same.
    pub hotspots: bool,
    /// Whether the run ends as soon as the policy ends. Otherwise the fair class schedules the
    /// tasks afterwards.
    pub stop_with_policy: bool,
    /// Time of the first tick, ns after the start of the run. It is shorter than the interval
    /// between two ticks; a longer time is reduced by whole intervals. With 0, as by default, the
    /// run starts at a tick.
    pub first_tick_ns: u64,
    /// CPUs that are in no scheduling domain, so that load balancing ignores them (`isolcpus`).
    pub isolated: Vec<u32>,
    /// Maximum amount of memory of the host that the run may use, in bytes. A policy that needs
    /// more ends with an error. A task that needs more is not created.
    pub memory_limit: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seed: 1,
            release: Release::default(),
            sanitizer: false,
            hotspots: false,
            stop_with_policy: false,
            first_tick_ns: 0,
            isolated: Vec::new(),
            memory_limit: DEFAULT_LIMIT,
        }
    }
}

impl From<u64> for Options {
    fn from(seed: u64) -> Options {
        Options {
            seed,
            ..Options::default()
        }
    }
}

/// Reason why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The requested simulated time is over.
    Time,
    /// All tasks have exited.
    AllExited,
    /// The policy ended and [`Options::stop_with_policy`] was set.
    Policy,
    /// No task is runnable and no event is pending that could wake one, so the tasks that have not
    /// exited wait forever.
    Deadlock { blocked: Vec<BlockedTask> },
}

/// Enlarges the buffer of records. A function with the C calling convention cannot unwind, so its
/// callers need no code for unwinding and are faster.
#[cold]
extern "C" fn grow_records(records: &mut Vec<Record>) {
    records.reserve(BATCH);
}

impl Machine {
    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn tick_ns(&self) -> u64 {
        self.tick_ns
    }

    /// Returns the number of ticks since the start of the run. A tick at the start is not counted.
    pub(crate) fn jiffies(&self) -> u64 {
        (self.now + self.since_tick_ns) / self.tick_ns
    }

    /// Returns an iterator over all CPUs of the machine, including offline CPUs.
    pub fn cpus(&self) -> impl DoubleEndedIterator<Item = CpuId> + ExactSizeIterator + use<> {
        self.rqs.ids()
    }

    /// Returns the CPU with the number `nr`, or `None` if the machine has no such CPU.
    #[inline]
    pub fn cpu_id(&self, nr: impl TryInto<usize>) -> Option<CpuId> {
        self.rqs.id(nr.try_into().ok()?)
    }

    /// Returns the CPU with the number `nr`, which comes from the workload or from the user. Such
    /// numbers are checked before, for example by [`Machine::new`], so the CPU exists.
    pub(crate) fn named_cpu(&self, nr: u32) -> CpuId {
        self.cpu_id(nr)
            .expect("CPU numbers from the workload and the user are checked before")
    }

    /// Returns an iterator over the hardware threads of a CPU's core, including the CPU itself.
    pub(crate) fn siblings(&self, cpu: CpuId) -> impl Iterator<Item = CpuId> + '_ {
        let siblings = self.spec.topology.siblings(cpu.nr());
        siblings.iter().filter_map(|&sibling| self.cpu_id(sibling))
    }

    pub fn nr_cpus(&self) -> u32 {
        self.rqs.len() as u32
    }

    /// Adds a trace record whose event contains a text.
    pub(crate) fn trace_text(&mut self, cpu: CpuId, event: trace::Event) {
        self.trace(cpu, event);
        self.texts = true;
    }

    /// Adds a trace record whose event contains no text.
    #[inline(always)]
    pub(crate) fn trace(&mut self, cpu: CpuId, event: trace::Event) {
        let nr = self.records.len();
        if nr == self.records.capacity() {
            grow_records(&mut self.records);
        }
        let time = self.now;
        // This is `after(local_time(cpu))`, written out.
        let after = self.after(self.rqs[cpu].free_at);
        // SAFETY: the capacity was checked above. `Vec::push` would be slower here. Because it
        // could unwind, the compiler would first build the record elsewhere in small stores, and
        // then copy it with wider loads that have to wait for those stores.
        unsafe {
            self.records.as_mut_ptr().add(nr).write(Record {
                time,
                cpu: cpu.nr(),
                after,
                event,
            });
            self.records.set_len(nr + 1);
        }
    }

    /// Returns the description of the machine.
    pub fn spec(&self) -> &MachineSpec {
        &self.spec
    }

    /// Returns the memory that BPF programs can access.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Returns the kernel objects in the region.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the state of sched_ext.
    pub fn ext(&self) -> &Core {
        &self.ext
    }

    /// Returns the state of NUMA balancing.
    pub fn numa(&self) -> &Numa {
        &self.numa
    }

    /// Returns the state of the cgroups.
    pub fn cgroups(&self) -> &Cgroups {
        &self.cgroups
    }

    /// Sets the exit record that results show for the policy that ended last.
    pub fn set_exit(&mut self, exit: Exit) {
        self.ext.exit = Some(exit);
    }

    /// Returns all locks with their statistics, in the order of the lock indexes in `LockWait`
    /// records.
    pub fn locks(&self) -> impl Iterator<Item = (LockId, LockStat)> + '_ {
        self.locks.stats()
    }

    /// Schedules a hotplug event at the time `at` in ns. `cpu` comes online if `online` is set,
    /// otherwise it goes offline.
    pub fn plan_hotplug(&mut self, at: u64, cpu: u32, online: bool) {
        let cpu = self.named_cpu(cpu);
        self.events.push(at, Event::Hotplug { cpu, online });
    }

    /// Returns the runqueues, in the order of the CPUs.
    pub fn rqs(&self) -> &[Rq] {
        &self.rqs
    }

    /// Returns the `struct rq` of a CPU, as a policy sees it.
    pub fn rq_struct(&self, cpu: u32) -> Option<&rq> {
        self.cpu_id(cpu).map(|cpu| self.layout.rq_struct(cpu))
    }

    /// Returns all tasks, with those that have exited and whose slots have not been reused.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Sets the nesting depth of migrate_disable() of the live task with this pid, if there is one.
    /// Like migrate_disable(), this changes only the depth and does not inform the scheduler.
    pub fn set_migration_disabled(&mut self, pid: u32, depth: u16) {
        if let Some(task) = self.find_task(pid) {
            self.tasks[task].task_struct.migration_disabled = depth;
        }
    }

    /// Returns how long CPUs were idle although a task waited that could have run there, summed over
    /// all CPUs, in ns.
    pub fn idle_while_waiting_ns(&self) -> u64 {
        self.checks.idle_while_waiting_ns
    }

    /// Ends the checks that [`Machine::watch`] started, and returns the violations that they found.
    /// There are none if the invariants are not checked.
    pub fn take_violations(&mut self) -> Invariants {
        self.invariants.take().map_or_else(Invariants::default, |found| *found)
    }

    pub(crate) fn pid_of(&self, task: TaskId) -> u32 {
        if task == IDLE { 0 } else { self.tasks[task].pid() }
    }

    /// Returns the live task with a pid.
    pub fn task(&self, pid: u32) -> Option<&Task> {
        self.find_task(pid).map(|task| &self.tasks[task])
    }

    /// Returns the live task with a pid (find_task_by_pid_ns()).
    pub(crate) fn find_task(&self, pid: u32) -> Option<TaskId> {
        self.pids.get(pid as usize).copied().filter(|&task| task != IDLE)
    }
}
