// SPDX-License-Identifier: GPL-2.0-only
//! Writes a recording as the text of a profile.

use input::Error;
use std::fmt::Write;

use kernel::{Machine, native};

use super::{Recording, Run};
use crate::bpf::is_name;
use crate::program::Program;
use ::bpf::btf::TypeKind;
use ::bpf::map::kind;
use ::bpf::object::{Difference, Object, ProgramKind};

/// Numeric members of the table of callbacks that a profile can set.
const NUMBERS: [&str; 4] = ["flags", "timeout_ms", "exit_dump_len", "dispatch_max_batch"];

/// Returns the text of the profile.
///
/// # Errors
/// The program has no object, or a variable cannot be resized.
pub(super) fn profile(program: &Program, m: &Machine, recording: &Recording, ops: usize) -> Result<String, Error> {
    let mut object = program.bpf.object().cloned().ok_or("the program has no object")?;
    let mut missing = recording.missing.clone();
    let mut text = header(program, m);
    let (mut resize, mut set, mut map) = (Vec::new(), Vec::new(), Vec::new());
    for tracked in &recording.tracked {
        let known = &program.bpf.maps[tracked.map];
        let Some(section) = &tracked.section else {
            let name = known.linked.as_deref().unwrap_or_default();
            let bytes = tracked.user.bytes(known.shared_bytes as usize);
            let values = bytes.chunks(known.stride() as usize).enumerate();
            for (index, value) in values.filter(|(_, value)| value.iter().any(|&byte| byte != 0)) {
                let prefix = format!("{name}[{index}]");
                push_value(&object, name, &prefix, value, &mut map, &mut missing);
            }
            continue;
        };
        let size = u64::from(known.value_size);
        if object.section_size(section) != Some(size)
            && let Some((array, count)) = last_array(&object, section, size)
        {
            object.resize(&array, count).map_err(Error::new)?;
            resize.push((array, i64::from(count)));
        }
        set.extend(object.differences(section, &tracked.user.bytes(size as usize)));
    }
    for ((name, key, cpu), value) in &recording.elements {
        let known = program.bpf.maps.iter().find(|map| map.linked.as_ref() == Some(name));
        let Some(known) = known else { continue };
        let mut prefix = format!("{name}[{}]", key_text(key));
        if known.is_per_cpu() {
            let _ = write!(prefix, "[{cpu}]");
        }
        push_value(&object, name, &prefix, value, &mut map, &mut missing);
    }
    let entries = program.bpf.maps.iter().filter_map(|map| {
        let def = object.maps().find(|def| Some(&def.name) == map.linked.as_ref())?;
        (def.max_entries != map.max_entries).then(|| (def.name.clone(), i64::from(map.max_entries)))
    });
    let entries: Vec<Difference> = entries.collect();
    for known in &program.bpf.maps {
        let def = object.maps().find(|def| Some(&def.name) == known.linked.as_ref());
        if def.is_some_and(|def| def.value_size != known.value_size && def.value_size > 0) {
            missing.push(format!("the value size of {}", known.name));
        }
    }
    let limit = latency_limit(m);
    if limit.is_none() {
        missing.push("limits of the latency of idle states, which differ between CPUs".into());
    }
    missing.sort();
    missing.dedup();
    let mut absent = "the work of the program while the scheduler runs".to_owned();
    missing.iter().for_each(|part| absent += &format!("; {part}"));
    let _ = writeln!(text, "absent = {}", quote(&absent));
    if let Some(us) = limit.filter(|&us| us > 0) {
        let _ = writeln!(text, "resume_latency_us = {us}");
    }
    lists(&mut text, program, &object, ops);
    table(&mut text, "resize", &resize);
    table(&mut text, "max_entries", &entries);
    table(&mut text, "set", &set);
    table(&mut text, "map", &map);
    table(&mut text, "ops", &numbers(program, ops));
    for run in &recording.runs {
        write_run(&mut text, run);
    }
    Ok(text)
}

/// Returns the limit of the exit latency of idle states that all CPUs have, us, or 0 without a limit.
fn latency_limit(m: &Machine) -> Option<u64> {
    let limits = (0..m.nr_cpus()).map(|cpu| native::latency_limit(m, cpu));
    let limits: Vec<Option<u64>> = limits.collect();
    let first = limits.first().copied().flatten();
    // A profile has no word for a limit of 0, with which CPUs only poll.
    let equal = limits.iter().all(|&limit| limit == first) && first != Some(0);
    equal.then(|| first.unwrap_or(0) / 1000)
}

fn header(program: &Program, m: &Machine) -> String {
    let command = program.settings.command.join(" ");
    let command: String = command.chars().filter(|c| !c.is_control()).collect();
    format!(
        "# Recorded by windtunnel exec --record-profile from the program of this command:\n\
         # {command}\n\
         # The values are those for the machine {} ({} CPUs) and Linux {}. Record again for a\n\
         # different machine.\n",
        m.spec().name,
        m.nr_cpus(),
        m.options().release
    )
}

/// Writes the keys whose values are lists of names.
fn lists(text: &mut String, program: &Program, object: &Object, ops: usize) {
    let loaded = |name: &str| program.bpf.progs.iter().any(|prog| is_name(&prog.name, name));
    let image = program.bpf.image();
    let tables = image.map_or(&[][..], |image| image.struct_ops.as_slice());
    let (mut attach, mut detach, mut without) = (Vec::new(), Vec::new(), Vec::new());
    for known in image.map_or(&[][..], |image| image.programs.as_slice()) {
        if matches!(known.kind, ProgramKind::StructOps | ProgramKind::Syscall) {
            continue;
        }
        match (loaded(&known.name), known.auto_attach) {
            (true, false) => attach.push(known.name.clone()),
            (false, true) => detach.push(known.name.clone()),
            _ => {}
        }
    }
    let map = &program.bpf.maps[ops];
    if let Some(table) = tables.iter().find(|table| is_name(&map.name, &table.map_name)) {
        if tables.iter().filter(|table| table.attachable).count() > 1 {
            let _ = writeln!(text, "struct_ops = {}", quote(&table.map_name));
        }
        let removed = |name: &&String| program.bpf.callback(ops, name.as_str()) == Some(0);
        without.extend(table.programs.keys().filter(removed).cloned());
    }
    let inner = object
        .maps()
        .filter(|map| matches!(map.kind, kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS));
    let inner = inner.map(|map| map.name.clone()).collect();
    for (key, names) in [
        ("without", without),
        ("attach", attach),
        ("detach", detach),
        ("inner_maps", inner),
    ] {
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| quote(name)).collect();
            let _ = writeln!(text, "{key} = [{}]", names.join(", "));
        }
    }
}

/// Returns the numeric members of the table of callbacks that the program has changed.
fn numbers(program: &Program, ops: usize) -> Vec<Difference> {
    let map = &program.bpf.maps[ops];
    let tables = program.bpf.image().map_or(&[][..], |image| image.struct_ops.as_slice());
    let table = tables.iter().find(|table| is_name(&map.name, &table.map_name));
    let changed = NUMBERS.into_iter().filter_map(|name| {
        let wide = name == "flags";
        let value = program.bpf.callback(ops, name)?;
        let value = if wide { value } else { value & u64::from(u32::MAX) };
        let differs = table.is_none_or(|table| table.u64(name) != value);
        differs.then(|| (name.to_owned(), value.cast_signed()))
    });
    changed.collect()
}

/// Returns the last array of a section that has grown or shrunk, and its number of elements.
fn last_array(object: &Object, section: &str, size: u64) -> Option<(String, u32)> {
    let variables = object.variables().iter().filter(|variable| variable.section == section);
    let last = variables.max_by_key(|variable| variable.offset)?;
    let TypeKind::Array { ty, .. } = *object.btf().kind(object.btf().resolve(last.ty)) else {
        return None;
    };
    let element = u64::from(object.btf().size_of(ty)?);
    let count = size.checked_sub(last.offset)?.checked_div(element)?;
    Some((last.name.clone(), u32::try_from(count).ok()?))
}

/// Returns the key of an element as a profile writes it: its parts, which have equal sizes.
fn key_text(key: &[u8]) -> String {
    let size = [8, 4, 2, 1]
        .into_iter()
        .find(|size| key.len().is_multiple_of(*size))
        .unwrap_or(1);
    let number = |part: &[u8]| {
        let word = part.iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
        word.cast_signed().to_string()
    };
    key.chunks(size).map(number).collect::<Vec<_>>().join(", ")
}

/// Adds the members of a map's value.
fn push_value(
    object: &Object,
    map: &str,
    prefix: &str,
    value: &[u8],
    settings: &mut Vec<Difference>,
    missing: &mut Vec<String>,
) {
    let is_zero = value.iter().all(|&byte| byte == 0);
    let known = object.maps().find(|def| def.name == map);
    if is_zero && known.is_some_and(|def| !matches!(def.kind, kind::ARRAY | kind::PERCPU_ARRAY)) {
        // An element of zeros exists, unlike a missing one. One of its members creates it.
        let parts = object.value_differences(map, &vec![0xff; value.len()]);
        let first = parts.into_iter().flatten().next();
        settings.extend(first.map(|(path, _)| (format!("{prefix}{path}"), 0)));
        return;
    }
    match object.value_differences(map, value) {
        Some(parts) => settings.extend(
            parts
                .into_iter()
                .map(|(path, value)| (format!("{prefix}{path}"), value)),
        ),
        None => missing.push(format!("the elements of {map}, whose type is unknown")),
    }
}

fn table(text: &mut String, key: &str, values: &[Difference]) {
    if values.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n[{key}]");
    for (path, value) in values {
        let bare = path.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let path = if bare { path.clone() } else { quote(path) };
        let _ = writeln!(text, "{path} = {value}");
    }
}

fn write_run(text: &mut String, run: &Run) {
    let _ = writeln!(text, "\n[[run]]\nprogram = {}", quote(&run.name));
    if run.after {
        text.push_str("after = true\n");
    }
    let mut bytes = run.context.clone();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let mut args: Vec<(String, u32)> = Vec::new();
    for part in bytes.chunks(8) {
        let word = part.iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
        let arg = match part.len() {
            8 => format!("{}:u64", word.cast_signed()),
            _ => (word as u32).cast_signed().to_string(),
        };
        match args.last_mut() {
            Some((last, times)) if *last == arg => *times += 1,
            _ => args.push((arg, 1)),
        }
    }
    let arg = |(arg, times): &(String, u32)| match times {
        1 => quote(arg),
        times => format!("{{ value = {}, times = {times} }}", quote(arg)),
    };
    if !args.is_empty() {
        let args: Vec<String> = args.iter().map(arg).collect();
        let _ = writeln!(text, "args = [{}]", args.join(", "));
    }
    if !run.memory.is_empty() {
        let words = run
            .memory
            .iter()
            .map(|(at, word)| format!("\"{at}\" = {}", word.cast_signed()));
        let _ = writeln!(text, "memory = {{ {} }}", words.collect::<Vec<_>>().join(", "));
    }
}

/// Quotes a text as TOML does.
fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
