// SPDX-License-Identifier: GPL-2.0-only
//! The HTML page of a comparison.

use super::places::Place;
use super::{Comparison, present, verdict};
use report::attribution::Attribution;
use report::html::written::{Body, Section, Table, Written, written};

fn section(head: &str, about: &str, body: Body) -> Section {
    Section {
        head: head.to_owned(),
        about: about.to_owned(),
        body,
    }
}

/// Returns the page. `notes` are further sentences about the result, and `repeat` is the command
/// that repeats it.
pub fn page(c: &Comparison, why: Option<&Attribution>, notes: &[String], repeat: &str) -> String {
    let [a, b] = &c.names;
    let lines = verdict(c);
    let lines = lines.lines().map(|line| line.trim_start_matches("- ").to_owned());
    let [of_a, of_b] = [format!("A: {a}"), format!("B: {b}")];
    let head = ["metric", &of_a, &of_b, "change", "95 % CI", "B is"];
    let metrics = Table {
        head: head.map(str::to_owned).to_vec(),
        numbers: 1,
        rows: present::rows(c).into_iter().map(|row| row.to_vec()).collect(),
    };
    let about = "The change from A to B, with its 95 % confidence interval.";
    let mut sections = vec![section("Metrics", about, Body::Table(metrics))];
    sections.extend(why.map(|why| attribution(why, a, b)));
    written(&Written {
        title: format!("{b} compared with {a}"),
        facts: format!("{} on {} · {} pairs of runs", c.workload, c.machine, c.seeds.len()),
        verdict: lines.chain(notes.iter().cloned()).collect(),
        sections,
        repeat: repeat.to_owned(),
    })
}

fn attribution(why: &Attribution, a: &str, b: &str) -> Section {
    let rows = why.table().into_iter();
    let table = Table {
        head: ["points", "part", a, b].map(str::to_owned).to_vec(),
        numbers: 2,
        rows: rows
            .map(|(points, text, [before, after])| vec![points, text, before, after])
            .collect(),
    };
    section("Where the difference comes from", &why.headline(), Body::Table(table))
}

/// Returns the page of a comparison on several machines and under several workloads. `notes` and
/// `repeat` are as for [`page`].
pub fn page_of_places(places: &[Place], notes: &[String], repeat: &str) -> String {
    let Some(first) = places.first() else {
        return written(&Written::default());
    };
    let [a, b] = &first.comparison.names;
    let table = Table {
        head: super::places::heads(a, b).map(|head| head.replace('\n', " ")).to_vec(),
        numbers: 2,
        rows: places
            .iter()
            .map(|place| super::places::row(&place.comparison))
            .collect(),
    };
    let why = places.iter().filter_map(|place| {
        let c = &place.comparison;
        let mut section = attribution(place.attribution.as_ref()?, a, b);
        section.head = format!("{}: {} under {}", section.head, c.machine, c.workload);
        Some(section)
    });
    let about = "Changes from A to B. Changes of latencies that are not significant are left out.";
    let scores = section("Scores", about, Body::Table(table));
    written(&Written {
        title: format!("{b} compared with {a}"),
        facts: format!(
            "{} pairs of runs for each machine and workload",
            first.comparison.seeds.len()
        ),
        verdict: std::iter::once(super::places::sentence(places))
            .chain(notes.iter().cloned())
            .collect(),
        sections: std::iter::once(scores).chain(why).collect(),
        repeat: repeat.to_owned(),
    })
}
