// SPDX-License-Identifier: GPL-2.0-only
//! The kinds of inputs. For each kind, this file says how an input is made from a seed and a
//! number, and how the input is run.

use crate::execute::{self, MODES, Mode, Size};
use crate::seeds::Seeds;
use crate::{corpus, mutate, policy, seeds, texts};
use bpf::btf::Btf;
use bpf::core_relo::{Relocation, describe, resolve};
use bpf::object::Object;
use kernel::Machine;
use lab::stall::dump::Dump;
use machine::MachineSpec;
use profile::{ProfileError, Properties};
use random::Random;
use runner::exports::Exports;
use runner::traced::Traced;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use trace::{Draw, DrawOptions, Record, Tee};
use workload::{generator, replay, rtapp, to_rtapp_json};

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
/// Size of a run of a damaged object.
const DAMAGED: Size = Size {
    cpus: 3,
    run_ns: 3_000_000,
    budget: 50_000,
};
/// Maximum simulated time of a test case in a suite, in ns.
const SUITE_NS: u64 = 20_000_000;
/// Maximum number of CPUs of a machine that is run. A larger machine is only read and checked,
/// because a run of it may take much time and memory even without any bug.
const MAX_CPUS: u32 = 128;
/// Maximum number of tasks of a workload that is run. A larger workload is only read and checked,
/// for the same reason.
const MAX_TASKS: usize = 2000;

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
            InputKind::Object => object(input),
            InputKind::Btf => btf(input),
            InputKind::Profile => profile(&as_text()),
            InputKind::Workload => workload(&as_text()),
            InputKind::Machine => machine(&as_text()),
            InputKind::Trace => trace(input, "trace"),
            InputKind::Recording => recording(&as_text()),
            InputKind::Binary => binary(input),
            InputKind::Suite => suite(&as_text()),
            InputKind::Dump => dump(&as_text()),
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

/// Returns a number that depends only on the input. It decides in which way the input is run.
fn choice(input: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    hasher.finish()
}

fn object(input: &[u8]) -> String {
    let mut object = match Object::parse(input, "damaged.bpf.o") {
        Ok(object) => object,
        Err(error) => return format!("refused: {error}"),
    };
    let names: Vec<String> = object
        .variables()
        .iter()
        .map(|variable| variable.name.clone())
        .collect();
    for name in &names {
        let value = object.get(name).unwrap_or_default();
        let _ = object.set(name, &value);
    }
    // The two engines must have the same result. Compilation takes most of the time, so only one
    // input in eight runs on both.
    let checked = choice(input) % 16 >= 8;
    let interpreted = execute::changed(
        &object,
        Mode {
            engine: MODES[0].engine,
            checked,
        },
        DAMAGED,
        |_| {},
    );
    if choice(input).is_multiple_of(8) {
        let compiled = execute::changed(
            &object,
            Mode {
                engine: MODES[1].engine,
                checked,
            },
            DAMAGED,
            |_| {},
        );
        assert!(
            interpreted == compiled,
            "the engines differ: {interpreted:?} or {compiled:?}"
        );
    }
    interpreted.0.to_string()
}

fn btf(input: &[u8]) -> String {
    let Some((&[low, high], rest)) = input.split_first_chunk() else {
        return "empty".to_owned();
    };
    let split = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
    let (local, target) = rest.split_at(split);
    let Ok(local) = Btf::parse(local) else {
        return "refused".to_owned();
    };
    let written = local.encode();
    let again = Btf::parse(&written).expect("the written BTF can be parsed");
    assert_eq!(again.encode(), written);
    for id in 0..local.len().min(64) {
        let _ = (local.size_of(id), local.c_name(id), local.c_definition(id));
    }
    let mut target = Btf::parse(target).unwrap_or_else(|_| local.clone());
    target.index();
    for ty in 0..local.len().min(32) {
        for kind in 0..13 {
            for access in ["0", "0:0", "0:1", "0:0:0", "1:2:3", "4294967295:4294967295"] {
                if let Ok(relocation) = Relocation::new(ty, access, kind) {
                    let _ = resolve(&local, &target, &relocation);
                    let _ = describe(&local, &relocation);
                }
            }
        }
    }
    "read".to_owned()
}

/// Writes an input to a file, for readers that need a path. Each process has its own directory.
fn file(bytes: &[u8], name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("attack-{}", std::process::id()));
    let path = folder.join(name);
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&path, bytes))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path
}

pub(crate) fn profile(text: &str) -> String {
    let path = file(text.as_bytes(), "damaged.toml");
    let profile = match runner::profiles::read(&path) {
        Ok(profile) => profile,
        Err(error) => return format!("refused: {error}"),
    };
    let spec = MachineSpec::smp(4);
    let mut object = Seeds::get().parsed.clone();
    let applied = profile.apply(&mut object, Properties::new(&spec, &kernel::release::Release::MODELLED));
    // Evaluates every expression of the profile, even if the object lacks the variable that the
    // expression would set.
    let facts = Properties::new(&spec, &kernel::release::Release::MODELLED).with_types(object.btf());
    let names = profile.names(facts).unwrap_or_default();
    let settings = profile.set.iter().chain(&profile.map);
    let settings = settings.chain(profile.run.iter().flat_map(|run| &run.memory));
    for setting in settings.take(1000) {
        let _ = setting.each(facts.with_results(&names), &mut |_, _| Ok::<(), ProfileError>(()));
    }
    for (_, value) in profile.ops.iter().chain(&profile.resize).chain(&profile.max_entries) {
        let _ = facts.with_results(&names).value(value);
    }
    for run in &profile.run {
        let _ = run.context(facts);
        let _ = facts.holds(&run.when);
    }
    match applied {
        Ok(()) => "applied".to_owned(),
        Err(message) => format!("read, refused: {message}"),
    }
}

pub(crate) fn workload(text: &str) -> String {
    let (read, place) = match text.trim_start().starts_with('{') {
        true => (rtapp::read(text, "damaged.json"), "damaged.json"),
        false => (generator::generate(text), text),
    };
    let workload = match read {
        Ok(workload) => workload,
        Err(error) => {
            assert!(error.place == place && !error.message.is_empty(), "{error:?}");
            return format!("refused: {error}");
        }
    };
    workload.check().unwrap_or_else(|error| panic!("{error}"));
    if let Ok(first) = to_rtapp_json(&workload) {
        let again = rtapp::read(&first, "written.json").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(to_rtapp_json(&again).as_ref(), Ok(&first));
    }
    if workload.tasks.len() > MAX_TASKS {
        return format!("{} tasks", workload.tasks.len());
    }
    simulate(MachineSpec::smp(8), workload, 2_000_000)
}

/// Runs a workload under the fair class, without a policy.
fn simulate(spec: MachineSpec, workload: workload::Workload, run_ns: u64) -> String {
    match Machine::new(spec, workload, 1) {
        Ok(mut machine) => {
            let mut records: Vec<Record> = Vec::new();
            let ended = machine.run(run_ns, &mut records);
            let words = format!("{ended:?}");
            words.split(' ').next().unwrap_or_default().to_owned()
        }
        Err(message) => format!("refused: {message}"),
    }
}

pub(crate) fn machine(text: &str) -> String {
    let definition = match text.trim_start().as_bytes().first() {
        Some(b'<') => machine::from_xml("damaged.xml", text),
        _ if text.contains('=') && text.contains('\n') => machine::from_toml("damaged", text),
        _ => machine::from_synthetic(text),
    };
    let definition = match definition {
        Ok(definition) => definition,
        Err(error) => {
            assert!(!error.message.is_empty(), "{error:?}");
            return format!("refused: {error}");
        }
    };
    let _ = machine::show(&definition);
    let nr_cpus = definition.spec.topology.nr_cpus();
    assert!((1..=machine::MAX_CPUS).contains(&nr_cpus));
    if nr_cpus > MAX_CPUS {
        return format!("{nr_cpus} CPUs");
    }
    simulate(definition.spec, seeds::small_workload(), 2_000_000)
}

pub(crate) fn trace(input: &[u8], name: &str) -> String {
    read_trace(&file(input, name))
}

/// Reads a trace or recording, and writes everything that can be made of it.
fn read_trace(path: &Path) -> String {
    let traced = match Traced::open(path, None) {
        Ok(traced) => traced,
        Err(error) => return format!("refused: {error}"),
    };
    let named = |name: &str| Some(path.with_file_name(name));
    let exports = Exports {
        perfetto: named("damaged.perfetto"),
        ftrace: named("damaged.ftrace"),
    };
    let mut exporting = exports.start(&traced.header).unwrap_or_else(|error| panic!("{error}"));
    let options = DrawOptions {
        from: 0,
        to: 1_000_000,
        step: 10_000,
        width: 100,
        list: true,
    };
    let mut draw = Draw::new(options, traced.header.cpus.len().min(256)).ok();
    let mut latency = report::Latency::new(traced.header.cpus.len());
    let mut timehist = report::Timehist::new(Vec::new(), traced.header.cpus.len());
    let mut schedstat = report::Schedstat::new(&traced.header.cpus);
    let mut scan = lab::page::scan(&traced.header, None, 1);
    let header = traced.header.clone();
    let mut tee = Tee::new()
        .with(&mut exporting)
        .with(&mut latency)
        .with(&mut timehist)
        .with(&mut schedstat)
        .with(&mut scan);
    if let Some(draw) = &mut draw {
        tee = tee.with(draw);
    }
    let result = traced.summarise(&mut tee, &mut |_| {});
    let end = result.as_ref().map_or(1, |result| result.simulated_ns);
    let _ = exporting.finish(end);
    safe(&draw.map(|draw| draw.finish(end)).unwrap_or_default());
    safe(&latency.finish(end));
    safe(&schedstat.finish(end, 250));
    let _ = timehist.finish();
    match result {
        Ok(result) => {
            safe(&report::details(&result, false));
            safe(&report::table(std::slice::from_ref(&result), false));
            let page = lab::page::finish_run(&header, scan, result, None);
            let page = report::html::page(&[page], &[]);
            assert!(!page.contains(SCRIPT), "a script of the trace is in the page");
            "read".to_owned()
        }
        Err(error) => format!("refused: {error}"),
    }
}

/// Start of a task name in the trace files. The HTML page must escape it, so that the browser does
/// not execute it as a script.
const SCRIPT: &str = "<script>attack";

/// Panics if a printed text contains a control character, because a terminal would execute it.
fn safe(text: &str) {
    let bad = text.chars().find(|&c| c.is_control() && c != '\n');
    assert!(bad.is_none(), "{bad:?} would reach the terminal");
}

pub(crate) fn recording(text: &str) -> String {
    if let Ok(recording) = trace::recording::read(text) {
        assert!(recording.records.is_sorted_by_key(|record| record.time));
        if let Ok(workload) = replay::from_records(&recording.records, None, "damaged.txt") {
            workload.check().unwrap_or_else(|error| panic!("{error}"));
            if workload.tasks.len() <= MAX_TASKS {
                simulate(MachineSpec::smp(4), workload, 1_000_000);
            }
        }
    }
    trace(text.as_bytes(), "recording")
}

/// Reads a recording in a binary format, and replays it.
fn binary(input: &[u8]) -> String {
    let path = match input.strip_prefix(seeds::CTF) {
        None => file(input, "recording.bin"),
        Some(trace) => {
            let (length, trace) = trace.split_first_chunk().unwrap_or((&[0; 4], &[]));
            let length = trace.len().min(u32::from_le_bytes(*length) as usize);
            let (metadata, stream) = trace.split_at(length);
            file(metadata, "metadata");
            file(stream, "stream_0").with_file_name("")
        }
    };
    if let Ok(recording) = trace::recording::open(&path)
        && let Ok(workload) = replay::from_records(&recording.records, None, "damaged.bin")
    {
        workload.check().unwrap_or_else(|error| panic!("{error}"));
    }
    let end = read_trace(&path);
    if input.starts_with(seeds::CTF) {
        let _ = std::fs::remove_dir_all(&path);
    }
    end
}

/// Reads a debug dump, and makes the first cases of a search for the same stall.
pub(crate) fn dump(text: &str) -> String {
    let dump = match Dump::read("damaged.txt", text) {
        Ok(dump) => dump,
        Err(error) => return format!("refused: {error}"),
    };
    safe(&lab::stall::describe(&dump));
    let rebuilt = match lab::stall::rebuild(&dump) {
        Ok(rebuilt) => rebuilt,
        Err(error) => {
            safe(&error.to_string());
            return format!("refused: {error}");
        }
    };
    for number in 0..4 {
        let case = rebuilt.space.case(1, number);
        machine::from_synthetic(&case.machine).unwrap_or_else(|error| panic!("{error}"));
        let workload = case.workload().unwrap_or_else(|error| panic!("{error}"));
        assert!(workload.is_some_and(|workload| !workload.tasks.is_empty()));
    }
    "rebuilt".to_owned()
}

pub(crate) fn suite(text: &str) -> String {
    let path = file(text.as_bytes(), "suite.toml");
    let suite = match lab::suite::Suite::read(&path, kernel::release::Release::MODELLED) {
        Ok(suite) => suite,
        Err(error) => return format!("refused: {error}"),
    };
    let mut ends = Vec::new();
    for case in suite.cases.iter().take(4) {
        let result = case.run(&Seeds::get().objects_folder, MODES[0].engine, SUITE_NS);
        ends.push(result.err().map_or_else(String::new, |error| error.to_string()));
    }
    format!("run: {}", ends.join("; "))
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
