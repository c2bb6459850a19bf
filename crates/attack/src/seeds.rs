// SPDX-License-Identifier: GPL-2.0-only
//! Seeds: the valid inputs that attacks damage. They are objects and other files of the repository.
//! (The seed of a campaign is something else: the number from which random numbers are made.)

#[path = "../../trace/tests/integration/written.rs"]
mod written;

use crate::execute::WORKLOAD;
use crate::{compile, corpus};
use bpf::object::Object;
use kernel::Machine;
use machine::MachineSpec;
use report::RunResult;
use runner::traced::{self, Traced};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use trace::{Header, Tee, Writer};
use workload::{Dist, Op, Tasks, Workload};

/// Sources of the objects. They are policies, and programs from tests that have all kinds of maps,
/// special fields and callbacks.
const OBJECTS: [&str; 14] = [
    "policies/fifo.bpf.c",
    "policies/vtime.bpf.c",
    "policies/o1.bpf.c",
    "policies/pmqs.bpf.c",
    "policies/steal.bpf.c",
    "policies/linux26.bpf.c",
    "crates/kernel/tests/policies/hostile.bpf.c",
    "crates/kernel/tests/policies/maps.bpf.c",
    "crates/kernel/tests/policies/kptrs.bpf.c",
    "crates/kernel/tests/policies/objects.bpf.c",
    "crates/kernel/tests/policies/timer.bpf.c",
    "crates/kernel/tests/policies/trace.bpf.c",
    "crates/kernel/tests/policies/cid.bpf.c",
    "crates/kernel/tests/policies/userspace.bpf.c",
];

/// Index of `hostile.bpf.c` in [`OBJECTS`].
const HOSTILE: usize = 6;

/// A profile that uses every key of the format of profiles.
const PROFILE: &str = "absent = 'nothing'\nuptime = '1ms'\nset = { 'words[0]' = '1', 'words[cpu]' = { value = 'nr_cpus << cpu', when = 'smt' }, \
    'constants[cpu]' = '(llc + 3) * 4 - (0 - cpu)' }\nresize = { words = 'nr_cpus * 2' }\nmax_entries = { hash = 'nr_llcs' }\n\
    map = { 'array[cpu].word' = 'node' }\nnames = { a = 'nr_cpus', b = 'a + 1' }\nops = { flags = 'SCX_OPS_ENQ_LAST', timeout_ms = 5000 }\n\
    without = ['tick']\nattach = ['p']\n[[run]]\nprogram = 'q'\neach = 'cpu'\nargs = ['cpu', 1, { value = 'i', times = 2 }]\nresult = ['x']\n\
    memory = { 'x + 8 * word' = 'cpus' }\nafter = true\non = 'cpu'\n[[run.then]]\nprogram = 'r'\nargs = ['x:u64']\n";

const SUITE: &str = "[workloads]\nbusy = '{\"tasks\": {\"t\": {\"instance\": 4, \"run\": 100, \"sleep\": 100}}}'\n\
    [[case]]\nobject = 'fifo'\nabout = 'it runs'\nmachine = 'core:4 pu:1'\nworkload = 'busy'\nprofile = { set = { 'x' = 1 } }\n\
    steps = ['load', 'run 2ms', 'remember', 'expect cpu:t >= 0', 'hammer t 1ms 3ms 4', 'offline 3', 'run 1ms', 'online 3', 'unload', \
    'exit SCX_EXIT_UNREG']\n[[case]]\nobject = 'vtime'\nworkload = 'busy'\n\
    steps = ['ops flags 2', 'open', 'load', 'run 1ms', 'program init pid:t', 'loaded', 'refused name', 'reopen']\n";

/// A workload with the keys and events that no file in `workloads/` has.
const WORKLOAD_KEYS: &str = r#"{"tasks": {
    "long": {"dl-runtime": 100000, "dl-period": 7, "period": 9, "loop": -4, "run": 900},
    "short": {"policy": "SCHED_BATCH", "dl-runtime": 200, "taskgroup": "/g", "suspend": "other", "run": 90, "yield": 5},
    "phases": {"phases": {
        "a": {"policy": "SCHED_OTHER", "dl-runtime": 3000, "run": 90, "timer": {}},
        "b": {"loop": 3, "priority": 5, "dl-runtime": 400, "lock": "", "run": 50, "unlock": ""}}},
    "waker": {"resume": "other", "sleep": 700, "fork": "child"},
    "child": {"instance": 0, "loop": 2, "dl-runtime": 50, "run": 9}},
    "resources": {"r": {"type": "run"}}, "global": {"duration": 1}}"#;

/// Topologies of machines in hwloc's synthetic notation.
const SYNTHETIC: [&str; 3] = [
    "pack:2 [numa(memory=1GiB)] l3:2(size=32MiB) l2:2 core:1 pu:2(indexes=2*8:8*1)",
    "node:2 core:8 pu:2",
    "machine:2 group:2 die:2 l1:2 l1i:1 pu:2(indexes=0,2,4,6,1,3,5,7)",
];

/// All valid inputs. A process reads them once.
pub struct Seeds {
    /// For each hand-written attack, the path of its object and the number of CPUs of its machine.
    pub corpus: Vec<(PathBuf, u32)>,
    pub objects: Vec<Vec<u8>>,
    /// Directory of `fifo.bpf.o` and `vtime.bpf.o`. Suites name these two objects.
    pub objects_folder: PathBuf,
    /// The object to which profiles are applied, and from which hostile policies are made.
    pub parsed: Object,
    pub btf: Vec<Vec<u8>>,
    pub profiles: Vec<String>,
    pub workloads: Vec<String>,
    pub machines: Vec<String>,
    pub traces: Vec<Vec<u8>>,
    pub recordings: Vec<String>,
    /// Recordings in binary formats. Those that begin with [`CTF`] are the files of a directory.
    pub binary: Vec<Vec<u8>>,
    pub suites: Vec<String>,
    /// Debug dumps of sched_ext.
    pub dumps: Vec<String>,
}

impl Seeds {
    /// Returns the valid inputs. The first call compiles and reads them.
    ///
    /// # Panics
    /// A file of the repository or clang is missing.
    pub fn get() -> &'static Seeds {
        static SEEDS: OnceLock<Seeds> = OnceLock::new();
        SEEDS.get_or_init(|| read().unwrap_or_else(|message| panic!("seeds: {message}")))
    }
}

/// Returns a workload of short tasks, which runs on machines of all sizes.
pub fn small_workload() -> Workload {
    let ops = vec![
        Op::Run(Dist::Fixed(200_000)),
        Op::Sleep(Dist::Fixed(100_000)),
        Op::Run(Dist::Fixed(200_000)),
    ];
    let tasks = (0..3).fold(Tasks::default(), |tasks, i| tasks.add(&format!("t{i}"), ops.clone()));
    tasks.workload
}

fn read() -> Result<Seeds, String> {
    let root = crate::root();
    let attacks = corpus::attacks()?;
    let sources: Vec<_> = OBJECTS.iter().map(|path| (root.join(path), String::new())).collect();
    let paths = compile::objects(&sources)?;
    let objects = paths
        .iter()
        .map(|path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display())));
    let objects: Vec<Vec<u8>> = objects.collect::<Result<_, _>>()?;
    let parsed: Result<Vec<Object>, _> = objects.iter().map(|bytes| Object::parse(bytes, "seed.bpf.o")).collect();
    let parsed = parsed.map_err(|error| error.to_string())?;
    let mut workloads = texts(&root.join("workloads"), "json")?;
    workloads.extend(workload::generator::generators().iter().map(|g| g.example()));
    workloads.push(WORKLOAD_KEYS.to_owned());
    let mut machines = texts(&root.join("machines"), "toml")?;
    machines.extend(texts(&root.join("crates/machine/tests/data"), "xml")?);
    machines.extend(SYNTHETIC.map(str::to_owned));
    let mut profiles = texts(&root.join("profiles"), "toml")?;
    // PROFILE is repeated, so that it is chosen as often as all other profiles together.
    profiles.extend(std::iter::repeat_n(PROFILE.to_owned(), profiles.len()));
    Ok(Seeds {
        corpus: corpus::compile(&attacks)?
            .into_iter()
            .zip(attacks.iter().map(|attack| attack.cpus))
            .collect(),
        objects_folder: folder(&paths)?,
        btf: parsed.iter().map(|object| object.btf().encode()).collect(),
        parsed: parsed[HOSTILE].clone(),
        objects,
        profiles,
        workloads,
        machines,
        traces: traces()?,
        binary: binary(),
        recordings: texts(&root.join("crates/windtunnel/tests/recordings"), "txt")?,
        suites: vec![SUITE.to_owned()],
        dumps: texts(&root.join("crates/windtunnel/tests/dumps"), "txt")?,
    })
}

/// Beginning of an input that contains a CTF trace. The length of the metadata follows (4 bytes),
/// then the metadata, and then a stream.
pub const CTF: &[u8] = b"CTF:";

/// Returns recordings in all binary formats.
fn binary() -> Vec<Vec<u8>> {
    let mut files = vec![
        written::trace_dat_6(written::X86),
        written::trace_dat_6(written::POWERPC),
        written::perf_data(written::X86, false, true),
        written::perf_data(written::POWERPC, false, false),
        written::perf_data(written::X86, true, false),
        written::perf_pipe(false),
        written::perf_pipe(true),
        written::compress("gzip", &written::text()),
        written::compress("zstd", &written::trace_dat_7("none")),
    ];
    files.extend(["none", "zlib", "zstd"].map(written::trace_dat_7));
    let metadata = written::CTF_METADATA.as_bytes();
    for cpu in 0..2 {
        let length = u32::try_from(metadata.len()).expect("the metadata are short");
        files.push([CTF, &length.to_le_bytes(), metadata, &written::ctf_stream(cpu)].concat());
    }
    let recorded = trace::recording::read_bytes(&written::text(), Path::new("seed.txt"));
    let recorded = recorded.expect("the text is a recording");
    let header = Header {
        cpus: vec![trace::CpuPosition::default(); 2],
        ..Header::default()
    };
    let mut perfetto = Vec::new();
    let mut export = trace::export::Perfetto::new(&mut perfetto, &header);
    trace::Sink::take(&mut export, &recorded.records);
    export.finish(1_100_000_000).expect("writing to memory cannot fail");
    files.push(perfetto);
    files
}

/// Makes a directory with copies of the objects that suites name. The copies have the file names
/// that the suites contain.
fn folder(paths: &[PathBuf]) -> Result<PathBuf, String> {
    let folder = crate::output().join("suite");
    for (path, name) in paths.iter().zip(["fifo", "vtime"]) {
        let text = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(&folder).map_err(text)?;
        let part = folder.join(format!("{name}.{}.part", std::process::id()));
        std::fs::copy(path, &part).map_err(text)?;
        std::fs::rename(&part, folder.join(format!("{name}.bpf.o"))).map_err(text)?;
    }
    Ok(folder)
}

/// Returns the contents of all files with this extension in a directory, in the order of their
/// names.
fn texts(folder: &Path, extension: &str) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    let read = |path: &PathBuf| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    paths.iter().map(read).collect()
}

/// Returns two trace files, one without a result and one with a result.
fn traces() -> Result<Vec<Vec<u8>>, String> {
    let plain = traced_run(3, None);
    let path = std::env::temp_dir().join(format!("attack-seed-{}", std::process::id()));
    std::fs::write(&path, &plain).map_err(|error| format!("{}: {error}", path.display()))?;
    let traced = Traced::open(&path, None);
    let result = traced.and_then(|traced| traced.summarise(&mut Tee::new(), &mut |_| {}));
    let _ = std::fs::remove_file(&path);
    let result = result.map_err(|error| error.to_string())?;
    Ok(vec![plain, traced_run(3, Some(&result))])
}

/// Returns the trace file of a short run whose tasks have hostile names. If `result` is given, the
/// file contains it.
fn traced_run(cpus: u32, result: Option<&RunResult>) -> Vec<u8> {
    let spec = MachineSpec::smp(cpus);
    let header = Header {
        machine: "smp".to_owned(),
        cpus: traced::places(&spec),
        workload: "attack\x1b[31m".to_owned(),
        policy: "eevdf".to_owned(),
        ..Header::default()
    };
    let text = WORKLOAD
        .replace("\"busy\"", "\"\\u001b[31m\\u000a\\u202e\"")
        .replace("\"posts\"", "\"<script>attack\"");
    let workload = workload::rtapp::read(&text, "attack.json").unwrap_or_else(|error| panic!("{error}"));
    let mut file = Vec::new();
    let mut machine = Machine::new(spec, workload, 1).unwrap_or_else(|message| panic!("{message}"));
    machine.details = true;
    let mut writer = Writer::new(&mut file, &header);
    machine.run(5_000_000, &mut writer);
    if let Some(result) = result {
        writer.result(&serde_json::to_string(result).unwrap_or_default());
    }
    writer.finish().unwrap_or_else(|error| panic!("{error}"));
    file
}
