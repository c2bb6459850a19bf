// SPDX-License-Identifier: GPL-2.0-only
//! `live run`: a workload executed for real, under whatever scheduler the kernel has. Results have the simulator's units and
//! JSON; what only a trace of every switch could tell (wake-up latencies, callbacks, locks) is empty.

mod execute;
mod shared;

use crate::{kernel as running, stop};
use execute::World;
use report::{Run, RunResult, Summary};
use shared::{Kind, Shared};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use trace::{Event, Place, Record, Sink};
use windtunnel::duration;
use windtunnel::error::Error;
use windtunnel::search;

/// How long a workload without an end runs.
const DEFAULT_NS: u64 = 10_000_000_000;

#[derive(clap::Args)]
pub struct Args {
    /// An rt-app JSON file or a generator (`windtunnel workload list`), for example hackbench:groups=2
    workload: String,
    /// Time [default: what the workload asks for, else until its tasks have exited, 10 s at most]
    #[arg(long = "for", value_parser = duration::parse)]
    for_ns: Option<u64>,
    /// Where chance starts from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the result as JSON to FILE (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Args {
    pub fn run(self) -> Result<ExitCode, Error> {
        let folders = search::folders("workloads");
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        let workload = workload::load(&self.workload, &folders)?;
        let (result, notes) = execute(workload, self.for_ns, self.seed)?;
        for note in notes {
            eprintln!("windtunnel live: {note}");
        }
        let json = serde_json::to_string_pretty(&[&result]).map_err(|error| Error::new(error.to_string()))?;
        match &self.json {
            Some(path) if path.as_os_str() == "-" => println!("{json}"),
            Some(path) => {
                fs::write(path, json).map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
                print(&result);
            }
            None => print(&result),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(r: &RunResult) {
    println!(
        "{} under {} on {} CPUs for {:.2} s",
        r.workload,
        r.policy,
        r.cpus,
        r.simulated_ns as f64 / 1e9
    );
    match r.score {
        Some(score) => println!("  score             {score:.3} {}", r.score_unit),
        None => println!("  score             none: it ended before the workload did"),
    }
    println!(
        "  throughput        {:.1} {}/s ({} in all)",
        r.throughput.per_second, r.throughput.unit, r.throughput.operations
    );
    if r.response_ns.count > 0 {
        let ms = |ns: u64| ns as f64 / 1e6;
        let t = r.response_ns;
        println!(
            "  response          mean {:.3} ms, p50 {:.3}, p99 {:.3}, max {:.3}",
            ms(t.mean),
            ms(t.p50),
            ms(t.p99),
            ms(t.max)
        );
    }
    println!("  context switches  {} (of the whole machine)", r.context_switches);
    println!(
        "  migrations        {}, preemptions {} (of tasks that were there at the end)",
        r.migrations, r.preemptions
    );
    println!("  busy              {:.1} % (of the whole machine)", r.busy_percent);
}

/// Executes it. Beside the result: what to know of it.
pub fn execute(
    workload: workload::Workload,
    for_ns: Option<u64>,
    seed: u64,
) -> Result<(RunResult, Vec<String>), Error> {
    let limit = for_ns.or(workload.duration_ns).unwrap_or(DEFAULT_NS);
    let spawned: Vec<u32> = (0..workload.tasks.len() as u32)
        .filter(|&task| workload.tasks[task as usize].spawn)
        .collect();
    let processes: BTreeSet<u32> = spawned
        .iter()
        .map(|&task| workload.tasks[task as usize].process)
        .collect();
    let rounds_per_1024_ns = execute::calibrate();
    let shared = Shared::new(&workload)?;
    let world = Arc::new(World {
        workload,
        shared,
        rounds_per_1024_ns,
        seed,
    });
    stop::remember();
    let before = machine_counts();
    let mut children = Vec::new();
    for process in processes {
        // SAFETY: this process has one thread; the child ends with _exit.
        match unsafe { libc::fork() } {
            -1 => {
                let error = std::io::Error::last_os_error();
                children.iter().for_each(|&pid| end(pid));
                return Err(Error::new(format!("no process for the workload: {error}")));
            }
            0 => {
                lead(&world, &spawned, process);
                // SAFETY: ends the child without the parent's exit handlers.
                unsafe { libc::_exit(0) }
            }
            pid => children.push(pid),
        }
    }
    let mut left = children.clone();
    while !left.is_empty() && world.shared.now() < limit && !stop::asked() {
        thread::sleep(Duration::from_millis(1));
        // SAFETY: no status is asked for.
        left.retain(|&pid| unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) } == 0);
    }
    let ended = world.shared.now();
    let after = machine_counts();
    let tasks = thread_counts(&left);
    left.iter().for_each(|&pid| end(pid));
    Ok(result(&world, ended, left.is_empty(), (before, after), &tasks))
}

/// The leader of a process: each of its tasks is a thread.
fn lead(world: &Arc<World>, spawned: &[u32], process: u32) {
    // SAFETY: a group of its own, so that its children end with it; signals end it again.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    let own = spawned
        .iter()
        .copied()
        .filter(|&task| world.workload.tasks[task as usize].process == process);
    let threads: Vec<_> = own
        .filter_map(|task| {
            let world = Arc::clone(world);
            thread::Builder::new()
                .stack_size(256 << 10)
                .spawn(move || execute::run(&world, task))
                .ok()
        })
        .collect();
    for thread in threads {
        let _ = thread.join();
    }
}

fn end(pid: i32) {
    // SAFETY: the group of a child of ours.
    unsafe {
        libc::kill(-pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

/// Context switches, busy and all CPU time of the machine so far.
fn machine_counts() -> (u64, u64, u64) {
    crate::statistics::machine_counts()
}

/// What /proc tells of a thread.
#[derive(Default)]
struct Counts {
    cpu_ns: u64,
    wait_ns: u64,
    turns: u64,
    voluntary: u64,
    involuntary: u64,
    migrations: u64,
}

/// By thread id, of the groups' processes.
fn thread_counts(leaders: &[i32]) -> BTreeMap<u32, Counts> {
    let mut counts = BTreeMap::new();
    for leader in leaders {
        let Ok(threads) = fs::read_dir(format!("/proc/{leader}/task")) else {
            continue;
        };
        for thread in threads.flatten() {
            let read = |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            let Ok(tid) = thread.file_name().to_string_lossy().parse() else {
                continue;
            };
            let schedstat: Vec<u64> = read("schedstat")
                .split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect();
            let (status, sched) = (read("status"), read("sched"));
            let value = |text: &str, name: &str| {
                let line = text.lines().find(|line| line.starts_with(name))?;
                line.rsplit([':', ' ', '\t']).next()?.parse().ok()
            };
            counts.insert(
                tid,
                Counts {
                    cpu_ns: schedstat.first().copied().unwrap_or(0),
                    wait_ns: schedstat.get(1).copied().unwrap_or(0),
                    turns: schedstat.get(2).copied().unwrap_or(0),
                    voluntary: value(&status, "voluntary_ctxt_switches").unwrap_or(0),
                    involuntary: value(&status, "nonvoluntary_ctxt_switches").unwrap_or(0),
                    migrations: value(&sched, "se.nr_migrations").unwrap_or(0),
                },
            );
        }
    }
    counts
}

type MachineCounts = (u64, u64, u64);

fn result(
    world: &World,
    ended: u64,
    completed: bool,
    (before, after): (MachineCounts, MachineCounts),
    counts: &BTreeMap<u32, Counts>,
) -> (RunResult, Vec<String>) {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let places = vec![Place::default(); cpus];
    let mut summary = Summary::new(&places);
    let mut entries: Vec<_> = world.shared.entries().collect();
    entries.sort_by_key(|(_, entry)| entry.time);
    for (kind, entry) in entries {
        let pid = entry.tid;
        let spec = &world.workload.tasks[entry.task as usize];
        let event = match kind {
            Kind::Done => Event::Done {
                pid,
                count: entry.a as u32,
                response_ns: entry.b,
            },
            Kind::Phase => Event::Phase {
                pid,
                phase: entry.a as u32,
            },
            Kind::New => Event::TaskNew {
                pid,
                tgid: pid,
                parent: 0,
                prio: 120,
                comm: spec.comm.clone(),
            },
            Kind::Exit => Event::TaskExit { pid },
        };
        summary.take(&[Record {
            time: entry.time,
            cpu: 0,
            event,
        }]);
    }
    let policy = match running::ops() {
        ops if ops.is_empty() => "default".to_owned(),
        ops => ops,
    };
    let mut r = summary.result(Run {
        policy,
        machine: "live".into(),
        workload: world.workload.name.clone(),
        seed: world.seed,
        simulated_ns: ended,
        wall_ns: ended,
        unit: world.workload.unit.clone(),
        score: world.workload.score,
        completed,
        ..Run::default()
    });
    r.context_switches = after.0.saturating_sub(before.0);
    let total = after.2.saturating_sub(before.2);
    r.busy_percent = (after.1.saturating_sub(before.1) * 100_000)
        .checked_div(total)
        .unwrap_or(0) as f64
        / 1000.0;
    if world.workload.score == workload::Score::SwitchesPerSecond {
        r.score = Some(r.context_switches as f64 * 1e9 / ended.max(1) as f64);
    }
    r.migrations = counts.values().map(|task| task.migrations).sum();
    r.preemptions = counts.values().map(|task| task.involuntary).sum();
    for task in &mut r.tasks {
        if let Some(own) = counts.get(&task.pid) {
            task.cpu_ns = own.cpu_ns;
            task.wait_ns = own.wait_ns;
            task.waits = own.turns;
            task.switches = own.voluntary + own.involuntary;
            task.preemptions = own.involuntary;
            task.migrations = own.migrations;
        }
    }
    let (lost, refused) = world.shared.complaints();
    let mut notes = Vec::new();
    if lost > 0 {
        notes.push(format!(
            "{lost} operations came after the log was full: throughput leaves them out; run shorter (--for)"
        ));
    }
    if refused > 0 {
        notes.push(format!("the kernel refused {refused} requests (affinity, nice, real-time priority, forks): run as root, or on a machine with these CPUs"));
    }
    if world.workload.cgroups.len() > 1 {
        notes.push("cgroups are left out".to_owned());
    }
    (r, notes)
}
