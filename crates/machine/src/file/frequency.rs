// SPDX-License-Identifier: GPL-2.0-only
//! The section `[frequency]` and the key `turbo` of machine files.

use super::{File, SmtThroughput};
use crate::frequency::{FREQUENCY, Frequency, FrequencyDomain, FrequencyGovernor, TURBO};
use crate::topology::Topology;
use input::Error;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// Rate limit of a driver that does not know its transition latency
/// (cpufreq_policy_transition_delay_us, drivers/cpufreq/cpufreq.c), us.
const DEFAULT_RATE_LIMIT_US: u32 = 1000;
/// Longest time in the section, us.
const MAX_US: u32 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    governor: Spanned<String>,
    domain: Option<Spanned<String>>,
    rate_limit_us: Option<Spanned<u32>>,
    transition_us: Option<Spanned<u32>>,
    source: Spanned<String>,
}

impl File<'_> {
    /// Reads the section `[frequency]` and the key `turbo`. Adds their sources to `sources`.
    pub(super) fn frequency(
        &self,
        written: &Option<Spanned<Written>>,
        turbo: &Option<Spanned<SmtThroughput>>,
        topology: &Topology,
        sources: &mut BTreeMap<String, String>,
    ) -> Result<Frequency, Error> {
        let mut frequency = Frequency::default();
        if let Some(written) = written {
            let written = written.get_ref();
            let governor = &written.governor;
            frequency.governor = self.named("governor", governor, &FrequencyGovernor::NAMES)?;
            if frequency.governor != FrequencyGovernor::Schedutil {
                let times = written.rate_limit_us.as_ref().or(written.transition_us.as_ref());
                let other = written.domain.as_ref().map(Spanned::span);
                if let Some(span) = times.map(Spanned::span).or(other) {
                    let message = "only the governor \"schedutil\" has a domain, a rate limit and a transition time";
                    return Err(self.source.error(span.start, message));
                }
            }
            if let Some(domain) = &written.domain {
                frequency.domain = self.named("domain", domain, &FrequencyDomain::NAMES)?;
            }
            let transition = self.optional("transition_us", &written.transition_us, 0..=MAX_US, 0)?;
            // Linux leaves half of the transition time as room between two updates.
            let limit = match transition {
                0 => DEFAULT_RATE_LIMIT_US,
                us => us + us / 2,
            };
            let limit = self.optional("rate_limit_us", &written.rate_limit_us, 0..=MAX_US, limit)?;
            frequency.transition_ns = 1000 * u64::from(transition);
            frequency.rate_limit_ns = 1000 * u64::from(limit);
            sources.insert(FREQUENCY.to_owned(), self.source_text(&written.source)?);
        }
        if let Some(turbo) = turbo {
            let turbo = turbo.get_ref();
            let cores = |cpus: &Vec<u32>| {
                let mut cores: Vec<u32> = cpus.iter().map(|&cpu| topology.cpus[cpu as usize].core).collect();
                cores.sort_unstable();
                cores.dedup();
                cores.len()
            };
            let most = topology.packages.iter().map(cores).max().unwrap_or(1);
            frequency.turbo = self.speeds(TURBO, &turbo.speed, most, "a package has up to", "cores")?;
            sources.insert(TURBO.to_owned(), self.source_text(&turbo.source)?);
        }
        Ok(frequency)
    }

    /// Returns the value of a name that the file contains.
    fn named<T: Copy>(&self, key: &str, name: &Spanned<String>, names: &[(&str, T)]) -> Result<T, Error> {
        let found = names.iter().find(|known| known.0 == name.get_ref());
        found.map(|known| known.1).ok_or_else(|| {
            let known: Vec<&str> = names.iter().map(|known| known.0).collect();
            let error = self
                .source
                .error(name.span().start, format!("{key} is {:?}", name.get_ref()));
            error.hint(input::suggest::hint(name.get_ref(), &known))
        })
    }
}
