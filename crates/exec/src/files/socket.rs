// SPDX-License-Identifier: GPL-2.0-only
//! Sockets. There is no network: a program can listen and connect to itself, and every other
//! connection is refused.

use kernel::Machine;

use super::FileKind;
use super::epoll::IN;
use crate::answer::{Reply, error};
use crate::program::Program;

/// Largest number of bytes of an address (struct sockaddr_storage).
const LARGEST: u64 = 128;
/// First port of sockets that let the system choose their port.
const FIRST_PORT: u16 = 32_768;
/// Largest number of connections that wait to be accepted.
const BACKLOG: usize = 128;

/// A socket that is not connected.
#[derive(Clone, Debug)]
pub(crate) struct Socket {
    /// Its address (struct sockaddr).
    address: Vec<u8>,
    listens: bool,
    /// The server's ends of connections that it has not accepted.
    pub waiting: Vec<FileKind>,
}

impl Socket {
    fn family(&self) -> i32 {
        i32::from(u16::from_le_bytes([self.address[0], self.address[1]]))
    }

    /// Returns whether a connection to an address reaches this socket. The host part of an address
    /// does not matter, because there is one host.
    fn is_at(&self, address: &[u8]) -> bool {
        let compared = match self.family() {
            libc::AF_UNIX => return name(&self.address) == name(address),
            _ => 0..4,
        };
        self.address.get(compared.clone()) == address.get(compared)
    }
}

/// Returns the name in the address of a Unix socket. An abstract name begins with a zero.
fn name(address: &[u8]) -> &[u8] {
    let path = address.get(2..).unwrap_or_default();
    match path.iter().skip(1).position(|&byte| byte == 0) {
        Some(end) if path[0] != 0 => &path[..=end],
        _ => path,
    }
}

/// Returns a new socket of an address family, or `None` if there is no such family.
pub(crate) fn create(family: i32) -> Option<FileKind> {
    let bytes = match family {
        libc::AF_UNIX => 2,
        libc::AF_INET => 16,
        libc::AF_INET6 => 28,
        _ => return None,
    };
    let mut address = vec![0; bytes];
    address[..2].copy_from_slice(&(family as u16).to_le_bytes());
    Some(FileKind::Socket(Socket {
        address,
        listens: false,
        waiting: Vec::new(),
    }))
}

impl Program {
    fn socket(&mut self, fd: i32) -> Result<&mut Socket, Reply> {
        match self.files.get_mut(fd).map(|open| &mut open.kind) {
            Some(FileKind::Socket(socket)) => Ok(socket),
            Some(FileKind::Pipe { .. }) => Err(error(libc::EISCONN)),
            Some(_) => Err(error(libc::ENOTSOCK)),
            None => Err(error(libc::EBADF)),
        }
    }

    /// Answers bind(2).
    pub fn bind(&mut self, fd: i32, addr: u64, len: u64) -> Reply {
        let Some(mut bytes) = self.host.memory.read(addr, len.min(LARGEST) as usize) else {
            return error(libc::EFAULT);
        };
        let socket = match self.socket(fd) {
            Ok(socket) => socket,
            Err(reply) => return reply,
        };
        if bytes.get(..2) != socket.address.get(..2) {
            return error(libc::EINVAL);
        }
        if socket.family() != libc::AF_UNIX && bytes.get(2..4) == Some(&[0, 0]) {
            let port = FIRST_PORT.wrapping_add(fd as u16);
            bytes[2..4].copy_from_slice(&port.to_be_bytes());
        }
        socket.address = bytes;
        Reply::Result(0)
    }

    /// Answers listen(2).
    pub fn listen(&mut self, fd: i32) -> Reply {
        match self.socket(fd) {
            Ok(socket) => {
                socket.listens = true;
                Reply::Result(0)
            }
            Err(reply) => reply,
        }
    }

    /// Answers connect(2). A connection is complete before the server accepts it.
    pub fn connect(&mut self, m: &mut Machine, fd: i32, addr: u64, len: u64) -> Reply {
        let Some(address) = self.host.memory.read(addr, len.min(LARGEST) as usize) else {
            return error(libc::EFAULT);
        };
        if let Err(reply) = self.socket(fd) {
            return reply;
        }
        let listens = |kind: &FileKind| matches!(kind, FileKind::Socket(socket) if socket.listens && socket.waiting.len() < BACKLOG && socket.is_at(&address));
        if !self.files.all_mut().any(|open| listens(&open.kind)) {
            return error(libc::ECONNREFUSED);
        }
        let [client, server] = self.files.connection();
        if let Some(open) = self.files.all_mut().find(|open| listens(&open.kind))
            && let FileKind::Socket(socket) = &mut open.kind
        {
            socket.waiting.push(server);
            open.events += 1;
        }
        if let Some(open) = self.files.get_mut(fd) {
            open.kind = client;
        }
        self.wake_ready(m);
        Reply::Result(0)
    }

    /// Answers accept(2) and accept4(2). The address of the client has no name.
    pub fn accept(&mut self, t: usize, args: [u64; 6], flags: i32) -> Reply {
        let [fd, addr, len, ..] = args;
        let nonblocking = self.files.get(fd as i32).is_some_and(|open| open.nonblocking);
        let socket = match self.socket(fd as i32) {
            Ok(socket) if socket.listens => socket,
            Ok(_) => return error(libc::EINVAL),
            Err(reply) => return reply,
        };
        if socket.waiting.is_empty() {
            return match nonblocking {
                true => error(libc::EAGAIN),
                false => self.wait_for_files(t, vec![(fd as i32, IN)], None),
            };
        }
        let server = socket.waiting.remove(0);
        let mut address = socket.address.clone();
        if socket.family() == libc::AF_UNIX {
            address.truncate(2);
        }
        if addr != 0
            && let Reply::Result(errno @ ..0) = self.put_address(&address, addr, len)
        {
            return Reply::Result(errno);
        }
        self.add(server, flags)
    }

    /// Answers shutdown(2).
    pub fn shutdown(&mut self, m: &mut Machine, fd: i32, how: i32) -> Reply {
        let Some(kind @ FileKind::Pipe { .. }) = self.files.get(fd).map(|open| open.kind.clone()) else {
            return error(libc::ENOTCONN);
        };
        let (reads, writes) = (how != libc::SHUT_WR, how != libc::SHUT_RD);
        self.files.close_ends(&kind, reads, writes);
        self.wake_ready(m);
        Reply::Result(0)
    }

    /// Answers getsockname(2). A connected socket has no name.
    pub fn socket_name(&mut self, fd: i32, addr: u64, len: u64) -> Reply {
        let address = match self.files.get(fd).map(|open| &open.kind) {
            Some(FileKind::Pipe { .. }) => (libc::AF_UNIX as u16).to_le_bytes().to_vec(),
            _ => match self.socket(fd) {
                Ok(socket) => socket.address.clone(),
                Err(reply) => return reply,
            },
        };
        self.put_address(&address, addr, len)
    }

    /// Writes an address and its length.
    fn put_address(&self, address: &[u8], addr: u64, len: u64) -> Reply {
        let Some(room) = self.host.memory.read_u32(len) else {
            return error(libc::EFAULT);
        };
        let copied = &address[..address.len().min(room as usize)];
        if !self.host.memory.write(len, &(address.len() as u32).to_le_bytes()) {
            return error(libc::EFAULT);
        }
        self.put(addr, copied, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unix_socket_is_found_by_its_path() {
        let Some(FileKind::Socket(mut socket)) = create(libc::AF_UNIX) else {
            panic!("a socket");
        };
        socket.address = [&[1, 0][..], b"/run/a"].concat();
        assert!(socket.is_at(&[&[1, 0][..], b"/run/a\0junk"].concat()));
        assert!(!socket.is_at(&[&[1, 0][..], b"/run/ab"].concat()));
        assert!(!socket.is_at(&[&[1, 0][..], b"\0/run/a"].concat()));
        assert!(create(libc::AF_NETLINK).is_none());
    }
}
