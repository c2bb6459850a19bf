// SPDX-License-Identifier: GPL-2.0-only
//! Reads the archives of schedviz (`trace.sh`): a tar file with the pages of the kernel's ring buffer
//! and the kernel's descriptions of events.
//!
//! ```text
//! formats/header_page                the form of a page
//! formats/sched/sched_switch/format  the description of an event
//! traces/cpu0                        the pages of a CPU
//! topology/..., options/...          not read
//! ```

use super::damage::Damage;
use super::events::Formats;
use super::input::{Input, Order, Span};
use super::line::MAX_CPUS;
use super::names::Lines;
use super::ring::Pages;
use std::collections::BTreeMap;
use std::io::Read;

const BLOCK: usize = 512;
/// Maximum size of a description.
const MAX_TEXT: u64 = 1 << 20;
/// Size of a page of x86 and of most other machines.
const PAGE: usize = 4096;

/// Returns whether a file that begins with these bytes is a tar archive.
pub fn is_archive(bytes: &[u8]) -> bool {
    bytes.get(257..262) == Some(b"ustar")
}

/// A file of the archive.
struct Entry {
    name: String,
    at: u64,
    length: u64,
}

/// Reads the lines of an archive.
///
/// # Errors
/// The archive is damaged, or was not written by schedviz from the kernel's ring buffer.
pub fn read(input: &dyn Input) -> Result<Lines, Damage> {
    let mut formats = Formats::new(Order::Little);
    let mut cpus: BTreeMap<u32, Entry> = BTreeMap::new();
    let mut pages = Pages::new(PAGE);
    for entry in entries(input)? {
        let name = entry.name.trim_start_matches("./");
        if let Some(cpu) = name.strip_prefix("traces/cpu").and_then(|cpu| cpu.parse().ok()) {
            cpus.insert(cpu, entry);
        } else if name == "formats/header_page" {
            pages.commit = commit_size(&text(input, &entry)?)?;
            pages.data = 8 + pages.commit;
        } else if name.starts_with("formats/") && name.ends_with("/format") {
            formats.add(&text(input, &entry)?)?;
        } else if name == "ebpf_trace" {
            let message = "schedviz recorded this trace with its BPF program, whose format cannot be read";
            return Err(Damage::Unsuitable(message.into()));
        }
    }
    if cpus.is_empty() {
        return Err("a tar archive without files traces/cpuN is none of schedviz".into());
    }
    let mut lines = Lines::default();
    for (cpu, entry) in cpus {
        if cpu >= MAX_CPUS {
            return Err(Damage::Cpu(cpu.into()));
        }
        let mut part = Span::new(input, entry.at, entry.length);
        let mut page = vec![0; PAGE];
        for _ in 0..entry.length / PAGE as u64 {
            part.read_exact(&mut page)?;
            pages.read(cpu, &page, &formats, &mut lines)?;
        }
    }
    Ok(lines)
}

/// Returns the regular files of a tar archive.
fn entries(input: &dyn Input) -> Result<Vec<Entry>, Damage> {
    let (mut entries, mut at) = (Vec::new(), 0);
    while at + BLOCK as u64 <= input.length() {
        let mut header = [0; BLOCK];
        Span::new(input, at, BLOCK as u64).read_exact(&mut header)?;
        // Two blocks of zeros end an archive.
        if header[0] == 0 {
            break;
        }
        if !is_archive(&header) {
            return Err(format!("there is no header at byte {at}").into());
        }
        let length = octal(&header[124..136]).ok_or_else(|| format!("the header at byte {at} has no length"))?;
        let begin = at + BLOCK as u64;
        let end = begin.checked_add(length).filter(|&end| end <= input.length());
        let end = end.ok_or_else(|| format!("the file at byte {at} extends beyond the archive"))?;
        if matches!(header[156], b'0' | 0) {
            entries.push(Entry {
                name: string(&header[..100]),
                at: begin,
                length,
            });
        }
        at = end.next_multiple_of(BLOCK as u64);
    }
    Ok(entries)
}

fn string(field: &[u8]) -> String {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn octal(field: &[u8]) -> Option<u64> {
    u64::from_str_radix(string(field).trim(), 8).ok()
}

fn text(input: &dyn Input, entry: &Entry) -> Result<String, Damage> {
    if entry.length > MAX_TEXT {
        return Err(format!("{} is no description: it has {} bytes", entry.name, entry.length).into());
    }
    let mut bytes = Vec::new();
    Span::new(input, entry.at, entry.length).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the size of the field `commit` in a page's header: 4 or 8 bytes.
fn commit_size(text: &str) -> Result<usize, Damage> {
    let line = text.lines().find(|line| line.contains(" commit;"));
    let size = line.and_then(|line| line.split("size:").nth(1)?.split(';').next()?.parse().ok());
    size.filter(|size| matches!(size, 4 | 8))
        .ok_or_else(|| "formats/header_page does not describe the header of a page".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, content: &[u8]) -> Vec<u8> {
        let mut header = [0; BLOCK];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = b'0';
        header[257..262].copy_from_slice(b"ustar");
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes
    }

    const HEADER: &[u8] = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n";

    /// Returns a page with an event sched_switch from pid 1 to pid 2.
    fn page() -> Vec<u8> {
        let mut page = vec![0; PAGE];
        page[..8].copy_from_slice(&5000_u64.to_le_bytes());
        page[8] = 68;
        let event = &mut page[16..];
        event[0] = 16;
        event[4] = 7;
        event[4 + 24] = 1;
        event[4 + 56] = 2;
        page
    }

    const SWITCH: &[u8] = b"name: sched_switch\nID: 7\nformat:\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
        \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n";

    #[test]
    fn the_pages_are_read_with_the_descriptions_that_follow_them() {
        let archive = [
            file("./traces/cpu3", &page()),
            file("./formats/header_page", HEADER),
            file("./formats/sched/sched_switch/format", SWITCH),
            vec![0; 2 * BLOCK],
        ]
        .concat();
        assert!(is_archive(&archive));
        let recording = super::super::read_bytes(&archive, std::path::Path::new("a.tar")).expect("the archive is read");
        assert_eq!((recording.start, recording.switches), (5000, 1));
        assert_eq!(recording.counts.get("sched_switch"), Some(&1));
        assert_eq!(recording.nr_cpus, 4);
    }

    #[test]
    fn other_archives_are_refused() {
        let message = |archive: Vec<u8>| {
            read(&archive.as_slice())
                .err()
                .map_or_else(String::new, |damage| damage.to_string())
        };
        assert!(message(file("notes.txt", b"no trace")).contains("is none of schedviz"));
        assert!(message(file("ebpf_trace", b"x")).contains("BPF program"));
        let mut cut = file("traces/cpu0", &page());
        cut.truncate(1000);
        assert!(message(cut).contains("extends beyond the archive"));
        assert!(message([file("notes.txt", b""), vec![1; BLOCK]].concat()).contains("no header at byte 512"));
    }
}
