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
        let (read, write) = match kind {
            Channel::Pipe => pipe(message, capacity.clamp(4096, 1 << 20) as i32)?,
            Channel::Socket => socket(message, (capacity, largest(workload, id)))?,
            Channel::Datagram => socket_pair(libc::SOCK_DGRAM, (capacity, largest(workload, id)))?,
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

/// Returns the lengths in bytes of the messages that are sent to a channel.
fn lengths(workload: &Workload, id: u32) -> impl Iterator<Item = u32> {
    let ops = workload.programs.iter().flat_map(|program| &program.ops);
    ops.filter_map(move |op| match op {
        Op::Send { channel, bytes } if *channel == id => Some(*bytes),
        _ => None,
    })
}

/// Returns the length in bytes of the channel's longest message, at least 1.
fn largest(workload: &Workload, id: u32) -> u32 {
    lengths(workload, id).max().unwrap_or(1).max(1)
}

/// Returns the length in bytes of the channel's messages, if all of them have the same length.
fn uniform(workload: &Workload, id: u32) -> Option<u32> {
    let mut sizes = lengths(workload, id);
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

fn socket(message: Option<u32>, room: (u64, u32)) -> io::Result<(i32, i32)> {
    match message {
        None => socket_pair(libc::SOCK_SEQPACKET, room),
        Some(_) => socket_pair(libc::SOCK_STREAM, room),
    }
}

fn eventfd() -> io::Result<(i32, i32)> {
    // SAFETY: eventfd has no preconditions.
    let fd = unsafe { libc::eventfd(0, libc::EFD_SEMAPHORE) };
    check(fd)?;
    Ok((fd, fd))
}

/// Opens a socket pair. `room` has two parts: the capacity of the channel and the length of a
/// message, both in bytes of data.
fn socket_pair(ty: i32, room: (u64, u32)) -> io::Result<(i32, i32)> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for two descriptors.
    check(unsafe { libc::socketpair(libc::AF_UNIX, ty, 0, fds.as_mut_ptr()) })?;
    let [read, write] = fds;
    // SO_SNDBUF limits the memory of the messages, which is much more than their data. The kernel
    // doubles the value.
    let (capacity, bytes) = room;
    let messages = (capacity / u64::from(bytes)).max(1);
    let memory = messages.saturating_mul(message_memory(read, write, bytes)?);
    let value = memory.div_ceil(2).min(i32::MAX as u64) as i32;
    let (at, length) = ((&raw const value).cast(), size_of::<i32>() as u32);
    // SAFETY: `value` has the given length. Only a privileged process may exceed
    // net.core.wmem_max, which limits SO_SNDBUF.
    unsafe {
        if libc::setsockopt(write, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, at, length) != 0 {
            libc::setsockopt(write, libc::SOL_SOCKET, libc::SO_SNDBUF, at, length);
        }
    }
    Ok((read, write))
}

/// Returns the memory in bytes that a message occupies in the send buffer of an empty socket pair,
/// including the kernel's data about it (skb->truesize). This depends on the kernel's release. The
/// memory of a long message is computed from a part of it, which fits into every send buffer.
fn message_memory(read: i32, write: i32, bytes: u32) -> io::Result<u64> {
    let part = bytes.min(4096);
    let mut buffer = vec![0_u8; part as usize];
    let mut memory: libc::c_int = 0;
    // SAFETY: the buffer has `part` bytes, and TIOCOUTQ stores one integer.
    unsafe {
        check(libc::write(write, buffer.as_ptr().cast(), buffer.len()) as i32)?;
        check(libc::ioctl(write, libc::TIOCOUTQ, &raw mut memory))?;
        check(libc::read(read, buffer.as_mut_ptr().cast(), buffer.len()) as i32)?;
    }
    let memory = u64::from(memory.cast_unsigned().max(part));
    Ok(memory * u64::from(bytes.div_ceil(part)))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many messages of `bytes` fit into a new socket pair for `capacity` bytes.
    fn room(ty: i32, capacity: u64, bytes: u32) -> u64 {
        let (read, write) = socket_pair(ty, (capacity, bytes)).expect("a socket pair must open");
        let message = vec![0_u8; bytes as usize];
        let send = || {
            // SAFETY: the message has that many bytes.
            unsafe { libc::send(write, message.as_ptr().cast(), message.len(), libc::MSG_DONTWAIT) }
        };
        let fitting = (0..10_000).take_while(|_| send() == bytes as isize).count() as u64;
        // SAFETY: the descriptors are open, and nothing uses them afterwards.
        unsafe {
            libc::close(read);
            libc::close(write);
        }
        fitting
    }

    #[test]
    fn a_socket_has_room_for_its_capacity_of_messages() {
        for (bytes, messages) in [(100, 277), (100, 40), (1, 100), (1000, 50)] {
            let capacity = u64::from(bytes) * messages;
            assert_eq!(
                room(libc::SOCK_STREAM, capacity, bytes),
                messages,
                "messages of {bytes} bytes"
            );
        }
        // The memory of a long message is an estimate.
        let fitting = room(libc::SOCK_STREAM, 200_000, 20_000);
        assert!((10..=15).contains(&fitting), "{fitting} messages of 20000 bytes");
    }
}
