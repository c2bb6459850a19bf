// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the table of generators and of each generator's workload.

use super::{Unit, generate, generators};
use crate::program::{Channel, Dist, Op, Resource, SchedPolicy, Score, Workload};
use std::collections::BTreeMap;

fn make(spec: &str) -> Workload {
    generate(spec).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn defaults_and_range_limits_are_valid_values() {
    for generator in generators() {
        let workload = make(generator.name);
        assert_eq!(workload.name, generator.name);
        for parameter in generator.parameters {
            let mut values = vec![parameter.default, parameter.range.0];
            if let Unit::Choice(words) = parameter.unit {
                values = words.to_vec();
                assert!(words.contains(&parameter.default));
            }
            for value in values.into_iter().filter(|value| !value.is_empty()) {
                make(&format!("{}:{}={value}", generator.name, parameter.name));
            }
            assert!(!parameter.meaning.is_empty() && !parameter.expected().is_empty());
        }
    }
}

#[test]
fn closed_creates_all_tasks_on_one_cpu() {
    let w = make("closed:n=7,compute=20ms,think=5ms,start_cpu=0,duration=2s,footprint=64k");
    assert_eq!((w.tasks.len(), w.duration_ns), (7, Some(2_000_000_000)));
    assert!(
        w.tasks
            .iter()
            .all(|t| t.start_cpu == Some(0) && t.footprint_bytes == 65_536)
    );
    assert_eq!(
        w.programs[0].ops[1..5],
        [
            Op::Begin { arrival: false },
            Op::Run(Dist::Fixed(20_000_000)),
            Op::Done { count: 1 },
            Op::Sleep(Dist::Fixed(5_000_000)),
        ]
    );
    assert!(
        !make("closed").programs[0]
            .ops
            .iter()
            .any(|op| matches!(op, Op::Sleep(_)))
    );
}

#[test]
fn more_tasks_than_a_machine_takes_are_refused() {
    // The error must occur before the tasks are created, because this number of tasks would use up
    // the memory.
    let placement = vec!["100000"; 100_000].join("/");
    let error = generate(&format!("closed:placement={placement}")).expect_err("10^10 tasks are refused");
    assert!(
        error
            .to_string()
            .contains("places 10000000000 tasks, more than 1000000")
    );
    let error = generate("schbench:message_threads=1000,workers=1000").expect_err("10^6 tasks are refused");
    assert!(error.to_string().contains("1001001 tasks are too many"), "{error}");
}

#[test]
fn closed_places_the_given_number_on_each_cpu() {
    let cpus = |spec: &str| -> Vec<Option<u32>> { make(spec).tasks.iter().map(|task| task.start_cpu).collect() };
    assert_eq!(cpus("closed:placement=7/0"), [Some(0); 7]);
    assert_eq!(cpus("closed:placement=2/0/1"), [Some(0), Some(0), Some(2)]);
    assert_eq!(cpus("closed:n=4,placement=1/2"), [Some(0), Some(1), Some(1), None]);
}

/// Counts the messages that all tasks together send and receive through each channel and semaphore.
/// Assumes that each task is created once and that loops do not nest.
fn messages(w: &Workload) -> BTreeMap<u32, (u64, u64)> {
    let mut passed: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for task in &w.tasks {
        let ops = &w.programs[task.program as usize].ops;
        for (at, op) in ops.iter().enumerate() {
            let rounds = ops[at..].iter().find_map(|op| match op {
                Op::LoopBack {
                    times: Some(times),
                    target,
                    ..
                } if *target as usize <= at => Some(*times),
                _ => None,
            });
            let rounds = rounds.unwrap_or(1);
            match op {
                Op::Send { channel: id, .. } | Op::SemPost(id) => passed.entry(*id).or_default().0 += rounds,
                Op::Recv(id) | Op::SemWait(id) => passed.entry(*id).or_default().1 += rounds,
                _ => {}
            }
        }
    }
    passed
}

#[test]
fn chat_sends_each_message_to_all_others_in_the_room() {
    let w = make("chat:rooms=2,messages=100");
    assert_eq!(w.unit, "messages");
    // The two main threads create all other threads.
    let (mains, threads) = w.tasks.split_at(2);
    assert!(mains.iter().all(|task| task.spawn) && threads.iter().all(|task| !task.spawn));
    let made = |main: usize| {
        let ops = w.programs[main].ops.iter();
        let made = ops.filter_map(|op| match op {
            Op::Fork { task, thread: true } => Some(w.tasks[*task as usize].comm.as_str()),
            _ => None,
        });
        made.fold(BTreeMap::new(), |mut count, comm| {
            *count.entry(comm).or_insert(0) += 1;
            count
        })
    };
    assert_eq!(made(0), BTreeMap::from([("client-send", 40), ("client-recv", 40)]));
    assert_eq!(made(1), BTreeMap::from([("server-send", 40), ("server-recv", 40)]));
    let passed = messages(&w);
    // Each client thread posts the start semaphore for the next one. The last post has no receiver.
    let equal = |(id, (sent, received)): (&u32, &(u64, u64))| *sent == *received + u64::from(*id == 0);
    assert!(passed.iter().all(equal), "{passed:?}");
    let total = |part: &str| -> u64 {
        let named = |id: &u32| w.resources[*id as usize].name().ends_with(part);
        passed
            .iter()
            .filter(|(id, _)| named(id))
            .map(|(_, (sent, _))| sent)
            .sum()
    };
    // In each room, 20 users send 100 messages, and 19 others receive each of them.
    assert_eq!((total("to-server"), total("queue")), (2 * 20 * 100, 2 * 20 * 100));
    assert_eq!(total("to-client"), 2 * 38_000);
    let capacity = |spec| match &make(spec).resources[3] {
        Resource::Channel { capacity, kind, .. } => (*capacity, *kind),
        other => panic!("{other:?}"),
    };
    assert_eq!(capacity("chat"), (81_920, Channel::Tcp));
    assert_eq!(capacity("chat:buffer=1k,bytes=4k"), (4096, Channel::Tcp));
    let nice = |spec, nice| {
        make(spec)
            .tasks
            .iter()
            .all(|task| task.policy == SchedPolicy::Normal { nice })
    };
    assert!(nice("chat", 0) && nice("chat:nice=19", 19));
}

#[test]
fn mkbench_forks_all_compiles_and_a_link() {
    let forks = |files: u64| {
        let w = make(&format!("mkbench:builds=3,jobs=5,files={files},reads=2"));
        let makes: Vec<_> = w.tasks.iter().filter(|task| task.spawn).collect();
        assert_eq!((makes.len(), w.score), (3, Score::CompletionTime));
        let ops = &w.programs[makes[2].program as usize].ops;
        assert!(ops.contains(&Op::WaitChild { left: 4 }));
        assert_eq!(ops.last(), Some(&Op::WaitChildren));
        let rounds = ops.iter().position(|op| matches!(op, Op::LoopBack { .. }));
        let times = rounds.map_or(1, |at| match &ops[at] {
            Op::LoopBack { times, .. } => times.expect("the loop is not endless"),
            _ => unreachable!(),
        });
        let is_fork = |op: &&Op| matches!(op, Op::Fork { thread: false, .. });
        let within = ops[..rounds.unwrap_or(0)].iter().filter(is_fork).count() as u64;
        let compile = &w.programs[1].ops;
        assert_eq!(compile.iter().filter(|op| matches!(op, Op::Io { .. })).count(), 2);
        within * (times - 1) + ops.iter().filter(is_fork).count() as u64
    };
    assert_eq!([1, 40, 1200].map(forks), [2, 41, 1201]);
}

#[test]
fn a_compiler_driver_forks_compiler_and_assembler() {
    let w = make("mkbench:builds=2,jobs=5,files=40,reads=3,driver=yes");
    // The driver, the compiler and the assembler of the third compile.
    let parts = &w.tasks[7..10];
    assert_eq!([0, 1, 2].map(|part| parts[part].comm.as_str()), ["sh", "gcc", "gcc"]);
    let ops = |part: usize| &w.programs[parts[part].program as usize].ops;
    let fork = |task| Op::Fork { task, thread: false };
    let forks = [fork(8), Op::WaitChildren, fork(9), Op::WaitChildren];
    assert!(ops(0).windows(4).any(|window| window == forks));
    let names = |part: usize| {
        let name = |op: &Op| match op {
            Op::Exec { comm } => Some(comm.clone()),
            _ => None,
        };
        ops(part).iter().filter_map(name).collect::<Vec<_>>()
    };
    assert_eq!([0, 1, 2].map(names), [["gcc"], ["cc1"], ["as"]]);
    let made = &w.programs[w.tasks.last().expect("make is the last task").program as usize].ops;
    assert!(made.contains(&fork(7)) && !made.contains(&fork(8)));
}

#[test]
fn a_build_from_the_page_cache_does_not_wait_for_the_disk() {
    let waits = |spec: &str| {
        let w = make(spec);
        let mut ops = w.programs.iter().flat_map(|program| &program.ops);
        ops.any(|op| matches!(op, Op::Io { .. }))
    };
    for driver in ["no", "yes"] {
        assert!(waits(&format!("mkbench:driver={driver}")));
        assert!(!waits(&format!("mkbench:driver={driver},flush=no")));
    }
}

#[test]
fn the_parent_of_lat_proc_can_go_on_after_its_fork() {
    let w = make("lat_proc:operation=shell,after=20us");
    let goes_on = |program: &crate::Program| {
        let after = [Op::Run(Dist::Fixed(20_000)), Op::WaitChildren];
        program.ops.windows(2).any(|window| window == after)
    };
    assert_eq!(
        [0, 1, 2].map(|program| goes_on(&w.programs[program])),
        [true, false, true]
    );
}

#[test]
fn lat_proc_forks_and_executes_as_requested() {
    let forks = |operation: &str| {
        let w = make(&format!("lat_proc:operation={operation}"));
        assert_eq!(w.score, Score::TimePerOperation);
        let ops = || w.programs.iter().flat_map(|program| &program.ops);
        let count = |is: fn(&Op) -> bool| ops().filter(|op| is(op)).count();
        (
            count(|op| matches!(op, Op::Fork { thread: false, .. })),
            count(|op| matches!(op, Op::Exec { .. })),
        )
    };
    assert_eq!([forks("fork"), forks("exec"), forks("shell")], [(1, 0), (1, 1), (2, 2)]);
}

#[test]
fn lat_ctx_is_a_ring() {
    let w = make("lat_ctx:processes=5,size_kb=16,rounds=30");
    assert_eq!(w.tasks.len(), 5);
    assert!(w.tasks.iter().all(|task| task.footprint_bytes == 16_384));
    let passed = messages(&w);
    assert_eq!(passed.len(), 5);
    // The token passes once more before the measurement begins.
    assert!(passed.values().all(|&passed| passed == (31, 31)));
    let children: Vec<bool> = w.tasks.iter().map(|task| task.spawn).collect();
    assert_eq!(children, [true, false, false, false, false]);
    let memory = |spec: &str| make(spec).programs[0].ops.contains(&Op::Mem { bytes: 16_384 });
    assert!(memory("lat_ctx:size_kb=16") && !memory("lat_ctx"));
}

#[test]
fn boost_waits_for_its_resource() {
    let waits_with = |resource: &str| {
        let w = make(&format!("boost:resource={resource},requests=9"));
        let on_cpu = |task: &&crate::TaskSpec| task.cpus == Some(vec![0]);
        assert_eq!(w.tasks.iter().filter(on_cpu).count(), 2);
        assert_eq!(w.tasks[0].policy, SchedPolicy::Normal { nice: 1 });
        assert_eq!(w.programs[0].ops[2], Op::BeginWoken);
        assert!(messages(&w).values().all(|&passed| passed == (9, 9)));
        (w.programs[0].ops[1].clone(), w.tasks.len())
    };
    let length = Dist::Fixed(1_000_000_000);
    assert_eq!(waits_with("none"), (Op::Interval { timer: 0, length }, 2));
    assert_eq!(waits_with("semaphore"), (Op::SemWait(0), 3));
    assert_eq!(waits_with("network"), (Op::Recv(0), 3));
}

#[test]
fn schbench_has_workers_for_each_message_thread() {
    let w = make("schbench:message_threads=3,workers=4,footprint=256k");
    let footprints: u64 = w.tasks.iter().map(|task| task.footprint_bytes).sum();
    assert_eq!(footprints, 12 * 262_144, "only the workers have a working set");
    let named = |comm: &str| w.tasks.iter().filter(|task| task.comm == comm).count();
    assert_eq!((named("message"), named("worker")), (3, 12));
    assert!(w.tasks.iter().all(|task| task.process == 0));
    // The main thread creates the message threads, and they create their workers.
    assert_eq!(w.tasks.iter().filter(|task| task.spawn).count(), 1);
    let forks = |task: usize| -> Vec<u32> {
        let ops = &w.programs[w.tasks[task].program as usize].ops;
        let fork = |op: &Op| match op {
            Op::Fork { task, thread: true } => Some(*task),
            _ => None,
        };
        ops.iter().filter_map(fork).collect()
    };
    assert_eq!((forks(0), forks(6)), (vec![1, 6, 11], vec![7, 8, 9, 10]));
    // A message thread wakes the workers of all reports that have arrived.
    assert!(w.programs[1].ops.contains(&Op::Relay { from: 0, to: 1 }));
}

#[test]
fn schbench_can_report_either_of_its_latencies() {
    let begin = |spec: &str| {
        let ops = make(spec).programs[2].ops.clone();
        let at = ops.iter().position(|op| matches!(op, Op::SemWait(_)));
        ops[at.expect("a worker waits") + 1..][..3].to_vec()
    };
    let (work, done) = (Op::Run(Dist::Fixed(1_000_000)), Op::Done { count: 1 });
    assert_eq!(
        begin("schbench"),
        [Op::Begin { arrival: false }, work.clone(), done.clone()]
    );
    assert_eq!(begin("schbench:response=wakeup"), [Op::BeginPosted, done, work]);
}

#[test]
fn schbench_binds_threads_as_with_auto() {
    let w = make("schbench:message_threads=2,workers=3,auto_pin=6");
    let affinity = |task: usize| w.programs[w.tasks[task].program as usize].ops[0].clone();
    // Tasks 1 and 5 are message threads, each followed by its workers.
    for (message, cpu) in [(1, 0), (5, 1)] {
        assert_eq!(affinity(message), Op::SetAffinity(Some(vec![cpu])));
        for worker in message + 1..=message + 3 {
            assert_eq!(
                w.tasks[worker].cpus,
                Some(vec![cpu]),
                "inherited from the message thread"
            );
            assert_eq!(affinity(worker), Op::SetAffinity(Some(vec![2, 3, 4, 5])));
        }
    }
    let error = generate("schbench:message_threads=3,auto_pin=3").expect_err("no CPU is left");
    assert!(error.to_string().contains("leaves no CPU for the workers"), "{error}");
}

#[test]
fn schbench_workers_sleep_after_or_before_they_compute() {
    let worker = |spec: &str| {
        let ops = make(spec).programs[2].ops.clone();
        let at = ops.iter().position(|op| matches!(op, Op::SemWait(_)));
        ops[at.expect("a worker waits") + 1..][..4].to_vec()
    };
    let begin = Op::Begin { arrival: false };
    let (work, done) = (Op::Run(Dist::Fixed(1_000_000)), Op::Done { count: 1 });
    let sleep = Op::Sleep(Dist::Fixed(100_000));
    assert_eq!(
        worker("schbench"),
        [begin.clone(), work.clone(), done.clone(), sleep.clone()]
    );
    // The request latency then contains the sleep.
    assert_eq!(
        worker("schbench:pause=before"),
        [begin, sleep.clone(), work.clone(), done.clone()]
    );
    assert_eq!(
        worker("schbench:pause=before,response=wakeup"),
        [Op::BeginPosted, done, sleep, work]
    );
}

#[test]
fn netperf_exchanges_a_request_and_a_response_in_each_pair() {
    let w = make("netperf:pairs=3,request=64,response=1k,stack=2us");
    let names: Vec<&str> = w.tasks.iter().map(|task| task.comm.as_str()).collect();
    assert_eq!(names, ["netperf", "netserver"].repeat(3));
    let processes: Vec<u32> = w.tasks.iter().map(|task| task.process).collect();
    assert_eq!(processes, [0, 1, 2, 3, 4, 5]);
    let stack = Op::Run(Dist::Fixed(2_000));
    let send = |channel, bytes| Op::Send { channel, bytes };
    // Loops begin with a step that sets the counter to 0.
    assert_eq!(
        w.programs[2].ops[1..6],
        [
            Op::Begin { arrival: false },
            stack.clone(),
            send(2, 64),
            Op::Recv(3),
            Op::Done { count: 1 }
        ]
    );
    assert_eq!(w.programs[3].ops[1..4], [Op::Recv(2), stack, send(3, 1024)]);
    let kind = |spec| match make(spec).resources[0] {
        Resource::Channel { kind, .. } => kind,
        ref other => panic!("{other:?}"),
    };
    assert_eq!(kind("netperf"), Channel::Datagram);
    assert_eq!(kind("netperf:test=TCP_RR"), Channel::Tcp);
    // The machine has a cost for TCP.
    let w = make("netperf:test=TCP_RR");
    assert!(!w.programs[0].ops.iter().any(|op| matches!(op, Op::Run(_))));
}

#[test]
fn the_mutexes_of_sysbench_threads_take_turns() {
    let w = make("sysbench_threads:threads=5,locks=3,yields=7");
    let programs: Vec<u32> = w.tasks.iter().map(|task| task.program).collect();
    assert_eq!(programs, [0, 1, 2, 0, 1]);
    let locked: Vec<u32> = (w.programs[1].ops.iter())
        .filter_map(|op| match op {
            Op::Lock(mutex) => Some(*mutex),
            _ => None,
        })
        .collect();
    assert_eq!(locked, [1, 2, 0]);
    let rounds = |op: &&Op| matches!(op, Op::LoopBack { times: Some(7), .. });
    assert_eq!(w.programs[1].ops.iter().filter(rounds).count(), 3);
    // Fewer threads than mutexes need fewer programs.
    assert_eq!(make("sysbench_threads:threads=2,locks=8").programs.len(), 2);
}

#[test]
fn sysbench_mutex_acquires_as_often_as_asked() {
    for locks in [5, 32, 70] {
        let w = make(&format!("sysbench_mutex:threads=2,mutexes=10,locks={locks}"));
        assert_eq!((w.resources.len(), w.score), (10, Score::CompletionTime));
        for program in &w.programs {
            let mut acquired = 0;
            for (at, op) in program.ops.iter().enumerate() {
                let Op::Lock(_) = op else { continue };
                let rounds = program.ops[at..].iter().find_map(|op| match op {
                    Op::LoopBack { times, target, .. } if *target as usize <= at => *times,
                    _ => None,
                });
                acquired += rounds.unwrap_or(1);
            }
            assert_eq!(acquired, locks);
        }
        assert_ne!(w.programs[0], w.programs[1], "the threads choose different mutexes");
    }
}

#[test]
fn taobench_passes_misses_to_slow_threads() {
    let w = make("taobench:fast=2,slow=3,miss_every=4,backend=0");
    let names: Vec<&str> = w.tasks.iter().map(|task| task.comm.as_str()).collect();
    assert_eq!(names, ["clients", "fast", "fast", "slow", "slow", "slow"]);
    assert_eq!(w.tasks[0].policy, SchedPolicy::Fifo { rt_priority: 99 });
    let fast = &w.programs[1].ops;
    // Three hits and then one miss.
    assert!(fast.contains(&Op::LoopBack {
        counter: 1,
        times: Some(3),
        target: 2
    }));
    let waits = fast.iter().filter(|op| **op == Op::SemWait(0)).count();
    let passed = fast.iter().filter(|op| **op == Op::SemPost(1)).count();
    assert_eq!((waits, passed), (2, 1));
    let sleeps = |spec: &str| make(spec).programs[2].ops.iter().any(|op| matches!(op, Op::Sleep(_)));
    assert!(sleeps("taobench") && !sleeps("taobench:backend=0"));
    assert!(
        !make("taobench:miss_every=1").programs[1]
            .ops
            .contains(&Op::Done { count: 1 })
    );
}

#[test]
fn abstract_loads_can_begin_by_fork() {
    for generator in ["closed", "sleepers"] {
        let start = make(&format!("{generator}:n=3"));
        let fork = make(&format!("{generator}:n=3,begin=fork"));
        assert_eq!((start.tasks.len(), fork.tasks.len()), (3, 4));
        let spawned: Vec<bool> = fork.tasks.iter().map(|task| task.spawn).collect();
        assert_eq!(spawned, [false, false, false, true]);
        let [start, fork] = [&start.programs[0].ops, &fork.programs[0].ops];
        assert_eq!(fork[..2], [Op::Send { channel: 0, bytes: 1 }, Op::Poll(1)]);
        assert_eq!(fork.len(), start.len() + 2);
        // The loop begins at the same step as without `begin=fork`.
        let target = |ops: &[Op]| match ops.last() {
            Some(Op::LoopBack { target, .. }) => ops[*target as usize].clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(target(start), target(fork));
    }
}

/// Returns the names in the first column of the table that follows a text in docs/model.md.
fn listed(before: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/model.md");
    let text = std::fs::read_to_string(path).expect("the page exists");
    let (_, after) = text.split_once(before).expect("the page has this text");
    let rows = after.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    let cells = rows.map_while(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells
        .flat_map(|cell| cell.split(", ").map(|name| name.trim_matches('`').to_owned()))
        .collect()
}

#[test]
fn the_model_describes_the_beginning_and_the_working_set_of_each_generator() {
    for table in ["\n### Footprints\n", "\n### How runs begin\n"] {
        let listed = listed(table);
        for generator in generators() {
            assert!(
                listed.iter().any(|name| name == generator.name),
                "docs/model.md: the table under {table}has no row for {}",
                generator.name
            );
        }
        for name in listed.iter().filter(|name| *name != "rt-app files") {
            assert!(
                generators().iter().any(|generator| generator.name == name),
                "docs/model.md: there is no generator {name}"
            );
        }
    }
}

#[test]
fn yield_has_two_names() {
    let (ours, theirs) = (make("yield:n=3"), make("loop_yield:n=3"));
    assert_eq!((&ours.tasks, &ours.programs), (&theirs.tasks, &theirs.programs));
    assert_eq!(theirs.score, Score::SwitchesPerSecond);
}

#[test]
fn open_ends_after_a_number_or_a_time() {
    let w = make("open:arrival=D,interarrival=5ms,service=H2,work=4ms,cv2=9,number=100");
    assert_eq!(w.duration_ns, None);
    assert_eq!(w.tasks[0].policy, SchedPolicy::Fifo { rt_priority: 99 });
    assert!(w.tasks[0].spawn && !w.tasks[1].spawn);
    let interval = |length| Op::Interval { timer: 0, length };
    assert_eq!(w.programs[0].ops[1], interval(Dist::Fixed(5_000_000)));
    assert!(matches!(w.programs[0].ops[3], Op::LoopBack { times: Some(100), .. }));
    assert_eq!(w.programs[1].ops[0], Op::Begin { arrival: true });
    assert!(matches!(w.programs[1].ops[1], Op::Run(Dist::HyperExponential { .. })));
    assert_eq!(make("open").duration_ns, Some(10_000_000_000));
    assert_eq!(make("open:number=5,duration=1s").duration_ns, Some(1_000_000_000));
    let w = make("open:arrival=trace,interarrival=1ms/2ms/3ms");
    let values = vec![1_000_000, 2_000_000, 3_000_000];
    assert_eq!(w.programs[0].ops[1], interval(Dist::Trace(values)));
}

#[test]
fn hackbench_receives_as_many_messages_as_it_sends() {
    let w = make("hackbench:groups=2,fds=3,loops=5,via=pipe,as=thread");
    // The parent is one more task.
    assert_eq!(w.tasks.len(), 12 + 1);
    let passed = messages(&w);
    // The parent reads one byte from each child. It wakes all children with one byte, which no
    // child reads because they only poll.
    assert_eq!((passed[&0], passed[&1]), ((12, 12), (1, 0)));
    assert_eq!(passed.len(), 2 + 2 * 3);
    assert!(passed.range(2..).all(|(_, &passed)| passed == (3 * 5, 3 * 5)));
    let forks = |spec| {
        let ops = make(spec).programs[0].ops.clone();
        let of = |thread| {
            ops.iter()
                .filter(|op| matches!(op, Op::Fork { thread: t, .. } if *t == thread))
                .count()
        };
        (of(false), of(true))
    };
    assert_eq!(forks("hackbench:groups=2,fds=3"), (12, 0));
    assert_eq!(forks("hackbench:groups=2,fds=3,as=thread"), (0, 12));
    let capacity = |spec| match &make(spec).resources[2] {
        Resource::Channel { capacity, kind, .. } => (*capacity, *kind),
        other => panic!("{other:?}"),
    };
    assert_eq!(capacity("hackbench:via=pipe"), (65_536, Channel::Pipe));
    // There is room for 277 messages of 100 bytes.
    assert_eq!(capacity("hackbench"), (27_700, Channel::Socket));
}

#[test]
fn errors_say_what_is_wrong() {
    for (spec, expected) in [
        (
            "hackbnch",
            "there is no generator 'hackbnch'\n  hint: did you mean 'hackbench'?",
        ),
        (
            "hackbench:group=3",
            "there is no parameter 'group'\n  hint: did you mean 'groups'?",
        ),
        (
            "hackbench:groups=0",
            "groups=0: out of range\n  hint: expected a number, 1 to 1000",
        ),
        ("hackbench:groups", "'groups' has no value"),
        ("hackbench:groups=2,groups=3", "'groups' is given twice"),
        (
            "hackbench:via=fifo",
            "via=fifo: there is no such choice\n  hint: known are socket, pipe",
        ),
        (
            "closed:compute=20",
            "'20' has no unit, write for example 20ms\n  hint: expected one or more times",
        ),
        ("sleepers:run=1ms/2ms", "'1ms/2ms' is not a value"),
        (
            "closed:compute=1ms/2ms",
            "'compute' has 2 values, but D takes one, the mean",
        ),
        (
            "closed:n=3,placement=4/0",
            "places 4 tasks, but there are 3\n  hint: leave n out, or give n=4",
        ),
        (
            "closed:placement=4/x",
            "'x' is not a value\n  hint: expected numbers such as 4/3",
        ),
        (
            "closed:placement=4,start_cpu=1",
            "'placement' and 'start_cpu' are both given\n  hint: use only one",
        ),
        (
            "chat:users=1",
            "users=1: out of range\n  hint: expected a number, 2 to 100",
        ),
        (
            "chat:buffer=1",
            "buffer=1: out of range\n  hint: expected a number of bytes",
        ),
        (
            "mkbench:jobs=0",
            "jobs=0: out of range\n  hint: expected a number, 1 to 10000",
        ),
        (
            "lat_proc:operation=forks",
            "there is no such choice\n  hint: did you mean 'fork'?",
        ),
        ("lat_ctx:processes=1", "processes=1: out of range"),
        ("boost:resource=disk", "resource=disk: there is no such choice"),
        ("schbench:worker=3", "did you mean 'workers'?"),
        (
            "loopyield",
            "there is no generator 'loopyield'\n  hint: did you mean 'loop_yield'?",
        ),
    ] {
        let message = generate(spec).expect_err(spec).to_string();
        assert!(message.starts_with(spec) && message.contains(expected), "{message}");
    }
}

#[test]
fn sleepers_and_jobs_have_a_working_set_on_request() {
    let sizes = |text: &str| {
        make(text)
            .tasks
            .iter()
            .map(|task| task.footprint_bytes)
            .collect::<Vec<_>>()
    };
    assert_eq!(sizes("sleepers:n=2"), [0, 0]);
    assert_eq!(sizes("sleepers:n=2,footprint=64k"), [65_536, 65_536]);
    // The source of the jobs has none.
    assert_eq!(sizes("open:footprint=1m"), [0, 1 << 20]);
}
