// SPDX-License-Identifier: GPL-2.0-only
//! What tasks wait for: mutexes, conditions, barriers, semaphores, pipes and sockets.

use std::collections::BTreeMap;
use workload::Resource;

#[derive(Default)]
pub struct Sync {
    /// Spawn events under way.
    pub pending_spawns: u32,
    /// Round robin over the CPUs for tasks without a start CPU.
    pub next_start: u32,
    leaders: BTreeMap<u32, u32>,
}

impl Sync {
    pub fn new(_resources: &[Resource]) -> Sync {
        Sync::default()
    }

    /// The tgid of a process: the pid of its first task.
    pub fn process_leader(&mut self, process: u32, pid: u32) -> u32 {
        *self.leaders.entry(process).or_insert(pid)
    }
}
