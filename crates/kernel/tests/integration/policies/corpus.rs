// SPDX-License-Identifier: GPL-2.0-only
//! Lists of small programs that test the rules of the sanitizer. A program breaks one rule, or
//! keeps all rules. The lists are read from the C sources.

/// A program and the message with which it must end. The message is empty if the program keeps all
/// rules.
pub struct Case {
    pub name: String,
    pub expected: String,
}

/// Names of the sources that contain a line `BREAKS` or `KEEPS` for each program.
pub const FILES: [&str; 7] = [
    "rules_memory",
    "rules_held",
    "rules_maps",
    "rules_owned",
    "rules_input",
    "rules_calls",
    "rules_values",
];

/// Returns the cases in a source file. The line of a case begins with `BREAKS(name, "message")` or
/// `KEEPS(name)`. Both macros may have the suffix `_SLEEPABLE` or `_INPUT`.
pub fn cases(source: &str) -> Vec<Case> {
    let case = |line: &str| {
        let line = line.replace("_SLEEPABLE(", "(").replace("_INPUT(", "(");
        if let Some(name) = line.strip_prefix("KEEPS(") {
            let name = name.split(')').next()?.to_string();
            return Some(Case {
                name,
                expected: String::new(),
            });
        }
        let (name, expected) = line.strip_prefix("BREAKS(")?.split_once(", \"")?;
        Some(Case {
            name: name.to_string(),
            expected: expected.rsplit_once('"')?.0.to_string(),
        })
    };
    source.lines().filter_map(case).collect()
}

/// Variants of the policy `rules_within`: for each, the macro that selects it, and the message with
/// which it must end.
pub const WITHIN: [(&str, &str); 12] = [
    ("KEEPS", ""),
    (
        "LEAKS",
        "leak: on_migrate returns and has not released a reference to a task_struct",
    ),
    (
        "ENDS_RCU",
        "unbalanced-lock: bpf_rcu_read_unlock without an open section",
    ),
    (
        "ENABLES_PREEMPTION",
        "unbalanced-lock: bpf_preempt_enable without an open section",
    ),
    ("BEHIND_ARGUMENTS", "out-of-bounds: load of 8 bytes"),
    (
        "LEAVES_RCU",
        "unbalanced-lock: on_migrate returns with an RCU section open",
    ),
    ("LEAVES_NUM", "leak: on_migrate returns without ending an iterator"),
    ("BEHIND_STRUCT", "out-of-bounds: load of 8 bytes"),
    ("DELETES", "use-after-free: store of 8 bytes"),
    (
        "KEEPS_RCU",
        "unbalanced-lock: within_dispatch returns with an RCU section open",
    ),
    ("KEEPS_NUM", "leak: within_dispatch returns without ending an iterator"),
    (
        "KEEPS_TASK",
        "leak: within_dispatch returns and has not released a reference to a task_struct",
    ),
];
