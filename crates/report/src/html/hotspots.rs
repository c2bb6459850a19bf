// SPDX-License-Identifier: GPL-2.0-only
//! The section of the page about the costs of a policy by source line, field and lock.

use super::Run;
use super::tables::{chip, micro};
use crate::hotspots::{HotspotsResult, ROWS};
use crate::units;
use maud::{Markup, html};

/// Frames with a smaller share of the instructions are not drawn, in 1/10 000.
const SMALLEST: u64 = 20;
/// Share, in 1/10 000, from which a frame has room for its name.
const NAMED: u64 = 250;
/// Maximum number of levels of frames.
const LEVELS: usize = 12;

/// A frame of the flame graph.
#[derive(Default)]
struct Frame {
    name: String,
    insns: u64,
    children: Vec<Frame>,
}

impl Frame {
    fn add(&mut self, frames: &mut dyn Iterator<Item = String>, insns: u64, level: usize) {
        self.insns += insns;
        let Some(name) = frames.next().filter(|_| level < LEVELS) else {
            return;
        };
        let known = self.children.iter().position(|child| child.name == name);
        let at = known.unwrap_or_else(|| {
            self.children.push(Frame {
                name,
                ..Frame::default()
            });
            self.children.len() - 1
        });
        self.children[at].add(frames, insns, level + 1);
    }

    /// Draws the frame above its children. `whole` is the number of all instructions.
    fn draw(&self, costs: &HotspotsResult, colour: usize) -> Markup {
        let part = |insns: u64| insns * 10_000 / costs.insns.max(1);
        let shown = |child: &&Frame| part(child.insns) >= SMALLEST;
        let left = self.insns - self.children.iter().filter(shown).map(|child| child.insns).sum::<u64>();
        html! {
            div.frame style={ "flex-grow:" (self.insns) } {
                span style={ "--h:" (colour % 6) } title={ (self.name) ": " (units::count(self.insns)) " instructions, " (costs.share(self.insns)) } {
                    @if part(self.insns) >= NAMED { (self.name) } @else { "\u{a0}" }
                }
                @if !self.children.is_empty() {
                    div.frames {
                        @for (at, child) in self.children.iter().enumerate().filter(|(_, child)| shown(child)) { (child.draw(costs, colour + at + 1)) }
                        @if left > 0 { div style={ "flex-grow:" (left) } {} }
                    }
                }
            }
        }
    }
}

/// Returns the costs of each run that has them: a flame graph and tables.
pub fn hotspots(runs: &[Run], labels: &[String]) -> Markup {
    let measured = runs.iter().enumerate();
    let measured = measured.filter_map(|(i, run)| Some((i, run.result.hotspots.as_ref()?)));
    html! {
        @for (i, costs) in measured {
            h3 { (chip(i, &labels[i])) }
            (flames(costs))
            (lines(costs, &labels[i]))
            (fields(costs, &labels[i]))
            (pairs(costs, &labels[i]))
        }
    }
}

fn flames(costs: &HotspotsResult) -> Markup {
    let mut root = Frame {
        name: "all".to_owned(),
        ..Frame::default()
    };
    for line in &costs.lines {
        root.add(&mut line.frames(), line.insns, 0);
    }
    html! { @if costs.insns > 0 {
        figure {
            figcaption { (units::count(costs.insns)) " instructions by callback, function and source line" }
            div.flames role="img" aria-label="Flame graph; the table below has the same numbers" { (root.draw(costs, 0)) }
        }
    } }
}

fn lines(costs: &HotspotsResult, label: &str) -> Markup {
    html! { @if !costs.lines.is_empty() {
        div.scroll tabindex="0" role="region" aria-label={ "Source lines of " (label) } { table {
            thead { tr {
                th scope="col" { "source line" } th.n scope="col" { "instructions" } th.n scope="col" { "share" }
                @if costs.has_subs() { th scope="col" { "sub-scheduler" } }
                th scope="col" { "callback" } th scope="col" { "function" } th scope="col" { "text" }
            } }
            tbody { @for line in costs.lines.iter().take(ROWS) { tr {
                th scope="row" { code { (line.place()) } }
                td.n { (units::count(line.insns)) } td.n { (costs.share(line.insns)) }
                @if costs.has_subs() { td { (line.sub) } }
                td { (line.callback) } td { (line.functions.last().map_or("", String::as_str)) }
                td { code { (line.text) } }
            } } }
        } }
        (more(costs.lines.len(), "source lines"))
    } }
}

fn fields(costs: &HotspotsResult, label: &str) -> Markup {
    html! { @if !costs.fields.is_empty() {
        div.scroll tabindex="0" role="region" aria-label={ "Fields of " (label) } { table {
            thead { tr {
                th scope="col" { "cache lines of" } th.n scope="col" { "fetched" } th.n scope="col" { "invalidated" } th.n scope="col" { "took" }
            } }
            tbody { @for field in costs.fields.iter().take(ROWS) { tr {
                th scope="row" { code { (field.field) } }
                td.n { (units::count(field.loads)) } td.n { (units::count(field.stores)) }
                td.n { (micro(&units::time(field.ns))) }
            } } }
        } }
        (more(costs.fields.len(), "fields"))
    } }
}

fn pairs(costs: &HotspotsResult, label: &str) -> Markup {
    html! { @if !costs.lock_pairs.is_empty() {
        div.scroll tabindex="0" role="region" aria-label={ "Lock waits of " (label) } { table {
            thead { tr {
                th scope="col" { "waiting" } th scope="col" { "for" } th scope="col" { "lock" }
                th.n scope="col" { "waits" } th.n scope="col" { "waited" } th.n scope="col" { "longest" }
            } }
            tbody { @for pair in costs.lock_pairs.iter().take(ROWS) { tr {
                th scope="row" { (pair.waiter) } td { (pair.holder) } td { code { (pair.lock) } }
                td.n { (units::count(pair.waits)) }
                td.n { (micro(&units::time(pair.wait_ns))) } td.n { (micro(&units::time(pair.wait_max_ns))) }
            } } }
        } }
        (more(costs.lock_pairs.len(), "pairs of callbacks"))
    } }
}

fn more(all: usize, what: &str) -> Markup {
    html! { @if all > ROWS { p.legend { "and " (all - ROWS) " more " (what) } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hotspots::tests::example;

    #[test]
    fn a_frame_is_as_wide_as_its_instructions() {
        let drawn = flames(&example()).into_string();
        for part in [
            "flex-grow:950",
            "flex-grow:850",
            "flex-grow:50",
            "place: 850 instructions, 85.0 %",
        ] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert_eq!(flames(&HotspotsResult::default()).into_string(), "");
    }
}
