// SPDX-License-Identifier: GPL-2.0-only
//! Damages texts: puts words of the format in wrong places, inserts huge numbers, deep nesting and
//! control characters, and removes, repeats or moves bytes and lines.

use random::Random;

/// Words of the format of profiles.
pub const PROFILE: &[&str] = &[
    "set",
    "[[run]]",
    "[[run.then]]",
    "value",
    "when",
    "'b[cpu]'",
    "words[word]",
    "nr_cpus",
    "cpu",
    "llc",
    "near",
    "word",
    "((",
    "))",
    "* 18446744073709551615",
    "/ 0",
    "% 0",
    "<< 64",
    ">> -1",
    "- 9223372036854775808",
    "~",
    "!",
    "-",
    "? 1 : 0",
    "&&",
    "memory",
    "include",
    "= [",
    "}",
    "{",
];
/// Words of the format of debug dumps.
pub const DUMP: &[&str] = &[
    "CPU 7   : nr_run=1",
    "CPU 99999999999: nr_run=",
    "curr=",
    " class=rt_sched_class",
    "  R ",
    " *R ",
    "[4294967295]",
    "[-1]",
    "]",
    " -5ms\n",
    " +9223372036854775807ms\n",
    "cpus=",
    "cpus=0",
    "ffffffff,",
    "weight=",
    "weight=10001",
    "dsq_id=0x",
    "dsq_id=(n/a)",
    "ops_state/qseq=2/",
    "no_mig=1",
    "triggered exit kind ",
    "runnable task stall (",
    " failed to run for ",
    "~~~~ TRUNCATED ~~~~",
    "      ",
    "=",
    "/",
];
/// Words of the format of workloads.
pub const WORKLOAD: &[&str] = &[
    "\"loop\"",
    "\"run\"",
    "\"phases\"",
    "\"instance\"",
    "\"fork\"",
    "\"cgroup\"",
    "\"taskgroup\"",
    "\"cpus\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "/*",
    "//",
    "\\u0000",
    "-1",
    "1e9",
    "null",
    "\"lock\"",
    "\"barrier\"",
    "\"sem_wait\"",
    "\"timer\"",
    "\"send\"",
    "\"priority\"",
];
/// Words of machine files, hwloc's XML and hwloc's synthetic strings.
pub const MACHINE: &[&str] = &[
    "core:",
    "pu:",
    "pack:",
    "numa",
    "l3:",
    "indexes=",
    "size=",
    "(",
    ")",
    "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\"/>",
    "</object>",
    "<!DOCTYPE a [<!ENTITY b \"b\">]>",
    "&b;",
    "topology",
    "inline",
    "costs",
    "hz",
    "[",
    "]",
    "{",
    "}",
    "cpuset=\"0xffffffff,0xffffffff\"",
];
/// Words of the format of recordings.
pub const RECORDING: &[&str] = &[
    "sched:sched_switch:",
    "sched_wakeup:",
    "prev_comm=",
    "prev_pid=",
    "next_pid=",
    "==>",
    "target_cpu=",
    "prio=",
    "[999]",
    "[-01]",
    "99999999.999999:",
    "\n",
    "\t",
    "\x1b[31m",
];
/// Words of the format of suites.
pub const SUITE: &[&str] = &[
    "[[case]]",
    "steps",
    "object",
    "load",
    "unload",
    "run 1ms",
    "offline 0",
    "online 3",
    "expect",
    "==",
    "nr_cpus",
    "set",
    "reopen",
    "hammer",
    "program",
    "pid:",
    "remember",
    "exit",
    "'",
    "\"",
    "[",
    "]",
];
/// Numbers that programs often handle wrongly.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999999999",
    "1e400",
    "0x7fffffffffffffff",
];

/// Damages a text in one to six places. Bytes of the result that are not valid UTF-8 are replaced.
pub fn text(random: &mut Random, text: &str, tokens: &[&str]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    // Most texts are damaged in only one or two places. They often pass the parser, and so reach
    // the code that uses the result.
    let most = 1 + random.below(6);
    for _ in 0..1 + random.below(most) {
        damage(random, &mut bytes, tokens);
    }
    String::from_utf8_lossy(&bytes).into_owned().into_bytes()
}

fn damage(random: &mut Random, bytes: &mut Vec<u8>, tokens: &[&str]) {
    let at = random.below(bytes.len() + 1);
    let end = (at + 1 + random.below(60)).min(bytes.len()).max(at);
    match random.below(12) {
        0 => bytes.truncate(at),
        1 if at < bytes.len() => bytes[at] = random.next() as u8,
        2 => drop(bytes.drain(at..end)),
        3 | 4 => {
            let token = random.pick(tokens);
            bytes.splice(at..at, token.bytes());
        }
        5..8 => number(random, bytes, at),
        8 => {
            let part = bytes[at..end].to_vec();
            let to = random.below(bytes.len() + 1);
            bytes.splice(to..to, part);
        }
        9 => lines(random, bytes),
        10 => {
            let open = random.pick(&["[", "{", "(", "-", "{\"a\":", "<a>", "!", "~", "a."]);
            let times = 1 + random.below(3000);
            bytes.splice(at..at, open.repeat(times).into_bytes());
        }
        _ => {
            let odd = random.pick(&["\0", "\x1b[2J", "\u{202e}", "\u{9b}", "\r", "\n", "\x7f", "\u{feff}"]);
            bytes.splice(at..at, odd.bytes());
        }
    }
}

/// Replaces the first number that begins at or after the offset `at`.
fn number(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|start| at + start) else {
        return;
    };
    let len = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = match random.below(3) {
        0 => random.below(100).to_string(),
        _ => random.pick(&NUMBERS).to_owned(),
    };
    bytes.splice(start..start + len, number.into_bytes());
}

/// Repeats, removes or moves a line.
fn lines(random: &mut Random, bytes: &mut Vec<u8>) {
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    let (from, to) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(3) {
        0 => lines.insert(to, lines[from]),
        1 => drop(lines.remove(from)),
        _ => lines.swap(from, to),
    }
    *bytes = lines.join(&b'\n');
}
