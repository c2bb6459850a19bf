// SPDX-License-Identifier: GPL-2.0-only
//! Loads the workload that a user specifies.

use crate::generator::{begin, generate, generators};
use crate::program::{Lack, RecordedMachine, Workload};
use crate::{replay, rtapp};
use input::{Error, Position, suggest};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Maximum size of an rt-app file. Real files are far smaller.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Suffix of the path of a file. With it, a parent forks the tasks of the file.
const BY_FORK: &str = ":begin=fork";
/// Maximum size of a trace file. Its records need ten times as much memory.
const MAX_TRACE_BYTES: u64 = 512 << 20;

/// Loads a workload. Paths in `search` are directories of workload files. `spec` is one of
///
/// - a path that ends in `.json`, either as it is or relative to one of the directories in
///   `search`,
/// - the name, without extension, of a `.json` file in one of the directories in `search`,
/// - a generator with parameters,
/// - the file of a recording to replay (`recording.txt` or `trace:file=recording.txt`).
///
/// The path of a `.json` file can be followed by `:begin=fork`. A parent then forks the tasks, as with
/// the parameter `begin` of generators.
///
/// # Errors
/// Fails if nothing has that name, if the file cannot be read, or if its contents are invalid.
pub fn load(spec: &str, search: &[&Path]) -> Result<Workload, Error> {
    if let Some(path) = spec.strip_prefix("trace:file=") {
        return read_recording(Path::new(path));
    }
    if let Some(file) = spec.strip_suffix(BY_FORK).filter(|file| file.ends_with(".json")) {
        let mut workload = load(file, search)?;
        begin::by_fork(&mut workload).map_err(|why| {
            let message = format!("a parent cannot fork the tasks of this workload, because {why}");
            Error::at(spec, message).hint(format!("leave out {BY_FORK}; the tasks then exist from the start"))
        })?;
        workload.name += BY_FORK;
        return Ok(workload);
    }
    let ends_in_json = spec.ends_with(".json");
    let name = if ends_in_json {
        spec.to_string()
    } else {
        format!("{spec}.json")
    };
    let as_it_is = Some(PathBuf::from(spec)).filter(|_| ends_in_json);
    let candidates = as_it_is
        .into_iter()
        .chain(search.iter().map(|directory| directory.join(&name)));
    for path in candidates {
        if path.is_file() {
            return read_file(&path);
        }
    }
    if !ends_in_json && (Path::new(spec).is_file() || trace::recording::is_ctf_trace(Path::new(spec))) {
        return read_recording(Path::new(spec));
    }
    let files = files(search);
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    if ends_in_json {
        let base = spec.rsplit('/').next().unwrap_or(spec);
        let base = base.strip_suffix(".json").unwrap_or(base);
        return Err(Error::at(spec, "there is no such file").hint(suggest::hint(base, &names)));
    }
    let generator = spec.split(':').next().unwrap_or(spec);
    if !generators().iter().any(|g| g.name == generator) {
        let mut known = names;
        known.extend(generators().iter().map(|g| g.name));
        return Err(
            Error::at(spec, "there is no file and no generator with this name").hint(suggest::hint(generator, &known))
        );
    }
    generate(spec)
}

/// Returns the names (without extension) and paths of the rt-app files in the directories, sorted
/// by name. If several directories contain a file with the same name, the file in the first
/// directory is used.
pub fn files(search: &[&Path]) -> Vec<(String, PathBuf)> {
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    for directory in search {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let json = path.extension().is_some_and(|ending| ending == "json");
            let name = path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .unwrap_or("")
                .to_string();
            if json && path.is_file() && !found.iter().any(|(other, _)| *other == name) {
                found.push((name, path));
            }
        }
    }
    found.sort();
    found
}

fn read_file(path: &Path) -> Result<Workload, Error> {
    let name = path.display().to_string();
    let bytes = read_bytes(path, MAX_FILE_BYTES, "use a file in rt-app's format")?;
    let text = std::str::from_utf8(&bytes).map_err(|_| not_text(&name))?;
    rtapp::read(text, &name)
}

/// Returns whether a file is a trace file of windtunnel.
fn is_trace_file(path: &Path) -> bool {
    let mut begin = [0; trace::recording::TRACE_FILE.len()];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == trace::recording::TRACE_FILE
}

/// Reads a trace file of windtunnel, or a recording that [`trace::recording`] supports.
fn read_recording(path: &Path) -> Result<Workload, Error> {
    let name = path.display().to_string();
    if is_trace_file(path) {
        let bytes = read_bytes(path, MAX_TRACE_BYTES, "use a trace file of 'windtunnel run --trace'")?;
        let trace = read_trace(&bytes).map_err(|error| Error::at(&name, error.to_string()))?;
        let mut workload = replay::from_records(&trace.records, trace.snapshot.as_ref(), &name)?;
        workload.recorded_on = Some(RecordedMachine {
            path: path.to_owned(),
            ..trace.machine
        });
        return Ok(workload);
    }
    if let Err(error) = std::fs::File::open(path) {
        return Err(unreadable(
            path,
            &error,
            "use a recording, such as perf.data or trace.dat",
        ));
    }
    let recording = trace::recording::open(path).map_err(|error| {
        let message = Error::at(&name, error.message).hint(error.hint);
        match error.line {
            0 => message,
            line => message.position(Position { line, column: 1 }),
        }
    })?;
    if recording.unwoken > 0 {
        let message = format!(
            "no wake-ups: sched_waking and sched_wakeup are missing, but {} sleeping tasks ran again",
            recording.unwoken
        );
        return Err(Error::at(&name, message).hint(trace::recording::EVENTS_HINT));
    }
    let mut workload = replay::from_records(&recording.records, None, &name)?;
    let mut lacks = Vec::new();
    lacks.extend((!recording.interrupts).then_some(NO_INTERRUPTS));
    lacks.extend((!recording.wakers).then_some(NO_WAKERS));
    lacks.extend((!recording.waking).then_some(NO_WAKING));
    lacks.extend((!recording.forks).then_some(NO_FORKS));
    lacks.push(NO_SNAPSHOT);
    workload.recorded_on = Some(RecordedMachine {
        nr_cpus: recording.nr_cpus,
        path: path.to_owned(),
        policy: EEVDF.into(),
        lacks,
        ..RecordedMachine::default()
    });
    let missing = recording.missing;
    if missing > 0 {
        // The name is printed with every result, so the user notices that the recording is
        // incomplete.
        workload.name = format!("{name} (the recording lacks {missing} switches)");
    }
    Ok(workload)
}

/// Name of the fair class as a policy.
const EEVDF: &str = "eevdf";
/// Latest release that is known to have no high-resolution tick by default.
const LAST_WITHOUT_HRTICK: (u32, u32) = (6, 18);

const NO_INTERRUPTS: Lack = Lack {
    what: "interrupts and timers",
    effect: "a wake-up by a timer or a device looks like one by the interrupted task, and waits for it",
    how: "perf record -e 'irq:*,timer:hrtimer_expire_*'",
};
const NO_WAKERS: Lack = Lack {
    what: "the tasks that woke others (systing does not write them)",
    effect: "each wake-up looks like one by an interrupt, and happens at the recorded time",
    how: "perf sched record",
};
const NO_WAKING: Lack = Lack {
    what: "sched_waking",
    effect: "wake-up latencies count from sched_wakeup, so they are too short",
    how: "perf record -e sched:sched_waking",
};
const NO_FORKS: Lack = Lack {
    what: "sched_process_fork",
    effect: "new tasks start at a fixed time, even if their parents are late",
    how: "perf record -e 'sched:sched_process_*'",
};
const NO_SNAPSHOT: Lack = Lack {
    what: "affinities, SCHED_BATCH and SCHED_IDLE, cgroups and autogroups",
    effect: "all tasks may use all CPUs and compete as one group, with their nice values",
    how: "windtunnel live record",
};

/// A trace file that was read.
struct TraceFile {
    records: Vec<trace::Record>,
    snapshot: Option<trace::Snapshot>,
    machine: RecordedMachine,
}

fn read_trace(bytes: &[u8]) -> Result<TraceFile, trace::ReadError> {
    let mut reader = trace::Reader::new(bytes)?;
    let header = reader.header().clone();
    let records = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    let snapshot = reader.snapshot().cloned();
    let live = header.machine.starts_with(LIVE);
    let release = snapshot
        .as_ref()
        .map_or_else(String::new, |snapshot| snapshot.release.clone());
    // The name of the kernel's own scheduler in live recordings is "default".
    let policy = match header.policy.as_str() {
        "default" | "" => EEVDF.to_owned(),
        policy => policy.to_owned(),
    };
    let machine = RecordedMachine {
        nr_cpus: input::index(header.cpus.len()),
        policy,
        hz: header.hz,
        no_hrtick: lacks_hrtick(&release),
        release,
        lacks: (live && snapshot.is_none())
            .then_some(NO_SNAPSHOT)
            .into_iter()
            .collect(),
        name: header.machine,
        path: PathBuf::new(),
    };
    Ok(TraceFile {
        records,
        snapshot,
        machine,
    })
}

/// Beginning of the name of the machine in recordings of `windtunnel live record`.
const LIVE: &str = "live, ";

/// Returns whether a release such as `6.18.44` has no high-resolution tick.
fn lacks_hrtick(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) <= LAST_WITHOUT_HRTICK,
        _ => false,
    }
}

fn not_text(name: &str) -> Error {
    Error::at(name, "cannot be read: it is not a text in UTF-8").hint("use a text file in UTF-8")
}

fn read_bytes(path: &Path, most: u64, expected: &str) -> Result<Vec<u8>, Error> {
    let bytes = std::fs::metadata(path).and_then(|meta| match meta.len() {
        len if len <= most => std::fs::read(path),
        len => Err(io::Error::other(format!(
            "it has {len} bytes, more than the maximum of {most}"
        ))),
    });
    bytes.map_err(|error| unreadable(path, &error, expected))
}

fn unreadable(path: &Path, error: &io::Error, expected: &str) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => "make the file readable",
        _ => expected,
    };
    Error::at(path.display().to_string(), format!("cannot be read: {error}")).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_replayed() {
        let directory = std::env::temp_dir().join(format!("workload-replay-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = |name: &str| directory.join(name).display().to_string();
        let line = "a 1 [000] 1.000001: sched_switch: a:1 [120] S ==> swapper/0:0 [120]\n";
        std::fs::write(path("perf.txt"), format!("b 2 [001] 1.000000: other:\n{line}")).unwrap();
        std::fs::write(path("broken.txt"), format!("{line}what?\n")).unwrap();
        let records = trace::recording::read(&format!("b 2 [001] 1.0: other:\n{line}"))
            .unwrap()
            .records;
        let mut file = Vec::new();
        let header = trace::Header {
            cpus: vec![trace::CpuPosition::default(); 2],
            ..trace::Header::default()
        };
        let mut writer = trace::Writer::new(&mut file, &header);
        trace::Sink::take(&mut writer, &records);
        writer.finish().unwrap();
        std::fs::write(path("own.wtt"), file).unwrap();
        let text = load(&path("perf.txt"), &[]).unwrap();
        assert_eq!((text.tasks.len(), text.tasks[0].comm.as_str()), (2, "a"));
        assert_eq!(load(&format!("trace:file={}", path("perf.txt")), &[]).unwrap(), text);
        assert_eq!(load(&path("own.wtt"), &[]).unwrap().programs, text.programs);
        // The kernel cuts a name after 15 bytes, which can be inside a character.
        std::fs::write(
            path("cut.txt"),
            format!("b 2 [001] 1.000000: other:\n{line}")
                .replace("a:1", "\u{fffd}:1")
                .into_bytes()
                .iter()
                .map(|&b| if b == 0xef { 0xc3 } else { b })
                .collect::<Vec<_>>(),
        )
        .unwrap();
        assert_eq!(load(&path("cut.txt"), &[]).unwrap().tasks.len(), 2);
        assert_eq!(text.recorded_on.as_ref().map(|machine| machine.nr_cpus), Some(2));
        let message = load(&path("broken.txt"), &[]).unwrap_err().to_string();
        assert!(message.contains("broken.txt:2:1: expected an event"), "{message}");
        assert!(
            load("trace:file=nowhere.txt", &[])
                .unwrap_err()
                .to_string()
                .contains("use a recording")
        );
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn the_release_says_whether_there_is_a_high_resolution_tick() {
        for (release, lacks) in [
            ("6.18.44-x", true),
            ("6.12", true),
            ("6.19.0", false),
            ("7.3.4", false),
            ("", false),
        ] {
            assert_eq!(lacks_hrtick(release), lacks, "{release}");
        }
    }

    #[test]
    fn a_recording_names_what_it_lacks() {
        let directory = std::env::temp_dir().join(format!("workload-lacks-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("a.txt");
        let lacks = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let recorded = load(&path.display().to_string(), &[]).unwrap().recorded_on.unwrap();
            recorded.lacks.iter().map(|lack| lack.what).collect::<Vec<_>>()
        };
        let switch = "a 1 [000] 1.000000: other:\na 1 [000] 1.000001: sched_switch: a:1 [120] S ==> b:2 [120]\n";
        let all = [NO_INTERRUPTS, NO_WAKING, NO_FORKS, NO_SNAPSHOT].map(|lack| lack.what);
        assert_eq!(lacks(switch), all);
        let more = format!(
            "a 1 [000] 1.0: irq_handler_entry: irq=1\na 1 [000] 1.0: sched_waking: comm=b pid=2 prio=120 \
             target_cpu=000\na 1 [000] 1.0: sched_process_fork: comm=a pid=1 child_comm=k child_pid=9\n{switch}"
        );
        assert_eq!(lacks(&more), [NO_SNAPSHOT.what]);
        // Flags of ftrace show interrupts, too.
        let flags = switch.replace("[000]", "[000] d..2.");
        assert!(!lacks(&flags).contains(&NO_INTERRUPTS.what));
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn files_are_preferred_to_generators() {
        let directory = std::env::temp_dir().join(format!("workload-load-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let write = |name: &str, text: &[u8]| std::fs::write(directory.join(name), text).unwrap();
        write("yield.json", br#"{"tasks": {"y": {"yield": ""}}}"#);
        write(
            "forks.json",
            br#"{"tasks": {"y": {"run": 5, "fork": "z"}, "z": {"instance": 0, "run": 5}}}"#,
        );
        write("broken.json", b"{\n \"tasks\": 5}");
        write("binary.json", b"\xff\xfe");
        let search = [directory.as_path()];
        let message = |spec: &str| load(spec, &search).unwrap_err().to_string();
        assert_eq!(load("yield", &search).unwrap().tasks[0].comm, "y");
        assert_eq!(load("yield.json", &search).unwrap().name, "yield");
        let path = directory.join("yield.json").display().to_string();
        assert_eq!(load(&path, &[]).unwrap().tasks.len(), 1);
        assert_eq!(load("yield", &[]).unwrap().tasks[0].comm, "yield");
        assert_eq!(load("yield:n=3", &search).unwrap().tasks.len(), 3);
        let begun = load("yield.json:begin=fork", &search).unwrap();
        let names: Vec<&str> = begun.tasks.iter().map(|task| task.comm.as_str()).collect();
        assert_eq!((names, begun.name.as_str()), (vec!["y", "parent"], "yield:begin=fork"));
        assert!(!begun.tasks[0].spawn && begun.tasks[1].spawn);
        assert!(
            message("forks.json:begin=fork").contains("cannot fork the tasks of this workload, because its tasks fork")
        );
        assert!(message("broken").contains("broken.json:2:11: \"tasks\" takes an object"));
        assert!(message("binary").contains("use a text file in UTF-8"));
        assert!(message("brokn").contains("did you mean 'broken'?"));
        assert!(message("x/brokn.json").contains("there is no such file\n  hint: did you mean 'broken'?"));
        assert!(message("hackbenc:groups=1").contains("did you mean 'hackbench'?"));
        let names: Vec<String> = files(&search).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["binary", "broken", "forks", "yield"]);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
