// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the symbols that each Linux release has.
use crate::Machine;
use crate::layout::release::*;
use crate::policy::kfuncs;
use crate::policy::target::target;
use bpf::btf::TypeKind as Btf;
use machine::MachineSpec;
use workload::Workload;

#[test]
fn a_release_is_named_by_its_number() {
    assert_eq!("6.12".parse::<Release>().unwrap().version_code(), 0x60c00);
    assert_eq!("7.2".parse::<Release>().unwrap(), Release::default());
    assert_eq!("7.3".parse::<Release>().unwrap().version_code(), 0x70304);
    assert_eq!(Release::default().version_code(), 0x7020d);
    assert!(RELEASES.is_sorted());
    for wrong in ["6.11", "7.4", "6.1", "", "6.12.1", "v6.12"] {
        let error = wrong.parse::<Release>().unwrap_err().to_string();
        assert!(error.contains("6.12, 6.13") && error.contains("7.2, 7.3"), "{error}");
    }
}

/// Checks for each symbol that it exists only in the specified releases. The table of symbols, or
/// the row of the kfunc or callback, specifies the releases.
#[test]
fn types_match_the_table() {
    let machine = Machine::new(MachineSpec::smp(2), Workload::default(), 1).unwrap();
    for release in RELEASES {
        let target = target(&machine.spec, &machine.layout, release);
        let btf = target.btf();
        let members = |parent: &str| -> Vec<String> {
            let found = btf.find_struct(parent).and_then(|id| btf.composite(id));
            found.map_or(Vec::new(), |all| {
                all.members.iter().map(|m| m.name.to_string()).collect()
            })
        };
        let enumerators = |parent: &str| -> Vec<String> {
            match btf
                .find(parent, |kind| matches!(kind, Btf::Enum { .. }))
                .map(|id| btf.kind(id))
            {
                Some(Btf::Enum { values, .. }) => values.iter().map(|(name, _)| name.to_string()).collect(),
                _ => Vec::new(),
            }
        };
        for kfunc in kfuncs::table(&machine.spec.costs) {
            let there = btf.find(kfunc.name, |kind| matches!(kind, Btf::Func { .. })).is_some();
            // A kfunc whose prototype has changed has several rows.
            let expected = kfuncs::table_of(&machine.spec.costs, release)
                .iter()
                .any(|own| own.helper.is_none() && own.name == kfunc.name);
            assert_eq!(there, expected, "whether {} exists in Linux {release}", kfunc.name);
        }
        let callbacks = members("sched_ext_ops");
        let by_cid = members("sched_ext_ops_cid");
        let has_renamed = by_cid.iter().any(|name| name == "cpuctl_init");
        assert_eq!(has_renamed, release == Release::LINUX_7_3);
        assert_eq!(
            by_cid.iter().any(|name| name == "cgroup_init"),
            release == Release::MODELLED
        );
        for op in OPS {
            let there = callbacks.iter().any(|known| known == op.name());
            assert_eq!(
                there,
                op.since() <= release.0,
                "whether ops.{} exists in Linux {release}",
                op.name()
            );
        }
        for symbols in SYMBOLS {
            for &name in symbols.names {
                let there = match symbols.kind {
                    SymbolKind::Type => btf.find_struct(name).is_some() || !enumerators(name).is_empty(),
                    SymbolKind::Member if btf.find_struct(symbols.parent).is_none() => continue,
                    SymbolKind::Member => members(symbols.parent).iter().any(|known| known == name),
                    SymbolKind::Enumerator => enumerators(symbols.parent).iter().any(|known| known == name),
                };
                assert_eq!(
                    there,
                    release.is_among(symbols.releases),
                    "whether {} {name} exists in Linux {release}",
                    symbols.parent
                );
            }
        }
    }
}

#[test]
fn flags_are_those_of_the_release() {
    let flags = |text: &str| text.parse::<Release>().unwrap().ops_flags();
    assert_eq!(flags("6.12"), 0x1_000f);
    assert_eq!(flags("6.15"), 0x1_007f);
    assert_eq!(flags("7.0"), 0x7f);
    assert_eq!(flags("7.2"), enums::SCX_OPS_ALL_FLAGS);
    assert_eq!(flags("7.3"), enums::SCX_OPS_ALL_FLAGS);
}

/// Returns the names as a list in Markdown, sorted.
fn list(mut names: Vec<String>) -> String {
    names.sort_unstable();
    names.dedup();
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Returns what a release has added, and in italics what it has removed.
fn change(added: Vec<String>, removed: Vec<String>) -> String {
    match (added.is_empty(), removed.is_empty()) {
        (_, true) => list(added),
        (true, false) => format!("*removed:* {}", list(removed)),
        (false, false) => format!("{}; *removed:* {}", list(added), list(removed)),
    }
}

/// The tables of docs/surface.md are those of the simulator.
#[test]
fn the_page_lists_what_each_release_has() {
    let costs = MachineSpec::smp(2).costs;
    let functions = |release| -> Vec<String> {
        let own = kfuncs::table_of(&costs, release);
        own.iter()
            .filter(|func| func.helper.is_none())
            .map(|func| func.name.to_owned())
            .collect()
    };
    let mut text = "| release | kfuncs | callbacks | types, fields and enumerators |\n|---|---|---|---|\n".to_owned();
    for pair in RELEASES.windows(2) {
        let [before, release] = [pair[0], pair[1]];
        let (old, new) = (functions(before), functions(release));
        let minus = |a: &[String], b: &[String]| a.iter().filter(|name| !b.contains(name)).cloned().collect();
        let callbacks = OPS.into_iter().filter(|op| op.since() == release.0);
        let symbols = |of: Release, not: Release| -> Vec<String> {
            let found = SYMBOLS
                .iter()
                .filter(|symbols| of.is_among(symbols.releases) && !not.is_among(symbols.releases));
            let names = found.flat_map(|symbols| {
                let parent = match symbols.kind {
                    SymbolKind::Member => format!("{}.", symbols.parent),
                    SymbolKind::Type | SymbolKind::Enumerator => String::new(),
                };
                symbols.names.iter().map(move |name| format!("{parent}{name}"))
            });
            names.collect()
        };
        text += &format!(
            "| {release} | {} | {} | {} |\n",
            change(minus(&new, &old), minus(&old, &new)),
            list(callbacks.map(|op| format!("ops.{}", op.name())).collect()),
            change(symbols(release, before), symbols(before, release)),
        );
    }
    golden::check_section!("../../docs/surface.md", "by release", &text);
    let mut text = "| helper or kfunc | why |\n|---|---|\n".to_owned();
    for group in absent::ABSENT {
        let names: Vec<String> = group.names.iter().map(|name| format!("`{name}`")).collect();
        text += &format!("| {} | {} |\n", names.join(", "), group.why);
    }
    golden::check_section!("../../docs/surface.md", "absent", &text);
}
