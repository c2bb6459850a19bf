// SPDX-License-Identifier: GPL-2.0-only
//! A snapshot of the tasks of a recorded machine: their attributes that scheduler events do not
//! contain, and the kernel's options.

use crate::encode::{Bytes, DecodeError, put_text, put_varint};

/// Scheduling policies, by the numbers of Linux.
pub const SCHED_NORMAL: u32 = 0;
pub const SCHED_FIFO: u32 = 1;
pub const SCHED_RR: u32 = 2;
pub const SCHED_BATCH: u32 = 3;
pub const SCHED_IDLE: u32 = 5;
pub const SCHED_EXT: u32 = 7;

/// Attributes of one task, from /proc.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskAttributes {
    pub pid: u32,
    pub tgid: u32,
    /// Scheduling policy, for example [`SCHED_BATCH`].
    pub policy: u32,
    /// -20 to 19.
    pub nice: i32,
    /// Real-time priority, 1 to 99, or 0.
    pub rt_priority: u32,
    /// Allowed CPUs as a list such as `0-3,8`. Empty if the task may use all CPUs.
    pub cpus: String,
    /// Index into [`Snapshot::groups`] plus 1, or 0 for the root.
    pub group: u32,
}

/// A group of tasks that share CPU time with other groups: a cgroup or an autogroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskGroup {
    /// Path of the cgroup, for example `/system.slice`, or name of the autogroup.
    pub path: String,
    /// cpu.weight, 1 to 10000.
    pub weight: u32,
}

/// Attributes of the recorded machine and of its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Release of the kernel, as `uname -r` prints it.
    pub release: String,
    pub groups: Vec<TaskGroup>,
    /// Tasks in ascending order of their pids.
    pub tasks: Vec<TaskAttributes>,
}

impl Snapshot {
    /// Returns the attributes of a task that existed when the snapshot was taken.
    pub fn task(&self, pid: u32) -> Option<&TaskAttributes> {
        let at = self.tasks.binary_search_by_key(&pid, |task| task.pid).ok()?;
        self.tasks.get(at)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_text(&self.release, &mut out);
        put_varint(self.groups.len() as u64, &mut out);
        for group in &self.groups {
            put_text(&group.path, &mut out);
            put_varint(u64::from(group.weight), &mut out);
        }
        put_varint(self.tasks.len() as u64, &mut out);
        for task in &self.tasks {
            let nice = (task.nice + 20).unsigned_abs();
            for number in [task.pid, task.tgid, task.policy, nice, task.rt_priority, task.group] {
                put_varint(u64::from(number), &mut out);
            }
            put_text(&task.cpus, &mut out);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Snapshot, DecodeError> {
        let mut from = Bytes { bytes, at: 0 };
        let mut snapshot = Snapshot {
            release: from.text()?.to_owned(),
            ..Snapshot::default()
        };
        // As in the header, no memory is reserved in advance, because a count may be wrong.
        for _ in 0..from.varint()? {
            let path = from.text()?.to_owned();
            let at = from.at;
            let weight = from.u32()?;
            if !(1..=10_000).contains(&weight) || !path.starts_with('/') {
                let problem = "a group of tasks has no absolute path, or no weight from 1 to 10000";
                return Err(DecodeError { at, problem });
            }
            snapshot.groups.push(TaskGroup { path, weight });
        }
        for _ in 0..from.varint()? {
            let at = from.at;
            let [pid, tgid, policy, nice, rt_priority, group] = {
                let mut numbers = [0; 6];
                for number in &mut numbers {
                    *number = from.u32()?;
                }
                numbers
            };
            let ordered = snapshot.tasks.last().is_none_or(|last| last.pid < pid);
            if !ordered || nice > 39 || rt_priority > 99 || group as usize > snapshot.groups.len() {
                let problem = "the attributes of a task are out of range, or the tasks are not sorted";
                return Err(DecodeError { at, problem });
            }
            snapshot.tasks.push(TaskAttributes {
                pid,
                tgid,
                policy,
                nice: nice.cast_signed() - 20,
                rt_priority,
                cpus: from.text()?.to_owned(),
                group,
            });
        }
        match from.is_empty() {
            true => Ok(snapshot),
            false => Err(DecodeError {
                at: from.at,
                problem: "there are bytes after the last task of the snapshot",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Snapshot {
        let task = |pid, nice, group| TaskAttributes {
            pid,
            tgid: 7,
            policy: SCHED_BATCH,
            nice,
            rt_priority: 0,
            cpus: if pid == 8 { "0-1,3".into() } else { String::new() },
            group,
        };
        Snapshot {
            release: "6.18.0".into(),
            groups: vec![TaskGroup {
                path: "/autogroup-3".into(),
                weight: 100,
            }],
            tasks: vec![task(7, -20, 0), task(8, 19, 1)],
        }
    }

    #[test]
    fn a_snapshot_is_decoded_unchanged_and_refused_if_cut() {
        let snapshot = example();
        let bytes = snapshot.encode();
        assert_eq!(Snapshot::decode(&bytes).as_ref(), Ok(&snapshot));
        for end in 0..bytes.len() {
            assert!(Snapshot::decode(&bytes[..end]).is_err(), "cut at byte {end}");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(Snapshot::decode(&longer).unwrap_err().at, bytes.len());
        assert_eq!(snapshot.task(8).map(|task| task.nice), Some(19));
        assert_eq!(snapshot.task(9), None);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let refused = |change: fn(&mut Snapshot)| {
            let mut snapshot = example();
            change(&mut snapshot);
            Snapshot::decode(&snapshot.encode()).unwrap_err().problem
        };
        assert!(refused(|s| s.groups[0].weight = 0).starts_with("a group of tasks"));
        assert!(refused(|s| s.groups[0].path = "x".into()).starts_with("a group of tasks"));
        for change in [
            (|s: &mut Snapshot| s.tasks[1].group = 2) as fn(&mut Snapshot),
            |s| s.tasks[0].pid = 8,
            |s| s.tasks[0].nice = 20,
            |s| s.tasks[0].rt_priority = 100,
        ] {
            assert!(refused(change).starts_with("the attributes of a task"));
        }
        // A damaged count must not reserve memory.
        assert!(Snapshot::decode(&[0, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
    }
}
