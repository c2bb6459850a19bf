// SPDX-License-Identifier: GPL-2.0-only
//! Workloads executed for real on whatever machine runs the tests: what was done is counted exactly, times are only bounded
//! from below, because others may use the machine.

use crate::alone::{alone, command, run, told};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn messages_all_arrive_between_threads_and_between_processes() {
    for mode in ["as=thread", "as=process", "via=pipe"] {
        let messages = 10 * 10 * 20;
        let r = run(&[&format!("hackbench:groups=1,fds=10,loops=20,{mode}")]);
        assert_eq!(r.throughput.operations, messages, "{mode}");
        assert!(r.score.is_some_and(|seconds| seconds > 0.0), "{mode}: {:?}", r.score);
        assert!(r.context_switches > 0);
    }
}

#[test]
fn computing_takes_the_time_it_says() {
    // 20 ms of work each round: never faster, and slower if the machine has other things to do.
    let r = run(&["closed:n=1,compute=20ms,rounds=5,duration=30s"]);
    assert!(r.response_ns.p50 > 15_000_000, "{:?}", r.response_ns);
    assert_eq!(r.throughput.operations, 5);
    assert_eq!(r.workload, "closed:n=1,compute=20ms,rounds=5,duration=30s");
}

#[test]
fn tasks_are_counted_for_themselves() {
    let r = run(&["closed:n=3,compute=10ms,think=1ms,rounds=6,duration=30s"]);
    assert_eq!(r.tasks_total, 3);
    for task in &r.tasks {
        // They begin with a wake-up, and sleep after each round but when others delay them for longer than that.
        assert!(task.switches >= 3, "{task:?}");
        assert!(task.cpu_ns > 40_000_000, "{task:?}");
        assert!(task.waits > 0, "{task:?}");
    }
    assert_eq!(
        r.context_switches,
        r.tasks.iter().map(|task| task.switches).sum::<u64>()
    );
    assert_eq!(r.preemptions, r.tasks.iter().map(|task| task.preemptions).sum::<u64>());
    assert!(r.busy_percent <= 101.0, "{}", r.busy_percent);
    assert!(r.wakeups <= r.context_switches);
}

#[test]
fn wake_ups_are_timed() {
    // Sleeps: from the timer's expiry on.
    let r = run(&["closed:n=1,compute=1ms,think=5ms,rounds=10,duration=30s"]);
    assert!(
        (8..=10).contains(&r.wakeup_latency_ns.count),
        "{:?}",
        r.wakeup_latency_ns
    );
    assert!(r.wakeup_latency_ns.p50 > 500, "{:?}", r.wakeup_latency_ns);
    assert!(r.tasks[0].wakeup_latency_p99_ns > 0);
    // Messages: from the write on; a reader that finds one there was not woken.
    let r = run(&["lat_ctx:processes=2,rounds=200"]);
    let passes = r.throughput.operations;
    let woken = r.wakeup_latency_ns;
    assert!(
        passes > 0 && woken.count > passes / 8 && woken.count <= passes + 4,
        "{passes}: {woken:?}"
    );
    assert!(woken.p50 > 200, "{woken:?}");
    // Who never waits is never woken.
    let r = run(&["closed:n=2,compute=1ms,rounds=5,duration=30s"]);
    assert_eq!(r.wakeup_latency_ns.count, 0);
}

#[test]
fn arrivals_are_as_random_as_they_say() {
    let r = run(&[
        "open:arrival=M,interarrival=2ms,service=M,work=1ms,number=100",
        "--for",
        "20s",
    ]);
    assert_eq!(r.throughput.operations, 100);
    assert_eq!(r.tasks_total, 101);
    let cpu: Vec<u64> = r
        .tasks
        .iter()
        .filter(|task| task.comm == "job")
        .map(|task| task.cpu_ns)
        .collect();
    let (least, most) = (cpu.iter().min().expect("jobs"), cpu.iter().max().expect("jobs"));
    assert!(*most > 3_000_000 && most > least, "{cpu:?}");
}

#[test]
fn the_workloads_cpus_are_those_that_are_named() {
    let r = run(&["closed:n=2,compute=5ms,rounds=5,duration=30s", "--cpus", "0"]);
    assert_eq!(r.cpus, 1);
    assert!(r.busy_percent <= 102.0, "{}", r.busy_percent);
    assert_eq!(r.migrations, 0);
    let _alone = alone();
    let (status, text) = told(&["run", "closed:n=1,start_cpu=1,duration=100ms", "--cpus", "0"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("1 x affinity refused"), "{text}");
    let (status, text) = told(&["run", "closed", "--cpus", "0,1000"]);
    assert_eq!(status, 2);
    assert!(text.contains("there is no CPU 1000"), "{text}");
}

#[test]
fn processes_are_made_and_waited_for() {
    let r = run(&["lat_proc:n=50"]);
    assert_eq!(r.throughput.operations, 50);
    assert_eq!(r.response_ns.count, 50);
}

#[test]
fn exec_executes() {
    let _alone = alone();
    let mut child = command(&["run", "mkbench:jobs=2,files=4,compute=80ms", "--for", "20s"]);
    let child = child
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let begun = Instant::now();
    let mut executed = false;
    while !executed && begun.elapsed() < Duration::from_secs(20) {
        executed = commands()
            .iter()
            .any(|command| command.contains("cc1\0go-on-after-exec"));
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(executed, "{text}");
    assert!(!text.contains("exec refused"), "{text}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("(8 in all)"), "{text}");
}

/// Command lines of all processes.
fn commands() -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    processes
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .collect()
}

/// Folders of cgroups that belong to a process of ours.
fn cgroups(pid: u32) -> Vec<PathBuf> {
    let folders = [
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/cpu",
        "/sys/fs/cgroup/cpu,cpuacct",
        "/sys/fs/cgroup/unified",
    ];
    let folders = folders.map(|folder| Path::new(folder).join(format!("windtunnel-{pid}")));
    folders.into_iter().filter(|folder| folder.is_dir()).collect()
}

#[test]
fn tasks_go_into_their_cgroups_or_it_is_said() {
    let _alone = alone();
    let file = std::env::temp_dir().join(format!("windtunnel-groups-{}.json", std::process::id()));
    let text = r#"{ "tasks": {
        "a": { "taskgroup": "/a", "loop": -1, "run": 1000, "sleep": 1000 },
        "b": { "taskgroup": "/a/b", "loop": -1, "run": 1000, "sleep": 1000 } } }"#;
    std::fs::write(&file, text).expect("written");
    let mut child = command(&["run", &file.display().to_string(), "--for", "700ms"]);
    let child = child
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let pid = child.id();
    let begun = Instant::now();
    let mut inside = [false; 2];
    while inside != [true; 2] && begun.elapsed() < Duration::from_millis(600) {
        for folder in cgroups(pid) {
            for (at, group) in ["a", "a/b"].iter().enumerate() {
                let members = ["tasks", "cgroup.threads"].map(|name| folder.join(group).join(name));
                let text: String = members
                    .iter()
                    .filter_map(|file| std::fs::read_to_string(file).ok())
                    .collect();
                inside[at] |= !text.trim().is_empty();
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    let _ = std::fs::remove_file(file);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(inside == [true; 2] || said.contains("cgroups are left out"), "{said}");
    assert!(!said.contains("cgroup refused"), "{said}");
    assert!(cgroups(pid).is_empty());
}

#[test]
fn a_workload_without_an_end_is_ended_with_all_its_processes() {
    let r = run(&["mixed.json", "--for", "1500ms"]);
    assert!(r.simulated_ns >= 1_500_000_000);
    assert!(r.throughput.operations > 0);
    assert!(!r.tasks.is_empty());
    // Another test may run this workload meanwhile, with tasks of the same names.
    let _alone = alone();
    let listed = std::process::Command::new("ps")
        .args(["-eLo", "comm"])
        .output()
        .expect("ps");
    let alive = String::from_utf8_lossy(&listed.stdout).into_owned();
    for task in &r.tasks {
        assert!(!alive.lines().any(|comm| comm == task.comm), "{} is alive", task.comm);
    }
}

#[test]
fn a_workload_that_is_none_is_refused_with_a_hint() {
    let (status, text) = told(&["run", "hackbensh"]);
    assert_eq!(status, 2);
    assert!(text.contains("hackbench"), "{text}");
}
