// SPDX-License-Identifier: GPL-2.0-only
//! Which files are ready, and which of them an epoll reports.

use super::{FileKind, Files, PIPE_BYTES};
use std::os::fd::RawFd;
use std::os::unix::fs::FileExt;

pub(crate) const IN: u32 = libc::EPOLLIN as u32;
pub(crate) const OUT: u32 = libc::EPOLLOUT as u32;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;
const EDGE: u32 = libc::EPOLLET as u32;

/// A file that an epoll watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub fd: i32,
    pub events: u32,
    pub data: u64,
    /// Number of the file's events when the file was last reported.
    pub reported: Option<u64>,
}

/// Positions in the ring buffers that the program shares, to find out whether they have records.
pub(crate) struct Rings<'a> {
    pub file: &'a std::fs::File,
    /// For each map, the offset of its ring buffer in the file and whether user space writes to it.
    pub offsets: &'a [Option<(u64, bool)>],
}

impl Rings<'_> {
    fn ready(&self, map: usize) -> u32 {
        let Some(&Some((offset, from_user))) = self.offsets.get(map) else {
            return 0;
        };
        let word = |at: u64| {
            let mut bytes = [0; 8];
            let read = self.file.read_exact_at(&mut bytes, at);
            read.map_or(0, |()| u64::from_le_bytes(bytes))
        };
        let left = word(offset + bpf::memory::PAGE).wrapping_sub(word(offset));
        match from_user {
            true => OUT,
            false if left > 0 => IN,
            false => 0,
        }
    }
}

impl Files {
    /// Returns the events for which a file is ready at the time `now`, with a depth limit for epolls
    /// that watch epolls.
    pub fn ready(&self, fd: i32, now: u64, rings: &Rings, depth: u32) -> u32 {
        let Some(open) = self.get(fd) else {
            return libc::EPOLLERR as u32;
        };
        let when = |yes: bool, events: u32| if yes { events } else { 0 };
        match &open.kind {
            FileKind::Host | FileKind::Null | FileKind::Bytes { .. } | FileKind::Dir { .. } => IN,
            FileKind::Output => OUT,
            FileKind::Event { count, .. } => OUT | when(*count > 0, IN),
            FileKind::Pipe { read, write } => {
                let full = |at: usize| self.pipes[at].bytes.len() >= PIPE_BYTES && !self.pipes[at].no_reader;
                let readable = |at: usize| !self.pipes[at].bytes.is_empty() || self.pipes[at].no_writer;
                when(read.is_some_and(readable), IN) | when(write.is_some_and(|at| !full(at)), OUT)
            }
            FileKind::Timer { next, .. } => when(next.is_some_and(|at| at <= now), IN),
            FileKind::Epoll(interests) if depth > 0 => {
                let any = interests
                    .iter()
                    .any(|interest| self.reports(interest, now, rings, depth - 1) != 0);
                when(any, IN)
            }
            FileKind::Map(map) => rings.ready(*map),
            FileKind::Socket(socket) => when(!socket.waiting.is_empty(), IN),
            FileKind::Epoll(_)
            | FileKind::Silent
            | FileKind::Prog(_)
            | FileKind::Link(_)
            | FileKind::Iterator(_)
            | FileKind::Btf => 0,
        }
    }

    /// Returns the events that an epoll reports for one of its files.
    pub fn reports(&self, interest: &Interest, now: u64, rings: &Rings, depth: u32) -> u32 {
        let events = self.ready(interest.fd, now, rings, depth) & interest.events & (IN | OUT);
        let happened = self.get(interest.fd).map_or(0, |open| open.events);
        let seen = interest.events & (EDGE | ONESHOT) != 0 && interest.reported == Some(happened);
        if seen { 0 } else { events }
    }

    /// Returns the time at which the next timer among the watched files expires.
    pub fn next_timer(&self, fds: impl Iterator<Item = RawFd>) -> Option<u64> {
        let at = |fd: RawFd| match &self.get(fd)?.kind {
            FileKind::Timer { next, .. } => *next,
            FileKind::Epoll(interests) => interests
                .iter()
                .filter_map(|interest| match self.get(interest.fd)?.kind {
                    FileKind::Timer { next, .. } => next,
                    _ => None,
                })
                .min(),
            _ => None,
        };
        fds.filter_map(at).min()
    }
}
