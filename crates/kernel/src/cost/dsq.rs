// SPDX-License-Identifier: GPL-2.0-only
//! Charges the current CPU for its work on a DSQ while it holds the DSQ's lock.
//!
//! The links of a DSQ's list and tree are in the `task_struct`s of its tasks. An operation
//! therefore writes to the neighbours of its task, and an insertion by vtime reads the tasks on its
//! way from the root of the tree. Other CPUs queued these tasks, so most of these accesses transfer
//! a cache line while the lock is held:
//!
//! ```text
//! insertion by vtime     root -> task -> task -> predecessor     one line read per level
//! every insertion        predecessor | new task | successor      both neighbours written
//! removal                predecessor | task | successor          all three written
//! step of an iteration   task | successor                        both written by the iterator's node
//! ```
//!
//! Local DSQs are short lists, and their work is part of the constants for wake-ups and schedule().
//! On machines whose policies stand for schedulers in C, the instructions of a kfunc include its
//! list operations.

use crate::machine::Machine;
use crate::sched::ext::state::dsq::DsqRef;
use crate::simulation::id::{IDLE, TaskId};

/// The tasks before and behind a task on its DSQ. IDLE means that there is none.
pub(crate) type Neighbours = [TaskId; 2];

impl Machine {
    /// Charges for the insertion of `task` into `dsq`, which has just been performed.
    pub(crate) fn charge_dsq_insert(&mut self, dsq: DsqRef, task: TaskId) {
        if self.spec.costs.native {
            return;
        }
        let cpu = self.this_cpu.nr();
        let visited = self.ext.dsqs.search_path(dsq, task);
        let (first, stride) = self.layout.task_spacing();
        let slots = visited.map(|task| task.slot().into());
        // SAFETY: the slots are those of existing tasks, whose task_structs lie in the region.
        let (levels, transfers) = unsafe { self.region.lines().load_each(cpu, first, stride, slots) };
        self.charge_here(levels * u64::from(self.spec.costs.dsq_level_ns) + transfers);
        self.charge_dsq_links(self.ext.dsqs.neighbours(task));
    }

    /// Charges for the removal of `task` from a DSQ. `neighbours` are its neighbours before the
    /// removal.
    pub(crate) fn charge_dsq_remove(&mut self, task: TaskId, neighbours: Neighbours) {
        if self.spec.costs.native {
            return;
        }
        self.write_line(self.layout.task_addr(task));
        self.charge_dsq_links(neighbours);
    }

    /// Charges for a step of an iteration to `task`: the iterator's node moves behind it.
    pub(crate) fn charge_dsq_step(&mut self, task: TaskId) {
        if self.spec.costs.native {
            return self.read_line(self.tasks[task].addr());
        }
        self.charge_dsq_links([task, self.ext.dsqs.next(task).unwrap_or(IDLE)]);
    }

    /// Charges for one operation on a list that writes to the links of `tasks`.
    #[inline]
    fn charge_dsq_links(&mut self, tasks: Neighbours) {
        let cpu = self.this_cpu.nr();
        let mut ns = u64::from(self.spec.costs.dsq_op_ns);
        for task in tasks {
            if task != IDLE {
                // SAFETY: the task_struct lies in the region.
                ns += unsafe { self.region.lines().store(cpu, self.layout.task_addr(task)) };
            }
        }
        self.charge_here(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::ext::state::dsq::Position;
    use crate::simulation::id::CpuId;
    use crate::testbed::{Bed, MS, cpu_id, hog};
    use machine::{ByDistance, MachineSpec};

    /// Returns a machine with two CPUs and five tasks, on which a transfer of a cache line takes 1
    /// us, an operation 100 ns and a level of a tree 10 ns.
    fn machine(native: bool) -> (Machine, DsqRef, Vec<TaskId>) {
        let mut spec = MachineSpec::smp(2).free();
        spec.costs.cache_line = ByDistance {
            llc: 1_000,
            ..ByDistance::default()
        };
        spec.costs.dsq_op_ns = 100;
        spec.costs.dsq_level_ns = 10;
        spec.costs.native = native;
        let mut bed = Bed::default();
        (0..5).for_each(|_| {
            bed.pinned(0, hog());
        });
        let (mut m, _) = bed.run(spec, MS);
        let dsq = m.ext.dsqs.create(7).expect("the id is unused");
        let tasks = m.tasks.numbered().map(|(task, _)| task).filter(|&task| task != IDLE);
        let tasks = tasks.collect();
        (m, dsq, tasks)
    }

    /// Returns the time that `cpu` is charged with by `work`.
    fn charged(m: &mut Machine, cpu: CpuId, work: impl FnOnce(&mut Machine)) -> u64 {
        m.this_cpu = cpu;
        let before = m.local_time(cpu);
        work(m);
        m.local_time(cpu) - before
    }

    fn insert(m: &mut Machine, cpu: CpuId, dsq: DsqRef, task: TaskId, position: Position) -> u64 {
        charged(m, cpu, |m| {
            // The waking CPU has the cache lines of the task.
            let addr = m.tasks[task].addr();
            // SAFETY: the task_struct lies in the region.
            unsafe { m.region.lines().transfer_to(m.this_cpu.nr(), addr) };
            m.ext.dsqs.insert(dsq, task, position);
            m.charge_dsq_insert(dsq, task);
        })
    }

    #[test]
    fn an_insertion_writes_to_its_neighbours() {
        let (mut m, dsq, tasks) = machine(false);
        assert_eq!(insert(&mut m, cpu_id(0), dsq, tasks[0], Position::Tail), 100);
        assert_eq!(insert(&mut m, cpu_id(0), dsq, tasks[1], Position::Tail), 100);
        // The last task was queued by CPU 0.
        assert_eq!(insert(&mut m, cpu_id(1), dsq, tasks[2], Position::Tail), 1_100);
        assert_eq!(insert(&mut m, cpu_id(1), dsq, tasks[3], Position::Tail), 100);
    }

    #[test]
    fn an_insertion_by_vtime_reads_the_tasks_on_its_way() {
        let (mut m, dsq, tasks) = machine(false);
        for (nth, &task) in tasks[..4].iter().enumerate() {
            let levels = [0, 1, 2, 2][nth];
            let ns = insert(&mut m, cpu_id(0), dsq, task, Position::Vtime(nth as u64));
            assert!(ns <= 100 + 10 * levels, "CPU 0 has all lines, and {ns} ns are too many");
        }
        // One to three of the four tasks are compared. The predecessor is one of them, and its line
        // is then written, which invalidates the copy of CPU 0.
        let ns = insert(&mut m, cpu_id(1), dsq, tasks[4], Position::Vtime(9));
        assert!((2_110..=4_130).contains(&ns), "{ns}");
    }

    #[test]
    fn a_removal_writes_the_task_and_its_neighbours() {
        let (mut m, dsq, tasks) = machine(false);
        for &task in &tasks[..3] {
            insert(&mut m, cpu_id(0), dsq, task, Position::Tail);
        }
        let neighbours = m.ext.dsqs.neighbours(tasks[1]);
        assert_eq!(neighbours, [tasks[0], tasks[2]]);
        let ns = charged(&mut m, cpu_id(1), |m| m.charge_dsq_remove(tasks[1], neighbours));
        assert_eq!(ns, 3_100);
        let ns = charged(&mut m, cpu_id(1), |m| m.charge_dsq_remove(tasks[1], neighbours));
        assert_eq!(ns, 100, "the lines are in the cache of CPU 1");
    }

    #[test]
    fn a_step_of_an_iteration_writes_the_task_and_its_successor() {
        let (mut m, dsq, tasks) = machine(false);
        for &task in &tasks[..3] {
            insert(&mut m, cpu_id(0), dsq, task, Position::Tail);
        }
        assert_eq!(charged(&mut m, cpu_id(1), |m| m.charge_dsq_step(tasks[0])), 2_100);
        assert_eq!(charged(&mut m, cpu_id(1), |m| m.charge_dsq_step(tasks[1])), 1_100);
    }

    #[test]
    fn lists_of_schedulers_in_c_are_part_of_their_instructions() {
        let (mut m, dsq, tasks) = machine(true);
        assert_eq!(insert(&mut m, cpu_id(0), dsq, tasks[0], Position::Tail), 0);
        assert_eq!(insert(&mut m, cpu_id(1), dsq, tasks[1], Position::Tail), 0);
        assert_eq!(
            charged(&mut m, cpu_id(1), |m| m.charge_dsq_remove(tasks[0], [IDLE; 2])),
            0
        );
    }
}
