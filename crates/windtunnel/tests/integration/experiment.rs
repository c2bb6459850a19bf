// SPDX-License-Identifier: GPL-2.0-only
//! Tests of experiments: valid and invalid definitions, the comparison with a baseline, and the
//! comparison with published figures.

use crate::support;
use crate::support::{Ran, windtunnel};
use lab::experiment::{self, Experiment};
use std::path::PathBuf;

/// Creates the directory of an experiment, with the given files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join("experiments")
        .join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the directory can be created");
    for (file, text) in files {
        std::fs::write(folder.join(file), text).expect("the file can be written");
    }
    folder
}

fn run(folder: &std::path::Path, more: &[&str]) -> Ran {
    let folder = folder.to_str().expect("the path is UTF-8");
    windtunnel(&[&["experiment", "run", folder], more].concat())
}

fn json(folder: &std::path::Path, more: &[&str]) -> serde_json::Value {
    let ran = run(folder, &[more, &["--json"]].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("the text is valid JSON")
}

const HEAD: &str = "title = 't'\nsource = 's'\nquestion = 'q'\n";

/// Two tasks that compute for 2 ms each take 4 ms on one CPU and 2 ms on two CPUs.
const SPEEDUP: &str = r#"
columns = ["cpus", "hogs", "time_s", "speedup_percent"]
[values]
time_s = "time_s"
speedup_percent = { measure = "speedup_percent", of = "time_s", better = "lower" }
[run]
policy = "eevdf"
machine = "pu:{cpus}"
workload = "open:arrival=D,interarrival=1us,service=D,work=2ms,number={hogs}"
costs = false
seeds = 2
[baseline]
machine = "pu:1"
[[case]]
keys = { cpus = [1, 2], hogs = [2, 4] }
"#;

#[test]
fn every_case_is_compared_with_its_baseline() {
    let published = "cpus,hogs,time_s,speedup_percent\n2,2,0.002,110\n1,2,0.004,-5\n2,8,,7\n";
    let folder = folder(
        "speedup",
        &[
            ("experiment.toml", &(HEAD.to_owned() + SPEEDUP)),
            ("published.csv", published),
        ],
    );
    let found = &json(&folder, &[])[0];
    let rows = found["rows"].as_array().expect("the result has rows");
    let keys: Vec<String> = rows
        .iter()
        .map(|row| format!("{}/{}", row["keys"]["cpus"], row["keys"]["hogs"]))
        .collect();
    assert_eq!(keys, ["\"1\"/\"2\"", "\"1\"/\"4\"", "\"2\"/\"2\"", "\"2\"/\"4\""]);
    let speedup = |row: usize| &rows[row]["values"]["speedup_percent"];
    let measured = |row: usize| speedup(row)["measured"].as_f64().expect("the value is a number");
    assert_eq!((measured(0), measured(1)), (0.0, 0.0));
    assert!((measured(2) - 100.0).abs() < 1.0, "{}", measured(2));
    assert_eq!(speedup(2)["published"], 110.0);
    assert!((speedup(2)["difference"].as_f64().expect("the value is a number") + 10.0).abs() < 1.0);
    // There are 2 CPU counts, 2 numbers of tasks and 2 seeds. The runs on one CPU are also the
    // baseline of the others, so there are 8 runs instead of 16.
    assert_eq!(found["runs"], 8);
    let agreement = found["agreement"].as_array().expect("the result has columns");
    let column_agreement = |column: &str| {
        agreement
            .iter()
            .find(|a| a["column"] == column)
            .expect("the result has this column")
    };
    assert_eq!(
        (
            &column_agreement("time_s")["unit"],
            &column_agreement("time_s")["signed"]
        ),
        (&"percent".into(), &0.into())
    );
    let speedups = column_agreement("speedup_percent");
    assert_eq!(
        (&speedups["cells"], &speedups["signed"], &speedups["right_sign"]),
        (&2.into(), &2.into(), &1.into())
    );
    assert!(found["notes"][0].as_str().expect("the note is a text").contains("2, 8"));
}

#[test]
fn agreement_is_stated_beside_the_error_of_predicting_no_difference() {
    let published = "cpus,hogs,time_s,speedup_percent\n2,2,0.002,110\n1,2,0.004,-5\n2,4,0.005,60\n1,4,0.008,\n";
    let definition = HEAD.to_owned() + "no_difference = { cpus = 1 }\n" + SPEEDUP;
    let files = [("experiment.toml", &*definition), ("published.csv", published)];
    let folder = folder("no-difference", &files);
    let found = &json(&folder, &[])[0];
    let of = |index: usize| {
        let none = &found["agreement"][index]["no_difference"];
        let number = |key: &str| none[key].as_f64().expect("the value is a number").round();
        (
            none["cells"].as_u64(),
            number("median_absolute_error"),
            number("measured_median_absolute_error"),
        )
    };
    // The prediction is that two CPUs need as long as one CPU. The medians of the errors are 80 %
    // and 4 %:
    //
    //   predicted  published  measured  error of the prediction  error of the simulator
    //   4 ms       2 ms       2.0 ms    100 %                    0 %
    //   8 ms       5 ms       4.6 ms    60 %                     8 %
    assert_eq!(of(0), (Some(2), 80.0, 4.0));
    // The prediction is that all speedups are 0. The medians of the errors are 60 and 10:
    //
    //   predicted  published  measured  error of the prediction  error of the simulator
    //   0          110        100       110                      10
    //   0          -5         0         5                        5
    //   0          60         74        60                       14
    assert_eq!(of(1), (Some(3), 60.0, 10.0));
    let page = folder.join("page.html");
    let text = run(&folder, &["--report", page.to_str().expect("the path is UTF-8")]).stdout;
    let page = std::fs::read_to_string(page).expect("the page exists");
    let line = "predicting no difference: 80.0 % in 2 cells, where the model has 4.0 %";
    assert!(text.contains(line) && page.contains(line), "{text}");

    // Without `no_difference`, a column of times has no prediction.
    std::fs::write(folder.join("experiment.toml"), HEAD.to_owned() + SPEEDUP).expect("the file can be written");
    let found = &json(&folder, &[])[0];
    assert!(found["agreement"][0]["no_difference"].is_null());
    for (wrong, message) in [
        ("{ cpus = 3 }", "no row has cpus = 3"),
        ("{ time_s = 1 }", "'time_s' is not a key column"),
        ("{ cpu = 1 }", "'cpu' is not a key column"),
        ("{ cpus = [1] }", "'cpus' is not a key column with a text or number"),
    ] {
        let definition = format!("{HEAD}no_difference = {wrong}\n{SPEEDUP}");
        std::fs::write(folder.join("experiment.toml"), definition).expect("the file can be written");
        let ran = run(&folder, &[]);
        assert_eq!(ran.status, 2);
        assert!(
            ran.stderr.contains(message) && ran.stderr.contains(":4"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn a_value_from_which_a_constant_was_inferred_does_not_count_as_agreement() {
    let published = "cpus,hogs,time_s,speedup_percent\n2,2,0.002,110\n1,2,0.004,-5\n2,4,0.005,60\n1,4,0.008,\n";
    let calibrated = "[[calibrated]]\nkeys = { cpus = 2, hogs = 2 }\nvalues = ['speedup_percent']\n\
                      constant = 'work of a task: 2 ms'\n";
    let (columns, rest) = SPEEDUP.split_once("[values]").expect("the definition has values");
    let with = |head: &str, table: &str| format!("{HEAD}{head}{columns}{table}[values]{rest}");
    let definition = with("no_difference = { cpus = 1 }\n", calibrated);
    let files = [("experiment.toml", &*definition), ("published.csv", published)];
    let folder = folder("calibrated", &files);
    let found = &json(&folder, &[])[0];
    let times = &found["agreement"][0];
    assert_eq!((&times["cells"], &times["calibrated"]), (&4.into(), &0.into()));
    // Without the calibrated row, -5 and 60 percent are published, and 0 and 51 measured.
    let speedups = &found["agreement"][1];
    let count = |key: &str| speedups[key].as_u64().expect("the value is a number");
    assert_eq!((count("cells"), count("calibrated")), (2, 1));
    assert_eq!((count("signed"), count("right_sign")), (2, 1));
    assert_eq!(speedups["no_difference"]["cells"], 2);
    let row = found["rows"].as_array().expect("the result has rows");
    let cell = |index: usize| &row[index]["values"]["speedup_percent"];
    assert_eq!(
        (&cell(2)["calibrated"], &cell(3)["calibrated"]),
        (&true.into(), &false.into())
    );
    assert_eq!(row[2]["values"]["time_s"]["calibrated"], false);
    assert_eq!(found["calibrated"][0]["constant"], "work of a task: 2 ms");
    let page = folder.join("page.html");
    let text = run(&folder, &["--report", page.to_str().expect("the path is UTF-8")]).stdout;
    let page = std::fs::read_to_string(page).expect("the page exists");
    for line in [
        "2 cells, 1 more not counted (calibrated)",
        "calibrated, not counted as agreement: cpus = 2, hogs = 2 (speedup_percent): work of a task: 2 ms",
    ] {
        assert!(text.contains(line) && page.contains(line), "{line}: {text}");
    }
    for (wrong, message) in [
        ("keys = { cpus = 3 }\nconstant = 'c'", "calibrated: no row has cpus = 3"),
        (
            "keys = { time_s = 1 }\nconstant = 'c'",
            "calibrated: 'time_s' is not a key column",
        ),
        (
            "keys = {}\nvalues = ['hogs']\nconstant = 'c'",
            "'hogs' is not a measured column",
        ),
        ("keys = {}\nconstant = ' '", "calibrated: the constant is empty"),
        ("keys = {}", "constant"),
    ] {
        let definition = with("", &format!("[[calibrated]]\n{wrong}\n"));
        std::fs::write(folder.join("experiment.toml"), definition).expect("the file can be written");
        let ran = run(&folder, &[]);
        assert_eq!(ran.status, 2, "{wrong}");
        assert!(ran.stderr.contains(message), "{}", ran.stderr);
    }
}

/// Process A forks 100 children one after the other, and B computes for `work`. B takes longer than
/// A, unless a fork is twice as expensive or the work is halved.
const FORKS: &str = r#"
columns = ["what", "time_s", "gain_percent"]
[values]
time_s = "time_s"
gain_percent = { measure = "relative_percent", of = "time_s", better = "lower" }
[run]
policy = "eevdf"
machine = "pu:1"
workload = "open:arrival=D,interarrival=1us,service=D,work={work},number=1"
with = { work = "15000us" }
[sensitivity]
vary = ["work"]
[baseline]
workload = "open:arrival=D,interarrival=1us,service=D,work={work},number=1"
[[case]]
keys = { what = "B" }
[[case]]
keys = { what = "A" }
workload = "lat_proc:operation=fork,n=100"
"#;

#[test]
fn constants_that_turn_a_conclusion_over_are_named() {
    let folder = folder("sensitivity", &[("experiment.toml", &(HEAD.to_owned() + FORKS))]);
    let found = json(&folder, &["--sensitivity"]);
    let found = &found[0];
    let list = |value: &serde_json::Value| value.as_array().expect("the value is a list").clone();
    let conclusions = list(&found["conclusions"]);
    let turned = |kind: &str, column: &str| -> Vec<String> {
        let mut found = conclusions
            .iter()
            .filter(|c| c["kind"] == kind && c["column"] == column);
        let conclusion = found.next().expect("there is such a conclusion");
        assert!(found.next().is_none());
        let names = list(&conclusion["turned_by"]);
        names
            .iter()
            .map(|by| by["changed"].as_str().expect("a name").to_owned())
            .collect()
    };
    // A needs about 100 us for each child. 60 us of them are the fork, and 40 us the exit.
    let expected = ["fork x2", "work x0.5 (7500us)"];
    assert_eq!(turned("order", "time_s"), expected);
    assert_eq!(turned("sign", "gain_percent"), expected);
    let without = list(&found["without_effect"]);
    assert!(
        without.contains(&"channel.tcp".into()) && !without.contains(&"exit".into()),
        "{without:?}"
    );
    // A constant without effect is doubled only.
    let changed: Vec<String> = list(&found["variants"])
        .iter()
        .map(|v| v["changed"].as_str().expect("a name").to_owned())
        .collect();
    assert_eq!(changed[..2], ["nothing", "other seeds"]);
    assert!(
        changed.contains(&"fork x0.5".into()) && !changed.contains(&"channel.tcp x2".into()),
        "{changed:?}"
    );
    let doubled = list(&found["variants"])
        .iter()
        .find(|v| v["changed"] == "work x2 (30000us)")
        .cloned();
    let effect = &doubled.expect("work is doubled")["effects"]["time_s"];
    assert!(
        (effect["largest_change"].as_f64().expect("a number") - 100.0).abs() < 1.0,
        "{effect}"
    );
    assert_eq!(effect["orders_turned"], 0);

    let shown = run(&folder, &["--sensitivity"]);
    assert_eq!(shown.status, 0);
    for line in [
        "B above A",
        "turned over by fork x2 (",
        "No value depends on",
        "3 conclusions",
    ] {
        assert!(shown.stdout.contains(line), "{line}: {}", shown.stdout);
    }
    // Nothing depends on the threads, apart from the time.
    let variants = |threads: &str| json(&folder, &["--sensitivity", "--threads", threads])[0]["variants"].clone();
    assert_eq!(variants("1"), variants("3"));
    assert!(!folder.join("measured.csv").exists());
}

#[test]
fn background_work_gives_runs_with_different_seeds_a_spread() {
    let definition = HEAD.to_owned()
        + r#"
columns = ["noise", "deviation_s"]
[values]
deviation_s = { measure = "time_s", across = "deviation" }
[run]
policy = "eevdf"
machine = "pu:2"
workload = "open:arrival=D,interarrival=1us,service=D,work=100ms,number=3"
seeds = 5
noise = "{noise}"
keys = { noise = ["off", "quiet", "server"] }
"#;
    let folder = folder("noise", &[("experiment.toml", &definition)]);
    let found = &json(&folder, &[])[0];
    let deviation = |row: usize| found["rows"][row]["values"]["deviation_s"]["measured"].as_f64();
    assert_eq!(deviation(0), Some(0.0));
    assert!(deviation(1) > Some(0.0) && deviation(2) > Some(0.0), "{found}");
    let wrong = definition.replace("\"off\"", "\"loud\"");
    std::fs::write(folder.join("experiment.toml"), wrong).expect("the file can be written");
    let ran = run(&folder, &[]);
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr
            .contains("noise: there is no level of background work 'loud'"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_analysis_of_constants_can_be_shortened() {
    let table = "[sensitivity]\nonly = { hogs = [4, 8] }\ncompare = ['cpus']\nseeds = 2\n";
    let definition = HEAD.to_owned() + &SPEEDUP.replace("[baseline]", &format!("{table}[baseline]"));
    let folder = folder("sensitivity-short", &[("experiment.toml", &definition)]);
    let found = &json(&folder, &["--sensitivity"])[0];
    // Without costs there is nothing to change, so only the two reference variants remain: 2 CPU
    // counts and 2 seeds each.
    assert_eq!((&found["seeds"], &found["runs"]), (&2.into(), &8.into()));
    let conclusions = found["conclusions"].as_array().expect("the value is a list");
    let texts: Vec<&str> = conclusions
        .iter()
        .map(|c| c["conclusion"].as_str().expect("a text"))
        .collect();
    assert_eq!(texts, ["1 above 2 (4)", "2 above 1 (4)", "2, 4"]);
    assert_eq!(json(&folder, &["--sensitivity", "--seeds", "1"])[0]["runs"], 4);
    for (wrong, message) in [
        ("only = { time_s = 1 }", "sensitivity: 'time_s' is not a key column"),
        ("only = { hogs = 3 }", "sensitivity: only: no row has these keys"),
        ("vary = ['work']", "sensitivity: vary: there is no variable 'work'"),
        ("compare = ['cpu']", "sensitivity: 'cpu' is not a key column"),
        ("seeds = 0", "sensitivity: seeds = 0"),
        ("with = { x = 1 }", "no such variable"),
    ] {
        let definition =
            HEAD.to_owned() + &SPEEDUP.replace("[baseline]", &format!("[sensitivity]\n{wrong}\n[baseline]"));
        std::fs::write(folder.join("experiment.toml"), definition).expect("the file can be written");
        let ran = run(&folder, &["--sensitivity"]);
        assert_eq!(ran.status, 2, "{wrong}");
        assert!(ran.stderr.contains(message), "{}", ran.stderr);
    }
    assert_eq!(run(&folder, &["--sensitivity", "--update"]).status, 2);
}

/// The last line of an experiment's README names the check value of the measured.csv that its text
/// describes. A program cannot tell whether text is true, so a change of measured.csv asks for
/// somebody who reads the text again.
#[test]
fn the_text_of_each_readme_was_read_against_its_measured_csv() {
    let mut unread = String::new();
    for (name, _) in experiment::list() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../experiments")
            .join(&name);
        let Ok(measured) = std::fs::read(folder.join("measured.csv")) else {
            continue;
        };
        let readme = std::fs::read_to_string(folder.join("README.md")).expect("the README exists");
        let mut check = flate2::Crc::new();
        check.update(&measured);
        let line = format!("<!-- The text was read against measured.csv {:08x}. -->", check.sum());
        if !readme.contains(&line) {
            unread += &format!("experiments/{name}/README.md: {line}\n");
        }
    }
    assert!(
        unread.is_empty(),
        "measured.csv has changed. Read the text of these files, correct it, and write this as the last line:\n{unread}"
    );
}

/// The README of each experiment states the agreement of measured.csv with published.csv, unless no
/// figures are published. UPDATE_GOLDEN=1 rewrites the READMEs without running the experiments.
#[test]
fn the_readmes_of_the_repository_state_the_agreement_of_measured_csv() {
    for (name, _) in experiment::list() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/").to_owned() + &name;
        let experiment = Experiment::find(&folder).expect("the definition is valid");
        let plan = experiment.plan(&[]).expect("the definition is valid");
        let compared = experiment.compare_measured(&plan).expect("the tables are valid");
        let readme = experiment.folder.join("README.md");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            experiment.update_readme(&plan).expect("the README can be written");
        }
        let text = std::fs::read_to_string(&readme).expect("the README exists");
        let stated = experiment::agreement(&compared);
        let hint = "accept with UPDATE_GOLDEN=1 cargo test -p windtunnel experiment::the_readmes";
        assert!(
            compared.agreement.is_empty() || text.contains(&stated),
            "{}: the agreement is\n{stated}{hint}",
            readme.display()
        );
        let published = compared.reference == "published" && !compared.agreement.is_empty();
        let known = compared.agreement.iter().any(|a| a.no_difference.is_some());
        assert_eq!(published, known, "{name} has published values and no `no_difference`");
    }
}

#[test]
fn update_writes_measured_csv_and_the_agreement_in_the_readme() {
    let readme = "# t\n<!-- agreement -->\nold\n<!-- end -->\nrest\n";
    let published = "cpus,hogs,time_s,speedup_percent\n2,2,0.002,100\n";
    let files = [
        ("experiment.toml", &*(HEAD.to_owned() + SPEEDUP)),
        ("published.csv", published),
        ("README.md", readme),
    ];
    let folder = folder("update", &files);
    assert_eq!(run(&folder, &["--update"]).status, 0);
    assert_eq!(run(&folder, &["--update", "--seeds", "1"]).status, 2);
    let measured = std::fs::read_to_string(folder.join("measured.csv")).expect("measured.csv exists");
    let lines: Vec<&str> = measured.lines().collect();
    assert_eq!(lines[0], "cpus,hogs,time_s,speedup_percent");
    assert!(lines[1].starts_with("1,2,0.004,0"), "{measured}");
    assert_eq!(lines.len(), 5);
    let text = std::fs::read_to_string(folder.join("README.md")).expect("README.md exists");
    assert!(
        text.contains("speedup_percent: 1 cell, right sign 1 of 1") && !text.contains("old"),
        "{text}"
    );
    assert!(text.ends_with("<!-- end -->\nrest\n"));
}

#[test]
fn results_do_not_depend_on_threads() {
    let folder = folder("threads", &[("experiment.toml", &(HEAD.to_owned() + SPEEDUP))]);
    let rows = |threads: &str| json(&folder, &["--threads", threads])[0]["rows"].clone();
    assert_eq!(rows("1"), rows("4"));
}

const SERIES: &str = r#"
columns = ["run", "time_ms", "cpu", "queued", "minus_mean"]
each_run = "run"
[run]
policy = "eevdf"
machine = "pu:2"
workload = "closed:n={tasks},compute=1ms,placement=3/1,duration=3ms"
for = "3ms"
seeds = 2
with = { tasks = 4 }
[[row]]
keys = { time_ms = { from = 1, to = 2 }, cpu = [0, 1] }
values.queued = { measure = "queue_length", at = "{time_ms}ms", cpu = "{cpu}" }
values.minus_mean = { measure = "queue_length", at = "{time_ms}ms", cpu = "{cpu}", minus = "mean" }
"#;

#[test]
fn rows_can_be_made_for_each_run_time_and_cpu() {
    let folder = folder("series", &[("experiment.toml", &(HEAD.to_owned() + SERIES))]);
    let found = &json(&folder, &[])[0];
    let rows = found["rows"].as_array().expect("the result has rows");
    assert_eq!(rows.len(), 8);
    let row = |row: &serde_json::Value| {
        let value = |name: &str| row["values"][name]["measured"].as_f64().expect("the value is a number");
        let key = |name: &str| row["keys"][name].as_str().expect("the key is a text").to_owned();
        (
            key("run"),
            key("time_ms"),
            key("cpu"),
            value("queued"),
            value("minus_mean"),
        )
    };
    assert_eq!(row(&rows[0]), ("1".into(), "1".into(), "0".into(), 3.0, 1.0));
    assert_eq!(row(&rows[1]), ("1".into(), "1".into(), "1".into(), 1.0, -1.0));
    assert_eq!(row(&rows[6]).0, "2");
}

#[test]
fn an_error_in_a_definition_is_reported_with_its_source_line() {
    let good = HEAD.to_owned() + SPEEDUP;
    let case = good
        .lines()
        .position(|line| line == "[[case]]")
        .expect("the definition has a case")
        + 1;
    for (name, from, to, message) in [
        ("syntax", "seeds = 2", "seeds = ", "experiment.toml:14:9: not TOML: "),
        (
            "field",
            "seeds = 2",
            "seed = 2",
            "experiment.toml:14:1: unknown key 'seed'\n  hint: did you mean 'seeds'?",
        ),
        (
            "measure",
            "= \"time_s\"\n",
            "= \"times\"\n",
            "experiment.toml:7:10: time_s: there is no measure 'times'",
        ),
        (
            "argument",
            "of = \"time_s\"",
            "off = \"time_s\"",
            "unknown argument 'off'",
        ),
        (
            "column",
            "time_s = \"time_s\"",
            "time = \"time_s\"",
            "experiment.toml:7:8: value 'time' is not a column",
        ),
        ("key", "cpus = [1, 2], ", "", "no key or variable has the name 'cpus'"),
        (
            "variable",
            "hogs = [2, 4]",
            "hogs = 2, hgs = 3",
            "'hgs' is neither a column nor used as {hgs}",
        ),
        ("brace", "{hogs}", "{hogs", "'{' without '}'"),
        (
            "baseline",
            "[baseline]\nmachine = \"pu:1\"",
            "",
            "there is no [baseline]",
        ),
        (
            "baseline-with",
            "[baseline]\n",
            "[baseline]\nwith = { hogs = 3 }\n",
            "[baseline] must not have keys, each, expected, seeds or with",
        ),
        (
            "policy",
            "policy = \"eevdf\"",
            "policy = \"eevdv\"",
            "there is no policy 'eevdv'",
        ),
        ("workload", "work=2ms", "wrok=2ms", "wrok"),
        (
            "twice",
            "hogs = [2, 4]",
            "hogs = [2, 2]",
            "two rows have the same keys: 1, 2",
        ),
        (
            "settings",
            "costs = false",
            "set = { x = 1 }",
            "eevdf is the built-in fair class and has no parameters",
        ),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good, "{name}");
        let folder = folder(&format!("bad-{name}"), &[("experiment.toml", &bad)]);
        let ran = run(&folder, &[]);
        assert_eq!(ran.status, 2, "{name}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains(message), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains("experiment.toml:"), "{name}: {}", ran.stderr);
    }
    let folder = folder(
        "bad-case",
        &[("experiment.toml", &good.replace("hogs = [2, 4]", "jobs = \"{hogs}\""))],
    );
    assert!(
        run(&folder, &[])
            .stderr
            .contains(&format!("experiment.toml:{case}:1: "))
    );
}

#[test]
fn published_figures_are_checked_before_anything_runs() {
    for (name, published, message) in [
        (
            "columns",
            "cpus,time_s\n1,2\n",
            "published.csv:1: the columns are cpus,time_s",
        ),
        (
            "number",
            "cpus,hogs,time_s,speedup_percent\n1,2,fast,1\n",
            "published.csv:2: time_s = 'fast'",
        ),
        ("ragged", "cpus,hogs,time_s,speedup_percent\n1,2\n", "published.csv"),
    ] {
        let files = [
            ("experiment.toml", &*(HEAD.to_owned() + SPEEDUP)),
            ("published.csv", published),
        ];
        let ran = run(&folder(&format!("published-{name}"), &files), &[]);
        assert_eq!(ran.status, 2, "{name}");
        assert!(ran.stderr.contains(message), "{name}: {}", ran.stderr);
    }
}

#[test]
fn a_case_without_a_value_is_reported_and_gives_status_1() {
    let text = SPEEDUP
        .replace("seeds = 2", "seeds = 2\nfor = \"100us\"")
        .replace("\"time_s\"\n", "\"score\"\n");
    let folder = folder("unfinished", &[("experiment.toml", &(HEAD.to_owned() + &text))]);
    let ran = run(&folder, &[]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(
        ran.stdout
            .contains("no value: 1, 2: the workload did not finish or did no work"),
        "{}",
        ran.stdout
    );
}

#[test]
fn unknown_experiments_and_variables_are_refused() {
    let ran = windtunnel(&["experiment", "run", "nosuch"]);
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr.contains("there is no experiment 'nosuch'") && ran.stderr.contains("theory"),
        "{}",
        ran.stderr
    );
    let folder = folder("with", &[("experiment.toml", &(HEAD.to_owned() + SERIES))]);
    let ran = run(&folder, &["--with", "task=3"]);
    assert!(
        ran.stderr.contains("no such variable") && ran.stderr.contains("tasks"),
        "{}",
        ran.stderr
    );
    let rows = json(&folder, &["--with", "tasks=5"])[0]["rows"].clone();
    assert_eq!(
        rows[0]["values"]["queued"]["measured"]
            .as_f64()
            .expect("the value is a number"),
        3.0
    );
    assert_eq!(
        rows[1]["values"]["queued"]["measured"]
            .as_f64()
            .expect("the value is a number"),
        2.0
    );
}

/// Tests that every definition of the repository and its published.csv can be read.
#[test]
fn the_definitions_of_the_repository_can_be_read() {
    let ran = windtunnel(&["experiment", "list"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for line in ran.stdout.lines() {
        let name = line.split_whitespace().next().expect("the line begins with a name");
        let shown = windtunnel(&["experiment", "show", name]);
        assert_eq!(shown.status, 0, "{}", shown.stderr);
    }
}

#[test]
fn a_live_plan_uses_the_variables_of_the_live_table_and_the_policy_of_the_host() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/smp/heavy");
    let experiment = Experiment::find(folder).unwrap_or_else(|error| panic!("{error}"));
    let plan = |with: &[(String, String)]| {
        experiment
            .live_plan(with)
            .map(|plan| plan.with_policy("here", "this machine"))
    };
    let minute = plan(&[]).unwrap_or_else(|error| panic!("{error}"));
    for case in &minute.cases {
        assert_eq!(
            (case.run.policy.as_str(), case.run.for_ns),
            ("here", Some(60_000_000_000))
        );
        assert_eq!((&case.run.set, case.run.hz), (&Vec::new(), None));
    }
    let same = minute
        .cases
        .iter()
        .filter(|case| case.run == minute.cases[0].run)
        .count();
    assert_eq!(same, 2, "the cases for Linux and Windows have the same run");
    let short = plan(&[("seconds".into(), "9".into())]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(short.cases[0].run.for_ns, Some(9_000_000_000));
    let error = plan(&[("second".into(), "9".into())]).expect_err("no such variable");
    assert!(error.to_string().contains("no such variable"), "{error}");
}

/// Copies an experiment of the repository. The copy uses the policy that this test has compiled.
fn copy_with_compiled_policy(name: &str, policy: &str) -> PathBuf {
    let path = support::root().join("experiments").join(name).join("experiment.toml");
    let text = std::fs::read_to_string(path).expect("the definition exists");
    let object = support::object(&format!("policies/{policy}.bpf.c"));
    let found = format!("policy = \"{}\"", object.display());
    folder(
        name,
        &[(
            "experiment.toml",
            &text.replace(&format!("policy = \"{policy}\""), &found),
        )],
    )
}

/// Returns the keys of each row, and the published and the measured value of a column.
fn rows(found: &serde_json::Value, column: &str) -> Vec<(String, Option<f64>, f64)> {
    let rows = found[0]["rows"].as_array().expect("the result has rows");
    let row = |row: &serde_json::Value| {
        let cell = &row["values"][column];
        (
            row["keys"].to_string(),
            cell["published"].as_f64(),
            cell["measured"].as_f64().expect("the value is a number"),
        )
    };
    rows.iter().map(row).collect()
}

/// The test runs a hundredth of the jobs, so the allowed difference is large. `experiment run
/// theory` runs all jobs, and its results are within 1 % of theory.
#[test]
fn mean_response_times_are_near_theory_with_few_jobs() {
    let found = json(
        &copy_with_compiled_policy("theory", "rr"),
        &["--with", "jobs=8000", "--seeds", "1"],
    );
    let means = rows(&found, "mean_response_ms");
    assert!(means.iter().filter(|(_, theory, _)| theory.is_some()).count() >= 14);
    for (keys, theory, measured) in means {
        let theory = theory.unwrap_or(measured);
        assert!(
            (measured / theory - 1.0).abs() < 0.12,
            "{keys}: measured {measured}, theory {theory}"
        );
    }
    for (keys, _, off) in rows(&found, "little_percent") {
        assert!(off.abs() < 1e-6, "{keys}: {off}");
    }
}

/// The experiment uses theory as a control variate, which removes most of the random variation. Few
/// jobs are therefore enough.
#[test]
fn a_single_server_near_saturation_is_within_one_percent() {
    let found = json(
        &copy_with_compiled_policy("smp/single-server", "rr"),
        &["--with", "jobs=2000", "--seeds", "2"],
    );
    let means = rows(&found, "mean_response_ms");
    for (keys, theory, measured) in &means {
        let theory = theory.unwrap_or(*measured);
        assert!(
            (measured / theory - 1.0).abs() < 0.01,
            "{keys}: measured {measured}, theory {theory}"
        );
    }
    let mean = |slice: &str| {
        let row = means
            .iter()
            .find(|(keys, ..)| keys.contains(&format!("\"timeslice_ms\":\"{slice}\"")));
        row.expect("one row has this timeslice").2
    };
    assert!(mean("10") > mean("5") && mean("5") > mean("1") && mean("1") > mean("0.1"));
}

/// Tests Little's law under every policy: L = lambda W. L is the mean number of jobs, lambda the
/// arrival rate, and W the mean response time. L is computed from the times of events, and W from
/// the jobs' own records.
#[test]
fn littles_law_holds_under_every_policy() {
    let policies = support::policies();
    let mut text = HEAD.to_owned() + LITTLE;
    for policy in &policies {
        let object = support::object(&format!("policies/{policy}.bpf.c"));
        text.push_str(&format!(
            "[[case]]\nkeys.scheduler = '{policy}'\npolicy = '{}'\n",
            object.display()
        ));
    }
    let found = json(&folder("little", &[("experiment.toml", &text)]), &[]);
    let rows = rows(&found, "little_percent");
    assert_eq!(rows.len(), 1 + policies.len());
    for (keys, _, off) in rows {
        assert!(off.abs() < 1e-6, "{keys}: {off}");
    }
}

const LITTLE: &str = r#"
columns = ["scheduler", "little_percent"]
[values]
little_percent = { measure = "little_percent", task = "job" }
[run]
machine = "pack:2 core:2 pu:1"
workload = "open:interarrival=1ms,service=H2,work=3ms,number=2000"
costs = false
[[case]]
keys.scheduler = "eevdf"
policy = "eevdf"
"#;

#[test]
fn an_experiment_that_fails_does_not_keep_others_from_running() {
    let good = folder("one-good", &[("experiment.toml", &(HEAD.to_owned() + SERIES))]);
    let bad = folder("one-bad", &[("experiment.toml", "title = 1")]);
    let late = SPEEDUP.replace("policy = \"eevdf\"", "policy = \"nosuch\"");
    let late = folder("one-late", &[("experiment.toml", &(HEAD.to_owned() + &late))]);
    let name = |folder: &PathBuf| folder.to_str().expect("the path is UTF-8").to_owned();
    let ran = windtunnel(&["experiment", "run", &name(&late), &name(&good)]);
    assert_eq!(ran.status, 2);
    assert!(
        ran.stdout.contains("minus_mean") && ran.stderr.contains("nosuch"),
        "{}",
        ran.stdout
    );
    // If a definition cannot be read, the command fails before it runs anything.
    let ran = windtunnel(&["experiment", "run", &name(&good), &name(&bad)]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
}
