// SPDX-License-Identifier: GPL-2.0-only
//! `live compare`: simulates a workload under a policy on a model of this machine, executes the
//! workload under the policy on this machine, and compares the results. On this machine, a real program
//! can take the place of the workload. If the policy is a scheduler's program (`exec: COMMAND`), the
//! program is started on both sides.

mod live;
mod program;
mod saved;
mod scheduler;
mod table;
pub mod why;

use crate::host_kernel;
use crate::journal::Journal;
use crate::load::setting;
use crate::policy::{Failure, Source};
use crate::stop;
use input::error::Error;
use live::Live;
use report::why::{Scan, Why};
use runner::console;
use runner::destination;
use runner::exit::ExitStatus;
use runner::policy::Policy;
use runner::scenario::{Observer, Scenario};
use runner::spec::RunSpec;
use runner::{errln, out};
use scheduler::Scheduler;
use std::collections::BTreeSet;
use windtunnel::live::Compare as Args;
use workload::Workload;

/// Time limit for a workload that defines no length of its own, on both sides.
const DEFAULT_NS: u64 = 5_000_000_000;

pub fn run(args: &Args) -> Result<ExitStatus, Error> {
    let set = args.set.iter().map(|text| {
        let (name, value) = setting(text)?;
        Ok(format!("{name}={value}"))
    });
    let spec = RunSpec {
        for_ns: args.for_ns,
        seed: args.seed,
        set: set.collect::<Result<_, Error>>()?,
        ..RunSpec::new(&args.policy, &args.machine, &args.workload)
    };
    let mut scenario = spec.resolve()?;
    // The live side has the times of the kernel's tracepoints.
    scenario.machine.kernel.trace_before_switch = true;
    let limit = scenario.limit_ns().unwrap_or(DEFAULT_NS);
    scenario.spec.for_ns = Some(limit);
    let live = match &args.saved {
        Some(folder) => {
            let live = saved::read(folder, args.why)?;
            saved::check(folder, &live, scenario.policy.name(), &scenario.workload.name)?;
            live
        }
        None => match execute(args, &scenario, limit)? {
            Ok(live) => live,
            Err(code) => return Ok(code),
        },
    };
    if let Some(folder) = &args.save {
        saved::write(folder, &live)?;
        return Ok(ExitStatus::SUCCESS);
    }
    for note in &live.notes {
        errln!("windtunnel live: {note}");
    }
    let names = own_names(&scenario.policy, &scenario.workload);
    let mut scan = Scan::new(scenario.header(), names);
    let mut observer = Observer {
        sink: &mut scan,
        reads: Vec::new(),
        counters: false,
        details: false,
    };
    let simulated = scenario.run_observed(&mut observer, &mut |_| {})?.result;
    let side = scan.finish();
    let recorded = live.recorded.as_ref().map(|run| run.scan(side.names()));
    let rows = table::rows(&simulated, &live.result);
    let to_stdout = args.json.as_deref().is_some_and(destination::is_stdout);
    match args.markdown {
        true => out!("{}", table::markdown(&simulated, &live.result, &rows)),
        false if to_stdout => {}
        false => console::styled(&table::text(&simulated, &live.result, &rows, console::surface())),
    }
    if args.why {
        let recorded = recorded
            .ok_or_else(|| Error::new("the live side was not recorded, so the difference cannot be explained"))?;
        why::print(&Why::new(&side, &recorded), args.json.as_deref())?;
    }
    Ok(ExitStatus::SUCCESS)
}

/// Returns the names of the tasks that belong to the run, or `None` if all simulated tasks do.
///
/// Threads of a scheduler's program do not belong to it. The recorded ones exist before the workload
/// starts, so the run would seem to start with the recording.
fn own_names(policy: &Policy, workload: &Workload) -> Option<BTreeSet<String>> {
    matches!(policy, Policy::Exec { .. }).then(|| live::names(workload))
}

/// Executes the workload under the policy. If the policy failed, prints the reason and returns
/// the exit status.
fn execute(args: &Args, scenario: &Scenario, limit: u64) -> Result<Result<Live, ExitStatus>, Error> {
    let measure_events = args.why || args.save.is_some();
    let words: Option<Vec<String>> = args
        .program
        .as_ref()
        .map(|command| command.split_whitespace().map(str::to_owned).collect());
    let execute = || match &words {
        Some(words) => program::run(words, &scenario.workload, limit, args.seed),
        None => live::run(&scenario.workload, limit, args.seed, !args.unrecorded, measure_events),
    };
    match &scenario.policy {
        Policy::Eevdf if !host_kernel::ops().is_empty() => Err(Error::new(format!(
            "'{}' is loaded, not the default scheduler",
            host_kernel::ops()
        ))
        .hint("unload it: `windtunnel live unload`")),
        Policy::Eevdf => execute().map(Ok),
        Policy::Exec { name, command } => {
            stop::install_handlers();
            let mut scheduler = Scheduler::start(name, command)?;
            let live = execute()?;
            scheduler.check()?;
            Ok(Ok(live))
        }
        Policy::Object { name, path } => {
            host_kernel::can_load()?;
            let source = Source::new(name.clone(), path.clone(), &scenario.settings)?;
            match source.load(&mut Journal::from_now()) {
                Ok(_loaded) => execute().map(Ok),
                Err(Failure::Policy(words)) => {
                    errln!("{words}");
                    Ok(Err(ExitStatus::from(1)))
                }
                Err(Failure::Restart) => Err(Error::new(
                    "CPUs went online or offline while the policy was enabled: run it again",
                )),
                Err(Failure::Refused(error)) => Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_schedulers_program_do_not_belong_to_the_run() {
        let workload = workload::load("hackbench:groups=1", &[]).expect("the workload exists");
        let names = |policy| own_names(&Policy::find(policy).expect("the policy exists"), &workload);
        let of_program = names("exec: ./scx_x").expect("only the tasks of the workload belong to the run");
        assert!(
            of_program.contains("sender") && of_program.contains("receiver"),
            "{of_program:?}"
        );
        assert!(!of_program.contains("scx_x"));
        assert_eq!(names("eevdf"), None);
    }
}
