// SPDX-License-Identifier: GPL-2.0-only
//! Writes one task: its attributes, phases and events.

use super::shape::{Shape, is_setting, segments};
use super::{Group, quote, unfit, written};
use crate::program::{Dist, Op, Program, ResourceId, SchedPolicy, Workload};
use crate::rtapp::sched;
use input::Error;
use std::collections::{BTreeMap, BTreeSet};

/// Writer of the text of one task.
pub(super) struct Text<'w> {
    pub(super) workload: &'w Workload,
    pub(super) groups: &'w [Group<'w>],
    pub(super) implicit_done: bool,
    /// Size of the `mem` buffer (`mem_buffer_size`).
    pub(super) buffer: u64,
    pub(super) lines: Vec<String>,
}

impl Text<'_> {
    fn unfit(&self, group: &Group, property: &str) -> Error {
        unfit(self.workload, &group.name, property)
    }

    fn line(&mut self, depth: usize, key: &str, value: &str) {
        self.lines
            .push(format!("{}{} : {value}", "\t".repeat(depth), quote(key)));
    }

    /// Writes the process of a task and its rare properties.
    fn attributes(&mut self, group: &Group) -> Result<(), Error> {
        let spec = group.spec;
        let attributes = &spec.attributes;
        if spec.process != self.workload.tasks[0].process && !attributes.kthread {
            self.line(3, "process", &format!("\"p{}\"", spec.process));
        }
        if let Some(parent) = attributes.parent {
            let Some(parent) = self.groups.iter().find(|other| other.first == parent) else {
                return Err(self.unfit(group, "a parent that is not the first task of its name"));
            };
            self.line(3, "parent", &quote(&parent.name));
        }
        if let Some(uid) = attributes.uid {
            self.line(3, "uid", &uid.to_string());
        }
        if attributes.kthread {
            self.line(3, "kthread", "true");
        }
        if let Some(ns) = attributes.timer_slack_ns {
            let slack = self.usec(group, ns)?;
            self.line(3, "slack", &slack);
        }
        if let Some(ns) = attributes.slice_ns {
            if !sched::Name::from_policy(spec.policy).has_slice() {
                return Err(self.unfit(group, "a slice, but not the policy SCHED_OTHER"));
            }
            self.slice(3, group, ns)?;
        }
        Ok(())
    }

    pub(super) fn task(&mut self, group: &Group) -> Result<(), Error> {
        let spec = group.spec;
        let program = &self.workload.programs[spec.program as usize];
        let shape = Shape::find(program).ok_or_else(|| self.unfit(group, "no steps"))?;
        if group.instances != 1 {
            self.line(3, "instance", &group.instances.to_string());
        }
        self.policy(3, spec.policy);
        if let Some(cpus) = &spec.cpus {
            self.line(3, "cpus", &format!("{cpus:?}"));
        }
        if spec.cgroup != 0 {
            self.taskgroup(3, group, spec.cgroup)?;
        }
        if shape.delay_us > 0 {
            self.line(3, "delay", &shape.delay_us.to_string());
        }
        if spec.footprint_bytes != written(self.workload, group).min(self.buffer) {
            self.line(3, "footprint", &spec.footprint_bytes.to_string());
        }
        if let Some(mbps) = spec.touch_mbps {
            self.line(3, "touch", &mbps.to_string());
        }
        self.attributes(group)?;
        self.line(3, "loop", &rounds(shape.rounds));
        let (begin, mut end) = shape.body;
        if self.implicit_done && program.ops[end - 1] == (Op::Done { count: 1 }) {
            end -= 1;
        }
        let phases = segments(&program.ops, begin, end);
        self.check_settings(group, program, &phases)?;
        if let [(at, segment_end, Some(1))] = phases[..]
            && !program.ops[at..segment_end].iter().any(is_setting)
        {
            return self.events(3, group, at, segment_end);
        }
        self.lines.push("\t\t\t\"phases\" : {".into());
        let first = self.lines.len();
        for (index, &(at, segment_end, times)) in phases.iter().enumerate() {
            let outer = std::mem::take(&mut self.lines);
            self.phase(group, at, segment_end, times)?;
            let body = std::mem::replace(&mut self.lines, outer).join(",\n");
            self.lines
                .push(format!("\t\t\t\t\"p{index}\" : {{\n{body}\n\t\t\t\t}}"));
        }
        let phases = self.lines.split_off(first).join(",\n");
        let open = self.lines.pop().unwrap_or_default();
        self.lines.push(format!("{open}\n{phases}\n\t\t\t}}"));
        Ok(())
    }

    /// Checks that affinities are set in all phases or in none, and that all uses of a timer have
    /// the same mode. The format cannot express other programs.
    fn check_settings(
        &self,
        group: &Group,
        program: &Program,
        phases: &[(usize, usize, Option<u64>)],
    ) -> Result<(), Error> {
        let binds = |&&(at, end, _): &&(usize, usize, Option<u64>)| {
            program.ops[at..end].iter().any(|op| matches!(op, Op::SetAffinity(_)))
        };
        let binding = phases.iter().filter(binds).count();
        if binding != 0 && binding != phases.len() {
            return Err(self.unfit(group, "an affinity that continues from an earlier phase"));
        }
        // The timers that start with the task, and the mode in which each timer is used.
        let mut started = BTreeSet::new();
        let mut modes = BTreeMap::new();
        for (at, op) in program.ops.iter().enumerate() {
            let Op::Timer { timer, absolute, .. } = op else {
                continue;
            };
            if phases.first().is_some_and(|(first, ..)| at < *first) {
                started.insert(*timer);
            } else if *modes.entry(*timer).or_insert(*absolute) != *absolute {
                return Err(self.unfit(group, "a timer that is both absolute and relative"));
            }
        }
        match modes.keys().find(|timer| !started.contains(timer)) {
            Some(_) => Err(self.unfit(group, "a timer that starts with its first use")),
            None => Ok(()),
        }
    }

    fn phase(&mut self, group: &Group, begin: usize, end: usize, times: Option<u64>) -> Result<(), Error> {
        let ops = &self.workload.programs[group.spec.program as usize].ops;
        let mut at = begin;
        let mut policy = None;
        while at < end && is_setting(&ops[at]) {
            match &ops[at] {
                Op::SetAffinity(cpus) if *cpus == group.spec.cpus => {}
                Op::SetAffinity(Some(cpus)) => self.line(5, "cpus", &format!("{cpus:?}")),
                Op::SetAffinity(None) => {
                    return Err(self.unfit(group, "a phase on all CPUs in a task that is bound to some"));
                }
                Op::SetPolicy(new) => {
                    policy = Some(sched::Name::from_policy(*new));
                    self.policy(5, *new);
                }
                Op::SetSlice(ns) if policy.is_some_and(sched::Name::has_slice) => self.slice(5, group, *ns)?,
                Op::SetSlice(_) => return Err(self.unfit(group, "a phase with a slice, but without SCHED_OTHER")),
                Op::SetCgroup(cgroup) => self.taskgroup(5, group, *cgroup)?,
                _ => {}
            }
            at += 1;
        }
        let (mut from, mut to) = (at, end);
        if times != Some(1) {
            self.line(5, "loop", &rounds(times));
            (from, to) = (at + 1, end - 1);
            if self.implicit_done && times.is_none() {
                to -= 1;
            }
        }
        if from >= to {
            return Err(self.unfit(group, "a phase without events"));
        }
        self.events(5, group, from, to)
    }

    fn policy(&mut self, depth: usize, policy: SchedPolicy) {
        let name = sched::Name::from_policy(policy);
        let name = sched::NAMES
            .iter()
            .find(|(_, n)| *n == name)
            .map_or("", |(text, _)| text);
        self.line(depth, "policy", &quote(name));
        match policy {
            SchedPolicy::Normal { nice } | SchedPolicy::Batch { nice } | SchedPolicy::Ext { nice } => {
                if nice != 0 {
                    self.line(depth, "priority", &nice.to_string());
                }
            }
            SchedPolicy::Fifo { rt_priority } | SchedPolicy::RoundRobin { rt_priority } => {
                self.line(depth, "priority", &rt_priority.to_string());
            }
            SchedPolicy::Idle | SchedPolicy::Deadline { .. } => {}
        }
    }

    fn slice(&mut self, depth: usize, group: &Group, ns: u64) -> Result<(), Error> {
        if ns == 0 {
            return Err(self.unfit(group, "a request for the default slice"));
        }
        let slice = self.usec(group, ns)?;
        self.line(depth, "dl-runtime", &slice);
        Ok(())
    }

    fn taskgroup(&mut self, depth: usize, group: &Group, id: u32) -> Result<(), Error> {
        let cgroup = &self.workload.cgroups[id as usize];
        if cgroup.weight != 100 {
            return Err(self.unfit(group, "a cgroup with a weight"));
        }
        self.line(depth, "taskgroup", &quote(&cgroup.path));
        Ok(())
    }

    fn events(&mut self, depth: usize, group: &Group, begin: usize, end: usize) -> Result<(), Error> {
        let ops = &self.workload.programs[group.spec.program as usize].ops[begin..end];
        let mut rest = ops;
        let mut number = 0;
        while !rest.is_empty() {
            let (event, value, used) = self.event(group, rest)?;
            self.line(depth, &format!("{event}{number}"), &value);
            number += 1;
            rest = &rest[used..];
        }
        Ok(())
    }

    /// Returns the event at the beginning of `ops`, its value, and its number of steps.
    fn event(&self, group: &Group, ops: &[Op]) -> Result<(&'static str, String, usize), Error> {
        let usec = |dist: &Dist| match dist {
            Dist::Fixed(ns) => self.usec(group, *ns),
            _ => Err(self.unfit(group, "a random time")),
        };
        let int = |value: u64| match value <= i32::MAX as u64 {
            true => Ok(value.to_string()),
            false => Err(self.unfit(group, &format!("the number {value}"))),
        };
        let name = |id: &ResourceId| quote(self.workload.resources[*id as usize].name());
        // A suspend or a resume consists of three steps.
        if let [Op::Lock(m), between, Op::Unlock(n), ..] = ops
            && m == n
        {
            match between {
                Op::CondWait { cond, mutex }
                    if mutex == m && name(cond) == name(m) && name(m) == quote(&group.name) =>
                {
                    return Ok(("suspend", name(m), 3));
                }
                Op::Broadcast(cond) if name(cond) == name(m) => return Ok(("resume", name(m), 3)),
                _ => {}
            }
        }
        let pair = |cond, mutex| format!("{{ \"ref\" : {}, \"mutex\" : {} }}", name(cond), name(mutex));
        let (event, value) = match &ops[0] {
            Op::Run(dist) => ("run", usec(dist)?),
            Op::Runtime(dist) => ("runtime", usec(dist)?),
            Op::Sleep(dist) => ("sleep", usec(dist)?),
            Op::Timer {
                timer,
                period,
                absolute,
            } => {
                let period = self.usec(group, *period)?;
                let mode = if *absolute { ", \"mode\" : \"absolute\"" } else { "" };
                (
                    "timer",
                    format!("{{ \"ref\" : \"unique{timer}\", \"period\" : {period}{mode} }}"),
                )
            }
            Op::Mem { bytes } => ("mem", int(*bytes)?),
            Op::Io { bytes } => ("iorun", int(*bytes)?),
            Op::Lock(id) => ("lock", name(id)),
            Op::Unlock(id) => ("unlock", name(id)),
            Op::CondWait { cond, mutex } => ("wait", pair(cond, mutex)),
            Op::Sync { cond, mutex } => ("sync", pair(cond, mutex)),
            Op::Signal(id) => ("signal", name(id)),
            Op::Broadcast(id) => ("broad", name(id)),
            Op::Barrier(id) => ("barrier", name(id)),
            Op::SemPost(id) => ("sem_post", name(id)),
            Op::SemWait(id) => ("sem_wait", name(id)),
            Op::Send { channel, bytes } => (
                "send",
                format!("{{ \"ref\" : {}, \"bytes\" : {bytes} }}", name(channel)),
            ),
            Op::Recv(id) => ("recv", name(id)),
            Op::Poll(id) => ("poll", name(id)),
            Op::Yield => ("yield", "\"\"".into()),
            Op::MigrateDisable => ("migrate_disable", "\"\"".into()),
            Op::MigrateEnable => ("migrate_enable", "\"\"".into()),
            Op::Fork { task, thread: true } => {
                let spec = &self.workload.tasks[*task as usize];
                let target = self
                    .groups
                    .iter()
                    .find(|g| g.template == Some(*task) || (g.template.is_some() && g.spec.comm == spec.comm));
                let target = target.ok_or_else(|| self.unfit(group, "a fork of a task that is also started"))?;
                ("fork", quote(&target.name))
            }
            Op::Begin { arrival } => ("begin", quote(if *arrival { "arrival" } else { "" })),
            Op::Done { count } => ("done", int(u64::from(*count))?),
            Op::LoopInit { .. } | Op::LoopBack { .. } => {
                return Err(self.unfit(group, "a loop within the loop of a phase"));
            }
            other => return Err(self.unfit(group, &format!("the step {other:?}"))),
        };
        Ok((event, value, 1))
    }

    fn usec(&self, group: &Group, ns: u64) -> Result<String, Error> {
        if !ns.is_multiple_of(1000) || ns / 1000 > i32::MAX as u64 {
            return Err(self.unfit(group, &format!("a time of {ns} ns")));
        }
        Ok((ns / 1000).to_string())
    }
}

/// Formats a number of rounds; -1 means that the loop is endless.
fn rounds(times: Option<u64>) -> String {
    times.map_or("-1".to_owned(), |times| times.to_string())
}
