// SPDX-License-Identifier: GPL-2.0-only
//! Collects what happened before and during a wait.

use super::Wait;
use trace::{Event, Follow, MigrateReason, Record, Sink, TaskState};

/// Maximum number of turns and moves that are kept. Further ones are only counted.
const KEPT: usize = 10_000;

/// A turn of another task on the CPU in whose queue the task waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub cpu: u32,
    /// 0 if the CPU idled.
    pub pid: u32,
    pub comm: String,
    /// The kernel's priority, from 0 to 139.
    pub prio: i32,
    /// Times within the wait.
    pub from: u64,
    pub to: u64,
    /// State of the task when it left the CPU. `None` if the wait ended before, or the CPU idled.
    pub left: Option<TaskState>,
}

/// A move of the waiting task to another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub time: u64,
    pub from: u32,
    pub to: u32,
    pub reason: MigrateReason,
}

/// State of a CPU at the begin of the wait, and its idle time during the wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// Pid and name of the task that ran at the begin. 0 if the CPU was idle.
    pub ran: u32,
    pub comm: String,
    /// Number of tasks that waited there at the begin, without the task of the wait.
    pub waiting: u32,
    /// Time that the CPU idled during the wait, in ns.
    pub idle_ns: u64,
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub time: u64,
    pub cpu: u32,
    /// Task that ran before on this CPU, with its state. 0 if the CPU was idle.
    pub prev: u32,
    pub comm: String,
    pub prev_state: TaskState,
}

/// What happened before and during a wait.
pub struct Story {
    pub wait: Wait,
    /// CPU on which the task ran last before the wait, and the time when it stopped.
    pub last_ran: Option<(u32, u64)>,
    /// Name of the waker.
    pub waker: String,
    /// CPU in whose queue the task waited first.
    pub queued_on: u32,
    pub cpus: Vec<Idle>,
    pub moves: Vec<Move>,
    pub turns: Vec<Turn>,
    /// Numbers of tasks that waited on the task's CPU, including the task, with the time of each
    /// change.
    pub queue: Vec<(u64, u32)>,
    pub end: Option<End>,
    /// Time of the last record that was read.
    pub last: u64,
    follow: Follow,
    /// CPUs that idle during the wait, with the begin of their idle time.
    idles: Vec<Option<u64>>,
    began: bool,
    queued: bool,
    /// Begin of the current turn on the task's CPU.
    turn_from: u64,
    /// The task's last move before the wait. A task that is moved while it runs loses its CPU.
    moved: Option<Move>,
}

impl Story {
    pub fn new(wait: Wait, nr_cpus: usize) -> Story {
        Story {
            wait,
            last_ran: None,
            waker: String::new(),
            queued_on: 0,
            cpus: vec![Idle::default(); nr_cpus],
            moves: Vec::new(),
            turns: Vec::new(),
            queue: Vec::new(),
            end: None,
            last: 0,
            follow: Follow::new(nr_cpus),
            idles: vec![None; nr_cpus],
            began: false,
            queued: false,
            turn_from: 0,
            moved: None,
        }
    }

    /// Returns whether the wait is over, so that no further record is needed.
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Ends the story at the end of the records.
    pub fn finish(&mut self) {
        if self.end.is_none() && self.began {
            self.close_turn(self.last, None);
            self.stop_idling(self.last);
        }
    }

    /// Returns the CPU in whose queue the task is.
    fn home(&mut self) -> u32 {
        self.follow.task(self.wait.pid).cpu
    }

    /// Keeps the state of all CPUs at the begin of the wait.
    fn begin(&mut self) {
        self.began = true;
        if let super::Cause::Woken { waker, .. } = self.wait.cause {
            self.waker.clone_from(&self.follow.task(waker).comm);
        }
        for cpu in (0..).take(self.cpus.len()) {
            let pid = self.follow.current(cpu);
            let comm = self.follow.task(pid).comm.clone();
            let mut others = self.follow.runnable(cpu);
            let own = self.follow.task(self.wait.pid);
            if own.runnable && own.cpu == cpu {
                others = others.saturating_sub(1);
            }
            let entry = &mut self.cpus[cpu as usize];
            (entry.ran, entry.comm) = (pid, comm);
            entry.waiting = others.saturating_sub(u32::from(pid != 0 && pid != self.wait.pid));
            if pid == 0 {
                self.idles[cpu as usize] = Some(self.wait.begin);
            }
        }
    }

    /// Adds the turn of the task that runs on the task's CPU, up to `to`.
    fn close_turn(&mut self, to: u64, left: Option<TaskState>) {
        let cpu = self.home();
        let pid = self.follow.current(cpu);
        let from = self.turn_from;
        self.turn_from = to;
        if !self.queued || pid == self.wait.pid || to == from || self.turns.len() == KEPT {
            return;
        }
        let task = self.follow.task(pid);
        let turn = Turn {
            cpu,
            pid,
            comm: task.comm.clone(),
            prio: task.prio,
            from,
            to,
            left: left.filter(|_| pid != 0),
        };
        self.turns.push(turn);
    }

    fn stop_idling(&mut self, time: u64) {
        for (entry, since) in self.cpus.iter_mut().zip(&mut self.idles) {
            if let Some(since) = since.take() {
                entry.idle_ns += time.saturating_sub(since);
            }
        }
    }

    /// Notes the number of tasks that wait on the task's CPU.
    fn count(&mut self, time: u64) {
        if !self.queued || self.queue.len() == KEPT {
            return;
        }
        let cpu = self.home();
        let running = u32::from(self.follow.current(cpu) != 0);
        let waiting = self.follow.runnable(cpu).saturating_sub(running);
        match self.queue.last_mut() {
            Some((last, number)) if *last == time => *number = waiting,
            Some((_, number)) if *number == waiting => {}
            _ => self.queue.push((time, waiting)),
        }
    }

    fn add(&mut self, record: &Record) {
        if self.is_over() {
            return;
        }
        let (time, cpu, pid) = (record.time, record.cpu, self.wait.pid);
        self.last = time;
        // The record that begins a preempted task's wait is the switch itself.
        let preempts = matches!(record.event, Event::Switch { prev, .. } if prev == pid) && time == self.wait.begin;
        if !self.began && time >= self.wait.begin && !preempts {
            let waking = matches!(record.event, Event::Waking { pid: woken, .. } | Event::Wakeup { pid: woken, .. }
                if woken == pid);
            if waking || time > self.wait.begin {
                self.begin();
            }
        }
        if self.began {
            self.add_during(record);
        } else if let Event::Migrate {
            pid: moved,
            from,
            to,
            reason,
        } = record.event
            && moved == pid
        {
            self.moved = Some(Move { time, from, to, reason });
        }
        if let Event::Switch { prev, next, .. } = record.event {
            if prev == pid && !self.began {
                self.last_ran = Some((cpu, time));
            }
            if self.began && self.end.is_none() && self.idles.len() > cpu as usize {
                if next == 0 {
                    self.idles[cpu as usize].get_or_insert(time);
                } else if let Some(since) = self.idles[cpu as usize].take() {
                    self.cpus[cpu as usize].idle_ns += time.saturating_sub(since);
                }
            }
        }
        self.follow.add(record);
        if preempts && !self.began {
            self.begin();
            self.queued = true;
            self.queued_on = self.home();
            self.turn_from = time;
            self.moves.extend(self.moved.take().filter(|step| step.time == time));
        }
        if let Event::Wakeup { pid: woken, target, .. } = record.event
            && woken == pid
            && self.began
            && !self.queued
        {
            self.queued = true;
            self.queued_on = target;
            self.turn_from = time;
        }
        if !self.is_over() {
            self.count(time);
        }
    }

    /// Adds a record before the state of the CPUs changes.
    fn add_during(&mut self, record: &Record) {
        let (time, cpu, pid) = (record.time, record.cpu, self.wait.pid);
        match record.event {
            Event::Switch { prev, prev_state, next } if next == pid && prev != pid => {
                if self.home() == cpu {
                    self.close_turn(time, Some(prev_state));
                } else {
                    self.close_turn(time, None);
                }
                self.stop_idling(time);
                let comm = self.follow.task(prev).comm.clone();
                self.end = Some(End {
                    time,
                    cpu,
                    prev,
                    comm,
                    prev_state,
                });
            }
            Event::Switch { prev_state, .. } if self.home() == cpu => self.close_turn(time, Some(prev_state)),
            Event::Migrate {
                pid: moved,
                from,
                to,
                reason,
            } if moved == pid => {
                self.close_turn(time, None);
                if self.moves.len() < KEPT {
                    self.moves.push(Move { time, from, to, reason });
                }
            }
            _ => {}
        }
    }
}

impl Sink for Story {
    fn take(&mut self, records: &[Record]) {
        records.iter().for_each(|record| self.add(record));
    }
}
