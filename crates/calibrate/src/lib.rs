// SPDX-License-Identifier: GPL-2.0-only
//! Measures the host and writes a machine file with its cost constants.
//!
//! All measurements run in user space, without privileges, in threads and processes that are pinned
//! to CPUs. Other load on the host can only slow them down, so each runs several short batches and
//! uses the fastest.
//!
//! Some costs can only be measured as a sum, for example schedule() and the switch of registers and
//! address space that follows. The sum is divided in the proportions of the default cost table, and
//! the `source` text in the file says so. A cost that cannot be measured at all is left out of the
//! file, so its default applies; for costs of interrupts, a comment says why.

mod bandwidth;
mod busy;
mod host;
mod interrupts;
mod memory;
mod messages;
mod smt;
mod switch;

use busy::Load;
use host::Pairs;
use input::error::Error;
use machine::{ByDistance, Costs, Definition, Topology};
use std::fmt::Write;

/// An entry of the machine file's cost table.
struct Constant {
    name: &'static str,
    value: String,
    source: String,
}

/// A cost that could not be measured and therefore keeps its default value.
struct Kept {
    name: &'static str,
    why: String,
}

/// Says that others use the host, so that the measured costs are too high.
const BUSY: &str = "the host is busy, so costs may be too high";

/// Measures this host and returns the text of its machine file. Before each measurement, calls
/// `report` with a description of the costs that it is about to measure. Calls `warn` with a warning
/// if others use the host. The file contains such a warning, too.
///
/// # Errors
/// The host's topology cannot be read, or this process is not allowed to use any of the host's
/// CPUs.
pub fn calibrate(report: &mut dyn FnMut(&str), warn: &mut dyn FnMut(&str)) -> Result<String, Error> {
    let busy_before = Load::watch();
    if let Some(others) = &busy_before {
        warn(&format!(
            "{BUSY}: before the measurement, {others}; stop them, or calibrate again later"
        ));
    }
    let before = Load::now();
    let definition = machine::define("host", &[])?;
    let xml = machine::host_xml()?;
    let pairs = Pairs::find(&definition.spec.topology)?;
    let mut constants = Vec::new();
    report("instructions and system calls");
    constants.extend(switch::measure_instructions(&pairs)?);
    report("messages and futexes");
    let messages = messages::measure_messages(&pairs)?;
    constants.extend(messages.constants);
    report("context switches, wake-ups, fork and exec");
    constants.extend(switch::measure_switches(&pairs, messages.pipe_ns)?);
    report("interrupts");
    let (interrupts, kept) = interrupts::measure_interrupts(&pairs)?;
    constants.extend(interrupts);
    report("cache lines and locks");
    constants.extend(memory::measure_transfers(&pairs)?);
    report("cache reloads");
    constants.extend(memory::measure_reloads(&pairs, &definition.spec.topology)?);
    report("bandwidth of memory");
    constants.extend(bandwidth::measure_bandwidth(&pairs, &definition.spec.topology)?);
    report("threads of a core");
    let speeds = smt::measure_threads(&pairs, &definition.spec.topology)?;
    let busy = before
        .zip(Load::now())
        .and_then(|(before, after)| before.others(&after));
    if let Some(others) = busy.as_ref().filter(|_| busy_before.is_none()) {
        warn(&format!(
            "{BUSY}: during the measurement, {others}; stop them, or calibrate again later"
        ));
    }
    Ok(text(
        &definition,
        busy.or(busy_before).as_deref(),
        &xml,
        speeds.as_deref(),
        &constants,
        &messages.channels,
        &kept,
    ))
}

fn text(
    definition: &Definition,
    busy: Option<&str>,
    xml: &str,
    speeds: Option<&[f64]>,
    constants: &[Constant],
    channels: &[Constant],
    kept: &[Kept],
) -> String {
    let spec = &definition.spec;
    let mut out = String::from("# A machine file written by `windtunnel machine calibrate`: measured on this host.\n");
    for note in &definition.notes {
        let _ = writeln!(out, "# {note}");
    }
    if let Some(others) = busy {
        let _ = writeln!(out, "# Warning: {BUSY}: {others}");
    }
    let description = format!("{}, {} CPUs, calibrated", spec.description, spec.topology.nr_cpus());
    let _ = writeln!(out, "\ndescription = {}", quoted(&description));
    let _ = writeln!(out, "hz = {}", spec.hz);
    if let Some(speeds) = speeds {
        let speeds: Vec<String> = speeds.iter().map(|speed| format!("{speed:.2}")).collect();
        let (speeds, source) = (speeds.join(", "), quoted(smt::SOURCE));
        let _ = writeln!(out, "smt_throughput = {{ speed = [{speeds}], source = {source} }}");
    }
    for (section, constants) in [("costs", constants), ("costs.channel", channels)] {
        let _ = writeln!(out, "\n[{section}]");
        for Constant { name, value, source } in constants {
            let _ = writeln!(out, "{name} = {{ {value}, source = {} }}", quoted(source));
        }
    }
    out.push('\n');
    for Kept { name, why } in kept {
        let why: String = why.chars().filter(|c| !c.is_control()).collect();
        let _ = writeln!(out, "# {name} keeps its default value: {why}");
    }
    // The topology is long, so it comes last.
    let _ = write!(out, "\n[topology]\ninline = '''\n{xml}'''\n");
    out
}

/// Returns `text` as a one-line TOML string.
fn quoted(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("\"{}\"", plain.replace('\\', r"\\").replace('"', "\\\""))
}

/// Converts `ns` to a constant in whole ns, at least 1.
fn ns(name: &'static str, ns: f64, source: impl Into<String>) -> Constant {
    Constant {
        name,
        value: format!("ns = {}", whole(ns)),
        source: source.into(),
    }
}

/// Converts `ns` to a constant in whole ps, at least 1.
fn ps(name: &'static str, ns: f64, source: impl Into<String>) -> Constant {
    Constant {
        name,
        value: format!("ps = {}", whole(ns * 1000.0)),
        source: source.into(),
    }
}

fn whole(value: f64) -> u64 {
    value.clamp(1.0, f64::from(u32::MAX)).round() as u64
}

/// Returns a constant with one value for each distance, nearest first. If this machine has no two
/// CPUs at some distance, the constant has the value of the next shorter distance there.
fn by_distance(name: &'static str, measured: [Option<f64>; 5], source: &str) -> Constant {
    let first = measured.iter().flatten().next().copied().unwrap_or(0.0);
    let mut last = first;
    let mut absent = Vec::new();
    let mut values = String::new();
    for (distance, value) in ByDistance::NAMES.into_iter().zip(measured) {
        match value {
            Some(value) => last = value,
            None => absent.push(distance),
        }
        let comma = if values.is_empty() { "" } else { ", " };
        let _ = write!(values, "{comma}{distance} = {last:.0}");
    }
    let mut source = source.to_owned();
    if !absent.is_empty() {
        let _ = write!(
            source,
            "; this machine has no pair of CPUs at distance {}",
            absent.join(", ")
        );
    }
    Constant {
        name,
        value: format!("ns = {{ {values} }}"),
        source,
    }
}

/// Returns the shares of the wake-up, of schedule() and of the switch itself in the sum of their
/// three times, according to the default cost table.
fn shares() -> (f64, f64, f64) {
    let Costs {
        wakeup_ns,
        schedule_ns,
        context_switch_ns,
        ..
    } = Costs::default();
    let all = f64::from(wakeup_ns + schedule_ns + context_switch_ns);
    (
        f64::from(wakeup_ns) / all,
        f64::from(schedule_ns) / all,
        f64::from(context_switch_ns) / all,
    )
}

/// Returns the sizes of a CPU's private cache and of its last-level cache, in bytes. Sizes that the
/// host does not report are estimated.
fn cache_sizes(topology: &Topology, cpu: u32) -> (u64, u64) {
    let cpu = &topology.cpus[cpu as usize];
    let or = |bytes: u64, otherwise: u64| if bytes > 0 { bytes } else { otherwise };
    let private = or(
        if cpu.l2_bytes < cpu.llc_bytes {
            cpu.l2_bytes
        } else {
            cpu.l1d_bytes
        },
        32 << 10,
    );
    (private, or(cpu.llc_bytes, 4 * private))
}
