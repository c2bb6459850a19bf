// SPDX-License-Identifier: GPL-2.0-only
//! The parts of a generated workload: groups of tasks, and disturbances.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A group of tasks or a disturbance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    /// Tasks that run and sleep.
    #[default]
    Sleepers,
    /// Tasks that only run.
    Hogs,
    /// Tasks that may use one CPU only.
    Pinned,
    /// Tasks that change their affinity again and again.
    Roamers,
    /// Tasks that sleep and wait while they must not migrate.
    Stayers,
    /// Tasks that change their nice value.
    Moody,
    /// Tasks that change between SCHED_OTHER and SCHED_FIFO.
    Switchers,
    /// Tasks that fork children, which exit soon.
    Forkers,
    /// Pairs of tasks that wake each other.
    Pairs,
    /// Tasks whose affinity is changed by cgroup.cpus while they run, wait or sleep.
    Moved,
    /// Interrupts.
    Irq,
    /// A real-time task on one CPU.
    Fifo,
    /// A CPU that goes offline and comes back.
    Hotplug,
}

/// All kinds of parts.
pub(super) const KINDS: [PartKind; 13] = [
    PartKind::Sleepers,
    PartKind::Hogs,
    PartKind::Pinned,
    PartKind::Roamers,
    PartKind::Stayers,
    PartKind::Moody,
    PartKind::Switchers,
    PartKind::Forkers,
    PartKind::Pairs,
    PartKind::Moved,
    PartKind::Irq,
    PartKind::Fifo,
    PartKind::Hotplug,
];

/// A part of a generated workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub kind: PartKind,
    /// Number of tasks.
    pub tasks: u32,
    /// Number of rounds of each task.
    pub rounds: u32,
    /// Time that a round computes, us.
    pub run: u32,
    /// Time that a round sleeps, us.
    pub sleep: u32,
    /// A CPU that the part uses.
    pub cpu: u32,
    /// Name of the tasks. If it is empty, the kind is their name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// CPUs that the tasks may use. If it is empty, these are all CPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Nice value of the tasks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nice: i32,
}

fn is_zero(nice: &i32) -> bool {
    *nice == 0
}

impl Part {
    /// Returns the number of tasks that the part creates at the start.
    pub(super) fn nr_tasks(&self) -> u32 {
        match self.kind {
            PartKind::Pairs => 2,
            PartKind::Irq | PartKind::Hotplug => 0,
            PartKind::Fifo => 1,
            _ => self.tasks,
        }
    }

    /// Returns whether `tasks` is the number of the part's tasks.
    pub(super) fn has_tasks(&self) -> bool {
        self.is_scheduled() && self.kind != PartKind::Pairs
    }

    /// Returns whether the part has tasks that the policy schedules.
    pub(super) fn is_scheduled(&self) -> bool {
        !matches!(self.kind, PartKind::Irq | PartKind::Fifo | PartKind::Hotplug)
    }

    /// Adds the tasks, disturbances and resources of part number `index` to those of a workload.
    pub(super) fn add(
        &self,
        index: usize,
        tasks: &mut Map<String, Value>,
        disturbances: &mut Vec<Value>,
        resources: &mut Map<String, Value>,
    ) {
        let &Part {
            kind,
            tasks: n,
            rounds,
            run,
            sleep,
            cpu,
            ..
        } = self;
        let is_taken = tasks.contains_key(&self.name);
        let name = |kind: &str| match self.name.as_str() {
            "" => format!("{kind}{index}"),
            name if is_taken => format!("{name}.{index}"),
            name => name.to_owned(),
        };
        let other = 1 - cpu.min(1);
        let phases = |phases: Value| json!({ "instance": n, "loop": rounds.div_ceil(4), "phases": phases });
        match kind {
            PartKind::Sleepers => {
                let value = json!({ "instance": n, "loop": rounds, "run": run, "sleep": sleep });
                tasks.insert(name("sleeper"), self.with_settings(value));
            }
            PartKind::Hogs => {
                let value = json!({ "instance": n, "loop": rounds.div_ceil(4), "run": 20 * run });
                tasks.insert(name("hog"), self.with_settings(value));
            }
            PartKind::Pinned => {
                tasks.insert(
                    name("pinned"),
                    json!({ "instance": n, "loop": rounds, "cpus": [cpu], "run": run, "sleep": sleep }),
                );
            }
            PartKind::Roamers => {
                let value = phases(json!({
                    "one": { "loop": 2, "cpus": [cpu], "run": run, "sleep": sleep },
                    "other": { "loop": 2, "cpus": [other], "run": run, "sleep": sleep },
                    "both": { "loop": 2, "cpus": [0, 1], "run": run, "sleep": sleep },
                }));
                tasks.insert(name("roamer"), value);
            }
            PartKind::Stayers => {
                let value = json!({
                    "instance": n, "loop": rounds, "run": run, "migrate_disable": "", "run1": run, "sleep": sleep,
                    "run2": run, "migrate_enable": "", "sleep1": sleep
                });
                tasks.insert(name("stayer"), self.with_settings(value));
            }
            PartKind::Moody => {
                let value = phases(json!({
                    "eager": { "loop": 2, "priority": -10, "run": run, "sleep": sleep },
                    "idle": { "loop": 2, "priority": 19, "run": run, "sleep": sleep },
                }));
                tasks.insert(name("mood"), value);
            }
            PartKind::Switchers => {
                let value = phases(json!({
                    "fair": { "loop": 2, "policy": "SCHED_OTHER", "priority": 0, "run": run, "sleep": sleep },
                    "fifo": { "loop": 2, "policy": "SCHED_FIFO", "priority": 10, "run": run, "sleep": sleep },
                }));
                tasks.insert(name("switcher"), value);
            }
            PartKind::Forkers => {
                let child = name("child");
                tasks.insert(
                    name("forker"),
                    json!({ "instance": n, "loop": rounds.div_ceil(2), "run": run, "fork": child, "sleep": sleep }),
                );
                tasks.insert(child, json!({ "instance": 0, "loop": 2, "run": run, "sleep": sleep }));
            }
            PartKind::Pairs => {
                let (ask, answer) = (name("ask"), name("answer"));
                for channel in [&ask, &answer] {
                    resources.insert(channel.clone(), json!({ "type": "pipe" }));
                }
                tasks.insert(
                    ask.clone(),
                    json!({ "loop": rounds, "run": run, "send": { "ref": ask, "bytes": 1 }, "recv": answer }),
                );
                tasks.insert(
                    answer.clone(),
                    json!({ "loop": rounds, "recv": ask, "run": run, "send": { "ref": answer, "bytes": 1 } }),
                );
            }
            PartKind::Moved => {
                let group = format!("/moved{index}");
                tasks.insert(
                    name("moved"),
                    json!({ "instance": n, "loop": rounds, "taskgroup": group, "run": run, "sleep": sleep }),
                );
                for (turn, cpus) in [json!([cpu]), json!([other]), json!([0, 1])]
                    .iter()
                    .cycle()
                    .take(rounds as usize)
                    .enumerate()
                {
                    let at = 50 + turn as u64 * u64::from(run + sleep);
                    disturbances.push(json!({ "at": at, "taskgroup": group, "cpus": cpus }));
                }
            }
            PartKind::Irq => {
                disturbances.push(json!({ "at": 0, "irq": [cpu], "length": run, "period": 4 * run, "count": rounds }))
            }
            PartKind::Fifo => disturbances
                .push(json!({ "at": 0, "fifo": [cpu], "length": run, "period": 3 * run + sleep, "count": rounds })),
            PartKind::Hotplug => {
                for turn in 0..u64::from(rounds.div_ceil(10)) {
                    let at = 500 + 4000 * turn;
                    disturbances.push(json!({ "at": at, "offline": 1 }));
                    disturbances.push(json!({ "at": at + 2000, "online": 1 }));
                }
            }
        }
    }

    /// Adds the affinity and the nice value to a task without phases.
    fn with_settings(&self, mut task: Value) -> Value {
        if let Some(task) = task.as_object_mut() {
            if !self.cpus.is_empty() {
                task.insert("cpus".to_owned(), json!(self.cpus));
            }
            if self.nice != 0 {
                task.insert("policy".to_owned(), json!("SCHED_OTHER"));
                task.insert("priority".to_owned(), json!(self.nice));
            }
        }
        task
    }
}
