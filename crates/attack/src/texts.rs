// SPDX-License-Identifier: GPL-2.0-only
//! Hand-written hostile texts: machines, workloads, suites, recordings, and profiles. (A profile is
//! a file of settings that replaces the user-space part of a policy.)

use crate::kind;

/// A hostile text.
pub struct Text {
    pub name: &'static str,
    pub kind: TextKind,
    pub text: String,
    /// Text that the result of reading or running must contain. Empty if any result is allowed.
    pub expected: &'static str,
}

/// The format in which a text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    Machine,
    Workload,
    Profile,
    Suite,
    Recording,
}

/// Reads and runs the text with this index. Returns the result, for example `refused: ...`.
pub fn run(index: u64) -> String {
    let Some(text) = texts().into_iter().nth(index as usize) else {
        return "no such text".to_owned();
    };
    match text.kind {
        TextKind::Machine => kind::machine(&text.text),
        TextKind::Workload => kind::workload(&text.text),
        TextKind::Profile => kind::profile(&text.text),
        TextKind::Suite => kind::suite(&text.text),
        TextKind::Recording => kind::recording(&text.text),
    }
}

/// Number of repetitions that make a text very long or deeply nested.
const DEEP: usize = 100_000;

/// Returns `inner` in many pairs of `open` and `close`.
fn nested(open: &str, inner: &str, close: &str) -> String {
    format!("{}{inner}{}", open.repeat(DEEP), close.repeat(DEEP))
}

/// Returns a workload that consists of one kind of task.
fn tasks(task: &str) -> String {
    format!("{{\"tasks\": {{{task}}}}}")
}

/// Returns a machine file with this topology.
fn machine(topology: &str) -> String {
    format!("description = 'x'\nhz = 250\ntopology = {topology}\n")
}

/// Returns all texts.
pub fn texts() -> Vec<Text> {
    use TextKind::{Machine, Profile, Recording, Suite, Workload};
    let mut texts = Vec::new();
    let mut add = |kind, name, text: String, expected| {
        texts.push(Text {
            name,
            kind,
            text,
            expected,
        })
    };

    add(Machine, "a million CPUs", "core:1000000".to_owned(), "refused");
    add(
        Machine,
        "levels whose product overflows",
        "pack:65536 die:65536 core:65536 pu:65536".to_owned(),
        "refused",
    );
    add(Machine, "no CPU", "core:0".to_owned(), "refused");
    add(
        Machine,
        "a number that is too large",
        "core:99999999999999999999999".to_owned(),
        "refused",
    );
    add(Machine, "a negative number of CPUs", "core:-4".to_owned(), "refused");
    add(Machine, "100,000 levels", "group:1 ".repeat(DEEP), "refused");
    add(
        Machine,
        "40 levels whose product overflows",
        format!("{} pu:1", "group:2 ".repeat(40)),
        "refused",
    );
    add(
        Machine,
        "indexes that repeat",
        "core:4 pu:1(indexes=0,0,0,0)".to_owned(),
        "refused",
    );
    add(
        Machine,
        "very many indexes",
        format!("core:4 pu:1(indexes={})", "0,".repeat(DEEP)),
        "refused",
    );
    add(
        Machine,
        "indexes that are huge",
        "core:4 pu:1(indexes=4294967295,4294967294,1,2)".to_owned(),
        "",
    );
    add(
        Machine,
        "memory that overflows",
        "node:2(memory=99999999999999TiB) core:2".to_owned(),
        "",
    );
    add(Machine, "an empty text", String::new(), "refused");
    add(Machine, "control characters", "core:\x1b[31m4".to_owned(), "refused");
    add(
        Machine,
        "deep XML",
        nested("<object type='Group'>", "", "</object>"),
        "refused",
    );
    add(
        Machine,
        "entities that expand",
        format!(
            "<!DOCTYPE a [<!ENTITY b0 'x'>{}]>\n<topology>&b9;</topology>",
            (1..10)
                .map(|n| format!(
                    "<!ENTITY b{n} '&b{0};&b{0};&b{0};&b{0};&b{0};&b{0};&b{0};&b{0};&b{0};&b{0};'>",
                    n - 1
                ))
                .collect::<String>()
        ),
        "refused",
    );
    add(
        Machine,
        "an external entity",
        "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>\n<topology><object type='Machine'>&b;</object></topology>".to_owned(),
        "refused",
    );
    add(
        Machine,
        "a cpuset that is huge",
        "<?xml version='1.0'?>\n<topology version='2.0'><object type='Machine' os_index='0' cpuset='0xffffffff'>\
         <object type='PU' os_index='4294967295' cpuset='0x1'/></object></topology>"
            .to_owned(),
        "refused",
    );
    add(Machine, "XML that includes itself", machine("'./self.toml'"), "refused");
    add(Machine, "deep TOML", format!("a = {}", nested("[", "", "]")), "refused");
    add(
        Machine,
        "a path out of the directory",
        machine("'../../../../etc/passwd'"),
        "refused",
    );
    add(
        Machine,
        "no ticks",
        machine("'core:2 pu:1'").replace("250", "0"),
        "refused",
    );
    add(
        Machine,
        "too many ticks",
        machine("'core:2 pu:1'").replace("250", "4294967295"),
        "refused",
    );
    add(
        Machine,
        "negative costs",
        format!("{}[costs]\ncontext_switch = -1\n", machine("'core:2 pu:1'")),
        "refused",
    );
    add(
        Machine,
        "huge costs",
        format!(
            "{}[costs]\ncontext_switch = 18446744073709551615\n",
            machine("'core:2 pu:1'")
        ),
        "refused",
    );

    add(
        Workload,
        "a billion tasks",
        tasks("\"t\": {\"instance\": 1000000000, \"run\": 1}"),
        "refused",
    );
    add(
        Workload,
        "many kinds of many tasks",
        tasks(&many(1000, |n| {
            format!("\"t{n}\": {{\"instance\": 65535, \"run\": 1}}")
        })),
        "refused",
    );
    add(
        Workload,
        "negative instances",
        tasks("\"t\": {\"instance\": -5, \"run\": 1}"),
        "refused",
    );
    add(Workload, "negative time", tasks("\"t\": {\"run\": -5}"), "refused");
    add(
        Workload,
        "huge times",
        tasks("\"t\": {\"run\": 9223372036854775807, \"sleep\": 9223372036854775807}"),
        "",
    );
    add(
        Workload,
        "a huge delay",
        tasks("\"t\": {\"delay\": 9223372036854775807, \"run\": 1}"),
        "",
    );
    add(
        Workload,
        "a huge timer",
        tasks("\"t\": {\"run\": 1, \"timer\": {\"ref\": \"a\", \"period\": 9223372036854775807}}"),
        "",
    );
    add(
        Workload,
        "a timer with period 0",
        tasks("\"t\": {\"timer\": {\"ref\": \"a\", \"period\": 0}}"),
        "",
    );
    add(Workload, "an empty loop", tasks("\"t\": {\"loop\": -1}"), "");
    add(
        Workload,
        "a loop of loops",
        tasks(&format!(
            "\"t\": {{\"phases\": {{\"a\": {{\"loop\": 2147483647, {}}}}}}}",
            many(200, |n| format!("\"run{n}\": 0"))
        )),
        "",
    );
    add(Workload, "deep objects", nested("{\"tasks\":", "1", "}"), "refused");
    add(
        Workload,
        "deep lists",
        format!("{{\"tasks\": {}}}", nested("[", "", "]")),
        "refused",
    );
    add(
        Workload,
        "a comment without end",
        "{ /* ".to_owned() + &"*".repeat(DEEP),
        "refused",
    );
    add(
        Workload,
        "escapes in names",
        tasks("\"\\u0000\\u001b[31m\\n\\ud800\": {\"run\": 1}"),
        "",
    );
    add(
        Workload,
        "control characters in names",
        tasks("\"a\\u001b[2J\\r\\n\": {\"loop\": 3, \"run\": 10}"),
        "",
    );
    add(
        Workload,
        "a long name",
        tasks(&format!("\"{}\": {{\"run\": 1}}", "x".repeat(DEEP))),
        "",
    );
    add(
        Workload,
        "forks that fork",
        tasks("\"a\": {\"loop\": -1, \"fork\": \"a\", \"run\": 1}"),
        "",
    );
    add(
        Workload,
        "forks that fork twice",
        tasks(
            "\"a\": {\"loop\": -1, \"fork\": \"b\", \"run\": 1}, \"b\": {\"instance\": 0, \"loop\": -1, \"fork\": \"a\"}",
        ),
        "",
    );
    add(
        Workload,
        "cgroups in a circle",
        tasks("\"a\": {\"taskgroup\": \"/a/../a/../..\", \"run\": 1}"),
        "",
    );
    add(
        Workload,
        "deep cgroups",
        tasks(&format!(
            "\"a\": {{\"taskgroup\": \"{}\", \"run\": 1}}",
            "/a".repeat(5000)
        )),
        "",
    );
    add(
        Workload,
        "CPUs that do not exist",
        tasks("\"a\": {\"cpus\": [4294967295], \"run\": 1}"),
        "refused",
    );
    add(
        Workload,
        "a phase on a CPU that does not exist",
        tasks("\"a\": {\"phases\": {\"x\": {\"cpus\": [1], \"run\": 1}, \"y\": {\"cpus\": [64], \"run\": 1}}}"),
        "uses CPU 64",
    );
    add(
        Workload,
        "no CPU",
        tasks("\"a\": {\"cpus\": [], \"run\": 1}"),
        "refused",
    );
    add(
        Workload,
        "a range of CPUs",
        tasks("\"a\": {\"cpus\": \"0-4294967295\", \"run\": 1}"),
        "refused",
    );
    add(
        Workload,
        "deadlock",
        tasks("\"a\": {\"lock\": \"m\", \"wait\": {\"ref\": \"c\", \"mutex\": \"m\"}}"),
        "",
    );
    add(
        Workload,
        "unlock without lock",
        tasks("\"a\": {\"unlock\": \"m\", \"run\": 1}"),
        "",
    );
    add(
        Workload,
        "a barrier of one",
        tasks("\"a\": {\"loop\": 1000, \"barrier\": \"b\"}"),
        "",
    );
    add(
        Workload,
        "a priority that is out of range",
        tasks("\"a\": {\"priority\": 2147483647, \"run\": 1}"),
        "refused",
    );
    add(
        Workload,
        "too many messages",
        "hackbench:groups=1000000,fds=1000000,loops=1000000".to_owned(),
        "refused",
    );
    add(
        Workload,
        "a closed system with too many tasks",
        "closed:n=4294967295".to_owned(),
        "refused",
    );
    add(
        Workload,
        "a placement of 10^9 tasks",
        format!("closed:placement={}", vec!["100000"; 10_000].join("/")),
        "refused",
    );
    add(
        Workload,
        "a mean of 0",
        "open:interarrival=0,work=0,number=1000000000".to_owned(),
        "refused",
    );
    add(
        Workload,
        "a distribution with a huge variance",
        "closed:n=3,compute=10ms,compute_dist=H2,cv2=4294967295".to_owned(),
        "",
    );
    add(
        Workload,
        "too many bytes",
        "chat:rooms=100000,users=100000,messages=100000,bytes=99999999999".to_owned(),
        "refused",
    );
    add(
        Workload,
        "control characters in the name of a generator",
        "closed\x1b[31m:n=3".to_owned(),
        "refused",
    );
    add(
        Workload,
        "numbers that are not finite",
        tasks("\"a\": {\"run\": 1e400}"),
        "refused",
    );
    add(
        Workload,
        "a repeated key",
        tasks("\"a\": {\"run\": 1}, \"a\": {\"run\": 1}"),
        "",
    );

    add(
        Profile,
        "deeply nested parentheses",
        format!("set = {{ 'words[0]' = '{}' }}", nested("(", "1", ")")),
        "refused",
    );
    add(
        Profile,
        "very many minus signs",
        format!("set = {{ 'words[0]' = '{}1' }}", "-".repeat(DEEP)),
        "refused",
    );
    add(
        Profile,
        "very many complement operators",
        format!("set = {{ 'words[0]' = '{}1' }}", "~".repeat(DEEP)),
        "refused",
    );
    add(
        Profile,
        "deeply nested conditional expressions",
        format!("set = {{ 'words[0]' = '{}1' }}", "1 ? 2 : ".repeat(DEEP)),
        "refused",
    );
    add(
        Profile,
        "a long sum",
        format!("set = {{ 'words[0]' = '1{}' }}", " + 1".repeat(DEEP)),
        "refused",
    );
    add(
        Profile,
        "division by 0",
        "set = { 'words[0]' = '1 / 0' }".to_owned(),
        "refused",
    );
    add(
        Profile,
        "remainder of a division by 0",
        "set = { 'words[0]' = '1 % 0' }".to_owned(),
        "refused",
    );
    add(
        Profile,
        "the smallest number divided by -1",
        "set = { 'words[0]' = '(0 - 9223372036854775807 - 1) / (0 - 1)' }".to_owned(),
        "applied",
    );
    add(
        Profile,
        "a product that overflows",
        "set = { 'words[0]' = '9223372036854775807 * 9223372036854775807' }".to_owned(),
        "applied",
    );
    add(
        Profile,
        "shifts by too many bits",
        "set = { 'words[1]' = '1 << 1000', 'words[0]' = '1 >> (0 - 1)' }".to_owned(),
        "applied",
    );
    add(
        Profile,
        "a huge number",
        "set = { 'words[0]' = '99999999999999999999999999' }".to_owned(),
        "refused",
    );
    add(
        Profile,
        "names in a circle",
        "names = { a = 'b', b = 'a' }\nset = { 'words[0]' = 'a' }".to_owned(),
        "refused",
    );
    add(
        Profile,
        "a profile that includes itself",
        "include = ['damaged']".to_owned(),
        "refused",
    );
    add(
        Profile,
        "a profile that includes a path",
        "include = ['../../../../etc/passwd']".to_owned(),
        "refused",
    );
    add(
        Profile,
        "an array of the largest size",
        "resize = { words = '9223372036854775807' }".to_owned(),
        "refused",
    );
    add(
        Profile,
        "an array of four billion elements",
        "resize = { words = '4294967295' }".to_owned(),
        "",
    );
    add(
        Profile,
        "a map of the largest size",
        "max_entries = { hash = '18446744073709551615' }".to_owned(),
        "refused",
    );
    add(
        Profile,
        "indices beyond the array",
        "set = { 'words[4000000000]' = 1, 'words[0 - 1]' = 1 }".to_owned(),
        "refused",
    );
    add(
        Profile,
        "a range of the largest size",
        "set = { 'words[0..9223372036854775807]' = 1 }".to_owned(),
        "refused",
    );
    add(
        Profile,
        "an argument many times",
        "[[run]]\nprogram = 'p'\nargs = [{ value = 1, times = 4294967295 }]".to_owned(),
        "",
    );
    add(
        Profile,
        "very many nested programs",
        format!(
            "[[run]]\nprogram = 'p'\n{}",
            "[[run.then]]\nprogram = 'p'\n".repeat(1000)
        ),
        "",
    );
    add(
        Profile,
        "deep TOML",
        format!("set = {}", nested("{a=", "1", "}")),
        "refused",
    );
    add(
        Profile,
        "an uptime that is too long",
        "uptime = '99999999999999999s'".to_owned(),
        "refused",
    );
    add(
        Profile,
        "control characters",
        "set = { \"a\\u001b[31m\" = 1 }".to_owned(),
        "refused",
    );
    add(
        Profile,
        "a path with brackets",
        format!("set = {{ 'words{}' = 1 }}", "[0]".repeat(DEEP)),
        "refused",
    );
    add(
        Profile,
        "a path of brackets",
        format!("set = {{ 'words{}' = 1 }}", "[".repeat(DEEP)),
        "refused",
    );
    add(
        Profile,
        "a path of members",
        format!("set = {{ 'words{}' = 1 }}", ".a".repeat(DEEP)),
        "refused",
    );

    add(Suite, "an empty text", String::new(), "refused");
    add(
        Suite,
        "a path as object",
        suite("../../../../etc/passwd", "'load'"),
        "run",
    );
    add(
        Suite,
        "a time that is too long",
        suite("fifo", "'load', 'run 99999999999999999999s'"),
        "refused",
    );
    add(
        Suite,
        "a CPU that does not exist",
        suite("fifo", "'load', 'offline 4294967295', 'online 77'"),
        "run",
    );
    add(
        Suite,
        "all CPUs offline",
        suite(
            "fifo",
            "'load', 'offline 0', 'offline 1', 'offline 2', 'offline 3', 'run 1ms'",
        ),
        "run",
    );
    add(
        Suite,
        "a policy that is loaded twice",
        suite("fifo", "'load', 'load', 'unload', 'unload', 'open', 'load', 'run 1ms'"),
        "run",
    );
    add(
        Suite,
        "a hammer with an interval of 0",
        suite("fifo", "'load', 'hammer t 0ms 1ms 4'"),
        "",
    );
    add(
        Suite,
        "a hammer without CPUs",
        suite("fifo", "'load', 'hammer t 1ms 1ms 0'"),
        "",
    );
    add(
        Suite,
        "a hammer with too many CPUs",
        suite("fifo", "'load', 'hammer t 1ms 3ms 4294967295'"),
        "",
    );
    add(
        Suite,
        "a program with wild arguments",
        suite("fifo", "'load', 'program x -1 99999999999999999999 pid:nobody'"),
        "",
    );
    add(
        Suite,
        "a global that does not exist",
        suite("fifo", "'set nothing 1', 'expect nothing == 1'"),
        "run",
    );
    add(
        Suite,
        "values that overflow",
        suite(
            "fifo",
            "'load', 'expect 9223372036854775807 * 9223372036854775807 * 9223372036854775807 > 1'",
        ),
        "",
    );
    add(
        Suite,
        "wild ops",
        suite(
            "fifo",
            "'ops flags 18446744073709551615', 'ops timeout_ms -1', 'ops name 5', 'load'",
        ),
        "run",
    );
    add(
        Suite,
        "deep TOML",
        format!("case = {}", nested("[", "", "]")),
        "refused",
    );

    add(Recording, "an empty text", String::new(), "");
    add(
        Recording,
        "a CPU that does not exist",
        line("[4294967295]", "1.0", "1", "2"),
        "",
    );
    add(Recording, "a million CPUs", line("[1000000]", "1.0", "1", "2"), "");
    add(
        Recording,
        "time that runs backward",
        line("[000]", "9.0", "1", "2") + &line("[000]", "1.0", "2", "1"),
        "",
    );
    add(
        Recording,
        "the end of time",
        line("[000]", "18446744073709551615.999999999", "1", "2"),
        "",
    );
    add(
        Recording,
        "negative pids",
        line("[000]", "1.0", "-1", "-2147483648"),
        "",
    );
    add(
        Recording,
        "huge pids",
        line("[000]", "1.0", "4294967295", "4294967296"),
        "",
    );
    add(Recording, "a long line", "x".repeat(10 * DEEP), "");
    add(
        Recording,
        "control characters",
        line("[000]", "1.0", "1", "2").replace("comm=a", "comm=\x1b[31m\x07"),
        "",
    );
    texts
}

/// Joins `count` texts with commas.
fn many(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect::<Vec<_>>().join(",")
}

/// Returns a suite that consists of one case.
fn suite(object: &str, steps: &str) -> String {
    format!(
        "[workloads]\nbusy = '{{\"tasks\": {{\"t\": {{\"instance\": 4, \"run\": 100, \"sleep\": 100}}}}}}'\n\
         [[case]]\nobject = '{object}'\nworkload = 'busy'\nsteps = [{steps}]\n"
    )
}

/// Returns a line of a recording: a context switch in the format of `perf script`.
fn line(cpu: &str, time: &str, prev: &str, next: &str) -> String {
    format!(
        "swapper 0 {cpu} {time}: sched:sched_switch: prev_comm=a prev_pid={prev} prev_prio=120 prev_state=S ==> next_comm=b next_pid={next} next_prio=120\n"
    )
}
