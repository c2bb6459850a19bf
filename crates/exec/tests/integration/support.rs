// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the test programs, and runs them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use exec::{RecordedProfile, Settings};
use kernel::{Ended, Machine, Options};
use trace::Hash;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The files of the test programs.
struct Files {
    /// The program, which contains its object.
    program: PathBuf,
    /// The program without its object.
    bare: PathBuf,
    object: PathBuf,
}

/// Returns the test programs, which are compiled at the first call.
fn files() -> &'static Files {
    static FILES: OnceLock<Files> = OnceLock::new();
    FILES.get_or_init(|| {
        let sources = Path::new(HERE).join("tests/programs");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let object = folder.join("echo.bpf.o");
        let include = format!("-I{HERE}/../../policies/include");
        let compiled = clang::compile(&sources.join("echo.bpf.c"), &["-g", &include], &object);
        compiled.unwrap_or_else(|error| panic!("{error}"));
        let compile = |name: &str, option: &str| {
            let program = folder.join(name);
            // The name of the file is complete only after the compiler has ended.
            let part = folder.join(format!("{name}.{}", std::process::id()));
            let status = Command::new("gcc")
                .args(["-O1", "-pthread", option, "-o"])
                .arg(&part)
                .arg(sources.join("echo.c"))
                .status();
            assert!(status.expect("gcc runs").success(), "echo.c does not compile");
            std::fs::rename(&part, &program).expect("the program can be renamed");
            program
        };
        Files {
            program: compile("echo", &format!("-DOBJECT=\"{}\"", object.display())),
            bare: compile("bare", "-DBARE"),
            object,
        }
    })
}

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    pub hash: u64,
    /// The reason why the program could not be started or could not continue.
    pub failure: Option<String>,
    pub output: String,
    /// Values of echo's globals nr_sent, nr_returned and nr_heartbeats.
    pub globals: [u64; 3],
    pub ended: Option<Ended>,
    /// The profile that was recorded.
    pub recorded: Option<RecordedProfile>,
}

/// Runs the test program with an argument for 200 ms on four CPUs, with six tasks that compute and
/// sleep.
pub fn run(argument: &str) -> Outcome {
    run_with(argument, "sleepers:n=6", 1)
}

pub fn run_with(argument: &str, workload: &str, seed: u64) -> Outcome {
    let workload = workload::generator::generate(workload).expect("the workload exists");
    run_workload(argument, workload, seed)
}

/// Runs the test program under a workload for 200 ms on four CPUs.
pub fn run_workload(argument: &str, workload: workload::Workload, seed: u64) -> Outcome {
    let command = [files().program.display().to_string(), argument.to_owned()];
    run_command(command.into(), workload, seed)
}

/// Runs the test program without its object. The command line names the object's file or not.
pub fn run_bare(named: bool) -> Outcome {
    let workload = workload::generator::generate("sleepers:n=6").expect("the workload exists");
    let mut command = vec![files().bare.display().to_string(), "run".to_owned()];
    command.extend(named.then(|| files().object.display().to_string()));
    run_command(command, workload, 1)
}

fn run_command(command: Vec<String>, mut workload: workload::Workload, seed: u64) -> Outcome {
    let spec = machine::load("smp4", &[]).expect("the machine exists");
    let index = kernel::native::add_to(&mut workload, "echo");
    let options = Options {
        stop_with_policy: true,
        ..Options::from(seed)
    };
    let mut machine = Machine::new(spec, workload, options).expect("a machine");
    let settings = Settings {
        command,
        engine: bpf::engine::Engine::Interpreter,
        echo: false,
        record: true,
        index,
    };
    let mut outcome = Outcome {
        hash: 0,
        failure: None,
        output: String::new(),
        globals: [0; 3],
        ended: None,
        recorded: None,
    };
    let report = match exec::start(&mut machine, settings) {
        Ok(report) => report,
        Err(failure) => {
            outcome.failure = Some(failure.to_string());
            return outcome;
        }
    };
    let mut hash = Hash::default();
    let mut sink = Sink(&mut hash);
    outcome.ended = Some(machine.run(200_000_000, &mut sink));
    outcome.hash = hash.value();
    outcome.recorded = report.borrow_mut().recorded.take().and_then(Result::ok);
    outcome.failure = report.borrow().message("echo");
    outcome.output.clone_from(&report.borrow().output);
    outcome.globals = report
        .borrow()
        .globals(&machine, ["nr_sent", "nr_returned", "nr_heartbeats"]);
    outcome
}

struct Sink<'a>(&'a mut Hash);

impl trace::Sink for Sink<'_> {
    fn take(&mut self, records: &[trace::Record]) {
        records.iter().for_each(|record| self.0.add(record));
    }
}
