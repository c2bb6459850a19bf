// SPDX-License-Identifier: GPL-2.0-only
//! Reads the kernel's scheduler events through tracefs.
//!
//! A recording uses a tracefs instance of its own, so its buffers and settings do not affect other
//! users of tracefs. Dropping the recorder removes the instance. A recording needs neither
//! sched_ext nor BPF.

use input::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use trace::recording::{EVENTS, Recording, Ring};

const MOUNT_POINTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const PREFIX: &str = "windtunnel-";
/// Fill level, in percent, at which a buffer is read. Reading more often would disturb the recorded
/// machine.
const PERCENT: u32 = 50;
/// Maximum number of recorded bytes that are kept in memory.
const MAX_BYTES: usize = 1 << 30;

/// A recording in progress.
pub struct Recorder {
    folder: PathBuf,
    page: usize,
    /// The `trace_pipe_raw` files with their CPU numbers.
    pipes: Vec<(u32, File)>,
    ring: Ring,
}

/// A finished recording.
pub struct Recorded {
    pub recording: Recording,
    /// Number of events that the kernel dropped because a buffer was full.
    pub lost: u64,
}

impl Recorder {
    /// Starts recording with a buffer of `buffer_kib` KiB for each CPU.
    ///
    /// # Errors
    /// tracefs is missing, this process lacks the privilege, or this kernel lacks an event.
    pub fn start(buffer_kib: u64) -> Result<Recorder, Error> {
        let tracefs = mount_point()?;
        let instances = tracefs.join("instances");
        remove_orphans(&instances);
        let folder = instances.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| refused(&folder, &error))?;
        // From here on, dropping the recorder removes the directory of the instance.
        let mut recorder = Recorder {
            folder,
            page: 0,
            pipes: Vec::new(),
            ring: Ring::default(),
        };
        recorder.set_up(&tracefs, buffer_kib)?;
        Ok(recorder)
    }

    fn set_up(&mut self, tracefs: &Path, buffer_kib: u64) -> Result<(), Error> {
        let header = read(&tracefs.join("events/header_page"))?;
        self.page = page_size(&header).ok_or_else(|| Error::new("tracefs does not report the size of its pages"))?;
        self.ring = Ring::new(self.page);
        self.write("tracing_on", "0")?;
        // Workloads use the same clock for their own log.
        self.write("trace_clock", "mono")?;
        self.write("buffer_size_kb", &buffer_kib.to_string())?;
        // Older kernels lack this file and wake up readers earlier.
        let _ = self.write("buffer_percent", &PERCENT.to_string());
        for event in EVENTS {
            let format = read(&tracefs.join(format!("events/sched/{event}/format")))?;
            let described = self.ring.describe(event, &format);
            described.map_err(|damage| Error::new(damage.to_string()))?;
        }
        let per_cpu = self.folder.join("per_cpu");
        let listed = fs::read_dir(&per_cpu).map_err(|error| refused(&per_cpu, &error))?;
        for entry in listed.flatten() {
            let name = entry.file_name();
            let Some(cpu) = name.to_str().and_then(|name| name.strip_prefix("cpu")?.parse().ok()) else {
                continue;
            };
            let path = entry.path().join("trace_pipe_raw");
            let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
            self.pipes.push((cpu, opened.map_err(|error| refused(&path, &error))?));
        }
        self.pipes.sort_by_key(|&(cpu, _)| cpu);
        self.name_tasks();
        for event in EVENTS {
            self.write(&format!("events/sched/{event}/enable"), "1")?;
        }
        self.write("tracing_on", "1")
    }

    /// Records the names of all existing tasks, because later events may contain only the pids of
    /// these tasks.
    fn name_tasks(&mut self) {
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            for task in fs::read_dir(process.path().join("task"))
                .into_iter()
                .flatten()
                .flatten()
            {
                let Some(pid) = task.file_name().to_str().and_then(|name| name.parse().ok()) else {
                    continue;
                };
                let comm = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
                self.ring.name(pid, comm.trim_end());
            }
        }
    }

    /// Returns the files that become readable when the buffer of their CPU is half full.
    pub fn files(&self) -> Vec<RawFd> {
        self.pipes.iter().map(|(_, pipe)| pipe.as_raw_fd()).collect()
    }

    /// Reads the buffers that are at least half full. This function must be called often. It takes
    /// a few microseconds if there is nothing to read.
    ///
    /// # Errors
    /// A page of a buffer cannot be read, or the recording exceeds the memory limit.
    pub fn drain(&mut self) -> Result<(), Error> {
        let mut polled: Vec<libc::pollfd> = self
            .pipes
            .iter()
            .map(|(_, pipe)| libc::pollfd {
                fd: pipe.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        // SAFETY: the length is that of the array. The call does not wait.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 0) };
        if ready <= 0 {
            return Ok(());
        }
        for (index, polled) in polled.iter().enumerate() {
            if polled.revents & libc::POLLIN != 0 {
                self.read_pipe(index, false)?;
            }
        }
        if self.ring.bytes() > MAX_BYTES {
            return Err(Error::new(format!("more than {} MiB were recorded", MAX_BYTES >> 20))
                .hint("record for a shorter time (--for), or a machine with fewer events"));
        }
        Ok(())
    }

    /// Reads whole pages of a CPU's buffer. If `all` is set, reads to the end, which is safe only
    /// after tracing has stopped.
    fn read_pipe(&mut self, index: usize, all: bool) -> Result<(), Error> {
        let (cpu, pipe) = &mut self.pipes[index];
        let mut page = vec![0; self.page];
        loop {
            match pipe.read(&mut page) {
                Ok(length) if length == self.page => self.ring.take(*cpu, &page),
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::new(format!("trace_pipe_raw of CPU {cpu}: {error}"))),
            }
            // If a page is not nearly full, the kernel is still writing to it. Reading on would
            // race with these writes.
            let used = u16::from_le_bytes([page[8], page[9]]);
            if !all && usize::from(used) < self.page * 3 / 4 {
                break;
            }
        }
        Ok(())
    }

    /// Stops the recording and reads the remaining events.
    ///
    /// # Errors
    /// Nothing was recorded, or too many events were lost.
    pub fn stop(mut self) -> Result<Recorded, Error> {
        self.write("tracing_on", "0")?;
        for index in 0..self.pipes.len() {
            self.read_pipe(index, true)?;
        }
        let lost = self.pipes.iter().map(|&(cpu, _)| self.lost(cpu)).sum();
        let recording = self.ring.read().map_err(|error| {
            let mut message = error.message;
            if lost > 0 {
                message += &format!(" ({lost} events were lost)");
            }
            Error::new(message).hint("enlarge the buffers (--buffer) or record for a shorter time")
        })?;
        Ok(Recorded { recording, lost })
    }

    fn lost(&self, cpu: u32) -> u64 {
        let stats = fs::read_to_string(self.folder.join(format!("per_cpu/cpu{cpu}/stats"))).unwrap_or_default();
        let counts = stats.lines().filter_map(|line| line.split_once(": "));
        counts
            .filter(|(name, _)| ["overrun", "commit overrun", "dropped events"].contains(name))
            .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
            .sum()
    }

    fn write(&self, name: &str, value: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        fs::write(&path, value).map_err(|error| refused(&path, &error))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // An instance cannot be removed while one of its files is open.
        self.pipes.clear();
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Returns the directory where tracefs is mounted.
///
/// # Errors
/// tracefs is not mounted, or this user may not use it.
pub fn mount_point() -> Result<PathBuf, Error> {
    let mut paths = MOUNT_POINTS.iter().map(PathBuf::from);
    paths.find(|path| path.join("instances").is_dir()).ok_or_else(|| {
        Error::new("there is no tracefs that this user can read")
            .hint("run it as root; if it is not mounted: mount -t tracefs tracefs /sys/kernel/tracing")
    })
}

/// Removes tracefs instances that were left behind by killed processes.
fn remove_orphans(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Reads a tracefs file with a single system call. Some files return only their first part if they
/// are read in several parts.
fn read(path: &Path) -> Result<String, Error> {
    let mut bytes = vec![0; 1 << 16];
    let length = File::open(path).and_then(|mut file| file.read(&mut bytes));
    let length = length.map_err(|error| refused(path, &error))?;
    Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

fn refused(path: &Path, error: &std::io::Error) -> Error {
    let message = Error::new(format!("{}: {error}", path.display()));
    match error.kind() {
        ErrorKind::PermissionDenied => message.hint("run it as root: sudo windtunnel live record ..."),
        _ => message.hint("a kernel with CONFIG_TRACING and CONFIG_EVENT_TRACING is needed"),
    }
}

/// Parses the size in a line like "field: char data; offset:16; size:4080; signed:0;". The parts of
/// the line are separated by tabs.
fn page_size(header: &str) -> Option<usize> {
    let data = header.lines().find(|line| line.contains("char data;"))?;
    let number = |key: &str| {
        let (_, from) = data.split_once(key)?;
        from.split(';').next()?.parse::<usize>().ok()
    };
    number("offset:")?.checked_add(number("size:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_size_is_read_from_the_kernels_header() {
        let header = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        assert_eq!(page_size(header), Some(4096));
        assert_eq!(page_size("field: u64 timestamp;"), None);
    }
}
