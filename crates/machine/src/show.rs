// SPDX-License-Identifier: GPL-2.0-only
//! Text output of a machine: its parts as a tree, and its cost table with sources.

use crate::KernelConfig;
use crate::TURNS;
use crate::catalog::Listed;
use crate::costs::{ByDistance, CONSTANTS, SPECIAL_COSTS, Slot, TASK_LINE};
use crate::definition::Definition;
use crate::frequency::{FREQUENCY, FrequencyDomain, FrequencyGovernor, TURBO, name_of};
use crate::idle::{self, Governor, IdleState};
use crate::message::{CHANNELS, MessageCosts, source_name};
use crate::noise;
use crate::smt::{self, SMT_THROUGHPUT};
use crate::topology::Topology;
use input::cpu_list;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Returns the text that `machine show` prints.
pub fn show(definition: &Definition) -> String {
    let spec = &definition.spec;
    let t = &spec.topology;
    let mut out = format!("{}: {}\n", spec.name, spec.description);
    let _ = writeln!(
        out,
        "{}, {}, {}, {}, {}, {} Hz; {}",
        input::counted(t.packages.len(), "package"),
        input::counted(t.nodes.len(), "node"),
        input::counted(t.llcs.len(), "LLC"),
        input::counted(t.cores.len(), "core"),
        input::counted(t.cpus.len(), "CPU"),
        spec.hz,
        definition.origin
    );
    if spec.cpuperf_min < 1024 {
        let _ = writeln!(
            out,
            "a policy can slow its CPUs down to {}/1024 of their speed",
            spec.cpuperf_min
        );
    }
    if let Some(text) = kernel(spec.kernel) {
        let _ = writeln!(out, "kernel: {text}");
    }
    if !spec.nohz_full.is_empty() {
        let _ = writeln!(
            out,
            "no tick while they run one task (nohz_full): {}",
            named(&spec.nohz_full)
        );
    }
    if !spec.priorities.is_empty() {
        let _ = writeln!(out, "ITMT priorities: {}", by_value(&spec.priorities));
    }
    if !spec.speeds.is_empty() {
        let _ = writeln!(
            out,
            "speeds, which the kernel does not know: {}",
            by_value(&spec.speeds)
        );
    }
    if let Some(noise) = spec.noise {
        let _ = writeln!(out, "background work: {}", noise.name());
    }
    for note in &definition.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out.push('\n');
    tree(&mut out, t);
    if t.nodes.len() > 1 {
        out.push_str("\nnode distances\n");
        for (node, row) in t.node_distances.iter().enumerate() {
            let _ = write!(out, "  {node:>3}:");
            for distance in row {
                let _ = write!(out, " {distance:>3}");
            }
            out.push('\n');
        }
    }
    siblings(&mut out, definition);
    frequencies(&mut out, definition);
    idle_states(&mut out, definition);
    costs(&mut out, definition);
    out
}

/// Formats one number per CPU: each value with the CPUs that have it, highest value first.
fn by_value(values: &[u32]) -> String {
    let mut cpus: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (cpu, &value) in (0..).zip(values) {
        cpus.entry(value).or_default().push(cpu);
    }
    let rows = cpus.iter().rev();
    let texts: Vec<String> = rows.map(|(value, cpus)| format!("{value} ({})", named(cpus))).collect();
    texts.join(", ")
}

/// Returns the options of the kernel that differ from the default.
fn kernel(config: KernelConfig) -> Option<String> {
    let options = [
        (config.preempt_full, "full preemption"),
        (config.skew_tick, "skewed ticks"),
        (config.irq_time_accounting, "interrupts are not charged to tasks"),
        (config.no_numa_balancing, "no NUMA balancing"),
        (config.no_sched_cache, "no cache-aware scheduling"),
        (config.newidle_raises, "failed new-idle balancing raises its cost"),
    ];
    let set = options
        .into_iter()
        .filter(|&(on, _)| on)
        .map(|(_, text)| text.to_owned());
    let set: Vec<String> = set.chain(config.features.differences()).collect();
    (!set.is_empty()).then(|| set.join(", "))
}

/// Returns the rows of `machine list`. The first element of a row is the name and the numbers of
/// parts in columns, the second is the description.
pub fn list_rows(machines: &[Listed]) -> Vec<(String, String)> {
    let width = machines.iter().map(|m| m.name.len()).max().unwrap_or(0).max(4);
    let head = format!("{:<width$}  {:>4}  {:>5}  {:>4}", "name", "CPUs", "nodes", "LLCs");
    let row = |m: &Listed| {
        let shape = format!("{:<width$}  {:>4}  {:>5}  {:>4}", m.name, m.cpus, m.nodes, m.llcs);
        (shape, m.description.clone())
    };
    let rows = machines.iter().map(row);
    std::iter::once((head, "description".to_owned())).chain(rows).collect()
}

/// Writes a tree: the packages, the nodes of each package, the LLCs of each node, and the groups of
/// equal cores of each LLC.
fn tree(out: &mut String, t: &Topology) {
    for (package, cpus) in t.packages.iter().enumerate() {
        let _ = writeln!(out, "package {package}: {}", named(cpus));
        for (node, cpus) in within(&t.nodes, cpus) {
            let _ = writeln!(out, "  node {node}: {}", named(&cpus));
            for (llc, cpus) in within(&t.llcs, &cpus) {
                let size = t.cpus[cpus[0] as usize].llc_bytes;
                let size = if size > 0 {
                    format!(" ({})", bytes(size))
                } else {
                    String::new()
                };
                let _ = writeln!(out, "    LLC {llc}{size}: {}", named(&cpus));
                cores(out, t, &cpus);
            }
        }
    }
}

/// Writes one line for each group of consecutive cores that differ only in their number.
fn cores(out: &mut String, t: &Topology, cpus: &[u32]) {
    let shape = |core: usize| {
        let cpu = &t.cpus[t.cores[core][0] as usize];
        (t.cores[core].len(), cpu.capacity, cpu.l2_bytes, cpu.l1d_bytes)
    };
    let ids: Vec<usize> = within(&t.cores, cpus).into_iter().map(|(core, _)| core).collect();
    for run in ids.chunk_by(|&a, &b| a + 1 == b && shape(a) == shape(b)) {
        let (first, last) = (run[0], run[run.len() - 1]);
        let (threads, capacity, l2, l1d) = shape(first);
        let name = if first == last {
            format!("core {first}")
        } else {
            format!("cores {first}-{last}")
        };
        let _ = write!(out, "      {name}: {}", input::counted(threads, "thread"));
        if run.len() > 1 {
            out.push_str(" each");
        }
        if capacity != 1024 {
            let _ = write!(out, ", capacity {capacity}");
        }
        for (cache, size) in [("L2", l2), ("L1d", l1d)] {
            if size > 0 {
                let _ = write!(out, ", {cache} {}", bytes(size));
            }
        }
        let _ = writeln!(out, ": {}", format_threads(t, run));
    }
}

/// Formats the hardware threads of a group of cores: all first threads, then all second threads.
fn format_threads(t: &Topology, run: &[usize]) -> String {
    let cpus_at = |rank: usize| -> Vec<u32> { run.iter().map(|&c| t.cores[c][rank]).collect() };
    let ranks: Vec<String> = (0..t.cores[run[0]].len())
        .map(|rank| cpu_list::format(&cpus_at(rank)))
        .collect();
    let cpus = if run.len() * ranks.len() == 1 { "CPU" } else { "CPUs" };
    format!("{cpus} {}", ranks.join(" + "))
}

/// Returns the number of each group that contains some of `cpus`, together with these CPUs.
fn within(groups: &[Vec<u32>], cpus: &[u32]) -> Vec<(usize, Vec<u32>)> {
    groups
        .iter()
        .enumerate()
        .map(|(id, group)| {
            (
                id,
                group
                    .iter()
                    .copied()
                    .filter(|c| cpus.binary_search(c).is_ok())
                    .collect(),
            )
        })
        .filter(|(_, common): &(usize, Vec<u32>)| !common.is_empty())
        .collect()
}

/// Returns a Markdown page with the cost tables of machines and the sources of all constants.
pub fn costs_page(definitions: &[Definition]) -> String {
    let mut out = String::from(
        "# Costs of the named machines\n\nThe tests of `crates/machine` generate this page from `machines/*.toml`. \
         [model.md](model.md) describes when each constant is charged.\n",
    );
    for definition in definitions {
        let spec = &definition.spec;
        let _ = write!(out, "\n## {}\n\n{}.", spec.name, spec.description);
        if spec.costs.flat_memory {
            out.push_str(" The memory of tasks is not placed by node.");
        }
        if spec.costs.native {
            out.push_str(" Policies represent schedulers in C.");
        }
        if let Some(text) = kernel(spec.kernel) {
            let _ = write!(out, " Kernel: {text}.");
        }
        if let Some(node) = spec.topology.kernel_node {
            let _ = write!(out, " All of the kernel's data are on node {node}.");
        }
        if let Some(sets) = spec.topology.task_sets {
            let _ = write!(
                out,
                " task_structs are {} apart and compete for L2s with {} ways.",
                bytes(sets.stride),
                sets.ways
            );
        }
        out.push_str("\n\n| constant | value | source |\n|---|---|---|\n");
        if spec.smt_throughput.len() > 1 {
            let speeds: Vec<String> = spec.smt_throughput.iter().map(|&speed| smt::decimal(speed)).collect();
            let source = smt_source(definition).replace('|', "\\|");
            let _ = writeln!(out, "| `{SMT_THROUGHPUT}` | {} | {source} |", speeds.join(", "));
        }
        for (text, source) in frequency_rows(definition) {
            let _ = writeln!(out, "| frequency | {text} | {} |", source.replace('|', "\\|"));
        }
        for state in &spec.cpuidle.states {
            let (name, amount, source) = idle_row(definition, state);
            let _ = writeln!(out, "| idle state {name} | {amount} | {} |", source.replace('|', "\\|"));
        }
        for (name, amount, source) in cost_rows(definition) {
            let per = if name.starts_with("reload_") { " per byte" } else { "" };
            let _ = writeln!(out, "| `{name}` | {amount}{per} | {} |", source.replace('|', "\\|"));
        }
    }
    out.push_str(&noise::page());
    out
}

/// Writes how CPUs slow each other: the turns of an emulated machine, and the speeds of the threads
/// of a core. Writes no speeds if each core has one thread.
fn siblings(out: &mut String, definition: &Definition) {
    if let Some(source) = definition.cost_sources.get(TURNS) {
        let us = definition.spec.turn_ns / 1000;
        let _ = writeln!(out, "\nthe CPUs run in turn, for at most {us} us each\n    {source}");
    }
    let speeds = &definition.spec.smt_throughput;
    if speeds.len() > 1 {
        out.push_str("\nspeed of a thread by busy threads of its core\n ");
        for (index, &speed) in speeds.iter().enumerate() {
            let _ = write!(out, " {}: {}", index + 1, smt::decimal(speed));
        }
        let _ = writeln!(out, "\n    {}", smt_source(definition));
    }
}

/// Writes the frequency governor and the highest frequencies, if the machine file contains them.
fn frequencies(out: &mut String, definition: &Definition) {
    for (text, source) in frequency_rows(definition) {
        let _ = writeln!(out, "\n{text}\n    {source}");
    }
}

/// Returns the description and the source of the frequency governor and of the highest
/// frequencies, as far as the machine file contains them.
fn frequency_rows(definition: &Definition) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let frequency = &definition.spec.frequency;
    if let Some(source) = definition.cost_sources.get(FREQUENCY) {
        let governor = name_of(&FrequencyGovernor::NAMES, frequency.governor);
        let mut text = format!("frequency governor {governor}");
        if frequency.governor == FrequencyGovernor::Schedutil {
            let _ = write!(
                text,
                ", one frequency per {}, rate limit {} us, transition {} us",
                name_of(&FrequencyDomain::NAMES, frequency.domain),
                frequency.rate_limit_ns / 1000,
                frequency.transition_ns / 1000
            );
        }
        rows.push((text, source.clone()));
    }
    if let Some(source) = definition.cost_sources.get(TURBO) {
        let mut text = "highest frequency by active cores of the package:".to_owned();
        for (index, &speed) in frequency.turbo.iter().enumerate() {
            let _ = write!(text, " {}: {}", index + 1, smt::decimal(speed));
        }
        rows.push((text, source.clone()));
    }
    rows
}

/// Writes the idle states, if the machine has a list of them.
fn idle_states(out: &mut String, definition: &Definition) {
    let cpuidle = &definition.spec.cpuidle;
    if cpuidle.states.is_empty() && cpuidle.governor == Governor::Off {
        return;
    }
    let _ = writeln!(out, "\nidle states (cpuidle = \"{}\")", cpuidle.governor.name());
    let width = cpuidle.states.iter().map(|state| state.name.len()).max().unwrap_or(0);
    for state in &cpuidle.states {
        let (name, amount, source) = idle_row(definition, state);
        let _ = writeln!(out, "  {name:<width$}  {amount}\n  {:<width$}    {source}", "");
    }
}

/// Returns the name, the properties and the source of an idle state.
fn idle_row(definition: &Definition, state: &IdleState) -> (String, String, String) {
    let (exit, residency) = (state.exit_ns / 1000, state.residency_ns / 1000);
    let polling = if state.polling { ", polling" } else { "" };
    let amount = format!("exit {exit} us, residency {residency} us{polling}");
    let source = definition.cost_sources.get(&format!("{}{}", idle::SOURCE, state.name));
    (state.name.clone(), amount, source.cloned().unwrap_or_default())
}

fn smt_source(definition: &Definition) -> String {
    match definition.cost_sources.get(SMT_THROUGHPUT) {
        Some(source) => source.clone(),
        None => format!("default; {}", smt::DEFAULT_SOURCE),
    }
}

fn costs(out: &mut String, definition: &Definition) {
    out.push_str("\ncosts\n");
    let rows = cost_rows(definition);
    let width = rows.iter().map(|r| r.0.len()).max().unwrap_or(0);
    for (name, amount, source) in rows {
        let _ = writeln!(out, "  {name:<width$}  {amount}\n  {:<width$}    {source}", "");
    }
}

/// Returns the name, value and source of each constant.
fn cost_rows(definition: &Definition) -> Vec<(String, String, String)> {
    let mut table = definition.spec.costs.clone();
    let mut rows: Vec<(String, String, String)> = Vec::new();
    for constant in &CONSTANTS {
        if constant.name == "idle_exit" && !definition.spec.cpuidle.states.is_empty() {
            continue;
        }
        if let (true, Slot::Ns(slot)) = (SPECIAL_COSTS.contains(&constant.name), constant.slot)
            && *slot(&mut table) == 0
        {
            continue;
        }
        let amount = match constant.slot {
            Slot::Ps(slot) => {
                let ps = *slot(&mut table);
                format!("{}.{:03} ns", ps / 1000, ps % 1000)
            }
            Slot::Ns(slot) => format!("{} ns", *slot(&mut table)),
            Slot::ByDistance(slot) => distances(*slot(&mut table)),
            Slot::MbPerS(slot) => rate(*slot(&mut table)),
        };
        let source = match definition.cost_sources.get(constant.name) {
            Some(source) => source.clone(),
            None => format!("default; {}", constant.default_source),
        };
        rows.push((constant.name.to_owned(), amount, source));
    }
    for kind in &CHANNELS {
        let MessageCosts {
            send_ns,
            recv_ns,
            byte_ps,
            alloc_ns,
            free_ns,
            cached,
        } = *(kind.row)(&mut table);
        let mut amount = format!("send {send_ns}, recv {recv_ns} ns, {byte_ps} ps per byte");
        if alloc_ns > 0 || free_ns > 0 {
            amount += &format!(", {alloc_ns} and {free_ns} ns more beyond {cached} messages");
        }
        let name = source_name(kind);
        let source = match definition.cost_sources.get(&name) {
            Some(source) => source.clone(),
            None => format!("default; {}", kind.default_source),
        };
        rows.push((name, amount, source));
    }
    if let Some(sets) = definition.spec.topology.task_sets {
        let source = definition.cost_sources.get(TASK_LINE).cloned().unwrap_or_default();
        rows.push((TASK_LINE.to_owned(), distances(sets.line), source));
    }
    for (name, ns) in &definition.spec.costs.kfuncs {
        let name = format!("kfuncs.{name}");
        let source = definition.cost_sources.get(&name).cloned().unwrap_or_default();
        rows.push((name, format!("{ns} ns"), source));
    }
    rows
}

/// Formats a rate. 0 is "off", because a rate of 0 switches off the limit or the effect to which
/// the rate belongs.
fn rate(mbps: u32) -> String {
    match mbps {
        0 => "off".to_owned(),
        mbps => format!("{mbps} MB/s"),
    }
}

fn distances(values: ByDistance) -> String {
    let pairs = ByDistance::NAMES.iter().zip(values.values());
    let pairs: Vec<String> = pairs.map(|(name, ns)| format!("{name} {ns}")).collect();
    format!("{} ns", pairs.join(", "))
}

fn named(cpus: &[u32]) -> String {
    format!(
        "{} {}",
        if cpus.len() == 1 { "CPU" } else { "CPUs" },
        cpu_list::format(cpus)
    )
}

/// Formats a size in the largest unit that divides it.
fn bytes(n: u64) -> String {
    match n {
        n if n.is_multiple_of(1 << 20) => format!("{} MiB", n >> 20),
        n if n.is_multiple_of(1 << 10) => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    }
}
