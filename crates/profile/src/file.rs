// SPDX-License-Identifier: GPL-2.0-only
//! Reads profiles: files `profiles/NAME.toml` that replace the user-space part of a policy.
//! profiles/README.md explains the keys for users.

use crate::{Arg, Group, Profile, Run, Setting};
use input::{Error, Source, duration};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use toml::Spanned;

/// Maximum size of a profile in bytes.
pub const MAX_BYTES: u64 = 8 << 20;
const HINT: &str = "profiles/README.md lists the keys of a profile";

/// A function that reads a profile by its name, because another profile includes it.
pub type Include<'a> = dyn FnMut(&str) -> Result<Profile, Error> + 'a;

/// Reads a profile. `include` reads the profiles that this profile includes.
///
/// # Errors
/// A key is unknown, or a value is not valid for its key.
pub fn parse(source: &Source, include: &mut Include) -> Result<Profile, Error> {
    let table: Result<ProfileTable, Error> = source.toml();
    let profile = table.and_then(|table| table.profile(source, include));
    profile.map_err(|error| if error.hint.is_none() { error.hint(HINT) } else { error })
}

/// The top-level table of a profile.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileTable {
    absent: Text,
    include: Vec<Spanned<Text>>,
    uptime: Option<Spanned<Text>>,
    resume_latency_us: Text,
    names: Pairs,
    set: Settings,
    resize: Pairs,
    max_entries: Pairs,
    inner_maps: Vec<Text>,
    map: Settings,
    ops: Pairs,
    fields: Pairs,
    without: Vec<Text>,
    struct_ops: Text,
    attach: Vec<Text>,
    detach: Vec<Text>,
    run: Vec<RunTable>,
}

type Pairs = BTreeMap<String, Text>;
type Settings = BTreeMap<String, TextOr<Conditional>>;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunTable {
    program: Spanned<Text>,
    each: Option<Group>,
    #[serde(default)]
    when: Text,
    #[serde(default)]
    on: Text,
    #[serde(default)]
    after: bool,
    #[serde(default)]
    args: Vec<TextOr<Repeated>>,
    #[serde(default)]
    result: Vec<Text>,
    #[serde(default)]
    memory: Settings,
    #[serde(default)]
    then: Vec<RunTable>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Conditional {
    value: Text,
    #[serde(default)]
    when: Text,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Repeated {
    value: Text,
    times: u32,
}

impl ProfileTable {
    /// Returns the contents of the profiles that this profile includes, followed by its own
    /// contents.
    ///
    /// # Errors
    /// A profile cannot be included, or a value is not valid.
    pub fn profile(self, source: &Source, include: &mut Include) -> Result<Profile, Error> {
        let mut profile = Profile::default();
        for name in self.include {
            let at = name.span().start;
            let included = include(&name.get_ref().0);
            let wrong = |error: Error| source.error(at, format!("include: {error}"));
            join(&mut profile, included.map_err(wrong)?);
        }
        let uptime_ns = match &self.uptime {
            Some(text) => {
                duration::parse(&text.get_ref().0).map_err(|message| source.error(text.span().start, message))?
            }
            None => 0,
        };
        let runs = self.run.into_iter().map(|run| run.run(source, false));
        join(
            &mut profile,
            Profile {
                absent: self.absent.0,
                uptime_ns,
                resume_latency_us: self.resume_latency_us.0,
                names: pairs(self.names),
                set: settings(self.set),
                resize: pairs(self.resize),
                max_entries: pairs(self.max_entries),
                inner_maps: texts(self.inner_maps),
                map: settings(self.map),
                ops: pairs(self.ops),
                fields: pairs(self.fields),
                without: texts(self.without),
                struct_ops: self.struct_ops.0,
                attach: texts(self.attach),
                detach: texts(self.detach),
                run: runs.collect::<Result<_, _>>()?,
            },
        );
        Ok(profile)
    }
}

impl RunTable {
    fn run(self, source: &Source, is_then: bool) -> Result<Run, Error> {
        let at = self.program.span().start;
        if self.program.get_ref().0.is_empty() {
            return Err(source.error(at, "the program has no name"));
        }
        if is_then && (self.each.is_some() || self.after) {
            return Err(source
                .error(at, "'each' or 'after' in [[run.then]]")
                .hint("a [[run.then]] runs for the same CPUs and at the same time as its [[run]]: move the key to the [[run]]"));
        }
        let args = self.args.into_iter().map(|arg| match arg {
            TextOr::Text(text) => Arg::from(text.0.as_str()),
            TextOr::Detailed(Repeated { value, times }) => Arg { value: value.0, times },
        });
        let then = self.then.into_iter().map(|run| run.run(source, true));
        Ok(Run {
            program: self.program.into_inner().0,
            each: self.each,
            when: self.when.0,
            on: self.on.0,
            after: self.after,
            args: args.collect(),
            result: texts(self.result),
            memory: settings(self.memory),
            then: then.collect::<Result<_, _>>()?,
        })
    }
}

/// Appends the content of the second profile to the first.
fn join(first: &mut Profile, second: Profile) {
    let Profile {
        absent,
        uptime_ns,
        resume_latency_us,
        names,
        set,
        resize,
        max_entries,
        inner_maps,
        map,
        ops,
        fields,
        without,
        struct_ops,
        attach,
        detach,
        run,
    } = second;
    let texts = [
        (&mut first.absent, absent),
        (&mut first.struct_ops, struct_ops),
        (&mut first.resume_latency_us, resume_latency_us),
    ];
    for (to, from) in texts {
        if !from.is_empty() {
            *to = from;
        }
    }
    first.uptime_ns = first.uptime_ns.max(uptime_ns);
    first.names.extend(names);
    first.set.extend(set);
    first.resize.extend(resize);
    first.max_entries.extend(max_entries);
    first.inner_maps.extend(inner_maps);
    first.map.extend(map);
    first.ops.extend(ops);
    first.fields.extend(fields);
    first.without.extend(without);
    first.attach.extend(attach);
    first.detach.extend(detach);
    first.run.extend(run);
}

fn pairs(pairs: Pairs) -> Vec<(String, String)> {
    pairs.into_iter().map(|(name, text)| (name, text.0)).collect()
}

fn texts(texts: Vec<Text>) -> Vec<String> {
    texts.into_iter().map(|text| text.0).collect()
}

fn settings(settings: Settings) -> Vec<Setting> {
    let setting = |(path, value)| match value {
        TextOr::Text(Text(value)) => Setting::new(path, value),
        TextOr::Detailed(Conditional { value, when }) => Setting {
            when: when.0,
            ..Setting::new(path, value.0)
        },
    };
    settings.into_iter().map(setting).collect()
}

/// A text. In the file it can be a string, a number or a boolean.
#[derive(Clone, Debug, Default)]
struct Text(String);

/// A [`Text`], or a table that contains a text and more details.
#[derive(Clone, Debug)]
enum TextOr<T> {
    Text(Text),
    Detailed(T),
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a text or a number")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Ok(Text(text.to_owned()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Text, E> {
        Ok(Text(number.to_string()))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Text, E> {
        Ok(Text(truth.to_string()))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TextOr<T>, D::Error> {
        deserializer.deserialize_any(TextOrVisitor(PhantomData))
    }
}

struct TextOrVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for TextOrVisitor<T> {
    type Value = TextOr<T>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a text, a number or a table with a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<TextOr<T>, E> {
        Ok(TextOr::Text(Text(text.to_owned())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<TextOr<T>, E> {
        Ok(TextOr::Text(Text(number.to_string())))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<TextOr<T>, E> {
        Ok(TextOr::Text(Text(truth.to_string())))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextOr<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(TextOr::Detailed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Profile, Error> {
        parse(&Source::new("p.toml", text), &mut |name| match name {
            "first" => read("absent = 'all'\nset = { z = 1 }\n[[run]]\nprogram = 'init'"),
            _ => Err(Error::new("there is no profile of this name")),
        })
    }

    #[test]
    fn all_keys_are_read() {
        let profile = read(
            "uptime = '30ms'\nresume_latency_us = 32\ninclude = ['first']\nset = { a = 'nr_cpus', 'b[cpu]' = { value = 3, when = 'smt' } }\nresize = { c = 'nr_llcs' }\n\
             map = { 'm[cpu]' = 'node' }\nattach = ['p']\ndetach = ['o']\nwithout = ['tick']\nops = { flags = 2 }\n\
             [[run]]\nprogram = 'q'\neach = 'cpu'\nargs = ['cpu', 1, { value = 'i', times = 2 }]\nresult = ['x']\nmemory = { 'x + 8 * word' = 'cpus' }\n\
             after = true\non = 'cpu'\n[[run.then]]\nprogram = 'r'\nargs = ['x:u64']",
        )
        .expect("the profile is valid");
        let b = Setting {
            when: "smt".into(),
            ..Setting::new("b[cpu]", "3")
        };
        assert_eq!(profile.set, [Setting::new("z", "1"), Setting::new("a", "nr_cpus"), b]);
        assert_eq!((profile.absent.as_str(), profile.without[0].as_str()), ("all", "tick"));
        assert_eq!(
            (profile.uptime_ns, profile.resume_latency_us.as_str()),
            (30_000_000, "32")
        );
        assert_eq!(profile.map, [Setting::new("m[cpu]", "node")]);
        let [init, run] = &profile.run[..] else {
            panic!("two programs: {:?}", profile.run);
        };
        assert_eq!((init.program.as_str(), init.each, init.after), ("init", None, false));
        assert_eq!((run.each, run.after, run.on.as_str()), (Some(Group::Cpu), true, "cpu"));
        let twice = Arg {
            value: "i".into(),
            times: 2,
        };
        assert_eq!(run.args, ["cpu".into(), "1".into(), twice]);
        assert_eq!(run.result, ["x"]);
        assert_eq!(run.then[0].args, [Arg::from("x:u64")]);
    }

    #[test]
    fn errors_name_the_position_and_the_key() {
        for (text, expect) in [
            (
                "sett = {}",
                "p.toml:1:1: unknown key 'sett'\n  hint: did you mean 'set'?",
            ),
            ("[[run]]\nwhen = 'smt'", "p.toml:1:1: the key 'program' is missing"),
            ("[[run]]\nprogram = ''", "p.toml:2:11: the program has no name"),
            (
                "[[run]]\nprogram = 'x'\nargs = [{ times = 2 }]",
                "p.toml:3:9: the key 'value' is missing",
            ),
            (
                "[[run]]\nprogram = 'x'\neach = 'socket'",
                "p.toml:3:8: unknown value 'socket'\n  hint: known are cpu, core, llc, node, package",
            ),
            (
                "[[run]]\nprogram = 'x'\n[[run.then]]\nprogram = 'y'\neach = 'cpu'",
                "p.toml:4:11: 'each' or 'after' in [[run.then]]",
            ),
            (
                "set = { a = { value = 1, if = 2 } }",
                "p.toml:1:26: unknown key 'if'\n  hint: known are value, when",
            ),
            (
                "set = { a = 1.5 }",
                "p.toml:1:13: invalid type: floating point `1.5`, expected a text, a number or a table with a value",
            ),
            (
                "ops = { flags = [] }",
                "p.toml:1:17: invalid type: sequence, expected a text or a number",
            ),
            ("uptime = '3 weeks'", "p.toml:1:10: '3 weeks': unknown unit 'weeks'"),
            (
                "include = ['second']",
                "p.toml:1:12: include: there is no profile of this name",
            ),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.starts_with(expect), "{text}: {error}");
        }
    }
}
