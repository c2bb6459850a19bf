// SPDX-License-Identifier: GPL-2.0-only
//! Tests of reading recordings: the output format of each tool, and damaged or incomplete texts.

use super::*;
use crate::event::TaskState::{Dead, Interruptible, Running};
use crate::event::{Event, MigrateReason, TaskState};
use crate::recording::line::{LineEvent, Parsed};

fn events_in(text: &str) -> Vec<(u64, u32, Event)> {
    let recording = read(text).unwrap_or_else(|error| panic!("{error}"));
    let records = recording.records.into_iter();
    let events = records.map(|record| (record.time, record.cpu, record.event));
    events.collect()
}

fn new(pid: u32, parent: u32, prio: i32, comm: &str) -> Event {
    let comm = comm.into();
    Event::TaskNew {
        pid,
        tgid: pid,
        parent,
        prio,
        comm,
    }
}

fn switch(prev: u32, prev_state: TaskState, next: u32) -> Event {
    Event::Switch { prev, prev_state, next }
}

fn queued(pid: u32, target: u32) -> Event {
    Event::Wakeup {
        pid,
        target,
        new: false,
    }
}

const PERF: &str = "\
          my app   101 [000]   100.000000001: sched:sched_waking: comm=b x pid=102 prio=120 target_cpu=001
          my app   101 [000]   100.000001: sched:sched_switch: prev_comm=my app prev_pid=101 prev_prio=110 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
         swapper     0 [001]   100.000002:       1 sched:sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b x next_pid=102 next_prio=120
	ffffffff81e0b7a2 __schedule+0x372 ([kernel.kallsyms])
             b x 102/102 [001]   100.000010: sched:sched_stat_runtime: comm=b x pid=102 runtime=8000 [ns]
             b x   102 [001]   100.000012: sched:sched_process_exit: comm=b x pid=102 prio=120
             b x   102 [001]   100.000013: sched:sched_switch: prev_comm=b x prev_pid=102 prev_prio=120 prev_state=X ==> next_comm=swapper/1 next_pid=0 next_prio=120
";

#[test]
fn perf_script_output_is_read() {
    let want = [
        (0, 0, new(101, 0, 110, "my app")),
        (0, 0, new(102, 0, 120, "b x")),
        (0, 0, switch(0, Running, 101)),
        (0, 0, Event::Waking { pid: 102, waker: 101 }),
        (0, 0, queued(102, 1)),
        (999, 0, switch(101, Interruptible, 0)),
        (1999, 1, switch(0, Running, 102)),
        (11999, 1, Event::TaskExit { pid: 102 }),
        (12999, 1, switch(102, Dead, 0)),
    ];
    assert_eq!(events_in(PERF), want);
}

const TRACE_CMD: &str = "\
cpus=2
CPU 1 is empty
          <idle>-0     [000]   50.000100: sched_waking:         comm=a-b pid=7 prio=98 target_cpu=000
          <idle>-0     [000]   50.000101: sched_wakeup:         a-b:7 [98] CPU:000
          <idle>-0     [000]   50.000102: sched_switch:         swapper/0:0 [120] R ==> a-b:7 [98]
             a-b-7     [000]   50.000110: sched_process_fork:   comm=a-b pid=7 child_comm=a-b child_pid=8
             a-b-7     [000]   50.000111: sched_wakeup_new:     a-b:8 [120] CPU:001
             a-b-7     [000]   50.000120: sched_switch:         a-b:7 [98] R+ ==> a-b:8 [120]
";

#[test]
fn trace_cmd_output_is_read() {
    let want = [
        (0, 0, new(7, 0, 98, "a-b")),
        (0, 0, Event::Waking { pid: 7, waker: 0 }),
        (
            1000,
            0,
            Event::Wakeup {
                pid: 7,
                target: 0,
                new: false,
            },
        ),
        (2000, 0, switch(0, Running, 7)),
        (10000, 0, new(8, 7, 120, "a-b")),
        (
            11000,
            0,
            Event::Wakeup {
                pid: 8,
                target: 0,
                new: true,
            },
        ),
        (20000, 0, switch(7, Running, 8)),
    ];
    assert_eq!(events_in(TRACE_CMD), want);
}

#[test]
fn migrations_and_execs_are_read() {
    let text = "\
a 1 [000] 1.000000: sched:sched_waking: comm=b pid=2 prio=120 target_cpu=000
a 1 [000] 1.000001: sched:sched_migrate_task: comm=b pid=2 prio=120 orig_cpu=0 dest_cpu=1
a 1 [000] 1.000002: sched:sched_wakeup: comm=b pid=2 prio=120 target_cpu=001
b 2 [001] 1.000003: sched:sched_process_exec: filename=/bin/an-interpreter-with-a-name pid=2 old_pid=2
a 1 [000] 1.000004: sched:sched_process_fork: comm=a pid=1 child_comm=a child_pid=3
a 1 [000] 1.000005: sched:sched_wakeup_new: comm=a pid=3 prio=120 target_cpu=001
a 1 [000] 1.000006: sched:sched_migrate_task: comm=a pid=3 prio=120 orig_cpu=1 dest_cpu=0
a 1 [000] 1.000007: sched:sched_migrate_task: comm=a pid=3 prio=120 orig_cpu=0 dest_cpu=9
a 1 [000] 1.000008: sched:sched_switch: a:1 [120] R ==> a:3 [120]
";
    let moves: Vec<_> = events_in(text)
        .into_iter()
        .filter(|(_, _, event)| {
            matches!(
                event,
                Event::Migrate { .. } | Event::TaskRename { .. } | Event::Wakeup { .. }
            )
        })
        .collect();
    let moved = |pid, from, to, reason| Event::Migrate { pid, from, to, reason };
    let woken = |pid, new| Event::Wakeup { pid, target: 1, new };
    let want = [
        (1000, 0, moved(2, 0, 1, MigrateReason::Wakeup)),
        (2000, 0, woken(2, false)),
        (
            3000,
            1,
            Event::TaskRename {
                pid: 2,
                comm: "an-interpreter-".into(),
            },
        ),
        (5000, 0, moved(3, 0, 1, MigrateReason::Fork)),
        (5000, 0, woken(3, true)),
        (6000, 0, moved(3, 1, 0, MigrateReason::Balance)),
    ];
    assert_eq!(moves, want);
}

#[test]
fn tracefs_flags_mark_wakeups_by_interrupts() {
    let text = "\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
            bash-9       [003] dNh3.    10.000001: sched_wakeup: comm=x pid=5 prio=120 target_cpu=003
            bash-9       (      9) [003] d..2.    10.000002: sched_waking: comm=y pid=6 prio=120 target_cpu=003
            bash-9       [003] d..2.    10.000003: sched_switch: bash:9 [120] R ==> y:6 [120]
";
    let wakers = events_in(text).into_iter().filter_map(|(_, _, event)| match event {
        Event::Waking { pid, waker } => Some((pid, waker)),
        _ => None,
    });
    assert!(wakers.eq([(5, 0), (6, 9)]));
}

#[test]
fn wakeups_inside_interrupt_handlers_have_no_waker() {
    let text = "\
a 1 [000] 1.000000: irq_vectors:local_timer_entry: vector=236
a 1 [000] 1.000001: timer:hrtimer_expire_entry: hrtimer=0xffff function=hrtimer_wakeup now=1
a 1 [000] 1.000002: sched:sched_waking: comm=b pid=2 prio=120 target_cpu=000
a 1 [000] 1.000003: timer:hrtimer_expire_exit: hrtimer=0xffff
a 1 [000] 1.000004: irq_vectors:local_timer_exit: vector=236
a 1 [000] 1.000005: sched:sched_waking: comm=c pid=3 prio=120 target_cpu=000
a 1 [000] 1.000006: irq:softirq_entry: vec=1 [action=TIMER]
a 1 [000] 1.000007: sched:sched_waking: comm=d pid=4 prio=120 target_cpu=000
a 1 [000] 1.000008: sched:sched_switch: a:1 [120] R ==> b:2 [120]
b 2 [000] 1.000009: sched:sched_waking: comm=e pid=5 prio=120 target_cpu=000
";
    let wakers = events_in(text).into_iter().filter_map(|(_, _, event)| match event {
        Event::Waking { pid, waker } => Some((pid, waker)),
        _ => None,
    });
    assert!(wakers.eq([(2, 0), (3, 1), (4, 0), (5, 2)]));
}

#[test]
fn a_task_first_seen_on_a_silent_cpu_was_switched_in_after_its_last_event_on_another_cpu() {
    let text = "\
a 1 [000] 1.000000: sched:sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=R ==> next_comm=b next_pid=2 next_prio=120
a 1 [001] 1.000009: sched:sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
";
    let want = [
        (0, 0, new(1, 0, 120, "a")),
        (0, 0, new(2, 0, 120, "b")),
        (0, 0, switch(0, Running, 1)),
        (0, 0, switch(1, Running, 2)),
        (1, 1, switch(0, Running, 1)),
        (9000, 1, switch(1, Interruptible, 0)),
    ];
    assert_eq!(events_in(text), want);
}

#[test]
fn a_text_that_is_no_recording_is_refused_with_its_line() {
    let message = |text: &str| read(text).unwrap_err().to_string();
    assert!(message("").starts_with("line 1: no scheduler events"));
    assert!(message("\n\nhello world\n").starts_with("line 3: expected an event, which begins with a task"));
    assert!(
        message("a 1 [000] soon: sched:sched_switch: x")
            .starts_with("line 1: expected an event, but no time follows the CPU")
    );
    assert!(message("a [000] 1.0: x: y").starts_with("line 1: expected a task's name and pid, found 'a'"));
    let garbled = "a 1 [000] 1.000: sched:sched_switch: prev_comm=a prev_pid=x";
    assert!(message(garbled).contains("the fields of sched_switch cannot be read: 'prev_comm=a prev_pid=x'"));
    let whole = "a 1 [000] 1.000000: sched_switch: a:1 [120] S ==> b:2 [120]\n";
    let cut = format!("{whole}{garbled}");
    assert_eq!(
        read(&cut).map(|recording| (recording.switches, recording.lost)),
        Ok((1, 1))
    );
    assert!(message(&format!("{cut}\n")).starts_with("line 2: the fields of sched_switch cannot be read"));
    let no_switch = "a 1 [000] 1.000000: sched:sched_waking: comm=b pid=2 prio=120 target_cpu=000\n\
                     a 1 [000] 1.000001: probe:f: x";
    let want = "line 1: no scheduler events: sched_switch is missing; the recording contains probe:f, sched_waking";
    assert!(message(no_switch).starts_with(want));
    assert!(message(no_switch).contains("hint: record the events of 'perf sched record -a'"));
    let no_wakeup = "a 1 [000] 1.000000: sched_switch: a:1 [120] S ==> b:2 [120]\n\
                     b 2 [000] 1.000001: sched_switch: b:2 [120] R ==> a:1 [120]";
    assert_eq!(read(no_wakeup).map(|recording| recording.unwoken), Ok(1));
    let lost = "a 1 [000] 1.000000: sched_switch: a:1 [120] S ==> b:2 [120]\nCPU:1 [LOST 5 EVENTS]\n";
    assert!(message(lost).starts_with("line 1: 1 of 2 switches are missing\n  hint: record all"));
}

/// Tests the pages of systrace, of which old ones contain the lines in a JavaScript string.
#[test]
fn an_html_page_with_ftrace_text_is_read() {
    let line = "  a-1 [000] d..3 1.000000: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 \
                prev_state=S ==> next_comm=b next_pid=2 next_prio=120";
    let begin = "<!DOCTYPE html>\n<style>\n  body { a-1 [000] }\n</style>\n<script>\n";
    for (before, end) in [("", "\n"), ("  var linuxPerfData = \"\\\n", "\\n\\\n")] {
        let page = format!("{begin}{before}# tracer: nop{end}#{end}{line}{end}  </script>\n<p>other text</p>\n");
        let recording = read(&page).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(recording.switches, 1);
        assert_eq!(recording.counts["sched_switch"], 1);
    }
    let other = read("<!DOCTYPE html>\n<p>text</p>\n").expect_err("no recording");
    assert!(other.message.starts_with("no scheduler events"), "{other}");
}

#[test]
fn a_few_switches_may_be_missing() {
    let back_and_forth: String = (0..20)
        .map(|round| {
            let there = format!("a 1 [000] 1.{round:02}0000: sched_switch: a:1 [120] R ==> b:2 [120]\n");
            there + &format!("b 2 [000] 1.{round:02}0001: sched_switch: b:2 [120] R ==> a:1 [120]\n")
        })
        .collect();
    // The recording has three gaps. First, the switch to task b is missing on the CPU of task a.
    // Then task c appears on another CPU than before. Finally, perf no longer knows the pid of task
    // d.
    let gaps = "\
b 2 [000] 2.000007: sched_switch: b:2 [120] S ==> c:3 [120]
c 3 [001] 2.000009: sched_switch: c:3 [120] S ==> d:4 [120]
:-1 -1 [001] 2.000010: sched_stat_runtime: comm=d pid=4
:-1 31037/-1 [001] 2.000012: sched_switch: d:4 [120] X ==> swapper/1:0 [120]
";
    let recording = read(&(back_and_forth + gaps)).expect("the recording can be read");
    assert_eq!((recording.switches, recording.missing), (43, 2));
    let late = recording
        .records
        .into_iter()
        .filter(|record| record.time >= 1_000_000_000 && matches!(record.event, Event::Switch { .. }));
    let late: Vec<_> = late
        .map(|record| (record.time - 1_000_000_000, record.cpu, record.event))
        .collect();
    let want = [
        (7000, 0, switch(1, Running, 2)),
        (7000, 0, switch(2, Interruptible, 3)),
        (7001, 1, switch(0, Running, 3)),
        (9000, 0, switch(3, Running, 0)),
        (9000, 1, switch(3, Interruptible, 4)),
        (12000, 1, switch(4, Dead, 0)),
    ];
    assert_eq!(late, want);
}

/// Damages texts at random. Each damaged text must be either read or refused, without a panic.
#[test]
fn damaged_texts_never_panic() {
    let mut state = 1_u64;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % n
    };
    for round in 0..4000 {
        let mut text: Vec<u8> = if round % 2 == 0 { PERF } else { TRACE_CMD }.into();
        for _ in 0..=below(3) {
            let at = below(text.len());
            let end = (at + below(30)).min(text.len());
            match below(4) {
                0 => text[at] = b" 0:=[]>-\n1x"[below(11)],
                1 => drop(text.drain(at..end)),
                2 => {
                    let copy = text[at..end].to_vec();
                    let to = below(text.len());
                    text.splice(to..to, copy);
                }
                _ => text.insert(at, b"\xc3 9[:"[below(5)]),
            }
            if text.is_empty() {
                break;
            }
        }
        let text = String::from_utf8_lossy(&text);
        if let Ok(recording) = read(&text) {
            assert!(recording.records.is_sorted_by_key(|record| record.time));
        }
    }
}

/// How the tools print a switch from task `a` (pid 7) to task `b` (pid 8) on CPU 3 at 12.345678 s.
fn forms(a: &str, b: &str) -> Vec<String> {
    let keyed =
        format!("prev_comm={a} prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm={b} next_pid=8 next_prio=130");
    let raw = format!("prev_comm={a} prev_pid=7 prev_prio=120 prev_state=256 next_comm={b} next_pid=8 next_prio=130");
    let pretty = format!("{a}:7 [120] R+ ==> {b}:8 [130]");
    vec![
        format!("{a:>16}     7 [003]    12.345678: sched:sched_switch: {keyed}"),
        format!("{a:>16}     7 [003]    12.345678000:          1 sched:sched_switch: {keyed}"),
        format!("{a} 5/7 [003]    12.345678:       sched:sched_switch: {pretty}"),
        format!("{a:>16}-7     [003]    12.345678: sched_switch:         {pretty}"),
        format!("{a:>16}-7     [003] d..2.    12.345678: sched_switch:         {pretty}"),
        format!("{a:>16}-7     [003]    12.345678: sched_switch:         {raw}"),
        format!("{a:>16}-7       [003] d..2.    12.345678: sched_switch: {keyed}"),
        format!("{a:>16}-7       (      5) [003] d..2.    12.345678: sched_switch: {keyed}"),
        format!("{a:>16}-7       (-------) [003] d..2.    12.345678: sched_switch: {keyed}"),
        format!("{a:>8.8}-7         3d..2. 12345678us : sched_switch: {keyed}"),
        format!("{a:>8.8}-7         3d..2. 12345678us!: sched_switch: {keyed}"),
    ]
}

#[test]
fn a_name_that_looks_like_a_header_or_a_field_hides_no_event() {
    let names = [
        "",
        "-",
        "CPU 0/KVM",
        "CPU 3 is empty",
        "trace-cmd",
        "trace-cmd: x",
        "cpus=2",
        "version = 7",
        "#",
        "# tracer",
        "[000]",
        "a [001] b",
        "a:1 [120]",
        " ==> ",
        "x ==> y:1 [12]",
        "a-123",
        "(1234)",
        "[LOST 5 EVEN",
        "LOST EVENTS",
        "12.345678: a:",
        "deadbeef (x)",
        "comm=x pid=5",
        "us : ",
        "a  b",
        "-1",
        "<...>",
        "übung",
        "a/b 1/2",
    ];
    let mut state = 7_u64;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % n
    };
    let parts = b" :[]()=->+#/,.019azR";
    let mut random = || {
        let name: String = (0..below(COMM_LEN))
            .map(|_| char::from(parts[below(parts.len())]))
            .collect();
        name.trim().to_owned()
    };
    let given = names.iter().map(|name| name.trim().to_owned());
    let names: Vec<_> = given.chain((0..2000).map(|_| random())).collect();
    for (a, b) in names.iter().zip(names.iter().cycle().skip(5)) {
        for form in forms(a, b) {
            let line = match line::parse(&form) {
                Ok(Parsed::Event(line)) => line,
                Ok(_) => panic!("'{form}' was not read as an event"),
                Err(error) => panic!("'{form}': {error}"),
            };
            let LineEvent::Switch { prev, prev_state, next } = &line.event else {
                panic!("'{form}': {:?}", line.event);
            };
            assert_eq!(
                (line.time, line.cpu, prev.pid, next.pid),
                (12_345_678_000, 3, 7, 8),
                "'{form}'"
            );
            assert_eq!((*prev_state, next.prio), (Running, Some(130)), "'{form}'");
        }
    }
}

/// perf in a container prints the pids of its own namespace before the CPU, and 0 for all tasks
/// outside it.
#[test]
fn the_pids_in_the_fields_identify_the_tasks() {
    let text = "\
a    12 [000] 1.000000: sched:sched_switch: prev_comm=a prev_pid=50012 prev_prio=120 prev_state=S ==> next_comm=b next_pid=9 next_prio=120
b     0 [000] 1.000005: sched:sched_waking: comm=a pid=50012 prio=120 target_cpu=000
b     0 [000] 1.000009: sched:sched_switch: prev_comm=b prev_pid=9 prev_prio=120 prev_state=R ==> next_comm=a next_pid=50012 next_prio=120
a    12 [000] 1.000012: sched:sched_stat_runtime: comm=a pid=50012 runtime=8000 [ns]
";
    let want = [
        (0, 0, new(9, 0, 120, "b")),
        (0, 0, new(50012, 0, 120, "a")),
        (0, 0, switch(0, Running, 50012)),
        (0, 0, switch(50012, Interruptible, 9)),
        (5000, 0, Event::Waking { pid: 50012, waker: 9 }),
        (5000, 0, queued(50012, 0)),
        (9000, 0, switch(9, Running, 50012)),
    ];
    assert_eq!(events_in(text), want);
}

/// Without sched_wakeup, a woken task is queued where its waker moves it to, where the load balancer
/// takes it from, or where it runs next.
#[test]
fn woken_tasks_are_queued_without_sched_wakeup() {
    let text = "\
a 1 [000] 1.000000: sched_waking: comm=b pid=2 prio=120 target_cpu=000
a 1 [000] 1.000001: sched_migrate_task: comm=b pid=2 prio=120 orig_cpu=0 dest_cpu=1
a 1 [000] 1.000002: sched_waking: comm=c pid=3 prio=120 target_cpu=000
d 4 [001] 1.000003: sched_switch: d:4 [120] S ==> b:2 [120]
a 1 [000] 1.000004: sched_switch: a:1 [120] S ==> swapper/0:0 [120]
b 2 [001] 1.000005: sched_migrate_task: comm=c pid=3 prio=120 orig_cpu=0 dest_cpu=1
b 2 [001] 1.000006: sched_waking: comm=a pid=1 prio=120 target_cpu=001
b 2 [001] 1.000007: sched_switch: b:2 [120] S ==> c:3 [120]
swapper 0 [000] 1.000008: sched_switch: swapper/0:0 [120] R ==> a:1 [120]
";
    let events = events_in(text).into_iter();
    let placed = events.filter(|(_, _, event)| matches!(event, Event::Wakeup { .. } | Event::Migrate { .. }));
    let migrate = |pid, reason| Event::Migrate {
        pid,
        from: 0,
        to: 1,
        reason,
    };
    let want = [
        (1000, 0, migrate(2, MigrateReason::Wakeup)),
        (1000, 0, queued(2, 1)),
        (2000, 0, queued(3, 0)),
        (5000, 1, migrate(3, MigrateReason::Balance)),
        (6000, 1, queued(1, 0)),
    ];
    assert_eq!(placed.collect::<Vec<_>>(), want);
}

#[test]
fn renamed_tasks_and_reused_pids_are_read() {
    let text = "\
<...>-1 [000] 1.000000: sched_switch: sh:1 [120] R ==> x:2 [120]
x-2     [000] 1.000001: sched_switch: y:2 [120] X ==> sh:1 [120]
sh-1    [000] 1.000002: sched_switch: sh:1 [120] R ==> z:2 [98]
";
    let renamed = Event::TaskRename {
        pid: 2,
        comm: "y".into(),
    };
    let want = [
        (0, 0, new(1, 0, 120, "sh")),
        (0, 0, new(2, 0, 120, "x")),
        (0, 0, switch(0, Running, 1)),
        (0, 0, switch(1, Running, 2)),
        (1000, 0, renamed),
        (1000, 0, switch(2, Dead, 1)),
        (2000, 0, new(2, 0, 98, "z")),
        (2000, 0, switch(1, Running, 2)),
    ];
    assert_eq!(events_in(text), want);
}
