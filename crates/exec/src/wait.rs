// SPDX-License-Identifier: GPL-2.0-only
//! System calls that wait: sleeps, futexes, epoll and poll.
//!
//! A call that has to wait leaves a [`Wait`] at its thread. When the machine continues the thread,
//! the call is answered again, and finds out why the thread was woken.

use kernel::Machine;
use kernel::native;

use crate::answer::{Reply, error};
use crate::files::FileKind;
use crate::files::epoll::{Interest, Rings};
use crate::program::{EPOCH_NS, Program};

/// The event for which a thread waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Sleep {
        until: u64,
    },
    Futex {
        addr: u64,
        mask: u32,
        until: Option<u64>,
        woken: bool,
    },
    /// One of these descriptors is ready for these events.
    Files {
        fds: Vec<(i32, u32)>,
        until: Option<u64>,
    },
    /// Deferred work of the thread is done.
    Deferred,
    Forever,
}

/// Largest number of seconds of a wait. Longer ones never end within a run.
const LONGEST_S: i64 = 1 << 33;

impl Program {
    /// Reads a struct timespec. Returns its length in ns.
    pub fn read_time(&self, addr: u64) -> Option<Result<u64, Reply>> {
        if addr == 0 {
            return None;
        }
        let (Some(seconds), Some(ns)) = (self.host.memory.read_u64(addr), self.host.memory.read_u64(addr + 8)) else {
            return Some(Err(error(libc::EFAULT)));
        };
        let seconds = seconds.cast_signed();
        if seconds < 0 || ns >= 1_000_000_000 {
            return Some(Err(error(libc::EINVAL)));
        }
        Some(Ok(seconds.min(LONGEST_S).unsigned_abs() * 1_000_000_000 + ns))
    }

    /// Converts a time of a clock into one of the machine.
    pub fn from_clock(clock: u64, at: u64) -> u64 {
        match clock as i32 {
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI | libc::CLOCK_REALTIME_ALARM => {
                at.saturating_sub(EPOCH_NS)
            }
            _ => at,
        }
    }

    /// Returns the time of a clock.
    pub fn clock(&self, m: &Machine, clock: u64) -> Option<u64> {
        let now = self.now(m);
        match clock as i32 {
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => Some(EPOCH_NS + now),
            libc::CLOCK_MONOTONIC
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_MONOTONIC_COARSE
            | libc::CLOCK_BOOTTIME
            | libc::CLOCK_PROCESS_CPUTIME_ID
            | libc::CLOCK_THREAD_CPUTIME_ID => Some(now),
            _ => None,
        }
    }

    /// Returns whether what a thread waits for has happened.
    pub fn may_continue(&self, t: usize, now: u64) -> bool {
        let thread = &self.threads[t];
        if thread.exited {
            return false;
        }
        match &thread.wait {
            None | Some(Wait::Forever) => false,
            Some(Wait::Sleep { until }) => *until <= now,
            Some(Wait::Futex { woken, until, .. }) => *woken || until.is_some_and(|until| until <= now),
            Some(Wait::Files { fds, until }) => {
                until.is_some_and(|until| until <= now)
                    || fds.iter().any(|&(fd, events)| self.is_ready(fd, events, now))
            }
            Some(Wait::Deferred) => self.results.contains_key(&thread.pid),
        }
    }

    fn rings(&self) -> Rings<'_> {
        Rings {
            file: &self.shared_file,
            offsets: &self.bpf.rings,
        }
    }

    fn is_ready(&self, fd: i32, events: u32, now: u64) -> bool {
        self.ready(fd, now) & (events | libc::EPOLLERR as u32) != 0
    }

    /// Returns the events for which a descriptor is ready.
    pub fn ready(&self, fd: i32, now: u64) -> u32 {
        self.files.ready(fd, now, &self.rings(), 3)
    }

    /// Puts a thread to sleep until one of the files is ready. Timers among them end the sleep, too.
    pub fn wait_for_files(&mut self, t: usize, fds: Vec<(i32, u32)>, until: Option<u64>) -> Reply {
        let timer = self.files.next_timer(fds.iter().map(|&(fd, _)| fd));
        self.threads[t].wait = Some(Wait::Files { fds, until });
        Reply::Wait([until, timer].into_iter().flatten().min())
    }

    /// Wakes the threads that wait for files with timers, because a timer has changed. They then
    /// sleep until the new time.
    pub fn wake_for_timers(&mut self, m: &mut Machine) {
        if !self.live {
            return;
        }
        let waits =
            |thread: &&crate::program::Thread| !thread.exited && matches!(thread.wait, Some(Wait::Files { .. }));
        let pids: Vec<u32> = self.threads.iter().filter(waits).map(|thread| thread.pid).collect();
        for pid in pids {
            native::wake(m, pid);
        }
    }

    /// Sleeps until a time (nanosleep, clock_nanosleep).
    pub fn sleep(&mut self, m: &Machine, t: usize, until: impl FnOnce(u64) -> u64) -> Reply {
        let now = self.now(m);
        let until = match self.threads[t].wait {
            Some(Wait::Sleep { until }) => until,
            _ => until(now),
        };
        if until <= now {
            return Reply::Result(0);
        }
        self.threads[t].wait = Some(Wait::Sleep { until });
        Reply::Wait(Some(until))
    }

    /// Answers futex(2).
    pub fn futex(&mut self, m: &mut Machine, t: usize, args: [u64; 6]) -> Reply {
        let [addr, op, value, fourth, other, third] = args;
        let command = op as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
        match command {
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => self.futex_wait(m, t, command, args),
            libc::FUTEX_WAKE => Reply::Result(self.wake_futex(m, addr, value as u32, u32::MAX).into()),
            libc::FUTEX_WAKE_BITSET => Reply::Result(self.wake_futex(m, addr, value as u32, third as u32).into()),
            libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE => {
                if command == libc::FUTEX_CMP_REQUEUE && self.host.memory.read_u32(addr) != Some(third as u32) {
                    return error(libc::EAGAIN);
                }
                let woken = self.wake_futex(m, addr, value as u32, u32::MAX);
                let mut moved = 0;
                for thread in &mut self.threads {
                    if let Some(Wait::Futex {
                        addr: at, woken: false, ..
                    }) = &mut thread.wait
                        && *at == addr
                        && moved < fourth as u32
                    {
                        *at = other;
                        moved += 1;
                    }
                }
                Reply::Result(i64::from(woken + moved))
            }
            _ => self.refuse("futex", &format!("it uses the futex operation {command}")),
        }
    }

    fn futex_wait(&mut self, m: &Machine, t: usize, command: i32, args: [u64; 6]) -> Reply {
        let [addr, op, value, time, _, mask] = args;
        let now = self.now(m);
        if let Some(Wait::Futex { woken, until, .. }) = self.threads[t].wait {
            return match until {
                _ if woken => Reply::Result(0),
                Some(until) if until <= now => error(libc::ETIMEDOUT),
                until => Reply::Wait(until),
            };
        }
        match self.host.memory.read_u32(addr) {
            None => return error(libc::EFAULT),
            Some(word) if word != value as u32 => return error(libc::EAGAIN),
            Some(_) => {}
        }
        let absolute = command == libc::FUTEX_WAIT_BITSET;
        let until = match self.read_time(time) {
            None => None,
            Some(Err(reply)) => return reply,
            Some(Ok(ns)) if !absolute => Some(now + ns),
            Some(Ok(ns)) if op as i32 & libc::FUTEX_CLOCK_REALTIME != 0 => Some(ns.saturating_sub(EPOCH_NS)),
            Some(Ok(ns)) => Some(ns),
        };
        if until.is_some_and(|until| until <= now) {
            return error(libc::ETIMEDOUT);
        }
        self.threads[t].wait = Some(Wait::Futex {
            addr,
            mask: if absolute { mask as u32 } else { u32::MAX },
            until,
            woken: false,
        });
        Reply::Wait(until)
    }

    /// Wakes up to `count` threads that wait for a futex, in the order of the threads. Returns their
    /// number.
    pub fn wake_futex(&mut self, m: &mut Machine, addr: u64, count: u32, bits: u32) -> u32 {
        let mut pids = Vec::new();
        for thread in self.threads.iter_mut().filter(|thread| !thread.exited) {
            if let Some(Wait::Futex {
                addr: at, mask, woken, ..
            }) = &mut thread.wait
                && *at == addr
                && *mask & bits != 0
                && !*woken
                && (pids.len() as u32) < count
            {
                *woken = true;
                pids.push(thread.pid);
            }
        }
        if self.live {
            for &pid in &pids {
                native::wake(m, pid);
            }
        }
        pids.len() as u32
    }

    /// Answers epoll_wait(2). `timeout` is the largest length of the wait in ns.
    pub fn epoll_wait(&mut self, m: &Machine, t: usize, args: [u64; 6], timeout: Option<u64>) -> Reply {
        let [fd, events, most, ..] = args;
        let (fd, now) = (fd as i32, self.now(m));
        let Some(FileKind::Epoll(interests)) = self.files.get(fd).map(|open| &open.kind) else {
            return error(libc::EINVAL);
        };
        let mut out = Vec::new();
        let mut reported = Vec::new();
        for (at, interest) in interests.iter().enumerate() {
            let events = self.files.reports(interest, now, &self.rings(), 2);
            if events != 0 && (reported.len() as u64) < most {
                out.extend_from_slice(&events.to_le_bytes());
                out.extend_from_slice(&interest.data.to_le_bytes());
                reported.push((at, self.files.get(interest.fd).map(|open| open.events)));
            }
        }
        if !reported.is_empty() {
            if let Some(FileKind::Epoll(interests)) = self.files.get_mut(fd).map(|open| &mut open.kind) {
                for &(at, events) in &reported {
                    interests[at].reported = events;
                }
            }
            return self.put(events, &out, reported.len() as i64);
        }
        let until = match &self.threads[t].wait {
            Some(Wait::Files { until, .. }) => *until,
            _ => timeout.map(|timeout| now.saturating_add(timeout)),
        };
        if until.is_some_and(|until| until <= now) {
            return Reply::Result(0);
        }
        self.wait_for_files(t, vec![(fd, crate::files::epoll::IN)], until)
    }

    /// Answers epoll_ctl(2).
    pub fn epoll_ctl(&mut self, args: [u64; 6]) -> Reply {
        let [fd, op, target, event, ..] = args;
        let (fd, target) = (fd as i32, target as i32);
        if self.files.get(target).is_none() {
            return error(libc::EBADF);
        }
        let (mut events, mut data) = (0, 0);
        if op as i32 != libc::EPOLL_CTL_DEL {
            let (Some(mask), Some(word)) = (self.host.memory.read_u32(event), self.host.memory.read_u64(event + 4))
            else {
                return error(libc::EFAULT);
            };
            (events, data) = (mask, word);
        }
        let Some(FileKind::Epoll(interests)) = self.files.get_mut(fd).map(|open| &mut open.kind) else {
            return error(libc::EINVAL);
        };
        let known = interests.iter().position(|interest| interest.fd == target);
        let interest = Interest {
            fd: target,
            events,
            data,
            reported: None,
        };
        match (op as i32, known) {
            (libc::EPOLL_CTL_ADD, None) => interests.push(interest),
            (libc::EPOLL_CTL_ADD, Some(_)) => return error(libc::EEXIST),
            (libc::EPOLL_CTL_MOD, Some(at)) => interests[at] = interest,
            (libc::EPOLL_CTL_DEL, Some(at)) => {
                interests.remove(at);
            }
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None) => return error(libc::ENOENT),
            _ => return error(libc::EINVAL),
        }
        Reply::Result(0)
    }

    /// Answers poll(2). `timeout` is the largest length of the wait in ns.
    pub fn poll(&mut self, m: &Machine, t: usize, addr: u64, count: u64, timeout: Option<u64>) -> Reply {
        let now = self.now(m);
        let Some(mut bytes) = self.host.memory.read(addr, 8 * count.min(1024) as usize) else {
            return error(libc::EFAULT);
        };
        let (mut fds, mut nr) = (Vec::new(), 0);
        for entry in bytes.chunks_exact_mut(8) {
            let fd = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            let events = u32::from(u16::from_le_bytes([entry[4], entry[5]]));
            let ready = match fd {
                ..0 => 0,
                fd if self.files.get(fd).is_none() => libc::POLLNVAL as u32,
                fd => self.ready(fd, now) & (events | libc::POLLERR as u32),
            };
            entry[6..].copy_from_slice(&(ready as u16).to_le_bytes());
            nr += i64::from(ready != 0);
            if fd >= 0 {
                fds.push((fd, events));
            }
        }
        let until = match &self.threads[t].wait {
            Some(Wait::Files { until, .. }) => *until,
            _ => timeout.map(|timeout| now.saturating_add(timeout)),
        };
        if nr > 0 || until.is_some_and(|until| until <= now) {
            return self.put(addr, &bytes, nr);
        }
        self.wait_for_files(t, fds, until)
    }
}
