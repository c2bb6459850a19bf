// SPDX-License-Identifier: GPL-2.0-only
//! Parser for machine files, `machines/NAME.toml`.
//!
//! ```toml
//! description = "two sockets of 8 cores"
//! hz = 250
//! cpuperf_min = 256                         # lowest speed that a policy can set; default: 1024 (full)
//! topology = "pack:2 [numa] l3:1(size=25952256) core:8 pu:2(indexes=2*16:16*1)"
//! distances = [[10, 21], [21, 10]]          # SLIT; optional
//! memory = "flat"                           # spread over all nodes; default: "first-touch"
//! kernel_node = 0                           # node of all kernel data; default: the node that uses them
//! policies = "native"                       # policies cost as much as C schedulers; default: "bpf"
//! preempt = "full"                          # fair tasks preempt at once; default: "lazy"
//! skew_tick = true                          # ticks of the CPUs do not coincide; default: false
//! hrtick = false                            # no high-resolution tick at the end of slices; default: true
//! irq_time_accounting = true                # tasks are not charged for interrupts; default: false
//! numa_balancing = false                    # tasks and pages are not moved between nodes; default: true
//! sched_cache = false                       # threads of a process are not brought together; default: true
//! newidle = "raise-on-failure"              # rule of Linux 6.17; default: that of Linux 7.3
//! sched_features = ["NEXT_BUDDY"]           # features that differ from Linux 7.3; default: none
//! noise = "server"                          # background work; default: none
//! turbo = { speed = [1.0, 0.94], source = "..." } # highest frequency by number of active cores; default: all 1.0
//! nohz_full = "1-7"                         # CPUs without a tick while they run one task; default: none
//! asym_capacity = false                     # the kernel does not know the capacities; default: true
//! cpuidle = "menu"                          # or "off", "poll"; default: "menu" if there are states
//!
//! [frequency]                               # default: only a policy's targets change frequencies
//! governor = "schedutil"                    # or "performance"
//! domain = "core"                           # CPUs with one frequency: "core" (default), "llc", "package"
//! transition_us = 20                        # from a request to the new frequency; default: 0
//! rate_limit_us = 1000                      # default: 1.5 * transition_us, or 1000
//! source = "..."
//!
//! [[idle_state]]                            # default: CPUs halt; leaving this takes costs.idle_exit
//! name = "C1"
//! exit_us = 2
//! residency_us = 2
//! polling = true                            # a write wakes the CPU (MWAIT); default: false
//! source = "..."
//!
//! [task_struct]                             # task_structs compete for L2 sets; default: they do not
//! apart = "8 KiB"                           # distance from one task_struct to the next
//! ways = 8                                  # ways of the L2
//! line = { ns = { same = 0, core = 20, llc = 20, node = 200, remote = 200 }, source = "..." }
//!
//! [costs]                                   # missing constants are those of Costs::default()
//! context_switch = { ns = 600, source = "lat_ctx" }
//! bpf_insn = { ps = 350, source = "..." }
//! cache_line = { ns = { same = 0, core = 5, llc = 25, node = 60, remote = 120 }, source = "..." }
//! [costs.channel]                           # messages, by kind of channel
//! pipe = { send_ns = 300, recv_ns = 300, byte_ps = 100, source = "..." }
//! [costs.kfuncs]
//! scx_bpf_kick_cpu = { ns = 40, source = "..." }
//! ```
//!
//! `topology` is an hwloc synthetic string, `{ xml = "FILE" }` with the path of an hwloc XML file
//! relative to the directory of the machine file, or `{ inline = '''TEXT''' }` with the XML itself.
//! Machines that hwloc's strings cannot describe have `[[cpus]]` groups instead:
//!
//! ```toml
//! [[cpus]]                                  # CPU ids continue from group to group
//! cores = 6                                 # threads of a core have consecutive ids
//! threads = 2                               # default: 1
//! capacity = 1024                           # default: 1024, the fastest
//! priority = 47                             # ITMT priority; all CPUs have one, or none
//! package = 0                               # default: 0
//! node = 0                                  # default: 0
//! llc = 0                                   # default: one LLC per group
//! l1d = "48 KiB"                            # size of each cache that a CPU uses; default: none
//! l2 = "1280 KiB"
//! llc_size = "24 MiB"
//! ```
//!
//! In a file with `topology`, `[[kind]]` entries (`cpus = "4-7"`, `capacity = 600`,
//! `priority = 35`) set the capacities and priorities of CPUs. Unknown keys are errors, because a
//! misspelt constant would otherwise silently have its default value.

use crate::costs::{ByDistance, TASK_LINE};
use crate::definition::Definition;
use crate::file_costs::{Ns, WrittenCosts};
use crate::smt::{self, SMT_THROUGHPUT};
use crate::topology::{TaskSets, Topology};
use crate::{Feature, Features, KernelConfig, MachineSpec, Noise, TURNS};
use input::{Error, Source, cpu_list, size};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use toml::Spanned;

mod frequency;
mod idle_states;
mod topology;

use topology::{CpuKind, Group, Matrix, WrittenTopology};

/// Maximum size of a machine file in bytes.
pub(crate) const MAX_BYTES: u64 = 8 << 20;
/// Maximum number of L2 cache sets for which task_structs compete. This limits the memory of a
/// simulation, which stores for each core which cache lines are in these sets.
const MAX_SETS: u64 = 4096;

/// Contents of a machine file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    description: Spanned<String>,
    hz: Spanned<u32>,
    cpuperf_min: Option<Spanned<u32>>,
    smt_throughput: Option<Spanned<SmtThroughput>>,
    turns: Option<Turns>,
    turbo: Option<Spanned<SmtThroughput>>,
    frequency: Option<Spanned<frequency::Written>>,
    topology: Option<Spanned<WrittenTopology>>,
    cpus: Option<Spanned<Vec<Spanned<Group>>>>,
    #[serde(default)]
    kind: Vec<Spanned<CpuKind>>,
    distances: Option<Matrix>,
    memory: Option<Memory>,
    kernel_node: Option<Spanned<u32>>,
    policies: Option<Policies>,
    preempt: Option<Preempt>,
    #[serde(default)]
    skew_tick: bool,
    #[serde(default)]
    irq_time_accounting: bool,
    hrtick: Option<bool>,
    numa_balancing: Option<bool>,
    sched_cache: Option<bool>,
    newidle: Option<Newidle>,
    #[serde(default)]
    sched_features: Vec<Spanned<String>>,
    asym_capacity: Option<bool>,
    nohz_full: Option<Spanned<String>>,
    noise: Option<Spanned<String>>,
    cpuidle: Option<Spanned<String>>,
    #[serde(default)]
    idle_state: Vec<Spanned<idle_states::Written>>,
    task_struct: Option<TaskStruct>,
    #[serde(default)]
    costs: WrittenCosts,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Memory {
    FirstTouch,
    Flat,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Policies {
    Bpf,
    Native,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Preempt {
    Full,
    Lazy,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Newidle {
    RaiseOnFailure,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskStruct {
    apart: Spanned<size::Text>,
    ways: Spanned<u32>,
    line: Ns<ByDistance>,
}

/// How long a CPU of an emulated machine runs before the next CPU runs, and the source of this
/// number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "expected { us = 12, source = \"...\" }")]
struct Turns {
    us: Spanned<u32>,
    source: Spanned<String>,
}

/// Speeds of the threads of a core, or of the cores of a package, and the source of these numbers.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "expected { speed = [1.0, 0.62], source = \"...\" }"
)]
struct SmtThroughput {
    speed: Spanned<Vec<Spanned<f64>>>,
    source: Spanned<String>,
}

/// Parses a machine file. `dir` is its directory; built-in machines have none and cannot refer to
/// files.
pub(crate) fn parse(name: &str, source: &Source, dir: Option<&Path>) -> Result<Definition, Error> {
    let written: Written = source.toml().map_err(|error: Error| match error.message.as_str() {
        "the key 'source' is missing" => error.hint("add a source to every cost, at least \"assumption: ...\""),
        _ => error,
    })?;
    let file = File { source };
    let description = written.description.get_ref();
    if description.is_empty() || description.contains('\n') {
        let at = written.description.span().start;
        return Err(source.error(at, "the description must be one line of text"));
    }
    let hz = file.number("hz", &written.hz, 10..=10_000)?;
    let cpuperf_min = file.optional("cpuperf_min", &written.cpuperf_min, 1..=1024, 1024)?;
    let mut priorities: Vec<Option<u32>> = Vec::new();
    let mut found = match (&written.topology, &written.cpus) {
        (Some(topology), None) => file.topology(topology, dir)?,
        (None, Some(groups)) => file.groups(groups, &mut priorities)?,
        (Some(_), Some(groups)) => {
            return Err(source
                .error(groups.span().start, "the file has both topology and [[cpus]]")
                .hint("use only one of them"));
        }
        (None, None) => {
            return Err(source
                .error(0, "the file has neither topology nor [[cpus]]")
                .hint("add topology = \"node:2 core:8 pu:2\", topology = { xml = \"FILE\" }, or [[cpus]] groups"));
        }
    };
    file.kinds(&written.kind, &mut found, &mut priorities)?;
    let priorities = file.priorities(&priorities, &written)?;
    let fastest = found.topology.cpus.iter().map(|c| c.capacity).max().unwrap_or(0);
    if fastest != 1024 {
        let kind = written.kind.first().map(|kind| kind.span().start);
        let at = kind.or(written.cpus.as_ref().map(|cpus| cpus.span().start));
        return Err(source
            .error(at.unwrap_or(0), format!("the fastest CPU has capacity {fastest}"))
            .hint("set it to 1024, because capacities are relative to the fastest CPU"));
    }
    if let Some(distances) = &written.distances {
        let matrix = file.distances(distances, found.topology.nodes.len())?;
        found.topology = Topology::new(found.topology.cpus, matrix);
    }
    let features = file.features(&written)?;
    let mut costs = written.costs.costs;
    if let Some(unknown) = &written.costs.unknown {
        return Err(unknown.error(source));
    }
    costs.flat_memory = matches!(written.memory, Some(Memory::Flat));
    costs.native = matches!(written.policies, Some(Policies::Native));
    let mut cost_sources = BTreeMap::new();
    for (name, text) in written.costs.sources {
        cost_sources.insert(name, file.source_text(&text)?);
    }
    if let Some(node) = &written.kernel_node {
        let nodes = input::index(found.topology.nodes.len());
        found.topology.kernel_node = Some(file.number("kernel_node", node, 0..=nodes - 1)?);
    }
    if let Some(task_struct) = &written.task_struct {
        found.topology.task_sets = Some(file.task_sets(task_struct, &found.topology)?);
        cost_sources.insert(TASK_LINE.to_owned(), file.source_text(&task_struct.line.source)?);
    }
    let cpuidle = file.cpuidle(&written.cpuidle, &written.idle_state, &mut cost_sources)?;
    let smt_throughput = match &written.smt_throughput {
        Some(written) => {
            let source = file.source_text(&written.get_ref().source)?;
            cost_sources.insert(SMT_THROUGHPUT.to_owned(), source);
            let threads = smt::threads_per_core(&found.topology);
            file.speeds(
                SMT_THROUGHPUT,
                &written.get_ref().speed,
                threads,
                "a core has up to",
                "threads",
            )?
        }
        None => smt::default_throughput(&found.topology),
    };
    let turn_ns = match &written.turns {
        Some(turns) => {
            cost_sources.insert(TURNS.to_owned(), file.source_text(&turns.source)?);
            1000 * u64::from(file.number("us", &turns.us, 1..=100_000)?)
        }
        None => 0,
    };
    let mut speeds = Vec::new();
    if written.asym_capacity == Some(false) {
        for cpu in &mut found.topology.cpus {
            speeds.push(std::mem::replace(&mut cpu.capacity, 1024));
        }
    }
    let nohz_full = file.nohz_full(&written.nohz_full, &found.topology)?;
    let frequency = file.frequency(&written.frequency, &written.turbo, &found.topology, &mut cost_sources)?;
    Ok(Definition {
        spec: MachineSpec {
            name: name.to_owned(),
            description: written.description.into_inner(),
            topology: found.topology,
            hz,
            cpuperf_min,
            frequency,
            priorities,
            nohz_full,
            speeds,
            smt_throughput,
            turn_ns,
            kernel: KernelConfig {
                preempt_full: matches!(written.preempt, Some(Preempt::Full)),
                skew_tick: written.skew_tick,
                irq_time_accounting: written.irq_time_accounting,
                no_numa_balancing: written.numa_balancing == Some(false),
                no_sched_cache: written.sched_cache == Some(false),
                newidle_raises: matches!(written.newidle, Some(Newidle::RaiseOnFailure)),
                features,
                trace_before_switch: false,
            },
            noise: file.noise(&written.noise)?,
            cpuidle,
            costs,
        },
        origin: source.place.clone(),
        notes: [found.notes, found.speed_notes].concat(),
        cost_sources,
    })
}

/// The file that is parsed. Errors show its name and the line that is wrong.
struct File<'a> {
    source: &'a Source,
}

impl File<'_> {
    /// Reads the key `noise`.
    fn noise(&self, noise: &Option<Spanned<String>>) -> Result<Option<Noise>, Error> {
        let Some(name) = noise else { return Ok(None) };
        let found = Noise::named(name.get_ref()).ok_or_else(|| {
            let names = Noise::NAMES.map(|known| format!("{:?}", known.0)).join(", ");
            let error = self
                .source
                .error(name.span().start, format!("noise is {:?}", name.get_ref()));
            error.hint(format!("expected {names}; without the key there is no background work"))
        })?;
        Ok(Some(found))
    }

    fn number(&self, key: &str, value: &Spanned<u32>, range: RangeInclusive<u32>) -> Result<u32, Error> {
        let number = *value.get_ref();
        if range.contains(&number) {
            return Ok(number);
        }
        let message = format!("{key} is {number}, expected {} to {}", range.start(), range.end());
        Err(self.source.error(value.span().start, message))
    }

    fn optional(
        &self,
        key: &str,
        value: &Option<Spanned<u32>>,
        range: RangeInclusive<u32>,
        default: u32,
    ) -> Result<u32, Error> {
        let number = value.as_ref().map(|value| self.number(key, value, range));
        number.unwrap_or(Ok(default))
    }

    fn bytes(&self, key: &str, value: &Spanned<size::Text>) -> Result<u64, Error> {
        let size::Text(text) = value.get_ref();
        // Units of 1000 bytes are refused: vendors write "kB" for the sizes of caches, but mean
        // KiB.
        let bytes = size::parse(text).ok().filter(|_| text.ends_with("iB"));
        bytes.ok_or_else(|| {
            self.source
                .error(value.span().start, format!("{key} {text:?} is not a size"))
                .hint("write a size such as \"32 KiB\" or \"8 MiB\"")
        })
    }

    /// Returns the text of a constant's source (where its number comes from). The text must not be
    /// empty.
    fn source_text(&self, text: &Spanned<String>) -> Result<String, Error> {
        match text.get_ref().trim() {
            "" => Err(self.source.error(text.span().start, "the source is empty")),
            text => Ok(text.to_owned()),
        }
    }

    /// Reads the features that the keys `hrtick`, `newidle` and `sched_features` switch.
    fn features(&self, written: &Written) -> Result<Features, Error> {
        let mut features = Features::default();
        features.set(Feature::Hrtick, written.hrtick != Some(false));
        // The releases with this rule have no NI_RANDOM.
        features.set(Feature::NiRandom, written.newidle.is_none());
        for name in &written.sched_features {
            features
                .apply("sched_features", name.get_ref())
                .map_err(|error| Error {
                    hint: error.hint,
                    ..self.source.error(name.span().start, error.message)
                })?;
        }
        Ok(features)
    }

    /// Reads the key `nohz_full`.
    fn nohz_full(&self, cpus: &Option<Spanned<String>>, topology: &Topology) -> Result<Vec<u32>, Error> {
        let Some(cpus) = cpus else { return Ok(Vec::new()) };
        let at = cpus.span().start;
        let mut found = cpu_list::parse(cpus.get_ref(), topology.nr_cpus())
            .map_err(|message| self.source.error(at, message).hint(cpu_list::EXAMPLE))?;
        found.sort_unstable();
        found.dedup();
        if found.len() == topology.cpus.len() {
            let error = self.source.error(at, "all CPUs are in nohz_full");
            return Err(error.hint("leave out at least one CPU, which keeps the time and handles timers"));
        }
        Ok(found)
    }

    /// Reads the speeds of the key `smt_throughput`: a list with the speed while
    /// 1, 2, ..., `cpus` CPUs are busy.
    fn speeds(
        &self,
        key: &str,
        speeds: &Spanned<Vec<Spanned<f64>>>,
        cpus: usize,
        has: &str,
        unit: &str,
    ) -> Result<Vec<u32>, Error> {
        let given = speeds.get_ref().len();
        if given != cpus {
            let message = format!("found {given} {key} speeds, but {has} {cpus} {unit}");
            return Err(self.source.error(speeds.span().start, message).hint(format!(
                "write one speed for each number of busy {unit}, for example [1.0, 0.62] for two {unit}"
            )));
        }
        let mut previous = 1.0;
        for (index, speed) in speeds.get_ref().iter().enumerate() {
            let value = *speed.get_ref();
            let expected = match index {
                0 if value != 1.0 => "1.0, the full speed".to_owned(),
                // NaN is in no range, so it is refused here.
                _ if !(0.001..=previous).contains(&value) => format!("0.001 to {previous:?}, the speed before it"),
                _ => {
                    previous = value;
                    continue;
                }
            };
            let message = format!("speed {} of {key} is {value:?}, expected {expected}", index + 1);
            return Err(self.source.error(speed.span().start, message));
        }
        Ok(speeds
            .get_ref()
            .iter()
            .map(|speed| smt::in_1024ths(*speed.get_ref()))
            .collect())
    }

    /// Reads the section `[task_struct]`.
    fn task_sets(&self, written: &TaskStruct, topology: &Topology) -> Result<TaskSets, Error> {
        let at = written.apart.span().start;
        let bytes = self.bytes("apart", &written.apart)?;
        if !bytes.is_power_of_two() {
            return Err(self
                .source
                .error(at, format!("apart is {bytes}"))
                .hint("use a power of two, because only such distances map task_structs to the same cache sets"));
        }
        let sets = TaskSets {
            stride: bytes,
            ways: self.number("ways", &written.ways, 1..=64)?,
            line: written.line.ns,
        };
        let cpus = topology.cpus.iter();
        let most = cpus.map(|cpu| sets.count(cpu.l2_bytes)).max().unwrap_or(1);
        if most > MAX_SETS {
            let message = format!("an L2 has {most} sets for task_structs that are {bytes} bytes apart");
            let hint = format!("at most {MAX_SETS} are possible; use a larger distance, more ways or a smaller L2");
            return Err(self.source.error(at, message).hint(hint));
        }
        Ok(sets)
    }
}
