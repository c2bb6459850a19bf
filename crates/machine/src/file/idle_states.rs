// SPDX-License-Identifier: GPL-2.0-only
//! The key `cpuidle` and the section `[[idle_state]]` of machine files.

use super::File;
use crate::idle::{CpuIdle, Governor, IdleState, SOURCE};
use input::Error;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// An idle state with its source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    name: Spanned<String>,
    exit_us: Spanned<u32>,
    residency_us: Spanned<u32>,
    #[serde(default)]
    polling: bool,
    source: Spanned<String>,
}

impl File<'_> {
    /// Reads the key `cpuidle` and the section `[[idle_state]]`. The states must be in the order of
    /// their target residencies, as in Linux. Adds the sources of their numbers to `sources`, which
    /// already contains the sources of the costs.
    pub(super) fn cpuidle(
        &self,
        governor: &Option<Spanned<String>>,
        states: &[Spanned<Written>],
        sources: &mut BTreeMap<String, String>,
    ) -> Result<CpuIdle, Error> {
        let governor = match governor {
            None if states.is_empty() => Governor::Off,
            None => Governor::Menu,
            Some(name) => {
                let known = Governor::NAMES.iter().find(|known| known.0 == name.get_ref());
                known.map(|known| known.1).ok_or_else(|| {
                    let names = Governor::NAMES.map(|known| known.0);
                    let message = format!("cpuidle is {:?}", name.get_ref());
                    let error = self.source.error(name.span().start, message);
                    error.hint(format!("expected {}", names.map(|name| format!("{name:?}")).join(", ")))
                })?
            }
        };
        let mut known: Vec<IdleState> = Vec::new();
        for spanned in states {
            let at = spanned.span().start;
            let written = spanned.get_ref();
            let state = IdleState {
                name: written.name.get_ref().clone(),
                exit_ns: 1000 * self.number("exit_us", &written.exit_us, 0..=1_000_000)?,
                residency_ns: 1000 * self.number("residency_us", &written.residency_us, 0..=1_000_000)?,
                polling: written.polling,
                busy: written.polling && *written.exit_us.get_ref() == 0,
            };
            if state.name.is_empty() || known.iter().any(|other| other.name == state.name) {
                let message = format!("the name {:?} of an idle state is empty or not unique", state.name);
                return Err(self.source.error(written.name.span().start, message));
            }
            if known.last().is_some_and(|last| last.residency_ns > state.residency_ns) {
                return Err(self
                    .source
                    .error(
                        at,
                        format!("idle state {} comes after a state with a longer residency", state.name),
                    )
                    .hint("order idle states by residency_us"));
            }
            sources.insert(format!("{SOURCE}{}", state.name), self.source_text(&written.source)?);
            known.push(state);
        }
        let first = states.first().map_or(0, |state| state.span().start);
        if !known.is_empty() && known.iter().all(|state| state.busy) {
            return Err(self
                .source
                .error(first, "CPUs poll in all idle states")
                .hint("add a state with exit_us above 0, or replace the states with cpuidle = \"poll\""));
        }
        if !known.is_empty() && sources.contains_key("idle_exit") {
            return Err(self
                .source
                .error(first, "the file has both idle states and the cost idle_exit")
                .hint("remove idle_exit, because each idle state has its own exit_us"));
        }
        if governor == Governor::Menu && known.is_empty() {
            return Err(self
                .source
                .error(0, "cpuidle is \"menu\", but there are no idle states")
                .hint("add [[idle_state]] entries"));
        }
        Ok(CpuIdle {
            governor,
            states: known,
        })
    }
}
