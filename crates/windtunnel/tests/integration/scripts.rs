// SPDX-License-Identifier: GPL-2.0-only
//! Compares scripts with a policy with the logs of Linux 7.3: callbacks, their arguments and flags,
//! queues, and who runs where. The scripts without a policy are compared by the crate `script`.

use crate::support::{root, variant, windtunnel};
use std::fs;

#[test]
fn policies_see_what_the_kernel_shows_them() {
    let folder = root().join("crates/kernel/tests/scripts");
    let tree = variant("scripts/conform/policies/tree.bpf.c", "", &[]);
    variant("scripts/conform/policies/again.bpf.c", "", &[]);
    variant("scripts/conform/policies/central.bpf.c", "", &[]);
    let policies = tree.parent().expect("the folder of the object").display().to_string();
    let mut compared = 0;
    for entry in fs::read_dir(folder).expect("the folder with the scripts") {
        let path = entry.expect("an entry of the folder").path();
        let is_script = path.extension().is_some_and(|extension| extension == "script");
        if !is_script || !fs::read_to_string(&path).expect("a script").contains("\npolicy ") {
            continue;
        }
        let ran = windtunnel(&["script", "--policies", &policies, &path.display().to_string()]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let kernel = fs::read_to_string(path.with_extension("log")).expect("the kernel's log");
        let different = kernel.lines().zip(ran.stdout.lines()).find(|(a, b)| a != b);
        if let Some((theirs, ours)) = different {
            panic!("{}:\n  kernel:    {theirs}\n  simulator: {ours}", path.display());
        }
        assert_eq!(kernel.lines().count(), ran.stdout.lines().count(), "{}", path.display());
        compared += 1;
    }
    assert_eq!(compared, 61);
}

#[test]
fn a_policy_that_preempts_without_end_is_named() {
    let object = variant("crates/windtunnel/tests/policies/kicks_again.bpf.c", "", &[]);
    let policies = object.parent().expect("the folder of the object").display().to_string();
    let folder = tempfile::tempdir().expect("a directory");
    let script = folder.path().join("again.script");
    let lines = [
        "machine cpus=2",
        "policy kicks_again",
        "create a cpus=1",
        "wake a from=1",
        "create b cpus=1",
        "wake b from=2",
        "advance 1ms",
    ];
    fs::write(&script, lines.join("\n")).expect("a script");
    let ran = windtunnel(&["script", "--policies", &policies, &script.display().to_string()]);
    assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr.contains("line 6: the CPUs interrupt each other without end"),
        "{}",
        ran.stderr
    );
}
