// SPDX-License-Identifier: GPL-2.0-only
//! Compares the sanitizer with the verifier of a real kernel. The file `verdicts.tsv` contains the
//! verdict of that kernel's verifier on each test program of the sanitizer. The command
//! `PARTS=verifier make live-test` writes the file. This test runs without that kernel. It compares
//! the expected results of the programs with the file, and the table in docs/sanitizer.md with
//! both.

use crate::policies::corpus::{FILES, WITHIN, cases};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Verdict of the sanitizer on a program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The run ends without a finding of the sanitizer.
    Silent,
    /// The run ends with a finding of the sanitizer.
    Reports,
    /// The run ends with an error of sched_ext, not with a finding of the sanitizer.
    Ends,
}

/// A test program and its expected result with the sanitizer.
struct Program {
    object: String,
    name: String,
    /// Name of the rule that the program breaks, or only the beginning of this name.
    rule: String,
    sanitizer: Verdict,
}

/// Programs for which the results of the sanitizer and the verifier differ, grouped by the reason.
/// The reasons are part of docs/sanitizer.md.
const DIFFERENCES: [(&str, &[&str]); 10] = [
    (
        "The kernel keeps the memory of a deleted element or per-CPU object until the end of an \
         RCU grace period, and the program may read it. The sanitizer reports the access, \
         because the memory may have another owner:",
        &[
            "reads_a_deleted_element_through_a_dynptr",
            "reads_a_deleted_element_through_a_slice",
            "reads_a_deleted_value_of_an_inner_map",
            "reads_a_deleted_value_of_another_cpu",
            "reads_what_is_gone_long_since",
            "copies_of_what_a_dropped_object_owned",
            "use_after_delete",
            "use_after_reuse",
        ],
    ),
    (
        "The kernel allows a program to read a task after bpf_rcu_read_unlock(), and handles a \
         possible fault. The sanitizer reports the access, because the memory may already \
         belong to another task:",
        &["looks_at_a_task_after_its_section", "use_after_rcu"],
    ),
    (
        "The kernel handles the fault of a load through bpf_rdonly_cast() or in an arena, and \
         the load returns 0. The sanitizer reports the load:",
        &["loads_from_a_page_it_freed", "reads_where_nothing_is"],
    ),
    (
        "This kernel accepts a callback that leaks a reference if the reference is still in r0 \
         when the callback returns. The sanitizer reports the leak:",
        &["leaks_mask", "leaks_object", "leaks_record", "leaks_task"],
    ),
    (
        "The kernel checks the size of a syscall program's context only when user space runs \
         the program. The sanitizer reports the access:",
        &["behind_its_input", "stores_behind_its_input"],
    ),
    (
        "The sanitizer does not notice that an offset is variable if the program loads it from the stack:",
        &["reads_the_last_word_of_a_task"],
    ),
    (
        "The kernel's bpf_per_cpu_ptr() accepts only per-CPU objects that are in a map. The \
         sanitizer also accepts objects that the program owns:",
        &["changes_copies_of_an_object"],
    ),
    (
        "The kernel requires a cast before a program accesses an arena. The sanitizer also \
         accepts accesses through the pointer that bpf_arena_alloc_pages() returned:",
        &["stores_to_its_pages"],
    ),
    (
        "The sanitizer does not require a NULL test for an element of an array. The kernel does, unless it knows the index:",
        &["reads_a_known_element_without_a_test"],
    ),
    (
        "In a program that may sleep, the kernel accepts a pointer from an argument's struct \
         only in an RCU section. The sanitizer accepts it everywhere:",
        &["rules_within.KEEPS"],
    ),
];

/// Programs that cannot be tested on a real kernel, each with the reason.
const NOT_TESTED: [(&str, &str); 2] = [
    ("stores_to_a_uptr", "the kernel allows a uptr only in task storage"),
    ("arena_in_pieces", "it reaches a limit of the host and breaks no rule"),
];

/// Returns a path relative to the crate's directory.
fn crate_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the name of the rule at the beginning of a message.
fn rule_name(message: &str) -> Option<&str> {
    let (rule, _) = message.split_once(": ")?;
    let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
    rule.chars().all(is_name).then_some(rule)
}

/// Returns a program. Its result with the sanitizer is derived from the expected message.
fn program(object: String, name: String, expected: &str) -> Program {
    let (rule, sanitizer) = match (expected, rule_name(expected)) {
        ("", _) => ("", Verdict::Silent),
        (_, Some(rule)) => (rule, Verdict::Reports),
        // A prefix such as `use-after-` stands for several rules.
        (expected, None) if expected.ends_with('-') => (expected, Verdict::Reports),
        (_, None) => ("", Verdict::Ends),
    };
    Program {
        object,
        name,
        rule: rule.trim_end_matches('-').to_string(),
        sanitizer,
    }
}

/// Returns all test programs of the sanitizer.
fn programs() -> Vec<Program> {
    let mut programs = Vec::new();
    for file in FILES {
        let source = read(&crate_path(&format!("tests/policies/{file}.bpf.c")));
        for case in cases(&source) {
            programs.push(program(format!("{file}.bpf.o"), case.name, &case.expected));
        }
    }
    for (define, expected) in WITHIN {
        programs.push(program(
            format!("rules_within.{define}.bpf.o"),
            "-".to_string(),
            expected,
        ));
    }
    let negative = crate_path("../windtunnel/tests/negative");
    let entries = std::fs::read_dir(&negative)
        .expect("the directory of broken policies exists")
        .flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    for file in names.iter().filter(|name| name.ends_with(".bpf.c")) {
        let source = read(&negative.join(file));
        let expected = source
            .lines()
            .find_map(|line| line.strip_prefix(" * expected message with --sanitize: "));
        let object = format!("{}.o", file.trim_end_matches(".c"));
        programs.push(program(
            object,
            "-".to_string(),
            expected.expect("the header of the file names the expected message"),
        ));
    }
    programs
}

/// Returns the version of the kernel, and whether its verifier accepted each program, by object and
/// program.
fn verdicts() -> (String, BTreeMap<(String, String), bool>) {
    let text = read(&crate_path("tests/verdicts.tsv"));
    let kernel = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("# "))
        .expect("the first line is the kernel's version");
    let verdict = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let accepted = match fields[2] {
            "accepted" => true,
            "rejected" => false,
            other => panic!("{line}: expected accepted or rejected, found {other}"),
        };
        ((fields[0].to_string(), fields[1].to_string()), accepted)
    };
    (kernel.to_string(), text.lines().skip(1).map(verdict).collect())
}

/// Returns the name under which a program is displayed. For a complete policy, this is the name of
/// its object.
fn display_name(program: &Program) -> &str {
    match program.name.as_str() {
        "-" => program.object.trim_end_matches(".bpf.o"),
        name => name,
    }
}

#[test]
fn every_program_has_a_verdict_and_differences_are_explained() {
    let (_, mut verdicts) = verdicts();
    let mut wrong = Vec::new();
    let mut explained: Vec<&str> = DIFFERENCES
        .iter()
        .flat_map(|(_, names)| names.iter().copied())
        .collect();
    for program in programs() {
        let name = display_name(&program);
        let verdict = verdicts.remove(&(program.object.clone(), program.name.clone()));
        let not_tested = NOT_TESTED.iter().any(|(other, _)| *other == name);
        let Some(accepted) = verdict else {
            if !not_tested {
                wrong.push(format!("{name}: has no verdict; run PARTS=verifier make live-test"));
            }
            continue;
        };
        let differ = match program.sanitizer {
            Verdict::Silent => !accepted,
            Verdict::Reports => accepted,
            Verdict::Ends => false,
        };
        let at = explained.iter().position(|other| *other == name);
        match (differ, at) {
            (true, None) => wrong.push(format!(
                "{name}: the sanitizer and the verifier differ, but DIFFERENCES has no reason"
            )),
            (false, Some(_)) => wrong.push(format!("{name}: DIFFERENCES has a reason, but there is no difference")),
            _ => {}
        }
        explained.retain(|other| *other != name);
    }
    wrong.extend(
        explained
            .iter()
            .map(|name| format!("{name}: DIFFERENCES names a program that does not exist")),
    );
    wrong.extend(
        verdicts
            .keys()
            .map(|(object, name)| format!("{object}: {name}: a verdict on a program that does not exist")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_document_has_the_table_of_verdicts() {
    let table = table();
    let too_long = table
        .lines()
        .find(|line| line.chars().count() > 100 && line.starts_with("| "));
    assert_eq!(too_long, None);
    golden::check_section!("../../docs/sanitizer.md", "verdicts", &table);
}

/// Returns the part of docs/sanitizer.md that this test generates.
fn table() -> String {
    let (kernel, verdicts) = verdicts();
    let mut text = format!("The kernel is {kernel}.\n\nThe sanitizer and the verifier differ in these cases:\n\n");
    for (reason, names) in DIFFERENCES {
        wrap(
            &mut text,
            &format!(
                "- {reason} {}.",
                names
                    .iter()
                    .map(|name| format!("`{name}`"))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        );
    }
    text += "\nAll programs:\n\n| rule | program | kernel | `--sanitize` |\n|---|---|---|---|\n";
    let mut rows: Vec<(String, String)> = Vec::new();
    for program in programs() {
        let name = display_name(&program);
        let kernel = match verdicts.get(&(program.object.clone(), program.name.clone())) {
            Some(true) => "accepted",
            Some(false) => "rejected",
            None => "not tested",
        };
        let result = match program.sanitizer {
            Verdict::Silent => "silent",
            Verdict::Reports => "reported",
            Verdict::Ends => "run ends",
        };
        let rule = match (program.rule.as_str(), program.sanitizer) {
            ("", Verdict::Silent) => "none",
            ("", _) => "sched_ext",
            (rule, _) => rule,
        };
        rows.push((rule.to_string(), format!("| {rule} | {name} | {kernel} | {result} |\n")));
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    for (_, row) in rows {
        let _ = write!(text, "{row}");
    }
    text
}

/// Appends a list item to `text` and wraps it at 100 columns.
fn wrap(text: &mut String, item: &str) {
    let mut column = 0;
    for word in item.split(' ') {
        if column > 0 && column + 1 + word.len() > 100 {
            *text += "\n  ";
            column = 2;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        *text += word;
        column += word.len();
    }
    text.push('\n');
}
