// SPDX-License-Identifier: GPL-2.0-only
//! The order of turns on one CPU. Some tasks compute without pauses, and others sleep.

use super::Tested;
use crate::support::policy::{Observed, Tasks, US, forever, hog, run, sleep};
use proptest::prelude::*;
use std::collections::BTreeMap;
use trace::{Event, TaskState};

/// Simulated time of a run, in ms.
const RUN_MS: u64 = 500;

#[derive(Clone, Debug)]
pub struct Sleepers {
    hogs: u32,
    /// For each sleeping task, the lengths in us for which it computes and sleeps.
    sleepers: Vec<(u64, u64)>,
}

pub fn sleepers() -> impl Strategy<Value = Sleepers> {
    let sleeper = (50..8000_u64, 50..20_000_u64);
    let parts = (1..3_u32, prop::collection::vec(sleeper, 2..5));
    parts.prop_map(|(hogs, sleepers)| Sleepers { hogs, sleepers })
}

impl Sleepers {
    pub fn run(&self, policy: &Tested) -> Observed {
        let mut tasks = Tasks::default().add_many(self.hogs, "hog", &hog());
        for (number, &(run_us, sleep_us)) in self.sleepers.iter().enumerate() {
            let ops = forever(vec![run(run_us * US), sleep(sleep_us * US)]);
            tasks = tasks.add(&format!("sleeper{number}"), ops);
        }
        policy.run().tasks(tasks).for_ms(RUN_MS)
    }
}

/// Checks that each turn goes to the task that became runnable first.
pub fn check_arrival(ran: &Observed) {
    // Times since which tasks wait.
    let mut waiting = BTreeMap::new();
    for record in &ran.records {
        match record.event {
            Event::Wakeup { pid, .. } => drop(waiting.insert(pid, record.time)),
            Event::Switch { prev, prev_state, next } => {
                if prev != 0 && prev_state == TaskState::Running {
                    waiting.insert(prev, record.time);
                }
                let since = waiting.remove(&next).unwrap_or(0);
                if let Some((pid, before)) = waiting.iter().find(|&(_, &before)| next != 0 && before < since) {
                    panic!(
                        "at {} ns, pid {next} runs, which is runnable since {since} ns, but pid {pid} is runnable \
                         since {before} ns",
                        record.time
                    );
                }
            }
            _ => {}
        }
    }
}
