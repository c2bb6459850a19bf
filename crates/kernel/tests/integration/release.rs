// SPDX-License-Identifier: GPL-2.0-only
//! Tests that load one object on every Linux release. They check which symbols the object finds,
//! that its schedule is the same on every release, and that errors name the missing symbols.

use crate::policies::{Run, compile};
use crate::support::*;
use bpf::engine::Engine;
use bpf::object::Object;
use kernel::load::{LoadError, load};
use kernel::release::{RELEASES, Release};
use kernel::{Machine, Options};
use profile::Profile;
use std::path::Path;

/// Returns a machine with six tasks, whose kernel is this Linux release.
fn machine(release: &str) -> Machine {
    let mut tasks = Tasks::default();
    for task in 0..6 {
        tasks = tasks.add(&format!("task{task}"), vec![run_ms(3 + task), sleep_ms(2), run_ms(20)]);
    }
    Machine::new(
        free(2),
        tasks.workload,
        Options {
            release: release.parse().expect("the text is a release"),
            ..Options::default()
        },
    )
    .expect("a machine")
}

/// Loads an object. Returns the warnings or the error message.
fn try_load(machine: &mut Machine, path: &Path) -> Result<Vec<String>, String> {
    let object = Object::parse(&std::fs::read(path).unwrap(), "release.bpf.o").expect("an object");
    match load(machine, &object, &Profile::default(), Engine::default()) {
        Ok(image) => Ok(image.warnings),
        Err(LoadError::Input(error)) => Err(error.to_string()),
        Err(LoadError::Refused(exit)) => Err(exit.message),
    }
}

#[test]
fn one_object_has_the_same_schedule_on_every_release() {
    let path = compile("release", &[]);
    let mut schedules = Vec::new();
    for release in RELEASES.map(|release| release.to_string()) {
        let mut machine = machine(&release);
        let image = Run::load_file(&mut machine, &path).expect("the policy loads");
        let mut run = Run {
            machine,
            image,
            records: Vec::new(),
        };
        run.run(200 * MS);
        run.assert_alive();
        let at_least = |since: &str| u64::from(release.parse::<Release>().ok() >= since.parse().ok());
        let used = ["nr_old", "nr_v1", "nr_new"].map(|name| u64::from(run.var(name) > 0));
        let (v1, new) = (at_least("6.13"), at_least("6.19"));
        assert_eq!(used, [1 - v1, v1 - new, new], "{release}");
        for (name, since) in [
            ("has_now", "6.14"),
            ("has_queued_wakeup", "6.15"),
            ("has_events", "6.15"),
            ("has_nr_node_ids", "6.15"),
            ("has_bw_quota", "6.17"),
            ("has_sub_dispatch", "7.1"),
            ("has_nr_cids", "7.2"),
            ("has_tid", "7.2"),
        ] {
            assert_eq!(run.var(name), at_least(since), "{name} in {release}");
        }
        assert_eq!(
            run.var("version"),
            u64::from(release.parse::<Release>().unwrap().version_code())
        );
        schedules.push(run.records);
    }
    assert!(schedules[0].len() > 50);
    // Linux 7.3 differs in more than symbols.
    schedules.pop();
    assert!(schedules.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn errors_name_the_symbols_that_a_release_lacks() {
    let check = |defines: &[&str], release: &str, expect: Result<(), &str>| {
        let path = compile("release", defines);
        let got = try_load(&mut machine(release), &path);
        match (&got, expect) {
            (Ok(_), Ok(())) => {}
            (Err(message), Err(expect)) => assert!(message.contains(expect), "{defines:?} on {release}: {message}"),
            _ => panic!("{defines:?} on {release}: {got:?}"),
        }
    };
    let missing =
        "extern (func ksym) 'scx_bpf_cpu_curr': not found in kernel BTF of Linux 6.17; it exists since Linux 6.18";
    check(&["STRONG"], "6.17", Err(missing));
    check(&["STRONG"], "6.18", Ok(()));
    check(
        &["UNHEARD"],
        "7.2",
        Err("Cannot find member unheard in kernel BTF of Linux 7.2"),
    );
    check(
        &["FLAGS=0x10020"],
        "6.14",
        Err("ops.flags has bits 0x20 that Linux 6.14 does not know (-22)"),
    );
    check(&["FLAGS=0x10020"], "6.15", Ok(()));
    check(
        &["FLAGS=0x10020"],
        "7.2",
        Err("ops.flags has bits 0x10000 that Linux 7.2 does not know (-22)"),
    );
    check(
        &["FLAGS=0x80"],
        "7.0",
        Err("ops.flags has bits 0x80 that Linux 7.0 does not know (-22)"),
    );
    check(&["FLAGS=0x80"], "7.1", Ok(()));
}

#[test]
fn optional_callbacks_are_removed_with_a_warning() {
    let path = compile("release", &["BANDWIDTH"]);
    let warned = |release: &str| {
        let warnings = try_load(&mut machine(release), &path).expect("the policy loads");
        warnings
            .iter()
            .any(|warning| warning.contains("has no member cgroup_set_bandwidth in this kernel"))
    };
    assert!(warned("6.16") && !warned("6.17"));
}
