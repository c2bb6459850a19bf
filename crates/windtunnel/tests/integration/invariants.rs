// SPDX-License-Identifier: GPL-2.0-only
//! Tests `windtunnel invariants`. It must find a violation at the right time and draw it. It also
//! prints a command, which must make the same drawing.

use crate::support::{object, windtunnel};

/// On a machine with four CPUs, four tasks start on CPU 0. The policy `odd` leaves them there.
const CROWD: [&str; 6] = [
    "-m",
    "smp4",
    "-w",
    "closed:n=4,compute=50ms,start_cpu=0",
    "--for",
    "100ms",
];

fn odd() -> String {
    object("crates/windtunnel/tests/policies/odd.bpf.c")
        .display()
        .to_string()
}

#[test]
fn tasks_waiting_beside_idle_cpus_break_work_conservation_and_starvation() {
    let odd = odd();
    let ran = windtunnel(&[&["invariants", &odd], &CROWD[..], &["--starvation", "25ms", "--json"]].concat());
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let found: serde_json::Value = serde_json::from_str(&ran.stdout).expect("the text is valid JSON");
    let result = |name: &str| {
        let all = found[0]["invariants"].as_array().expect("the result has invariants");
        all.iter().find(|one| one["invariant"] == name).expect(name).clone()
    };
    // The second task waits from the start until the first tick, at 10 ms, while other CPUs idle.
    // The fourth task waits three times as long.
    let idle = result("work conservation");
    assert_eq!(
        (idle["first"]["from_ns"].as_u64(), idle["first"]["pid"].as_u64()),
        (Some(0), Some(2))
    );
    let ns = |violation: &serde_json::Value| {
        let end = |field: &str| violation[field].as_u64().expect(field);
        end("until_ns") - end("from_ns")
    };
    assert!((9_500_000..10_500_000).contains(&ns(&idle["first"])), "{idle}");
    let starved = result("starvation");
    assert_eq!(starved["first"]["pid"].as_u64(), Some(4), "{starved}");
    assert!((29_500_000..30_500_000).contains(&ns(&starved["first"])), "{starved}");
    assert_eq!(result("affinity")["violations"].as_u64(), Some(0));
    // The printed command must draw the same picture.
    let command = idle["command"].as_str().expect("the result has a command");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let again = windtunnel(&words);
    assert_eq!(again.status, 0, "{command}: {}", again.stderr);
    let drawing = idle["drawing"].as_str().expect("the drawing is a text");
    for picture in [drawing, &again.stdout] {
        let rows: Vec<&str> = picture.lines().filter(|line| line.starts_with("  ")).collect();
        assert!(
            rows[0].starts_with("  0  AAAA") && rows[0].ends_with("BBBB"),
            "{picture}"
        );
        assert!(
            rows[1].starts_with("  1  ....") && rows[1].ends_with("...."),
            "{picture}"
        );
    }
}

#[test]
fn a_policy_that_spreads_tasks_breaks_no_invariant() {
    let ran = windtunnel(&[&["invariants", "eevdf", &odd()], &CROWD[..], &["--idle", "15ms"]].concat());
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    let (eevdf, odd) = ran
        .stdout
        .split_once("\nodd on machine")
        .expect("both policies are in the output");
    assert!(
        eevdf.matches(" holds ").count() == 2 && eevdf.matches(" not tested ").count() == 1,
        "{eevdf}"
    );
    assert!(odd.contains("work conservation: from 0.000 ms on, CPU"), "{odd}");
    for part in [
        "at 15.000 ms, the task was the first of 3 in: local DSQ of CPU 0",
        "idle CPUs: 1-3; busy CPUs: 0",
        "to repeat this drawing: windtunnel run ",
    ] {
        assert!(odd.contains(part), "no '{part}' in\n{odd}");
    }
    let ran = windtunnel(&[&["invariants", "eevdf"], &CROWD[..], &["--idle", "5 parsec"]].concat());
    assert_eq!(ran.status, 2);
}

#[test]
fn the_page_begins_with_the_number_of_policies_that_violate_an_invariant() {
    let odd = odd();
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("invariants.html");
    let name = path.to_string_lossy();
    let page = |policies: &[&str]| {
        windtunnel(&[&["invariants", "--html", &name], policies, &CROWD[..]].concat());
        std::fs::read_to_string(&path).expect("the page is written")
    };
    let both = page(&["fifo", &odd]);
    for part in [
        "<p class=\"headline\">1 of 2 policies violates an invariant or fails</p>",
        "<li>odd violates: work conservation</li>",
        "<th scope=\"row\">work conservation</th>",
        "<td class=\" bad\">BROKEN</td>",
        "odd: first violations",
    ] {
        assert!(both.contains(part), "no {part} in:\n{both}");
    }
    let one = page(&["fifo"]);
    assert!(
        one.contains("<p class=\"headline\">fifo violates no invariant</p>"),
        "{one}"
    );
    assert!(!one.contains("first violations"), "{one}");
}
