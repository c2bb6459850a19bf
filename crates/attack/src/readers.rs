// SPDX-License-Identifier: GPL-2.0-only
//! Passes inputs to the readers of the simulator, and runs what a reader accepts.

use crate::execute::{self, MODES, Mode, Size};
use crate::seeds::{self, Seeds};
use bpf::btf::Btf;
use bpf::core_relo::{Relocation, describe, resolve};
use bpf::object::Object;
use kernel::Machine;
use lab::stall::dump::Dump;
use machine::MachineSpec;
use profile::{ProfileError, Properties};
use runner::exports::Exports;
use runner::traced::Traced;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use trace::{Draw, DrawOptions, Record, Tee};
use workload::{generator, replay, rtapp, to_rtapp_json};

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

/// Returns a number that depends only on the input. It decides in which way the input is run.
fn choice(input: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    hasher.finish()
}

pub(crate) fn object(input: &[u8]) -> String {
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

pub(crate) fn btf(input: &[u8]) -> String {
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
pub(crate) fn binary(input: &[u8]) -> String {
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
