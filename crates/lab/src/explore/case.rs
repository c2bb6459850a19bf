// SPDX-License-Identifier: GPL-2.0-only
//! A case: everything that one run of an exploration depends on, apart from the policy.

use super::observe::STALL_NS;
use super::order::Order;
use super::part::{KINDS, Part, PartKind};
use input::duration;
use input::error::Error;
use kernel::Hold;
use kernel::release::Release;
use kernel::rng::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use workload::Workload;

/// Largest number of characters of a token.
const MAX_TOKEN: usize = 1 << 20;
/// Machines from which a case takes one, if the user names none.
const MACHINES: [&str; 3] = ["smp2", "smp2", "smp4"];
/// Numbers of forced switches of a run. Most races need one or two, but a run with many of them
/// tries many places.
const NR_HOLDS: [u64; 6] = [0, 2, 8, 32, 64, 128];
/// Longest forced delay, ns. An interrupt or a hypervisor can delay a CPU for longer.
const MAX_HOLD_NS: u64 = 100_000;
/// Shortest forced delay, ns: about the time of one callback.
const MIN_HOLD_NS: u64 = 200;

/// The tasks of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// The workload that the user names.
    Named(String),
    /// A generated workload.
    Parts(Vec<Part>),
}

/// Everything that one run depends on, apart from the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub machine: String,
    pub load: Load,
    pub seed: u64,
    /// Simulated time after which the run ends at the latest, ns.
    pub for_ns: u64,
    /// The forced switches: point and length in ns.
    pub holds: Vec<(u64, u64)>,
    /// A task that waits longer than this for a CPU is a stall, ns.
    #[serde(default = "default_stall", skip_serializing_if = "is_default_stall")]
    pub stall_ns: u64,
}

fn default_stall() -> u64 {
    STALL_NS
}

fn is_default_stall(ns: &u64) -> bool {
    *ns == STALL_NS
}

/// Limits within which cases are generated.
#[derive(Clone, Debug)]
pub struct Space {
    pub machine: Option<String>,
    pub workload: Option<String>,
    /// Parts that every generated workload has, with times of its own.
    pub parts: Vec<Part>,
    pub for_ns: u64,
    /// Time after which a wait for a CPU is a stall, ns.
    pub stall_ns: u64,
    /// Number of points that a run without forced switches reaches.
    pub points: u64,
    /// Whether the policy handles CPUs that go offline.
    pub hotplug: bool,
    /// Rule that decides which CPU proceeds.
    pub order: Order,
}

/// Parses a forced switch: `POINT@TIME`.
///
/// # Errors
/// The text has a different form. The message says what is expected.
pub fn parse_hold(text: &str) -> Result<(u64, u64), Error> {
    let (point, time) = text
        .split_once('@')
        .ok_or("expected POINT@TIME, for example 120@20us")?;
    let point = point
        .parse()
        .map_err(|_| format!("'{point}' is no number of a point"))?;
    Ok((point, duration::parse(time)?))
}

impl Default for Space {
    /// Returns the limits of an exploration without options.
    fn default() -> Space {
        Space {
            machine: None,
            workload: None,
            parts: Vec::new(),
            for_ns: 2_000_000_000,
            stall_ns: STALL_NS,
            points: 1,
            hotplug: false,
            order: Order::Delays,
        }
    }
}

impl Space {
    /// Returns case number `number` of an exploration.
    pub fn case(&self, seed: u64, number: u64) -> Case {
        let mut rng = Rng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number));
        let machine = self.machine.clone();
        let machine = machine.unwrap_or_else(|| MACHINES[below(&mut rng, MACHINES.len())].to_owned());
        let load = match &self.workload {
            Some(workload) => Load::Named(workload.clone()),
            None => Load::Parts(self.parts(&mut rng)),
        };
        let nr = NR_HOLDS[below(&mut rng, NR_HOLDS.len())];
        let mut case = Case {
            machine,
            load,
            seed: rng.next_u64() % 1_000_000,
            for_ns: self.for_ns,
            stall_ns: self.stall_ns,
            holds: Vec::new(),
        };
        case.holds = self.holds(&mut rng, nr);
        case
    }

    /// Returns `nr` forced switches at random points.
    pub fn holds(&self, rng: &mut Rng, nr: u64) -> Vec<(u64, u64)> {
        let mut holds: Vec<(u64, u64)> = (0..nr)
            .map(|_| {
                let point = 1 + rng.next_u64() % self.points.max(1);
                // Short and long delays are equally likely, because a race may need either.
                let doublings = u64::from((MAX_HOLD_NS / MIN_HOLD_NS).ilog2()) + 1;
                let ns = MIN_HOLD_NS << (rng.next_u64() % doublings);
                (point, ns + rng.next_u64() % ns)
            })
            .collect();
        holds.sort_unstable();
        holds.dedup_by_key(|(point, _)| *point);
        holds
    }

    /// Returns a random subset of all kinds of parts.
    fn parts(&self, rng: &mut Rng) -> Vec<Part> {
        let part = |kind, rng: &mut Rng| Part {
            kind,
            tasks: 1 + rng.next_u64() as u32 % 4,
            rounds: 10 + rng.next_u64() as u32 % 50,
            run: 5 << (rng.next_u64() % 7),
            sleep: 5 << (rng.next_u64() % 7),
            cpu: rng.next_u64() as u32 % 2,
            name: String::new(),
            cpus: Vec::new(),
            nice: 0,
        };
        let mut parts: Vec<Part> = Vec::new();
        for fixed in &self.parts {
            let Part { rounds, run, sleep, .. } = part(fixed.kind, rng);
            parts.push(Part {
                rounds,
                run,
                sleep,
                ..fixed.clone()
            });
        }
        if parts.is_empty() {
            parts.push(part(PartKind::Sleepers, rng));
        }
        for kind in KINDS {
            // A third of the kinds, so that a run tests few of them together.
            if rng.next_u64().is_multiple_of(3) && (kind != PartKind::Hotplug || self.hotplug) {
                parts.push(part(kind, rng));
            }
        }
        parts
    }
}

fn below(rng: &mut Rng, nr: usize) -> usize {
    (rng.next_u64() % nr as u64) as usize
}

impl Case {
    /// Returns the forced switches as the kernel crate takes them.
    pub fn plan(&self) -> Vec<Hold> {
        self.holds.iter().map(|&(point, ns)| Hold { point, ns }).collect()
    }

    /// Returns the generated workload in rt-app's format, or `None` if the user names the workload.
    pub fn json(&self) -> Option<String> {
        let Load::Parts(parts) = &self.load else {
            return None;
        };
        let (mut tasks, mut disturbances, mut resources) = (Map::new(), Vec::new(), Map::new());
        for (index, part) in parts.iter().enumerate() {
            part.add(index, &mut tasks, &mut disturbances, &mut resources);
        }
        let mut all = Map::new();
        if !resources.is_empty() {
            all.insert("resources".to_owned(), resources.into());
        }
        all.insert("tasks".to_owned(), tasks.into());
        if !disturbances.is_empty() {
            all.insert("disturbances".to_owned(), disturbances.into());
        }
        serde_json::to_string_pretty(&Value::from(all)).ok()
    }

    /// Returns the generated workload.
    ///
    /// # Errors
    /// The parts do not fit together, which only a token can cause.
    pub fn workload(&self) -> Result<Option<Workload>, Error> {
        self.json()
            .map(|json| workload::rtapp::read(&json, "explored"))
            .transpose()
    }

    /// Returns the number of tasks of a generated workload.
    pub fn nr_tasks(&self) -> Option<u32> {
        match &self.load {
            Load::Named(_) => None,
            Load::Parts(parts) => Some(parts.iter().map(|part| part.nr_tasks()).sum()),
        }
    }

    /// Returns a token that contains the case, the policy and the release for which it is loaded.
    pub fn token(&self, policy: &str, kernel: Release) -> String {
        let release = (kernel != Release::default()).then(|| kernel.to_string());
        let contents = Contents(policy.to_owned(), self.clone(), release);
        encode(&serde_json::to_vec(&contents).unwrap_or_default())
    }

    /// Returns the policy, the case and the release of a token.
    ///
    /// # Errors
    /// The text is no token of this command.
    pub fn from_token(token: &str) -> Result<(String, Case, Release), Error> {
        let wrong = || Error::new("--replay: this is no token of `windtunnel explore`").hint("copy the whole token");
        if token.len() > MAX_TOKEN {
            return Err(wrong());
        }
        let bytes = decode(token).ok_or_else(wrong)?;
        let Contents(policy, case, release) = serde_json::from_slice(&bytes).map_err(|_| wrong())?;
        let kernel = release.map_or(Ok(Release::default()), |release| release.parse());
        Ok((
            policy,
            case,
            kernel.map_err(|error| Error::new(format!("--replay: {error}")))?,
        ))
    }
}

/// The contents of a token: the policy, the case, and the release unless it is the default. Tokens
/// from before the release was added have two elements.
#[derive(Serialize, Deserialize)]
struct Contents(
    String,
    Case,
    #[serde(default, skip_serializing_if = "Option::is_none")] Option<String>,
);

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes bytes as base64url without padding (RFC 4648).
fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            text.push(DIGITS[(word >> (18 - 6 * digit) & 63) as usize] as char);
        }
    }
    text
}

/// Decodes base64url without padding. Returns `None` for any other text.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for chunk in text.trim().as_bytes().chunks(4) {
        let mut word = 0_u32;
        for &digit in chunk {
            let value = DIGITS.iter().position(|&known| known == digit)?;
            word = word << 6 | value as u32;
        }
        word <<= 6 * (4 - chunk.len());
        let nr = chunk.len().checked_sub(1).filter(|&nr| nr > 0)?;
        bytes.extend_from_slice(&word.to_be_bytes()[1..=nr]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        Space {
            points: 10_000,
            hotplug: true,
            ..Space::default()
        }
    }

    #[test]
    fn every_generated_workload_is_valid() {
        for number in 0..300 {
            let case = space().case(1, number);
            let workload = case.workload().unwrap_or_else(|error| panic!("case {number}: {error}"));
            assert!(workload.is_some_and(|workload| !workload.tasks.is_empty()));
        }
    }

    #[test]
    fn each_kind_is_valid_alone() {
        for kind in KINDS {
            let part = Part {
                kind,
                tasks: 2,
                rounds: 3,
                run: 5,
                sleep: 10,
                cpu: 1,
                name: String::new(),
                cpus: Vec::new(),
                nice: 0,
            };
            let mut case = space().case(1, 0);
            let sleepers = Part {
                kind: PartKind::Sleepers,
                ..part.clone()
            };
            case.load = Load::Parts(vec![sleepers, part]);
            case.workload().unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        }
    }

    #[test]
    fn cases_depend_on_seed_and_number_only() {
        assert_eq!(space().case(3, 5), space().case(3, 5));
        assert_ne!(space().case(3, 5), space().case(3, 6));
        assert_ne!(space().case(3, 5), space().case(4, 5));
    }

    #[test]
    fn holds_are_ordered_and_within_the_limits() {
        for number in 0..100 {
            let case = space().case(1, number);
            assert!(case.holds.is_sorted());
            let in_limits = |&(point, ns): &(u64, u64)| (1..=10_000).contains(&point) && (200..=204_800).contains(&ns);
            assert!(case.holds.iter().all(in_limits), "{:?}", case.holds);
        }
    }

    #[test]
    fn a_token_contains_policy_case_and_release() {
        let case = space().case(1, 2);
        for kernel in [Release::default(), Release::LINUX_7_3] {
            let token = case.token("my policy.bpf.o", kernel);
            assert_eq!(
                Case::from_token(&token).expect("a token"),
                ("my policy.bpf.o".to_owned(), case.clone(), kernel)
            );
        }
    }

    #[test]
    fn a_token_without_a_release_means_the_default() {
        let case = space().case(1, 2);
        let token = encode(serde_json::json!(["fifo", case]).to_string().as_bytes());
        assert_eq!(
            Case::from_token(&token).expect("a token"),
            ("fifo".to_owned(), case.clone(), Release::default())
        );
        let token = encode(serde_json::json!(["fifo", case, "5.4"]).to_string().as_bytes());
        let error = Case::from_token(&token).expect_err("an unknown release").to_string();
        assert!(error.contains("Linux 5.4 is not supported"), "{error}");
    }

    #[test]
    fn damaged_tokens_are_errors() {
        let token = space().case(1, 2).token("fifo", Release::LINUX_7_3);
        for text in [
            "",
            "x",
            "!!!!",
            "AAAA",
            "ä",
            &token[1..],
            &token[..token.len() - 2],
            &"A".repeat(MAX_TOKEN + 1),
        ] {
            assert!(Case::from_token(text).is_err(), "{text:.40}");
        }
        for (at, _) in token.char_indices().step_by(7) {
            let mut damaged = token.clone().into_bytes();
            damaged[at] = if damaged[at] == b'Q' { b'R' } else { b'Q' };
            // A changed digit may yield a different valid case, but never a panic.
            if let Ok((_, case, _)) = Case::from_token(&String::from_utf8(damaged).expect("ASCII")) {
                let _ = case.workload();
            }
        }
    }
}
