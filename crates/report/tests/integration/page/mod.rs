// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the HTML page: that its text is right, that it loads nothing, and that it works in a
//! browser.

mod browser;
mod firefox;
mod runs;

use report::html::page;
use runs::{Shape, failed, run};

fn two() -> String {
    let slow = Shape {
        policy: "rr",
        late_ns: 90_000,
        switches: 4_000,
        ..Shape::default()
    };
    page(
        &[run(&Shape::default(), 1 << 20), run(&slow, 1 << 20)],
        &["the usual error: <11 %>".to_owned()],
    )
}

/// Returns the text of a page without tags, scripts and styles.
fn text(html: &str) -> String {
    let body = html.split("<script").next().expect("the page has a body");
    let body = body.split("</style>").last().expect("the page has a body");
    let parts = body
        .split('<')
        .map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    parts.collect::<Vec<_>>().join("")
}

#[test]
fn verdict_and_tables_need_no_scripts() {
    let html = two();
    let text = text(&html);
    for expected in [
        "closed:n=40,compute=250ms on made-up",
        "2 runs · 12 CPUs, 4 LLCs, 2 nodes",
        "steal does the most work: ",
        " more than rr.",
        "steal has the fastest wake-ups: 99 % take at most 3.0",
        "highest throughput",
        "p99 wake-up 30.0× the best",
        "same LLC",
        "select_cpu",
        "nice 0",
        "Dashed lines are predictions: 250 ms 4 tasks share a CPU",
        "Where the time goes",
        " time per operation than ",
        "waits for a CPU",
        "No CPU waited for a lock.",
        "the usual error: &lt;11 %&gt;",
    ] {
        assert!(text.contains(expected), "no '{expected}' in:\n{text}");
    }
}

#[test]
fn the_page_loads_nothing_and_is_deterministic() {
    let html = two();
    for foreign in [
        "<link",
        " src=",
        "@import",
        "url(http",
        "fetch(",
        "XMLHttpRequest",
        "import(",
    ] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    // Equal runs must produce equal pages.
    assert_eq!(html, two());
}

#[test]
fn a_failure_is_in_the_verdict_and_names_are_escaped() {
    let mut odd = failed(run(&Shape::default(), 1 << 20));
    odd.result.policy = "</script><b>&\"x".to_owned();
    let html = page(&[odd], &[]);
    let verdict = text(&html);
    assert!(verdict.contains("then failed."), "{verdict}");
    assert!(verdict.contains("runnable task stall: client2[2] failed to run for 30.001s, in steal.bpf.c:120."));
    assert!(!html.contains("</script><b>") && verdict.contains("&lt;b&gt;&amp;"));
}

#[test]
fn runs_of_one_policy_have_different_labels() {
    let with = |setting: &str| {
        let mut run = run(
            &Shape {
                switches: 100,
                ..Shape::default()
            },
            1 << 20,
        );
        run.result.settings = vec!["poolsize=4".to_owned(), setting.to_owned()];
        run
    };
    let html = text(&page(
        &[with("slice_ns=1000"), with("slice_ns=2000"), with("slice_ns=2000")],
        &[],
    ));
    for label in [
        "steal slice_ns=1000",
        "steal slice_ns=2000 #1",
        "steal slice_ns=2000 #2",
    ] {
        assert!(html.contains(label), "{label}");
    }
}

/// Both runs exceed the maximum number of segments in the page's timeline. A page with 500 000
/// switches must therefore be hardly larger than a page with 250 000.
#[test]
fn the_size_of_the_page_is_bounded() {
    let long = |switches| {
        let shape = Shape {
            nr_cpus: 6,
            switches,
            ..Shape::default()
        };
        page(&[run(&shape, 20_000)], &[]).len()
    };
    let (half, whole) = (long(250_000), long(500_000));
    assert!(whole < 400_000 && whole < half * 3 / 2, "{half} {whole}");
}

#[test]
fn a_run_without_records_has_a_page() {
    let header = runs::header(&Shape::default());
    let mut scan = report::html::Scan::new(&header, 1 << 20);
    scan.finish(0);
    let result = report::RunResult {
        policy: "none".to_owned(),
        ..report::RunResult::default()
    };
    let run = report::html::Run {
        result,
        scan,
        predicted: Vec::new(),
        lacks: vec!["12 events were lost".to_owned()],
        explained: Vec::new(),
        why: String::new(),
    };
    let html = page(&[run], &[]);
    assert!(text(&html).contains("none ran"));
    assert!(text(&html).contains("none: 12 events were lost"));
    browser::opens(&html, "empty");
}
