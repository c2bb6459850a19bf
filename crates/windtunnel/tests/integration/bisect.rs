// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel bisect` over commits and over objects.

use crate::support::{object, windtunnel};
use std::path::Path;
use std::process::Command;

fn git(folder: &Path, arguments: &[&str]) {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
        .args(arguments)
        .output()
        .expect("git is installed");
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_first_bad_commit_is_found_and_the_repository_is_not_touched() {
    let good = object("policies/fifo.bpf.c").display().to_string();
    let bad = object("crates/windtunnel/tests/negative/bad_cpu.bpf.c")
        .display()
        .to_string();
    let folder = tempfile::tempdir().expect("a directory");
    git(folder.path(), &["init", "--quiet"]);
    for (number, name) in [&good, &good, "broken", &bad, &bad].iter().enumerate() {
        std::fs::write(folder.path().join("source"), name).expect("a file");
        std::fs::write(folder.path().join("number"), number.to_string()).expect("a file");
        git(folder.path(), &["add", "."]);
        git(folder.path(), &["commit", "--quiet", "-m", &format!("change {number}")]);
    }
    std::fs::write(folder.path().join("source"), "work in progress").expect("a file");
    let repo = folder.path().display().to_string();
    let build = "cp \"$(cat source)\" policy.bpf.o";
    let bisect = |old: &str, new: &str| {
        windtunnel(&[
            "bisect",
            old,
            new,
            "--repo",
            &repo,
            "--build",
            build,
            "--object",
            "policy.bpf.o",
            "--",
            "run",
            "{}",
            "-m",
            "smp2",
            "--for",
            "5ms",
        ])
    };
    let ran = bisect("HEAD~4", "HEAD");
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains("skipped") && ran.stdout.contains("the build fails"),
        "{}",
        ran.stdout
    );
    let (_, last) = ran.stdout.split_once("one of these").expect("a range");
    assert!(
        last.contains("change 2") && last.contains("change 3") && !last.contains("change 4"),
        "{last}"
    );
    let left = std::fs::read_to_string(folder.path().join("source")).expect("a file");
    assert_eq!(left, "work in progress");
    for (old, new, message) in [
        ("HEAD~1", "HEAD", "both versions are bad"),
        ("HEAD", "HEAD~4", "no ancestor"),
        ("HEAD", "nosuch", "there is no commit 'nosuch'"),
        ("HEAD~2", "HEAD", "oldest version cannot be tested: the build fails"),
    ] {
        let ran = bisect(old, new);
        assert_eq!(ran.status, 2, "{old} {new}: {}", ran.stdout);
        assert!(ran.stderr.contains(message), "{old} {new}: {}", ran.stderr);
    }
}

#[test]
fn the_first_bad_object_is_found() {
    let good = object("policies/fifo.bpf.c").display().to_string();
    let bad = object("crates/windtunnel/tests/negative/bad_cpu.bpf.c")
        .display()
        .to_string();
    let ran = windtunnel(&[
        "bisect", &good, &good, &bad, &bad, "--", "run", "{}", "-m", "smp2", "--for", "5ms",
    ]);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains(&format!("first bad version: {bad}")),
        "{}",
        ran.stdout
    );
    let ran = windtunnel(&["bisect", &bad, &good, "--", "run", "{}", "-m", "smp2", "--for", "5ms"]);
    assert!(
        ran.stdout.contains(&format!("first good version: {good}")),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn wrong_input_is_named() {
    let cases: [(&[&str], &str); 4] = [
        (&["bisect", "a", "b"], "CONDITION"),
        (&["bisect", "a", "b", "--", "run", "fifo"], "does not contain {}"),
        (
            &["bisect", "a.bpf.o", "b.bpf.o", "--", "run", "{}"],
            "a.bpf.o: no such object file",
        ),
        (
            &["bisect", "a", "b", "--object", "x.bpf.o", "--", "run", "{}"],
            "--build",
        ),
    ];
    for (args, message) in cases {
        let ran = windtunnel(args);
        assert_eq!(ran.status, 2, "{args:?}: {}", ran.stdout);
        assert!(ran.stderr.contains(message), "{args:?}: {}", ran.stderr);
    }
}
