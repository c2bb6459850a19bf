// SPDX-License-Identifier: GPL-2.0-only
//! References that a policy holds to kernel objects are counted: those in map values, too.
mod policies;
mod support;

use kernel::Machine;
use policies::Run;
use support::*;

/// Runs five tasks that come and go on two CPUs, in checked mode or not; which of them the policy holds when none runs.
fn held_at_the_end(define: &str, checked: bool) -> (usize, u64, u64) {
    let tasks = (0..5).fold(Tasks::default(), |tasks, i| {
        tasks.add(
            &format!("t{i}"),
            vec![run_ms(1), sleep_ms(1), run_ms(1), sleep_ms(1000)],
        )
    });
    let mut machine = Machine::new(costly(2), tasks.workload, 1).expect("a machine");
    machine.checked = checked;
    let mut run = Run::new(machine, "kptrs", &[define]);
    run.run(300 * MS).assert_alive();
    let (kept, dropped) = (run.var("nr_kept"), run.var("nr_dropped"));
    let held = (0..5).filter(|&task| run.machine.layout.task_held(task)).count();
    (held, kept, dropped)
}

#[test]
fn what_an_lru_map_throws_out_gives_its_reference_back() {
    for checked in [false, true] {
        let (held, kept, _) = held_at_the_end("EVICT", checked);
        assert!(kept >= 10, "{kept} kept");
        assert_eq!(held, 1, "checked: {checked}: the last one alone is in the map");
    }
}

#[test]
fn references_in_map_values_are_given_back_with_them() {
    for define in ["DELETE", "UPDATE", "EXCHANGE"] {
        for checked in [false, true] {
            let (held, kept, dropped) = held_at_the_end(define, checked);
            assert!(
                kept >= 10 && kept == dropped,
                "{define}: {kept} kept, {dropped} dropped"
            );
            assert_eq!(
                held, 0,
                "{define}, checked: {checked}: every task sleeps, and none is held"
            );
        }
    }
}
