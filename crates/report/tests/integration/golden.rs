// SPDX-License-Identifier: GPL-2.0-only
//! Tests that compare tables, details and JSON results with committed texts.

use report::{
    Better, Counter, CountersResult, ExitRecord, KickingResult, KicksResult, LostTasks, Run, RunResult, Status,
    Summary, details, table,
};
use trace::event::MigrateReason;
use trace::{CpuPosition, Event, Hash, Record, Sink, TaskState};

/// Returns the result of a run. 40 tasks run in turn on CPUs 0 to 2. Each of them is woken
/// `latency` ns before it runs. Two other tasks share CPU 3.
fn run(policy: &str, latency: u64) -> RunResult {
    let positions: Vec<CpuPosition> = (0..4)
        .map(|i| CpuPosition {
            core: i,
            llc: i / 2,
            node: 0,
        })
        .collect();
    let mut records = Vec::new();
    let mut put = |time, cpu, event| {
        records.push(Record {
            time,
            cpu,
            after: 0,
            event,
        })
    };
    for pid in 1..=42 {
        let comm = if pid > 40 {
            format!("hog{}", pid - 41)
        } else {
            format!("worker-{pid}")
        };
        put(
            0,
            0,
            Event::TaskNew {
                pid,
                tgid: pid,
                parent: 0,
                prio: 120,
                comm,
            },
        );
    }
    put(
        0,
        3,
        Event::Wakeup {
            pid: 42,
            target: 3,
            new: true,
        },
    );
    let mut hog = 0;
    for i in 0..3000u64 {
        let (time, cpu, pid) = (i * 10_000, (i % 3) as u32, 1 + (i % 40) as u32);
        let spread = latency + latency * (i % 100) / 50;
        put(time, cpu, Event::Waking { pid, waker: pid });
        put(
            time,
            cpu,
            Event::Wakeup {
                pid,
                target: cpu,
                new: false,
            },
        );
        put(
            time,
            cpu,
            Event::Callback {
                op: 0,
                insns: 40 + (i % 7) as u32,
                after: 0,
                ns: 30,
            },
        );
        put(
            time + spread,
            cpu,
            Event::Switch {
                prev: 0,
                prev_state: TaskState::Running,
                next: pid,
            },
        );
        put(
            time + 9_000,
            cpu,
            Event::Switch {
                prev: pid,
                prev_state: TaskState::Interruptible,
                next: 0,
            },
        );
        put(time + 9_000, cpu, Event::Overhead { ns: latency / 2 });
        put(
            time + 9_000,
            cpu,
            Event::Done {
                pid,
                count: 1,
                response_ns: spread + 6_000,
            },
        );
        if i % 5 == 0 {
            put(
                time + 9_500,
                cpu,
                Event::Migrate {
                    pid,
                    from: cpu,
                    to: (cpu + 1) % 4,
                    reason: MigrateReason::Wakeup,
                },
            );
            put(
                time + 9_500,
                cpu,
                Event::LockWait {
                    lock: (i % 3) as u32,
                    after: 0,
                    ns: 120 + i % 9,
                },
            );
            put(time + 9_500, cpu, Event::Ipi { target: (cpu + 1) % 4 });
        }
        if i % 100 == 0 {
            let next = if hog == 41 { 42 } else { 41 };
            put(
                time,
                3,
                Event::Switch {
                    prev: hog,
                    prev_state: TaskState::Running,
                    next,
                },
            );
            put(
                time,
                3,
                Event::Callback {
                    op: 2,
                    insns: 300,
                    after: 0,
                    ns: 30,
                },
            );
            put(time, 3, Event::Balance { moved: 1 });
            hog = next;
        }
    }
    records.sort_by_key(|r| r.time);
    let (mut summary, mut hash) = (Summary::new(&positions), Hash::default());
    for batch in records.chunks(100) {
        summary.take(batch);
        hash.take(batch);
    }
    summary.result(Run {
        policy: policy.into(),
        machine: "smp4".into(),
        workload: "closed:tasks=40".into(),
        settings: vec![],
        profile: String::new(),
        kernel: String::new(),
        seed: 1,
        simulated_ns: 30_000_000,
        wall_ns: 12_345_678,
        idle_while_waiting_ns: latency * 1000,
        trace_hash: hash.value(),
        status: Status::Ran,
        failed_forks: 0,
        waiting: vec![],
        deadlock: vec![],
        exit: None,
        unit: "requests".into(),
        score: workload::Score::OperationsPerSecond,
        completed: false,
        callbacks: vec![],
        lock_waits: vec![],
        reload_ns: 1_200_000,
        line_transfers: 4_321,
        line_transfer_ns: 98_765,
        numa_faults: 49_152,
        numa_faults_local: 32_768,
        numa_pages_migrated: 16_384,
        idle_states: vec![("POLL".into(), 0), ("C1".into(), 9_000_000), ("C6".into(), 21_000_000)],
        frequencies: vec![(20_000_000, 1024), (10_000_000, 512)],
        kicks: Some(KicksResult {
            ipis: 40,
            ns: 65_432,
            callbacks: vec![KickingResult {
                callback: "enqueue".into(),
                calls: 120,
                reschedules: 90,
                switches: 60,
            }],
        }),
        counters: CountersResult {
            times_ns: (1..=16).map(|part| part * 1_875_000).collect(),
            list: vec![Counter {
                name: "nr_stolen[]".into(),
                elements: 4,
                grows: true,
                before: 0,
                after: 136,
                samples: (1..=16).map(|part| part * (part + 1) / 2).collect(),
                values: vec![30, 40, 50, 16],
            }],
            omitted: 2,
        },
        ops: ["select_cpu", "enqueue", "dispatch"].map(String::from).to_vec(),
        locks: vec!["rq 0".into(), "dsq 0x1".into()],
    })
}

fn failed() -> RunResult {
    RunResult {
        status: Status::Ejected,
        exit: Some(ExitRecord {
            at_ns: 30_000_000,
            kind: "SCX_EXIT_ERROR_STALL".into(),
            reason: "runnable task stall".into(),
            message: "worker-7[7] failed to run for 30.001s".into(),
            callback: Some("dispatch".into()),
            source: Some("scx_lazy.bpf.c:57".into()),
            backtrace: Vec::new(),
            notes: Vec::new(),
            dump: "CPU states\n----------\n\nCPU 0   : nr_run=3\n".into(),
        }),
        ..run("policies/scx_lazy_with_a_long_name_indeed.bpf.o", 100)
    }
}

#[test]
fn the_comparison_matches_golden() {
    let exit = ExitRecord {
        at_ns: 12_000_000,
        kind: "SCX_EXIT_UNREG_BPF".into(),
        reason: "unregistered from BPF".into(),
        ..ExitRecord::default()
    };
    let ended = RunResult {
        status: Status::Ejected,
        exit: Some(exit),
        ..run("scx_brief", 300)
    };
    let refused = RunResult {
        policy: "scx_new".into(),
        status: Status::Refused,
        exit: Some(ExitRecord {
            kind: "SCX_EXIT_NONE".into(),
            reason: "refused".into(),
            message: "ops.name is empty (-22)".into(),
            ..ExitRecord::default()
        }),
        ..run("scx_new", 100)
    };
    // This run has the best latency, but only because it lost tasks, so it must not be marked as
    // best.
    let loses = RunResult {
        lost_tasks: Some(LostTasks {
            count: 3,
            never_ran: 1,
            idle_ns: 0,
            longest_ns: 1_900_000_000,
            pid: 17,
            comm: "worker-17".into(),
            kept: "in the policy's hands: its last ops.enqueue() inserted it into no DSQ".into(),
        }),
        ..run("scx_loses", 100)
    };
    let results = [
        run("eevdf", 1_100),
        run("scx_simple", 800),
        failed(),
        ended,
        refused,
        loses,
    ];
    golden::check!("table.txt", &table(&results, false));
    golden::check!("table-terminal.txt", &table(&results, true));
}

/// Inputs that differ between results must be printed in the rows.
#[test]
fn different_inputs_are_in_the_rows() {
    let other = RunResult {
        seed: 2,
        machine: "numa16".into(),
        ..run("eevdf", 900)
    };
    golden::check!("table-inputs.txt", &table(&[run("eevdf", 1_100), other], false));
}

/// Scores must be printed in the workload's unit. If the units differ, the table must show
/// operations per second instead.
#[test]
fn scores_are_in_the_workload_s_unit() {
    let result = |policy: &str, score, unit: &str, latency| RunResult {
        score: Some(score),
        score_unit: unit.into(),
        score_better: Better::Lower,
        ..run(policy, latency)
    };
    let mut text = String::new();
    for (unit, scores) in [
        ("s", [1.25, 1.5]),
        ("us/op", [3.5, 3.25]),
        ("ms", [520.0, 20.000_125]),
        ("switches/s", [125_000.5, 1000.0]),
    ] {
        let results = [
            result("eevdf", scores[0], unit, 1_100),
            result("scx_simple", scores[1], unit, 800),
        ];
        text += &table(&results, false);
    }
    let different = [result("eevdf", 1.25, "s", 1_100), run("eevdf", 1_100)];
    golden::check!("table-scores.txt", &(text + &table(&different, false)));
    let details = details(&result("eevdf", 1.25, "s", 1_100), false);
    assert!(
        details.contains("score               1.25 s, lower is better"),
        "{details}"
    );
}

#[test]
fn empty_results_are_printed() {
    let empty = Summary::new(&[CpuPosition::default()]).result(Run {
        policy: "p".into(),
        ..Run::default()
    });
    golden::check!("table-empty.txt", &(table(&[empty], false) + &table(&[], false)));
}

#[test]
fn details_match_golden() {
    golden::check!("details.txt", &details(&run("scx_simple", 800), false));
    golden::check!("details-failed.txt", &details(&failed(), false));
}

#[test]
fn json_matches_golden_and_is_read_back() {
    let results = [
        RunResult {
            tasks: vec![],
            ..failed()
        },
        run("eevdf", 1_100),
    ];
    let text = serde_json::to_string_pretty(&results).unwrap() + "\n";
    golden::check!("results.json", &text);
    assert_eq!(serde_json::from_str::<Vec<RunResult>>(&text).unwrap(), results);
    // Scripts rely on these keys, so none may disappear.
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    for key in [
        "policy",
        "machine",
        "workload",
        "seed",
        "simulated_ns",
        "wall_ns",
        "context_switches",
        "migrations",
        "busy_percent",
        "overhead_percent",
        "idle_while_waiting_ns",
        "trace_hash",
        "score",
        "score_unit",
        "score_better",
        "throughput",
        "response_ns",
    ] {
        assert!(!value[1][key].is_null(), "{key}");
    }
    for key in ["p50", "p99", "p999", "max"] {
        assert!(value[1]["wakeup_latency_ns"][key].is_u64(), "{key}");
    }
    assert!(value[1]["exit"].is_null() && value[1].as_object().unwrap().contains_key("exit"));
    assert_eq!(value[0]["exit"]["kind"], "SCX_EXIT_ERROR_STALL");
}
