// SPDX-License-Identifier: GPL-2.0-only
//! Locks, condition variables, barriers, semaphores and channels in memory that all processes
//! share.
//!
//! Each object stores the time of its last wake-up. Wake-up latencies can therefore be measured
//! without a trace. A latency starts just before the call that wakes the task (write, sem_post,
//! unlock, ...). It ends when the call of the woken task returns. For sleeps and timers, the
//! latency starts when the timer expires.
//!
//! A latency is recorded only if the task first tried the operation and found that it has to wait.
//! A receiver does not try first, because this would be an extra system call, which real programs
//! do not make. Instead, a receiver counts as having waited if a message was sent between the start
//! and the end of its read.
//!
//! Some wake-ups are not recorded if several tasks wait for the same pipe or semaphore at the same
//! time. Waits for room in a pipe and waits for children are never recorded.

use super::channel::Ends;
use super::shared::clock;
use input::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use workload::{Op, Resource, Workload};

/// Value of `woken_at` (otherwise the time of the last wake-up) while a task waits for a channel or
/// semaphore and has not been woken yet.
const WAITING: u64 = 1;

#[repr(C)]
union Sync {
    mutex: libc::pthread_mutex_t,
    cond: libc::pthread_cond_t,
    barrier: libc::pthread_barrier_t,
    semaphore: libc::sem_t,
    ends: Option<Ends>,
}

/// A resource of a workload, for which tasks can wait.
#[repr(C)]
pub struct Object {
    sync: Sync,
    woken_at: AtomicU64,
}

/// The resources of a workload, by id.
#[derive(Clone, Copy)]
pub struct Objects {
    first: *mut Object,
}

impl Objects {
    /// Creates the resources in zeroed memory at `first`. The memory must have room for all
    /// resources of the workload.
    pub fn at(first: *mut Object) -> Objects {
        Objects { first }
    }

    /// Initialises all resources.
    ///
    /// # Errors
    /// The kernel could not create a channel. The message names it.
    pub fn init(self, workload: &Workload) -> Result<(), Error> {
        for (id, resource) in workload.resources.iter().enumerate() {
            let id = id as u32;
            // SAFETY: the object is inside the mapping, and no other process uses it yet.
            let sync = unsafe { &mut (*self.object(id)).sync };
            match resource {
                Resource::Channel { name, capacity, kind } => {
                    let ends = Ends::open(workload, id, *kind, *capacity);
                    sync.ends = Some(ends.map_err(|error| format!("channel {name}: {error}"))?);
                }
                _ => init(sync, resource),
            }
        }
        Ok(())
    }

    fn object(self, id: u32) -> *mut Object {
        // SAFETY: `id` is below the number of resources, because the workload has been checked.
        unsafe { self.first.add(id as usize) }
    }

    fn sync<T>(self, id: u32) -> *mut T {
        // SAFETY: all members of the union have the union's address.
        unsafe { (&raw mut (*self.object(id)).sync).cast() }
    }

    fn woken_at(self, id: u32) -> &'static AtomicU64 {
        // SAFETY: the memory is mapped until the process ends.
        unsafe { &(*self.object(id)).woken_at }
    }

    /// Stores the time at which the waiter of a channel or semaphore is woken. If there are several
    /// wake-ups during one wait, the first one counts.
    fn wake_one(self, id: u32) {
        let woken_at = self.woken_at(id);
        if woken_at.load(Ordering::Acquire) == WAITING {
            let _ = woken_at.compare_exchange(WAITING, clock(), Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Waits for a channel or semaphore. Returns the time of the wake-up, if there was one.
    fn wait_one(self, id: u32, wait: impl FnOnce()) -> Option<u64> {
        self.woken_at(id).store(WAITING, Ordering::Release);
        wait();
        let at = self.woken_at(id).swap(0, Ordering::AcqRel);
        (at > WAITING).then_some(at)
    }

    /// Calls `wait`, which waits for the objects `ids`. Several tasks can wait for such an object
    /// at the same time. Returns the time of the last call that woke waiters, if this call was made
    /// during the wait.
    fn wait_all(self, ids: &[u32], wait: impl FnOnce() -> libc::c_int) -> Option<u64> {
        let begun = clock();
        let status = wait();
        let at = ids.iter().map(|&id| self.woken_at(id).load(Ordering::Acquire)).max();
        // The last task that arrives at a barrier does not wait.
        at.filter(|&at| at >= begun && status != libc::PTHREAD_BARRIER_SERIAL_THREAD)
    }

    fn wake_all(self, id: u32) {
        self.woken_at(id).store(clock(), Ordering::Release);
    }

    /// Executes an operation on a lock, condition variable, barrier or semaphore. If the task
    /// waited, returns the time of its wake-up.
    pub fn step(self, op: &Op) -> Option<u64> {
        // SAFETY: each object was initialised with the type that the workload defines, and as
        // shared between processes.
        unsafe {
            match *op {
                Op::Lock(id) => {
                    let mutex = self.sync(id);
                    if libc::pthread_mutex_trylock(mutex) != 0 {
                        return self.wait_all(&[id], || libc::pthread_mutex_lock(mutex));
                    }
                }
                Op::Unlock(id) => {
                    self.wake_all(id);
                    libc::pthread_mutex_unlock(self.sync(id));
                }
                Op::CondWait { cond, mutex } => return self.cond_wait(cond, mutex),
                Op::Signal(id) => {
                    self.wake_all(id);
                    libc::pthread_cond_signal(self.sync(id));
                }
                Op::Broadcast(id) => {
                    self.wake_all(id);
                    libc::pthread_cond_broadcast(self.sync(id));
                }
                Op::Sync { cond, mutex } => {
                    self.wake_all(cond);
                    libc::pthread_cond_signal(self.sync(cond));
                    return self.cond_wait(cond, mutex);
                }
                Op::Barrier(id) => {
                    let barrier = self.sync(id);
                    return self.wait_all(&[id], || {
                        self.wake_all(id);
                        libc::pthread_barrier_wait(barrier)
                    });
                }
                Op::SemPost(id) => self.post(id),
                Op::SemWait(id) | Op::Suspend(id) => {
                    let semaphore = self.sync(id);
                    if libc::sem_trywait(semaphore) != 0 {
                        return self.wait_one(id, || while libc::sem_wait(semaphore) != 0 {});
                    }
                }
                Op::Relay { from, to } => {
                    let woken = self.step(&Op::SemWait(from));
                    let mut taken = 1;
                    while libc::sem_trywait(self.sync(from)) == 0 {
                        taken += 1;
                    }
                    (0..taken).for_each(|_| self.post(to));
                    return woken;
                }
                Op::Resume(id) => {
                    let mut value = 0;
                    libc::sem_getvalue(self.sync(id), &mut value);
                    if value == 0 {
                        self.post(id);
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn cond_wait(self, cond: u32, mutex: u32) -> Option<u64> {
        // To wait for the condition, the task releases the mutex. After the signal, it may have to
        // wait for the mutex again.
        self.wake_all(mutex);
        // SAFETY: see `step`.
        self.wait_all(&[cond, mutex], || unsafe {
            libc::pthread_cond_wait(self.sync(cond), self.sync(mutex))
        })
    }

    fn post(self, id: u32) {
        self.wake_one(id);
        // SAFETY: see `step`.
        unsafe { libc::sem_post(self.sync(id)) };
    }

    fn ends(self, id: u32) -> Option<Ends> {
        // SAFETY: `init` stored the descriptors of the channel, and they never change.
        unsafe { (*self.object(id)).sync.ends }
    }

    /// Writes a message.
    pub fn send(self, channel: u32, bytes: u32, buffer: &mut Vec<u8>) {
        if let Some(ends) = self.ends(channel) {
            self.wake_one(channel);
            ends.send(bytes, buffer);
        }
    }

    /// Waits until the channel has a message, which stays there. If the task waited, returns the
    /// time of its wake-up.
    pub fn poll(self, channel: u32) -> Option<u64> {
        let ends = self.ends(channel)?;
        if ends.poll(0) {
            return None;
        }
        self.wait_one(channel, || while !ends.poll(-1) {})
    }

    /// Reads a message. If the task waited, returns the time of its wake-up.
    pub fn receive(self, channel: u32, buffer: &mut Vec<u8>) -> Option<u64> {
        let ends = self.ends(channel)?;
        // A real receiver makes a single system call, so this function does not check first whether
        // there is a message.
        self.wait_one(channel, || ends.receive(buffer))
    }
}

fn init(sync: &mut Sync, resource: &Resource) {
    let shared = libc::PTHREAD_PROCESS_SHARED;
    // SAFETY: the memory is zeroed, has the right size and alignment, and is not used yet.
    unsafe {
        match resource {
            Resource::Mutex {
                priority_inheritance, ..
            } => {
                let mut attributes = std::mem::zeroed();
                libc::pthread_mutexattr_init(&mut attributes);
                libc::pthread_mutexattr_setpshared(&mut attributes, shared);
                if *priority_inheritance {
                    libc::pthread_mutexattr_setprotocol(&mut attributes, libc::PTHREAD_PRIO_INHERIT);
                }
                libc::pthread_mutex_init(&mut sync.mutex, &attributes);
            }
            Resource::Cond { .. } => {
                let mut attributes = std::mem::zeroed();
                libc::pthread_condattr_init(&mut attributes);
                libc::pthread_condattr_setpshared(&mut attributes, shared);
                libc::pthread_cond_init(&mut sync.cond, &attributes);
            }
            Resource::Barrier { participants, .. } => {
                let mut attributes = std::mem::zeroed();
                libc::pthread_barrierattr_init(&mut attributes);
                libc::pthread_barrierattr_setpshared(&mut attributes, shared);
                libc::pthread_barrier_init(&mut sync.barrier, &attributes, (*participants).max(1));
            }
            Resource::Semaphore { value, .. } => {
                libc::sem_init(&mut sync.semaphore, 1, *value);
            }
            Resource::Suspend { .. } => {
                libc::sem_init(&mut sync.semaphore, 1, 0);
            }
            Resource::Channel { .. } => {}
        }
    }
}
