// SPDX-License-Identifier: GPL-2.0-only
//! Parses the levels of a synthetic string: types, numbers of objects, sizes and index lists.

use crate::MAX_CPUS;
use crate::parts::ObjectKind;
use input::Error;
use std::collections::BTreeSet;

/// Maximum number of levels, including the machine.
const MAX_LEVELS: usize = 127;

/// A level. All objects of the previous level contain the same number of objects of this level.
#[derive(Default)]
pub(super) struct Level {
    /// Type of the objects; `None` in a string of only numbers, until all levels are known.
    pub(super) kind: Option<ObjectKind>,
    /// Number of objects in the whole machine.
    pub(super) width: u32,
    /// Size of a cache in bytes; 0 means the default.
    bytes: u64,
    /// OS indexes of the objects.
    pub(super) indexes: Option<Vec<u32>>,
    /// Number of NUMA nodes attached to each object.
    pub(super) attached: u32,
}

impl Level {
    /// Returns the number of CPUs in each object.
    pub(super) fn cpus(&self, nr_cpus: u32) -> u32 {
        nr_cpus / self.width
    }

    pub(super) fn bytes(&self) -> u64 {
        match self.kind {
            Some(ObjectKind::Cache(1)) if self.bytes == 0 => 32 << 10,
            Some(ObjectKind::Cache(level)) if self.bytes == 0 => (256 << 10) << (2 * level),
            _ => self.bytes,
        }
    }
}

/// Parses the levels, starting with the machine, and the index list of attached NUMA nodes.
pub(super) fn levels(text: &str) -> Result<(Vec<Level>, Option<&str>), Error> {
    let mut levels = vec![Level {
        kind: Some(ObjectKind::Machine),
        width: 1,
        ..Level::default()
    }];
    let mut node_indexes = None;
    for level_text in split(text) {
        let mut width = levels.last().map_or(1, |level| level.width);
        let attached = level_text.strip_prefix('[');
        let level = match attached {
            Some(inner) => inner
                .strip_suffix(']')
                .ok_or_else(|| format!("{level_text:?} has no closing ]"))?,
            None => level_text,
        };
        let mismatch = || format!("the parentheses of {level_text:?} do not match");
        let (head, attributes) = match level.split_once('(') {
            _ if level.split('(').next().is_some_and(|head| head.contains(')')) => return Err(mismatch().into()),
            Some((head, rest)) => match rest.strip_suffix(')') {
                Some(attributes) if !attributes.contains(['(', ')']) => (head, attributes),
                _ => return Err(mismatch().into()),
            },
            None => (level, ""),
        };
        let mut kind = None;
        if attached.is_some() {
            kind = parse_kind(head);
            if kind != Some(ObjectKind::Node) {
                return Err(Error::new(format!("{level_text:?} attaches {head:?}, expected numa")));
            }
        } else if !head.is_empty() {
            let count = match head.rsplit_once(':') {
                Some((name, count)) => {
                    kind = Some(parse_kind(name).ok_or_else(|| {
                        format!("{head:?} is not an hwloc synthetic machine: {name:?} is not a type of object")
                    })?);
                    count
                }
                None => head,
            };
            match number(count).map(|count| u32::try_from(count).unwrap_or(u32::MAX)) {
                Some(0) => return Err(Error::new(format!("the number of objects in {level_text:?} is 0"))),
                Some(count) if count > MAX_CPUS / width => {
                    return Err(Error::new(format!(
                        "{text:?} has more than {MAX_CPUS} CPUs, the maximum of Linux on x86 (NR_CPUS)"
                    )));
                }
                Some(count) => width *= count,
                None => return Err(Error::new(format!("{level_text:?} has no number of objects"))),
            }
        } else if levels.len() > 1 {
            return Err(Error::new(format!("{level_text:?} has no number of objects")));
        }
        let mut new = Level {
            kind,
            width,
            ..Level::default()
        };
        let in_level = |error: Error| format!("{error} of {head:?}");
        for attribute in attributes.split_ascii_whitespace() {
            let is_cache = matches!(kind, Some(ObjectKind::Cache(_) | ObjectKind::InstructionCache));
            match attribute.split_once('=') {
                Some(("size", text)) if is_cache => new.bytes = size(text).map_err(in_level)?,
                // In a string of only numbers, the level may turn out to be a cache. This value is
                // then its size.
                Some(("memory", text)) if !is_cache => new.bytes = size(text).map_err(in_level)?,
                Some(("indexes", list)) if attached.is_some() => node_indexes = Some(list),
                Some(("indexes", list)) => {
                    let indexes = indexes(list, width);
                    let indexes = indexes.map_err(|message| format!("indexes={list} of {head:?}: {message}"))?;
                    new.indexes = Some(indexes);
                }
                _ => {
                    let known = if is_cache { "size" } else { "memory" };
                    return Err(Error::new(format!(
                        "{attribute:?} of {head:?}: expected {known}= or indexes="
                    )));
                }
            }
        }
        if attached.is_some() {
            if let Some(level) = levels.last_mut() {
                level.attached += 1;
            }
        } else if !head.is_empty() {
            levels.push(new);
            if levels.len() > MAX_LEVELS {
                return Err(Error::new(format!("more than {MAX_LEVELS} levels")));
            }
        }
    }
    Ok((levels, node_indexes))
}

/// Splits a string at white space, except within parentheses.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0 && c.is_ascii_whitespace()
    })
    .filter(|level| !level.is_empty())
}

/// Returns the type with a name or abbreviation, according to hwloc's rules.
fn parse_kind(name: &str) -> Option<ObjectKind> {
    let name = name.to_ascii_lowercase();
    // Full name, shortest abbreviation in letters, and type.
    const TYPES: [(&str, usize, ObjectKind); 9] = [
        ("numanode", 2, ObjectKind::Node),
        ("node", 2, ObjectKind::Node),
        ("package", 2, ObjectKind::Package),
        ("socket", 2, ObjectKind::Package),
        ("die", 2, ObjectKind::Die),
        ("core", 2, ObjectKind::Core),
        ("pu", 2, ObjectKind::Pu),
        ("tile", 4, ObjectKind::Group),
        ("module", 6, ObjectKind::Group),
    ];
    let matches = |&&(full, least, _): &&(&str, usize, ObjectKind)| name.len() >= least && full.starts_with(&name);
    if let Some(&(_, _, kind)) = TYPES.iter().find(matches) {
        return Some(kind);
    }
    // A group may have a depth, such as group2.
    let group = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if group.len() >= 2 && "group".starts_with(group) {
        return Some(ObjectKind::Group);
    }
    let rest = name.strip_prefix('l')?;
    let letters = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let level = u8::try_from(number(&rest[..rest.len() - letters.len()])?).ok()?;
    let (kind, suffix) = match (letters.strip_prefix('i'), level) {
        (Some(suffix), 1..=3) => (ObjectKind::InstructionCache, suffix),
        (None, 1..=5) => (
            ObjectKind::Cache(level),
            letters.strip_prefix(['d', 'u']).unwrap_or(letters),
        ),
        _ => return None,
    };
    "cache".starts_with(suffix).then_some(kind)
}

/// Checks the types of the levels. In a string of only numbers, chooses them.
pub(super) fn name_levels(levels: &mut [Level]) -> Result<(), Error> {
    let Some((last, inner)) = levels[1..].split_last_mut() else {
        return Err("it has no level".into());
    };
    if let Some(kind) = last.kind.filter(|&kind| kind != ObjectKind::Pu) {
        return Err(Error::new(format!("its last level is {kind:?}, expected pu")));
    }
    last.kind = Some(ObjectKind::Pu);
    let unnamed = inner.iter().filter(|level| level.kind.is_none()).count();
    if unnamed > 0 && unnamed < inner.len() {
        return Err("some levels have a type and others have none".into());
    }
    let attached = levels.iter().any(|level| level.attached > 0);
    if unnamed > 0 {
        let kinds = usual_kinds(unnamed, !attached);
        for (level, kind) in levels[1..].iter_mut().zip(kinds) {
            level.kind = Some(kind);
        }
    }
    for kind in [
        ObjectKind::Pu,
        ObjectKind::Package,
        ObjectKind::Die,
        ObjectKind::Node,
        ObjectKind::Core,
    ] {
        match levels.iter().filter(|level| level.kind == Some(kind)).count() {
            0 | 1 if kind == ObjectKind::Node && attached && levels.iter().any(|level| level.kind == Some(kind)) => {
                return Err("it has NUMA nodes both as a level and attached".into());
            }
            0 | 1 => {}
            n => return Err(Error::new(format!("it has {n} levels of {kind:?}, expected one"))),
        }
    }
    Ok(())
}

/// Returns the types that hwloc chooses for `n` levels between the machine and the CPUs, outermost
/// first: a package, a NUMA node (if `node` is set), a core, up to four caches, and groups for the
/// remaining levels.
fn usual_kinds(n: usize, node: bool) -> Vec<ObjectKind> {
    let node = usize::from(node);
    let package = usize::from(n > node);
    let core = usize::from(n > node + package);
    let caches = (n - node - package - core).min(4);
    let groups = n - node - package - core - caches;
    let mut kinds = vec![ObjectKind::Group; groups];
    kinds.extend([ObjectKind::Package].iter().take(package));
    kinds.extend([ObjectKind::Node].iter().take(node));
    kinds.extend(match caches {
        0 => &[][..],
        1 => &[ObjectKind::Cache(2)],
        2 => &[ObjectKind::Cache(2), ObjectKind::Cache(1)],
        3 => &[ObjectKind::Cache(3), ObjectKind::Cache(2), ObjectKind::Cache(1)],
        _ => &[
            ObjectKind::Cache(3),
            ObjectKind::Cache(2),
            ObjectKind::Cache(1),
            ObjectKind::InstructionCache,
        ],
    });
    kinds.extend([ObjectKind::Core].iter().take(core));
    kinds
}

/// Parses the indexes of `objects` objects, which must be distinct. The text is a list `0,2,1,3`,
/// or interleaving loops `STEP*TIMES:STEP*TIMES`.
///
/// A loop counts from 0 to TIMES - 1 again and again, and advances after every STEP objects. The
/// values of the loops are the digits of an object's index, lowest digit first. If the last loop
/// has step 1, it may be omitted. For example, `2*2` for 4 objects means `2*2:1*2`. The first loop
/// has the values 0, 0, 1, 1 and the second 0, 1, 0, 1, so the indexes are 0, 2, 1, 3.
pub(super) fn indexes(list: &str, objects: u32) -> Result<Vec<u32>, Error> {
    let small = |text: &str| {
        let number = number(text).and_then(|n| u32::try_from(n).ok());
        number
            .filter(|&n| n <= MAX_CPUS)
            .ok_or_else(|| format!("{text:?} is not a number up to {MAX_CPUS}"))
    };
    let misfit = || format!("the loops do not produce {objects} indexes");
    let mut values: Vec<u32>;
    if list.contains('*') {
        let mut loops = Vec::new();
        let mut total = 1u32;
        for one in list.split(':') {
            let (step, times) = one.split_once('*').ok_or(format!("{one:?} is not STEP*TIMES"))?;
            let (step, times) = (small(step)?, small(times)?);
            total = total.saturating_mul(times);
            if step == 0 || times == 0 || total > objects {
                return Err(misfit().into());
            }
            loops.push((step, times));
        }
        let least = loops.iter().map(|&(step, _)| step).min().unwrap_or(1);
        match objects / total {
            _ if total == objects => {}
            times if times == least && times * total == objects => loops.push((1, times)),
            _ => return Err(misfit().into()),
        }
        values = vec![0; objects as usize];
        let mut digit = 1;
        for (step, times) in loops {
            for (n, value) in (0..).zip(&mut values) {
                *value += n / step % times * digit;
            }
            digit *= times;
        }
    } else {
        values = list.split(',').map(small).collect::<Result<_, _>>()?;
    }
    if values.len() != objects as usize {
        return Err(Error::new(format!(
            "found {} indexes for {objects} objects",
            values.len()
        )));
    }
    if let Some(largest) = values.iter().max().filter(|&&largest| largest >= MAX_CPUS) {
        return Err(Error::new(format!(
            "index {largest} is not below {MAX_CPUS}, the largest number of CPUs"
        )));
    }
    if values.iter().collect::<BTreeSet<_>>().len() != values.len() {
        return Err("an index occurs twice".into());
    }
    Ok(values)
}

/// Parses a size in bytes with hwloc's units: `32KiB`, `8MB`, `33554432`.
fn size(text: &str) -> Result<u64, Error> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "kb" => 1000,
        "kib" => 1 << 10,
        "mb" => 1_000_000,
        "mib" => 1 << 20,
        "gb" => 1_000_000_000,
        "gib" => 1 << 30,
        "tb" => 1_000_000_000_000,
        "tib" => 1 << 40,
        unit => {
            return Err(Error::new(format!(
                "{text:?} has the unit {unit:?}, expected KiB, MiB, GiB or TiB, as the size"
            )));
        }
    };
    let bytes = number(digits).and_then(|n| n.checked_mul(unit));
    Ok(bytes.ok_or_else(|| format!("{text:?} is not a number of bytes below 2^64, as the size"))?)
}

/// Parses a decimal number. A leading zero is refused, because hwloc would read an octal number.
fn number(text: &str) -> Option<u64> {
    let decimal = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if decimal { text.parse().ok() } else { None }
}
