// SPDX-License-Identifier: GPL-2.0-only
//! The programs that break or keep one rule of checked mode each: what their sources say of them.

/// A program, and the message that it must end with: empty if it keeps to the rules.
pub struct Case {
    pub name: String,
    pub expected: String,
}

/// Sources that have a `BREAKS` or `KEEPS` for each program.
pub const FILES: [&str; 7] = [
    "rules_memory",
    "rules_held",
    "rules_maps",
    "rules_owned",
    "rules_input",
    "rules_calls",
    "rules_values",
];

/// `BREAKS(name, "how it ends")` and `KEEPS(name)` at the beginning of lines, with and without `_SLEEPABLE` or `_INPUT`.
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

/// Macros of the variants of `rules_within`, and how each variant ends.
pub const WITHIN: [(&str, &str); 12] = [
    ("KEEPS", ""),
    (
        "LEAKS",
        "leak: on_migrate returns and has not released a reference to a task_struct",
    ),
    (
        "ENDS_RCU",
        "unbalanced-lock: bpf_rcu_read_unlock without what begins the section",
    ),
    (
        "ENABLES_PREEMPTION",
        "unbalanced-lock: bpf_preempt_enable without what begins the section",
    ),
    ("BEHIND_ARGUMENTS", "out-of-bounds: load of 8 bytes"),
    (
        "LEAVES_RCU",
        "unbalanced-lock: on_migrate returns with an RCU section open",
    ),
    (
        "LEAVES_NUM",
        "leak: on_migrate returns without having ended what an iterator's _new() began",
    ),
    ("BEHIND_STRUCT", "out-of-bounds: load of 8 bytes"),
    ("DELETES", "use-after-free: store of 8 bytes"),
    (
        "KEEPS_RCU",
        "unbalanced-lock: within_dispatch returns with an RCU section open",
    ),
    (
        "KEEPS_NUM",
        "leak: within_dispatch returns without having ended what an iterator's _new() began",
    ),
    (
        "KEEPS_TASK",
        "leak: within_dispatch returns and has not released a reference to a task_struct",
    ),
];
