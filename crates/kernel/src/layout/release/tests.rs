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
    assert_eq!(Release::default().version_code(), 0x7020d);
    assert!(RELEASES.is_sorted());
    for wrong in ["6.11", "7.3", "6.1", "", "6.12.1", "v6.12"] {
        let error = wrong.parse::<Release>().unwrap_err();
        assert!(error.contains("6.12, 6.13") && error.contains("7.1, 7.2"), "{error}");
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
            let expected = kfunc.helper.is_none() && release.is_among(kfunc.releases);
            assert_eq!(there, expected, "whether {} exists in Linux {release}", kfunc.name);
        }
        let callbacks = members("sched_ext_ops");
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
}
