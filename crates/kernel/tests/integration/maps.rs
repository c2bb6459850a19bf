// SPDX-License-Identifier: GPL-2.0-only
//! Tests of all kinds of maps and of allocated objects. The tests run programs that test policies
//! contain.

use crate::policies::Run;
use crate::support::*;
use kernel::Machine;
use kernel::user_space::run_program;
use profile::Run as RunProgram;
use trace::Event;
use workload::Cgroup;

fn loaded(policy: &str) -> Run {
    let mut tasks = Tasks::default();
    tasks.workload.cgroups = ["/", "/a"]
        .map(|path| Cgroup {
            path: path.into(),
            weight: 100,
        })
        .into();
    let tasks = tasks.add("one", vec![run_ms(50)]).add("two", vec![run_ms(50)]);
    Run::new(
        Machine::new(free(2), tasks.workload, 1).expect("a machine"),
        policy,
        &[],
    )
}

/// Runs the program with this name. The policy contains it, and its type is syscall.
fn call(run: &mut Run, program: &str) -> Result<i32, String> {
    let found = run.image.programs.iter().find(|known| known.name == program);
    let found = found.unwrap_or_else(|| panic!("no program {program}")).clone();
    let done = run_program(&mut run.machine, &found, &RunProgram::default());
    done.map_err(|error| error.to_string())
}

#[test]
fn each_kind_of_map_behaves_like_the_kernels() {
    for (policy, least) in [("maps", 14), ("objects", 10)] {
        run_tests(loaded(policy), policy, least);
    }
}

/// Runs all test programs of a policy. Also checks that the policy has at least `least` of them.
fn run_tests(mut run: Run, policy: &str, least: usize) {
    let programs: Vec<String> = run.image.programs.iter().map(|program| program.name.clone()).collect();
    let tests: Vec<&String> = programs.iter().filter(|name| name.starts_with("test_")).collect();
    assert!(tests.len() >= least, "{tests:?}");
    for name in tests {
        assert_eq!(
            call(&mut run, name),
            Ok(0),
            "{name}: source line of {policy}.bpf.c with the failed check"
        );
    }
    run.run(10 * MS);
    run.assert_alive();
    if policy == "objects" {
        assert_eq!((run.var("worked"), run.var("worked_key")), (1, 1));
        assert_eq!(run.var("timed"), 0, "an update of an element must cancel its timer");
    }
}

#[test]
fn calls_that_a_verifier_rejects_are_faults() {
    for (program, expect) in [
        (
            "change_map_of_maps",
            "cannot pass map_type 12 into func bpf_map_update_elem#2",
        ),
        (
            "delete_map_of_maps",
            "cannot pass map_type 13 into func bpf_map_delete_elem#3",
        ),
        ("drop_percpu_twice", "is not a per-CPU object"),
        (
            "delete_storage_of_nobody",
            "cannot pass map_type 32 into func bpf_task_storage_delete#157",
        ),
        ("create_storage_of_a_map", "is not a struct cgroup"),
        (
            "look_up_percpu_elem_of_hash",
            "cannot pass map_type 1 into func bpf_map_lookup_percpu_elem#195",
        ),
    ] {
        let policy = if program == "drop_percpu_twice" {
            "objects"
        } else {
            "maps"
        };
        let error = call(&mut loaded(policy), program).expect_err(program);
        assert!(error.contains(expect), "{program}: {error}");
    }
}

#[test]
fn user_ring_buffer_drains_do_not_nest() {
    let mut run = loaded("maps");
    let vm = run.machine.ext().vm();
    let ring = vm
        .map_by_name("user_ring")
        .expect("the policy has this map")
        .ringbuf()
        .expect("the map is a ring buffer");
    for sample in [1u64, 2] {
        assert!(
            ring.borrow_mut()
                .produce(run.machine.region(), &sample.to_le_bytes(), 0)
        );
    }
    assert_eq!(call(&mut run, "drain_within_drain"), Ok(0));
}

#[test]
fn an_iterator_program_is_called_for_each_task() {
    let mut run = loaded("maps");
    run.machine.advance(10 * MS, &mut run.records);
    assert_eq!(call(&mut run, "list_tasks"), Ok(0));
    run.run(20 * MS);
    let lines = run.records.iter().filter_map(|record| match &record.event {
        Event::Printk { text } => Some(text.as_str()),
        _ => None,
    });
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines, ["1 is number 0 of one", "2 is number 1 of two", "the end"]);
}
