// SPDX-License-Identifier: GPL-2.0-only
//! The program: its threads, and how the machine continues them.

use input::Error;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;

use kernel::Machine;
use kernel::native::{self, Native, NativeTurn as Turn};

use crate::answer::Reply;
use crate::bpf::Bpf;
use crate::files::Files;
use crate::files::tree::Tree;
use crate::host::{self, Call, Host, Stop};
use crate::memory::SharedMemory;
use crate::report::Report;
use crate::settings::Settings;
use crate::wait::Wait;
use ::bpf::engine::World;

/// CPU time of the program's own code between two system calls, ns at the capacity 1024. It is an
/// estimate: a user-space scheduler executes some thousand instructions between two calls.
const USER_NS: u64 = 2_000;
/// Time of a system call beside its entry and exit, which the machine's cost table has, ns.
const KERNEL_NS: u64 = 300;
/// Real time at the start of each run, ns since 1970: 2026-01-01.
pub(crate) const EPOCH_NS: u64 = 1_767_225_600_000_000_000;
/// Largest number of threads of a program.
pub(crate) const THREADS: usize = 512;
/// Number of system calls before the policy is attached, after which the program counts as hanging.
const LOADING_CALLS: u64 = 20_000_000;
/// Number of system calls between two checks of the shared memory.
const MEMORY_CHECK: u64 = 1 << 14;

/// A thread of the program.
pub(crate) struct Thread {
    /// Pid of its task in the machine.
    pub pid: u32,
    /// Id on the host.
    pub tid: i32,
    /// The system call that it makes.
    pub call: Call,
    pub wait: Option<Wait>,
    /// Whether it has given up the CPU in the current call.
    pub yielded: bool,
    /// Address that is cleared when the thread exits.
    pub clear_tid: u64,
    pub exited: bool,
}

/// Work that must wait until no CPU executes kernel code.
pub(crate) enum Deferred {
    /// Enable the policy for the link with this number. The thread waits for the result.
    Attach {
        link: usize,
        pid: u32,
    },
    /// Disable the policy.
    Detach {
        pid: u32,
    },
    Affinity {
        pid: u32,
        cpus: Vec<u32>,
    },
    Policy {
        pid: u32,
        policy: workload::SchedPolicy,
    },
}

/// A running program.
pub(crate) struct Program {
    pub host: Host,
    pub files: Files,
    pub tree: Tree,
    pub threads: Vec<Thread>,
    pub bpf: Bpf,
    pub shared: SharedMemory,
    /// The file with the shared memory.
    pub shared_file: File,
    pub deferred: VecDeque<Deferred>,
    pub report: Rc<RefCell<Report>>,
    pub settings: Settings,
    /// The program's file, as an absolute path.
    pub path: PathBuf,
    /// Files of the host that the command line names.
    pub named_files: Vec<PathBuf>,
    pub random: u64,
    pub nr_calls: u64,
    calls: BTreeMap<i64, u64>,
    /// Whether the run has begun. Before, the program loads its policy, which takes no time.
    pub live: bool,
    /// Whether the machine is executing a step of a thread.
    pub in_run: bool,
    /// The settings that were recorded so far.
    pub recording: Option<crate::record::Recording>,
    /// Number of hotplug events for which `tree` describes the CPUs.
    pub hotplug_seq: u64,
    /// Results of deferred work, by the pid of the thread that waits for it.
    pub results: BTreeMap<u32, i64>,
}

/// Starts a program on a machine on which nothing has happened yet. The program runs until it has
/// attached its policy, or until all its threads wait. This takes no simulated time. Afterwards its
/// threads are tasks of the machine.
///
/// # Errors
/// The program cannot be started, or it fails before it has attached a policy.
pub fn start(machine: &mut Machine, settings: Settings) -> Result<Rc<RefCell<Report>>, Error> {
    let report = Rc::new(RefCell::new(Report {
        echo: settings.echo,
        ..Report::default()
    }));
    let command = settings.command.first().cloned().unwrap_or_default();
    let path = crate::files::paths::find_program(&command)?;
    let named_files = crate::files::paths::named_files(&settings.command);
    let seed = machine.options().seed;
    let started = host::start(&path, &settings.command, seed).map_err(Error::new)?;
    let shared_file = started.shared.try_clone().map(File::from);
    let shared_file = shared_file.map_err(|error| format!("the shared memory: {error}"))?;
    let pid = native::start(machine, settings.index).ok_or("the machine cannot create the program's first task")?;
    let tid = started.pid;
    let first = Thread {
        pid,
        tid,
        call: Call { nr: -1, args: [0; 6] },
        wait: None,
        yielded: false,
        clear_tid: 0,
        exited: false,
    };
    let mut program = Program {
        host: Host::new(started),
        files: Files::new(),
        tree: Tree::default(),
        threads: vec![first],
        bpf: Bpf::new(&path, &named_files)?,
        shared: SharedMemory::default(),
        shared_file,
        deferred: VecDeque::new(),
        report: Rc::clone(&report),
        settings,
        path,
        named_files,
        random: seed,
        nr_calls: 0,
        calls: BTreeMap::new(),
        live: false,
        in_run: false,
        recording: None,
        hotplug_seq: 0,
        results: BTreeMap::new(),
    };
    crate::files::paths::fill(&mut program, machine);
    program.resume(machine, 0);
    program.load(machine);
    program.count_calls();
    let refused = report.borrow().refused_policy.is_some();
    let message = report.borrow().message(&command);
    if let Some(message) = message.filter(|_| !refused) {
        return Err(Error::new(message));
    }
    program.live = true;
    machine.native = Some(Box::new(program));
    Ok(report)
}

impl Program {
    /// Lets the program load its policy. The threads run one after the other, each until it waits.
    fn load(&mut self, m: &mut Machine) {
        loop {
            let mut progress = false;
            for t in 0..self.threads.len() {
                while !self.failed() && !self.bpf.attached && !self.threads[t].exited {
                    match self.answer(m, t) {
                        Reply::Result(result) => self.finish(m, t, result),
                        Reply::Yield => self.finish(m, t, 0),
                        Reply::Resumed => {}
                        // Work that the thread waits for may be due.
                        Reply::Wait(_) if self.deferred.is_empty() => break,
                        Reply::Wait(_) => {}
                        Reply::Exit => self.threads[t].exited = true,
                        Reply::Fail(message) => self.fail(m, message),
                    }
                    self.do_deferred(m);
                    progress = true;
                    if self.nr_calls > LOADING_CALLS {
                        self.fail(m, "it makes system calls without end before it attaches a policy");
                    }
                }
            }
            if !progress || self.failed() || self.bpf.attached {
                return;
            }
        }
    }

    pub fn failed(&self) -> bool {
        let report = self.report.borrow();
        report.failure.is_some()
    }

    /// Ends the run with an error.
    pub fn fail(&mut self, m: &mut Machine, message: impl std::fmt::Display) {
        let mut report = self.report.borrow_mut();
        report.failure.get_or_insert(message.to_string());
        native::stop(m);
    }

    /// Returns the program's clock, which is also that of BPF programs, in ns.
    pub fn now(&self, m: &Machine) -> u64 {
        World::now_ns(m)
    }

    /// Returns the index of the thread with a pid.
    pub fn thread(&self, pid: u32) -> Option<usize> {
        self.threads
            .iter()
            .position(|thread| thread.pid == pid && !thread.exited)
    }

    /// Ends the system call of a thread with a result, and continues the thread up to its next call.
    pub fn finish(&mut self, m: &mut Machine, t: usize, result: i64) {
        if let Err(error) = self.host.set_result(self.threads[t].tid, result) {
            return self.fail(m, error);
        }
        self.resume(m, t);
    }

    /// Continues a thread up to its next call.
    pub fn resume(&mut self, m: &mut Machine, t: usize) {
        let thread = &mut self.threads[t];
        (thread.wait, thread.yielded) = (None, false);
        loop {
            let tid = self.threads[t].tid;
            match self.host.resume(tid) {
                Ok(Stop::Call(call)) => {
                    self.threads[t].call = call;
                    self.nr_calls += 1;
                    *self.calls.entry(call.nr).or_insert(0) += 1;
                    return;
                }
                Ok(Stop::Counter(with_cpu)) => {
                    let cpu = kernel::native::this_cpu(m);
                    // A counter of 1 GHz.
                    let now = self.now(m);
                    if let Err(error) = self.host.set_counter(tid, now, with_cpu, cpu) {
                        return self.fail(m, error);
                    }
                }
                Err(error) => return self.fail(m, error),
            }
        }
    }

    /// Marks a file as changed, and returns the threads that wait for it or for something else that
    /// has become ready.
    pub fn ready_threads(&mut self, m: &Machine) -> Vec<u32> {
        let now = self.now(m);
        let ready = |t: &usize| self.may_continue(*t, now);
        let ready: Vec<usize> = (0..self.threads.len()).filter(ready).collect();
        ready.into_iter().map(|t| self.threads[t].pid).collect()
    }

    /// Wakes the threads that wait for something that has become ready. Called after a system call
    /// that may have made something ready.
    pub fn wake_ready(&mut self, m: &mut Machine) {
        if !self.live {
            return;
        }
        for pid in self.ready_threads(m) {
            native::wake(m, pid);
        }
    }

    /// Puts the numbers of calls into the report.
    fn count_calls(&mut self) {
        let mut report = self.report.borrow_mut();
        report.calls = self
            .calls
            .iter()
            .map(|(&nr, &count)| (crate::answer::name(nr), count))
            .collect();
    }

    fn check_memory(&mut self, m: &mut Machine) {
        if self.nr_calls.is_multiple_of(MEMORY_CHECK) {
            let (used, limit) = (self.host.shared_bytes(), m.region().memory().limit());
            if used > limit {
                let limit = limit >> 20;
                self.fail(
                    m,
                    format!("its maps and arenas use more than the memory limit of the run, {limit} MiB"),
                );
            }
        }
    }
}

impl Native for Program {
    fn run(&mut self, m: &mut Machine, pid: u32) -> Turn {
        let Some(t) = self.thread(pid) else {
            return Turn::Exit;
        };
        if self.failed() {
            return Turn::Block { until_ns: None };
        }
        self.follow_hotplug(m);
        self.in_run = true;
        let reply = self.answer(m, t);
        self.in_run = false;
        if matches!(reply, Reply::Wait(_)) {
            self.record_wait(m, pid);
        }
        self.check_memory(m);
        let run = Turn::Run {
            user_ns: USER_NS,
            kernel_ns: KERNEL_NS + u64::from(m.spec().costs.syscall_ns),
        };
        match reply {
            Reply::Result(result) => {
                self.finish(m, t, result);
                run
            }
            Reply::Resumed => run,
            Reply::Wait(until_ns) => Turn::Block { until_ns },
            Reply::Yield => Turn::Yield,
            Reply::Exit => {
                self.threads[t].exited = true;
                Turn::Exit
            }
            Reply::Fail(message) => {
                self.fail(m, message);
                Turn::Block { until_ns: None }
            }
        }
    }

    fn event(&mut self, m: &mut Machine) -> Vec<u32> {
        self.note_rings();
        self.do_deferred(m);
        self.ready_threads(m)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.count_calls();
    }
}
