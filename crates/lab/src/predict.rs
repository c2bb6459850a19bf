// SPDX-License-Identifier: GPL-2.0-only
//! Predicts the response times of a workload from theory. The HTML page shows them in the histogram
//! of the simulated response times.
//!
//! In a closed system (after Happe, Groenda and Reussner, 2008), each of n tasks repeats a request
//! of computing time t_c and a pause of length t_w. The load balancer spreads the tasks over m
//! CPUs, so L of them share a CPU, where L is floor(n/m) or ceil(n/m). TS is the time slice.
//!
//! | case | time of a response |
//! |---|---|
//! | small slices, no pauses | L t_c |
//! | round robin, no pauses | floor(t_c/TS) L TS + t_c mod TS, and up to (L-1) TS more |
//! | pauses | t_c n/m - t_w on average |
//!
//! In an open system, requests arrive at random times. The predictions for open systems are
//! computed with [`equation`](crate::experiment::equation).

use crate::experiment::equation;
use crate::experiment::measure::Arguments;
use input::duration;
use report::html::Predicted;
use std::collections::BTreeMap;

/// Returns the response times that theory predicts for a workload on `nr_cpus` equal CPUs. The
/// workload is written as in `--workload`. If no equation is known for it, the result is empty.
pub fn responses(workload: &str, nr_cpus: u64, timeslice_ns: Option<u64>) -> Vec<Predicted> {
    let (name, arguments) = workload.split_once(':').unwrap_or((workload, ""));
    let given: BTreeMap<&str, &str> = arguments.split(',').filter_map(|pair| pair.split_once('=')).collect();
    let mut predicted = match name {
        "closed" => closed(&given, nr_cpus, timeslice_ns),
        "open" => open(&given, nr_cpus),
        _ => None,
    }
    .unwrap_or_default();
    predicted.sort_by_key(|predicted| predicted.ns);
    predicted.dedup_by_key(|predicted| predicted.ns);
    predicted
}

/// Returns the value of the argument `name` as a time, if it is one time and not a distribution.
fn time(given: &BTreeMap<&str, &str>, name: &str, default: &str) -> Option<u64> {
    duration::parse(given.get(name).copied().unwrap_or(default)).ok()
}

fn closed(given: &BTreeMap<&str, &str>, nr_cpus: u64, timeslice_ns: Option<u64>) -> Option<Vec<Predicted>> {
    let plain = |name: &str| given.get(name).is_none_or(|kind| *kind == "D");
    if !plain("compute_dist") || !plain("think_dist") || given.contains_key("nice") {
        return None;
    }
    let n: u64 = given.get("n").copied().unwrap_or("8").parse().ok()?;
    let compute = time(given, "compute", "10ms")?;
    let think = time(given, "think", "0").or_else(|| (given.get("think") == Some(&"0")).then_some(0))?;
    if n <= nr_cpus {
        return Some(vec![Predicted {
            ns: compute,
            label: "alone on a CPU".to_owned(),
        }]);
    }
    if think > 0 {
        let ns = u64::try_from(u128::from(compute) * u128::from(n) / u128::from(nr_cpus)).ok()?;
        return Some(vec![Predicted {
            ns: ns.saturating_sub(think),
            label: format!("mean of {n} tasks on {nr_cpus} CPUs with pauses"),
        }]);
    }
    let loads = [n / nr_cpus, n.div_ceil(nr_cpus)];
    Some(match timeslice_ns.filter(|&slice| slice > 0) {
        None => loads
            .map(|load| Predicted {
                ns: compute * load,
                label: match load {
                    1 => "alone on a CPU".to_owned(),
                    _ => format!("{load} tasks share a CPU"),
                },
            })
            .to_vec(),
        Some(slice) => loads
            .iter()
            .flat_map(|load| {
                let least = compute / slice * load * slice + compute % slice;
                [(least, "minimum"), (least + (load - 1) * slice, "maximum")].map(|(ns, which)| Predicted {
                    ns,
                    label: format!(
                        "{which} with a time slice of {} and {load} tasks per CPU",
                        duration::format(slice)
                    ),
                })
            })
            .collect(),
    })
}

fn open(given: &BTreeMap<&str, &str>, nr_cpus: u64) -> Option<Vec<Predicted>> {
    let kind = |name: &str| given.get(name).copied().unwrap_or("M");
    if kind("arrival") != "M" {
        return None;
    }
    let interarrival = given.get("interarrival").copied().unwrap_or("10ms");
    let service = given.get("work").copied().unwrap_or("8ms");
    let servers = nr_cpus.to_string();
    let equations: &[(&str, &str, &str)] = match (kind("service"), nr_cpus) {
        ("M", 1) => &[("mg1_ps", "1", "mean of M/M/1")],
        ("D", 1) => &[
            ("mg1_fcfs", "0", "mean of M/D/1, first come first served"),
            ("mg1_ps", "0", "mean of M/D/1, processor sharing"),
        ],
        ("M", _) => &[("mmc_fcfs", "1", "mean of M/M/c, first come first served")],
        _ => return None,
    };
    let solved = equations.iter().map(|(name, cv2, label)| {
        let arguments = [
            ("interarrival", interarrival),
            ("service", service),
            ("servers", &servers),
            ("cv2", cv2),
        ];
        let ms = equation::solve(name, &Arguments::new(&arguments)).ok()?;
        Some(Predicted {
            ns: report::rounded(ms * 1e6),
            label: (*label).to_owned(),
        })
    });
    solved.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(workload: &str, nr_cpus: u64, timeslice_ns: Option<u64>) -> Vec<f64> {
        let all = responses(workload, nr_cpus, timeslice_ns);
        all.iter().map(|predicted| predicted.ns as f64 / 1e6).collect()
    }

    #[test]
    fn closed_systems_follow_the_published_study() {
        let heavy = "closed:n=7,compute=250ms,start_cpu=0";
        // The expected values are those of Happe, Groenda and Reussner.
        assert_eq!(ms(heavy, 2, Some(100_000_000)), [650.0, 850.0, 1150.0]);
        assert_eq!(ms(heavy, 2, None), [750.0, 1000.0]);
        assert_eq!(ms("closed:n=7,compute=250ms,think=10ms", 2, None), [865.0]);
        assert_eq!(ms("closed:n=2,compute=250ms", 4, None), [250.0]);
        assert_eq!(ms("closed:n=7,compute=250ms,compute_dist=M", 2, None), [0.0; 0]);
    }

    #[test]
    fn open_systems_follow_queueing_theory() {
        assert_eq!(ms("open:interarrival=10ms,work=8ms,number=5", 1, None), [40.0]);
        assert_eq!(ms("open:interarrival=10ms,work=8ms,service=D", 1, None), [24.0, 40.0]);
        assert_eq!(ms("open:interarrival=5ms,work=8ms", 2, None), [22.222222]);
        // The first workload overloads the machine, so it has no steady state. No equation is known
        // for the second workload.
        assert_eq!(ms("open:interarrival=5ms,work=8ms", 1, None), [0.0; 0]);
        assert_eq!(ms("hackbench:groups=4", 4, None), [0.0; 0]);
    }
}
