// SPDX-License-Identifier: GPL-2.0-only
//! What a policy says about itself: its counters, the lines that it prints, and its kicks.

use crate::support::{Ran, object, results, windtunnel};
use serde_json::Value;

const LOAD: [&str; 6] = [
    "--machine",
    "smp4",
    "--workload",
    "closed:n=12,compute=1ms,think=2ms",
    "--for",
    "200ms",
];

fn policy() -> String {
    object("crates/windtunnel/tests/policies/talkative.bpf.c")
        .display()
        .to_string()
}

fn run(more: &[&str]) -> Ran {
    windtunnel(&[&["run", &policy()], &LOAD[..], more].concat())
}

fn result(more: &[&str]) -> Value {
    results(&[&[policy().as_str()], &LOAD[..], more].concat()).remove(0)
}

fn counter<'a>(result: &'a Value, name: &str) -> Option<&'a Value> {
    let list = result["counters"]["list"].as_array().expect("the run has counters");
    list.iter().find(|counter| counter["name"] == name)
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn numbers_that_the_policy_changes_have_values_before_after_and_over_time() {
    let result = result(&[]);
    let times = result["counters"]["times_ns"].as_array().expect("the run has samples");
    assert_eq!(times.len(), 64);
    assert_eq!(times.last(), Some(&Value::from(200_000_000)));
    let calls = result["callbacks"].as_array().expect("the run has callbacks");
    let calls = calls
        .iter()
        .find(|row| row["callback"] == "enqueue")
        .expect("tasks were enqueued");
    let enqueued = counter(&result, "nr_enqueued").expect("a global is a counter");
    assert_eq!(enqueued["after"], calls["count"]);
    assert_eq!((number(&enqueued["before"]), number(&enqueued["elements"])), (0, 1));
    assert_eq!(enqueued["grows"], true);
    let samples: Vec<i64> = enqueued["samples"]
        .as_array()
        .expect("samples")
        .iter()
        .map(number)
        .collect();
    assert_eq!(samples.len(), 64);
    assert!(
        samples.is_sorted() && samples[31] > 0 && samples[31] < samples[63],
        "{samples:?}"
    );
    assert_eq!(samples[63], number(&enqueued["after"]));

    // An array is one number with an element for each CPU.
    let dispatched = counter(&result, "nr_dispatched[]").expect("an array is a counter");
    let values: Vec<i64> = dispatched["values"]
        .as_array()
        .expect("values")
        .iter()
        .map(number)
        .collect();
    assert_eq!(values.len(), 8);
    assert!(
        values[..4].iter().all(|&value| value > 0) && values[4..] == [0; 4],
        "{values:?}"
    );
    assert_eq!(values.iter().sum::<i64>(), number(&dispatched["after"]));
    // An index of a per-CPU map is a number whose elements are the CPUs.
    let shared = counter(&result, "stats[1]").expect("a map has counters");
    assert_eq!((&shared["after"], number(&shared["elements"])), (&enqueued["after"], 4));
    // Members of structs. The number of waiting tasks also becomes smaller, so it is no counter.
    let running = counter(&result, "state.nr_running").expect("a member is a counter");
    assert!(running["grows"] == true && number(&running["after"]) > number(&enqueued["after"]));
    let waiting = counter(&result, "state.waiting").expect("a member can change");
    assert!(waiting["grows"] == false && number(&waiting["after"]) <= 8, "{waiting}");
    // Numbers that do not change during the run, and texts, are left out.
    for name in ["nr_never", "nr_before", "state.name[]", "state.name", "slice_ns"] {
        assert!(counter(&result, name).is_none(), "{name}");
    }
}

#[test]
fn counters_are_in_details_page_and_top_and_do_not_change_the_run() {
    let details = run(&["--details", "-"]).stdout;
    for part in [
        "counter ",
        "nr_enqueued ",
        "nr_dispatched[] (sum of 8) ",
        "stats[0] (sum of 4) ",
    ] {
        assert!(
            details.lines().any(|line| line.starts_with(part)),
            "no line '{part}': {details}"
        );
    }
    let page = run(&["--html", "-"]).stdout;
    assert!(page.contains("<code>nr_dispatched[]</code>") && page.contains("svg class=\"spark\""));
    let top = windtunnel(&[&["top", &policy()], &LOAD[..], &["--every", "50ms"]].concat());
    let last = top.stdout.lines().last().expect("there are rows");
    assert!(last.contains("state.nr_running +"), "{last}");
    // The hash is the same as that of a run whose counters nobody reads.
    let sides = ["compare", &policy(), &policy(), "--runs", "1", "--json"];
    let compared = windtunnel(&[&sides, &LOAD[..]].concat());
    assert_eq!(compared.status, 0, "{}", compared.stderr);
    assert_eq!(
        result(&[])["trace_hash"],
        result(&["--trace", "/dev/null"])["trace_hash"]
    );
}

#[test]
fn a_run_of_unknown_length_has_a_bounded_number_of_samples() {
    let args = [
        policy().as_str(),
        "--machine",
        "smp4",
        "--workload",
        "hackbench:groups=1,loops=400",
    ]
    .map(str::to_owned);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = results(&args).remove(0);
    let times: Vec<i64> = result["counters"]["times_ns"]
        .as_array()
        .expect("samples")
        .iter()
        .map(number)
        .collect();
    assert!((32..=128).contains(&times.len()), "{}", times.len());
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(times.last(), result["simulated_ns"].as_i64().as_ref());
}

#[test]
fn printed_lines_go_to_standard_error_on_request_and_are_counted_otherwise() {
    let quiet = run(&[]);
    let result = result(&[]);
    let lines = number(&result["printed_lines"]);
    let enqueued = number(&counter(&result, "nr_enqueued").expect("a counter")["after"]);
    assert_eq!(lines, 1 + (enqueued + 99) / 100);
    assert!(!quiet.stderr.contains("bpf_trace_printk"), "{}", quiet.stderr);
    let note = format!("talkative: printed {lines} lines with bpf_printk (--printk shows them)");
    assert!(quiet.stdout.contains(&note), "{}", quiet.stdout);
    let loud = run(&["--printk"]);
    assert!(!loud.stdout.contains("with bpf_printk"), "{}", loud.stdout);
    let printed: Vec<&str> = loud
        .stderr
        .lines()
        .filter(|line| line.contains("bpf_trace_printk: "))
        .collect();
    assert_eq!(i64::try_from(printed.len()), Ok(lines));
    assert!(printed[0].ends_with(": bpf_trace_printk: init"), "{}", printed[0]);
    let (head, text) = printed[1].split_once(": bpf_trace_printk: ").expect("a line");
    assert!(
        text.starts_with("task ") && text.contains(" of 4 CPUs, number 1, closed"),
        "{text}"
    );
    // Task, CPU and time, as trace_pipe prints them.
    let words: Vec<&str> = head.split_whitespace().collect();
    let [task, cpu, flags, time] = words[..] else {
        panic!("{head}");
    };
    assert!(
        task.contains('-') && cpu.starts_with("[00") && flags.len() == 5,
        "{head}"
    );
    assert!(time.parse::<f64>().is_ok_and(|time| time < 0.2), "{head}");
    // The same lines are in the ftrace export.
    let ftrace = run(&["--ftrace", "-"]).stdout;
    assert_eq!(
        ftrace
            .lines()
            .filter(|line| line.contains("bpf_trace_printk: "))
            .collect::<Vec<_>>(),
        printed
    );
    // With several policies, each line names its policy.
    let two = windtunnel(&[&["run", &policy(), "fifo"], &LOAD[..], &["--printk"]].concat());
    assert!(
        two.stderr
            .lines()
            .any(|line| line.starts_with("talkative: ") && line.ends_with("printk: init"))
    );
}

#[test]
fn a_refused_policy_has_printed_its_reasons() {
    let ran = run(&["--printk", "--set", "refuse=1"]);
    assert_eq!(ran.status, 1, "{}", ran.stdout);
    assert!(ran.stderr.contains("bpf_trace_printk: init"), "{}", ran.stderr);
}

#[test]
fn a_storm_of_kicks_is_named_as_the_cause_of_overhead() {
    let calm = run(&["--details", "-"]).stdout;
    assert!(!calm.contains("kicks"), "{calm}");
    let result = result(&["--set", "storm=1"]);
    let kicks = &result["kicks"];
    let enqueue = &kicks["callbacks"][0];
    let enqueued = counter(&result, "nr_enqueued").expect("a counter");
    assert_eq!(enqueue["callback"], "enqueue");
    assert_eq!(number(&enqueue["calls"]), 4 * number(&enqueued["after"]));
    let [calls, reschedules, switches] = ["calls", "reschedules", "switches"].map(|name| number(&enqueue[name]));
    // All CPUs are busy, so a kicked CPU continues its task.
    assert!(switches * 20 < reschedules && reschedules <= calls, "{enqueue}");
    assert!(number(&kicks["ipis"]) > 0 && number(&kicks["ns"]) < number(&result["overhead_ns"]));
    let storm = run(&["--set", "storm=1", "--details", "-"]).stdout;
    let line = storm
        .lines()
        .find(|line| line.starts_with("talkative: kicks cause "))
        .expect("the storm is named");
    assert!(line.contains("% of the overhead: ops.enqueue() kicked CPUs "), "{line}");
    assert!(storm.lines().any(|line| line.starts_with("kicks by ")), "{storm}");
    let policy = policy();
    let sides = ["compare", &policy, &policy, "--runs", "2", "--set", "B:storm=1"];
    let compared = windtunnel(&[&sides, &LOAD[..]].concat()).stdout;
    assert!(compared.contains(" in 2 of 2 runs: kicks cause "), "{compared}");
    let page = run(&["--set", "storm=1", "--html", "-"]).stdout;
    assert!(page.contains("kick storm, ") && page.contains("of these kicks made a CPU switch tasks"));
}

#[test]
fn a_useful_kick_makes_a_cpu_switch_tasks() {
    let load = ["--machine", "numa32", "--workload", "schbench", "--for", "200ms"];
    let result = results(&[&["rr"], &load[..]].concat()).remove(0);
    let enqueue = &result["kicks"]["callbacks"][0];
    let [calls, reschedules, switches] = ["calls", "reschedules", "switches"].map(|name| number(&enqueue[name]));
    assert!(
        calls >= reschedules && reschedules > switches && switches * 5 > calls,
        "{enqueue}"
    );
    let ran = windtunnel(&[&["run", "rr"], &load[..]].concat());
    assert!(!ran.stdout.contains("kicks cause"), "{}", ran.stdout);
}
