// SPDX-License-Identifier: GPL-2.0-only
//! The files of the program: its file descriptors, and what they refer to.
//!
//! Nearly all files exist only here. The exceptions are libraries and the files that the command
//! line names, which the program opens on the host, for reading only ([`FileKind::Host`]). Their
//! descriptors are below [`FIRST`], all others above.

pub(crate) mod epoll;
pub(crate) mod paths;
pub(crate) mod setting;
pub(crate) mod socket;
pub(crate) mod stat;
pub(crate) mod tree;

use std::collections::{BTreeMap, VecDeque};

/// First descriptor of files that the host does not know.
pub(crate) const FIRST: i32 = 200;
/// Largest number of descriptors.
const MOST: usize = 20_000;
/// Largest number of bytes in a pipe, and in a file in memory.
pub(crate) const PIPE_BYTES: usize = 64 << 10;
pub(crate) const FILE_BYTES: usize = 64 << 20;

/// An entry of a directory: its name, and whether it is a directory.
pub(crate) type Entry = (String, bool);

/// The kind of an open file, with its state.
#[derive(Clone, Debug)]
pub(crate) enum FileKind {
    /// A file of the host that is open for reading.
    Host,
    /// Standard input: an empty file.
    Null,
    /// Standard output or standard error.
    Output,
    /// A file with these contents, in memory, and the setting that a write makes.
    Bytes {
        bytes: Vec<u8>,
        pos: usize,
        sets: Option<setting::Setting>,
    },
    /// A directory.
    Dir {
        entries: Vec<Entry>,
        pos: usize,
        path: String,
    },
    /// An eventfd.
    Event {
        count: u64,
        semaphore: bool,
    },
    /// An end of a pipe or of a pair of sockets: the numbers of the buffers that it reads and writes.
    Pipe {
        read: Option<usize>,
        write: Option<usize>,
    },
    /// A timerfd: the time of its next expiry, and its period, ns.
    Timer {
        next: Option<u64>,
        period: u64,
    },
    Epoll(Vec<epoll::Interest>),
    /// A file on which nothing ever happens: a signalfd or inotify.
    Silent,
    /// A socket that is not connected. A connected one is a [`FileKind::Pipe`].
    Socket(socket::Socket),
    /// A map, program or link of BPF, by its number, or types.
    Map(usize),
    Prog(usize),
    Link(usize),
    /// The output of an iterator, by the number of its program, which runs at the first read.
    Iterator(usize),
    Btf,
}

/// An open file, to which several descriptors can refer.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub kind: FileKind,
    pub nonblocking: bool,
    /// Number of descriptors.
    refs: u32,
    /// Number of events that happened, for edge-triggered waits.
    pub events: u64,
}

/// The bytes in a pipe, or in one direction of a socket.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    pub bytes: VecDeque<u8>,
    /// Whether the end that writes, and the end that reads, is closed.
    pub no_writer: bool,
    pub no_reader: bool,
}

/// All open files.
#[derive(Default)]
pub(crate) struct Files {
    descriptors: BTreeMap<i32, usize>,
    open: Vec<Option<Open>>,
    /// Contents of pipes and sockets.
    pub pipes: Vec<Pipe>,
}

impl Files {
    /// Returns the files of a new program, with the three standard files.
    pub fn new() -> Files {
        let mut files = Files::default();
        for (fd, kind) in [(0, FileKind::Null), (1, FileKind::Output), (2, FileKind::Output)] {
            let at = files.store(kind);
            files.descriptors.insert(fd, at);
        }
        files
    }

    fn store(&mut self, kind: FileKind) -> usize {
        let open = Open {
            kind,
            nonblocking: false,
            refs: 1,
            events: 0,
        };
        let at = self.open.iter().position(Option::is_none).unwrap_or(self.open.len());
        if at == self.open.len() {
            self.open.push(None);
        }
        self.open[at] = Some(open);
        at
    }

    /// Opens a file. Returns its descriptor or a negative error number.
    pub fn add(&mut self, kind: FileKind) -> i64 {
        match self.free(FIRST) {
            Some(fd) => {
                let at = self.store(kind);
                self.descriptors.insert(fd, at);
                fd.into()
            }
            None => -i64::from(libc::EMFILE),
        }
    }

    /// Records a file that the host has opened with this descriptor.
    pub fn add_host(&mut self, fd: i32) {
        let at = self.store(FileKind::Host);
        self.descriptors.insert(fd, at);
    }

    /// Returns the first free descriptor that is not below `from`.
    fn free(&self, from: i32) -> Option<i32> {
        let mut fd = from.max(FIRST);
        for &taken in self.descriptors.range(fd..).map(|(fd, _)| fd) {
            if taken > fd {
                break;
            }
            fd = taken + 1;
        }
        (self.descriptors.len() < MOST).then_some(fd)
    }

    pub fn get(&self, fd: i32) -> Option<&Open> {
        self.open[*self.descriptors.get(&fd)?].as_ref()
    }

    pub fn get_mut(&mut self, fd: i32) -> Option<&mut Open> {
        self.open[*self.descriptors.get(&fd)?].as_mut()
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Open> {
        self.open.iter_mut().flatten()
    }

    /// Creates two pipes, and returns the ends of the connection that they form.
    pub fn connection(&mut self) -> [FileKind; 2] {
        let (first, second) = (self.pipes.len(), self.pipes.len() + 1);
        self.pipes.extend([Pipe::default(), Pipe::default()]);
        [(first, second), (second, first)].map(|(read, write)| FileKind::Pipe {
            read: Some(read),
            write: Some(write),
        })
    }

    /// Records that the ends of pipes in a file are closed: the one that reads, that writes, or both.
    pub fn close_ends(&mut self, kind: &FileKind, reads: bool, writes: bool) {
        let &FileKind::Pipe { read, write } = kind else { return };
        if let Some(at) = write.filter(|_| writes) {
            self.pipes[at].no_writer = true;
        }
        if let Some(at) = read.filter(|_| reads) {
            self.pipes[at].no_reader = true;
        }
        for open in self.all_mut() {
            if let FileKind::Pipe { read: other, .. } = open.kind
                && other.is_some()
                && other == write
            {
                open.events += 1;
            }
        }
    }

    /// Returns whether a descriptor belongs to a file of the host.
    pub fn is_host(&self, fd: i32) -> bool {
        self.get(fd).is_some_and(|open| matches!(open.kind, FileKind::Host))
    }

    /// Duplicates a descriptor, to the first free one from `from`, or to `exactly`. Returns the new
    /// descriptor or a negative error number, and the file that the new descriptor referred to
    /// before, if that was its last one.
    pub fn duplicate(&mut self, fd: i32, from: i32, exactly: Option<i32>) -> (i64, Option<FileKind>) {
        let Some(&at) = self.descriptors.get(&fd) else {
            return (-i64::from(libc::EBADF), None);
        };
        let to = match exactly {
            Some(to) if to == fd => return (fd.into(), None),
            Some(to) => Some(to),
            None => self.free(from),
        };
        let Some(to) = to.filter(|&to| to >= 0) else {
            return (-i64::from(libc::EMFILE), None);
        };
        let closed = self.close(to);
        if let Some(open) = &mut self.open[at] {
            open.refs += 1;
        }
        self.descriptors.insert(to, at);
        (to.into(), closed.flatten())
    }

    /// Closes a descriptor. Returns `None` if it is not open, and otherwise the file, if this was its
    /// last descriptor.
    pub fn close(&mut self, fd: i32) -> Option<Option<FileKind>> {
        let at = self.descriptors.remove(&fd)?;
        let open = self.open[at].as_mut()?;
        open.refs -= 1;
        if open.refs > 0 {
            return Some(None);
        }
        Some(self.open[at].take().map(|open| open.kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_descriptor_closes_a_file() {
        let mut files = Files::new();
        let fd = files.add(FileKind::Btf) as i32;
        assert_eq!(fd, FIRST);
        let (copy, closed) = files.duplicate(fd, 0, None);
        assert_eq!((copy, closed.is_none()), (201, true));
        assert!(matches!(files.close(fd), Some(None)));
        assert!(matches!(files.close(201), Some(Some(FileKind::Btf))));
        assert!(files.close(201).is_none());
        assert_eq!(
            files.add(FileKind::Silent),
            i64::from(FIRST),
            "the lowest free descriptor"
        );
    }

    #[test]
    fn a_duplicate_replaces_an_open_file() {
        let mut files = Files::new();
        let (a, b) = (files.add(FileKind::Btf) as i32, files.add(FileKind::Silent) as i32);
        let (to, closed) = files.duplicate(a, 0, Some(b));
        assert_eq!(to, i64::from(b));
        assert!(matches!(closed, Some(FileKind::Silent)));
        assert!(matches!(files.get(b).map(|open| &open.kind), Some(FileKind::Btf)));
    }
}
