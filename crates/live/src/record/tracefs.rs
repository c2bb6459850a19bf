// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's scheduler events through tracefs: an instance of its own, with buffers and settings that nobody else sees, which
//! is gone when this is dropped. Needs neither sched_ext nor BPF.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use trace::recording::{EVENTS, Recording, Ring};
use windtunnel::error::Error;

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const NAME: &str = "windtunnel-";
/// Read when so much of a buffer is full: reading more often would disturb what is recorded.
const PERCENT: u32 = 50;
/// What is kept in memory at most.
const MOST: usize = 1 << 30;

/// Events that are being recorded.
pub struct Recorder {
    folder: PathBuf,
    page: usize,
    /// By CPU.
    pipes: Vec<(u32, File)>,
    ring: Ring,
}

/// What has been recorded.
pub struct Recorded {
    pub recording: Recording,
    /// Events that the kernel had no room for.
    pub lost: u64,
}

impl Recorder {
    /// Starts, with buffers of so many KiB for each CPU.
    ///
    /// # Errors
    /// No tracefs, no privilege, or events that this kernel does not have.
    pub fn start(buffer_kib: u64) -> Result<Recorder, Error> {
        let tracefs = place()?;
        let instances = tracefs.join("instances");
        remove_orphans(&instances);
        let folder = instances.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| refused(&folder, &error))?;
        // From here on dropping it removes the folder.
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
        self.page = page_size(&header).ok_or_else(|| Error::new("tracefs does not tell how long its pages are"))?;
        self.ring = Ring::new(self.page);
        self.write("tracing_on", "0")?;
        // The clock of what workloads log themselves.
        self.write("trace_clock", "mono")?;
        self.write("buffer_size_kb", &buffer_kib.to_string())?;
        // Older kernels do not have it: they wake readers early.
        let _ = self.write("buffer_percent", &PERCENT.to_string());
        for event in EVENTS {
            let format = read(&tracefs.join(format!("events/sched/{event}/format")))?;
            self.ring.describe(event, &format).map_err(Error::new)?;
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

    /// Who is there already: what is met by its pid alone gets its name here.
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

    /// Takes what is there if a buffer is half full. Call it often; it takes a few microseconds if there is nothing to do.
    ///
    /// # Errors
    /// If the kernel's pages cannot be read, or there is more than memory should hold.
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
        // SAFETY: as many as there are; it does not wait.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 0) };
        if ready <= 0 {
            return Ok(());
        }
        for (index, polled) in polled.iter().enumerate() {
            if polled.revents & libc::POLLIN != 0 {
                self.read_pipe(index, false)?;
            }
        }
        if self.ring.bytes() > MOST {
            return Err(Error::new(format!("more than {} MiB were recorded", MOST >> 20))
                .hint("record shorter (--for), or less busy machines"));
        }
        Ok(())
    }

    /// Reads whole pages, of a CPU that may go on writing; `all`: of one that does not, to the end.
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
            // The page that is being written now: reading on would be a race with the writer.
            let used = u16::from_le_bytes([page[8], page[9]]);
            if !all && usize::from(used) < self.page * 3 / 4 {
                break;
            }
        }
        Ok(())
    }

    /// Ends the recording and reads what is left.
    ///
    /// # Errors
    /// If nothing was recorded, or too much was lost.
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
            Error::new(message).hint("larger buffers (--buffer), or a shorter recording")
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
        // An instance with open files cannot be removed.
        self.pipes.clear();
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Where tracefs is mounted.
///
/// # Errors
/// Nowhere, or no instance can be made.
pub fn place() -> Result<PathBuf, Error> {
    let mut places = PLACES.iter().map(PathBuf::from);
    places.find(|place| place.join("instances").is_dir()).ok_or_else(|| {
        Error::new("there is no tracefs that this user can read")
            .hint("run it as root; if it is not mounted: mount -t tracefs tracefs /sys/kernel/tracing")
    })
}

/// Those whose process is gone: it was killed.
fn remove_orphans(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(NAME));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// A file of tracefs', in one piece: of some the kernel gives the first piece only.
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

/// From "field: char data; offset:16; size:4080; signed:0;", with tabs for blanks.
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
    fn pages_are_as_long_as_the_kernel_says() {
        let header = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        assert_eq!(page_size(header), Some(4096));
        assert_eq!(page_size("field: u64 timestamp;"), None);
    }
}
