// SPDX-License-Identifier: GPL-2.0-only
//! The section "global".

use super::file::{File, INT_MAX};
use super::json::{Member, Value};
use super::sched::{self, Name};
use input::Error;

/// Default size of rt-app's buffer for mem and iorun.
const MEM_BUFFER_SIZE: u64 = 4 << 20;

/// The settings that matter in a simulation.
pub struct Global {
    pub duration_ns: Option<u64>,
    pub policy: Name,
    pub pi_enabled: bool,
    pub mem_buffer_size: u64,
}

impl Default for Global {
    fn default() -> Global {
        Global {
            duration_ns: None,
            policy: Name::Other,
            pi_enabled: false,
            mem_buffer_size: MEM_BUFFER_SIZE,
        }
    }
}

const KEYS: &[&str] = &[
    "duration",
    "default_policy",
    "pi_enabled",
    "mem_buffer_size",
    "calibration",
];

/// Keys that have no effect in a simulation. Each row has the name, the types that rt-app accepts
/// ('b'oolean, 's'tring, 'i'nteger), and the reason.
#[rustfmt::skip]
const WITHOUT_EFFECT: &[(&str, &str, &str)] = &[
    ("logdir",           "s",  "no log is written"),
    ("log_basename",     "s",  "no log is written"),
    ("log_size",         "is", "no log is written"),
    ("ftrace",           "bs", "the run's trace contains all events"),
    ("gnuplot",          "b",  "no plot is drawn"),
    ("cumulative_slack", "b",  "changes only a column of the log"),
    ("lock_pages",       "b",  "no page is ever swapped out"),
    ("io_device",        "s",  "there is one block device, and iorun waits for it"),
    ("frag",             "i",  "only for AQuoSA kernels; rt-app ignores it"),
];

pub fn read(file: File, section: &Member) -> Result<Global, Error> {
    let mut known = KEYS.to_vec();
    known.extend(WITHOUT_EFFECT.iter().map(|(key, ..)| key));
    let fields = file.fields(section, &known)?;
    let mut global = Global::default();
    for &member in &fields.members {
        match member.key.as_str() {
            // As in rt-app, a positive number ends the run after that many seconds. Otherwise the
            // run ends with its tasks.
            "duration" => {
                let seconds: i64 = file.int(member, " s, or -1 until all tasks have exited", -INT_MAX..=INT_MAX)?;
                global.duration_ns = (seconds > 0).then(|| seconds.unsigned_abs() * 1_000_000_000);
            }
            "default_policy" => global.policy = sched::name(file, member)?,
            "pi_enabled" => global.pi_enabled = file.bool(member)?,
            "mem_buffer_size" => {
                global.mem_buffer_size = file.int(member, " bytes", 1..=INT_MAX)?;
            }
            "calibration" => calibration(file, member)?,
            key => {
                let (_, kinds, _) = WITHOUT_EFFECT
                    .iter()
                    .find(|(k, ..)| *k == key)
                    .expect("the key is known");
                without_effect(file, member, kinds)?;
            }
        }
    }
    Ok(global)
}

/// Checks the value of "calibration": the CPU on which rt-app calibrates `run`, or the ns that a
/// loop takes. The value has no effect, because a microsecond of `run` takes one microsecond on the
/// fastest simulated CPU (capacity 1024).
fn calibration(file: File, member: &Member) -> Result<(), Error> {
    match &member.node.value {
        Value::Int(0..=INT_MAX) => Ok(()),
        Value::String(cpu) if cpu.strip_prefix("CPU").is_some_and(|n| n.parse::<u32>().is_ok()) => Ok(()),
        _ => Err(file
            .error(member.node.at, "\"calibration\" takes \"CPU<number>\" or ns per loop")
            .hint("for example \"CPU0\" or 100")),
    }
}

/// Checks the type of a value that has no effect.
fn without_effect(file: File, member: &Member, kinds: &str) -> Result<(), Error> {
    let kind = match member.node.value {
        Value::Bool(_) => 'b',
        Value::String(_) => 's',
        Value::Int(_) => 'i',
        _ => '-',
    };
    if kinds.contains(kind) {
        return Ok(());
    }
    let names = kinds.chars().map(|kind| match kind {
        'b' => "true or false",
        's' => "a string",
        _ => "an integer",
    });
    let expected = names.collect::<Vec<_>>().join(" or ");
    let found = member.node.value.kind();
    Err(file.error(
        member.node.at,
        format!("\"{}\" takes {expected}, found {found}", member.key),
    ))
}
