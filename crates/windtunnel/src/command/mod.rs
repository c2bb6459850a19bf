// SPDX-License-Identifier: GPL-2.0-only
//! The subcommands of `windtunnel`.
//!
//! Exit status of the command:
//!
//! | status | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | a policy failed, a check failed, or a condition of `--fail-if` holds |
//! | 2 | usage, input or output error |
//! | 130, 143 | ended by Ctrl-C or SIGTERM |

mod advice;
mod bisect;
mod check;
mod compare;
pub(crate) mod complete;
mod diff;
mod documents;
mod examples;
mod exec;
mod experiment;
mod explain;
mod explore;
mod exports;
mod grade;
mod init;
mod invariants;
mod list;
mod live;
mod profiles;
mod progress;
mod python;
mod replay;
mod report;
mod run;
mod score;
mod script;
mod stall;
mod suite;
mod sweep;
mod terminal;
mod top;
mod why;

pub use python::options;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use input::error::Error;
use runner::code_files;
use runner::exit::ExitStatus;
use runner::inputs;
use runner::quote::quote;
use runner::{console, errln, interrupt, repeat};
use std::ffi::OsString;
use std::sync::LazyLock;

/// The version that `--version` prints. It contains the beginning of the simulator's version. Builds with
/// different results have different ones.
static LONG_VERSION: LazyLock<String> =
    LazyLock::new(|| format!("{} (simulation {})", env!("CARGO_PKG_VERSION"), &inputs::VERSION[..12]));

/// A wind tunnel for Linux CPU schedulers: runs sched_ext BPF objects on simulated machines
#[derive(Parser)]
#[command(version, long_version = LONG_VERSION.as_str(), about, max_term_width = 100)]
pub struct Command {
    /// Neither read nor write the files in which compiled policies are kept for the next command.
    /// The environment variable WINDTUNNEL_NO_CACHE=1 has the same effect
    #[arg(long, global = true)]
    no_cache: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Run one or more policies on a simulated machine and print their results side by side
    Run(Box<run::Args>),
    /// Run the user-space program of a scheduler on a simulated machine
    Exec(Box<exec::Args>),
    /// Analyse trace files of runs and recordings of real machines
    Report(report::Args),
    /// Describe a recording of a real machine, and compare its replay with it
    Replay(replay::Args),
    /// Compare two policies over many seeds: confidence intervals, a verdict, and an exit status
    /// for CI
    Compare(Box<compare::Args>),
    /// Find the first decision at which two runs differ, and show what each policy saw
    Diff(Box<diff::Args>),
    /// Explain why a task waited for a CPU, in a run or a recording
    Why(Box<why::Args>),
    /// Check that no CPU idles while a task waits and that no task starves; draw the first
    /// violation
    Invariants(Box<invariants::Args>),
    /// Search for races and stalls with callbacks that overlap, and shrink what is found
    Explore(Box<explore::Args>),
    /// Search for a run that stalls as in the debug dump of a real kernel, and shrink it
    Stall(Box<stall::Args>),
    /// Find the commit or object at which a condition changes
    Bisect(Box<bisect::Args>),
    /// Watch a simulation while it runs: CPUs, queues, rates, busiest tasks
    Top(Box<top::Args>),
    /// Check that objects load and keep the verifier's rules, and list what they use that is not modelled
    Check(check::Args),
    /// Run a suite: a file of test cases for policies
    Suite(suite::Args),
    /// Run all combinations of policies, machines, workloads, parameters and seeds, and write one
    /// table
    Sweep(sweep::Args),
    /// Compare a policy with eevdf on several machines and workloads, and print one number
    Score(score::Args),
    /// Grade a submission for a lab of a course on operating systems
    Grade(grade::Args),
    /// Execute scripts, in which the kernel's work takes no time, and print what the scheduler
    /// decides
    Script(script::Args),
    /// List the built policies, or describe one
    #[command(subcommand)]
    Policy(list::Policy),
    /// List the known machines, describe one, or measure this host
    #[command(subcommand)]
    Machine(list::Machine),
    /// List the workload files and generators, or describe a workload
    #[command(subcommand)]
    Workload(list::Workload),
    /// Repeat published experiments and compare the results with the published ones
    #[command(subcommand)]
    Experiment(experiment::Action),
    /// Explain a term, a figure, or a word of an output
    Explain(explain::Args),
    /// Write a starter project: a policy with its headers, a machine, a workload, a Makefile and a
    /// job for CI
    Init(init::Init),
    /// Search for good parameters of a policy (needs the Python package)
    Tune(Box<python::Tune>),
    /// Serve the commands to programs that speak the Model Context Protocol (needs the Python
    /// package)
    Mcp(python::Mcp),
    /// Run policies and workloads on the kernel of this host (needs `windtunnel-live`)
    Live(Box<live::Args>),
    /// Print a script that completes commands, names and parameters in a shell
    Completions(complete::Completions),
    /// Write the reference pages and man pages of all commands
    #[command(hide = true)]
    Docs(documents::Documents),
}

/// Runs the command with these arguments, of which the first is the name of the program. Returns
/// the exit status.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitStatus {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    report_panics(&arguments);
    match complete::requested(&arguments) {
        Ok(false) => {}
        Ok(true) => return ExitStatus::SUCCESS,
        Err(error) => {
            errln!("windtunnel: {error}");
            return ExitStatus::from(2);
        }
    }
    let done = match parse(&arguments) {
        Ok(command) => command.run(&arguments).unwrap_or_else(|error| {
            errln!("windtunnel: {error}");
            ExitStatus::from(2)
        }),
        Err(code) => code,
    };
    let interrupted = interrupt::signal().map(|signal| ExitStatus::from(interrupt::status(signal)));
    console::finish("windtunnel", interrupted.unwrap_or(done))
}

/// Returns the options of all commands, with examples in their help.
fn command() -> clap::Command {
    complete::add_to_runs(examples::add_to_help(Command::command()))
}

/// Parses a command line, which begins with the name of the program. Prints error messages and
/// requested help.
fn parse(arguments: &[OsString]) -> Result<Command, ExitStatus> {
    let matches = console::arguments(command(), arguments, advice::add)?;
    Command::from_arg_matches(&matches).map_err(|error| console::usage_error(&error))
}

/// Returns the arguments that follow the name of a subcommand.
fn rest(arguments: &[OsString], subcommand: &str) -> Vec<OsString> {
    let rest = arguments.iter().skip_while(|argument| *argument != subcommand).skip(1);
    rest.filter(|argument| *argument != "--no-cache").cloned().collect()
}

impl Command {
    fn run(self, arguments: &[OsString]) -> Result<ExitStatus, Error> {
        if !self.no_cache && !code_files::switched_off() {
            code_files::enable();
        }
        match self.action {
            Action::Run(args) => args.run(),
            Action::Exec(args) => args.run(),
            Action::Report(args) => args.run(),
            Action::Replay(args) => args.run(),
            Action::Compare(args) => args.run(),
            Action::Diff(args) => args.run(),
            Action::Why(args) => args.run(),
            Action::Invariants(args) => args.run(),
            Action::Explore(args) => args.run(),
            Action::Stall(args) => args.run(),
            Action::Bisect(args) => args.run(),
            Action::Top(args) => args.run(),
            Action::Check(args) => args.run(),
            Action::Suite(args) => args.run(),
            Action::Sweep(args) => args.run(),
            Action::Score(args) => args.run(),
            Action::Grade(args) => args.run(),
            Action::Script(args) => args.run(),
            Action::Policy(list) => list.run(),
            Action::Machine(list) => list.run(),
            Action::Workload(list) => list.run(),
            Action::Experiment(action) => action.run(),
            Action::Explain(args) => args.run(),
            Action::Init(args) => args.run(),
            Action::Tune(_) => python::exec("tune", rest(arguments, "tune")),
            Action::Mcp(_) => python::exec("mcp", rest(arguments, "mcp")),
            Action::Live(_) => live::exec(rest(arguments, "live")),
            Action::Completions(args) => args.run(),
            Action::Docs(args) => args.run(),
        }
    }
}

/// Makes every panic report that it is a bug of the simulator, and print the command that repeats
/// it.
fn report_panics(arguments: &[OsString]) {
    let args = arguments.iter().skip(1);
    let args: Vec<String> = args.map(|arg| quote(&arg.to_string_lossy())).collect();
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default_hook(panic);
        errln!("windtunnel: this is a bug of the simulator, not of the policy. To repeat it:");
        match repeat::command() {
            Some(command) => errln!("  {command}"),
            None => errln!("  windtunnel {}", args.join(" ")),
        }
    }));
}
