// SPDX-License-Identifier: GPL-2.0-only
//! Tests of stride: shares are exact at any time, and a sleep changes nothing about them.

use crate::support::policy::*;
use workload::SchedPolicy;

#[test]
fn shares_are_exact_to_one_slice_at_any_time() {
    let nice = |nice| move |task: &mut workload::TaskSpec| task.policy = SchedPolicy::Normal { nice };
    let tasks = Tasks::default().add("more", hog()).add("less", hog()).with(nice(3));
    let ran = Run::new("stride").tasks(tasks).for_ms(10_000);
    let slice = 10 * MS;
    let (mut more, mut less, mut stints) = (0_i64, 0_i64, 0);
    for stint in ran.stints() {
        let length = (stint.to - stint.from) as i64;
        match stint.comm.as_str() {
            "more" => more += length,
            _ => less += length,
        }
        stints += 1;
        // The weights are 100 and 51. The error is below one slice of each task.
        let error = (more * 51 - less * 100).unsigned_abs();
        assert!(error <= 152 * slice, "after {stints} stints: {more} {less}");
    }
    assert!(stints > 600, "{stints}");
}

#[test]
fn a_long_sleep_gives_no_credit() {
    let sleeper = vec![run(10 * MS), sleep(2000 * MS), run(10_000 * MS)];
    let tasks = Tasks::default().add("hog", hog()).add("sleeper", sleeper);
    let ran = Run::new("stride").tasks(tasks).for_ms(3000);
    let (hog, sleeper) = (
        ran.cpu_ns_between("hog", 2100 * MS, 2900 * MS),
        ran.cpu_ns_between("sleeper", 2100 * MS, 2900 * MS),
    );
    assert!(hog.abs_diff(sleeper) <= 20 * MS, "{hog} {sleeper}");
    assert!(ran.counter("nr_continued") > 100);
}
