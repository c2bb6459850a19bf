// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the output on terminals: tables fit the width, environment variables control the
//! colours, and names cannot send control characters.

use crate::support::terminal::{on_terminal, without_colours};
use crate::support::{object, windtunnel};
use std::path::{Path, PathBuf};

fn run<'a>(fifo: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let run = ["run", "eevdf", fifo, "--machine", "smp4", "--for", "20ms"];
    [&run, more].concat()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("terminal").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the directory can be created");
    folder
}

fn path(source: &str) -> String {
    object(source).display().to_string()
}

fn widest(text: &str) -> usize {
    let lines = text.lines().filter(|line| !line.starts_with("repeat: "));
    lines.map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn tables_fit_any_width() {
    let fifo = path("policies/fifo.bpf.c");
    let other = path("policies/vtime.bpf.c");
    let commands: [Vec<&str>; 5] = [
        run(&fifo, &["--draw"]),
        run(&fifo, &["--details", "-"]),
        ["compare", "eevdf", &fifo, "-m", "smp4", "--for", "20ms", "--runs", "2"].into(),
        ["invariants", "eevdf", "-m", "smp4", "--for", "20ms"].into(),
        ["diff", &fifo, &other, "-m", "smp4", "--for", "20ms", "--window", "1ms"].into(),
    ];
    for args in commands {
        for columns in [60, 80, 100, 140] {
            let (_, text) = on_terminal(columns, &[], &args);
            let text = without_colours(&text);
            let tables: String = text
                .lines()
                .filter(|line| line.contains(['│', '┆', '═', '|']))
                .fold(String::new(), |all, line| all + line + "\n");
            assert!(!tables.is_empty(), "{args:?} prints no table:\n{text}");
            assert!(
                widest(&tables) <= usize::from(columns),
                "{args:?} on {columns} columns:\n{text}"
            );
        }
    }
    for list in [
        ["policy", "list"],
        ["workload", "list"],
        ["experiment", "list"],
        ["machine", "list"],
    ] {
        let (status, text) = on_terminal(60, &[], &list);
        assert_eq!((status, widest(&text) <= 60), (0, true), "{list:?}:\n{text}");
    }
}

#[test]
fn a_narrow_table_names_its_missing_columns_and_a_file_has_all() {
    let fifo = path("policies/fifo.bpf.c");
    let args = run(&fifo, &[]);
    let (status, wide) = on_terminal(140, &[], &args);
    assert_eq!((status, wide.contains("not shown")), (0, false), "{wide}");
    let (_, narrow) = on_terminal(70, &[], &args);
    let narrow = without_colours(&narrow);
    assert!(
        narrow.contains("not shown at this width:") && narrow.contains("migrations"),
        "{narrow}"
    );
    assert!(narrow.contains("throughput") && narrow.contains('*'), "{narrow}");
    // On a very narrow terminal, each policy has a block of lines instead of a row of a table.
    let (_, block) = on_terminal(24, &[], &args);
    let block = without_colours(&block);
    assert!(
        block.contains("\nfifo\n") && block.contains("\n  migrations"),
        "{block}"
    );
    let file = windtunnel(&args);
    assert!(
        file.stdout.contains("migra-") && !file.stdout.contains('\x1b'),
        "{}",
        file.stdout
    );
}

#[test]
fn colours_follow_the_terminal() {
    let fifo = path("policies/fifo.bpf.c");
    let args = run(&fifo, &[]);
    let has_colour = |variables: &[(&str, &str)]| {
        let (status, text) = on_terminal(120, variables, &args);
        assert_eq!(status, 0);
        assert!(
            without_colours(&text).contains('*'),
            "the best value has no mark: {text}"
        );
        text.contains('\x1b')
    };
    assert!(has_colour(&[]));
    assert!(!has_colour(&[("NO_COLOR", "1")]));
    assert!(!has_colour(&[("TERM", "dumb")]));
    let wild = path("crates/windtunnel/tests/policies/wild.bpf.c");
    let (status, text) = on_terminal(120, &[], &["run", &wild, "-m", "up", "-w", "closed:n=2", "--for", "1s"]);
    assert!(
        status == 1 && text.contains("\x1b[38;5;9m wild"),
        "the failed policy is not red: {text:?}"
    );
}

/// The name of a task, in JSON. A terminal that received this name would clear the screen twice,
/// ring the bell, begin a new line and reverse the direction of the text.
const NAME: &str = r"x\u001b[2J\u009b\u0007\ny\u202e";
/// [`NAME`] as the command prints it.
const SHOWN: &str = r"x\x1b[2J\u{9b}\x07\ny\u{202e}";

/// Writes a workload with hostile task names. Some contain control characters. Others would end a
/// script element of an HTML page.
fn hostile(folder: &Path) -> PathBuf {
    let task = r#""instance": 3, "run": 400, "sleep": 300"#;
    let tasks = format!(r#""{NAME}": {{ {task} }}, "</script><xss>": {{ {task} }}"#);
    let path = folder.join("hostile\x1b[2J\t<xss>.json");
    std::fs::write(
        &path,
        format!(r#"{{ "tasks": {{ {tasks} }}, "global": {{ "duration": 1 }} }}"#),
    )
    .expect("the file can be written");
    path
}

fn is_safe(text: &str) -> bool {
    !text
        .chars()
        .any(|c| c.is_control() && c != '\n' || "\u{202e}\u{2066}".contains(c))
}

#[test]
fn names_with_control_characters_are_printed_escaped() {
    let folder = folder("hostile");
    let workload = hostile(&folder).display().to_string();
    let fifo = path("policies/fifo.bpf.c");
    // The file name of the policy also contains an escape sequence.
    let named = folder.join("fi\x1b[2J<xss>fo.bpf.o");
    std::fs::copy(&fifo, &named).expect("the object can be copied");
    let named = named.display().to_string();
    let file = |name: &str| folder.join(name).display().to_string();
    let [trace, ftrace, html] = ["t.wtt", "t.txt", "t.html"].map(file);
    let load = ["-m", "smp2", "-w", &workload, "--for", "20ms"];
    let outputs = ["--trace", &trace, "--ftrace", &ftrace, "--html", &html];
    let ran = windtunnel(&[&["run", &named, "--draw", "--details", "-"][..], &load, &outputs].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains(SHOWN), "{}", ran.stdout);
    assert!(is_safe(&ran.stdout) && is_safe(&ran.stderr), "{:?}", ran.stdout);
    for args in [
        vec!["run", &named, "--json", "-"],
        vec!["invariants", &named, "eevdf", "--idle", "1us"],
        vec!["invariants", &named, "eevdf", "--idle", "1us", "--json"],
        vec!["diff", &named, "eevdf"],
        vec!["diff", &named, "eevdf", "--json"],
        vec!["compare", &named, "eevdf", "--runs", "2"],
        vec!["top", &named],
    ] {
        let ran = windtunnel(&[&args[..], &load].concat());
        assert!(ran.status < 2, "{args:?}: {}", ran.stderr);
        assert!(
            !ran.stdout.is_empty() && is_safe(&ran.stdout) && is_safe(&ran.stderr),
            "{args:?}: {:?}",
            ran.stdout
        );
    }
    for args in [
        vec!["report", &trace],
        vec!["report", &trace, "--latency", "--timehist", "--schedstat"],
        vec!["workload", "show", &workload],
        vec!["run", "eevdf", "-w", "no\x1b[2J.json"],
        vec!["run", "no\x1b[2Jpolicy"],
        vec!["report", "no\x1b[2J.wtt"],
    ] {
        let ran = windtunnel(&args);
        assert!(
            is_safe(&ran.stdout) && is_safe(&ran.stderr),
            "{args:?}: {:?}{:?}",
            ran.stdout,
            ran.stderr
        );
    }
    // Each line of the file must be an event.
    let text = std::fs::read_to_string(&ftrace).expect("the ftrace file exists");
    assert!(is_safe(&text) && text.contains(SHOWN), "{text}");
    let mut events = text.lines().filter(|line| !line.starts_with('#'));
    assert!(events.all(|line| line.contains("] d.")), "{text}");
    // No name may begin or end a script element, neither in the text of the page nor in its data.
    let page = std::fs::read_to_string(&html).expect("the page exists");
    assert!(!page.contains("<xss>"), "a name is an element of the page");
    assert!(
        page.contains("&lt;xss&gt;") && page.contains(r"\u003cxss>"),
        "the names are not in the texts and the data"
    );
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
}

#[test]
fn json_on_standard_output_equals_the_json_file() {
    let folder = folder("json");
    let workload = hostile(&folder).display().to_string();
    let file = folder.join("out.json");
    let args = ["run", "eevdf", "-m", "smp2", "-w", &workload, "--for", "20ms", "--json"];
    let printed = windtunnel(&[&args[..], &["-"]].concat());
    windtunnel(&[&args[..], &[file.to_str().expect("the path is UTF-8")]].concat());
    let parsed = |text: &str| -> Vec<report::RunResult> { serde_json::from_str(text).expect("the text is valid JSON") };
    let [printed, written] =
        [printed.stdout, std::fs::read_to_string(&file).expect("the file exists")].map(|text| parsed(&text));
    let mut names = printed[0].tasks.iter().map(|task| task.comm.as_str());
    assert!(
        names.any(|name| name == "x\u{1b}[2J\u{9b}\u{7}\ny\u{202e}"),
        "{:?}",
        printed[0].tasks
    );
    assert_eq!(printed[0].tasks, written[0].tasks);
}

#[test]
fn a_locale_without_utf_8_gets_ascii() {
    let fifo = path("policies/fifo.bpf.c");
    for args in [run(&fifo, &["--draw"]), run(&fifo, &["--details", "-"])] {
        let (_, text) = on_terminal(100, &[("LC_ALL", "C")], &args);
        assert!(text.is_ascii() && text.contains("+---"), "{text}");
    }
}
