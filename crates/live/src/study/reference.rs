// SPDX-License-Identifier: GPL-2.0-only
//! What the repository's experiments have of a figure: what was published, and what the simulator measured under the policies of
//! that time.

use std::collections::BTreeMap;
use windtunnel::experiment::Experiment;

/// Figures by where they are from, as `linux published`, and what they are of.
#[derive(Debug, Default)]
pub struct References {
    rows: BTreeMap<String, BTreeMap<String, f64>>,
}

impl References {
    /// Of an experiment with columns os, ..., VALUE; what is between them are the figure's words. None if it is not there.
    pub fn read(experiment: &str) -> References {
        let mut references = References::default();
        let Ok(experiment) = Experiment::find(experiment) else {
            return references;
        };
        for (file, from) in [("published.csv", "published"), ("measured.csv", "simulated")] {
            let text = std::fs::read_to_string(experiment.folder.join(file)).unwrap_or_default();
            references.add(&text, from);
        }
        references
    }

    fn add(&mut self, csv: &str, from: &str) {
        for line in csv.lines().skip(1) {
            let words: Vec<&str> = line.split(',').map(str::trim).collect();
            if let [os, of @ .., value] = words.as_slice()
                && let Ok(value) = value.parse()
            {
                let source = format!("{os} {from}");
                self.rows.entry(of.join(" ")).or_default().insert(source, value);
            }
        }
    }

    /// By where they are from.
    pub fn of(&self, figure: &str) -> BTreeMap<String, f64> {
        self.rows.get(figure).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_their_words() {
        let mut references = References::default();
        references.add(
            "os,difference,task,requests\nlinux,5,low,51.3\nlinux,5,high,\n",
            "published",
        );
        references.add("os,difference,task,requests\nlinux,5,low,50\n", "simulated");
        let of = references.of("5 low");
        assert_eq!(of["linux published"], 51.3);
        assert_eq!(of["linux simulated"], 50.0);
        assert!(references.of("5 high").is_empty());
    }

    #[test]
    fn the_repository_has_them() {
        let heavy = References::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/smp/heavy"));
        assert_eq!(heavy.of("mean_response_ms")["linux published"], 875.0);
    }
}
