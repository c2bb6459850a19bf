// SPDX-License-Identifier: GPL-2.0-only
//! What the tasks of a workload share, whichever process they are in: locks and semaphores in shared memory, pipes and
//! sockets, and the log of what was done.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use windtunnel::error::Error;
use workload::{Channel, Op, Resource, Workload};

/// Entries of the log; memory is used as they are written. Operations beyond them are counted, their response times are not.
const ENTRIES: usize = 4 << 20;

/// What an entry of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `a` operations, response time `b`.
    Done = 1,
    Phase,
    /// The task began.
    New,
    Exit,
}

#[repr(C)]
pub struct Entry {
    kind: AtomicU32,
    pub task: u32,
    pub tid: u32,
    pub time: u64,
    pub a: u64,
    pub b: u64,
}

#[repr(C)]
struct Head {
    next: AtomicU64,
    /// Operations that the log has no room for.
    lost: AtomicU64,
    /// Requests to the kernel that it refused: affinity, policies.
    refused: AtomicU64,
}

/// A process-shared object of pthread's.
#[repr(C)]
union Sync {
    mutex: libc::pthread_mutex_t,
    cond: libc::pthread_cond_t,
    barrier: libc::pthread_barrier_t,
    semaphore: libc::sem_t,
}

struct Ends {
    read: i32,
    write: i32,
    /// Bytes of every message; `None`: messages keep their bounds.
    message: Option<u32>,
}

/// All of it. Processes forked off share it.
pub struct Shared {
    head: *mut Head,
    entries: *mut Entry,
    syncs: *mut Sync,
    channels: Vec<Option<Ends>>,
    begun: u64,
}

// SAFETY: what the pointers lead to is atomic or pthread's, and stays until the process ends.
unsafe impl Send for Shared {}
unsafe impl std::marker::Sync for Shared {}

/// ns of CLOCK_MONOTONIC.
pub fn clock() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// ns of the clock.
pub fn read_clock(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place to write to.
    unsafe { libc::clock_gettime(id, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn map<T>(count: usize) -> Result<*mut T, Error> {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let length = (count * size_of::<T>()).max(1);
    // SAFETY: a new mapping, zeroed by the kernel.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(Error::new(format!("no shared memory: {}", io::Error::last_os_error())));
    }
    Ok(memory.cast())
}

impl Shared {
    /// # Errors
    /// If the kernel does not give what the workload needs.
    pub fn new(workload: &Workload) -> Result<Shared, Error> {
        allow_files(workload);
        let syncs: *mut Sync = map(workload.resources.len())?;
        let mut channels = Vec::new();
        for (id, resource) in workload.resources.iter().enumerate() {
            // SAFETY: one of the mapping's.
            let sync = unsafe { &mut *syncs.add(id) };
            channels.push(match resource {
                Resource::Channel { name, capacity, kind } => {
                    let message = uniform(workload, id as u32);
                    let ends = ends(*kind, *capacity, message);
                    Some(ends.map_err(|error| Error::new(format!("channel {name}: {error}")))?)
                }
                _ => {
                    init(sync, resource);
                    None
                }
            });
        }
        Ok(Shared {
            head: map(1)?,
            entries: map(ENTRIES)?,
            syncs,
            channels,
            begun: clock(),
        })
    }

    /// ns since the start.
    pub fn now(&self) -> u64 {
        clock() - self.begun
    }

    fn head(&self) -> &Head {
        // SAFETY: mapped in `new`, atomics throughout.
        unsafe { &*self.head }
    }

    pub fn log(&self, kind: Kind, task: u32, a: u64, b: u64) {
        let index = self.head().next.fetch_add(1, Ordering::Relaxed) as usize;
        if index >= ENTRIES {
            if kind == Kind::Done {
                self.head().lost.fetch_add(a, Ordering::Relaxed);
            }
            return;
        }
        // SAFETY: this index is this caller's alone, until `kind` says that it is written.
        unsafe {
            let entry = self.entries.add(index);
            (*entry).task = task;
            (*entry).tid = libc::gettid() as u32;
            (*entry).time = self.now();
            (*entry).a = a;
            (*entry).b = b;
            (*entry).kind.store(kind as u32, Ordering::Release);
        }
    }

    pub fn refused(&self) {
        self.head().refused.fetch_add(1, Ordering::Relaxed);
    }

    /// What was lost of the log, and refused by the kernel.
    pub fn complaints(&self) -> (u64, u64) {
        (
            self.head().lost.load(Ordering::Relaxed),
            self.head().refused.load(Ordering::Relaxed),
        )
    }

    /// What was logged. An entry that a killed process had not finished is left out.
    pub fn entries(&self) -> impl Iterator<Item = (Kind, &Entry)> {
        let count = (self.head().next.load(Ordering::Acquire) as usize).min(ENTRIES);
        (0..count).filter_map(|index| {
            // SAFETY: below the mapping's end.
            let entry = unsafe { &*self.entries.add(index) };
            let kind = match entry.kind.load(Ordering::Acquire) {
                1 => Kind::Done,
                2 => Kind::Phase,
                3 => Kind::New,
                4 => Kind::Exit,
                _ => return None,
            };
            Some((kind, entry))
        })
    }

    fn sync(&self, id: u32) -> *mut Sync {
        // SAFETY: ids of a checked workload are below the number of resources.
        unsafe { self.syncs.add(id as usize) }
    }

    /// Executes a step on a lock, condition, barrier or semaphore; false if it is another step.
    pub fn synchronise(&self, op: &Op) -> bool {
        // SAFETY: each object was initialised as what the workload says it is, process-shared.
        unsafe {
            match *op {
                Op::Lock(id) => libc::pthread_mutex_lock(self.sync(id).cast()),
                Op::Unlock(id) => libc::pthread_mutex_unlock(self.sync(id).cast()),
                Op::CondWait { cond, mutex } => {
                    libc::pthread_cond_wait(self.sync(cond).cast(), self.sync(mutex).cast())
                }
                Op::Signal(id) => libc::pthread_cond_signal(self.sync(id).cast()),
                Op::Broadcast(id) => libc::pthread_cond_broadcast(self.sync(id).cast()),
                Op::Sync { cond, mutex } => {
                    libc::pthread_cond_signal(self.sync(cond).cast());
                    libc::pthread_cond_wait(self.sync(cond).cast(), self.sync(mutex).cast())
                }
                Op::Barrier(id) => libc::pthread_barrier_wait(self.sync(id).cast()),
                Op::SemPost(id) => libc::sem_post(self.sync(id).cast()),
                Op::SemWait(id) | Op::Suspend(id) => libc::sem_wait(self.sync(id).cast()),
                Op::Resume(id) => {
                    let mut value = 0;
                    libc::sem_getvalue(self.sync(id).cast(), &mut value);
                    if value == 0 {
                        libc::sem_post(self.sync(id).cast())
                    } else {
                        0
                    }
                }
                _ => return false,
            };
        }
        true
    }

    /// Writes a message.
    pub fn send(&self, channel: u32, bytes: u32, buffer: &mut Vec<u8>) {
        let Some(ends) = &self.channels[channel as usize] else {
            return;
        };
        buffer.resize(buffer.len().max(bytes as usize), 0);
        let mut sent = 0;
        while sent < bytes as usize {
            // SAFETY: the buffer has so many bytes.
            let count = unsafe { libc::write(ends.write, buffer.as_ptr().add(sent).cast(), bytes as usize - sent) };
            match count {
                0 | -1 if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted => return,
                count => sent += count.max(0) as usize,
            }
        }
    }

    /// Reads one.
    pub fn receive(&self, channel: u32, buffer: &mut Vec<u8>) {
        let Some(ends) = &self.channels[channel as usize] else {
            return;
        };
        let wanted = ends.message.map_or(65536, |bytes| bytes as usize);
        buffer.resize(buffer.len().max(wanted), 0);
        let mut received = 0;
        while received < wanted {
            // SAFETY: the buffer has so many bytes.
            let count = unsafe { libc::read(ends.read, buffer.as_mut_ptr().add(received).cast(), wanted - received) };
            match count {
                0 | -1 if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted => return,
                _ if ends.message.is_none() => return,
                count => received += count.max(0) as usize,
            }
        }
    }
}

/// The bytes of every message to a channel, if all have as many.
fn uniform(workload: &Workload, id: u32) -> Option<u32> {
    let ops = workload.programs.iter().flat_map(|program| &program.ops);
    let mut sizes = ops.filter_map(|op| match op {
        Op::Send { channel, bytes } if *channel == id => Some(*bytes),
        _ => None,
    });
    let first = sizes.next()?;
    sizes.all(|bytes| bytes == first).then_some(first)
}

fn init(sync: &mut Sync, resource: &Resource) {
    let shared = libc::PTHREAD_PROCESS_SHARED;
    // SAFETY: zeroed memory of the right size and alignment, initialised before anybody uses it.
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

fn ends(kind: Channel, capacity: u64, message: Option<u32>) -> io::Result<Ends> {
    let mut fds = [0; 2];
    let size = capacity.clamp(4096, 1 << 20) as i32;
    // Without a common length, the kernel keeps the messages' bounds.
    let check = |status: i32| {
        if status < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    };
    // SAFETY: two places for two descriptors; then descriptors that are open.
    unsafe {
        match kind {
            Channel::Pipe => {
                check(libc::pipe2(
                    fds.as_mut_ptr(),
                    if message.is_none() { libc::O_DIRECT } else { 0 },
                ))?;
                libc::fcntl(fds[1], libc::F_SETPIPE_SZ, size);
            }
            Channel::Socket => {
                let ty = if message.is_none() {
                    libc::SOCK_SEQPACKET
                } else {
                    libc::SOCK_STREAM
                };
                check(libc::socketpair(libc::AF_UNIX, ty, 0, fds.as_mut_ptr()))?;
                let length = size_of::<i32>() as u32;
                libc::setsockopt(
                    fds[1],
                    libc::SOL_SOCKET,
                    libc::SO_SNDBUF,
                    (&raw const size).cast(),
                    length,
                );
            }
            Channel::Tcp => return tcp(message),
        }
    }
    Ok(Ends {
        read: fds[0],
        write: fds[1],
        message,
    })
}

fn tcp(message: Option<u32>) -> io::Result<Ends> {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::IntoRawFd;
    if message.is_none() {
        return Err(io::Error::other(
            "messages of different lengths over TCP have no bounds",
        ));
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let write = TcpStream::connect(listener.local_addr()?)?;
    let (read, _) = listener.accept()?;
    Ok(Ends {
        read: read.into_raw_fd(),
        write: write.into_raw_fd(),
        message,
    })
}

/// Two descriptors a channel.
fn allow_files(workload: &Workload) {
    let channels = workload
        .resources
        .iter()
        .filter(|resource| matches!(resource, Resource::Channel { .. }))
        .count();
    let wanted = 2 * channels as u64 + 64;
    // SAFETY: a valid place to read and write.
    unsafe {
        let mut limit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        if limit.rlim_cur < wanted {
            limit.rlim_cur = wanted;
            limit.rlim_max = limit.rlim_max.max(wanted);
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
