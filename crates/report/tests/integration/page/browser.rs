// SPDX-License-Identifier: GPL-2.0-only
//! Tests the page in a headless browser: `chromium-headless-shell` as Debian packages it, another
//! Chromium, or the browser that the variable CHROMIUM names. Without a browser, the tests are
//! skipped with a message.
//!
//! The script probe.js operates the page with keys, the pointer and buttons. It writes the results
//! of its checks into the page, which the browser then prints.

use super::runs::{Shape, run};
use super::two;
use report::html::page;
use std::path::PathBuf;
use std::process::Command;

/// A script that records all errors. It precedes all other scripts of the page.
pub const LISTEN: &str = "<script>window.wrong=[];\
    addEventListener('error',e=>wrong.push(e.message));\
    addEventListener('unhandledrejection',e=>wrong.push(String(e.reason)));</script>";
pub const PROBE: &str = include_str!("probe.js");

fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    installed(&[
        "chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
    ])
}

/// Returns the path of the first of these programs that is installed.
pub fn installed(names: &[&str]) -> Option<PathBuf> {
    let directories: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let found = names
        .iter()
        .flat_map(|name| directories.iter().map(move |directory| directory.join(name)));
    found.into_iter().find(|path| path.is_file())
}

/// Returns the results of the probe's checks by name. A result is `true`, or the unexpected value.
/// Returns `None` if there is no browser.
fn probe(html: &str, name: &str, more: &[&str]) -> Option<serde_json::Map<String, serde_json::Value>> {
    let Some(chromium) = chromium() else {
        golden::skip!("there is no Chromium (apt-get install chromium-headless-shell)");
        return None;
    };
    let html = html.replacen("<head>", &format!("<head>{LISTEN}"), 1);
    let html = html.replacen("</body>", &format!("<script>{PROBE}</script></body>"), 1);
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Files of an earlier run are removed, because they contain the theme that was chosen then.
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("the directory can be created");
    let path = directory.join("page.html");
    std::fs::write(&path, html).expect("the page can be written");
    let ran = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"])
        .args(["--virtual-time-budget=20000", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .args(more)
        .arg(format!("file://{}", path.display()))
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
    Some(serde_json::from_str(&found).expect("the text is valid JSON"))
}

fn all_true(html: &str, name: &str, more: &[&str]) {
    let Some(found) = probe(html, name, more) else { return };
    let other: Vec<_> = found.iter().filter(|(_, value)| **value != true).collect();
    assert!(found.len() > 3 && other.is_empty(), "{name}: {other:?}");
}

/// Checks that a page without data opens without errors.
pub fn opens(html: &str, name: &str) {
    let Some(found) = probe(html, name, &[]) else { return };
    assert_eq!(
        (&found["ready"], &found["errors"]),
        (&true.into(), &true.into()),
        "{found:?}"
    );
}

#[test]
fn two_runs_work_in_the_light_theme() {
    all_true(&two(), "light", &["--blink-settings=preferredColorScheme=1"]);
}

#[test]
fn two_runs_work_in_the_dark_theme() {
    all_true(&two(), "dark", &["--blink-settings=preferredColorScheme=0"]);
}

/// With few CPUs, the page draws deviations as lines. With many segments, it draws the timeline
/// from sums that are computed once (bins).
#[test]
fn a_long_run_on_few_cpus_works() {
    let shape = Shape {
        nr_cpus: 3,
        switches: 300_000,
        ..Shape::default()
    };
    all_true(&page(&[run(&shape, 250_000)], &[]), "long", &[]);
}
