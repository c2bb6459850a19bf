// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel explore`: exit status, tokens, files and wrong input. The crate lab tests what is
//! found.

use crate::support::windtunnel;

/// Returns the token that an output prints.
fn token(stdout: &str) -> &str {
    let (_, token) = stdout.split_once("--replay ").expect("the output contains a token");
    token.lines().next().unwrap_or_default()
}

#[test]
fn nothing_is_found_in_fifo() {
    let ran = windtunnel(&["explore", "fifo", "--runs", "32"]);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.starts_with("nothing found in 32 runs with "),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_token_repeats_a_finding() {
    let folder = tempfile::tempdir().expect("a directory");
    let out = folder.path().join("found");
    let out = out.to_str().expect("the path is UTF-8");
    // Two CPUs advance the global virtual time, and one of them may set it back.
    let args = ["explore", "vtime", "--runs", "32", "--threads", "1", "--out", out];
    let ran = windtunnel(&args);
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    let first = ran.stdout.lines().next().unwrap_or_default();
    assert!(first.starts_with("vtime.bpf.c:") && first.contains("race: "), "{first}");
    let replayed = windtunnel(&["explore", "--replay", token(&ran.stdout)]);
    assert_eq!(replayed.status, 1, "{}", replayed.stderr);
    assert!(replayed.stdout.starts_with(first), "{}", replayed.stdout);
    assert!(replayed.stdout.contains("\ntime           CPU "), "{}", replayed.stdout);
    let again = windtunnel(&["explore", "--replay", token(&ran.stdout)]);
    assert_eq!(replayed.stdout, again.stdout);
    // Step by step, without a terminal, each access has a line.
    let stepped = windtunnel(&["explore", "--replay", token(&ran.stdout), "--step"]);
    assert_eq!(stepped.status, 1, "{}", stepped.stderr);
    assert!(stepped.stdout.starts_with(first), "{}", stepped.stdout);
    let marked: Vec<&str> = stepped.stdout.lines().filter(|line| line.starts_with('>')).collect();
    assert!((2..=3).contains(&marked.len()), "{marked:?}");
    for line in &marked {
        assert!(line.contains("vtime.bpf.c:") && line.contains(" vtime_now "), "{line}");
    }
    assert!(stepped.stdout.contains("other CPUs\n"), "{}", stepped.stdout);
    // The files repeat it, too.
    let text = std::fs::read_to_string(format!("{out}/finding.txt")).expect("a file");
    let command = text.lines().find_map(|line| line.strip_prefix("repeat: windtunnel "));
    let words: Vec<&str> = command.expect("a command").split(' ').collect();
    let repeated = windtunnel(&words);
    assert!(
        repeated.stdout.starts_with(first),
        "{}{}",
        repeated.stdout,
        repeated.stderr
    );
}

#[test]
fn a_command_repeats_the_finding_below_which_it_stands() {
    let args = ["explore", "mqs", "--runs", "64", "--all", "--pairs", "--no-shrink"];
    let ran = windtunnel(&args);
    let mut finding = "";
    let mut nr_later = 0;
    for line in ran.stdout.lines() {
        if line.contains(": race: ") {
            finding = line;
        }
        let Some(command) = line.strip_prefix("replay: windtunnel ") else {
            continue;
        };
        // The run of this token has a likelier finding, too.
        if command.contains(" --finding ") && nr_later < 3 {
            nr_later += 1;
            let words: Vec<&str> = command.split(' ').collect();
            let replayed = windtunnel(&words);
            assert!(replayed.stdout.starts_with(finding), "{finding}\n{}", replayed.stdout);
            let words = [&words[..], &["--step"][..]].concat();
            let stepped = windtunnel(&words);
            assert!(stepped.stdout.starts_with(finding), "{finding}\n{}", stepped.stdout);
        }
    }
    assert_eq!(nr_later, 3, "{}", ran.stdout);
}

#[test]
fn a_finding_is_repeated_for_the_release_of_its_run() {
    let folder = tempfile::tempdir().expect("a directory");
    // Only Linux 7.3 starts this policy.
    let museum = format!("{}/../lab/tests/museum", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(format!("{museum}/ring.bpf.c")).expect("a file");
    let include = format!("\"{museum}/museum.h\"\nextern int LINUX_KERNEL_VERSION __kconfig;");
    let start = "return LINUX_KERNEL_VERSION < 0x70300 ? -22 : create_shared();";
    let text = text
        .replace("\"museum.h\"", &include)
        .replace("return create_shared();", start);
    let (source, object) = (folder.path().join("new.bpf.c"), folder.path().join("new.bpf.o"));
    std::fs::write(&source, text).expect("a file");
    clang::compile(&source, &["-g", "-Wall"], &object).unwrap_or_else(|error| panic!("{error}"));
    let (object, out) = (object.display().to_string(), folder.path().join("found"));
    let out = out.to_str().expect("the path is UTF-8");
    let refused = windtunnel(&["explore", &object, "--runs", "1"]);
    assert_eq!(refused.status, 2, "{}", refused.stdout);
    let args = ["explore", &object, "--runs", "192", "--kernel", "7.3", "--out", out];
    let ran = windtunnel(&args);
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    let first = ran.stdout.lines().next().unwrap_or_default();
    let replayed = windtunnel(&["explore", "--replay", token(&ran.stdout)]);
    assert!(replayed.stdout.starts_with(first), "{}", replayed.stderr);
    // An option takes precedence over the token.
    let refused = windtunnel(&["explore", "--replay", token(&ran.stdout), "--kernel", "7.2"]);
    assert_eq!(refused.status, 2, "{}", refused.stdout);
    let text = std::fs::read_to_string(format!("{out}/finding.txt")).expect("a file");
    let command = text.lines().find_map(|line| line.strip_prefix("repeat: windtunnel "));
    let words: Vec<&str> = command.expect("a command").split(' ').collect();
    let repeated = windtunnel(&words);
    assert!(repeated.stdout.starts_with(first), "{}", repeated.stderr);
    let command = ran
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("test: windtunnel "));
    let words: Vec<&str> = command.expect("a command").split(' ').collect();
    let failed = windtunnel(&words);
    assert_eq!(failed.status, 1, "{}{}", failed.stdout, failed.stderr);
    assert!(failed.stdout.contains(": race: "), "{}", failed.stdout);
}

#[test]
fn the_result_does_not_depend_on_the_number_of_threads() {
    let run = |threads| {
        let ran = windtunnel(&["explore", "mqs", "--runs", "32", "--no-shrink", "--threads", threads]);
        assert_eq!(ran.status, 1, "{}", ran.stderr);
        ran.stdout
    };
    assert_eq!(run("1"), run("2"));
}

#[test]
fn wrong_input_is_named() {
    let cases: [(&[&str], &str); 8] = [
        (&["explore"], "required"),
        (&["explore", "fifo", "--hold", "x@1us"], "no number of a point"),
        (&["explore", "fifo", "--hold", "7"], "POINT@TIME"),
        (&["explore", "--replay", "AAAA"], "no token"),
        (&["explore", "fifo", "--step"], "--replay"),
        (&["explore", "fifo", "--finding", "2"], "--replay"),
        (&["explore", "nosuchpolicy", "--runs", "1"], "nosuchpolicy"),
        (&["explore", "eevdf", "--runs", "1"], "only the callbacks of a policy"),
    ];
    for (args, message) in cases {
        let ran = windtunnel(args);
        assert_eq!(ran.status, 2, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(message), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn two_versions_are_compared() {
    let folder = tempfile::tempdir().expect("a directory");
    let museum = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/tests/museum");
    let compile = |name: &str| {
        let object = folder.path().join(format!("{name}.bpf.o"));
        let source = std::path::Path::new(museum).join(format!("{name}.bpf.c"));
        clang::compile(&source, &["-g", "-Wall"], &object).unwrap_or_else(|error| panic!("{error}"));
        object.display().to_string()
    };
    let (old, new) = (compile("ring"), compile("ring_mended"));
    let options = ["--runs", "32", "--no-shrink"];
    let compare =
        |new: &str, old: &str| windtunnel(&[&["explore", new, "--against", old], options.as_slice()].concat());
    let mended = compare(&new, &old);
    assert_eq!(mended.status, 0, "{}{}", mended.stdout, mended.stderr);
    assert!(mended.stdout.starts_with("only in ring.bpf.o: "), "{}", mended.stdout);
    assert!(
        mended.stdout.contains(": race: a change can be lost\n"),
        "{}",
        mended.stdout
    );
    assert!(mended.stdout.contains(" of 32 runs\n"), "{}", mended.stdout);
    assert!(
        mended.stdout.contains("\nonly in ring_mended.bpf.o: 0 of 0 findings\n"),
        "{}",
        mended.stdout
    );
    assert!(mended.stdout.contains("\nin both: 0 findings\n"), "{}", mended.stdout);
    // The other way round, the newer version shows the race.
    let broken = compare(&old, &new);
    assert_eq!(broken.status, 1, "{}{}", broken.stdout, broken.stderr);
    let same = compare(&old, &old);
    assert_eq!(same.status, 0, "{}{}", same.stdout, same.stderr);
    assert!(same.stdout.starts_with("only in ring.bpf.o: 0 of "), "{}", same.stdout);
}
