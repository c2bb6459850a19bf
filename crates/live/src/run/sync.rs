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

/// Type of an object: the member of [`Sync`] that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mutex,
    Cond,
    Barrier,
    Semaphore,
    Channel,
}

impl Kind {
    fn new(resource: &Resource) -> Kind {
        match resource {
            Resource::Mutex { .. } => Kind::Mutex,
            Resource::Cond { .. } => Kind::Cond,
            Resource::Barrier { .. } => Kind::Barrier,
            Resource::Semaphore { .. } | Resource::Suspend { .. } => Kind::Semaphore,
            Resource::Channel { .. } => Kind::Channel,
        }
    }
}

/// The resources of a workload, by id. An operation does nothing if there is no object with its id,
/// or if the object has a different type. [`Workload::check`] reports such operations.
pub struct Objects {
    first: *mut Object,
    /// Type of each object, by id.
    kinds: Box<[Kind]>,
}

/// An initialised object.
struct Found<'a, T> {
    /// Its member of [`Sync`].
    sync: *mut T,
    woken_at: &'a AtomicU64,
}

impl Objects {
    /// Returns the resources of a workload, which are at `first`.
    ///
    /// # Safety
    /// `first` is aligned for an [`Object`] and has room for all resources of the workload. The
    /// memory stays mapped until the process ends. [`Objects::init`] has created the resources of
    /// this workload in it, or the memory is zeroed and `init` follows before any other use.
    pub unsafe fn at(first: *mut Object, workload: &Workload) -> Objects {
        Objects {
            first,
            kinds: workload.resources.iter().map(Kind::new).collect(),
        }
    }

    /// Initialises all resources.
    ///
    /// # Errors
    /// The kernel could not create a channel. The message names it.
    ///
    /// # Safety
    /// The memory is zeroed, no other process or thread uses it yet, and `workload` is the workload
    /// that [`Objects::at`] has received.
    pub unsafe fn init(&self, workload: &Workload) -> Result<(), Error> {
        for (id, resource) in (0..).zip(&workload.resources) {
            let Some(object) = self.object(id, Kind::new(resource)) else {
                return Err(Error::new(format!("{}: this is a different workload", resource.name())));
            };
            // SAFETY: the object is inside the mapping, and no other process uses it yet.
            let sync = unsafe { &mut (*object).sync };
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

    /// Returns the address of the object `id`, if there is one of this type.
    fn object(&self, id: u32, kind: Kind) -> Option<*mut Object> {
        let is_known = self.kinds.get(id as usize) == Some(&kind);
        // SAFETY: the memory has room for all objects, as `at` demands, and `id` is one of them.
        is_known.then(|| unsafe { self.first.add(id as usize) })
    }

    /// Returns the object `id`, if there is one of this type. `T` is the type of its member.
    fn find<T>(&self, id: u32, kind: Kind) -> Option<Found<'_, T>> {
        let object = self.object(id, kind)?;
        // SAFETY: the object is inside the mapping, which lasts until the process ends. All members
        // of the union have the union's address. `woken_at` is only used as an atomic.
        unsafe {
            Some(Found {
                sync: (&raw mut (*object).sync).cast(),
                woken_at: &(*object).woken_at,
            })
        }
    }

    fn mutex(&self, id: u32) -> Option<Found<'_, libc::pthread_mutex_t>> {
        self.find(id, Kind::Mutex)
    }

    fn cond(&self, id: u32) -> Option<Found<'_, libc::pthread_cond_t>> {
        self.find(id, Kind::Cond)
    }

    fn barrier(&self, id: u32) -> Option<Found<'_, libc::pthread_barrier_t>> {
        self.find(id, Kind::Barrier)
    }

    fn semaphore(&self, id: u32) -> Option<Found<'_, libc::sem_t>> {
        self.find(id, Kind::Semaphore)
    }

    /// Returns the descriptors of a channel, with the channel itself.
    fn channel(&self, id: u32) -> Option<(Ends, Found<'_, Option<Ends>>)> {
        let channel = self.find::<Option<Ends>>(id, Kind::Channel)?;
        // SAFETY: `init` has stored the descriptors before other processes existed, and they never
        // change.
        let ends = unsafe { *channel.sync };
        Some((ends?, channel))
    }

    /// Executes an operation on a lock, condition variable, barrier or semaphore. If the task
    /// waited, returns the time of its wake-up.
    pub fn step(&self, op: &Op) -> Option<u64> {
        // SAFETY: the object of an operation has the type that the function expects, and `init` has
        // initialised it as shared between processes. The check of the workload has found that a
        // task holds the mutexes that it unlocks. The C library would change nothing but the object
        // if the task did not hold it.
        unsafe {
            match *op {
                Op::Lock(id) => {
                    let mutex = self.mutex(id)?;
                    if libc::pthread_mutex_trylock(mutex.sync) != 0 {
                        return wait_all(&[mutex.woken_at], || libc::pthread_mutex_lock(mutex.sync));
                    }
                }
                Op::Unlock(id) => {
                    let mutex = self.mutex(id)?;
                    mutex.wake_all();
                    libc::pthread_mutex_unlock(mutex.sync);
                }
                Op::CondWait { cond, mutex } => return cond_wait(&self.cond(cond)?, &self.mutex(mutex)?),
                Op::Signal(id) => {
                    let cond = self.cond(id)?;
                    cond.wake_all();
                    libc::pthread_cond_signal(cond.sync);
                }
                Op::Broadcast(id) => {
                    let cond = self.cond(id)?;
                    cond.wake_all();
                    libc::pthread_cond_broadcast(cond.sync);
                }
                Op::Sync { cond, mutex } => {
                    let (cond, mutex) = (self.cond(cond)?, self.mutex(mutex)?);
                    cond.wake_all();
                    libc::pthread_cond_signal(cond.sync);
                    return cond_wait(&cond, &mutex);
                }
                Op::Barrier(id) => {
                    let barrier = self.barrier(id)?;
                    return wait_all(&[barrier.woken_at], || {
                        barrier.wake_all();
                        libc::pthread_barrier_wait(barrier.sync)
                    });
                }
                Op::SemPost(id) => post(&self.semaphore(id)?),
                Op::SemWait(id) | Op::Suspend(id) => return sem_wait(&self.semaphore(id)?),
                Op::Relay { from, to } => {
                    let (from, to) = (self.semaphore(from)?, self.semaphore(to)?);
                    let woken = sem_wait(&from);
                    let mut taken = 1;
                    while libc::sem_trywait(from.sync) == 0 {
                        taken += 1;
                    }
                    (0..taken).for_each(|_| post(&to));
                    return woken;
                }
                Op::Resume(id) => {
                    let semaphore = self.semaphore(id)?;
                    let mut value = 0;
                    libc::sem_getvalue(semaphore.sync, &mut value);
                    if value == 0 {
                        post(&semaphore);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Writes a message.
    pub fn send(&self, channel: u32, bytes: u32, buffer: &mut Vec<u8>) {
        if let Some((ends, channel)) = self.channel(channel) {
            channel.wake_one();
            ends.send(bytes, buffer);
        }
    }

    /// Waits until the channel has a message, which stays there. If the task waited, returns the
    /// time of its wake-up.
    pub fn poll(&self, channel: u32) -> Option<u64> {
        let (ends, channel) = self.channel(channel)?;
        if ends.poll(0) {
            return None;
        }
        channel.wait_one(|| while !ends.poll(-1) {})
    }

    /// Reads a message. If the task waited, returns the time of its wake-up.
    pub fn receive(&self, channel: u32, buffer: &mut Vec<u8>) -> Option<u64> {
        let (ends, channel) = self.channel(channel)?;
        // A real receiver makes a single system call, so this function does not check first whether
        // there is a message.
        channel.wait_one(|| ends.receive(buffer))
    }
}

impl<T> Found<'_, T> {
    /// Stores the time at which the waiter of a channel or semaphore is woken. If there are several
    /// wake-ups during one wait, the first one counts.
    fn wake_one(&self) {
        if self.woken_at.load(Ordering::Acquire) == WAITING {
            let _ = self
                .woken_at
                .compare_exchange(WAITING, clock(), Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Waits for a channel or semaphore. Returns the time of the wake-up, if there was one.
    fn wait_one(&self, wait: impl FnOnce()) -> Option<u64> {
        self.woken_at.store(WAITING, Ordering::Release);
        wait();
        let at = self.woken_at.swap(0, Ordering::AcqRel);
        (at > WAITING).then_some(at)
    }

    fn wake_all(&self) {
        self.woken_at.store(clock(), Ordering::Release);
    }
}

/// Calls `wait`, which waits for the objects with these times of wake-ups. Several tasks can wait
/// for such an object at the same time. Returns the time of the last call that woke waiters, if this
/// call was made during the wait.
fn wait_all(woken_at: &[&AtomicU64], wait: impl FnOnce() -> libc::c_int) -> Option<u64> {
    let begun = clock();
    let status = wait();
    let at = woken_at.iter().map(|woken_at| woken_at.load(Ordering::Acquire)).max();
    // The last task that arrives at a barrier does not wait.
    at.filter(|&at| at >= begun && status != libc::PTHREAD_BARRIER_SERIAL_THREAD)
}

fn cond_wait(cond: &Found<libc::pthread_cond_t>, mutex: &Found<libc::pthread_mutex_t>) -> Option<u64> {
    // To wait for the condition, the task releases the mutex. After the signal, it may have to
    // wait for the mutex again.
    mutex.wake_all();
    // SAFETY: see `step`.
    wait_all(&[cond.woken_at, mutex.woken_at], || unsafe {
        libc::pthread_cond_wait(cond.sync, mutex.sync)
    })
}

fn sem_wait(semaphore: &Found<libc::sem_t>) -> Option<u64> {
    // SAFETY: see `step`.
    unsafe {
        if libc::sem_trywait(semaphore.sync) == 0 {
            return None;
        }
        semaphore.wait_one(|| while libc::sem_wait(semaphore.sync) != 0 {})
    }
}

fn post(semaphore: &Found<libc::sem_t>) {
    semaphore.wake_one();
    // SAFETY: see `step`.
    unsafe { libc::sem_post(semaphore.sync) };
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

#[cfg(test)]
mod tests {
    use super::super::shared::Shared;
    use super::*;
    use workload::Channel;

    #[test]
    fn an_operation_changes_no_object_of_a_different_type() {
        let name = || "x".to_owned();
        let workload = Workload {
            resources: vec![
                Resource::Mutex {
                    name: name(),
                    priority_inheritance: false,
                },
                Resource::Semaphore { name: name(), value: 1 },
                Resource::Channel {
                    name: name(),
                    capacity: 4096,
                    kind: Channel::Eventfd,
                },
            ],
            ..Workload::default()
        };
        let shared = Shared::new(&workload).expect("the memory can be created");
        let objects = shared.objects();
        let mut buffer = Vec::new();
        for id in [0, 1, 2, 3, u32::MAX] {
            for op in [Op::Signal(id), Op::Broadcast(id), Op::Barrier(id)] {
                assert_eq!(objects.step(&op), None, "{op:?}");
            }
            if id != 1 {
                for op in [Op::SemPost(id), Op::SemWait(id), Op::Resume(id)] {
                    assert_eq!(objects.step(&op), None, "{op:?}");
                }
            }
            if id != 2 {
                objects.send(id, 8, &mut buffer);
                assert_eq!((objects.poll(id), objects.receive(id, &mut buffer)), (None, None));
            }
        }
        let cond_wait = Op::CondWait { cond: 0, mutex: 0 };
        assert_eq!(objects.step(&cond_wait), None);
        // All objects still work, and no operation has to wait.
        assert_eq!(objects.step(&Op::Lock(0)), None);
        assert_eq!(objects.step(&Op::Unlock(0)), None);
        assert_eq!(objects.step(&Op::SemWait(1)), None);
        objects.send(2, 8, &mut buffer);
        assert_eq!(objects.poll(2), None);
    }
}
