// SPDX-License-Identifier: GPL-2.0-only
//! The kinds of inputs. For each kind, this file says how an input is made from a seed and a
//! number, and which function runs the input.

use crate::execute::{self, MODES, Mode, Size};
use crate::seeds::Seeds;
use crate::{corpus, mutate, policy, readers, texts};
use random::Random;

/// InputKind of an input. It determines the meaning of the input's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InputKind {
    /// A number, which selects a hand-written attack object ([`corpus`](crate::corpus)) and one of
    /// four modes: the JIT or the interpreter, with or without the sanitizer (`--sanitize`).
    Corpus,
    /// A number, which selects one of the hand-written [`texts`].
    Text,
    /// A damaged object file.
    Object,
    /// Damaged BTF: the types of an object and those of a kernel.
    Btf,
    /// A damaged profile.
    Profile,
    /// A damaged workload file or specification of a generated workload.
    Workload,
    /// A damaged description of a machine.
    Machine,
    /// A damaged trace file.
    Trace,
    /// A damaged recording of a real machine.
    Recording,
    /// A damaged recording in a binary format.
    Binary,
    /// A damaged suite of test cases.
    Suite,
    /// A damaged debug dump of sched_ext.
    Dump,
    /// The decisions of a generator that makes hostile policies.
    Policy,
    /// A number, which selects a way to harm the child process, such as a panic. Tests use this
    /// kind to check that a campaign notices each kind of harm.
    Harm,
}

/// Limits of the resources that one input may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub cpu_seconds: u64,
    /// Maximum resident memory of the process, in bytes.
    pub resident: u64,
}

/// All kinds whose inputs are random.
pub const RANDOM: [InputKind; 11] = [
    InputKind::Object,
    InputKind::Btf,
    InputKind::Profile,
    InputKind::Workload,
    InputKind::Machine,
    InputKind::Trace,
    InputKind::Recording,
    InputKind::Binary,
    InputKind::Suite,
    InputKind::Dump,
    InputKind::Policy,
];

const NAMES: [(&str, InputKind); 14] = [
    ("corpus", InputKind::Corpus),
    ("text", InputKind::Text),
    ("object", InputKind::Object),
    ("btf", InputKind::Btf),
    ("profile", InputKind::Profile),
    ("workload", InputKind::Workload),
    ("machine", InputKind::Machine),
    ("trace", InputKind::Trace),
    ("recording", InputKind::Recording),
    ("binary", InputKind::Binary),
    ("suite", InputKind::Suite),
    ("dump", InputKind::Dump),
    ("policy", InputKind::Policy),
    ("harm", InputKind::Harm),
];

/// Size of a run of a hand-written attack. It is long enough for forks, sleeps and ticks.
const CORPUS: Size = Size {
    cpus: corpus::CPUS,
    run_ns: 12_000_000,
    budget: 400_000,
};

impl InputKind {
    pub fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(_, kind)| *kind == self)
            .map_or("", |(name, _)| name)
    }

    pub fn by_name(name: &str) -> Option<InputKind> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Returns the limits for one input. They also suffice for builds without optimisation.
    pub fn limits(self) -> Limits {
        match self {
            InputKind::Harm => Limits {
                cpu_seconds: 2,
                resident: 256 << 20,
            },
            _ => Limits {
                cpu_seconds: 30,
                resident: 3 << 30,
            },
        }
    }

    /// Returns the input number `index` of the campaign with the seed `seed`.
    pub fn make(self, seed: u64, index: u64) -> Vec<u8> {
        let mut random = Random::of_series(seed ^ (self as u64) << 48, index);
        if matches!(self, InputKind::Corpus | InputKind::Text | InputKind::Harm) {
            return index.to_le_bytes().to_vec();
        }
        let seeds = Seeds::get();
        match self {
            InputKind::Object => {
                let object = random.pick(&seeds.objects);
                mutate::object(&mut random, object)
            }
            InputKind::Btf => mutate::btf_pair(&mut random, &seeds.btf),
            InputKind::Profile => text(&mut random, &seeds.profiles, mutate::PROFILE),
            InputKind::Workload => text(&mut random, &seeds.workloads, mutate::WORKLOAD),
            InputKind::Machine => text(&mut random, &seeds.machines, mutate::MACHINE),
            InputKind::Trace => {
                let trace = random.pick(&seeds.traces);
                mutate::trace(&mut random, trace)
            }
            InputKind::Recording => text(&mut random, &seeds.recordings, mutate::RECORDING),
            InputKind::Binary => {
                let recording = random.pick(&seeds.binary);
                mutate::recording(&mut random, recording)
            }
            InputKind::Suite => text(&mut random, &seeds.suites, mutate::SUITE),
            InputKind::Dump => text(&mut random, &seeds.dumps, mutate::DUMP),
            _ => (0..64).map(|_| random.next() as u8).collect(),
        }
    }

    /// Runs an input. Returns how the run ended. Panics if the simulator has a bug.
    pub fn run(self, input: &[u8]) -> String {
        let as_text = || String::from_utf8_lossy(input).into_owned();
        match self {
            InputKind::Corpus => corpus(number(input)),
            InputKind::Text => texts::run(number(input)),
            InputKind::Object => readers::object(input),
            InputKind::Btf => readers::btf(input),
            InputKind::Profile => readers::profile(&as_text()),
            InputKind::Workload => readers::workload(&as_text()),
            InputKind::Machine => readers::machine(&as_text()),
            InputKind::Trace => readers::trace(input, "trace"),
            InputKind::Recording => readers::recording(&as_text()),
            InputKind::Binary => readers::binary(input),
            InputKind::Suite => readers::suite(&as_text()),
            InputKind::Dump => readers::dump(&as_text()),
            InputKind::Policy => policy::run(input),
            InputKind::Harm => harm(number(input)),
        }
    }
}

fn text(random: &mut Random, seeds: &[String], tokens: &[&str]) -> Vec<u8> {
    let text = random.pick(seeds);
    mutate::text(random, &text, tokens)
}

fn number(input: &[u8]) -> u64 {
    input.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns the attack and the mode that an input of [`InputKind::Corpus`] selects.
pub fn corpus_case(index: u64) -> (usize, Mode) {
    let modes = MODES.len() as u64;
    ((index / modes) as usize, MODES[(index % modes) as usize])
}

fn corpus(index: u64) -> String {
    let (attack, mode) = corpus_case(index);
    let Some((path, cpus)) = Seeds::get().corpus.get(attack) else {
        return "no such attack".to_owned();
    };
    let bytes = std::fs::read(path).unwrap_or_default();
    let size = Size { cpus: *cpus, ..CORPUS };
    let (end, hash) = execute::object(&bytes, mode, size);
    format!("{hash:016x} {end}")
}

/// Harms this process in one of the ways in which a bug of the simulator could harm it.
fn harm(number: u64) -> String {
    match number {
        1 => panic!("harm: a panic"),
        // SAFETY: abort has no preconditions. It ends the process, and the test expects this.
        2 => unsafe { libc::abort() },
        3 => loop {
            std::hint::spin_loop();
        },
        4 => {
            let filled = std::hint::black_box(vec![1u8; 384 << 20]);
            format!("{} bytes", filled.len())
        }
        5 => std::process::exit(3),
        _ => "no harm".to_owned(),
    }
}
