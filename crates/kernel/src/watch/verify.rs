// SPDX-License-Identifier: GPL-2.0-only
//! Verification that the data structures of the machine are consistent.

use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::ext::state::dsq::NO_DSQ;
use crate::sched::ext::state::entity::OpsState;
use crate::sched::state::task::State;
use crate::simulation::id::{IDLE, TaskId};

impl Machine {
    /// Verifies that task states, queues, counters and accounted times are consistent.
    ///
    /// # Panics If any of them is inconsistent. An inconsistency is always a bug of the simulator,
    /// regardless of what the policy did.
    pub fn verify(&self) {
        let mut running = vec![0; self.rqs.len()];
        let mut waiting = 0;
        let mut waking = 0;
        for (id, task) in self.tasks.numbered() {
            if task.state() == State::Dead && !task.on_rq() {
                continue;
            }
            if task.on_rq() {
                assert!(
                    task.runnable(),
                    "{} (pid {}) is queued but sleeps",
                    task.comm(),
                    task.pid()
                );
                if !task.on_cpu() {
                    self.verify_queued(id);
                }
                if self.is_waiting(id) {
                    running[task.cpu().index()] += 1;
                    waiting += u64::from(!task.on_cpu());
                }
            }
            running[task.cpu().index()] += u32::from(task.fair.delayed);
            waking += usize::from(task.state() == State::Waking);
            let curr = self.rqs[task.cpu()].curr == id;
            assert_eq!(
                curr,
                task.on_cpu(),
                "{} (pid {}): on_cpu is wrong",
                task.comm(),
                task.pid()
            );
        }
        assert_eq!(
            waiting,
            self.checks.nr_waiting(),
            "`checks` counts the waiting tasks wrongly"
        );
        for rq in &self.rqs {
            assert_eq!(
                rq.nr_running,
                running[rq.cpu.index()],
                "nr_running of CPU {} is wrong",
                rq.cpu
            );
            assert!(
                rq.online || rq.curr == IDLE,
                "CPU {} runs a task but is offline",
                rq.cpu
            );
            assert!(
                rq.next_class <= self.class_of(rq.curr),
                "next_class of CPU {} is below the class of its task",
                rq.cpu
            );
            assert_eq!(
                rq.time.total(),
                rq.clock,
                "some time of CPU {} is not accounted for",
                rq.cpu
            );
        }
        for rq in &self.rqs {
            for entry in &rq.wake_list {
                let task = &self.tasks[entry.task];
                let listed = task.state() == State::Waking && task.cpu() == rq.cpu && !task.on_rq();
                assert!(listed, "{} (pid {}) is on a wrong wake list", task.comm(), task.pid());
            }
            waking -= rq.wake_list.len();
        }
        assert_eq!(waking, 0, "some tasks in the state TASK_WAKING are on no wake list");
        self.verify_speeds();
        self.verify_memory();
        self.verify_numa();
        self.ext.dsqs.verify();
        self.verify_fair();
    }

    /// Verifies that a waiting task is in exactly one place: on a queue of its class, on a DSQ,
    /// among the throttled tasks, among those whose direct dispatch is deferred, or with the policy, which has received the task in ops.enqueue().
    fn verify_queued(&self, id: TaskId) {
        let task = &self.tasks[id];
        let queues = [
            (Class::Rt, task.rt.on_list),
            (Class::Fair, task.fair.on_rq),
            (Class::Fair, self.is_throttled_once(id)),
            (Class::Ext, self.ext.dsqs.current(id) != NO_DSQ),
            (Class::Ext, task.ext.ops_state == OpsState::Queued),
            (Class::Ext, self.rqs[task.cpu()].ext.ddsp_deferred.contains(&id)),
        ];
        let found: Vec<Class> = queues.iter().filter(|queue| queue.1).map(|queue| queue.0).collect();
        assert_eq!(
            found,
            [task.class],
            "{} (pid {}) waits, but not on one queue of its class",
            task.comm(),
            task.pid()
        );
    }
}
