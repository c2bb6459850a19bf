// SPDX-License-Identifier: GPL-2.0-only
//! Chooses short labels for tasks in a drawing. A label is a single letter if there are enough
//! letters for all tasks. Otherwise it consists of the first letters of the command name and a
//! number.
//!
//! The stem of a command name is the name without the suffix that numbers the instances of the
//! command: `worker` for `worker-12`.

use std::collections::BTreeMap;

const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwyz";

/// Labels of tasks by pid, and the legend that explains them.
pub(crate) struct Labels {
    by_pid: BTreeMap<u32, String>,
    legend: Vec<String>,
    width: usize,
}

/// Returns the command name without the suffix that numbers the instances of a command: `worker`
/// for `worker-12`, `kworker` for `kworker/3:1`.
pub fn stem(comm: &str) -> &str {
    let stem = comm.trim_end_matches(|c: char| c.is_ascii_digit() || "-_/:.#".contains(c));
    if stem.is_empty() { comm } else { stem }
}

impl Labels {
    /// Chooses labels for `tasks`, a map from pid to command name.
    pub fn new(tasks: &BTreeMap<u32, String>) -> Labels {
        let by_pid: BTreeMap<u32, String> = if tasks.len() <= LETTERS.len() {
            tasks
                .keys()
                .zip(LETTERS)
                .map(|(&pid, &letter)| (pid, char::from(letter).to_string()))
                .collect()
        } else {
            numbered(tasks)
        };
        let width = by_pid.values().map(|l| l.chars().count()).max().unwrap_or(1);
        let legend = legend(tasks, &by_pid);
        Labels { by_pid, legend, width }
    }

    /// Returns a task's label, or `?` for an unknown task.
    pub fn get(&self, pid: u32) -> &str {
        self.by_pid.get(&pid).map_or("?", String::as_str)
    }

    /// Returns the width of the longest label in characters.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the legend. Tasks with the same name stem and consecutive pids have one common
    /// entry, for example `A-D worker 3-6`.
    pub fn legend(&self) -> &[String] {
        &self.legend
    }
}

/// Returns labels such as `w0` and `w1`: the first letters of the name stem and a count. The labels
/// have as many letters, up to three, as are needed to distinguish the stem from all other stems.
fn numbered(tasks: &BTreeMap<u32, String>) -> BTreeMap<u32, String> {
    let mut stems: Vec<&str> = tasks.values().map(|comm| stem(comm)).collect();
    stems.sort_unstable();
    stems.dedup();
    let beginning = |stem: &str, n: usize| stem.chars().filter(|c| c.is_alphanumeric()).take(n).collect::<String>();
    let prefix = |own: &str| {
        let shared = |n: &usize| {
            stems
                .iter()
                .any(|other| *other != own && beginning(other, *n) == beginning(own, *n))
        };
        beginning(own, (1..3).find(|n| !shared(n)).unwrap_or(3))
    };
    let prefixes: BTreeMap<&str, String> = stems.iter().map(|stem| (*stem, prefix(stem))).collect();
    let mut used: BTreeMap<&str, u32> = BTreeMap::new();
    let mut labels = BTreeMap::new();
    for (&pid, comm) in tasks {
        let prefix = prefixes[stem(comm)].as_str();
        let number = used.entry(prefix).or_default();
        labels.insert(pid, format!("{prefix}{number}"));
        *number += 1;
    }
    labels
}

fn legend(tasks: &BTreeMap<u32, String>, labels: &BTreeMap<u32, String>) -> Vec<String> {
    // Groups found so far, as (stem, first command name, first pid, last pid).
    let mut groups: Vec<(&str, &str, u32, u32)> = Vec::new();
    for (&pid, comm) in tasks {
        match groups.last_mut() {
            Some((name, _, _, last)) if *name == stem(comm) && *last + 1 == pid => *last = pid,
            _ => groups.push((stem(comm), comm, pid, pid)),
        }
    }
    let entry = |&(name, comm, first, last): &(&str, &str, u32, u32)| {
        if first == last {
            format!("{} {comm} {first}", labels[&first])
        } else {
            format!("{}-{} {name} {first}-{last}", labels[&first], labels[&last])
        }
    };
    groups.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(comms: impl IntoIterator<Item = (u32, String)>) -> Labels {
        Labels::new(&comms.into_iter().collect())
    }

    #[test]
    fn few_tasks_get_letters() {
        let l = labels([(3, "worker-0".into()), (4, "worker-1".into()), (9, "init".into())]);
        assert_eq!((l.get(3), l.get(4), l.get(9), l.get(77)), ("A", "B", "C", "?"));
        assert_eq!(l.width(), 1);
        assert_eq!(l.legend(), ["A-B worker 3-4", "C init 9"]);
        assert!(
            !LETTERS.contains(&b'x'),
            "x is no label, because it marks CPUs that are offline"
        );
    }

    #[test]
    fn many_tasks_get_names_and_numbers() {
        let workers = (0..120).map(|i| (10 + i, format!("worker-{i}")));
        let others = [(500, "web".into()), (501, "init".into()), (502, "42".into())];
        let l = labels(workers.chain(others));
        assert_eq!(
            (l.get(10), l.get(129), l.get(500), l.get(501), l.get(502)),
            ("wo0", "wo119", "we0", "i0", "40")
        );
        assert_eq!(l.width(), 5);
        assert_eq!(l.legend()[0], "wo0-wo119 worker 10-129");
    }

    #[test]
    fn labels_are_distinct() {
        let names = ["kworker", "ksoftirqd", "kswapd", "kworkqueue", "k"];
        let l = labels((0..200).map(|i| (i, names[i as usize % 5].to_string())));
        let distinct: std::collections::BTreeSet<&str> = (0..200).map(|i| l.get(i)).collect();
        assert_eq!(distinct.len(), 200);
    }
}
