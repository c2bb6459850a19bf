// SPDX-License-Identifier: GPL-2.0-only
//! Answers the system calls of the program, or passes them to the subject that they belong to.
//!
//! docs/exec.md has the table of these calls. A call that is not listed here is refused: it ends the
//! run with an error that names it.

use kernel::Machine;

use crate::files::FileKind;
use crate::host::HostError;
use crate::program::{Deferred, Program};
use crate::wait::Wait;

/// The result of a system call, or the reason why it has none yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It is complete, with this result.
    Result(i64),
    /// The thread has already continued.
    Resumed,
    /// The thread waits, at the latest until this time in ns.
    Wait(Option<u64>),
    /// The thread gives up the CPU.
    Yield,
    /// The thread exits.
    Exit,
    /// The run ends, because the program cannot continue.
    Fail(String),
}

impl From<HostError> for Reply {
    fn from(error: HostError) -> Reply {
        Reply::Fail(error.to_string())
    }
}

/// Returns the reply with an error number.
pub(crate) fn error(errno: i32) -> Reply {
    Reply::Result(-i64::from(errno))
}

/// Names of the calls that are answered or refused by name, and of frequent unknown ones.
macro_rules! names {
    ($($name:ident)*) => {
        /// Returns the name of a system call, or its number if it has none here.
        pub(crate) fn name(nr: i64) -> String {
            $(if nr == libc::$name {
                return stringify!($name).trim_start_matches("SYS_").to_owned();
            })*
            format!("call {nr}")
        }
    };
}

names! {
    SYS_read SYS_write SYS_readv SYS_writev SYS_pread64 SYS_pwrite64 SYS_open SYS_openat SYS_close SYS_stat
    SYS_fstat SYS_lstat SYS_newfstatat SYS_statx SYS_lseek SYS_getdents64 SYS_access SYS_faccessat
    SYS_faccessat2 SYS_readlink SYS_readlinkat SYS_ioctl SYS_fcntl SYS_dup SYS_dup2 SYS_dup3 SYS_pipe
    SYS_pipe2 SYS_poll SYS_ppoll SYS_select SYS_pselect6 SYS_epoll_create SYS_epoll_create1 SYS_epoll_ctl
    SYS_epoll_wait SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd SYS_eventfd2 SYS_timerfd_create
    SYS_timerfd_settime SYS_timerfd_gettime SYS_signalfd4 SYS_memfd_create SYS_mmap SYS_munmap SYS_mprotect
    SYS_mremap SYS_madvise SYS_brk SYS_mlock SYS_munlock SYS_mlockall SYS_bpf SYS_perf_event_open SYS_futex
    SYS_clone SYS_clone3 SYS_fork SYS_vfork SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_nanosleep
    SYS_clock_nanosleep SYS_clock_gettime SYS_clock_getres SYS_gettimeofday SYS_time SYS_getrandom
    SYS_sched_yield SYS_sched_getaffinity SYS_sched_setaffinity SYS_sched_setscheduler SYS_sched_setattr
    SYS_sched_getattr SYS_sched_getscheduler SYS_sched_getparam SYS_sched_setparam SYS_setpriority
    SYS_sched_get_priority_max SYS_sched_get_priority_min
    SYS_getpriority SYS_getcpu SYS_prctl SYS_arch_prctl SYS_prlimit64 SYS_getrlimit SYS_setrlimit
    SYS_getrusage SYS_sysinfo SYS_uname SYS_getpid SYS_gettid SYS_getppid SYS_getuid SYS_geteuid SYS_getgid
    SYS_getegid SYS_set_tid_address SYS_set_robust_list SYS_rseq SYS_rt_sigaction SYS_rt_sigprocmask
    SYS_sigaltstack SYS_tgkill SYS_kill SYS_membarrier SYS_socket SYS_socketpair SYS_bind SYS_listen
    SYS_accept SYS_accept4 SYS_connect SYS_sendto SYS_recvfrom SYS_sendmsg SYS_recvmsg SYS_getsockname
    SYS_setsockopt SYS_getsockopt SYS_shutdown SYS_mkdir SYS_mkdirat SYS_rmdir SYS_unlink SYS_unlinkat
    SYS_rename SYS_chmod SYS_fchmod SYS_fchmodat SYS_chown SYS_fchown SYS_fchownat SYS_statfs SYS_fstatfs
    SYS_getcwd SYS_chdir SYS_umask SYS_inotify_init1 SYS_inotify_add_watch SYS_ptrace SYS_mount SYS_umount2
    SYS_init_module SYS_finit_module SYS_reboot SYS_setuid SYS_setgid SYS_capget SYS_capset SYS_seccomp
    SYS_process_vm_readv SYS_process_vm_writev SYS_io_uring_setup SYS_userfaultfd SYS_unshare SYS_setns
    SYS_pidfd_open SYS_getpgid SYS_setsid SYS_ftruncate SYS_fallocate SYS_fsync SYS_flock SYS_sync
}

impl Program {
    /// Writes bytes of a result, and returns `result`, or an error if the address is bad.
    pub fn put(&self, addr: u64, bytes: &[u8], result: i64) -> Reply {
        match self.host.memory.write(addr, bytes) {
            true => Reply::Result(result),
            false => error(libc::EFAULT),
        }
    }

    /// Refuses a call, which ends the run.
    pub fn refuse(&self, call: &str, why: &str) -> Reply {
        Reply::Fail(format!(
            "{why} ({call}); docs/exec.md lists what a program may do on a simulated machine"
        ))
    }

    /// Lets a call fail with EPERM. A program may be able to do without, for example if it starts
    /// another program only to print a checksum.
    pub fn deny(&mut self, call: &str) -> Reply {
        let mut report = self.report.borrow_mut();
        let count = report.refused.entry(call.to_owned()).or_insert(0);
        *count += 1;
        if *count == 1 {
            let warning = format!("the program's system call {call} failed, because it cannot have other processes");
            report.warnings.push(warning);
        }
        error(libc::EPERM)
    }

    /// Answers the call that a thread makes.
    pub fn answer(&mut self, m: &mut Machine, t: usize) -> Reply {
        let call = self.threads[t].call;
        let args = call.args;
        let pid = self.threads[t].pid;
        match call.nr {
            // A new thread begins.
            -1 => {
                self.resume(m, t);
                Reply::Resumed
            }
            libc::SYS_bpf => self.bpf_call(m, t, args),
            libc::SYS_futex => self.futex(m, t, args),
            libc::SYS_sched_yield if self.threads[t].yielded => Reply::Result(0),
            libc::SYS_sched_yield => {
                self.threads[t].yielded = true;
                Reply::Yield
            }

            // Memory.
            libc::SYS_mmap => self.mmap(t, call),
            libc::SYS_munmap
            | libc::SYS_mprotect
            | libc::SYS_mremap
            | libc::SYS_madvise
            | libc::SYS_brk
            | libc::SYS_arch_prctl => self.pass(t, call),
            libc::SYS_mlock | libc::SYS_munlock | libc::SYS_mlockall | libc::SYS_munlockall => Reply::Result(0),

            // Time.
            libc::SYS_clock_gettime => match self.clock(m, args[0]) {
                Some(ns) => self.put_time(args[1], ns),
                None => error(libc::EINVAL),
            },
            libc::SYS_clock_getres if args[1] == 0 => Reply::Result(0),
            libc::SYS_clock_getres => self.put_time(args[1], 1),
            libc::SYS_gettimeofday => {
                let ns = self.clock(m, libc::CLOCK_REALTIME as u64).unwrap_or(0);
                let words = [ns / 1_000_000_000, ns % 1_000_000_000 / 1000];
                self.put(args[0], &words.map(u64::to_le_bytes).concat(), 0)
            }
            libc::SYS_time => Reply::Result((self.clock(m, 0).unwrap_or(0) / 1_000_000_000).cast_signed()),
            libc::SYS_nanosleep => match self.read_time(args[0]) {
                Some(Ok(ns)) => self.sleep(m, t, |now| now + ns),
                Some(Err(reply)) => reply,
                None => error(libc::EFAULT),
            },
            libc::SYS_clock_nanosleep => match self.read_time(args[2]) {
                Some(Ok(ns)) if args[1] as i32 & libc::TIMER_ABSTIME != 0 => {
                    self.sleep(m, t, |_| Program::from_clock(args[0], ns))
                }
                Some(Ok(ns)) => self.sleep(m, t, |now| now + ns),
                Some(Err(reply)) => reply,
                None => error(libc::EFAULT),
            },
            libc::SYS_epoll_wait | libc::SYS_epoll_pwait => {
                let timeout = milliseconds(args[3]);
                self.epoll_wait(m, t, args, timeout)
            }
            libc::SYS_epoll_pwait2 => match self.read_time(args[3]) {
                Some(Err(reply)) => reply,
                timeout => self.epoll_wait(m, t, args, timeout.and_then(Result::ok)),
            },
            libc::SYS_epoll_ctl => self.epoll_ctl(args),
            libc::SYS_epoll_create | libc::SYS_epoll_create1 => {
                Reply::Result(self.files.add(FileKind::Epoll(Vec::new())))
            }
            libc::SYS_poll => self.poll(m, t, args[0], args[1], milliseconds(args[2])),
            libc::SYS_ppoll => match self.read_time(args[2]) {
                Some(Err(reply)) => reply,
                timeout => self.poll(m, t, args[0], args[1], timeout.and_then(Result::ok)),
            },

            // Threads and scheduling.
            libc::SYS_clone => self.clone_thread(m, t, args),
            libc::SYS_exit => self.exit_thread(m, t),
            libc::SYS_exit_group => self.exit_group(m, args[0] as i32),
            libc::SYS_tgkill | libc::SYS_kill | libc::SYS_tkill => self.kill(call.nr, args),
            libc::SYS_set_tid_address => {
                self.threads[t].clear_tid = args[0];
                Reply::Result(pid.into())
            }
            libc::SYS_gettid => Reply::Result(pid.into()),
            libc::SYS_getpid | libc::SYS_getpgrp | libc::SYS_getpgid | libc::SYS_getsid | libc::SYS_setsid => {
                Reply::Result(self.threads[0].pid.into())
            }
            libc::SYS_getppid => Reply::Result(0),
            libc::SYS_getuid | libc::SYS_geteuid | libc::SYS_getgid | libc::SYS_getegid => Reply::Result(0),
            libc::SYS_getcpu => {
                let cpu = kernel::native::this_cpu(m);
                let node = m.spec().topology.cpus[cpu as usize].node;
                for (addr, value) in [(args[0], cpu), (args[1], node)] {
                    if addr != 0 {
                        self.host.memory.write(addr, &value.to_le_bytes());
                    }
                }
                Reply::Result(0)
            }
            libc::SYS_sched_getaffinity => {
                let of = if args[0] == 0 { pid } else { args[0] as u32 };
                self.get_affinity(m, of, args[1], args[2])
            }
            libc::SYS_sched_setaffinity => match self.read_mask(args[2], args[1]) {
                None => error(libc::EFAULT),
                Some(cpus) if cpus.iter().all(|&cpu| cpu >= m.nr_cpus()) => error(libc::EINVAL),
                Some(cpus) => {
                    let pid = if args[0] == 0 { pid } else { args[0] as u32 };
                    self.defer(m, Deferred::Affinity { pid, cpus });
                    Reply::Result(0)
                }
            },
            libc::SYS_sched_setscheduler => self.set_scheduler(m, pid, args),
            libc::SYS_sched_getscheduler | libc::SYS_getpriority => {
                Reply::Result(20 * i64::from(call.nr == libc::SYS_getpriority))
            }
            libc::SYS_sched_get_priority_max | libc::SYS_sched_get_priority_min => match args[0] as i32 {
                1 | 2 if call.nr == libc::SYS_sched_get_priority_max => Reply::Result(99),
                1 | 2 => Reply::Result(1),
                0 | 3 | 5 | 6 | 7 => Reply::Result(0),
                _ => error(libc::EINVAL),
            },
            libc::SYS_sched_getparam => self.put(args[1], &0u32.to_le_bytes(), 0),
            libc::SYS_setpriority => {
                let of = if args[1] == 0 { pid } else { args[1] as u32 };
                let nice = (args[2] as i32).clamp(-20, 19);
                let policy = workload::SchedPolicy::Normal { nice };
                self.defer(m, Deferred::Policy { pid: of, policy });
                Reply::Result(0)
            }
            libc::SYS_sched_setattr | libc::SYS_sched_setparam => Reply::Result(0),
            libc::SYS_prctl => self.prctl(m, pid, args),

            // The process and the machine.
            libc::SYS_uname => self.uname(m, args[0]),
            libc::SYS_sysinfo => {
                let mut info = [0u8; 112];
                info[..8].copy_from_slice(&(self.now(m) / 1_000_000_000).to_le_bytes());
                info[32..40].copy_from_slice(&(64u64 << 30).to_le_bytes());
                info[40..48].copy_from_slice(&(32u64 << 30).to_le_bytes());
                info[104..108].copy_from_slice(&1u32.to_le_bytes());
                self.put(args[0], &info, 0)
            }
            libc::SYS_prlimit64 if args[3] == 0 => Reply::Result(0),
            libc::SYS_prlimit64 => self.put_limit(args[1], args[3]),
            libc::SYS_getrlimit => self.put_limit(args[0], args[1]),
            libc::SYS_setrlimit => Reply::Result(0),
            libc::SYS_getrusage => self.put(args[1], &[0; 144], 0),
            libc::SYS_getrandom => {
                let bytes = self.random_bytes(args[1].min(1 << 20) as usize);
                self.put(args[0], &bytes, bytes.len() as i64)
            }
            libc::SYS_set_robust_list
            | libc::SYS_sigaltstack
            | libc::SYS_rt_sigprocmask
            | libc::SYS_umask
            | libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_capset => Reply::Result(0),
            libc::SYS_rt_sigaction if args[2] != 0 => self.put(args[2], &[0; 32], 0),
            libc::SYS_rt_sigaction => Reply::Result(0),
            libc::SYS_capget => {
                if args[1] != 0 {
                    self.host.memory.write(args[1], &[0xff; 24]);
                }
                Reply::Result(0)
            }
            libc::SYS_rt_sigtimedwait | libc::SYS_pause | libc::SYS_rt_sigsuspend => {
                self.threads[t].wait = Some(Wait::Forever);
                Reply::Wait(None)
            }
            // One thread runs at a time, so memory is always in order. The query returns the only
            // known command, MEMBARRIER_CMD_GLOBAL.
            libc::SYS_membarrier => match args[0] {
                0 => Reply::Result(1),
                1 => Reply::Result(0),
                _ => error(libc::EINVAL),
            },
            // The C library and its callers then use an older call, or do without.
            libc::SYS_rseq
            | libc::SYS_clone3
            | libc::SYS_io_uring_setup
            | libc::SYS_sched_getattr
            | libc::SYS_get_mempolicy
            | libc::SYS_set_mempolicy
            | libc::SYS_mbind => error(libc::ENOSYS),
            libc::SYS_perf_event_open => error(libc::ENOENT),

            // A filter that the program sets for itself.
            libc::SYS_seccomp => Reply::Result(0),
            libc::SYS_fork | libc::SYS_vfork => self.deny("fork"),
            libc::SYS_execve | libc::SYS_execveat => self.deny("execve"),
            nr => match self.file_call(m, t, call) {
                Some(reply) => reply,
                None => {
                    let name = name(nr);
                    self.refuse(
                        &name,
                        &format!("it makes the system call {name}, which is not answered"),
                    )
                }
            },
        }
    }

    fn put_time(&self, addr: u64, ns: u64) -> Reply {
        let words = [ns / 1_000_000_000, ns % 1_000_000_000];
        self.put(addr, &words.map(u64::to_le_bytes).concat(), 0)
    }

    fn put_limit(&self, resource: u64, addr: u64) -> Reply {
        let limit = match resource as u32 {
            libc::RLIMIT_NOFILE => 1 << 20,
            libc::RLIMIT_STACK => 8 << 20,
            libc::RLIMIT_CORE => 0,
            _ => u64::MAX,
        };
        self.put(addr, &[limit, limit].map(u64::to_le_bytes).concat(), 0)
    }

    /// Returns the next bytes of the program's random generator, which depend on the seed of the run
    /// (splitmix64).
    fn random_bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.random;
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            bytes.extend_from_slice(&(z ^ z >> 31).to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    fn uname(&self, m: &Machine, addr: u64) -> Reply {
        let release = format!("{}.0", m.options().release);
        let mut bytes = Vec::new();
        for text in [
            "Linux",
            "windtunnel",
            &release,
            "#1 SMP PREEMPT_DYNAMIC",
            "x86_64",
            "(none)",
        ] {
            let mut field = text.as_bytes().to_vec();
            field.resize(65, 0);
            bytes.extend_from_slice(&field);
        }
        self.put(addr, &bytes, 0)
    }

    fn prctl(&mut self, m: &mut Machine, pid: u32, args: [u64; 6]) -> Reply {
        match args[0] as i32 {
            libc::PR_SET_NAME => match self.host.memory.text(args[1]) {
                Some(name) => {
                    let mut name = name;
                    while name.len() > 15 {
                        name.pop();
                    }
                    kernel::native::rename(m, pid, &name);
                    Reply::Result(0)
                }
                None => error(libc::EFAULT),
            },
            libc::PR_GET_NAME => {
                let mut name = kernel::native::comm(m, pid).unwrap_or_default().into_bytes();
                name.resize(16, 0);
                self.put(args[1], &name, 0)
            }
            libc::PR_CAPBSET_READ | libc::PR_GET_DUMPABLE => Reply::Result(1),
            _ => Reply::Result(0),
        }
    }

    fn set_scheduler(&mut self, m: &mut Machine, pid: u32, args: [u64; 6]) -> Reply {
        let pid = if args[0] == 0 { pid } else { args[0] as u32 };
        let priority = self.host.memory.read_u32(args[2]).unwrap_or(0);
        let rt_priority = priority.clamp(1, 99);
        let policy = match args[1] as i32 & !0x4000_0000 {
            0 => workload::SchedPolicy::Normal { nice: 0 },
            1 => workload::SchedPolicy::Fifo { rt_priority },
            2 => workload::SchedPolicy::RoundRobin { rt_priority },
            3 => workload::SchedPolicy::Batch { nice: 0 },
            5 => workload::SchedPolicy::Idle,
            7 => workload::SchedPolicy::Ext { nice: 0 },
            _ => return error(libc::EINVAL),
        };
        self.defer(m, Deferred::Policy { pid, policy });
        Reply::Result(0)
    }

    /// The program ends. A run needs it until its own end, unless the policy has ended.
    fn exit_group(&mut self, m: &Machine, status: i32) -> Reply {
        self.report.borrow_mut().exit_status = Some(status);
        if self.bpf.attached && m.ext().exit.is_some() {
            for thread in &mut self.threads {
                thread.exited = true;
            }
            return Reply::Exit;
        }
        let when = if self.bpf.attached {
            "during the run"
        } else {
            "before it attached a policy"
        };
        Reply::Fail(format!("it ended {when} (exit status {status})"))
    }

    fn kill(&mut self, nr: i64, args: [u64; 6]) -> Reply {
        let (to, signal) = if nr == libc::SYS_tgkill {
            (args[1], args[2])
        } else {
            (args[0], args[1])
        };
        let known = self.threads.iter().any(|thread| u64::from(thread.pid) == to);
        match (known, signal as i32) {
            (true, 0) => Reply::Result(0),
            (true, libc::SIGABRT) => Reply::Fail("it aborted".into()),
            (true, signal) => Reply::Fail(format!("it sent itself the signal {signal}")),
            (false, _) => error(libc::ESRCH),
        }
    }
}

/// Returns the time of a timeout in ms, where a negative number stands for none.
fn milliseconds(timeout: u64) -> Option<u64> {
    u64::try_from(timeout as i32).ok().map(|ms| ms * 1_000_000)
}
