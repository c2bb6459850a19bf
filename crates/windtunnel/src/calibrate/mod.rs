// SPDX-License-Identifier: GPL-2.0-only
//! Measuring the host: a machine file with the constants of the machine this runs on.
//!
//! Everything is measured from user space, without privileges, by threads and processes that are pinned to CPUs: the least of
//! several short batches, since whatever else runs can only make things slower. What cannot be told apart that way (what of a
//! context switch is schedule(), what of an idle CPU's wake-up is the interrupt) is divided as in the default table and says
//! so; what cannot be measured is left out and stands at its default.

mod host;
mod memory;
mod switch;

use crate::error::Error;
use host::Pairs;
use machine::{ByDistance, Costs, Definition, Topology};
use std::fmt::Write;

/// One line of the file's cost table.
struct Constant {
    name: &'static str,
    value: String,
    source: String,
}

/// Measures this host; the text of its machine file. `tell` is told what is being measured.
///
/// # Errors
/// The host's topology cannot be read, or this process may use none of its CPUs.
pub fn calibrate(tell: &mut dyn FnMut(&str)) -> Result<String, Error> {
    let definition = machine::define("host", &[])?;
    let xml = machine::host_xml()?;
    let pairs = Pairs::find(&definition.spec.topology)?;
    let mut constants = Vec::new();
    tell("instructions and system calls");
    constants.extend(switch::instructions(&pairs)?);
    tell("context switches, wake-ups, fork and exec");
    constants.extend(switch::switches(&pairs)?);
    tell("cache lines and locks");
    constants.extend(memory::lines(&pairs)?);
    tell("reloading caches");
    constants.extend(memory::reloads(&pairs, &definition.spec.topology)?);
    Ok(text(&definition, &xml, &constants))
}

fn text(definition: &Definition, xml: &str, constants: &[Constant]) -> String {
    let spec = &definition.spec;
    let mut out = String::from("# A machine file written by `windtunnel machine calibrate`: measured on this host.\n");
    for note in &definition.notes {
        let _ = writeln!(out, "# {note}");
    }
    let description = format!("{}, {} CPUs, calibrated", spec.description, spec.topology.nr_cpus());
    let _ = writeln!(out, "\ndescription = {}", quoted(&description));
    let _ = writeln!(out, "hz = {}", spec.hz);
    out.push_str("\n[costs]\n");
    for Constant { name, value, source } in constants {
        let _ = writeln!(out, "{name} = {{ {value}, source = {} }}", quoted(source));
    }
    // Last, since it is long.
    let _ = write!(out, "\n[topology]\ninline = '''\n{xml}'''\n");
    out
}

/// A TOML string of one line.
fn quoted(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("\"{}\"", plain.replace('\\', r"\\").replace('"', "\\\""))
}

/// A constant in ns, at least 1.
fn ns(name: &'static str, ns: f64, source: impl Into<String>) -> Constant {
    Constant {
        name,
        value: format!("ns = {}", whole(ns)),
        source: source.into(),
    }
}

/// A constant in ps, at least 1.
fn ps(name: &'static str, ns: f64, source: impl Into<String>) -> Constant {
    Constant {
        name,
        value: format!("ps = {}", whole(ns * 1000.0)),
        source: source.into(),
    }
}

fn whole(value: f64) -> u64 {
    value.round().clamp(1.0, f64::from(u32::MAX)) as u64
}

/// Values by distance, nearest first: those that do not occur are as the nearer ones.
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
        let _ = write!(values, "{comma}{distance} = {}", last.round().max(0.0) as u64);
    }
    let mut source = source.to_owned();
    if !absent.is_empty() {
        let _ = write!(source, "; {} not on this machine", absent.join(", "));
    }
    Constant {
        name,
        value: format!("ns = {{ {values} }}"),
        source,
    }
}

/// How the default table divides a switch: wake-up, schedule() and the switch itself.
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

/// Bytes of the private cache of a CPU and of its last-level cache, where the host tells of them.
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
