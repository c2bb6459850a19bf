// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the costs of mutexes, semaphores, condition variables and barriers. User space
//! implements all of them with futexes.

use crate::support::*;
use machine::{MachineSpec, MessageCosts};
use workload::{Op, Resource};

/// Returns a machine on which an operation in user space takes 1 us, FUTEX_WAKE takes 10 us and
/// FUTEX_WAIT takes 20 us. All other work of the kernel takes no time.
fn spec(cpus: u32) -> MachineSpec {
    let mut spec = free(cpus);
    spec.costs.user_lock_ns = 1_000;
    spec.costs.channel.futex = MessageCosts {
        send_ns: 10_000,
        recv_ns: 20_000,
        byte_ps: 0,
        ..MessageCosts::default()
    };
    spec
}

fn mutex() -> Resource {
    Resource::Mutex {
        name: "m".into(),
        priority_inheritance: false,
    }
}

#[test]
fn without_a_waiter_there_is_no_system_call() {
    let stop = |resource, ops| {
        let tasks = Tasks::default().resources(vec![resource]).add("a", ops);
        let (_, records, _) = draw(spec(1), tasks, END, MS);
        stop_ns(&records, 1)
    };
    assert_eq!(stop(mutex(), vec![Op::Lock(0), Op::Unlock(0)]), 2_000);
    let semaphore = Resource::Semaphore {
        name: "s".into(),
        value: 1,
    };
    assert_eq!(stop(semaphore, vec![Op::SemWait(0), Op::SemPost(0)]), 2_000);
    let condition = Resource::Cond { name: "c".into() };
    assert_eq!(stop(condition, vec![Op::Signal(0), Op::Broadcast(0)]), 2_000);
}

#[test]
fn a_contended_mutex_costs_futex_wait_and_futex_wake() {
    let tasks = Tasks::default()
        .resources(vec![mutex()])
        .add("holder", vec![Op::Lock(0), run_ms(1), Op::Unlock(0)])
        .add("waiter", vec![Op::Lock(0), Op::Unlock(0)])
        .with(|task| task.start_ns = 100_000);
    let (_, records, _) = draw(spec(2), tasks, END, MS);
    // The holder acquires the mutex in 1 us, computes, and releases it in 1 + 10 us.
    assert_eq!(stop_ns(&records, 1), 1_000 + MS + 11_000);
    // The waiter wakes up when the holder begins to release the mutex. After that it pays 21 us for
    // its first attempt and FUTEX_WAIT, 1 us for a second attempt, and 1 us for its release.
    assert_eq!(stop_ns(&records, 2), 1_000 + MS + 21_000 + 2_000);
}

#[test]
fn the_last_task_at_a_barrier_wakes_the_others() {
    let barrier = Resource::Barrier {
        name: "b".into(),
        participants: 2,
    };
    let tasks = Tasks::default()
        .resources(vec![barrier])
        .add("first", vec![Op::Barrier(0)])
        .add("last", vec![run_ms(1), Op::Barrier(0)]);
    let (_, records, _) = draw(spec(2), tasks, END, MS);
    assert_eq!(stop_ns(&records, 1), MS + 21_000);
    assert_eq!(stop_ns(&records, 2), MS + 11_000);
}

#[test]
fn a_mutex_that_another_cpu_used_last_costs_a_cache_line() {
    let stop = |other| {
        let mut spec = spec(2);
        spec.costs.cache_line.llc = 5_000;
        let tasks = Tasks::default()
            .resources(vec![mutex(), mutex()])
            .add("a", vec![Op::Lock(other), Op::Unlock(other)])
            .with(|task| task.cpus = Some(vec![1]))
            .add("b", vec![Op::Lock(0), Op::Unlock(0)])
            .with(|task| (task.cpus, task.start_ns) = (Some(vec![0]), MS));
        stop_ns(&draw(spec, tasks, END, MS).1, 2)
    };
    // In stop(0), the other CPU used the same mutex last. In stop(1), it used another mutex.
    assert_eq!(stop(0) - stop(1), 5_000);
}

#[test]
fn a_relay_posts_one_after_the_other_and_all_posts_have_the_time_of_the_first() {
    let semaphore = |name: &str, value| Resource::Semaphore {
        name: name.into(),
        value,
    };
    let resources = vec![semaphore("ready", 3), semaphore("request", 0)];
    let relay = Op::Relay { from: 0, to: 1 };
    let mut tasks = Tasks::default()
        .resources(resources)
        .add("server", vec![run_ms(1), relay]);
    for client in ["a", "b", "c"] {
        let ops = vec![Op::SemWait(1), Op::BeginPosted, Op::Done { count: 1 }];
        tasks = tasks.add(client, ops);
    }
    let (_, records, _) = draw(spec(4), tasks, END, MS);
    let responses: Vec<u64> = (records.iter())
        .filter_map(|record| match record.event {
            trace::Event::Done { response_ns, .. } => Some(response_ns),
            _ => None,
        })
        .collect();
    // The server takes the value 3 in 1 us, and that is the time of the posts. The first client
    // wakes up when the server begins. Each post takes 1 + 10 us, so the others wake up 12 and 23
    // us later. A woken client pays 21 us for its first attempt and FUTEX_WAIT, and 1 us for the
    // second attempt.
    assert_eq!(responses, [21_000, 33_000, 44_000]);
    // The server exits after the three posts.
    assert_eq!(stop_ns(&records, 1), MS + 1_000 + 3 * 11_000);
}

#[test]
fn a_relay_waits_until_its_semaphore_is_posted() {
    let semaphore = |name: &str| Resource::Semaphore {
        name: name.into(),
        value: 0,
    };
    let tasks = Tasks::default()
        .resources(vec![semaphore("ready"), semaphore("request")])
        .add("server", vec![Op::Relay { from: 0, to: 1 }])
        .add("client", vec![run_ms(2), Op::SemPost(0), Op::SemWait(1), run_ms(1)]);
    let (_, records, _) = draw(free(2), tasks, END, MS);
    assert_eq!((stop_ns(&records, 1), stop_ns(&records, 2)), (2 * MS, 3 * MS));
}
