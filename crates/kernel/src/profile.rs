// SPDX-License-Identifier: GPL-2.0-only
//! What a policy's user-space half would do between opening and attaching it, as data.
//!
//! Values are expressions over facts of the machine and the kernel's enumerators: `value = term | term ...`,
//! `term = factor * factor ...`, `factor = number | true | false | name`. Facts are `nr_cpus`, `nr_cores`, `nr_llcs`,
//! `nr_nodes`, `nr_packages`, `smt` and `numa` (1 or 0), `hz`; and of a CPU, where something is done for each: `cpu`, `core`,
//! `thread`, `llc`, `node`, `package`, `capacity`, `rank` (its place when sorted by capacity, largest first) and `sibling`
//! (another hardware thread of its core, or -1). A global whose index is a fact of a CPU, such as `cpu_capacity[cpu]`, is
//! set for each CPU.

use crate::release::Release;
use bpf::object::Object;
use machine::MachineSpec;

/// What to do with one policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Globals, or elements of them, and their values.
    pub set: Vec<(String, String)>,
    /// Arrays and their numbers of elements.
    pub resize: Vec<(String, String)>,
    /// Maps and their numbers of entries.
    pub max_entries: Vec<(String, String)>,
    /// Maps of maps whose entries each get an inner map as the object declares them.
    pub inner_maps: Vec<String>,
    /// Constants of the callback table: `flags`, `timeout_ms` and so on.
    pub ops: Vec<(String, String)>,
    /// Name of the callback table to attach, of several; empty: the first that attaches by itself.
    pub struct_ops: String,
    /// Programs to attach that do not attach by themselves.
    pub attach: Vec<String>,
    /// Programs of type syscall to run, in this order, before the policy is enabled.
    pub run: Vec<Run>,
}

/// Running a program of type syscall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub program: String,
    /// Once for each CPU instead of once.
    pub each_cpu: bool,
    /// Only if this is not 0; empty: always.
    pub when: String,
    /// The members of the struct which the program takes, each an `s32` unless it ends with `:u64`.
    pub args: Vec<String>,
}

/// The facts that expressions can name.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    spec: &'a MachineSpec,
    /// Whose enumerators there are.
    release: Release,
    cpu: Option<u32>,
}

impl<'a> Facts<'a> {
    /// Of a machine that runs the release of Linux that is modelled.
    pub fn new(spec: &'a MachineSpec) -> Facts<'a> {
        Facts {
            spec,
            release: Release::default(),
            cpu: None,
        }
    }

    /// The same under another release: an enumerator that it lacks is 0, as user space takes it.
    pub fn under(self, release: Release) -> Facts<'a> {
        Facts { release, ..self }
    }

    /// The same with the facts of a CPU.
    pub fn of_cpu(self, cpu: u32) -> Facts<'a> {
        Facts { cpu: Some(cpu), ..self }
    }

    fn nr_cpus(&self) -> u32 {
        self.spec.topology.nr_cpus()
    }

    fn name(&self, name: &str) -> Result<i64, String> {
        let topology = &self.spec.topology;
        let populated = |groups: &[Vec<u32>]| groups.iter().filter(|group| !group.is_empty()).count() as i64;
        let fact = match name {
            "nr_cpus" => Some(i64::from(self.nr_cpus())),
            "nr_cores" => Some(populated(&topology.cores)),
            "nr_llcs" => Some(populated(&topology.llcs)),
            "nr_nodes" => Some(populated(&topology.nodes)),
            "nr_packages" => Some(populated(&topology.packages)),
            "smt" => Some(i64::from(topology.cores.iter().any(|core| core.len() > 1))),
            "numa" => Some(i64::from(populated(&topology.nodes) > 1)),
            "hz" => Some(i64::from(self.spec.hz)),
            _ => None,
        };
        if let Some(fact) = fact {
            return Ok(fact);
        }
        if PER_CPU.contains(&name) {
            let cpu = self
                .cpu
                .ok_or_else(|| format!("'{name}' is a fact of a CPU, but this is done once"))?;
            return Ok(self.of(cpu, name));
        }
        let modelled = Release::MODELLED.enumerator(name);
        let value = self.release.enumerator(name).or(modelled.map(|_| 0));
        value.map(|value| value as i64).ok_or_else(|| {
            format!("'{name}' is neither a fact of the machine (nr_cpus, smt, cpu, ...) nor an enumerator of sched_ext")
        })
    }

    fn of(&self, cpu: u32, name: &str) -> i64 {
        let topology = &self.spec.topology;
        let info = &topology.cpus[cpu as usize];
        i64::from(match name {
            "cpu" => cpu,
            "core" => info.core,
            "thread" => info.thread,
            "llc" => info.llc,
            "node" => info.node,
            "package" => info.package,
            "capacity" => info.capacity,
            "rank" => {
                let before = |other: &u32| {
                    let capacity = topology.cpus[*other as usize].capacity;
                    capacity > info.capacity || capacity == info.capacity && *other < cpu
                };
                (0..self.nr_cpus()).filter(before).count() as u32
            }
            _ => match topology.siblings(cpu).iter().find(|&&sibling| sibling != cpu) {
                Some(&sibling) => sibling,
                None => return -1,
            },
        })
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// If it is no expression, or names something unknown.
    pub fn value(&self, text: &str) -> Result<i64, String> {
        let mut value = 0;
        for term in text.split('|') {
            let mut product: i64 = 1;
            for factor in term.split('*') {
                product = product.wrapping_mul(self.factor(factor.trim()).map_err(|error| format!("{text}: {error}"))?);
            }
            value |= product;
        }
        Ok(value)
    }

    fn factor(&self, text: &str) -> Result<i64, String> {
        match text {
            "true" => return Ok(1),
            "false" => return Ok(0),
            "" => return Err("a value is missing".into()),
            _ => {}
        }
        if let Some(hex) = text.strip_prefix("0x") {
            return u64::from_str_radix(hex, 16)
                .map(|value| value as i64)
                .map_err(|error| format!("'{text}': {error}"));
        }
        if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            return text
                .replace('_', "")
                .parse()
                .map_err(|error| format!("'{text}': {error}"));
        }
        self.name(text)
    }
}

/// Facts of a CPU.
const PER_CPU: [&str; 9] = [
    "cpu", "core", "thread", "llc", "node", "package", "capacity", "rank", "sibling",
];

/// Gives the `__SCX_*` and `__COMPAT_SCX_*` constants of scx headers the kernel's values; those of other kernels stay 0.
pub fn set_enum_constants(object: &mut Object, release: Release) -> Result<(), String> {
    let names: Vec<String> = object
        .variables()
        .iter()
        .map(|variable| variable.name.clone())
        .collect();
    for name in names {
        let stripped = name.strip_prefix("__COMPAT_").or(name.strip_prefix("__"));
        let enumerator = |name: &str| release.enumerator(name);
        if let Some(value) = stripped.filter(|name| name.starts_with("SCX_")).and_then(enumerator) {
            object
                .set(&name, &value.to_string())
                .map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

impl Profile {
    /// Resizes arrays and sets globals of an object that is not linked yet.
    ///
    /// # Errors
    /// If the object has no such variable, or a value does not fit it.
    pub fn apply(&self, object: &mut Object, facts: Facts) -> Result<(), String> {
        let count = |text: &str| {
            let value = facts.value(text)?;
            u32::try_from(value).map_err(|_| format!("{text} = {value} is no number of elements"))
        };
        for (name, text) in &self.resize {
            object.resize(name, count(text)?).map_err(|error| error.to_string())?;
        }
        for (name, text) in &self.max_entries {
            object
                .set_max_entries(name, count(text)?)
                .map_err(|error| error.to_string())?;
        }
        for (path, text) in &self.set {
            let index = path
                .split_once('[')
                .and_then(|(name, rest)| Some((name, rest.split_once(']')?)));
            match index.filter(|(_, (index, _))| PER_CPU.contains(&index.trim())) {
                Some((name, (index, rest))) => {
                    for cpu in 0..facts.nr_cpus() {
                        let facts = facts.of_cpu(cpu);
                        let path = format!("{name}[{}]{rest}", facts.value(index)?);
                        set(object, &path, facts.value(text)?)?;
                    }
                }
                None => set(object, path, facts.value(text)?)?,
            }
        }
        Ok(())
    }
}

fn set(object: &mut Object, path: &str, value: i64) -> Result<(), String> {
    // Unsigned 64-bit values wrap into i64 on the way; which it is the variable's type says.
    object.set(path, &value.to_string()).or_else(|error| match value {
        0.. => Err(error.to_string()),
        _ => object
            .set(path, &(value as u64).to_string())
            .map_err(|error| error.to_string()),
    })
}

impl Run {
    /// The bytes of the struct which the program takes.
    pub fn context(&self, facts: Facts) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        for arg in &self.args {
            match arg.strip_suffix(":u64") {
                Some(text) => {
                    bytes.resize(bytes.len().next_multiple_of(8), 0);
                    bytes.extend(facts.value(text)?.to_le_bytes());
                }
                None => bytes.extend((facts.value(arg)? as i32).to_le_bytes()),
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{Cpu, Topology};

    fn spec() -> MachineSpec {
        let cpu = |core, thread, capacity| Cpu {
            core,
            thread,
            llc: 0,
            node: 0,
            package: 0,
            capacity,
            l1d_bytes: 0,
            l2_bytes: 0,
            llc_bytes: 0,
        };
        let cpus = vec![
            cpu(0, 0, 512),
            cpu(1, 0, 1024),
            cpu(0, 1, 512),
            cpu(1, 1, 1024),
            cpu(2, 0, 300),
        ];
        let topology = Topology::new(cpus, Vec::new());
        MachineSpec {
            name: "test".into(),
            description: String::new(),
            topology,
            hz: 250,
            cpuperf_min: 1024,
            costs: machine::Costs::default(),
        }
    }

    #[test]
    fn expressions_know_facts_and_enumerators() {
        let spec = spec();
        let facts = Facts::new(&spec);
        let check = |text: &str, value: i64| assert_eq!(facts.value(text), Ok(value), "{text}");
        check("nr_cpus", 5);
        check("smt", 1);
        check("numa * SCX_OPS_BUILTIN_IDLE_PER_NODE | SCX_OPS_ENQ_LAST | 0x100", 0x102);
        check("-1", -1);
        check("SCX_SLICE_DFL", 20_000_000);
        check("nr_cores * hz", 750);
        assert!(facts.value("cpu").unwrap_err().contains("done once"));
        assert!(facts.value("nr_cpu").unwrap_err().contains("neither a fact"));
    }

    #[test]
    fn each_cpu_has_its_rank_and_sibling() {
        let spec = spec();
        let all = |name| {
            (0..5)
                .map(|cpu| Facts::new(&spec).of_cpu(cpu).value(name).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(all("rank"), [2, 0, 3, 1, 4]);
        assert_eq!(all("sibling"), [2, 3, 0, 1, -1]);
    }

    #[test]
    fn arguments_are_laid_out_as_c_does() {
        let spec = spec();
        let run = Run {
            args: vec!["7".into(), "hz:u64".into()],
            ..Run::default()
        };
        let bytes = run.context(Facts::new(&spec)).unwrap();
        assert_eq!(bytes, [7, 0, 0, 0, 0, 0, 0, 0, 250, 0, 0, 0, 0, 0, 0, 0]);
    }
}
