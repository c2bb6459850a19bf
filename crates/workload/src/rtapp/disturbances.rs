// SPDX-License-Identifier: GPL-2.0-only
//! Reader of the section "disturbances", an extension of rt-app's format. The section is an array
//! of objects. Each has a time "at" in us and the events that happen at that time.

use super::file::{Fields, File, INT_MAX};
use super::json::{Member, Value};
use crate::builder::Builder;
use crate::disturbance::{Action, Disturbance};
use crate::program::{Cgroup, Dist, Op, SchedPolicy, Workload};
use crate::task_specs::TaskSpec;
use input::{Error, Position};

/// Keys that need a "taskgroup". If an object has several of them, they take effect in this order.
const CGROUP_KEYS: [&str; 8] = [
    "mkdir",
    "weight",
    "idle",
    "max",
    "cpus",
    "attach",
    "attach_process",
    "rmdir",
];
const KEYS: [&str; 20] = [
    "at",
    "irq",
    "fifo",
    "deadline",
    "length",
    "count",
    "priority",
    "offline",
    "online",
    "taskgroup",
    "mkdir",
    "weight",
    "idle",
    "max",
    "period",
    "burst",
    "cpus",
    "attach",
    "attach_process",
    "rmdir",
];

/// Range of cpu.max's period in us (min_cfs_quota_period, max_cfs_quota_period).
const PERIOD_US: std::ops::RangeInclusive<i64> = 1_000..=1_000_000;

/// Refuses a workload with disturbances when it is to be written as a file, because rt-app's format
/// has no disturbances.
///
/// # Errors
/// Fails if the workload has disturbances, or a SCHED_DEADLINE task, which only disturbances add.
pub fn refuse(workload: &Workload) -> Result<(), Error> {
    let deadline = workload
        .tasks
        .iter()
        .any(|task| matches!(task.policy, SchedPolicy::Deadline { .. }));
    if deadline || !workload.disturbances.is_empty() {
        return Err(Error::at(&workload.name, "rt-app's format has no disturbances").hint("remove the disturbances"));
    }
    Ok(())
}

/// Reads the section into a workload. The tasks must have been read before.
pub fn read(file: File, section: &Member, workload: &mut Workload) -> Result<(), Error> {
    let Value::Array(items) = &section.node.value else {
        let found = section.node.value.kind();
        return Err(file.error(
            section.node.at,
            format!("\"disturbances\" takes an array of objects, found {found}"),
        ));
    };
    let mut all = Vec::new();
    for item in items {
        let member = Member {
            at: item.at,
            key: section.key.clone(),
            node: item.clone(),
        };
        let fields = file.fields(&member, &KEYS)?;
        let at_ns = file.usec(fields.need(file, &member, "at")?)?;
        let mut actions = read_actions(file, &fields, &mut workload.cgroups)?;
        let noise = noise(file, &member, &fields)?;
        if let Some(noise) = &noise {
            actions.extend(noise.irqs());
            noise.add_tasks(at_ns, workload);
        }
        if actions.is_empty() && noise.is_none() {
            return Err(nothing(file, fields.at));
        }
        all.extend(actions.into_iter().map(|action| Disturbance { at_ns, action }));
    }
    // The sort is stable, so disturbances at the same time keep their order.
    all.sort_by_key(|disturbance| disturbance.at_ns);
    workload.disturbances = all;
    Ok(())
}

/// Reads the hotplug and cgroup actions of one object.
fn read_actions(file: File, fields: &Fields, cgroups: &mut Vec<Cgroup>) -> Result<Vec<Action>, Error> {
    let mut actions = Vec::new();
    for (key, online) in [("offline", false), ("online", true)] {
        if let Some(member) = fields.get(key) {
            let cpu = file.int(member, "", 0..=0xffff)?;
            actions.push(Action::Hotplug { cpu, online });
        }
    }
    let members: Vec<&Member> = CGROUP_KEYS.iter().filter_map(|key| fields.get(key)).collect();
    match (fields.get("taskgroup"), members.first()) {
        (Some(group), Some(_)) => {
            let cgroup = index(file.string(group)?, cgroups);
            for member in members {
                actions.extend(cgroup_action(file, fields, member, cgroup)?);
            }
        }
        (Some(group), None) => {
            return Err(file
                .error(group.at, "\"taskgroup\" alone does nothing")
                .hint("add what happens to it: mkdir, weight, idle, max, cpus, attach, attach_process or rmdir"));
        }
        (None, Some(member)) => {
            return Err(file
                .error(member.at, format!("\"{}\" needs a \"taskgroup\"", member.key))
                .hint("add the \"taskgroup\" that it changes"));
        }
        (None, None) => {}
    }
    Ok(actions)
}

/// Noise: interrupts or tasks outside the workload that repeatedly use CPU time.
struct Noise {
    kind: NoiseCause,
    cpus: Vec<u32>,
    length_ns: u64,
    period_ns: u64,
    /// Number of repetitions; `None` is endless.
    count: Option<u64>,
}

/// Cause of the noise.
enum NoiseCause {
    Irq,
    /// A task with this name and policy on each CPU.
    Task(&'static str, SchedPolicy),
}

/// Reads the keys "irq", "fifo" and "deadline" of one object. Returns `None` if the object has none
/// of these keys.
fn noise(file: File, item: &Member, fields: &Fields) -> Result<Option<Noise>, Error> {
    let named: Vec<&Member> = ["irq", "fifo", "deadline"]
        .iter()
        .filter_map(|key| fields.get(key))
        .collect();
    let Some(&member) = named.first() else { return Ok(None) };
    if let Some(second) = named.get(1) {
        return Err(file
            .error(
                second.at,
                format!("\"{}\" and \"{}\" are in the same disturbance", member.key, second.key),
            )
            .hint("write two disturbances"));
    }
    let priority = match fields.get("priority") {
        Some(priority) => file.int(priority, "", 1..=99)?,
        None => 50,
    };
    let length_ns = file.usec(fields.need(file, item, "length")?)?;
    let count = match fields.get("count") {
        Some(count) => file.rounds(count)?,
        None => Some(1),
    };
    let period_ns = match fields.get("period") {
        Some(period) => file.usec(period)?,
        None if count == Some(1) => length_ns,
        None => {
            return Err(file
                .error(item.at, "\"count\" needs a \"period\"")
                .hint("add the time from one occurrence to the next, in us"));
        }
    };
    if length_ns == 0 || period_ns < length_ns {
        return Err(file
            .error(item.at, "the length is 0 or longer than the period")
            .hint("\"length\" and \"period\" are in us; use a length above 0 and a period at least as long"));
    }
    Ok(Some(Noise {
        kind: match member.key.as_str() {
            "irq" => NoiseCause::Irq,
            "fifo" => NoiseCause::Task("fifo", SchedPolicy::Fifo { rt_priority: priority }),
            _ => {
                // The length is at most the period, so the share is at most 1024.
                let share = u128::from(length_ns) * 1024 / u128::from(period_ns);
                let bandwidth = u32::try_from(share).unwrap_or(1024);
                NoiseCause::Task("deadline", SchedPolicy::Deadline { bandwidth })
            }
        },
        cpus: file.cpus(member)?,
        length_ns,
        period_ns,
        count,
    }))
}

impl Noise {
    /// Returns the interrupts, one action per CPU.
    fn irqs(&self) -> Vec<Action> {
        let irq = |&cpu: &u32| Action::Irq {
            cpu,
            ns: self.length_ns,
            period_ns: self.period_ns,
            count: self.count,
        };
        match self.kind {
            NoiseCause::Irq => self.cpus.iter().map(irq).collect(),
            NoiseCause::Task(..) => Vec::new(),
        }
    }

    /// Adds a task for each CPU, in a process of its own. The task computes for `length` and sleeps
    /// for the rest of the period.
    fn add_tasks(&self, at_ns: u64, workload: &mut Workload) {
        let NoiseCause::Task(name, policy) = self.kind else {
            return;
        };
        for &cpu in &self.cpus {
            let timer = |period| Op::Timer {
                timer: 0,
                period,
                absolute: true,
            };
            let mut program = Builder::default();
            program.op(timer(0));
            let rounds = program.begin_loop(self.count);
            program.op(Op::Runtime(Dist::Fixed(self.length_ns)));
            program.op(timer(self.period_ns));
            program.end_loop(rounds);
            let process = workload.tasks.iter().map(|task| task.process + 1).max().unwrap_or(0);
            let program_id = input::index(workload.programs.len());
            let mut task = TaskSpec::new(format!("{name}/{cpu}"), program_id, process);
            task.policy = policy;
            task.cpus = Some(vec![cpu]);
            task.start_cpu = Some(cpu);
            task.start_ns = at_ns;
            workload.tasks.push(task);
            workload.programs.push(program.finish());
        }
    }
}

fn nothing(file: File, at: Position) -> Error {
    let known = KEYS[1..].join(", ");
    file.error(at, "the disturbance does nothing")
        .hint(format!("use one of {known}"))
}

/// Reads the action of one key that changes a cgroup.
fn cgroup_action(file: File, fields: &Fields, member: &Member, cgroup: u32) -> Result<Option<Action>, Error> {
    Ok(Some(match member.key.as_str() {
        "mkdir" | "rmdir" if !file.bool(member)? => return Ok(None),
        "mkdir" => Action::Create { cgroup },
        "rmdir" => Action::Remove { cgroup },
        "weight" => Action::Weight {
            cgroup,
            weight: file.int(member, "", 1..=10_000)?,
        },
        "idle" => Action::Idle {
            cgroup,
            idle: file.bool(member)?,
        },
        "max" => max(file, fields, member, cgroup)?,
        "cpus" => Action::Cpus {
            cgroup,
            cpus: match &member.node.value {
                Value::String(text) if text.is_empty() => None,
                _ => Some(file.cpus(member)?),
            },
        },
        "attach" | "attach_process" => Action::Attach {
            cgroup,
            comm: file.name(member)?.into(),
            process: member.key == "attach_process",
        },
        _ => return Ok(None),
    }))
}

/// Reads cpu.max with its period and burst.
fn max(file: File, fields: &Fields, member: &Member, cgroup: u32) -> Result<Action, Error> {
    let quota_us: Option<i64> = match &member.node.value {
        Value::String(text) if text == "max" => None,
        _ => Some(file.int(member, " us, or \"max\"", 1_000..=INT_MAX)?),
    };
    let period_us = match fields.get("period") {
        Some(period) => file.int(period, " us", PERIOD_US)?,
        None => 100_000,
    };
    let burst_us = match fields.get("burst") {
        Some(burst) => file.int(burst, " us, at most the quota", 0..=quota_us.unwrap_or(0))?,
        None => 0,
    };
    Ok(Action::Max {
        cgroup,
        quota_us: quota_us.map(i64::unsigned_abs),
        period_us,
        burst_us,
    })
}

/// Returns the index of the cgroup with a path, and adds the cgroup if it is missing.
fn index(path: &str, cgroups: &mut Vec<Cgroup>) -> u32 {
    let known = cgroups.iter().position(|cgroup| cgroup.path == path);
    input::index(known.unwrap_or_else(|| {
        cgroups.push(Cgroup {
            path: path.into(),
            weight: 100,
        });
        cgroups.len() - 1
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbances_are_sorted_by_time() {
        let w = crate::rtapp::read(
            r#"{
     "tasks" : { "a" : { "taskgroup" : "/old", "run" : 10 } },
     "disturbances" : [
      { "at" : 3000, "offline" : 2 },
      { "at" : 1000, "taskgroup" : "/new", "mkdir" : true, "weight" : 200, "max" : 5000, "period" : 10000, "burst" : 2000 },
      { "at" : 2000, "taskgroup" : "/new", "attach" : "a", "idle" : true, "cpus" : [3, 1] },
      { "at" : 4000, "taskgroup" : "/new", "max" : "max", "cpus" : "", "attach_process" : "a", "rmdir" : true },
      { "at" : 4000, "online" : 2 }
     ]
    }"#,
            "file.json",
        )
        .unwrap();
        let paths: Vec<&str> = w.cgroups.iter().map(|cgroup| cgroup.path.as_str()).collect();
        assert_eq!(paths, ["/", "/old", "/new"]);
        assert!(w.is_created_later(2) && !w.is_created_later(1));
        let attach = |process| Action::Attach {
            cgroup: 2,
            comm: "a".into(),
            process,
        };
        let max = |quota_us, period_us, burst_us| Action::Max {
            cgroup: 2,
            quota_us,
            period_us,
            burst_us,
        };
        let expected = [
            (1, Action::Create { cgroup: 2 }),
            (1, Action::Weight { cgroup: 2, weight: 200 }),
            (1, max(Some(5000), 10_000, 2000)),
            (2, Action::Idle { cgroup: 2, idle: true }),
            (
                2,
                Action::Cpus {
                    cgroup: 2,
                    cpus: Some(vec![1, 3]),
                },
            ),
            (2, attach(false)),
            (3, Action::Hotplug { cpu: 2, online: false }),
            (4, max(None, 100_000, 0)),
            (4, Action::Cpus { cgroup: 2, cpus: None }),
            (4, attach(true)),
            (4, Action::Remove { cgroup: 2 }),
            (4, Action::Hotplug { cpu: 2, online: true }),
        ];
        let got: Vec<(u64, Action)> = w
            .disturbances
            .into_iter()
            .map(|d| (d.at_ns / 1_000_000, d.action))
            .collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn noise_becomes_interrupts_or_tasks() {
        let text = r#"{
 "tasks" : { "a" : { "run" : 10 } },
 "disturbances" : [
  { "at" : 9, "irq" : [1, 0], "length" : 5, "period" : 50, "count" : -1 },
  { "at" : 7, "fifo" : [2], "length" : 5, "priority" : 3 },
  { "at" : 8, "deadline" : [3], "length" : 5, "period" : 50, "count" : 4 }
 ]
}"#;
        let w = crate::rtapp::read(text, "file.json").unwrap();
        let irq = |cpu| Disturbance {
            at_ns: 9_000,
            action: Action::Irq {
                cpu,
                ns: 5_000,
                period_ns: 50_000,
                count: None,
            },
        };
        assert_eq!(w.disturbances, [irq(0), irq(1)]);
        let tasks: Vec<_> = w
            .tasks
            .iter()
            .map(|t| (t.comm.as_str(), t.policy, t.start_ns, t.start_cpu, t.process))
            .collect();
        assert_eq!(
            tasks[1..],
            [
                ("fifo/2", SchedPolicy::Fifo { rt_priority: 3 }, 7_000, Some(2), 1),
                (
                    "deadline/3",
                    SchedPolicy::Deadline { bandwidth: 102 },
                    8_000,
                    Some(3),
                    2
                ),
            ]
        );
        assert_eq!(w.programs[2].ops[2], Op::Runtime(Dist::Fixed(5_000)));
        assert!(crate::to_rtapp_json(&w).is_err());
    }

    #[test]
    fn empty_and_invalid_disturbances_are_errors() {
        let error = |body: &str| {
            let text =
                format!("{{\"tasks\": {{\"a\": {{\"run\": 1, \"taskgroup\": \"/t\"}}}}, \"disturbances\": {body}}}");
            crate::rtapp::read(&text, "file.json").unwrap_err().to_string()
        };
        for (body, expect) in [
            ("{}", "\"disturbances\" takes an array of objects, found an object"),
            ("[{\"at\": 1}]", "the disturbance does nothing"),
            ("[{\"online\": 1}]", "needs \"at\""),
            (
                "[{\"at\": 1, \"taskgroup\": \"/x\"}]",
                "\"taskgroup\" alone does nothing",
            ),
            ("[{\"at\": 1, \"weight\": 5}]", "\"weight\" needs a \"taskgroup\""),
            (
                "[{\"at\": 1, \"taskgroup\": \"/x\", \"weight\": 0}]",
                "expected 1 to 10000",
            ),
            (
                "[{\"at\": 1, \"taskgroup\": \"/x\", \"max\": 5000, \"burst\": 6000}]",
                "at most the quota",
            ),
            (
                "[{\"at\": 1, \"taskgroup\": \"/x\", \"max\": 5000, \"period\": 2000000}]",
                "expected 1000 to 1000000",
            ),
            (
                "[{\"at\": 1, \"taskgroup\": \"/\", \"weight\": 5}]",
                "a disturbance changes the root cgroup",
            ),
            ("[{\"at\": 1, \"taskgroup\": \"x\", \"weight\": 5}]", "is not absolute"),
            (
                "[{\"at\": 1, \"taskgroup\": \"/t\", \"mkdir\": true}]",
                "which is created later",
            ),
            ("[{\"at\": 1, \"irq\": [0]}]", "needs \"length\""),
            (
                "[{\"at\": 1, \"irq\": [0], \"length\": 5, \"count\": 2}]",
                "\"count\" needs a \"period\"",
            ),
            (
                "[{\"at\": 1, \"irq\": [0], \"length\": 5, \"period\": 4}]",
                "longer than the period",
            ),
            (
                "[{\"at\": 1, \"irq\": [0], \"fifo\": [0], \"length\": 5}]",
                "are in the same disturbance",
            ),
            (
                "[{\"at\": 1, \"fifo\": 0, \"length\": 5}]",
                "takes an array of CPU numbers",
            ),
            ("[{\"at\": 1, \"ofline\": 5}]", "did you mean 'offline'?"),
        ] {
            let message = error(body);
            assert!(message.contains(expect), "{body}: {message}");
        }
    }
}
