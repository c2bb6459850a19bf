// SPDX-License-Identifier: GPL-2.0-only
//! The waits of tasks for a CPU, as the page shows them. The memory that they take is limited: if
//! there are too many waits, only the longest are kept.

use super::pack;

/// Reason why a wait begins. The numbers are part of the page's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// An interrupt woke the task.
    #[default]
    Interrupt = 0,
    /// A task woke it.
    Task = 1,
    /// The task is new.
    New = 2,
    /// The task lost its CPU while it was runnable.
    Preempted = 3,
}

/// Begin of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Time of the record with which the wait begins. `windtunnel why` identifies a wait by it.
    pub time: u64,
    pub cause: Cause,
    /// Index of the task that woke the waiting task. 0 if the cause is not [`Cause::Task`].
    pub waker: u32,
    /// CPU on which the task was woken, or which it lost.
    pub cpu: u32,
    /// CPU in whose queue the task waited first. `None` until the task is queued.
    pub queued: Option<u32>,
}

impl Default for Begin {
    /// Returns the begin of a wait whose begin no record describes.
    fn default() -> Begin {
        Begin {
            time: 0,
            cause: Cause::Interrupt,
            waker: 0,
            cpu: 0,
            queued: Some(0),
        }
    }
}

/// A wait of a task for a CPU. Times are local times ([`trace::Record::local_time`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub pid: u32,
    /// Index of the task.
    pub task: u32,
    pub from: u64,
    pub to: u64,
    pub begin: Begin,
    /// CPU that the task got. `None` if it still waited at the end.
    pub cpu: Option<u32>,
    /// CPU on which the task ran last before, and the time when it stopped.
    pub last: Option<(u32, u64)>,
}

impl Wait {
    fn ns(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

/// The waits of a run.
#[derive(Clone, Debug)]
pub struct Waits {
    all: Vec<Wait>,
    budget: usize,
    /// Shorter waits are left out, and some of this length.
    least_ns: u64,
    left_out: u64,
}

impl Waits {
    /// Returns an empty list that keeps at most about `budget` waits.
    pub fn new(budget: usize) -> Waits {
        Waits {
            all: Vec::new(),
            budget: budget.max(64),
            least_ns: 1,
            left_out: 0,
        }
    }

    #[inline]
    pub fn add(&mut self, wait: Wait) {
        if wait.ns() < self.least_ns {
            self.left_out += u64::from(wait.ns() > 0);
            return;
        }
        self.all.push(wait);
        if self.all.len() > self.budget {
            self.shorten();
        }
    }

    /// Leaves out the shorter half of the waits.
    #[cold]
    fn shorten(&mut self) {
        let before = self.all.len();
        let mut lengths: Vec<u64> = self.all.iter().map(Wait::ns).collect();
        let (_, middle, _) = lengths.select_nth_unstable(before / 2);
        self.least_ns = *middle;
        // Many waits can have the same length. Every other of them is kept.
        let (least, mut keep) = (self.least_ns, false);
        self.all.retain(|wait| {
            keep ^= wait.ns() == least;
            wait.ns() > least || (wait.ns() == least && keep)
        });
        self.left_out += (before - self.all.len()) as u64;
    }

    /// Sorts the waits by their begins.
    pub fn finish(&mut self) {
        self.all.sort_by_key(|wait| (wait.from, wait.task));
    }

    /// Returns the number of waits that were left out, and their maximum length in ns.
    pub fn left_out(&self) -> (u64, u64) {
        (self.left_out, self.least_ns)
    }

    /// Returns the index of a wait by its task and the time of the record that begins it.
    pub fn find(&self, pid: u32, time: u64) -> Option<usize> {
        let same = |wait: &Wait| wait.pid == pid && wait.begin.time == time;
        self.all.iter().position(same)
    }

    /// Returns the packed waits for the page, in the order of their begins: their number, and these
    /// varints for each wait:
    ///
    /// - the begin as a difference from the previous one, and the length;
    /// - the task;
    /// - 8 if the wait ended, plus 4 if the task has run before, plus the cause;
    /// - only for [`Cause::Task`]: the waker;
    /// - the CPU of the cause, and the CPU of the queue;
    /// - only if the wait ended: the CPU that the task got;
    /// - only if the task has run before: the CPU on which it ran, and for how long it had not run.
    pub fn packed(&self) -> String {
        let mut bytes = Vec::new();
        pack::varint(self.all.len() as u64, &mut bytes);
        let mut before = 0;
        for wait in &self.all {
            let Begin {
                cause,
                waker,
                cpu,
                queued,
                ..
            } = wait.begin;
            let flags = u64::from(wait.cpu.is_some()) * 8 + u64::from(wait.last.is_some()) * 4 + cause as u64;
            let mut numbers = vec![wait.from - before, wait.ns(), u64::from(wait.task), flags];
            if cause == Cause::Task {
                numbers.push(waker.into());
            }
            numbers.extend([u64::from(cpu), u64::from(queued.unwrap_or(cpu))]);
            numbers.extend(wait.cpu.map(u64::from));
            if let Some((cpu, until)) = wait.last {
                numbers.extend([u64::from(cpu), wait.from.saturating_sub(until)]);
            }
            numbers.into_iter().for_each(|number| pack::varint(number, &mut bytes));
            before = wait.from;
        }
        pack::packed(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(from: u64, ns: u64) -> Wait {
        Wait {
            pid: 7,
            task: 2,
            from,
            to: from + ns,
            begin: Begin {
                time: from,
                cause: Cause::Task,
                waker: 3,
                cpu: 1,
                queued: Some(4),
            },
            cpu: Some(5),
            last: Some((6, from - 10)),
        }
    }

    #[test]
    fn waits_are_packed_in_the_order_of_their_begins() {
        let mut waits = Waits::new(100);
        waits.add(wait(300, 20));
        let open = Wait {
            cpu: None,
            last: None,
            ..wait(100, 500)
        };
        waits.add(open);
        waits.add(wait(400, 0));
        waits.finish();
        let want = [
            2, // number of waits
            100, 0xf4, 3, 2, 1, 3, 1, 4, // 100 to 600 ns (500 = 0xf4, 3), still waiting
            0xc8, 1, 20, 2, 13, 3, 1, 4, 5, 6, 10, // 300 to 320 ns (200 = 0xc8, 1)
        ];
        assert_eq!(pack::unpacked(&waits.packed()), want);
        assert_eq!((waits.find(7, 300), waits.find(7, 301)), (Some(1), None));
        assert_eq!(waits.left_out(), (0, 1));
    }

    #[test]
    fn the_longest_waits_are_kept() {
        let mut waits = Waits::new(64);
        for n in 0..1000 {
            waits.add(wait(n * 50 + 10, 1 + n % 100));
        }
        waits.finish();
        let (left_out, least_ns) = waits.left_out();
        assert!(waits.all.len() <= 64 && least_ns > 50, "{} {least_ns}", waits.all.len());
        assert!(waits.all.iter().all(|wait| wait.ns() >= least_ns));
        assert_eq!(left_out + waits.all.len() as u64, 1000);
        assert!(waits.all.iter().any(|wait| wait.ns() == 100));
    }

    #[test]
    fn some_of_many_equal_waits_are_kept() {
        let mut waits = Waits::new(64);
        (0..1000).for_each(|n| waits.add(wait(n * 50 + 10, 5)));
        waits.finish();
        assert!((30..=64).contains(&waits.all.len()), "{}", waits.all.len());
        assert_eq!(waits.left_out(), (1000 - waits.all.len() as u64, 5));
    }
}
