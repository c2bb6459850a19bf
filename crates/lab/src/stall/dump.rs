// SPDX-License-Identifier: GPL-2.0-only
//! Reads the text that sched_ext prints when a policy fails: the debug dump of scx_dump_state().
//!
//! ```text
//! kworker/u16:0[11] triggered exit kind 1026:
//!   runnable task stall (batch[1524] failed to run for 5.659s)
//! ...
//! CPU 7   : nr_run=1 flags=0x0 cpu_rel=0 ops_qseq=11
//!           curr=swapper/7[0] class=idle_sched_class
//!
//!   R batch[1524] -5659ms
//!       scx_state/flags=3/0x9 dsq_flags=0x1 ops_state/qseq=0/0
//!       sticky/holding_cpu=-1/-1 dsq_id=0x10
//!       dsq_vtime=0 slice=20000000 weight=100
//!       cpus=ff no_mig=0
//! ```
//!
//! The lines may have a prefix of any length, as in a journal or a trace. Releases of Linux differ
//! in the fields that they print, so an unknown field is skipped, and a missing one has a default.

use input::{Error, Position};

/// Largest number of tasks of a dump.
const MAX_TASKS: usize = 10_000;
/// Largest number of CPUs of Linux (CONFIG_NR_CPUS).
pub(crate) const MAX_CPUS: u32 = 8192;
/// Exit kind of the watchdog (SCX_EXIT_ERROR_STALL).
pub const KIND_STALL: u32 = 1026;
/// Length of `comm` without the final NUL.
const COMM: usize = 15;

/// The content of a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// Exit kind, if the dump has this line.
    pub kind: Option<u32>,
    /// Why the policy ended, for example `runnable task stall (batch[1524] failed to run for 5.659s)`.
    pub reason: String,
    /// Number of CPUs: one more than the highest CPU that the dump mentions.
    pub nr_cpus: u32,
    pub cpus: Vec<DumpCpu>,
    /// The tasks that run or wait, in the order of the dump.
    pub tasks: Vec<DumpTask>,
    /// Whether the dump was longer than its buffer, so that its end is missing.
    pub truncated: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DumpCpu {
    pub cpu: u32,
    /// Name of the running task.
    pub runs: String,
    /// Scheduling class of the running task, for example `rt_sched_class`.
    pub class: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DumpTask {
    pub comm: String,
    pub pid: u32,
    /// CPU on whose runqueue the task is.
    pub cpu: u32,
    /// Whether the task runs. Otherwise, it waits.
    pub runs: bool,
    /// Time that the task has been runnable, ms.
    pub waited_ms: u64,
    /// Whether the policy has received the task and not dispatched it (SCX_OPSS_QUEUED).
    pub is_queued: bool,
    /// The DSQ that contains the task.
    pub dsq: Option<u64>,
    /// Weight; nice 0 has 100.
    pub weight: u32,
    /// CPUs that the task may use.
    pub cpus: Vec<u32>,
    pub migration_disabled: bool,
}

impl Dump {
    /// Reads a dump. `name` is the name of its file, for errors.
    ///
    /// # Errors
    /// The text contains no dump, or a field of it is damaged.
    pub fn read(name: &str, text: &str) -> Result<Dump, Error> {
        let mut reader = Reader {
            name,
            dump: Dump::default(),
            indent: 0,
            in_task: false,
        };
        let mut lines = text.lines().enumerate().peekable();
        while let Some((index, line)) = lines.next() {
            if line.contains("triggered exit kind ") {
                if !reader.dump.cpus.is_empty() {
                    // The dump of a later failure.
                    break;
                }
                reader.kind(index, line)?;
                // The reason has the same prefix as the line before it, and two blanks.
                let reason = lines.peek().map_or("", |&(_, next)| next);
                let prefix = line.len() - line.trim_start().len();
                reader.dump.reason = reason_of(reason, prefix);
            } else {
                reader.line(index, line)?;
            }
        }
        reader.finish()
    }

    /// Returns the task that the watchdog reports: the one that the reason names, or the task that
    /// has been waiting for the longest time.
    pub fn stalled(&self) -> Option<&DumpTask> {
        let named = self.named();
        let named = named.and_then(|(comm, pid)| self.tasks.iter().find(|task| task.pid == pid && task.comm == comm));
        let waiting = || self.tasks.iter().filter(|task| !task.runs);
        named.or_else(|| waiting().max_by_key(|task| (task.waited_ms, std::cmp::Reverse(task.pid))))
    }

    /// Returns name and pid of the task in the reason.
    fn named(&self) -> Option<(&str, u32)> {
        let (_, rest) = self.reason.split_once('(')?;
        let (task, _) = rest.rsplit_once(" failed to run for ")?;
        let (comm, pid) = task.strip_suffix(']')?.rsplit_once('[')?;
        Some((comm, pid.parse().ok()?))
    }
}

/// Returns the reason without the prefix of a journal.
fn reason_of(line: &str, prefix: usize) -> String {
    let known = ["runnable task stall", "watchdog failed to check in"];
    let at = known.iter().find_map(|known| line.find(known));
    at.and_then(|at| line.get(at..))
        .unwrap_or_else(|| line.get(prefix..).unwrap_or(line))
        .trim()
        .to_owned()
}

struct Reader<'a> {
    name: &'a str,
    dump: Dump,
    /// Number of bytes of the prefix of each line.
    indent: usize,
    /// Whether the next line may have fields of the last task.
    in_task: bool,
}

impl Reader<'_> {
    fn error(&self, index: usize, message: String) -> Error {
        let line = u32::try_from(index + 1).unwrap_or(u32::MAX);
        Error::at(self.name, message).position(Position { line, column: 1 })
    }

    fn kind(&mut self, index: usize, line: &str) -> Result<(), Error> {
        let (_, rest) = line.split_once("triggered exit kind ").unwrap_or_default();
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let kind = digits
            .parse()
            .map_err(|_| self.error(index, format!("'{}' is no exit kind", shown(rest))))?;
        self.dump.kind = Some(kind);
        Ok(())
    }

    fn line(&mut self, index: usize, line: &str) -> Result<(), Error> {
        if line.contains("~~~~ TRUNCATED ~~~~") {
            self.dump.truncated = true;
            return Ok(());
        }
        if let Some((cpu, at)) = cpu_head(line) {
            let cpu = self.cpu(index, cpu)?;
            self.indent = at;
            self.in_task = false;
            self.dump.cpus.push(DumpCpu {
                cpu,
                ..DumpCpu::default()
            });
            return Ok(());
        }
        let Some(content) = line.get(self.indent..).filter(|_| !self.dump.cpus.is_empty()) else {
            return Ok(());
        };
        if content.trim().is_empty() {
            self.in_task = false;
        } else if content.contains(" class=") && content.trim_start().starts_with("curr=") {
            self.current(content);
        } else if let Some(task) = task_head(content) {
            if self.dump.tasks.len() == MAX_TASKS {
                return Err(self.error(index, format!("the dump has more than {MAX_TASKS} tasks")));
            }
            let cpu = self.dump.cpus.last().map_or(0, |cpu| cpu.cpu);
            self.dump.tasks.push(DumpTask {
                cpu,
                weight: 100,
                ..task
            });
            self.in_task = true;
        } else if self.in_task && content.starts_with("      ") && !content.starts_with("       ") {
            self.fields(index, content)?;
        }
        Ok(())
    }

    fn cpu(&self, index: usize, digits: &str) -> Result<u32, Error> {
        let cpu = digits.parse().ok().filter(|&cpu| cpu < MAX_CPUS);
        cpu.ok_or_else(|| {
            self.error(
                index,
                format!("CPU {} does not exist (at most {MAX_CPUS})", shown(digits)),
            )
        })
    }

    /// Reads the line about the task that a CPU executes.
    fn current(&mut self, content: &str) {
        let Some(cpu) = self.dump.cpus.last_mut() else { return };
        let content = content.trim_start().trim_start_matches("curr=");
        let (runs, class) = content.rsplit_once(" class=").unwrap_or((content, ""));
        runs.rsplit_once('[')
            .map_or(runs, |(comm, _)| comm)
            .clone_into(&mut cpu.runs);
        class.trim().clone_into(&mut cpu.class);
    }

    /// Reads a line of `name=value` words about the last task.
    fn fields(&mut self, index: usize, content: &str) -> Result<(), Error> {
        for word in content.split_whitespace() {
            let Some((key, value)) = word.split_once('=') else {
                continue;
            };
            let bad = |what: &str| self.error(index, format!("{key}={}: expected {what}", shown(value)));
            let Some(task) = self.dump.tasks.last() else { break };
            let mut task = task.clone();
            match key {
                "ops_state/qseq" => {
                    let state = value.split('/').next().unwrap_or_default();
                    task.is_queued = state.parse::<u64>().map_err(|_| bad("two numbers"))? == 2;
                }
                "dsq_id" if value.starts_with('(') => task.dsq = None,
                "dsq_id" => {
                    let digits = value.strip_prefix("0x").unwrap_or(value);
                    task.dsq = Some(u64::from_str_radix(digits, 16).map_err(|_| bad("a DSQ"))?);
                }
                "weight" => {
                    let weight = value.parse().ok().filter(|weight| (1..=10_000).contains(weight));
                    task.weight = weight.ok_or_else(|| bad("a weight from 1 to 10000"))?;
                }
                "cpus" => task.cpus = mask(value).ok_or_else(|| bad("a mask of CPUs in hexadecimal"))?,
                "no_mig" => task.migration_disabled = value.parse::<u32>().map_err(|_| bad("a number"))? > 0,
                _ => {}
            }
            if let Some(last) = self.dump.tasks.last_mut() {
                *last = task;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Dump, Error> {
        let dump = &mut self.dump;
        if dump.cpus.is_empty() {
            return Err(Error::at(
                self.name,
                "no dump of sched_ext: no line begins with 'CPU 0   : nr_run='",
            )
            .hint("the file must contain the text that follows DEBUG DUMP in the output of the scheduler"));
        }
        let last = dump.cpus.iter().map(|cpu| cpu.cpu);
        let last = last
            .chain(dump.tasks.iter().flat_map(|task| task.cpus.iter().copied()))
            .max();
        dump.nr_cpus = last.unwrap_or(0) + 1;
        for task in &mut dump.tasks {
            if task.cpus.is_empty() {
                task.cpus = (0..dump.nr_cpus).collect();
            }
        }
        Ok(self.dump)
    }
}

/// Returns the number of the CPU and the length of the prefix, if a line is `CPU 7   : nr_run=...`.
fn cpu_head(line: &str) -> Option<(&str, usize)> {
    let (before, _) = line.split_once(": nr_run=")?;
    let at = before.rfind("CPU ")?;
    Some((before[at + 4..].trim(), at))
}

/// Reads the first line of a task: ` *R name[pid] -12ms`, in newer releases with the name of the
/// policy before the time.
fn task_head(content: &str) -> Option<DumpTask> {
    let mut chars = content.chars();
    let is_blank = chars.next() == Some(' ');
    let runs = match chars.next()? {
        '*' => true,
        ' ' => false,
        _ => return None,
    };
    let is_state = chars.next()?.is_ascii_alphabetic() && chars.next() == Some(' ');
    if !is_blank || !is_state {
        return None;
    }
    let rest = chars.as_str().trim_end();
    let (head, time) = rest.strip_suffix("ms")?.rsplit_once(' ')?;
    let ms: i64 = time.parse().ok().filter(|_| time.starts_with(['+', '-']))?;
    // A name may contain brackets, so the last ones that a name of this length can have count.
    let ends = head.match_indices(']').map(|(at, _)| at);
    let mut found = ends.filter_map(|end| {
        let start = head[..end].rfind('[')?;
        let pid = head[start + 1..end].parse().ok()?;
        (start <= COMM).then(|| (head[..start].to_owned(), pid))
    });
    let (comm, pid) = found.next_back()?;
    Some(DumpTask {
        comm,
        pid,
        runs,
        waited_ms: ms.unsigned_abs(),
        ..DumpTask::default()
    })
}

/// Returns the CPUs of a mask such as `3,0000ff00`, which has at least one CPU.
fn mask(text: &str) -> Option<Vec<u32>> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| *c != ',')
        .map(|c| c.to_digit(16))
        .collect::<Option<_>>()?;
    if digits.len() > MAX_CPUS as usize / 4 {
        return None;
    }
    let bits = digits.iter().rev().zip((0..).step_by(4));
    let cpus: Vec<u32> = bits
        .flat_map(|(digit, first)| {
            (0..4)
                .filter(move |bit| digit >> bit & 1 == 1)
                .map(move |bit| first + bit)
        })
        .collect();
    (!cpus.is_empty()).then_some(cpus)
}

/// Returns the first characters of a text, for an error.
fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "\
kworker/u64:4[10624] triggered exit kind 1026:
  runnable task stall (kworker/9:0[12850] failed to run for 6.208s)

Backtrace:
  scx_watchdog_workfn+0x119/0x190

CPU states
----------

CPU 9   : nr_run=2 flags=0x1 cpu_rel=0 ops_qseq=19257 pnt_seq=9897
          curr=cc1plus[14157] class=ext_sched_class

 *R cc1plus[14157] -2ms
      scx_state/flags=3/0x5 dsq_flags=0x0 ops_state/qseq=0/0
      sticky/holding_cpu=-1/-1 dsq_id=(n/a) dsq_vtime=104153400457
      cpus=ffff

  R kworker/9:0[12850] -6208ms
      scx_state/flags=3/0x9 dsq_flags=0x1 ops_state/qseq=2/7
      sticky/holding_cpu=-1/-1 dsq_id=0x10 dsq_vtime=0 slice=20000000 weight=50
      cpus=0200 no_mig=1

    kthread+0x14a/0x170
    ret_from_fork+0x37/0x50

CPU 10  : nr_run=1 flags=0x1 cpu_rel=0 ops_qseq=1
          curr=sway[99] class=rt_sched_class

  S Web Content[7] *root -3ms
      scx_state/flags=3/0x9 dsq_flags=0x1 ops_state/qseq=0/0
";

    #[test]
    fn a_dump_has_cpus_tasks_affinities_and_queues() {
        let dump = Dump::read("dump.txt", DUMP).expect("a dump");
        assert_eq!((dump.kind, dump.nr_cpus), (Some(KIND_STALL), 16));
        let cpus: Vec<(u32, &str, &str)> = dump
            .cpus
            .iter()
            .map(|cpu| (cpu.cpu, cpu.runs.as_str(), cpu.class.as_str()))
            .collect();
        assert_eq!(
            cpus,
            [(9, "cc1plus", "ext_sched_class"), (10, "sway", "rt_sched_class")]
        );
        let stalled = dump.stalled().expect("the reason names a task");
        let expected = DumpTask {
            comm: "kworker/9:0".to_owned(),
            pid: 12850,
            cpu: 9,
            runs: false,
            waited_ms: 6208,
            is_queued: true,
            dsq: Some(0x10),
            weight: 50,
            cpus: vec![9],
            migration_disabled: true,
        };
        assert_eq!(*stalled, expected);
        assert!(dump.tasks[0].runs && dump.tasks[0].dsq.is_none());
        assert_eq!((dump.tasks[2].comm.as_str(), dump.tasks[2].pid), ("Web Content", 7));
        assert_eq!(dump.tasks[2].cpus.len(), 16);
    }

    #[test]
    fn lines_of_a_journal_have_a_prefix() {
        let journal: String = DUMP
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| format!("Jun 13 05:27:08 host bash[1097]: {line}\n"))
            .collect();
        let mut dump = Dump::read("journal", &journal).expect("a dump");
        assert_eq!(dump.stalled().map(|task| task.pid), Some(12850));
        dump.reason.clear();
        assert_eq!(dump.stalled().map(|task| task.pid), Some(12850), "the longest wait");
        assert_eq!(
            dump,
            Dump {
                reason: String::new(),
                ..Dump::read("", DUMP).expect("a dump")
            }
        );
    }

    #[test]
    fn masks_have_groups_of_32_bits() {
        assert_eq!(mask("80000000,00000001"), Some(vec![0, 63]));
        assert_eq!((mask("0"), mask(""), mask("xyz")), (None, None, None));
    }

    #[test]
    fn damaged_dumps_are_errors_with_their_line() {
        for (from, to, message) in [
            ("cpus=0200", "cpus=0x00", "dump.txt:21:1: cpus=0x00: expected a mask"),
            ("weight=50", "weight=0", "dump.txt:20:1: weight=0: expected a weight"),
            ("dsq_id=0x10", "dsq_id=0xg", "dump.txt:20:1: dsq_id=0xg"),
            (
                "CPU 10 ",
                "CPU 9999999999",
                "dump.txt:26:1: CPU 9999999999 does not exist",
            ),
            ("kind 1026", "kind x", "dump.txt:1:1: 'x:' is no exit kind"),
            (": nr_run", ": nr", "no dump of sched_ext"),
        ] {
            let text = DUMP.replace(from, to);
            let error = Dump::read("dump.txt", &text).expect_err(from).to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn a_name_may_contain_brackets_and_blanks() {
        let task = task_head("  R a[1] b[2][345] -7ms").expect("a task");
        assert_eq!((task.comm.as_str(), task.pid, task.waited_ms), ("a[1] b[2]", 345, 7));
        for text in [
            "  R name -7ms",
            "  R name[x] -7ms",
            "R name[1] -7ms",
            "  R name[1] 7ms",
            "",
            "  R",
        ] {
            assert_eq!(task_head(text), None, "{text}");
        }
    }
}
