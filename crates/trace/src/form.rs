// SPDX-License-Identifier: GPL-2.0-only
//! The canonical form of an event. It consists of a tag (the number of the event's kind), a flag,
//! up to four numbers (words) and a text.
//!
//! The trace hash and the encoding in trace files are both computed from this form, so both depend
//! on the same contents of an event. A tag never changes its meaning. If an event gets a new
//! meaning, it also gets a new tag.

use crate::event::{Event, MigrateReason, TaskState};

/// The canonical form of an event. Words that the tag does not use ([`LAYOUT`]) are 0. Words 0 and
/// 1 fit into 64 bits together: either both have at most 32 bits, or word 1 is unused. The same
/// holds for words 2 and 3.
pub(crate) struct Form<'a> {
    pub tag: u8,
    pub flag: u8,
    pub words: [u64; 4],
    pub text: Option<&'a str>,
}

/// For each tag, the indices of the words that it uses, and whether it has a text.
pub(crate) const LAYOUT: [(&[usize], bool); 20] = [
    (&[0, 1, 2, 3], true),  // TaskNew
    (&[0], true),           // TaskRename
    (&[0], false),          // TaskExit
    (&[0, 1], false),       // Switch
    (&[0, 1], false),       // Waking
    (&[0, 1], false),       // Wakeup
    (&[0, 1, 2], false),    // Migrate
    (&[0, 1], false),       // Prio
    (&[], false),           // Hotplug
    (&[0], false),          // Overhead
    (&[0, 1, 2, 3], false), // Callback
    (&[0], false),          // Ipi
    (&[0, 1, 2], false),    // LockWait
    (&[0], false),          // Balance
    (&[0, 1, 2], false),    // Done
    (&[0, 1], false),       // Phase
    (&[], true),            // Printk
    (&[], false),           // Policy
    (&[0], true),           // LockName
    (&[0, 2], false),       // DsqLength
];

impl<'a> Form<'a> {
    #[inline]
    fn new(tag: u8, flag: u8, words: [u64; 4]) -> Form<'a> {
        Form {
            tag,
            flag,
            words,
            text: None,
        }
    }

    #[inline(always)]
    pub fn from_event(event: &'a Event) -> Form<'a> {
        let w = |x: u32| u64::from(x);
        let prio_word = |x: i32| u64::from(x.cast_unsigned());
        match *event {
            Event::Switch { prev, prev_state, next } => Form::new(3, state_flag(prev_state), [w(prev), w(next), 0, 0]),
            Event::TaskNew {
                pid,
                tgid,
                parent,
                prio,
                ref comm,
            } => Form {
                text: Some(comm),
                ..Form::new(0, 0, [w(pid), w(tgid), w(parent), prio_word(prio)])
            },
            Event::TaskRename { pid, ref comm } => Form {
                text: Some(comm),
                ..Form::new(1, 0, [w(pid), 0, 0, 0])
            },
            Event::TaskExit { pid } => Form::new(2, 0, [w(pid), 0, 0, 0]),
            Event::Waking { pid, waker } => Form::new(4, 0, [w(pid), w(waker), 0, 0]),
            Event::Wakeup { pid, target, new } => Form::new(5, new as u8, [w(pid), w(target), 0, 0]),
            Event::Migrate { pid, from, to, reason } => Form::new(6, reason_flag(reason), [w(pid), w(from), w(to), 0]),
            Event::Prio { pid, prio } => Form::new(7, 0, [w(pid), prio_word(prio), 0, 0]),
            Event::Hotplug { online } => Form::new(8, online as u8, [0; 4]),
            Event::Overhead { ns } => Form::new(9, 0, [ns, 0, 0, 0]),
            Event::Callback { op, insns, after, ns } => Form::new(10, 0, [u64::from(op), w(insns), w(after), w(ns)]),
            Event::Ipi { target } => Form::new(11, 0, [w(target), 0, 0, 0]),
            Event::LockWait { lock, after, ns } => Form::new(12, 0, [w(lock), w(after), ns, 0]),
            Event::Balance { moved } => Form::new(13, 0, [w(moved), 0, 0, 0]),
            Event::Done {
                pid,
                count,
                response_ns,
            } => Form::new(14, 0, [w(pid), w(count), response_ns, 0]),
            Event::Phase { pid, phase } => Form::new(15, 0, [w(pid), w(phase), 0, 0]),
            Event::Printk { ref text } => Form {
                text: Some(text),
                ..Form::new(16, 0, [0; 4])
            },
            Event::Policy { loaded } => Form::new(17, loaded as u8, [0; 4]),
            Event::LockName { lock, ref name } => Form {
                text: Some(name),
                ..Form::new(18, 0, [w(lock), 0, 0, 0])
            },
            Event::DsqLength { dsq, nr } => Form::new(19, 0, [dsq, 0, w(nr), 0]),
        }
    }

    /// Returns three numbers: tag and flag together, words 0 and 1 together, and words 2 and 3
    /// together. This is faster than [`Form::from_event`], but exists only for the most frequent
    /// kinds of events. Returns `None` for all other kinds.
    #[inline(always)]
    pub fn packed(event: &Event) -> Option<(u64, u64, u64)> {
        let pair = |a: u32, b: u32| u64::from(a) | u64::from(b) << 32;
        let kind = |tag: u64, flag: u8| tag | u64::from(flag) << 8;
        Some(match *event {
            Event::Switch { prev, prev_state, next } => (kind(3, state_flag(prev_state)), pair(prev, next), 0),
            Event::Waking { pid, waker } => (4, pair(pid, waker), 0),
            Event::Wakeup { pid, target, new } => (kind(5, new as u8), pair(pid, target), 0),
            Event::Migrate { pid, from, to, reason } => (kind(6, reason_flag(reason)), pair(pid, from), u64::from(to)),
            Event::Done {
                pid,
                count,
                response_ns,
            } => (14, pair(pid, count), response_ns),
            _ => return None,
        })
    }

    /// Converts the form to the event. The error says what is wrong with the form.
    pub fn event(&self) -> Result<Event, &'static str> {
        let u = |i: usize| u32::try_from(self.words[i]).map_err(|_| "a number has more than 32 bits");
        let flag = || match self.flag {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("a flag is neither 0 nor 1"),
        };
        let text = || self.text.map(str::to_owned).ok_or("a text is missing");
        if self.flag != 0 && !matches!(self.tag, 3 | 5 | 6 | 8 | 17) {
            return Err("the flag is set, but this event has no flag");
        }
        Ok(match self.tag {
            0 => Event::TaskNew {
                pid: u(0)?,
                tgid: u(1)?,
                parent: u(2)?,
                prio: u(3)?.cast_signed(),
                comm: text()?,
            },
            1 => Event::TaskRename {
                pid: u(0)?,
                comm: text()?,
            },
            2 => Event::TaskExit { pid: u(0)? },
            3 => Event::Switch {
                prev: u(0)?,
                prev_state: flag_state(self.flag)?,
                next: u(1)?,
            },
            4 => Event::Waking {
                pid: u(0)?,
                waker: u(1)?,
            },
            5 => Event::Wakeup {
                pid: u(0)?,
                target: u(1)?,
                new: flag()?,
            },
            6 => Event::Migrate {
                pid: u(0)?,
                from: u(1)?,
                to: u(2)?,
                reason: flag_reason(self.flag)?,
            },
            7 => Event::Prio {
                pid: u(0)?,
                prio: u(1)?.cast_signed(),
            },
            8 => Event::Hotplug { online: flag()? },
            9 => Event::Overhead { ns: self.words[0] },
            10 => Event::Callback {
                op: u16::try_from(self.words[0]).map_err(|_| "a callback number has more than 16 bits")?,
                insns: u(1)?,
                after: u(2)?,
                ns: u(3)?,
            },
            11 => Event::Ipi { target: u(0)? },
            12 => Event::LockWait {
                lock: u(0)?,
                after: u(1)?,
                ns: self.words[2],
            },
            13 => Event::Balance { moved: u(0)? },
            14 => Event::Done {
                pid: u(0)?,
                count: u(1)?,
                response_ns: self.words[2],
            },
            15 => Event::Phase {
                pid: u(0)?,
                phase: u(1)?,
            },
            16 => Event::Printk { text: text()? },
            17 => Event::Policy { loaded: flag()? },
            18 => Event::LockName {
                lock: u(0)?,
                name: text()?,
            },
            19 => Event::DsqLength {
                dsq: self.words[0],
                nr: u(2)?,
            },
            _ => return Err("an unknown kind of event"),
        })
    }
}

#[inline]
fn state_flag(state: TaskState) -> u8 {
    match state {
        TaskState::Running => 0,
        TaskState::Interruptible => 1,
        TaskState::Uninterruptible => 2,
        TaskState::Dead => 3,
    }
}

fn flag_state(flag: u8) -> Result<TaskState, &'static str> {
    Ok(match flag {
        0 => TaskState::Running,
        1 => TaskState::Interruptible,
        2 => TaskState::Uninterruptible,
        3 => TaskState::Dead,
        _ => return Err("an unknown task state"),
    })
}

fn reason_flag(reason: MigrateReason) -> u8 {
    match reason {
        MigrateReason::Wakeup => 0,
        MigrateReason::Fork => 1,
        MigrateReason::Exec => 2,
        MigrateReason::Balance => 3,
        MigrateReason::Affinity => 4,
    }
}

fn flag_reason(flag: u8) -> Result<MigrateReason, &'static str> {
    Ok(match flag {
        0 => MigrateReason::Wakeup,
        1 => MigrateReason::Fork,
        2 => MigrateReason::Exec,
        3 => MigrateReason::Balance,
        4 => MigrateReason::Affinity,
        _ => return Err("an unknown reason for a migration"),
    })
}

/// Returns at least one event of every kind, with extreme values, for tests of the hash and of the
/// encodings.
#[cfg(test)]
pub(crate) fn sample_events() -> Vec<Event> {
    use crate::event::{MigrateReason as M, TaskState as S};
    let mut events = vec![
        Event::TaskNew {
            pid: 1,
            tgid: 2,
            parent: 3,
            prio: 120,
            comm: "init".into(),
        },
        Event::TaskNew {
            pid: u32::MAX,
            tgid: 0,
            parent: u32::MAX,
            prio: -1,
            comm: String::new(),
        },
        Event::TaskRename {
            pid: 7,
            comm: "größer-als-8-bytes".into(),
        },
        Event::TaskExit { pid: 9 },
        Event::Waking { pid: 5, waker: 4 },
        Event::Wakeup {
            pid: 5,
            target: 1023,
            new: false,
        },
        Event::Wakeup {
            pid: 5,
            target: 1023,
            new: true,
        },
        Event::Prio { pid: 5, prio: 139 },
        Event::Hotplug { online: false },
        Event::Hotplug { online: true },
        Event::Overhead { ns: u64::MAX },
        Event::Callback {
            op: u16::MAX,
            insns: u32::MAX,
            after: u32::MAX,
            ns: 7,
        },
        Event::Ipi { target: 3 },
        Event::LockWait {
            lock: 11,
            after: u32::MAX,
            ns: 1 << 40,
        },
        Event::Balance { moved: 8 },
        Event::Done {
            pid: 6,
            count: 2,
            response_ns: 0,
        },
        Event::Done {
            pid: 6,
            count: 2,
            response_ns: u64::MAX,
        },
        Event::Phase { pid: 6, phase: 1 },
        Event::Printk { text: "hello\n".into() },
        Event::Policy { loaded: true },
        Event::Policy { loaded: false },
    ];
    for prev_state in [S::Running, S::Interruptible, S::Uninterruptible, S::Dead] {
        events.push(Event::Switch {
            prev: 17,
            prev_state,
            next: 70_000,
        });
    }
    for reason in [M::Wakeup, M::Fork, M::Exec, M::Balance, M::Affinity] {
        events.push(Event::Migrate {
            pid: 4,
            from: 0,
            to: 255,
            reason,
        });
    }
    events.extend([
        Event::LockName {
            lock: 11,
            name: "rq 11".into(),
        },
        Event::DsqLength {
            dsq: crate::built_in_dsq(1 << 63 | 2, 1023),
            nr: u32::MAX,
        },
    ]);
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_converts_to_its_form_and_back() {
        let mut tags = std::collections::BTreeSet::new();
        for event in sample_events() {
            let form = Form::from_event(&event);
            assert_eq!(form.event().as_ref(), Ok(&event));
            tags.insert(form.tag);
        }
        assert_eq!(tags.len(), LAYOUT.len(), "sample_events has no event of some kind");
    }

    #[test]
    fn packed_words_equal_those_of_the_form() {
        let mut packed = 0;
        for event in sample_events() {
            if let Some(words) = Form::packed(&event) {
                let form = Form::from_event(&event);
                let kind = u64::from(form.tag) | u64::from(form.flag) << 8;
                let [a, b, c, d] = form.words;
                assert_eq!(words, (kind, a | b << 32, c | d << 32), "{event:?}");
                assert!(form.text.is_none() && !event.is_detail());
                packed += 1;
            }
        }
        assert!(packed >= 5);
    }

    #[test]
    fn words_outside_the_layout_are_zero() {
        for event in sample_events() {
            let form = Form::from_event(&event);
            let (used, text) = LAYOUT[form.tag as usize];
            assert_eq!(form.text.is_some(), text, "{event:?}");
            for i in 0..4 {
                assert!(used.contains(&i) || form.words[i] == 0, "{event:?}");
            }
            // The hash combines words 0 and 1 into one number of 64 bits, and words 2 and 3 into
            // another. The two words of each pair must therefore fit into 64 bits.
            for i in [0, 2] {
                assert!(form.words[i] <= u64::from(u32::MAX) || form.words[i + 1] == 0);
                assert!(form.words[i + 1] <= u64::from(u32::MAX));
            }
        }
    }

    #[test]
    fn impossible_forms_are_refused() {
        let bad = |tag, flag, words| {
            Form {
                tag,
                flag,
                words,
                text: None,
            }
            .event()
            .unwrap_err()
        };
        assert_eq!(bad(20, 0, [0; 4]), "an unknown kind of event");
        assert_eq!(bad(3, 4, [0; 4]), "an unknown task state");
        assert_eq!(bad(6, 5, [0; 4]), "an unknown reason for a migration");
        assert_eq!(bad(17, 2, [0; 4]), "a flag is neither 0 nor 1");
        assert_eq!(bad(2, 1, [0; 4]), "the flag is set, but this event has no flag");
        assert_eq!(bad(2, 0, [1 << 32, 0, 0, 0]), "a number has more than 32 bits");
        assert_eq!(
            bad(10, 0, [1 << 16, 0, 0, 0]),
            "a callback number has more than 16 bits"
        );
        assert_eq!(bad(16, 0, [0; 4]), "a text is missing");
    }
}
