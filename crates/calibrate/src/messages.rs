// SPDX-License-Identifier: GPL-2.0-only
//! Measures the costs of messages on each kind of channel (pipe, sockets, eventfd), and of futexes.
//!
//! One thread sends a message and receives it, so no thread waits or is woken. Sends and receives
//! are timed separately. Messages of two sizes are measured. The difference of their times is the
//! cost of the additional bytes.

use super::host::{Pairs, failed, least, pin};
use super::{Constant, ns, whole};
use input::error::Error;
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

const BATCHES: u32 = 20;
/// Number of messages in a batch.
const MESSAGES: u32 = 500;
/// Size of a large message in bytes. A pipe stores it in one page.
const LARGE: usize = 4096;
/// Number of messages in the queue of each stream if many messages are queued. A socket has room for
/// as many small messages with the default size of its buffer.
const QUEUED: u32 = 256;
/// Number of messages that TCP collects before it sends them as one segment.
const CORKED: u32 = 8;

pub(super) struct Messages {
    /// Constants of `[costs]`.
    pub constants: Vec<Constant>,
    /// Rows of `[costs.channel]`.
    pub channels: Vec<Constant>,
    /// Time to write one byte to a pipe and to read it, in ns.
    pub pipe_ns: f64,
}

/// Times of the send call and of the receive call for one message, in ns.
#[derive(Clone, Copy)]
struct Calls {
    send: f64,
    recv: f64,
}

/// The two ends of a channel, closed on drop.
struct Ends {
    read: OwnedFd,
    write: OwnedFd,
}

pub(super) fn measure_messages(pairs: &Pairs) -> Result<Messages, Error> {
    pin(pairs.first)?;
    let clock = least(BATCHES, || {
        (0..1000).for_each(|_| {
            std::hint::black_box(Instant::now());
        });
        1000
    });
    let (pipe, pipe_row) = row("pipe", &pipe()?, clock)?;
    let (stream, mut stream_row) = row("unix_stream", &socket_pair(libc::SOCK_STREAM)?, clock)?;
    let mut datagram = row("unix_datagram", &socket_pair(libc::SOCK_DGRAM)?, clock)?.1;
    if let Some(queued) = queued(stream)? {
        // Both kinds allocate one sk_buff for each message.
        for row in [&mut stream_row, &mut datagram] {
            row.value += &queued;
            row.source += "; alloc_ns, free_ns and cached: with up to 4096 messages in the queues of AF_UNIX streams";
        }
    }
    let (tcp, segment) = tcp(clock)?;
    let counter = eventfd()?;
    let eventfd = calls(&counter, 8, clock)?;
    let futex = Calls {
        send: futex(libc::FUTEX_WAKE),
        recv: futex(libc::FUTEX_WAIT),
    };
    Ok(Messages {
        pipe_ns: pipe.send + pipe.recv,
        constants: vec![
            ns(
                "user_lock",
                user_lock(),
                "measured: an atomic exchange, without the call of the C library",
            ),
            ns(
                "tcp_segment",
                segment,
                "measured: removing TCP_CORK from a connection to this host with data to send, minus the same without data",
            ),
        ],
        channels: vec![
            pipe_row,
            stream_row,
            datagram,
            tcp,
            constant(
                "futex",
                futex,
                0.0,
                "measured: FUTEX_WAKE without a waiter, and FUTEX_WAIT for a value that the futex does not have",
            ),
            constant("eventfd", eventfd, 0.0, "measured: a write and a read of one task"),
        ],
    })
}

/// Returns a row of `[costs.channel]`.
fn constant(name: &'static str, calls: Calls, byte: f64, source: &str) -> Constant {
    let (send, recv) = (whole(calls.send), whole(calls.recv));
    let mut value = format!("send_ns = {send}, recv_ns = {recv}");
    if byte > 0.0 {
        value += &format!(", byte_ps = {}", whole(byte * 1000.0));
    }
    Constant {
        name,
        value,
        source: source.to_owned(),
    }
}

/// Measures a channel with messages of two sizes. Returns the times for small messages, and the
/// channel's row of `[costs.channel]`.
fn row(name: &'static str, ends: &Ends, clock: f64) -> Result<(Calls, Constant), Error> {
    let small = calls(ends, 1, clock)?;
    let byte = per_byte(small, calls(ends, LARGE, clock)?);
    let source = format!("measured: sends and receives of one task, with 1 and {LARGE} bytes");
    Ok((small, constant(name, small, byte, &source)))
}

/// Returns the time of one copy of one byte, in ns. A message is copied twice: from the sender to
/// the kernel, and from the kernel to the receiver.
fn per_byte(small: Calls, large: Calls) -> f64 {
    let beyond = large.send + large.recv - small.send - small.recv;
    (beyond / 2.0 / (LARGE - 1) as f64).max(0.0)
}

/// Sends and receives messages of `bytes` bytes, one after the other. Returns the times of the
/// fastest batch. `clock` is the time of reading the clock, which is subtracted.
fn calls(ends: &Ends, bytes: usize, clock: f64) -> Result<Calls, Error> {
    let mut best = Calls {
        send: f64::INFINITY,
        recv: f64::INFINITY,
    };
    for _ in 0..BATCHES {
        let (mut send, mut recv) = (0, 0);
        for _ in 0..MESSAGES {
            let begun = Instant::now();
            put(&ends.write, bytes)?;
            let sent = Instant::now();
            take(&ends.read, bytes)?;
            recv += sent.elapsed().as_nanos();
            send += (sent - begun).as_nanos();
        }
        let mean = |sum: u128| (sum as f64 / f64::from(MESSAGES) - clock).max(0.0);
        best.send = best.send.min(mean(send));
        best.recv = best.recv.min(mean(recv));
    }
    Ok(best)
}

/// Measures how much more messages cost if many of them are queued, because the kernel's caches of
/// freed memory are then empty or full. Returns the values `alloc_ns`, `free_ns` and `cached` of the
/// row, or `None` if the messages do not cost more.
///
/// Streams get messages in turn, and are then emptied one by one, so that neighbours in memory are
/// in different queues, as in programs with many connections. Of n queued messages, n - `cached`
/// cost `alloc_ns` and `free_ns` more, so measurements with two different n yield all values.
fn queued(small: Calls) -> Result<Option<String>, Error> {
    const FEW: u32 = 4;
    const MANY: u32 = 16;
    let streams = (0..MANY)
        .map(|_| socket_pair(libc::SOCK_STREAM))
        .collect::<Result<Vec<_>, _>>()?;
    // Returns by how much sending and receiving takes longer than for single messages, in ns.
    let extra = |streams: &[Ends]| -> Result<Calls, Error> {
        let mut best = Calls {
            send: f64::INFINITY,
            recv: f64::INFINITY,
        };
        for _ in 0..BATCHES / 2 {
            let begun = Instant::now();
            for _ in 0..QUEUED {
                streams.iter().try_for_each(|stream| put(&stream.write, 1))?;
            }
            let sent = Instant::now();
            for stream in streams {
                (0..QUEUED).try_for_each(|_| take(&stream.read, 1))?;
            }
            best.recv = best.recv.min(sent.elapsed().as_nanos() as f64);
            best.send = best.send.min((sent - begun).as_nanos() as f64);
        }
        let messages = streams.len() as f64 * f64::from(QUEUED);
        Ok(Calls {
            send: best.send - messages * small.send,
            recv: best.recv - messages * small.recv,
        })
    };
    let (few, many) = (extra(&streams[..FEW as usize])?, extra(&streams)?);
    let both = |calls: Calls| calls.send + calls.recv;
    let more = (both(many) - both(few)) / f64::from((MANY - FEW) * QUEUED);
    if more < (small.send + small.recv) / 10.0 {
        return Ok(None);
    }
    let cached = (f64::from(FEW * QUEUED) - both(few) / more).clamp(0.0, f64::from(FEW * QUEUED));
    let uncached = f64::from(MANY * QUEUED) - cached;
    Ok(Some(format!(
        ", alloc_ns = {}, free_ns = {}, cached = {cached:.0}",
        whole(many.send / uncached),
        whole(many.recv / uncached)
    )))
}

/// Measures a TCP connection within the host. While the connection is corked, messages stay in the
/// sender's socket, so a send costs only the socket layer. Removing the cork sends the messages as
/// one segment. Returns the row, and the time of sending a segment in ns.
fn tcp(clock: f64) -> Result<(Constant, f64), Error> {
    let ends = connection()?;
    // Without data, removing the cork sends nothing, so this is the time of the system call alone.
    let call = uncork(&ends, 0, 0, clock)?.1;
    let (small, segment) = uncork(&ends, CORKED, 1, clock)?;
    let large = uncork(&ends, 2, LARGE, clock)?.0;
    let source = format!("measured: as unix_stream, with messages of 1 and {LARGE} bytes that TCP_CORK holds back");
    let row = constant("tcp", small, per_byte(small, large), &source);
    Ok((row, (segment - call).max(0.0)))
}

/// Sends `messages` messages of `bytes` bytes as one segment and receives them. Returns the times
/// of the send call and of the receive call for one message, and the time of removing the cork. All
/// three are the times of the fastest batch.
fn uncork(ends: &Ends, messages: u32, bytes: usize, clock: f64) -> Result<(Calls, f64), Error> {
    let mut best = (
        Calls {
            send: f64::INFINITY,
            recv: f64::INFINITY,
        },
        f64::INFINITY,
    );
    for _ in 0..BATCHES * 10 {
        set_cork(&ends.write, true)?;
        let begun = Instant::now();
        for _ in 0..messages {
            put(&ends.write, bytes)?;
        }
        let queued = Instant::now();
        set_cork(&ends.write, false)?;
        let sent = Instant::now();
        for _ in 0..messages {
            take(&ends.read, bytes)?;
        }
        let received = sent.elapsed();
        let mean = |time: std::time::Duration| (time.as_nanos() as f64 - clock) / f64::from(messages.max(1));
        best.0.send = best.0.send.min(mean(queued - begun).max(0.0));
        best.0.recv = best.0.recv.min(mean(received).max(0.0));
        best.1 = best.1.min((sent - queued).as_nanos() as f64 - clock);
    }
    Ok(best)
}

fn set_cork(socket: &OwnedFd, on: bool) -> Result<(), Error> {
    let value = libc::c_int::from(on);
    // SAFETY: the value has the given size.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CORK,
            (&raw const value).cast(),
            input::index(size_of::<libc::c_int>()),
        )
    };
    if status == 0 { Ok(()) } else { Err(failed("TCP_CORK")) }
}

fn put(fd: &OwnedFd, bytes: usize) -> Result<(), Error> {
    // An eventfd reads the first eight bytes as a number, which is 1.
    static MESSAGE: [u8; LARGE] = {
        let mut message = [0; LARGE];
        message[if cfg!(target_endian = "little") { 0 } else { 7 }] = 1;
        message
    };
    // SAFETY: the message has at least that many bytes.
    let count = unsafe { libc::write(fd.as_raw_fd(), MESSAGE.as_ptr().cast(), bytes) };
    if count == bytes.cast_signed() {
        Ok(())
    } else {
        Err(failed("write"))
    }
}

fn take(fd: &OwnedFd, bytes: usize) -> Result<(), Error> {
    // Without initial contents, because writing zeros to 4 KiB takes a quarter of the time of a
    // read.
    let mut buffer = [MaybeUninit::<u8>::uninit(); LARGE];
    let mut received = 0;
    while received < bytes {
        let rest = &mut buffer[received..bytes];
        // SAFETY: the call writes at most the length of `rest`. Nothing reads the bytes.
        match unsafe { libc::read(fd.as_raw_fd(), rest.as_mut_ptr().cast(), rest.len()) } {
            count @ 1.. => received += count.cast_unsigned(),
            _ => return Err(failed("read")),
        }
    }
    Ok(())
}

/// Returns the two descriptors that a system call with this `status` has stored. The returned
/// `Ends` owns them.
fn owned(call: &str, status: i32, [read, write]: [i32; 2]) -> Result<Ends, Error> {
    if status != 0 {
        return Err(failed(call));
    }
    // SAFETY: the call succeeded, so the descriptors are open, and no other object owns them.
    unsafe {
        Ok(Ends {
            read: OwnedFd::from_raw_fd(read),
            write: OwnedFd::from_raw_fd(write),
        })
    }
}

fn pipe() -> Result<Ends, Error> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for two descriptors.
    let status = unsafe { libc::pipe(fds.as_mut_ptr()) };
    owned("pipe", status, fds)
}

fn socket_pair(ty: i32) -> Result<Ends, Error> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for two descriptors.
    let status = unsafe { libc::socketpair(libc::AF_UNIX, ty, 0, fds.as_mut_ptr()) };
    owned("socketpair", status, fds)
}

fn eventfd() -> Result<Ends, Error> {
    // SAFETY: eventfd has no preconditions, and dup gets a descriptor.
    let fds = unsafe {
        let fd = libc::eventfd(0, 0);
        [fd, libc::dup(fd)]
    };
    owned("eventfd", i32::from(fds.contains(&-1)), fds)
}

fn connection() -> Result<Ends, Error> {
    let error = |error: std::io::Error| Error::new(format!("a TCP connection to this host: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(error)?;
    let write = TcpStream::connect(listener.local_addr().map_err(error)?).map_err(error)?;
    let (read, _) = listener.accept().map_err(error)?;
    Ok(Ends {
        read: read.into(),
        write: write.into(),
    })
}

/// Returns the time of a futex call that neither waits nor wakes, in ns.
fn futex(operation: i32) -> f64 {
    let word = 0_u32;
    least(BATCHES, || {
        // SAFETY: the word is valid. It is 0, so a wait for the value 1 returns at once.
        (0..10_000).for_each(|_| unsafe {
            libc::syscall(
                libc::SYS_futex,
                &raw const word,
                operation,
                1,
                std::ptr::null::<libc::timespec>(),
            );
        });
        10_000
    })
}

/// Returns the time of an atomic exchange in ns. A mutex is acquired or released with one such
/// exchange. The mutex of the C library is not measured, because it uses no atomic instructions in
/// a process with one thread.
fn user_lock() -> f64 {
    let word = AtomicU32::new(0);
    least(BATCHES, || {
        (0..10_000).for_each(|_| {
            std::hint::black_box(word.swap(1, Ordering::SeqCst));
            std::hint::black_box(word.swap(0, Ordering::SeqCst));
        });
        20_000
    })
}
