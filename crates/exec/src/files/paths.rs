// SPDX-License-Identifier: GPL-2.0-only
//! Which files exist for the program: those of the machine, and a few of the host.

use input::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use kernel::{Machine, native};

use super::setting::{self, Setting};
use super::tree::{Found, absolute};
use super::{Entry, FileKind};
use crate::program::Program;

/// Files of the host that a program may read: libraries, and data of the C library.
const READABLE: [&str; 8] = [
    "/lib/",
    "/lib64/",
    "/usr/lib/",
    "/usr/lib64/",
    "/usr/local/lib/",
    "/nix/store/",
    "/etc/ld.so.cache",
    "/usr/share/zoneinfo/",
];

/// The file at a path.
pub(crate) enum At {
    /// A file or directory that only the program knows.
    Own(FileKind),
    /// A file of the host that the program may read.
    Host(PathBuf),
    Missing,
}

/// Returns the files of the host that a program may read: its own file, and the files that its
/// command line names.
///
/// # Errors
/// There is no such program.
pub fn files(command: &[String]) -> Result<Vec<PathBuf>, Error> {
    let program = command.first().map(String::as_str).unwrap_or_default();
    let mut files = vec![find_program(program)?];
    files.extend(named_files(command));
    Ok(files)
}

/// Returns the absolute path of the program's file. A name without a slash is looked up in PATH.
///
/// # Errors
/// There is no such file.
pub(crate) fn find_program(command: &str) -> Result<PathBuf, Error> {
    let missing = || format!("there is no program {command:?}: give the path of the scheduler's program");
    let found = match command.contains('/') {
        true => Some(PathBuf::from(command)),
        false => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path)
                .map(|dir| dir.join(command))
                .find(|path| path.is_file())
        }
    };
    let found = found.filter(|path| path.is_file()).ok_or_else(missing)?;
    found.canonicalize().map_err(|error| Error::io(&found, &error))
}

/// Returns the files of the host that the words of a command line name, also after `=` or `:`.
pub(crate) fn named_files(command: &[String]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for word in &command[1..] {
        let rest = |at: char| word.split_once(at).map(|(_, rest)| rest);
        for name in [Some(word.as_str()), rest('='), rest(':')].into_iter().flatten() {
            let path = Path::new(name);
            if path.is_file()
                && let Ok(path) = path.canonicalize()
            {
                files.push(path);
            }
        }
    }
    files
}

/// Adds the files that change only when CPUs go online or offline.
pub(crate) fn fill(program: &mut Program, m: &Machine) {
    program.describe_cpus(m);
    let tree = &mut program.tree;
    let texts = [
        (
            "/proc/mounts",
            "proc /proc proc rw 0 0\nsysfs /sys sysfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n\
             debugfs /sys/kernel/debug debugfs rw 0 0\ntracefs /sys/kernel/tracing tracefs rw 0 0\n",
        ),
        ("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n"),
        ("/sys/fs/cgroup/cgroup.procs", ""),
        ("/sys/kernel/tracing/available_tracers", "nop\n"),
        (
            "/sys/kernel/tracing/available_events",
            "sched:sched_switch\nsched:sched_wakeup\n",
        ),
        ("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n"),
        ("/proc/sys/kernel/ftrace_enabled", "1\n"),
        ("/proc/sys/kernel/sched_schedstats", "0\n"),
        ("/proc/sys/kernel/pid_max", "4194304\n"),
        ("/proc/sys/net/core/bpf_jit_enable", "1\n"),
        ("/proc/cmdline", "quiet\n"),
        (
            "/proc/filesystems",
            "nodev\tsysfs\nnodev\tproc\nnodev\tcgroup2\nnodev\tbpf\n",
        ),
        ("/etc/passwd", "root:x:0:0:root:/:/bin/sh\n"),
        ("/var/run/empty", ""),
        ("/run/empty", ""),
        ("/tmp/empty", ""),
    ];
    for (path, text) in texts {
        tree.insert(path, text);
    }
    let total_kb = 64u64 << 20;
    let memory = format!(
        "MemTotal: {total_kb} kB\nMemFree: {} kB\nMemAvailable: {0} kB\n",
        total_kb / 2
    );
    tree.insert("/proc/meminfo", memory);
    let release = m.options().release;
    tree.insert("/proc/version", format!("Linux version {release}.0 (windtunnel)\n"));
    let config = kernel::target::config_file(m.spec(), release);
    tree.insert(format!("/boot/config-{release}.0"), config);
    let (types, symbols) = program.bpf.kernel_types(m);
    program.tree.insert("/sys/kernel/btf/vmlinux", types);
    program.tree.insert("/proc/kallsyms", symbols);
}

impl Program {
    /// Describes the CPUs that are online.
    fn describe_cpus(&mut self, m: &Machine) {
        self.hotplug_seq = m.ext().hotplug_seq;
        let online = native::online_cpus(m);
        self.tree.remove(machine::sysfs::DIR);
        for (path, text) in machine::sysfs::files(m.spec(), &online) {
            self.tree.insert(path, text);
        }
        let mut cpus = String::new();
        for cpu in online {
            let _ = write!(
                cpus,
                "processor\t: {cpu}\nvendor_id\t: windtunnel\ncpu MHz\t\t: 3000.000\n\n"
            );
        }
        self.tree.insert("/proc/cpuinfo", cpus);
    }

    /// Describes the CPUs anew if one has gone online or offline.
    pub fn follow_hotplug(&mut self, m: &Machine) {
        if self.hotplug_seq != m.ext().hotplug_seq {
            self.describe_cpus(m);
        }
    }

    /// Returns the absolute path that a call names, relative to the directory `dirfd`.
    pub fn path_at(&self, dirfd: i32, addr: u64) -> Option<String> {
        let path = self.host.memory.text(addr)?;
        if path.starts_with('/') {
            return Some(absolute(&path));
        }
        let base = match self.files.get(dirfd).map(|open| &open.kind) {
            Some(FileKind::Dir { path, .. }) if dirfd != libc::AT_FDCWD => path.clone(),
            _ => std::env::current_dir().unwrap_or_default().display().to_string(),
        };
        Some(absolute(&format!("{base}/{path}")))
    }

    /// Finds what is at an absolute path.
    pub fn find(&self, m: &Machine, path: &str) -> At {
        let own_pid = self.threads[0].pid;
        let path = match path
            .strip_prefix("/proc/self/")
            .or(path.strip_prefix("/proc/thread-self/"))
        {
            Some(rest) => format!("/proc/{own_pid}/{rest}"),
            None if path == "/proc/self" => format!("/proc/{own_pid}"),
            None => path.to_owned(),
        };
        if let Some(found) = self.special(m, &path) {
            return found;
        }
        match self.tree.find(&path) {
            Some(Found::File(bytes)) => return At::Own(file(bytes)),
            Some(Found::Dir) => return At::Own(self.dir(m, &path)),
            None => {}
        }
        let readable = |real: &Path| {
            let text = real.to_string_lossy();
            READABLE.iter().any(|prefix| text.starts_with(prefix))
                || real == self.path
                || self.named_files.iter().any(|named| named == real)
        };
        match Path::new(&path).canonicalize() {
            Ok(real) if real.is_file() && readable(&real) => At::Host(real),
            _ => At::Missing,
        }
    }

    /// Finds files whose contents change during a run.
    fn special(&self, m: &Machine, path: &str) -> Option<At> {
        let own = |text: String| Some(At::Own(file(text.as_bytes())));
        let core = m.ext();
        match path {
            "/dev/null" => return Some(At::Own(FileKind::Null)),
            "/dev/urandom" | "/dev/random" => return Some(At::Missing),
            "/proc" => return Some(At::Own(self.dir(m, path))),
            "/proc/stat" => return own(stat(m)),
            "/proc/loadavg" => return own("0.00 0.00 0.00 1/100 1\n".into()),
            "/proc/uptime" => {
                let hundredths = m.now / 10_000_000;
                return own(format!("{}.{:02} 0.00\n", hundredths / 100, hundredths % 100));
            }
            "/sys/kernel/sched_ext/state" => {
                let state = if core.state == kernel::ext::EnableState::Enabled {
                    "enabled"
                } else {
                    "disabled"
                };
                return own(format!("{state}\n"));
            }
            "/sys/kernel/sched_ext/enable_seq" => return own(format!("{}\n", core.enable_seq)),
            "/sys/kernel/sched_ext/hotplug_seq" => return own(format!("{}\n", core.hotplug_seq)),
            "/sys/kernel/sched_ext/switch_all" => return own(format!("{}\n", u8::from(core.has_policy()))),
            "/sys/kernel/sched_ext/nr_rejected" => return own("0\n".into()),
            "/sys/kernel/sched_ext/root/ops" => return own(format!("{}\n", core.ops().name())),
            _ => {}
        }
        if let Some(cpu) = latency_limit_of(path).filter(|&cpu| cpu < m.nr_cpus()) {
            return Some(At::Own(FileKind::Bytes {
                bytes: setting::latency_text(native::latency_limit(m, cpu)).into(),
                pos: 0,
                sets: Some(Setting::LatencyLimit(cpu)),
            }));
        }
        let (pid, rest) = path.strip_prefix("/proc/")?.split_once('/')?;
        let pid: u32 = pid.parse().ok()?;
        if rest == "exe" && self.thread(pid).is_some() {
            return Some(At::Host(self.path.clone()));
        }
        let Some(task) = m.task(pid) else {
            return Some(At::Missing);
        };
        let comm = task.comm();
        match rest {
            "comm" => own(format!("{comm}\n")),
            "cmdline" => own(format!("{comm}\0")),
            "cgroup" => own("0::/\n".into()),
            "stat" => own(format!("{pid} ({comm}) S 0 {pid} {pid} 0 -1 0{}\n", " 0".repeat(43))),
            "status" => own(format!(
                "Name:\t{comm}\nTgid:\t{0}\nPid:\t{pid}\nPPid:\t0\nUid:\t0\t0\t0\t0\nThreads:\t1\n",
                task.tgid()
            )),
            _ => Some(At::Missing),
        }
    }

    /// Returns a directory.
    fn dir(&self, m: &Machine, path: &str) -> FileKind {
        let mut entries: Vec<Entry> = self.tree.entries(path);
        if path == "/proc" {
            entries.extend(native::pids(m).into_iter().map(|pid| (pid.to_string(), true)));
            entries.push(("stat".into(), false));
            entries.push(("uptime".into(), false));
        }
        for own in [".", ".."] {
            entries.insert(0, (own.into(), true));
        }
        FileKind::Dir {
            entries,
            pos: 0,
            path: path.to_owned(),
        }
    }
}

fn file(bytes: &[u8]) -> FileKind {
    FileKind::Bytes {
        bytes: bytes.to_vec(),
        pos: 0,
        sets: None,
    }
}

/// Returns the number of the CPU whose PM QoS resume latency is the file at a path.
fn latency_limit_of(path: &str) -> Option<u32> {
    let rest = path.strip_prefix(machine::sysfs::DIR)?.strip_prefix("/cpu/cpu")?;
    rest.strip_suffix("/power/pm_qos_resume_latency_us")?.parse().ok()
}

/// Returns the text of /proc/stat: times in 1/100 s. Busy time counts as user time.
fn stat(m: &Machine) -> String {
    let online = native::online_cpus(m);
    let times: Vec<(u64, u64)> = (0..m.nr_cpus()).map(|cpu| native::cpu_times(m, cpu)).collect();
    let line = |name: &str, busy: u64, idle: u64| {
        format!("{name} {} 0 0 {} 0 0 0 0 0 0\n", busy / 10_000_000, idle / 10_000_000)
    };
    let sum = times.iter().fold((0, 0), |sum, time| (sum.0 + time.0, sum.1 + time.1));
    let mut text = line("cpu ", sum.0, sum.1);
    for cpu in online {
        let (busy, idle) = times[cpu as usize];
        text += &line(&format!("cpu{cpu}"), busy, idle);
    }
    text + "intr 0\nctxt 0\nbtime 1767225600\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"
}
