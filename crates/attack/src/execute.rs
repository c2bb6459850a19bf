// SPDX-License-Identifier: GPL-2.0-only
//! Runs one policy object on a small simulated machine. The object is an attack: hostile input that
//! tries to crash or exhaust the simulator.

use bpf::engine::Engine;
use bpf::link::Image;
use bpf::object::Object;
use kernel::ext::{self, Exit, ExitKind};
use kernel::load::{LoadError, attach, open_changed};
use kernel::{Machine, Options};
use machine::MachineSpec;
use profile::Profile;
use trace::{Hash, Record, Sink};
use workload::Workload;

/// The engine that executes a policy, and whether the sanitizer (`--sanitize`) checks the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    pub engine: Engine,
    pub checked: bool,
}

/// All combinations of an engine and the sanitizer.
pub const MODES: [Mode; 4] = [
    Mode {
        engine: Engine::Interpreter,
        checked: false,
    },
    Mode {
        engine: Engine::Jit,
        checked: false,
    },
    Mode {
        engine: Engine::Interpreter,
        checked: true,
    },
    Mode {
        engine: Engine::Jit,
        checked: true,
    },
];

/// Size of a run: number of CPUs, simulated time, and limit on instructions.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub cpus: u32,
    pub run_ns: u64,
    /// Maximum number of instructions that a callback may execute.
    pub budget: u64,
}

/// Maximum memory of a run in bytes. Attacks try to exceed it.
const MEMORY: u64 = 256 << 20;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The object or the policy was refused. The text is the reason.
    Refused(String),
    /// The policy was ejected during the run. The text contains the kind and the message of the
    /// exit.
    Ejected(String),
    /// The policy was still loaded at the end of the run.
    Runs,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Refused(message) => write!(f, "refused: {message}"),
            End::Ejected(message) => write!(f, "ejected: {message}"),
            End::Runs => f.write_str("runs"),
        }
    }
}

/// The workload with which the attacks run. Its tasks run, sleep, fork and wait for each other.
/// They also change their nice values and their affinities.
pub(crate) const WORKLOAD: &str = r#"{
  "tasks": {
    "busy": {"instance": 3, "loop": -1, "run": 700, "sleep": 300},
    "pinned": {"loop": -1, "cpus": [1], "run": 300, "sleep": 900},
    "moves": {"loop": -1, "phases": {
      "first": {"loop": 3, "cpus": [0, 1], "priority": -10, "run": 200, "sleep": 100},
      "second": {"loop": 3, "cpus": [2], "priority": 15, "run": 200, "sleep": 100}}},
    "forks": {"loop": 4, "fork": "child", "run": 500, "sleep": 800},
    "child": {"instance": 0, "loop": 2, "run": 300},
    "posts": {"loop": -1, "run": 50, "sem_post": "s", "sleep": 200},
    "waits": {"loop": -1, "sem_wait": "s", "run": 50},
    "fifo": {"policy": "SCHED_FIFO", "loop": -1, "run": 100, "sleep": 5000}
  },
  "resources": {"s": {"type": "semaphore", "value": 0}}
}"#;

/// Returns the workload with which the attacks run.
pub fn workload() -> Workload {
    workload::rtapp::read(WORKLOAD, "attack.json").unwrap_or_else(|error| panic!("{error}"))
}

/// A sink (consumer of records) that computes the trace hash, which is the hash of all records of a
/// run. It keeps no records.
#[derive(Default)]
struct HashOnly(Hash);

impl Sink for HashOnly {
    fn take(&mut self, records: &[Record]) {
        records.iter().for_each(|record| self.0.add(record));
    }
}

/// Runs an object. Returns how the run ended, and the trace hash.
pub fn object(bytes: &[u8], mode: Mode, size: Size) -> (End, u64) {
    match Object::parse(bytes, "attack.bpf.o") {
        Ok(object) => changed(&object, mode, size, |_| {}),
        Err(error) => (End::Refused(error.to_string()), 0),
    }
}

/// Lets `change` modify the linked code of a parsed object, and runs the object. Returns how the
/// run ended, and the trace hash.
pub fn changed(object: &Object, mode: Mode, size: Size, change: impl FnOnce(&mut Image)) -> (End, u64) {
    let options = Options {
        sanitizer: mode.checked,
        memory_limit: MEMORY,
        ..Options::default()
    };
    let mut m =
        Machine::new(MachineSpec::smp(size.cpus), workload(), options).unwrap_or_else(|error| panic!("{error}"));
    let profile = Profile::default();
    let (image, policy) = match open_changed(&m, object, &profile, mode.engine, change) {
        Ok(opened) => opened,
        Err(error) => return (End::Refused(error.to_string()), 0),
    };
    policy.vm().set_budget(size.budget);
    let mut sink = HashOnly::default();
    let mut end = None;
    match attach(&mut m, &image, policy, &profile) {
        Ok(()) => {}
        Err(LoadError::Input(error)) => return (End::Refused(error.to_string()), 0),
        Err(LoadError::Refused(exit)) => end = Some(End::Refused(formatted(&exit))),
    }
    m.run(size.run_ns, &mut sink);
    let end = end
        .or_else(|| m.ext().exit.as_ref().map(|exit| End::Ejected(formatted(exit))))
        .unwrap_or(End::Runs);
    // If the policy is still loaded, it is unloaded, as at the end of a command.
    ext::unload(&mut m);
    m.verify();
    (end, sink.0.value())
}

/// Formats an exit record as the command does. This tests that the formatting of messages
/// withstands hostile messages.
fn formatted(exit: &Exit) -> String {
    let text = exit.to_string();
    // A policy that ends itself may give no message.
    let by_itself = matches!(
        exit.kind,
        ExitKind::None | ExitKind::Unreg | ExitKind::UnregBpf | ExitKind::ErrorBpf
    );
    assert!(
        by_itself || !exit.message.is_empty(),
        "an exit without a reason: {text}"
    );
    format!("{}: {}", exit.kind.name(), exit.message)
}
