// SPDX-License-Identifier: GPL-2.0-only
//! Samples how many tasks run or wait on each CPU while a workload runs. The numbers come from
//! /proc.

use super::shared::{EntryKind, Shared};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A sample: the time since the start in ns, and the number of runnable tasks on each CPU of the
/// workload.
pub type LoadSample = (u64, Vec<u32>);

/// Takes the samples by reading /proc/PID/stat of each task of the workload.
pub struct Watch {
    cpus: Vec<u32>,
    /// Number of log entries that have been read. The log shows which tasks exist.
    read: usize,
    tasks: BTreeMap<u32, File>,
    pub looks: Vec<LoadSample>,
}

impl Watch {
    pub fn new(cpus: &[u32]) -> Watch {
        Watch {
            cpus: cpus.to_vec(),
            read: 0,
            tasks: BTreeMap::new(),
            looks: Vec::new(),
        }
    }

    /// Takes a sample now.
    pub fn sample(&mut self, shared: &Shared) {
        let logged = shared.logged();
        for (kind, entry) in shared.entries(self.read) {
            match kind {
                EntryKind::New => {
                    if let Ok(file) = File::open(format!("/proc/{0}/task/{0}/stat", entry.tid)) {
                        self.tasks.insert(entry.tid, file);
                    }
                }
                EntryKind::Exit => {
                    self.tasks.remove(&entry.tid);
                }
                _ => {}
            }
        }
        self.read = logged;
        let now = shared.now();
        let mut loads = vec![0; self.cpus.len()];
        let mut text = [0; 1024];
        for file in self.tasks.values() {
            let length = file.read_at(&mut text, 0).unwrap_or(0);
            let on = runnable_on(&String::from_utf8_lossy(&text[..length]));
            if let Some(cpu) = on.and_then(|cpu| self.cpus.iter().position(|&own| own == cpu)) {
                loads[cpu] += 1;
            }
        }
        self.looks.push((now, loads));
    }
}

/// Returns the CPU on which a task runs or waits, or `None` if the task is not runnable.
fn runnable_on(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut words = after_name.split_whitespace();
    if words.next()? != "R" {
        return None;
    }
    // The CPU is field 39 and the state is field 3.
    words.nth(35)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_name_may_contain_any_character() {
        let rest = (4..=52).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(runnable_on(&format!("1 (a ) b) R {rest}")), Some(39));
        assert_eq!(runnable_on(&format!("1 (a) S {rest}")), None);
        assert_eq!(runnable_on("1 (a"), None);
    }
}
