// SPDX-License-Identifier: GPL-2.0-only
//! Messages about wrong scripts.

use script::Script;

/// Checks the message about a script.
fn check(text: &str, expected: &str) {
    let error = Script::parse("x.script", text).expect_err("the script is wrong");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn messages_name_line_column_and_hint() {
    check(
        "create a\n",
        "x.script:1:1: expected the machine\n  hint: a script begins with a line such as `machine cpus=4`",
    );
    check(
        "machine cpus=2\ncreate a\nwke a from=1\n",
        "x.script:3:1: `wke` is not a command\n  hint: did you mean 'wake'?",
    );
    check(
        "machine cpus=2\ncreate a\n  wake a from=3 # beyond the last CPU\n",
        "x.script:3:15: `3` is not a number from 1 to 2",
    );
    check(
        "machine cpus=2\ncreate worker\nblock wroker\n",
        "x.script:3:7: no task is called `wroker`\n  hint: did you mean 'worker'?",
    );
    check(
        "machine cpus=2\ncreate a cpus=0-1\n",
        "x.script:2:15: CPU 0 executes no task of a script\n  hint: use CPUs from 1 to 2",
    );
    check(
        "machine cpus=2\nadvance 3lightyears\n",
        "x.script:2:9: '3lightyears': unknown unit 'lightyears', expected ns, us, ms, s or min, for example 3ms\n  hint: write a number and ns, us, ms or s",
    );
    check(
        "machine cpus=2\ncreate a\nwake a\n",
        "x.script:3:1: expected from=CPU or by=TASK\n  hint: for example: wake a from=1",
    );
    check(
        "machine cpus=2\ngroup /a/b\n",
        "x.script:2:7: there is no group `/a`\n  hint: create it first: group /a",
    );
    check(
        "machine cpus=2\ngroup /a\nattach /a tree\n",
        "x.script:3:1: no policy could accept a sub-scheduler\n  hint: begin the script with a line such as `policy tree` after the machine",
    );
    check(
        "machine cpus=2\npolicy tree\nattach / tree\n",
        "x.script:3:8: the root group has the policy of the script",
    );
    check(
        "machine cpus=2 features=NEXT_BUDDY,NI_RANDM\n",
        "x.script:1:36: features: Linux 7.3 has no scheduler feature \"NI_RANDM\"\n  hint: did you mean NI_RANDOM? known are PLACE_LAG, PLACE_DEADLINE_INITIAL, PLACE_REL_DEADLINE, RUN_TO_PARITY, PREEMPT_SHORT, NEXT_BUDDY, PICK_BUDDY, CACHE_HOT_BUDDY, DELAY_DEQUEUE, DELAY_ZERO, WAKEUP_PREEMPTION, HRTICK, TTWU_QUEUE, SIS_UTIL, LB_MIN, ATTACH_AGE_LOAD, WA_IDLE, WA_WEIGHT, WA_BIAS, UTIL_EST, NI_RANDOM, NI_RATE; NO_ before a name switches it off",
    );
    check("machine cpus=4 nodes=1-2/2-4\n", "x.script:1:22: CPU 2 is in two sets");
    check(
        "machine cpus=2\nadvance 5000s\nadvance 90000s\n",
        "x.script:3:9: 90000s is longer than a day\n  hint: use a shorter time",
    );
}

#[test]
fn a_command_without_effect_is_a_line_of_the_log() {
    let script = Script::parse("x.script", "machine cpus=1\ncreate a\nblock a\nhotplug 1 on\n").expect("a script");
    let log = script::run(&script, |_, _, _| unreachable!("the script has no policy")).expect("a log");
    assert!(log.contains("> 0 3 block a\n! a is not running\n"), "{log}");
}
