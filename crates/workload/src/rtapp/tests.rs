// SPDX-License-Identifier: GPL-2.0-only
//! Tests of reading rt-app files, and of the messages about invalid ones.

use super::{read, to_rtapp_json};
use crate::program::{Channel, Dist, Op, Program, Resource, SchedPolicy, Workload};

fn load(text: &str) -> Workload {
    read(text, "dir/x.json").unwrap_or_else(|error| panic!("{error}"))
}

fn task(body: &str) -> Workload {
    load(&format!("{{\"tasks\": {{\"t\": {{{body}}}}}}}"))
}

fn error(text: &str) -> String {
    read(text, "x.json").expect_err(text).to_string()
}

fn us(us: u64) -> Dist {
    Dist::Fixed(us * 1000)
}
const DONE: Op = Op::Done { count: 1 };
fn back(counter: u32, times: Option<u64>, target: u32) -> Op {
    Op::LoopBack { counter, times, target }
}

#[test]
fn a_task_without_phases_loops_for_ever() {
    let w = task(r#""run0": 10, "runtime": 20, "sleep1": 30, "iorun": 5, "mem": 4096, "yield": """#);
    assert_eq!((w.name.as_str(), w.unit.as_str(), w.duration_ns), ("x", "loops", None));
    assert_eq!(
        w.programs[0].ops,
        [
            Op::LoopInit { counter: 0 },
            Op::Run(us(10)),
            Op::Runtime(us(20)),
            Op::Sleep(us(30)),
            Op::Io { bytes: 5 },
            Op::Mem { bytes: 4096 },
            Op::Yield,
            DONE,
            back(0, None, 1),
        ]
    );
    let t = &w.tasks[0];
    assert_eq!(
        (t.comm.as_str(), t.policy, t.spawn),
        ("t", SchedPolicy::Normal { nice: 0 }, true)
    );
    assert_eq!((&t.cpus, t.process, t.footprint_bytes), (&None, 0, 4096));
}

#[test]
fn phases_nest_in_the_loop_of_the_task() {
    let w = task(
        r#""delay": 7, "loop": 3, "cpus": [2], "phases": {
            "a": {"loop": 2, "run": 1, "timer": {"ref": "unique", "period": 9}},
            "b": {"cpus": [0, 1], "policy": "SCHED_FIFO", "run": 1}}"#,
    );
    let start = |absolute, period| Op::Timer {
        timer: 0,
        period,
        absolute,
    };
    assert_eq!(
        w.programs[0],
        Program {
            ops: vec![
                Op::Sleep(us(7)),
                start(true, 0),
                Op::LoopInit { counter: 0 },
                Op::Phase(0),
                Op::SetAffinity(Some(vec![2])),
                Op::LoopInit { counter: 1 },
                Op::Run(us(1)),
                start(false, 9000),
                back(1, Some(2), 6),
                Op::Phase(1),
                Op::SetAffinity(Some(vec![0, 1])),
                Op::SetPolicy(SchedPolicy::Fifo { rt_priority: 10 }),
                Op::Run(us(1)),
                DONE,
                back(0, Some(3), 3),
            ],
            counters: 2,
        }
    );
    assert_eq!(w.tasks[0].cpus, Some(vec![2]));
}

#[test]
fn rounds_of_an_endless_phase_count_as_operations() {
    let w = task(r#""phases": {"a": {"lock": "m"}, "b": {"loop": -1, "run": 1}, "c": {"unlock": "m", "run": 1}}"#);
    assert_eq!(w.programs[0].ops[5..8], [Op::Run(us(1)), DONE, back(1, None, 5)]);
    assert_eq!(w.programs[0].ops.iter().filter(|op| **op == DONE).count(), 1);
    assert_eq!(load(&to_rtapp_json(&w).unwrap()), w);
}

#[test]
fn suspend_and_resume_use_a_condition_as_in_rt_app() {
    let w = load(
        r#"{"tasks": {"a": {"run": 1, "resume": "b"}, "b": {"suspend", "run": 1}},
        "global": {"pi_enabled": true}}"#,
    );
    assert_eq!(
        w.programs[1].ops[1..4],
        [Op::Lock(1), Op::CondWait { cond: 0, mutex: 1 }, Op::Unlock(1)]
    );
    assert_eq!(w.programs[0].ops[2..5], [Op::Lock(1), Op::Broadcast(0), Op::Unlock(1)]);
    assert_eq!(
        w.resources,
        [
            Resource::Cond { name: "b".into() },
            Resource::Mutex {
                name: "b".into(),
                priority_inheritance: true
            },
        ]
    );
}

#[test]
fn duplicates_of_events_tasks_and_phases_all_count() {
    let w = load(r#"{"tasks": {"t": {"run": 1, "run": 2}, "t": {"phases": {"p": {"run": 3}, "p": {"run": 4}}}}}"#);
    assert_eq!(w.tasks.len(), 2);
    assert_eq!(w.programs[0].ops[1..3], [Op::Run(us(1)), Op::Run(us(2))]);
    assert_eq!(
        (&w.programs[1].ops[2], &w.programs[1].ops[4]),
        (&Op::Run(us(3)), &Op::Run(us(4)))
    );
}

#[test]
fn instances_and_forks_become_tasks_and_templates() {
    let w = load(
        r#"{"tasks": {
            "child": {"instance": 0, "loop": 1, "run": 5},
            "unused": {"instance": 0, "run": 5},
            "parent": {"instance": 2, "loop": 4, "run": 1, "fork": "child", "forkagain": "child"}}}"#,
    );
    let shape: Vec<_> = w.tasks.iter().map(|t| (t.comm.as_str(), t.program, t.spawn)).collect();
    assert_eq!(shape, [("parent", 2, true), ("parent", 2, true), ("child", 0, false)]);
    let fork = Op::Fork { task: 2, thread: true };
    assert_eq!(w.programs[2].ops[2..4], [fork.clone(), fork]);
    assert_eq!(w.programs[0].ops, [Op::Run(us(5)), DONE]);
}

#[test]
fn barriers_count_the_tasks_that_use_them() {
    let w = load(r#"{"tasks": {"a": {"instance": 3, "barrier": "B", "run": 1}, "b": {"run": 1, "barrier1": "B"}}}"#);
    assert_eq!(
        w.resources,
        [Resource::Barrier {
            name: "B".into(),
            participants: 4
        }]
    );
}

#[test]
fn channels_semaphores_and_requests_are_read() {
    let w = load(
        r#"{"resources": {"p": {"type": "pipe"}, "s": {"type": "socket", "capacity": 1000},
                          "sem": {"type": "semaphore", "value": 2}, "m": {"type": "mutex"}},
            "tasks": {
              "a": {"sem_wait": "sem", "begin": "", "send": {"ref": "p", "bytes": 100}, "recv": "s", "done": 3},
              "b": {"recv": "p", "run": 5, "send": {"ref": "s", "bytes": 1}, "sem_post": "sem"}}}"#,
    );
    assert_eq!(w.unit, "requests");
    assert_eq!(
        w.programs[0].ops[1..6],
        [
            Op::SemWait(2),
            Op::Begin { arrival: false },
            Op::Send { channel: 0, bytes: 100 },
            Op::Recv(1),
            Op::Done { count: 3 },
        ]
    );
    assert!(!w.programs[1].ops.contains(&DONE));
    assert_eq!(
        w.resources[..3],
        [
            Resource::Channel {
                name: "p".into(),
                capacity: 65536,
                kind: Channel::Pipe
            },
            Resource::Channel {
                name: "s".into(),
                capacity: 1000,
                kind: Channel::Socket
            },
            Resource::Semaphore {
                name: "sem".into(),
                value: 2
            },
        ]
    );
}

#[test]
fn each_kind_of_channel_has_a_type() {
    for (name, kind) in Channel::NAMES {
        let w = load(&format!(
            r#"{{"resources": {{"c": {{"type": "{name}", "capacity": 10}}}},
                "tasks": {{
                  "a": {{"poll": "c", "recv": "c"}},
                  "b": {{"send": {{"ref": "c", "bytes": 8}}}}}}}}"#
        ));
        assert!(matches!(w.resources[0], Resource::Channel { kind: k, .. } if k == kind));
        assert!(w.programs[0].ops.contains(&Op::Poll(0)));
        assert_eq!(Channel::named(name), Some(kind));
    }
}

#[test]
fn policies_priorities_and_groups_are_read() {
    let w = load(
        r#"{"global": {"default_policy": "SCHED_RR", "duration": 2, "calibration": 100, "mem_buffer_size": 100},
            "tasks": {
              "rr": {"run": 1, "priority": 3, "sleep": 1},
              "other": {"policy": "SCHED_OTHER", "priority": -5, "mem": 4096, "taskgroup": "/g"},
              "two": {"policy": "SCHED_BATCH", "phases": {
                  "p": {"priority": 7, "taskgroup": "/h", "run": 1}, "q": {"run": 1}}}}}"#,
    );
    let policies: Vec<_> = w.tasks.iter().map(|t| (t.policy, t.cgroup)).collect();
    assert_eq!(
        policies,
        [
            (SchedPolicy::RoundRobin { rt_priority: 3 }, 0),
            (SchedPolicy::Normal { nice: -5 }, 1),
            (SchedPolicy::Batch { nice: 0 }, 0),
        ]
    );
    assert_eq!((w.tasks[1].footprint_bytes, w.tasks[1].touch_mbps), (100, None));
    assert_eq!(w.duration_ns, Some(2_000_000_000));
    assert_eq!(
        w.programs[2].ops[2..4],
        [Op::SetPolicy(SchedPolicy::Batch { nice: 7 }), Op::SetCgroup(2)]
    );
    let paths: Vec<_> = w.cgroups.iter().map(|g| g.path.as_str()).collect();
    assert_eq!(paths, ["/", "/g", "/h"]);
}

#[test]
fn one_absolute_use_makes_a_timer_absolute() {
    let w =
        task(r#""timer0": {"ref": "tick", "period": 5}, "timer1": {"ref": "tick", "period": 6, "mode": "absolute"}"#);
    let timer = |period| Op::Timer {
        timer: 0,
        period,
        absolute: true,
    };
    assert_eq!(w.programs[0].ops[2..4], [timer(5000), timer(6000)]);
}

/// Each case has a file and a part of the expected message. Some parts contain the position.
#[test]
fn errors_say_what_is_wrong_and_where() {
    let cases: &[(&str, &str)] = &[
        (r#"{}"#, "x.json:1:1: \"description\" needs \"tasks\""),
        (r#"[]"#, "takes an object, found an array"),
        (
            r#"{"task": {}}"#,
            "x.json:1:2: unknown key \"task\" in \"description\"\n  hint: did you mean 'tasks'?",
        ),
        (r#"{"tasks": {}}"#, "1:2: \"tasks\" is empty"),
        (r#"{"tasks": {"t": {}}}"#, "1:12: \"t\" has no events"),
        (r#"{"tasks": {"t": {"phases": {}}}}"#, "\"phases\" is empty"),
        (
            r#"{"tasks": {"t": {"phases": {"p": {"loop": 1}}}}}"#,
            "1:29: \"p\" has no events",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "phases": {"p": {"run": 1}}}}}"#,
            "event \"run\" is outside of \"phases\"",
        ),
        (
            r#"{"tasks": {"t": {"run": "1"}}}"#,
            "1:25: \"run\" takes an integer, found a string",
        ),
        (
            r#"{"tasks": {"t": {"run": -1}}}"#,
            "-1 is out of range\n  hint: expected 0 to 2147483647 us",
        ),
        (
            r#"{"tasks": {"t": {"run": 1e3}}}"#,
            "found a number with a fraction or exponent",
        ),
        (r#"{"tasks": {"t": {"run": 3000000000}}}"#, "out of range"),
        (
            r#"{"tasks": {"t": {"rnu": 1}}}"#,
            "1:18: unknown key \"rnu\" in \"t\"\n  hint: did you mean 'run'?",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "instances": 3}}}"#,
            "did you mean 'instance'?",
        ),
        (r#"{"tasks": {"t": {"run": 1, "instance": -1}}}"#, "out of range"),
        (r#"{"tasks": {"t": {"run": 1, "instance": 0}}}"#, "no task starts"),
        (r#"{"tasks": {"t": {"run": 1, "loop": 0}}}"#, "1:36: \"loop\" is 0"),
        (
            r#"{"tasks": {"t": {"run": 1, "loop": 2, "loop": 3}}}"#,
            "1:39: \"loop\" occurs twice",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "cpus": []}}}"#,
            "1:36: \"cpus\" contains no CPU",
        ),
        (r#"{"tasks": {"t": {"run": 1, "cpus": [0, -1]}}}"#, "1:40"),
        (
            r#"{"tasks": {"t": {"run": 1, "priority": 20}}}"#,
            "1:40: nice 20 is out of range",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "policy": "SCHED_FIFO", "priority": 0}}}"#,
            "real-time priority 0 is out of",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "policy": "SCHED_RR", "priority": -4}}}"#,
            "use 1 to 99 for SCHED_FIFO and SCHED_RR",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "policy": "SCHED_FIF"}}}"#,
            "did you mean 'SCHED_FIFO'?",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "policy": "SCHED_DEADLINE"}}}"#,
            "the deadline class is not simulated",
        ),
        (
            r#"{"tasks": {"t": {"phases": {"p": {"run": 1, "dl-runtime": 5}}}}}"#,
            "1:45: \"dl-runtime\" of a phase needs a \"policy\"",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "util_min": 512}}}"#,
            "utilisation clamps are not modelled",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "nodes_membind": [0]}}}"#,
            "memory binding is not modelled",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "taskgroup": "g"}}}"#,
            "hint: start it with '/'",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "policy": "SCHED_RR", "taskgroup": "/g"}}}"#,
            "a real-time task cannot be in taskgroup",
        ),
        (
            r#"{"tasks": {"t": {"exec": 1, "period": 2}}}"#,
            "\"exec\" belongs to the format before rt-app 1.0",
        ),
        (
            r#"{"tasks": {"t": {"period": 2, "deadline": 2}}}"#,
            "\"deadline\" belongs to the format before rt-app 1.0",
        ),
        (
            r#"{"tasks": {"t": {"instance": 2, "timer": {"period": 5}}}}"#,
            "timer \"unknown\" is shared by several tasks",
        ),
        (
            r#"{"tasks": {"t": {"timer": {"ref": "x", "period": 5, "mode": "abs"}}}}"#,
            "there is no timer mode \"abs\"",
        ),
        (
            r#"{"tasks": {"t": {"timer": {"ref": "x", "period": 5, "mod": "abs"}}}}"#,
            "did you mean 'mode'?",
        ),
        (
            r#"{"tasks": {"t": {"instance": 2, "timer": {"ref": "x", "period": 5}}}}"#,
            "1:50: timer \"x\" is shared by several tasks\n  hint: \"unique_x\"",
        ),
        (
            r#"{"tasks": {"t": {"timer": {"ref": "x", "period": 5}}, "u": {"timer": {"ref": "x", "period": 5}}}}"#,
            "shared",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "fork": ""}}}"#,
            "\"fork\" is an empty name",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "signal"}}}"#,
            "\"signal\" takes a string, found nothing",
        ),
        (
            r#"{"tasks": {"t": {"lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m"}}}"#,
            "1:31: waits for 'c', but no task signals",
        ),
        (
            r#"{"tasks": {"t": {"suspend": "t", "run": 1}}}"#,
            "1:18: waits for 't', but no task signals or resumes it\n  hint: a \"suspend\" waits for a \"resume\" of its \
             own task, whatever its string is: add \"resume\" : \"t\" to another task",
        ),
        (
            r#"{"tasks": {"t": {"wait": {"ref": "c", "mutex": "m"}, "signal": "c"}}}"#,
            "waits with mutex 'm', which the task does not hold",
        ),
        (
            r#"{"tasks": {"t": {"wait": {"ref": "c"}}}}"#,
            "waits with mutex 'unknown', which the task does not hold",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "lock": "m"}}}"#,
            "'m' is not held in every round",
        ),
        (
            r#"{"tasks": {"t": {"loop": 1, "run": 1, "lock": "m"}}}"#,
            "1:12: the task ends while it holds 'm'",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "lock": "m", "lock": "m"}}}"#,
            "1:41: 'm' is locked by a task that already holds it",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "unlock": "m"}}}"#,
            "'m' is unlocked but not held",
        ),
        (
            r#"{"tasks": {"t": {"run": 0}}}"#,
            "1:12: an endless loop in which no time passes",
        ),
        (
            r#"{"tasks": {"t": {"lock": "m", "unlock": "m"}}}"#,
            "an endless loop in which no time passes",
        ),
        (
            r#"{"tasks": {"t": {"run": 1, "fork": "u"}}}"#,
            "1:36: the forked task \"u\" does not exist",
        ),
        (r#"{"tasks": {"t": {"fork": "t"}}}"#, "no time passes"),
        (
            r#"{"tasks": {"t": {"recv": "p"}}}"#,
            "no pipe or socket \"p\"\n  hint: declare it",
        ),
        (
            r#"{"resources": {"p": {"type": "pipe"}}, "tasks": {"t": {"recv": "p"}}}"#,
            "waits for 'p', but no task sends to it",
        ),
        (
            r#"{"resources": {"p": {"type": "pipe"}}, "tasks": {"t": {"send": {"ref": "p", "bytes": 1}}}}"#,
            "but no task receives from it",
        ),
        (
            r#"{"resources": {"p": {"type": "pipe", "capacity": 5}}, "tasks": {"t": {"send": {"ref": "p", "bytes": 6}, "recv": "p"}}}"#,
            "a message of 6 bytes does not fit 'p'",
        ),
        (
            r#"{"resources": {"p": {"type": "pip"}}, "tasks": {"t": {"run": 1}}}"#,
            "did you mean 'pipe'?",
        ),
        (
            r#"{"resources": {"p": {"type": "mutex", "capacity": 5}}, "tasks": {"t": {"run": 1}}}"#,
            "a mutex has no \"capacity\"",
        ),
        (
            r#"{"resources": {"p": {}}, "tasks": {"t": {"run": 1}}}"#,
            "\"p\" needs \"type\"",
        ),
        (r#"{"tasks": {"t": {"sem_wait": "s"}}}"#, "no task posts it"),
        (r#"{"tasks": {"t": {"run": 1, "done": 0}}}"#, "out of range"),
        (
            r#"{"tasks": {"t": {"run": 1, "begin": "now"}}}"#,
            "\"now\" is not the beginning of a request",
        ),
        (
            r#"{"global": {"duratoin": 1}, "tasks": {"t": {"run": 1}}}"#,
            "did you mean 'duration'?",
        ),
        (
            r#"{"global": {"duration": 3000000000}, "tasks": {"t": {"run": 1}}}"#,
            "out of range",
        ),
        (
            r#"{"global": {"gnuplot": 1}, "tasks": {"t": {"run": 1}}}"#,
            "\"gnuplot\" takes true or false, found an integer",
        ),
        (
            r#"{"global": {"calibration": "cpu0"}, "tasks": {"t": {"run": 1}}}"#,
            "takes \"CPU<number>\"",
        ),
        (
            r#"{"tasks": {"t": {"phases": {"p": {"priority": 5, "run": 1}, "q": {"policy": "SCHED_RR", "run": 1}}}}}"#,
            "differs between rounds",
        ),
    ];
    for (text, expected) in cases {
        let message = error(text);
        assert!(message.contains(expected), "{text}\n{message}");
        assert!(message.starts_with("x.json"), "{message}");
    }
}

#[test]
fn written_files_are_read_back_unchanged() {
    let texts = [
        r#"{"tasks": {"t": {"run": 1, "runtime": 2, "sleep": 3, "yield": "", "mem": 5, "iorun": 6}}}"#,
        r#"{"tasks": {"t\"\n\u00e4": {"loop": 1, "run": 1}}, "global": {"duration": 7}}"#,
        r#"{"tasks": {"t": {"delay": 4, "loop": 2, "cpus": [1], "phases": {
             "a": {"loop": 9, "cpus": [2, 3], "run": 1, "timer": {"ref": "x", "period": 2, "mode": "absolute"}},
             "b": {"taskgroup": "/g", "policy": "SCHED_IDLE", "run": 1},
             "c": {"loop": -1, "policy": "SCHED_BATCH", "priority": 3, "dl-runtime": 500, "run": 1}}}}}"#,
        r#"{"tasks": {"t": {"priority": 3, "dl-runtime": 100000, "run": 1}}}"#,
        r#"{"tasks": {"a": {"instance": 3, "priority": 5, "lock": "m", "sync": {"ref": "c", "mutex": "m"}, "unlock": "m"},
                      "b": {"suspend": "s", "resume": "b", "signal": "c", "broad": "c", "run": 1},
                      "e": {"lock": "b", "wait": {"ref": "b", "mutex": "b"}, "unlock": "b"},
                      "d": {"policy": "SCHED_FIFO", "barrier": "B", "barrier2": "B", "run": 1}},
            "global": {"pi_enabled": true}}"#,
        r#"{"tasks": {"p": {"loop": 3, "fork": "c", "fork1": "p", "run": 1},
                      "c": {"instance": 0, "loop": 1, "mem": 9000}}, "global": {"mem_buffer_size": 100}}"#,
        r#"{"resources": {"p": {"type": "pipe"}, "q": {"type": "socket", "capacity": 9}, "s": {"type": "semaphore", "value": 3}},
            "tasks": {"a": {"phases": {"x": {"loop": 3, "send": {"ref": "p", "bytes": 9}, "recv": "q", "sem_wait": "s"},
                                       "y": {"begin": "arrival", "done": 4}}},
                      "b": {"recv": "p", "send": {"ref": "q", "bytes": 9}, "sem_post": "s", "done": 1}}}"#,
    ];
    for text in texts {
        let first = load(text);
        let written = to_rtapp_json(&first).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(load(&written), first, "{written}");
    }
}

#[test]
fn tasks_that_never_exist_are_not_written() {
    let text = r#"{"tasks": {
        "run": {"run": 5, "fork": "child"},
        "child": {"instance": 0, "loop": 1, "run": 5, "fork": "grandchild"},
        "grandchild": {"instance": 0, "loop": 1, "run": 5},
        "maker": {"instance": 0, "run": 5, "fork": "never"},
        "never": {"instance": 0, "loop": 1, "run": 5}}}"#;
    let written = to_rtapp_json(&load(text)).unwrap();
    for (name, is_written) in [
        ("child", true),
        ("grandchild", true),
        ("maker", false),
        ("never", false),
    ] {
        assert_eq!(written.contains(&format!("\"{name}\" : {{")), is_written, "{written}");
    }
    assert_eq!(to_rtapp_json(&load(&written)).unwrap(), written);
}

#[test]
fn errors_name_what_cannot_be_written() {
    let cases: [(&str, &str); 5] = [
        (
            "hackbench",
            "task 'receiver': it is forked, but several tasks have this name",
        ),
        ("closed:n=1,compute=1500ns", "a time of 1500 ns"),
        ("closed:n=1,think=5ms,think_dist=M", "a random time"),
        ("closed:n=1,start_cpu=0", "a CPU on which it is created"),
        ("closed:n=1,duration=1500ms", "a duration of 1500000000 ns"),
    ];
    for (spec, expected) in cases {
        let workload = crate::generator::generate(spec).unwrap();
        let message = to_rtapp_json(&workload).expect_err(spec).to_string();
        assert!(message.contains(expected) && message.contains("hint"), "{message}");
    }
    let mut threads = crate::generator::generate("closed:n=40,compute=1ms,footprint=2k,touch=9000").unwrap();
    // Tasks of an rt-app file are threads of one process.
    threads.tasks.iter_mut().for_each(|task| task.process = 0);
    let again = load(&to_rtapp_json(&threads).unwrap());
    assert_eq!(again.tasks.len(), 40);
    let first = &again.tasks[0];
    assert_eq!((first.footprint_bytes, first.touch_mbps), (2048, Some(9000)));
}

#[test]
fn rare_properties_of_tasks_are_read_and_written() {
    let text = r#"{ "tasks" : {
        "main" : { "uid" : 1000, "slack" : 50, "loop" : 3, "run" : 10 },
        "a" : { "process" : "server", "parent" : "main", "instance" : 2, "loop" : 1, "run" : 10 },
        "b" : { "process" : "server", "loop" : 1, "migrate_disable" : "", "run" : 10, "migrate_enable" : "" },
        "k" : { "kthread" : true, "instance" : 2, "loop" : 1, "run" : 10 }
    } }"#;
    let workload = super::read(text, "file.json").unwrap();
    let processes: Vec<u32> = workload.tasks.iter().map(|task| task.process).collect();
    assert_eq!(processes, [0, 1, 1, 1, 2, 3]);
    let attributes: Vec<_> = workload.tasks.iter().map(|task| task.attributes.clone()).collect();
    assert_eq!(
        (attributes[0].uid, attributes[0].timer_slack_ns, attributes[1].parent),
        (Some(1000), Some(50_000), Some(0))
    );
    assert!(attributes[4].kthread && attributes[5].kthread && !attributes[3].kthread);
    assert_eq!(workload.programs[2].ops[0], Op::MigrateDisable);
    let written = super::to_rtapp_json(&workload).unwrap();
    let again = super::read(&written, "file.json").unwrap();
    assert_eq!(
        (again.tasks, again.programs),
        (workload.tasks, workload.programs),
        "{written}"
    );
}

#[test]
fn wrong_properties_of_tasks_are_refused() {
    let refused = |task: &str| {
        let text = format!(
            r#"{{ "tasks" : {{ "main" : {{ "loop" : 1, "run" : 1 }}, "b" : {{ {task} "loop" : 2, "run" : 1 }} }} }}"#
        );
        super::read(&text, "file.json").unwrap_err().to_string()
    };
    for (task, message) in [
        (r#""parent" : "mian","#, "did you mean 'main'?"),
        (r#""parent" : "b","#, "the parent \"b\" is not an earlier task"),
        (r#""uid" : -1,"#, "expected 0 to 4294967294"),
        (r#""uid" : 4294967295,"#, "out of range"),
        (r#""uid" : "root","#, "found a string"),
        (r#""slack" : -5,"#, "\"slack\""),
        (r#""kthread" : 1,"#, "\"kthread\""),
        (
            r#""kthread" : true, "process" : "p","#,
            "a kernel thread is a process of its own",
        ),
        (r#""proces" : "p","#, "did you mean 'process'?"),
        (r#""migrate_enable" : "","#, "it was not disabled"),
        (
            r#""migrate_disable" : "","#,
            "a round of a loop changes whether migration is disabled",
        ),
        (r#""migrate_disable" : 1,"#, "\"migrate_disable\" takes a string"),
    ] {
        let error = refused(task);
        assert!(error.contains(message), "{task}: {error}");
    }
    let text = r#"{ "tasks" : { "a" : { "instance" : 0, "loop" : 1, "run" : 1 }, "b" : { "parent" : "a", "loop" : 1, "run" : 1 } } }"#;
    let error = super::read(text, "file.json").unwrap_err().to_string();
    assert!(error.contains("the parent \"a\" is never created"), "{error}");
}
