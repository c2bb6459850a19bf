// SPDX-License-Identifier: GPL-2.0-only
//! Executes workloads on the host. The tests check exact numbers of operations, but only lower
//! bounds of times, because other programs may use the host.

use crate::alone::{alone, command, run, status_and_text};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn all_messages_arrive_between_threads_and_between_processes() {
    for mode in ["as=thread", "as=process", "via=pipe"] {
        let messages = 10 * 10 * 20;
        let r = run(&[&format!("hackbench:groups=1,fds=10,loops=20,{mode}")]);
        assert_eq!(r.throughput.operations, messages, "{mode}");
        assert!(r.score.is_some_and(|seconds| seconds > 0.0), "{mode}: {:?}", r.score);
        assert!(r.context_switches > 0);
    }
}

#[test]
fn a_computation_takes_at_least_its_time() {
    // Each round computes for 20 ms. It takes longer if the host is busy.
    let r = run(&["closed:n=1,compute=20ms,rounds=5,duration=30s"]);
    assert!(r.response_ns.p50 > 15_000_000, "{:?}", r.response_ns);
    assert_eq!(r.throughput.operations, 5);
    assert_eq!(r.workload, "closed:n=1,compute=20ms,rounds=5,duration=30s");
}

#[test]
fn each_task_has_its_own_counters() {
    let r = run(&["closed:n=3,compute=10ms,think=1ms,rounds=6,duration=30s"]);
    assert_eq!(r.tasks_total, 3);
    for task in &r.tasks {
        // Each task starts with a wake-up. After each round it sleeps, unless other tasks delay it
        // for longer than the sleep would take.
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
fn wake_up_latencies_are_measured() {
    // The latency of a sleep starts when the timer expires.
    let r = run(&["closed:n=1,compute=1ms,think=5ms,rounds=10,duration=30s"]);
    assert!(
        (8..=10).contains(&r.wakeup_latency_ns.count),
        "{:?}",
        r.wakeup_latency_ns
    );
    assert!(r.wakeup_latency_ns.p50 > 500, "{:?}", r.wakeup_latency_ns);
    assert!(r.tasks[0].wakeup_latency_p99_ns > 0);
    // The latency of a message starts with the write. A reader that finds a message does not wait,
    // so it has no wake-up.
    let r = run(&["lat_ctx:processes=2,rounds=200"]);
    let passes = r.throughput.operations;
    let woken = r.wakeup_latency_ns;
    assert!(
        passes > 0 && woken.count > passes / 8 && woken.count <= passes + 4,
        "{passes}: {woken:?}"
    );
    assert!(woken.p50 > 200, "{woken:?}");
    // These tasks never wait, so they are never woken.
    let r = run(&["closed:n=2,compute=1ms,rounds=5,duration=30s"]);
    assert_eq!(r.wakeup_latency_ns.count, 0);
}

#[test]
fn random_arrivals_all_come_and_vary_in_length() {
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
    let (least, most) = (
        cpu.iter().min().expect("there are jobs"),
        cpu.iter().max().expect("there are jobs"),
    );
    assert!(*most > 3_000_000 && most > least, "{cpu:?}");
}

#[test]
fn a_workload_uses_only_the_cpus_of_the_option() {
    let r = run(&["closed:n=2,compute=5ms,rounds=5,duration=30s", "--cpus", "0"]);
    assert_eq!(r.cpus, 1);
    assert!(r.busy_percent <= 102.0, "{}", r.busy_percent);
    assert_eq!(r.migrations, 0);
    let _alone = alone();
    let (status, text) = status_and_text(&["run", "closed:n=1,start_cpu=1,duration=100ms", "--cpus", "0"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("1 x affinity refused"), "{text}");
    let (status, text) = status_and_text(&["run", "closed", "--cpus", "0,1000"]);
    assert_eq!(status, 2);
    assert!(text.contains("there is no CPU 1000"), "{text}");
}

#[test]
fn processes_are_created_and_waited_for() {
    let r = run(&["lat_proc:n=50"]);
    assert_eq!(r.throughput.operations, 50);
    assert_eq!(r.response_ns.count, 50);
}

#[test]
fn exec_starts_the_named_program() {
    let _alone = alone();
    let mut child = command(&["run", "mkbench:jobs=2,files=4,compute=80ms", "--for", "20s"]);
    let child = child
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("windtunnel-live can be started");
    let begun = Instant::now();
    let mut executed = false;
    while !executed && begun.elapsed() < Duration::from_secs(20) {
        executed = commands()
            .iter()
            .any(|command| command.contains("cc1\0resume-after-exec"));
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("the output can be read");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(executed, "{text}");
    assert!(!text.contains("exec refused"), "{text}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("(8 in all)"), "{text}");
}

/// Returns the command lines of all processes.
fn commands() -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("/proc can be listed").flatten();
    processes
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .collect()
}

/// Returns the cgroup directories that the command's process `pid` has created.
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
fn tasks_enter_their_cgroups_or_a_warning_says_why_not() {
    let _alone = alone();
    let file = std::env::temp_dir().join(format!("windtunnel-groups-{}.json", std::process::id()));
    let text = r#"{ "tasks": {
        "a": { "taskgroup": "/a", "loop": -1, "run": 1000, "sleep": 1000 },
        "b": { "taskgroup": "/a/b", "loop": -1, "run": 1000, "sleep": 1000 } } }"#;
    std::fs::write(&file, text).expect("the workload file can be written");
    let mut child = command(&["run", &file.display().to_string(), "--for", "700ms"]);
    let child = child
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("windtunnel-live can be started");
    let pid = child.id();
    let begun = Instant::now();
    let mut inside = [false; 2];
    while inside != [true; 2] && begun.elapsed() < Duration::from_millis(1600) {
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
    let output = child.wait_with_output().expect("the output can be read");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let _ = std::fs::remove_file(file);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(
        inside == [true; 2] || stderr.contains("cgroups are left out"),
        "{stderr}"
    );
    assert!(!stderr.contains("cgroup refused"), "{stderr}");
    assert!(cgroups(pid).is_empty());
}

#[test]
fn a_workload_without_an_end_is_ended_with_all_its_processes() {
    let r = run(&["mixed.json", "--for", "1500ms"]);
    assert!(r.simulated_ns >= 1_500_000_000);
    assert!(r.throughput.operations > 0);
    assert!(!r.tasks.is_empty());
    // Another test might run this workload at the same time. Its tasks would have the same names.
    let _alone = alone();
    let listed = std::process::Command::new("ps")
        .args(["-eLo", "comm"])
        .output()
        .expect("ps can be started");
    let alive = String::from_utf8_lossy(&listed.stdout).into_owned();
    for task in &r.tasks {
        assert!(!alive.lines().any(|comm| comm == task.comm), "{} is alive", task.comm);
    }
}

#[test]
fn an_unknown_workload_is_refused_with_a_suggestion() {
    let (status, text) = status_and_text(&["run", "hackbensh"]);
    assert_eq!(status, 2);
    assert!(text.contains("hackbench"), "{text}");
}
