// SPDX-License-Identifier: GPL-2.0-only
//! The pipes, sockets and eventfds of a workload. They are opened before the workload's processes
//! are forked, so that all processes inherit the descriptors, even across exec.

use super::execute::BUFFER_BYTES;
use std::io;
use workload::{Channel, Op, Resource, Workload};

/// The two file descriptors of a channel.
#[derive(Clone, Copy)]
pub struct Ends {
    read: i32,
    write: i32,
    /// Length of each message in bytes, or 0 if messages have different lengths. With 0, the kernel
    /// keeps the boundaries between messages.
    message: u32,
    kind: Channel,
}

/// Length in bytes of a message to an eventfd: the size of the eventfd's counter.
const COUNTER: u32 = 8;
/// Number that a message adds to the counter of an eventfd.
static ONE: u64 = 1;

impl Ends {
    /// Opens the channel `id` of the workload.
    ///
    /// # Errors
    /// The kernel cannot create such a channel.
    pub fn open(workload: &Workload, id: u32, kind: Channel, capacity: u64) -> io::Result<Ends> {
        let message = uniform(workload, id);
        let size = capacity.clamp(4096, 1 << 20) as i32;
        let (read, write) = match kind {
            Channel::Pipe => pipe(message, size)?,
            Channel::Socket => socket(message, size)?,
            Channel::Datagram => socket_pair(libc::SOCK_DGRAM, size)?,
            Channel::Tcp => tcp(message)?,
            Channel::Eventfd => eventfd()?,
        };
        Ok(Ends {
            read,
            write,
            message: match kind {
                Channel::Eventfd => COUNTER,
                // 0 is right for datagrams of any length, because the kernel keeps the boundaries
                // between them.
                Channel::Datagram => 0,
                _ => message.unwrap_or(0),
            },
            kind,
        })
    }

    /// Writes a message. Waits while the channel is full.
    pub fn send(&self, bytes: u32, buffer: &mut Vec<u8>) {
        if self.kind == Channel::Eventfd {
            // SAFETY: the buffer is a counter of 8 bytes.
            unsafe { libc::write(self.write, (&raw const ONE).cast(), COUNTER as usize) };
            return;
        }
        let bytes = bytes as usize;
        buffer.resize(buffer.len().max(bytes.min(BUFFER_BYTES)), 0);
        let mut sent = 0;
        while sent < bytes {
            let rest = (bytes - sent).min(BUFFER_BYTES);
            // SAFETY: the buffer has at least `rest` bytes. Receivers do not look at the contents.
            let count = unsafe { libc::write(self.write, buffer.as_ptr().cast(), rest) };
            match count {
                0 | -1 if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted => return,
                count => sent += count.max(0) as usize,
            }
        }
    }

    /// Returns the number of bytes to read in order to receive a message.
    fn wanted(&self) -> usize {
        match self.message {
            0 => 65536,
            bytes => bytes as usize,
        }
    }

    /// Waits until a message can be read, for at most `timeout` ms; -1 means without a limit.
    /// Returns whether a message can be read.
    pub fn poll(&self, timeout: i32) -> bool {
        let mut fd = libc::pollfd {
            fd: self.read,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the pointer refers to one pollfd, as the length 1 says.
        unsafe { libc::poll(&mut fd, 1, timeout) > 0 }
    }

    /// Reads a message. Waits until the message is complete.
    pub fn receive(&self, buffer: &mut Vec<u8>) {
        let wanted = self.wanted();
        buffer.resize(buffer.len().max(wanted.min(BUFFER_BYTES)), 0);
        let mut received = 0;
        while received < wanted && (received == 0 || self.message > 0) {
            let rest = (wanted - received).min(BUFFER_BYTES);
            // SAFETY: the buffer has at least `rest` bytes.
            let count = unsafe { libc::read(self.read, buffer.as_mut_ptr().cast(), rest) };
            match count {
                0 | -1 if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted => return,
                count => received += count.max(0) as usize,
            }
        }
    }
}

/// Returns the length in bytes of the channel's messages, if all of them have the same length.
fn uniform(workload: &Workload, id: u32) -> Option<u32> {
    let ops = workload.programs.iter().flat_map(|program| &program.ops);
    let mut sizes = ops.filter_map(|op| match op {
        Op::Send { channel, bytes } if *channel == id => Some(*bytes),
        _ => None,
    });
    let first = sizes.next()?;
    sizes.all(|bytes| bytes == first).then_some(first)
}

fn check(status: i32) -> io::Result<()> {
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

// With O_DIRECT, the kernel keeps the boundaries between messages in a pipe. Messages of different
// lengths need these boundaries.
fn pipe(message: Option<u32>, size: i32) -> io::Result<(i32, i32)> {
    let mut fds = [0; 2];
    let flags = if message.is_none() { libc::O_DIRECT } else { 0 };
    // SAFETY: `fds` has room for two descriptors, and the second call gets an open one.
    unsafe {
        check(libc::pipe2(fds.as_mut_ptr(), flags))?;
        libc::fcntl(fds[1], libc::F_SETPIPE_SZ, size);
    }
    Ok((fds[0], fds[1]))
}

fn socket(message: Option<u32>, size: i32) -> io::Result<(i32, i32)> {
    match message {
        None => socket_pair(libc::SOCK_SEQPACKET, size),
        Some(_) => socket_pair(libc::SOCK_STREAM, size),
    }
}

fn eventfd() -> io::Result<(i32, i32)> {
    // SAFETY: eventfd has no preconditions.
    let fd = unsafe { libc::eventfd(0, libc::EFD_SEMAPHORE) };
    check(fd)?;
    Ok((fd, fd))
}

fn socket_pair(ty: i32, size: i32) -> io::Result<(i32, i32)> {
    let mut fds = [0; 2];
    let (at, length) = ((&raw const size).cast(), size_of::<i32>() as u32);
    // SAFETY: `fds` has room for two descriptors, and the second call gets an open one.
    unsafe {
        check(libc::socketpair(libc::AF_UNIX, ty, 0, fds.as_mut_ptr()))?;
        libc::setsockopt(fds[1], libc::SOL_SOCKET, libc::SO_SNDBUF, at, length);
    }
    Ok((fds[0], fds[1]))
}

fn tcp(message: Option<u32>) -> io::Result<(i32, i32)> {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::IntoRawFd;
    if message.is_none() {
        return Err(io::Error::other(
            "messages of different lengths need boundaries, which TCP does not keep",
        ));
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let write = TcpStream::connect(listener.local_addr()?)?;
    let (read, _) = listener.accept()?;
    let (read, write) = (read.into_raw_fd(), write.into_raw_fd());
    for fd in [read, write] {
        // SAFETY: the descriptor is open. Clearing its flags keeps it open across exec.
        check(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) })?;
    }
    Ok((read, write))
}

/// Raises the limit on open files to two for each channel, and some more as a reserve.
pub fn allow_files(workload: &Workload) {
    let channels = workload
        .resources
        .iter()
        .filter(|resource| matches!(resource, Resource::Channel { .. }))
        .count();
    let wanted = 2 * channels as u64 + 64;
    // SAFETY: the pointer is valid for reading and writing.
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
