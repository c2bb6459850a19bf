// SPDX-License-Identifier: GPL-2.0-only
//! Tests of DSQs, in particular comparisons with plain sorted lists.

use crate::sched::ext::state::dsq::*;
use crate::testbed::nth;

/// Returns the slots of the tasks on a DSQ, in order.
fn order(dsqs: &Dsqs, dsq: DsqRef) -> Vec<u32> {
    let mut order: Vec<TaskId> = Vec::new();
    let mut at = dsqs.first(dsq);
    while let Some(task) = at {
        assert_eq!(dsqs.prev(task), order.last().copied());
        order.push(task);
        at = dsqs.next(task);
    }
    assert_eq!(order.len() as u32, dsqs.nr(dsq));
    order.into_iter().map(TaskId::slot).collect()
}

#[test]
fn a_fifo_allows_insertions_at_both_ends_and_removals_in_the_middle() {
    let mut dsqs = Dsqs::new(2, 1);
    let dsq = dsqs.create(7).unwrap();
    for task in 0..5 {
        dsqs.insert(dsq, nth(task), Position::Tail);
    }
    dsqs.insert(dsq, nth(9), Position::Head);
    dsqs.remove(nth(2));
    assert_eq!(order(&dsqs, dsq), [9, 0, 1, 3, 4]);
    assert!(dsqs.has_fifo(dsq) && !dsqs.has_priq(dsq));
    assert_eq!(dsqs.current(nth(2)), NO_DSQ);
}

#[test]
fn equal_vtimes_keep_their_order_and_vtimes_wrap_around() {
    let mut dsqs = Dsqs::new(1, 1);
    let dsq = dsqs.create(0).unwrap();
    for (task, vtime) in [(0, 5), (1, 3), (2, 5), (3, u64::MAX - 1), (4, 0)] {
        dsqs.insert(dsq, nth(task), Position::Vtime(vtime));
    }
    assert_eq!(order(&dsqs, dsq), [3, 4, 1, 0, 2]);
}

/// Compares a DSQ with a sorted vector while tasks are inserted and removed in a fixed
/// pseudo-random order.
#[test]
fn the_treap_agrees_with_a_sorted_list() {
    let mut dsqs = Dsqs::new(1, 1);
    let dsq = dsqs.create(1 << 40).unwrap();
    let mut model: Vec<(u64, u32)> = Vec::new();
    let mut state = 1_u64;
    for round in 0..4000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let task = (state >> 33) as u32 % 300;
        match model.iter().position(|&(_, other)| other == task) {
            Some(at) => {
                model.remove(at);
                dsqs.remove(nth(task));
            }
            None => {
                let vtime = state >> 50;
                let at = model.partition_point(|&(other, _)| other <= vtime);
                model.insert(at, (vtime, task));
                dsqs.insert(dsq, nth(task), Position::Vtime(vtime));
            }
        }
        if round % 50 == 0 {
            assert_eq!(
                order(&dsqs, dsq),
                model.iter().map(|&(_, task)| task).collect::<Vec<_>>()
            );
        }
    }
}

/// Inserts tasks with vtimes that are more than 2^63 apart. time_before64() does not define an
/// order for such vtimes, but no task may get lost.
#[test]
fn vtimes_without_an_order_lose_no_task() {
    let mut dsqs = Dsqs::new(1, 1);
    let dsq = dsqs.create(1).unwrap();
    let mut queued = std::collections::BTreeSet::new();
    let mut state = 1_u64;
    for round in 0..20_000_u32 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let task = (state >> 33) as u32 % 100;
        if queued.remove(&task) {
            dsqs.remove(nth(task));
        } else {
            queued.insert(task);
            // The three vtimes are equally spaced around the circle of 2^64 values. Each is before
            // the next one according to time_before64().
            let vtime = match round % 2 {
                0 => u64::MAX / 3 * u64::from(round % 3),
                _ => state,
            };
            dsqs.insert(dsq, nth(task), Position::Vtime(vtime));
        }
        dsqs.verify();
        if round % 100 == 0 {
            let listed: std::collections::BTreeSet<u32> = order(&dsqs, dsq).into_iter().collect();
            assert_eq!(listed, queued);
        }
    }
    while let Some(task) = dsqs.first(dsq) {
        dsqs.remove(task);
        dsqs.verify();
    }
}

#[test]
fn an_iteration_survives_removals_and_skips_new_tasks() {
    let mut dsqs = Dsqs::new(1, 1);
    let dsq = dsqs.create(3).unwrap();
    for task in 0..4 {
        dsqs.insert(dsq, nth(task), Position::Tail);
    }
    let forward = dsqs.cursor_new(dsq, false);
    let backward = dsqs.cursor_new(dsq, true);
    assert_eq!(dsqs.cursor_next(forward), Some(nth(0)));
    assert_eq!(dsqs.cursor_next(backward), Some(nth(3)));
    dsqs.remove(nth(1));
    dsqs.remove(nth(0));
    dsqs.insert(dsq, nth(8), Position::Tail);
    dsqs.insert(dsq, nth(0), Position::Head);
    assert!(dsqs.cursor_has(forward, nth(2)) && !dsqs.cursor_has(forward, nth(0)));
    assert_eq!(dsqs.cursor_next(forward), Some(nth(2)));
    assert_eq!(dsqs.cursor_next(forward), Some(nth(3)));
    assert_eq!(dsqs.cursor_next(forward), None);
    assert_eq!(dsqs.cursor_next(backward), Some(nth(2)));
    assert_eq!(dsqs.cursor_next(backward), None);
    dsqs.cursor_drop(forward);
    dsqs.cursor_drop(backward);
    assert_eq!(dsqs.cursor_dsq(forward), None);
}

#[test]
fn ids_are_unique_and_reusable_after_destruction() {
    let mut dsqs = Dsqs::new(1, 1);
    for id in [5, 1 << 33] {
        let dsq = dsqs.create(id).unwrap();
        assert_eq!(dsqs.create(id), None);
        assert_eq!(dsqs.find(id), Some(dsq));
        dsqs.destroy(dsq);
        assert_eq!(dsqs.find(id), None);
        assert_eq!(dsqs.create(id), Some(dsq));
    }
}

#[test]
fn a_search_visits_about_log2_n_tasks() {
    let mut dsqs = Dsqs::new(1, 1);
    let dsq = dsqs.create(0).unwrap();
    let fifo = dsqs.create(1).unwrap();
    let (mut visited, mut levels) = (0, 0);
    for task in 0..1000 {
        // 389 and 1000 have no common divisor, so each vtime occurs once.
        dsqs.insert(dsq, nth(task), Position::Vtime(u64::from(task * 389 % 1000)));
        let others: Vec<u32> = dsqs.search_path(dsq, nth(task)).map(TaskId::slot).collect();
        let most = (u32::BITS - task.leading_zeros()) as usize;
        assert!(others.len() <= most, "{} of {task} tasks", others.len());
        assert!(!others.contains(&task));
        let distinct: std::collections::BTreeSet<&u32> = others.iter().collect();
        assert_eq!(distinct.len(), others.len());
        visited += others.len();
        levels += most;
    }
    assert!(visited * 10 > levels * 8, "{visited} of {levels} levels");
    dsqs.insert(fifo, nth(2000), Position::Tail);
    dsqs.insert(fifo, nth(2001), Position::Tail);
    assert_eq!(dsqs.search_path(fifo, nth(2001)).count(), 0, "a FIFO has no tree");
    assert_eq!(dsqs.neighbours(nth(2001)), [nth(2000), NIL]);
}
