// SPDX-License-Identifier: GPL-2.0-only
//! Hostile workloads: rt-app files.

use super::{Add, DEEP, many, nested};

/// Returns a workload that consists of one kind of task.
fn tasks(task: &str) -> String {
    format!("{{\"tasks\": {{{task}}}}}")
}

pub(super) fn add_all(add: &mut Add) {
    add(
        "a billion tasks",
        tasks("\"t\": {\"instance\": 1000000000, \"run\": 1}"),
        "refused",
    );
    add(
        "many kinds of many tasks",
        tasks(&many(1000, |n| {
            format!("\"t{n}\": {{\"instance\": 65535, \"run\": 1}}")
        })),
        "refused",
    );
    add(
        "negative instances",
        tasks("\"t\": {\"instance\": -5, \"run\": 1}"),
        "refused",
    );
    add("negative time", tasks("\"t\": {\"run\": -5}"), "refused");
    add(
        "huge times",
        tasks("\"t\": {\"run\": 9223372036854775807, \"sleep\": 9223372036854775807}"),
        "",
    );
    add(
        "a huge delay",
        tasks("\"t\": {\"delay\": 9223372036854775807, \"run\": 1}"),
        "",
    );
    add(
        "a huge timer",
        tasks("\"t\": {\"run\": 1, \"timer\": {\"ref\": \"a\", \"period\": 9223372036854775807}}"),
        "",
    );
    add(
        "a timer with period 0",
        tasks("\"t\": {\"timer\": {\"ref\": \"a\", \"period\": 0}}"),
        "",
    );
    add("an empty loop", tasks("\"t\": {\"loop\": -1}"), "");
    add(
        "a loop of loops",
        tasks(&format!(
            "\"t\": {{\"phases\": {{\"a\": {{\"loop\": 2147483647, {}}}}}}}",
            many(200, |n| format!("\"run{n}\": 0"))
        )),
        "",
    );
    add("deep objects", nested("{\"tasks\":", "1", "}"), "refused");
    add(
        "deep lists",
        format!("{{\"tasks\": {}}}", nested("[", "", "]")),
        "refused",
    );
    add(
        "a comment without end",
        "{ /* ".to_owned() + &"*".repeat(DEEP),
        "refused",
    );
    add(
        "escapes in names",
        tasks("\"\\u0000\\u001b[31m\\n\\ud800\": {\"run\": 1}"),
        "",
    );
    add(
        "control characters in names",
        tasks("\"a\\u001b[2J\\r\\n\": {\"loop\": 3, \"run\": 10}"),
        "",
    );
    add(
        "a long name",
        tasks(&format!("\"{}\": {{\"run\": 1}}", "x".repeat(DEEP))),
        "",
    );
    add(
        "forks that fork",
        tasks("\"a\": {\"loop\": -1, \"fork\": \"a\", \"run\": 1}"),
        "",
    );
    add(
        "forks that fork twice",
        tasks(
            "\"a\": {\"loop\": -1, \"fork\": \"b\", \"run\": 1}, \"b\": {\"instance\": 0, \"loop\": -1, \"fork\": \"a\"}",
        ),
        "",
    );
    add(
        "cgroups in a circle",
        tasks("\"a\": {\"taskgroup\": \"/a/../a/../..\", \"run\": 1}"),
        "",
    );
    add(
        "tasks with different slices",
        tasks(&many(500, |n| {
            format!(
                "\"t{n}\": {{\"loop\": -1, \"dl-runtime\": {}, \"run\": 7, \"sleep\": 3}}",
                n * 211
            )
        })),
        "Time",
    );
    add(
        "a slice that is too long",
        tasks("\"t\": {\"policy\": \"SCHED_OTHER\", \"dl-runtime\": 9223372036854775807, \"run\": 1}"),
        "refused",
    );
    add("a negative slice", tasks("\"t\": {\"dl-runtime\": -1, \"run\": 1}"), "");
    add(
        "slices that change in every phase",
        tasks(&format!(
            "\"t\": {{\"instance\": 30, \"loop\": -1, \"phases\": {{{}}}}}",
            many(100, |n| format!(
                "\"p{n}\": {{\"priority\": {}, \"dl-runtime\": {}, \"run\": 1}}",
                n % 19,
                n * n * 11
            ))
        )),
        "Time",
    );
    add(
        "tasks that suspend each other",
        tasks(&many(100, |n| {
            format!(
                "\"t{n}\": {{\"loop\": -1, \"resume\": \"t{}\", \"suspend\": \"t0\"}}",
                (n + 1) % 100
            )
        })),
        "Time",
    );
    add(
        "memrun with deep objects",
        format!(
            "{{\"tasks\": {{\"t\": {{\"memrun\": {}}}}}}}",
            nested("{\"memrun1\":", "1", "}")
        ),
        "refused",
    );
    add(
        "deep cgroups",
        tasks(&format!(
            "\"a\": {{\"taskgroup\": \"{}\", \"run\": 1}}",
            "/a".repeat(5000)
        )),
        "",
    );
    add(
        "CPUs that do not exist",
        tasks("\"a\": {\"cpus\": [4294967295], \"run\": 1}"),
        "refused",
    );
    add(
        "a phase on a CPU that does not exist",
        tasks("\"a\": {\"phases\": {\"x\": {\"cpus\": [1], \"run\": 1}, \"y\": {\"cpus\": [64], \"run\": 1}}}"),
        "uses CPU 64",
    );
    add("no CPU", tasks("\"a\": {\"cpus\": [], \"run\": 1}"), "refused");
    add(
        "a range of CPUs",
        tasks("\"a\": {\"cpus\": \"0-4294967295\", \"run\": 1}"),
        "refused",
    );
    add(
        "deadlock",
        tasks("\"a\": {\"lock\": \"m\", \"wait\": {\"ref\": \"c\", \"mutex\": \"m\"}}"),
        "",
    );
    add(
        "unlock without lock",
        tasks("\"a\": {\"unlock\": \"m\", \"run\": 1}"),
        "",
    );
    add(
        "a barrier of one",
        tasks("\"a\": {\"loop\": 1000, \"barrier\": \"b\"}"),
        "",
    );
    add(
        "a priority that is out of range",
        tasks("\"a\": {\"priority\": 2147483647, \"run\": 1}"),
        "refused",
    );
    add(
        "too many messages",
        "hackbench:groups=1000000,fds=1000000,loops=1000000".to_owned(),
        "refused",
    );
    add(
        "a closed system with too many tasks",
        "closed:n=4294967295".to_owned(),
        "refused",
    );
    add(
        "a placement of 10^9 tasks",
        format!("closed:placement={}", vec!["100000"; 10_000].join("/")),
        "refused",
    );
    add(
        "a mean of 0",
        "open:interarrival=0,work=0,number=1000000000".to_owned(),
        "refused",
    );
    add(
        "a distribution with a huge variance",
        "closed:n=3,compute=10ms,compute_dist=H2,cv2=4294967295".to_owned(),
        "",
    );
    add(
        "too many bytes",
        "chat:rooms=100000,users=100000,messages=100000,bytes=99999999999".to_owned(),
        "refused",
    );
    add(
        "control characters in the name of a generator",
        "closed\x1b[31m:n=3".to_owned(),
        "refused",
    );
    add(
        "numbers that are not finite",
        tasks("\"a\": {\"run\": 1e400}"),
        "refused",
    );
    add("a repeated key", tasks("\"a\": {\"run\": 1}, \"a\": {\"run\": 1}"), "");
}
