// SPDX-License-Identifier: GPL-2.0-only
//! The table of generators, and what each makes.

use super::{Unit, generate, generators};
use crate::program::{Dist, Op, Policy, Resource, Workload};

fn make(spec: &str) -> Workload {
    generate(spec).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn defaults_and_ranges_are_values_themselves() {
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
fn closed_on_one_cpu() {
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
fn open_until_a_number_or_a_time() {
    let w = make("open:arrival=D,interarrival=5ms,service=H2,work=4ms,cv2=9,number=100");
    assert_eq!(w.duration_ns, None);
    assert_eq!(w.tasks[0].policy, Policy::Fifo { rt_priority: 99 });
    assert!(w.tasks[0].spawn && !w.tasks[1].spawn);
    assert_eq!(w.programs[0].ops[1], Op::Sleep(Dist::Fixed(5_000_000)));
    assert!(matches!(w.programs[0].ops[3], Op::LoopBack { times: Some(100), .. }));
    assert_eq!(w.programs[1].ops[0], Op::Begin { arrival: true });
    assert!(matches!(w.programs[1].ops[1], Op::Run(Dist::HyperExponential { .. })));
    assert_eq!(make("open").duration_ns, Some(10_000_000_000));
    assert_eq!(make("open:number=5,duration=1s").duration_ns, Some(1_000_000_000));
    let w = make("open:arrival=trace,interarrival=1ms/2ms/3ms");
    let values = vec![1_000_000, 2_000_000, 3_000_000];
    assert_eq!(w.programs[0].ops[1], Op::Sleep(Dist::Trace(values)));
}

#[test]
fn hackbench_sends_and_receives_alike() {
    let w = make("hackbench:groups=2,fds=3,loops=5,via=pipe,as=thread");
    assert_eq!(w.tasks.len(), 12);
    assert!(w.tasks.iter().all(|task| task.process == 0));
    let rounds = |program: usize| match w.programs[program].ops.last() {
        Some(Op::LoopBack { times: Some(times), .. }) => *times,
        other => panic!("{other:?}"),
    };
    let (mut sent, mut received) = (0, 0);
    for task in &w.tasks {
        let program = task.program as usize;
        for op in &w.programs[program].ops {
            match op {
                Op::Send { bytes, .. } => sent += rounds(program) * u64::from(*bytes) / 100,
                Op::Recv(_) => received += rounds(program),
                _ => {}
            }
        }
    }
    assert_eq!((sent, received), (2 * 3 * 3 * 5, 2 * 3 * 3 * 5));
    let capacity = |spec| match &make(spec).resources[1] {
        Resource::Channel { capacity, socket, .. } => (*capacity, *socket),
        other => panic!("{other:?}"),
    };
    assert_eq!(capacity("hackbench:via=pipe"), (65_536, false));
    // 277 messages of 100 bytes.
    assert_eq!(capacity("hackbench"), (27_700, true));
    assert_eq!(make("hackbench").tasks[399].process, 399);
}

#[test]
fn what_is_wrong_is_said() {
    for (spec, expected) in [
        ("hackbnch", "no generator 'hackbnch'\n  hint: did you mean 'hackbench'?"),
        (
            "hackbench:group=3",
            "no parameter 'group'\n  hint: did you mean 'groups'?",
        ),
        (
            "hackbench:groups=0",
            "groups=0: out of range\n  hint: expected a number, 1..=1000",
        ),
        ("hackbench:groups", "'groups' has no value"),
        ("hackbench:groups=2,groups=3", "'groups' a second time"),
        (
            "hackbench:via=fifo",
            "via=fifo: no such choice\n  hint: known are socket, pipe",
        ),
        (
            "closed:compute=20",
            "'20' is not a value\n  hint: expected a time or several",
        ),
        ("sleepers:run=1ms/2ms", "'1ms/2ms' is not a value"),
        ("closed:compute=1ms/2ms", "'compute' has 2 values, but D takes its mean"),
    ] {
        let message = generate(spec).expect_err(spec).to_string();
        assert!(message.starts_with(spec) && message.contains(expected), "{message}");
    }
}
