// SPDX-License-Identifier: GPL-2.0-only
//! Suggests policies to a user who asks for one that does not exist: a policy with a similar name,
//! or policies of the kind of scheduler that the user names (policies/keywords.toml).

use super::{EEVDF, header, idea, list};
use crate::profiles;
use input::suggest;
use serde::Deserialize;
use std::sync::LazyLock;

const FILE: &str = include_str!("../../../../policies/keywords.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    kind: Vec<SchedulerKind>,
}

/// The names that users give to a kind of scheduler, and the policies of this kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SchedulerKind {
    names: Vec<String>,
    policies: Vec<String>,
}

/// The kinds of schedulers in policies/keywords.toml.
static KINDS: LazyLock<Vec<SchedulerKind>> = LazyLock::new(|| {
    let file: File = toml::from_str(FILE).expect("a test reads this file");
    file.kind
});

/// Returns a hint for a user who asked for the policy `wanted`, which does not exist.
pub(super) fn hint(wanted: &str) -> String {
    let built: Vec<String> = list().into_iter().map(|(name, _)| name).collect();
    let names = || built.iter().map(String::as_str).chain([EEVDF]);
    let separate: Vec<&str> = wanted.split([',', ';', '+']).collect();
    if separate.len() > 1 && separate.iter().all(|name| names().any(|known| known == *name)) {
        return format!("separate policies by spaces: {}", separate.join(" "));
    }
    let plain = normal(wanted);
    if let Some(name) = names().find(|name| normal(name) == plain) {
        return format!("did you mean {name}?");
    }
    let kind = KINDS
        .iter()
        .find(|kind| kind.names.iter().any(|name| normal(name) == plain));
    let of_kind: Vec<String> = kind
        .iter()
        .flat_map(|kind| &kind.policies)
        .filter(|name| names().any(|known| known == *name))
        .map(|name| described(name))
        .collect();
    if !of_kind.is_empty() {
        return format!("did you mean {}?", alternatives(&of_kind));
    }
    if let Some(profile) = profiles::named(wanted) {
        return format!(
            "build this scheduler (docs/compat.md) and give the path of its object, {wanted}.bpf.o; {} replaces its \
             user-space part",
            profile.display()
        );
    }
    match suggest::nearest(wanted, names()) {
        Some(near) => format!("did you mean {near}? `windtunnel policy list` shows all that are built"),
        None if built.is_empty() => {
            "give the path of a .bpf.o file or `eevdf`; no policy is built yet, scripts/build/policies.sh builds them"
                .into()
        }
        None => format!(
            "give the path of a .bpf.o file, `eevdf`, or one of the built policies ({}). `windtunnel init DIR` writes \
             a policy to start from",
            built.join(", ")
        ),
    }
}

/// Joins texts into `a, b or c`.
fn alternatives(texts: &[String]) -> String {
    match texts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Returns the name of a policy with the idea behind it.
fn described(name: &str) -> String {
    let idea = match name {
        EEVDF => Some("the kernel's fair class, built in".to_owned()),
        name => header(name).and_then(|header| idea(&header)),
    };
    idea.map_or_else(|| name.to_owned(), |idea| format!("{name} ({idea})"))
}

/// Normalizes a name: ignores what users spell differently (case, separators, the prefix `scx_`).
fn normal(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let name = name.strip_prefix("scx_").unwrap_or(&name);
    name.chars().filter(char::is_ascii_alphanumeric).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_kind_of_scheduler_leads_to_its_policies() {
        for (wanted, suggested) in [
            ("Multi-Level_Feedback-Queue", "did you mean mlfq ("),
            ("FreeBSD", "did you mean ule (FreeBSD's ULE, "),
            ("round-robin", "did you mean rr ("),
            (
                "cfs",
                "did you mean eevdf (the kernel's fair class, built in) or steal (",
            ),
            ("SCHED_RR", "did you mean rr ("),
            ("scx_fifo", "did you mean fifo?"),
            ("FIFO", "did you mean fifo?"),
            ("o(1)", "did you mean o1?"),
            ("2.6", "did you mean linux26 ("),
            ("fifo,vtime", "separate policies by spaces: fifo vtime"),
            ("fifo,vtim", "give the path of a .bpf.o file"),
            ("vtimes", "did you mean vtime? `windtunnel policy list`"),
            (
                "scx_lavd",
                "build this scheduler (docs/compat.md) and give the path of its object, scx_lavd.bpf.o; ",
            ),
        ] {
            let hint = hint(wanted);
            assert!(hint.starts_with(suggested), "{wanted}: {hint}");
        }
    }

    #[test]
    fn every_policy_has_a_kind_and_every_name_one_meaning() {
        let built: BTreeSet<String> = list().into_iter().map(|(name, _)| name).collect();
        let named: BTreeSet<&String> = KINDS.iter().flat_map(|kind| &kind.policies).collect();
        for name in named.iter().filter(|name| **name != EEVDF) {
            assert!(built.contains(*name), "there is no policy {name}");
        }
        for name in &built {
            assert!(named.contains(name), "policies/keywords.toml does not name {name}");
        }
        let mut names: Vec<String> = KINDS
            .iter()
            .flat_map(|kind| &kind.names)
            .map(|name| normal(name))
            .collect();
        names.sort();
        names.windows(2).for_each(|pair| assert_ne!(pair[0], pair[1]));
    }
}
