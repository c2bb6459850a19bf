// SPDX-License-Identifier: GPL-2.0-only
//! Collects the costs of a policy by source line, field and lock after a run.

use crate::subs::Subs;
use bpf::engine::PathCounts;
use bpf::image::Code;
use bpf::link::Image;
use bpf::map::fields::{self, Owner};
use kernel::Machine;
use kernel::ext::OpsTable;
use kernel::ext::ops::{Callback, NAMES};
use report::{FieldTransfers, HotspotsResult, LineCost, LockPairResult};
use std::collections::BTreeMap;

/// Returns the costs of the policy and of its sub-schedulers, or `None` if the run did not record
/// them. If the policy was loaded several times, the instructions are those since the last time.
pub(crate) fn hotspots(machine: &Machine, image: Option<&Image>, subs: &Subs) -> Option<HotspotsResult> {
    let (vm, image) = (machine.ext().last_vm()?, image?);
    let paths = vm.instruction_counts();
    if paths.is_empty() {
        return None;
    }
    let mut lines = lines("", vm.code(), machine.ext().ops(), &paths);
    for costs in machine.ext().sub_costs() {
        lines.extend(self::lines(
            &subs.label(costs.cgroup),
            &costs.code,
            &costs.ops,
            &costs.paths,
        ));
    }
    let mut owners = vec![Owner {
        prefix: String::new(),
        image,
        maps: vm.maps(),
    }];
    for (cgroup, vm) in machine.ext().sub_vms() {
        let owner = subs.image(cgroup).map(|image| Owner {
            prefix: subs.label(cgroup) + ": ",
            image,
            maps: vm.maps(),
        });
        owners.extend(owner);
    }
    let mut result = HotspotsResult {
        insns: lines.iter().map(|line| line.insns).sum(),
        lines,
        lock_pairs: machine.lock_pairs().into_iter().map(lock_pair).collect(),
        fields: fields::transfers(&owners, machine.region())
            .into_iter()
            .map(|(field, moves)| FieldTransfers {
                field,
                loads: moves.loads,
                stores: moves.stores,
                ns: moves.ns,
            })
            .collect(),
    };
    result.sort();
    Some(result)
}

fn lock_pair(pair: kernel::LockPair) -> LockPairResult {
    LockPairResult {
        lock: pair.lock,
        holder: pair.holder.to_owned(),
        waiter: pair.waiter.to_owned(),
        waits: pair.stat.waits,
        wait_ns: pair.stat.wait_ns,
        wait_max_ns: pair.stat.wait_max_ns,
    }
}

/// Returns the instructions of each source line on each path. `sub` is the label of a sub-scheduler.
fn lines(sub: &str, code: &Code, ops: &OpsTable, paths: &[PathCounts]) -> Vec<LineCost> {
    let name = |function: usize| code.functions.get(function).map_or("", |function| &function.name);
    let mut lines = Vec::new();
    for path in paths {
        let functions: Vec<String> = path
            .functions
            .iter()
            .map(|&function| name(function).to_owned())
            .collect();
        let callback = path
            .functions
            .first()
            .map(|&first| callback(ops, first).unwrap_or(name(first)));
        let mut costs: BTreeMap<(&str, u32), (&str, u64)> = BTreeMap::new();
        for &(pc, count) in &path.insns {
            let at = code.line_at(pc).map(|line| ((&*line.file, line.line), &*line.text));
            let (key, text) = at.unwrap_or((("", 0), ""));
            costs.entry(key).or_insert((text, 0)).1 += count;
        }
        lines.extend(costs.into_iter().map(|((file, line), (text, insns))| LineCost {
            sub: sub.to_owned(),
            callback: callback.unwrap_or_default().to_owned(),
            functions: functions.clone(),
            file: file.rsplit('/').next().unwrap_or(file).to_owned(),
            line,
            text: text.to_owned(),
            insns,
        }));
    }
    lines
}

/// Returns the callback whose program is `function`.
fn callback(ops: &OpsTable, function: usize) -> Option<&'static str> {
    NAMES
        .into_iter()
        .find(|name| Callback::by_name(name).is_some_and(|op| ops.function(op) == Some(function)))
}
