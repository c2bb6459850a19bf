// SPDX-License-Identifier: GPL-2.0-only
//! The promises an hwloc object tree makes about its CPU sets, checked object by object.
//!
//! hwloc relies on them without looking: a child's CPUs are among its parent's, siblings are
//! disjoint and in order, a PU is a leaf of exactly one CPU.

use crate::MAX_CPUS;

/// A CPU or node set, 64 a word, no trailing zero words.
pub(crate) type Bits = Vec<u64>;

/// Highest index of anything: offline CPUs may leave gaps.
const MAX_INDEX: u32 = MAX_CPUS * 2;

/// What is wrong with an object, and at which of its attributes.
pub(crate) struct Problem {
    pub attribute: Option<&'static str>,
    pub message: String,
}

fn problem(attribute: &'static str, message: impl Into<String>) -> Problem {
    Problem {
        attribute: Some(attribute),
        message: message.into(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Part of the CPU tree; the larger the number, the further inside it may be.
    Cpu(u32),
    /// NUMA nodes and memory-side caches.
    Memory,
    /// I/O devices and what users add: no CPU sets.
    Other,
}

/// What later objects are compared with.
pub(crate) struct Object {
    class: Class,
    is_pu: bool,
    cpuset: Bits,
    complete: Bits,
    /// CPUs of the children so far, and the first CPU of the last one.
    children: Bits,
    last_first: Option<u32>,
    /// OS index of a NUMA node.
    pub numa: Option<u32>,
}

impl Object {
    /// Stands for the `<topology>` around the root object.
    pub(crate) fn topology() -> Object {
        Object {
            class: Class::Other,
            is_pu: false,
            cpuset: Bits::new(),
            complete: Bits::new(),
            children: Bits::new(),
            last_first: None,
            numa: None,
        }
    }

    /// Reads an object's attributes through `get`.
    pub(crate) fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Object, Problem> {
        let Some(kind) = get("type") else {
            return Err(Problem {
                attribute: None,
                message: "an <object> without a type".into(),
            });
        };
        let class = class(kind).ok_or_else(|| problem("type", format!("{kind:?} is no type of object")))?;
        let mut object = Object {
            class,
            is_pu: kind == "PU",
            ..Object::topology()
        };
        let set = |name: &'static str| match get(name) {
            Some(text) => bits(text)
                .map(Some)
                .map_err(|message| problem(name, format!("{name} {message}"))),
            None => Ok(None),
        };
        for name in ["allowed_cpuset", "allowed_nodeset"] {
            set(name)?;
        }
        let (cpuset, complete) = (set("cpuset")?, set("complete_cpuset")?);
        let (nodeset, complete_nodeset) = (set("nodeset")?, set("complete_nodeset")?);
        if class == Class::Other {
            if cpuset.is_some() || complete.is_some() {
                return Err(problem("cpuset", format!("a {kind} with a cpuset")));
            }
            return Ok(object);
        }
        let (Some(cpuset), Some(complete)) = (cpuset, complete) else {
            let message = "an object without a cpuset and complete_cpuset".into();
            return Err(Problem {
                attribute: None,
                message,
            });
        };
        let (Some(nodeset), Some(complete_nodeset)) = (nodeset, complete_nodeset) else {
            let message = "an object without a nodeset and complete_nodeset".into();
            return Err(Problem {
                attribute: None,
                message,
            });
        };
        if !within(&nodeset, &complete_nodeset) {
            return Err(problem("nodeset", "nodeset goes beyond complete_nodeset"));
        }
        if !within(&cpuset, &complete) {
            return Err(problem("cpuset", "cpuset goes beyond complete_cpuset"));
        }
        if object.is_pu || kind == "NUMANode" {
            let text = get("os_index").unwrap_or("");
            let index = text
                .parse::<u32>()
                .ok()
                .filter(|&n| n < MAX_INDEX)
                .ok_or_else(|| problem("os_index", format!("os_index {text} is not a number below {MAX_INDEX}")))?;
            let (name, own) = if object.is_pu {
                ("cpuset", &complete)
            } else {
                ("nodeset", &complete_nodeset)
            };
            if *own != single(index) {
                return Err(problem(
                    "os_index",
                    format!("the {name} of a {kind} is not its os_index"),
                ));
            }
            object.numa = (!object.is_pu).then_some(index);
        }
        object.cpuset = cpuset;
        object.complete = complete;
        Ok(object)
    }

    /// The outermost object is the machine and has CPUs.
    pub(crate) fn check_root(&self) -> Result<(), Problem> {
        if self.class != Class::Cpu(0) {
            return Err(problem("type", "the root object is not a Machine"));
        }
        if self.cpuset.is_empty() {
            return Err(problem("cpuset", "a machine without a CPU"));
        }
        Ok(())
    }

    /// Takes `child` as the next one inside.
    pub(crate) fn adopt(&mut self, child: &Object) -> Result<(), Problem> {
        let (Class::Cpu(outer), Class::Cpu(inner)) = (self.class, child.class) else {
            return match (self.class, child.class) {
                (Class::Other, Class::Cpu(_) | Class::Memory) | (Class::Memory, Class::Cpu(_)) => {
                    Err(problem("type", "CPUs or memory inside of a device or of memory"))
                }
                (_, Class::Memory) if !within(&child.complete, &self.complete) => Err(problem(
                    "complete_cpuset",
                    "memory of CPUs outside of the object around it",
                )),
                _ => Ok(()),
            };
        };
        if inner < outer || inner == outer && outer != INNER {
            return Err(problem("type", "an object inside of a smaller one"));
        }
        if !within(&child.cpuset, &self.cpuset) {
            return Err(problem("cpuset", "cpuset goes beyond that of the object around it"));
        }
        if !within(&child.complete, &self.complete) {
            return Err(problem("complete_cpuset", "complete_cpuset goes beyond that around it"));
        }
        if child.complete.iter().zip(&self.children).any(|(a, b)| a & b != 0) {
            return Err(problem("cpuset", "cpuset has CPUs of an object before"));
        }
        let first = first(&child.complete);
        if first.is_none() || first < self.last_first {
            return Err(problem("complete_cpuset", "objects are not in the order of their CPUs"));
        }
        self.last_first = first;
        let len = self.children.len().max(child.complete.len());
        self.children.resize(len, 0);
        for (all, new) in self.children.iter_mut().zip(&child.complete) {
            *all |= new;
        }
        Ok(())
    }
}

/// Everything between the machine and the PUs: machines differ in what contains what there.
const INNER: u32 = 1;

fn class(kind: &str) -> Option<Class> {
    Some(match kind {
        "Machine" => Class::Cpu(0),
        "Package" | "Die" | "L5Cache" | "L4Cache" | "L3Cache" | "L3iCache" | "L2Cache" | "L2iCache" | "L1Cache"
        | "L1iCache" | "Core" | "Group" => Class::Cpu(INNER),
        "PU" => Class::Cpu(2),
        "NUMANode" | "MemCache" => Class::Memory,
        "Misc" | "Bridge" | "PCIDev" | "OSDev" => Class::Other,
        _ => return None,
    })
}

/// Reads hwloc's notation: words of 32 bits in hex, highest first.
pub(crate) fn bits(text: &str) -> Result<Bits, String> {
    if text.starts_with("0xf...f") {
        return Err("has no end".into());
    }
    if let Some(bad) = text.chars().find(|c| !(c.is_ascii_hexdigit() || "x,".contains(*c))) {
        return Err(format!("holds {bad:?}: not a bitmap"));
    }
    let mut bits = Bits::new();
    for (n, word) in text.rsplit(',').enumerate() {
        // Zero words inside are left out: 0x1,,0x0. hwloc miscounts when the first one is.
        let value = match word.strip_prefix("0x") {
            None if word.is_empty() && n != text.matches(',').count() => Some(0),
            Some(digits) if digits.len() <= 8 => u32::from_str_radix(digits, 16).ok(),
            _ => None,
        };
        let value = value.ok_or_else(|| format!("holds {word:?}: not a word of 32 bits"))?;
        if value != 0 && n as u32 * 32 >= MAX_INDEX || n > MAX_INDEX as usize {
            return Err(format!("goes beyond {MAX_INDEX}"));
        }
        if value != 0 {
            bits.resize(bits.len().max(n / 2 + 1), 0);
            bits[n / 2] |= u64::from(value) << (32 * (n % 2));
        }
    }
    Ok(bits)
}

fn within(inner: &Bits, outer: &Bits) -> bool {
    let in_outer = |n: usize| outer.get(n).copied().unwrap_or(0);
    inner.iter().enumerate().all(|(n, word)| word & !in_outer(n) == 0)
}

fn single(index: u32) -> Bits {
    let mut bits = vec![0; index as usize / 64 + 1];
    bits[index as usize / 64] = 1 << (index % 64);
    bits
}

fn first(bits: &Bits) -> Option<u32> {
    let word = bits.iter().position(|w| *w != 0)?;
    Some(word as u32 * 64 + bits[word].trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps() {
        assert_eq!(bits("0x0"), Ok(vec![]));
        assert_eq!(bits("0x00000005"), Ok(vec![5]));
        assert_eq!(bits("0x1,,0x3"), Ok(vec![3, 1]));
        assert_eq!(bits("0x80000000,0x0"), Ok(vec![1 << 63]));
        assert!(bits("0x1ffffffff").is_err() && bits("0x000000001").is_err());
        assert!(bits(",0x1").is_err() && bits("").is_err() && bits("1").is_err());
        assert!(bits(&format!("0x1{}", ",0x0".repeat(600))).is_err());
        assert_eq!(single(65), vec![0, 2]);
        assert_eq!(first(&single(65)), Some(65));
        assert!(within(&vec![1], &vec![3, 1]) && !within(&vec![0, 1], &vec![3]));
    }
}
