// SPDX-License-Identifier: GPL-2.0-only
//! Takes a snapshot of the attributes of all tasks from /proc: affinities, scheduling policies and
//! groups. Scheduler events do not contain them, but a replay needs them.

use crate::host_kernel;
use kernel::task::PRIO_TO_WEIGHT;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use trace::Snapshot;
use trace::snapshot::{TaskAttributes, TaskGroup};

/// Weight of a cgroup that has none (cpu.weight).
const DEFAULT_WEIGHT: u32 = 100;
/// Directories of cgroups with the controller `cpu`: the file with the weight, and the weight that
/// corresponds to cpu.weight 100.
const HIERARCHIES: [(&str, &str, u64); 3] = [
    ("/sys/fs/cgroup", "cpu.weight", 100),
    ("/sys/fs/cgroup/cpu", "cpu.shares", 1024),
    ("/sys/fs/cgroup/cpu,cpuacct", "cpu.shares", 1024),
];

/// Attributes of tasks, collected from /proc at several times.
#[derive(Default)]
pub struct Attributes {
    /// Attributes of each task with the path of its group, by pid.
    tasks: BTreeMap<u32, (TaskAttributes, String)>,
    /// Weights of the groups, by path.
    weights: BTreeMap<String, u32>,
}

impl Attributes {
    /// Adds the tasks that currently exist and are not yet known.
    pub fn collect(&mut self) {
        let autogroups =
            fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").is_ok_and(|on| on.trim() == "1");
        let all = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
        for process in numbered(Path::new("/proc")) {
            // All threads of a process have the same autogroup. The directories of threads lack this
            // file.
            let autogroup = match autogroups {
                true => fs::read_to_string(process.join("autogroup")).unwrap_or_default(),
                false => String::new(),
            };
            for task in numbered(&process.join("task")) {
                let Some(pid) = number(&task) else { continue };
                if self.tasks.contains_key(&pid) {
                    continue;
                }
                // A task can exit while its files are read.
                if let Some(found) = self.read(&task, pid, &autogroup, all.trim()) {
                    self.tasks.insert(pid, found);
                }
            }
        }
    }

    fn read(&mut self, task: &Path, pid: u32, autogroup: &str, all: &str) -> Option<(TaskAttributes, String)> {
        let text = |name: &str| fs::read_to_string(task.join(name)).ok();
        let mut attributes = parse_stat(&text("stat")?)?;
        let (tgid, cpus) = parse_status(&text("status")?)?;
        attributes.pid = pid;
        attributes.tgid = tgid;
        if cpus != all {
            attributes.cpus = cpus;
        }
        let mut group = "/".to_owned();
        let cgroup = parse_cgroup(&text("cgroup").unwrap_or_default());
        if let Some((path, weight)) = cgroup_weight(&cgroup) {
            self.weights.insert(path.clone(), weight);
            group = path;
        }
        if group == "/"
            && let Some((path, weight)) = parse_autogroup(autogroup)
        {
            self.weights.insert(path.clone(), weight);
            group = path;
        }
        Some((attributes, group))
    }

    /// Returns the snapshot of all collected tasks.
    pub fn finish(self) -> Snapshot {
        // The parents of nested cgroups are groups, too.
        let mut paths: BTreeSet<String> = BTreeSet::new();
        for (_, group) in self.tasks.values() {
            let ancestors = Path::new(group).ancestors().map(|path| path.display().to_string());
            paths.extend(ancestors.filter(|path| path != "/" && !path.is_empty()));
        }
        let weight = |path: &str| {
            let known = self.weights.get(path).copied();
            known
                .or_else(|| cgroup_weight(path).map(|(_, weight)| weight))
                .unwrap_or(DEFAULT_WEIGHT)
        };
        let groups: Vec<TaskGroup> = paths
            .iter()
            .map(|path| TaskGroup {
                path: path.clone(),
                weight: weight(path),
            })
            .collect();
        let tasks = self.tasks.into_values().map(|(task, group)| TaskAttributes {
            group: (1..)
                .zip(&groups)
                .find(|(_, known)| known.path == group)
                .map_or(0, |(index, _)| index),
            ..task
        });
        Snapshot {
            release: host_kernel::release(),
            tasks: tasks.collect(),
            groups,
        }
    }
}

/// Returns the entries of a directory whose names are numbers.
fn numbered(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| number(path).is_some())
        .collect()
}

fn number(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.parse().ok()
}

/// Parses /proc/PID/stat. The name of the task is in parentheses and may contain anything, so the
/// fields are counted from the last parenthesis.
fn parse_stat(text: &str) -> Option<TaskAttributes> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The first field here is the third one of proc(5): 19 is nice, 40 the real-time priority, and
    // 41 the policy.
    let nice: i32 = fields.get(19 - 3)?.parse().ok()?;
    Some(TaskAttributes {
        nice: nice.clamp(-20, 19),
        rt_priority: fields.get(40 - 3)?.parse::<u32>().ok()?.min(99),
        policy: fields.get(41 - 3)?.parse().ok()?,
        ..TaskAttributes::default()
    })
}

/// Parses /proc/PID/status: the process and the allowed CPUs.
fn parse_status(text: &str) -> Option<(u32, String)> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim)
    };
    Some((field("Tgid")?.parse().ok()?, field("Cpus_allowed_list")?.to_owned()))
}

/// Returns the path of a task's cgroup: that of the controller `cpu`, or else that of version 2.
fn parse_cgroup(text: &str) -> String {
    let lines = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let cpu = lines().find(|(controllers, _)| controllers.split(',').any(|name| name == "cpu"));
    let found = cpu.or_else(|| lines().find(|(controllers, _)| controllers.is_empty()));
    found.map_or_else(|| "/".to_owned(), |(_, path)| path.to_owned())
}

/// Parses "/autogroup-37 nice 0". Returns the name and the weight, or `None` for the group of the
/// kernel's own tasks.
fn parse_autogroup(text: &str) -> Option<(String, u32)> {
    let (path, nice) = text.trim().split_once(" nice ")?;
    let nice: usize = usize::try_from(nice.parse::<i32>().ok()?.checked_add(20)?).ok()?;
    let weight = (PRIO_TO_WEIGHT.get(nice)? * DEFAULT_WEIGHT / 1024).clamp(1, 10_000);
    (path.starts_with('/') && path != "/autogroup-0").then(|| (path.to_owned(), weight))
}

/// Returns the nearest cgroup, from `path` upwards, that has a weight, with this weight. Returns
/// `None` for the root.
fn cgroup_weight(path: &str) -> Option<(String, u32)> {
    for path in Path::new(path).ancestors().filter(|path| *path != Path::new("/")) {
        for (root, file, usual) in HIERARCHIES {
            let relative = path.strip_prefix("/").unwrap_or(path);
            let text = fs::read_to_string(Path::new(root).join(relative).join(file)).ok();
            if let Some(weight) = text.and_then(|text| text.trim().parse::<u64>().ok()) {
                let weight = (weight * u64::from(DEFAULT_WEIGHT) / usual).clamp(1, 10_000);
                return Some((path.display().to_string(), weight as u32));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_from_the_files_of_proc() {
        let stat = "12 (a) b (x) S 1 2 3 0 -1 4194560 1 2 3 4 5 6 7 8 30 10 1 0 99 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 1 50 2 0 0";
        let task = parse_stat(stat).expect("the line can be read");
        assert_eq!((task.nice, task.rt_priority, task.policy), (10, 50, 2));
        assert_eq!(parse_stat("12 (a"), None);
        assert_eq!(parse_stat("12 (a) S 1"), None);
        let status = "Name:\ta\nTgid:\t7\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n";
        assert_eq!(parse_status(status), Some((7, "0-1".to_owned())));
        assert_eq!(parse_status("Tgid:\t7\n"), None);
    }

    #[test]
    fn groups_are_cgroups_or_autogroups() {
        assert_eq!(parse_cgroup("4:memory:/m\n1:cpu,cpuacct:/web\n0::/two\n"), "/web");
        assert_eq!(parse_cgroup("0::/user.slice/a:b\n"), "/user.slice/a:b");
        assert_eq!(parse_cgroup(""), "/");
        assert_eq!(
            parse_autogroup("/autogroup-37 nice 0\n"),
            Some(("/autogroup-37".into(), 100))
        );
        assert_eq!(
            parse_autogroup("/autogroup-5 nice 19\n"),
            Some(("/autogroup-5".into(), 1))
        );
        assert_eq!(parse_autogroup("/autogroup-0 nice 0\n"), None);
        assert_eq!(parse_autogroup("/autogroup-5 nice 99\n"), None);
        assert_eq!(parse_autogroup("x"), None);
    }

    #[test]
    fn a_snapshot_contains_this_process_and_all_groups() {
        let mut attributes = Attributes::default();
        attributes.collect();
        let snapshot = attributes.finish();
        let own = snapshot.task(std::process::id()).expect("this process exists");
        assert_eq!(own.tgid, std::process::id());
        assert!(snapshot.tasks.is_sorted_by_key(|task| task.pid));
        assert!(
            snapshot
                .tasks
                .iter()
                .all(|task| task.group as usize <= snapshot.groups.len())
        );
        assert!(snapshot.groups.iter().all(|group| (1..=10_000).contains(&group.weight)));
    }
}
