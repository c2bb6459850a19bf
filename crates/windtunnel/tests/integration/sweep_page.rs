// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the HTML page of a sweep: its text, and how it works in a headless browser. Without a
//! browser, that test is skipped with a message.

use crate::support::{object, root};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The name of a workload file. It would execute a script if it was inserted as markup.
const HOSTILE: &str = "<img src=x onerror=\"wrong.push('executed')\"></script>";
/// A script that records all errors. It precedes all other scripts of the page.
const LISTEN: &str = "<script>window.wrong=[];\
    addEventListener('error',e=>wrong.push(e.message));\
    addEventListener('unhandledrejection',e=>wrong.push(String(e.reason)));</script>";
const PROBE: &str = include_str!("sweep_probe.js");

fn run(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_windtunnel"))
        .args(args)
        .current_dir(folder)
        .output()
        .expect("the command runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().expect("no signal has ended the command"), text)
}

/// Executes a sweep of 3 configurations, 2 machines and 2 workloads, and writes its page.
fn page() -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("the directory can be created");
    let json = r#"{ "tasks": { "t": { "instance": 5, "run": 300, "sleep": 200 } } }"#;
    // A file name cannot contain a slash.
    let hostile = format!("{}.json", HOSTILE.replace('/', "\\"));
    std::fs::write(folder.path().join(&hostile), json).expect("the file can be written");
    let fifo = object("policies/fifo.bpf.c").display().to_string();
    let sweep = format!(
        "policies = ['eevdf', '{fifo}']\nmachines = ['smp4', 'core:2 pu:2']\n\
         workloads = ['closed:n=6,compute=1ms,think=1ms', '''{hostile}''']\nseeds = 3\nfor = '20ms'\n\
         [set]\nslice_ns = [500_000, 4_000_000]\n"
    );
    std::fs::write(folder.path().join("sweep.toml"), sweep).expect("the file can be written");
    let (status, text) = run(folder.path(), &["sweep", "sweep.toml", "--no-store"]);
    assert_eq!(status, 0, "{text}");
    let (status, text) = run(folder.path(), &["report", "sweep.parquet"]);
    assert_eq!((status, text.as_str()), (0, "report: sweep.html\n"));
    let html = std::fs::read_to_string(folder.path().join("sweep.html")).expect("the page exists");
    (folder, html)
}

#[test]
fn the_page_has_a_verdict_and_no_foreign_markup() {
    let (folder, html) = page();
    assert!(html.contains("has the best score on average."), "{html}");
    assert!(html.contains("36 runs · 3 configurations · 4 combinations"), "{html}");
    assert!(!html.contains("<img"), "a name was inserted as markup");
    // The page loads nothing, and equal tables give equal pages.
    for foreign in ["<link", " src=", "@import", "url(http", "fetch("] {
        let own = html.replace("\\u003cimg src=", "");
        assert!(!own.contains(foreign), "{foreign}");
    }
    let (status, text) = run(folder.path(), &["report", "sweep.parquet", "-o", "again.html"]);
    assert_eq!(status, 0, "{text}");
    assert!(std::fs::read_to_string(folder.path().join("again.html")).expect("the page exists") == html);
}

#[test]
fn other_files_are_refused_with_a_hint() {
    let folder = tempfile::tempdir().expect("the directory can be created");
    std::fs::write(folder.path().join("bad.parquet"), "PAR1 but not more").expect("the file can be written");
    let (status, text) = run(folder.path(), &["report", "bad.parquet"]);
    assert!(status == 2 && text.contains("bad.parquet: "), "{text}");
    assert!(
        !text.contains("bug of the simulator") && !folder.path().join("bad.html").exists(),
        "{text}"
    );
    let (status, text) = run(folder.path(), &["report", "bad.parquet", "other.wtt"]);
    assert!(status == 2 && text.contains("must be the only file"), "{text}");
}

fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    let directories: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let names = [
        "chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
    ];
    let found = names
        .iter()
        .flat_map(|name| directories.iter().map(move |directory| directory.join(name)));
    found.into_iter().find(|path| path.is_file())
}

#[test]
fn the_page_works_in_a_browser() {
    let Some(chromium) = chromium() else {
        golden::skip!("there is no Chromium (apt-get install chromium-headless-shell)");
        return;
    };
    let (folder, html) = page();
    let html = html.replacen("<head>", &format!("<head>{LISTEN}"), 1);
    let html = html.replacen("</body>", &format!("<script>{PROBE}</script></body>"), 1);
    let path = folder.path().join("probed.html");
    std::fs::write(&path, html).expect("the page can be written");
    let ran = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"])
        .args(["--virtual-time-budget=20000", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", path.display()))
        .current_dir(root())
        .output()
        .expect("Chromium starts");
    let log = String::from_utf8_lossy(&ran.stderr);
    let messages: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(messages.is_empty(), "the console contains: {messages:?}");
    let dom = String::from_utf8_lossy(&ran.stdout);
    let found = dom
        .split_once("<pre id=\"probe\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"));
    let found = found.unwrap_or_else(|| panic!("the probe did not finish:\n{log}")).0;
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let found: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&found).expect("valid JSON");
    let other: Vec<_> = found.iter().filter(|(_, value)| **value != true).collect();
    assert!(found.len() > 10 && other.is_empty(), "{other:?}");
}
