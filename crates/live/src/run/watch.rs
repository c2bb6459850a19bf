// SPDX-License-Identifier: GPL-2.0-only
//! Which tasks run or wait on which CPU, looked at from outside while a workload runs.

use super::shared::{Kind, Shared};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The loads of the workload's CPUs at a time since the start, ns.
pub type Look = (u64, Vec<u32>);

/// Looks at /proc/PID/stat of the workload's tasks.
pub struct Watch {
    cpus: Vec<u32>,
    /// Entries of the log that were read.
    read: usize,
    tasks: BTreeMap<u32, File>,
    pub looks: Vec<Look>,
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

    /// Looks now.
    pub fn look(&mut self, shared: &Shared) {
        let logged = shared.logged();
        for (kind, entry) in shared.entries(self.read) {
            match kind {
                Kind::New => {
                    if let Ok(file) = File::open(format!("/proc/{0}/task/{0}/stat", entry.tid)) {
                        self.tasks.insert(entry.tid, file);
                    }
                }
                Kind::Exit => {
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

/// The CPU that a task runs or waits on, if it is runnable.
fn runnable_on(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut words = after_name.split_whitespace();
    if words.next()? != "R" {
        return None;
    }
    // Field 39 of all; the state is field 3.
    words.nth(35)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_anything() {
        let rest = (4..=52).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(runnable_on(&format!("1 (a ) b) R {rest}")), Some(39));
        assert_eq!(runnable_on(&format!("1 (a) S {rest}")), None);
        assert_eq!(runnable_on("1 (a"), None);
    }
}
