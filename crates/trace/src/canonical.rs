// SPDX-License-Identifier: GPL-2.0-only
//! The canonical form of an event. It consists of a tag (the number of the event's kind), a flag,
//! up to four numbers (words) and a text.
//!
//! The trace hash and the encoding in trace files are both computed from this form, so both depend
//! on the same contents of an event. A tag never changes its meaning. If an event gets a new
//! meaning, it also gets a new tag.

use crate::event::{Event, MigrateReason, Slowdown, TaskState};

/// The canonical form of an event. Words that the tag does not use ([`LAYOUT`]) are 0. Words 0 and
/// 1 fit into 64 bits together: either both have at most 32 bits, or word 1 is unused. The same
/// holds for words 2 and 3.
pub(crate) struct Form<'a> {
    pub tag: u8,
    pub flag: u8,
    pub words: [u64; 4],
    pub text: Option<&'a str>,
}

/// Number of bits by which the flag is shifted in [`Form::packed`], above the tag.
const FLAG_SHIFT: u32 = 8;

/// Declares the form of every kind of event, one row per kind: how frequent it is (`hot` or `rare`),
/// its tag and name, the field in the flag, the words with their indices, and the field with the
/// text.
macro_rules! forms {
    ($($heat:ident $tag:literal $kind:ident {
        $(flag: $flag:ident,)? $(words: [$($field:ident $word:literal),+],)? $(text: $text:ident,)?
    })+) => {
        /// For each tag, the indices of the words that it uses, and whether it has a text.
        pub(crate) const LAYOUT: &[(&[usize], bool)] =
            &[$((&[$($($word),+)?], false $(|| !stringify!($text).is_empty())?)),+];

        impl<'a> Form<'a> {
            #[inline(always)]
            pub fn from_event(event: &'a Event) -> Form<'a> {
                match event {$(
                    Event::$kind { $($flag,)? $($($field,)+)? $($text,)? } => {
                        #[allow(unused_mut, reason = "some kinds have no words")]
                        let mut words = [0; 4];
                        $($(words[$word] = $field.to_word();)+)?
                        Form {
                            tag: $tag,
                            flag: 0 $(+ $flag.to_flag())?,
                            words,
                            text: None$(.or(Some($text.as_str())))?,
                        }
                    }
                )+}
            }

            /// Returns three numbers: tag and flag together, words 0 and 1 together, and words 2 and
            /// 3 together. This is faster than [`Form::from_event`], but exists only for the most
            /// frequent kinds of events. Returns `None` for all other kinds.
            #[inline(always)]
            pub fn packed(event: &Event) -> Option<(u64, u64, u64)> {
                match event {$(
                    forms!(@fields $heat $kind $($flag)? $($($field)+)?) => {
                        forms!(@packed $heat $tag { $($flag)? } { $($($field $word)+)? })
                    }
                )+}
            }

            /// Converts the form to the event. The error says what is wrong with the form.
            pub fn event(&self) -> Result<Event, &'static str> {
                Ok(match self.tag {
                    $($tag => {
                        const HAS_FLAG: bool = false $(|| !stringify!($flag).is_empty())?;
                        if self.flag != 0 && !HAS_FLAG {
                            return Err("the flag is set, but this event has no flag");
                        }
                        $(let $flag = Flag::from_flag(self.flag)?;)?
                        $($(let $field = Word::from_word(self.words[$word])?;)+)?
                        $(let $text = self.text.map(str::to_owned).ok_or("a text is missing")?;)?
                        Event::$kind { $($flag,)? $($($field,)+)? $($text,)? }
                    })+
                    _ => return Err("an unknown kind of event"),
                })
            }
        }
    };
    (@fields hot $kind:ident $($field:ident)*) => { Event::$kind { $($field),* } };
    (@fields rare $kind:ident $($field:ident)*) => { Event::$kind { .. } };
    (@packed rare $($rest:tt)*) => { None };
    (@packed hot $tag:literal { $($flag:ident)? } { $($field:ident $word:literal)* }) => {{
        let mut words = [0; 4];
        $(words[$word] = $field.to_word();)*
        let kind = $tag $(| u64::from($flag.to_flag()) << FLAG_SHIFT)?;
        Some((kind, words[0] | words[1] << 32, words[2] | words[3] << 32))
    }};
}

forms! {
    rare 0 TaskNew { words: [pid 0, tgid 1, parent 2, prio 3], text: comm, }
    rare 1 TaskRename { words: [pid 0], text: comm, }
    rare 2 TaskExit { words: [pid 0], }
    hot 3 Switch { flag: prev_state, words: [prev 0, next 1], }
    hot 4 Waking { words: [pid 0, waker 1], }
    hot 5 Wakeup { flag: new, words: [pid 0, target 1], }
    hot 6 Migrate { flag: reason, words: [pid 0, from 1, to 2], }
    rare 7 Prio { words: [pid 0, prio 1], }
    rare 8 Hotplug { flag: online, }
    rare 9 Overhead { words: [ns 0], }
    rare 10 Callback { words: [op 0, insns 1, after 2, ns 3], }
    rare 11 Ipi { words: [target 0], }
    rare 12 LockWait { words: [lock 0, after 1, ns 2], }
    rare 13 Balance { words: [moved 0], }
    hot 14 Done { words: [pid 0, count 1, response_ns 2], }
    rare 15 Phase { words: [pid 0, phase 1], }
    rare 16 Printk { text: text, }
    rare 17 Policy { flag: loaded, }
    rare 18 LockName { words: [lock 0], text: name, }
    rare 19 DsqLength { words: [dsq 0, nr 2], }
    rare 20 Slowed { flag: by, words: [pid 0, ns 2], }
}

/// A field of an event that is a word of its form.
trait Word: Copy {
    fn to_word(self) -> u64;
    fn from_word(word: u64) -> Result<Self, &'static str>;
}

impl Word for u64 {
    fn to_word(self) -> u64 {
        self
    }

    fn from_word(word: u64) -> Result<u64, &'static str> {
        Ok(word)
    }
}

impl Word for u32 {
    fn to_word(self) -> u64 {
        self.into()
    }

    fn from_word(word: u64) -> Result<u32, &'static str> {
        u32::try_from(word).map_err(|_| "a number has more than 32 bits")
    }
}

impl Word for i32 {
    fn to_word(self) -> u64 {
        self.cast_unsigned().into()
    }

    fn from_word(word: u64) -> Result<i32, &'static str> {
        u32::from_word(word).map(u32::cast_signed)
    }
}

impl Word for u16 {
    fn to_word(self) -> u64 {
        self.into()
    }

    fn from_word(word: u64) -> Result<u16, &'static str> {
        u16::try_from(word).map_err(|_| "a callback number has more than 16 bits")
    }
}

/// A field of an event that is the flag of its form.
trait Flag: Copy {
    fn to_flag(self) -> u8;
    fn from_flag(flag: u8) -> Result<Self, &'static str>;
}

impl Flag for bool {
    #[inline]
    fn to_flag(self) -> u8 {
        self.into()
    }

    fn from_flag(flag: u8) -> Result<bool, &'static str> {
        match flag {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("a flag is neither 0 nor 1"),
        }
    }
}

/// Declares the flags that stand for the values of an enumeration.
macro_rules! flags {
    ($ty:ident { $($flag:literal = $value:ident),+ $(,)? }, $unknown:literal) => {
        impl Flag for $ty {
            #[inline]
            fn to_flag(self) -> u8 {
                match self {
                    $($ty::$value => $flag),+
                }
            }

            fn from_flag(flag: u8) -> Result<$ty, &'static str> {
                match flag {
                    $($flag => Ok($ty::$value),)+
                    _ => Err($unknown),
                }
            }
        }
    };
}

flags!(
    TaskState { 0 = Running, 1 = Interruptible, 2 = Uninterruptible, 3 = Dead },
    "an unknown task state"
);
flags!(
    MigrateReason { 0 = Wakeup, 1 = Fork, 2 = Exec, 3 = Balance, 4 = Affinity },
    "an unknown reason for a migration"
);
flags!(
    Slowdown { 0 = Capacity, 1 = Frequency, 2 = Siblings, 3 = Memory, 4 = Reload, 5 = Kernel },
    "an unknown kind of slowdown"
);

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
    events.extend(Slowdown::ALL.map(|by| Event::Slowed {
        pid: 5,
        by,
        ns: u64::MAX,
    }));
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
        assert_eq!(bad(21, 0, [0; 4]), "an unknown kind of event");
        assert_eq!(bad(20, 6, [0; 4]), "an unknown kind of slowdown");
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
