// SPDX-License-Identifier: GPL-2.0-only
//! Compares the reader of rt-app files with rt-app itself: what rt-app reads is read here with the
//! same meaning, or refused with a message that names the reason.

use std::path::Path;
use std::process::{Command, Stdio};
use workload::{Dist, Op, SchedPolicy, Workload, rtapp};

/// Whether windtunnel reads a file.
#[derive(Clone, Copy)]
enum Here {
    Reads,
    /// Refuses the file with a message that contains this text.
    Refuses(&'static str),
}
use Here::{Reads, Refuses};

/// Tasks of a file, whether rt-app 1.0 accepts them (`None` if only later versions know the key),
/// and whether windtunnel does.
type Case = (&'static str, Option<bool>, Here);

const CASES: &[Case] = &[
    (r#""t": {"loop": 1, "run": 10}"#, Some(true), Reads),
    // The string of suspend is ignored.
    (
        r#""a": {"loop": 9, "resume": "t", "sleep": 9000}, "t": {"loop": 2, "suspend": "", "run": 1}"#,
        Some(true),
        Reads,
    ),
    (
        r#""a": {"loop": 9, "resume": "t", "sleep": 9000}, "t": {"loop": 2, "suspend": "a", "run": 1}"#,
        Some(true),
        Reads,
    ),
    // Keys of SCHED_DEADLINE in tasks with another policy.
    (
        r#""t": {"loop": 1, "run": 10, "dl-runtime": 5000, "dl-period": 9, "dl-deadline": 9}"#,
        Some(true),
        Reads,
    ),
    (
        r#""t": {"loop": 1, "run": 10, "period": 9, "deadline": 9}"#,
        Some(true),
        Reads,
    ),
    (
        r#""t": {"policy": "SCHED_IDLE", "loop": 1, "run": 10, "dl-runtime": 5000}"#,
        None,
        Reads,
    ),
    // Names of resources may be empty or missing.
    (
        r#""t": {"loop": 1, "lock": "", "run": 10, "unlock": ""}"#,
        Some(true),
        Reads,
    ),
    (
        r#""t": {"loop": 1, "lock": "unknown", "wait": {}, "unlock": "unknown"},
           "a": {"loop": 9, "signal": "unknown", "sleep": 9000}"#,
        Some(true),
        Reads,
    ),
    (r#""t": {"loop": 1, "run": 10, "timer": {}}"#, Some(true), Reads),
    (r#""t": {"loop": -3, "sleep": 9000}"#, Some(true), Reads),
    (r#""t": {"loop": 1, "run": 10, "yield": 1}"#, Some(true), Reads),
    // A key that begins with an event's name is this event.
    (r#""t": {"loop": 1, "running": 10, "memory": 5}"#, Some(true), Reads),
    (
        r#""t": {"loop": 1, "memcpy": {"size": 5}}"#,
        // rt-app 1.0 does not check the type.
        None,
        Refuses("there is no event \"memcpy\""),
    ),
    (
        r#""t": {"loop": 1, "memrun": {"type": "read", "size": 5, "count": 5}}"#,
        None,
        Refuses("the event \"memrun\" of rt-app (reads, writes or pointer chases in a buffer) is not modelled"),
    ),
    (
        r#""t": {"loop": 1, "run": "10"}"#,
        None,
        Refuses("\"run\" takes an integer, found a string"),
    ),
    (r#""t": {"loop": 1}"#, None, Refuses("\"t\" has no events")),
    (
        r#""t": {"loop": 1, "run": 10, "policy": "SCHED_FOO"}"#,
        Some(false),
        Refuses("policy \"SCHED_FOO\" is not modelled"),
    ),
    // rt-app ignores these. They are probably mistakes.
    (
        r#""t": {"loop": 1, "run": 10, "colour": "red"}"#,
        Some(true),
        Refuses("unknown key \"colour\" in \"t\""),
    ),
    (
        r#""t": {"loop": 1, "run": 10, "phases": {"p": {"run": 20}}}"#,
        Some(true),
        Refuses("event \"run\" is outside of \"phases\""),
    ),
    (
        r#""t": {"loop": 1, "run": 10, "timer": {"ref": "x", "period": 9, "mode": "abs"}}"#,
        Some(true),
        Refuses("there is no timer mode \"abs\""),
    ),
    (
        r#""t": {"phases": {"p": {"run": 10, "dl-runtime": 5000}}}"#,
        Some(true),
        Refuses("\"dl-runtime\" of a phase needs a \"policy\""),
    ),
];

fn file(tasks: &str) -> String {
    format!(
        r#"{{"tasks": {{{tasks}}}, "resources": {{"m": {{"type": "mutex"}}, "r": {{"type": "run"}}}},
            "global": {{"duration": 1, "calibration": 100, "lock_pages": false, "log_size": "disable"}}}}"#
    )
}

fn read(tasks: &str) -> Result<Workload, String> {
    rtapp::read(&file(tasks), "x.json").map_err(|error| error.to_string())
}

#[test]
fn files_are_read_or_refused_with_the_reason() {
    for (tasks, _, here) in CASES {
        match (here, read(tasks)) {
            (Reads, Ok(_)) => {}
            (Refuses(text), Err(message)) => assert!(message.contains(text), "{tasks}\n{message}"),
            (_, Ok(_)) => panic!("{tasks} is read"),
            (_, Err(message)) => panic!("{tasks}\n{message}"),
        }
    }
}

/// Runs all files in rt-app at the same time, because each takes a second.
#[test]
fn rt_app_reads_the_same_files() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rtapp");
    std::fs::create_dir_all(&directory).unwrap();
    let mut started = Vec::new();
    for (number, (tasks, expected, _)) in (0..).zip(CASES) {
        let Some(expected) = expected else { continue };
        let path = directory.join(format!("{number}.json"));
        std::fs::write(&path, file(tasks)).unwrap();
        let mut command = Command::new("rt-app");
        command.arg(&path).current_dir(&directory);
        let Ok(child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
            golden::skip!("rt-app is not installed");
            return;
        };
        started.push((tasks, *expected, child));
    }
    for (tasks, expected, mut child) in started {
        let accepted = child.wait().unwrap().success();
        assert_eq!(accepted, expected, "rt-app accepts {tasks}");
    }
}

#[test]
fn suspend_waits_for_its_own_task_whatever_its_string_is() {
    let tasks = |value: &str| format!(r#""a": {{"resume": "t", "sleep": 9}}, "t": {{"suspend": {value}, "run": 1}}"#);
    let expected = read(&tasks("\"t\"")).unwrap();
    for value in [r#""""#, r#""a""#, "1", "null", "{}"] {
        assert_eq!(read(&tasks(value)).unwrap(), expected, "{value}");
    }
    let nobody = read(r#""a": {"resume": "x", "sleep": 9}, "t": {"suspend": "y", "run": 1}"#).unwrap_err();
    assert!(
        nobody.contains("waits for 't'") && nobody.contains("\"resume\" : \"t\""),
        "{nobody}"
    );
}

#[test]
fn a_suspend_whose_task_nobody_resumes_waits_for_its_string() {
    // Examples of rt-app from before 2025 resume several tasks at once in this way.
    let w = read(
        r#""a": {"resume": "both", "sleep": 9}, "b": {"suspend": "both", "run": 1},
           "c": {"suspend": "both", "resume": "d", "run": 1}, "d": {"suspend": "both", "run": 1}"#,
    )
    .unwrap();
    let waits = |program: usize| {
        let op = w.programs[program].ops.iter().find_map(|op| match op {
            Op::CondWait { cond, .. } => Some(w.resources[*cond as usize].name()),
            _ => None,
        });
        op.unwrap()
    };
    // A task resumes d by its own name.
    assert_eq!([waits(1), waits(2), waits(3)], ["both", "both", "d"]);
}

#[test]
fn custom_slices_are_requested_with_the_policy() {
    let w = read(
        r#""long": {"dl-runtime": 100000, "run": 10},
           "plain": {"run": 10},
           "rt": {"policy": "SCHED_FIFO", "dl-runtime": 5000, "run": 10},
           "phases": {"phases": {
               "a": {"policy": "SCHED_BATCH", "dl-runtime": 3000, "run": 10},
               "b": {"priority": 5, "run": 10},
               "c": {"priority": 5, "dl-runtime": 200, "run": 10}}}"#,
    )
    .unwrap();
    let slices: Vec<_> = w.tasks.iter().map(|task| task.attributes.slice_ns).collect();
    assert_eq!(slices, [Some(100_000_000), None, None, None]);
    let settings: Vec<&Op> = w.programs[3]
        .ops
        .iter()
        .filter(|op| matches!(op, Op::SetPolicy(_) | Op::SetSlice(_)))
        .collect();
    assert_eq!(
        settings,
        [
            &Op::SetPolicy(SchedPolicy::Batch { nice: 0 }),
            &Op::SetSlice(3_000_000),
            // A phase without the key keeps the slice.
            &Op::SetPolicy(SchedPolicy::Batch { nice: 5 }),
            &Op::SetPolicy(SchedPolicy::Batch { nice: 5 }),
            &Op::SetSlice(200_000),
        ]
    );
}

#[test]
fn mistyped_events_get_a_suggestion() {
    let message = |event: &str| read(&format!(r#""t": {{"loop": 1, "run": 1, {event}}}"#)).unwrap_err();
    let found = message(r#""semaphore": "s""#);
    assert!(found.contains("unknown key \"semaphore\""), "{found}");
    let found = message(r#""runtme": {}"#);
    assert!(
        found.contains("there is no event \"runtme\"; as \"run\"") && found.contains("did you mean \"runtime\"?"),
        "{found}"
    );
    let found = message(r#""locked": 5"#);
    assert!(
        found.contains("there is no event \"locked\"") && found.contains("known events: runtime, run,"),
        "{found}"
    );
    let found = message(r#""timers": {"ref": "x", "periodd": 1}"#);
    assert!(found.contains("there is no event \"timers\"; as \"timer\""), "{found}");
    // A number or a name after the event's name is usual.
    for event in [r#""mem1": {}"#, r#""mem_a": {}"#, r#""mem": {}"#, r#""memA": {}"#] {
        let found = message(event);
        assert!(
            found.contains("takes an integer, found an object") && !found.contains("no event"),
            "{found}"
        );
    }
    let w = read(r#""t": {"loop": 1, "runner": 5}"#).unwrap();
    assert!(w.programs[0].ops.contains(&Op::Run(Dist::Fixed(5000))));
}
