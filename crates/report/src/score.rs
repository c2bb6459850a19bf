// SPDX-License-Identifier: GPL-2.0-only
//! Computes the score: the result of a run as one number in the unit of the workload.

use crate::result::{Throughput, decimals, ratio};
use serde::{Deserialize, Serialize};

/// Whether higher or lower values are better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    #[default]
    Higher,
    Lower,
}

/// Measurements from which scores are computed.
pub(crate) struct Measured<'a> {
    /// Time in ns from the start of the measurement to the end of the run.
    pub ns: u64,
    pub throughput: &'a Throughput,
    pub switches: u64,
    /// Number of requests for which a response time is known.
    pub responses: u64,
    /// Mean response time in ns.
    pub response_ns: u64,
    /// Whether all tasks have exited.
    pub completed: bool,
}

/// A score: the number (`None` if the run has no score), its unit, and whether higher or lower
/// values are better.
pub(crate) struct Score {
    pub value: Option<f64>,
    pub unit: String,
    pub better: Better,
}

/// Computes the score of the given kind.
pub(crate) fn score(kind: workload::Score, m: &Measured) -> Score {
    let operations = m.throughput.operations;
    let (value, unit, better) = match kind {
        workload::Score::OperationsPerSecond => {
            let operation = match m.throughput.unit.as_str() {
                "" => "operations",
                unit => unit,
            };
            let value = (operations > 0).then_some(m.throughput.per_second);
            (value, format!("{operation}/s"), Better::Higher)
        }
        workload::Score::CompletionTime => (m.completed.then(|| decimals(m.ns, 9)), "s".into(), Better::Lower),
        workload::Score::TimePerOperation => {
            let ns = ratio(u128::from(m.ns), u128::from(operations), 1);
            ((operations > 0).then(|| decimals(ns, 3)), "us/op".into(), Better::Lower)
        }
        workload::Score::SwitchesPerSecond => {
            let tenths = ratio(u128::from(m.switches) * 1_000_000_000, u128::from(m.ns), 10);
            (Some(decimals(tenths, 1)), "switches/s".into(), Better::Higher)
        }
        workload::Score::MeanResponse => {
            let value = (m.responses > 0).then(|| decimals(m.response_ns, 6));
            (value, "ms".into(), Better::Lower)
        }
    };
    Score { value, unit, better }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Score as ScoreKind;

    #[test]
    fn every_kind_of_score_has_its_unit() {
        let throughput = Throughput {
            unit: "messages".into(),
            operations: 3000,
            per_second: 1500.0,
        };
        let measured = Measured {
            ns: 2_000_000_000,
            throughput: &throughput,
            switches: 5001,
            responses: 10,
            response_ns: 1_234_567,
            completed: true,
        };
        for (kind, value, unit, better) in [
            (ScoreKind::OperationsPerSecond, 1500.0, "messages/s", Better::Higher),
            (ScoreKind::CompletionTime, 2.0, "s", Better::Lower),
            (ScoreKind::TimePerOperation, 666.667, "us/op", Better::Lower),
            (ScoreKind::SwitchesPerSecond, 2500.5, "switches/s", Better::Higher),
            (ScoreKind::MeanResponse, 1.234567, "ms", Better::Lower),
        ] {
            let score = score(kind, &measured);
            assert_eq!(
                (score.value, score.unit.as_str(), score.better),
                (Some(value), unit, better)
            );
        }
    }

    #[test]
    fn a_run_without_operations_responses_or_an_end_has_no_score() {
        let measured = Measured {
            ns: 1000,
            throughput: &Throughput::default(),
            switches: 0,
            responses: 0,
            response_ns: 0,
            completed: false,
        };
        for kind in [
            ScoreKind::OperationsPerSecond,
            ScoreKind::CompletionTime,
            ScoreKind::TimePerOperation,
            ScoreKind::MeanResponse,
        ] {
            assert_eq!(score(kind, &measured).value, None, "{kind:?}");
        }
        assert_eq!(score(ScoreKind::OperationsPerSecond, &measured).unit, "operations/s");
        assert_eq!(score(ScoreKind::SwitchesPerSecond, &measured).value, Some(0.0));
    }
}
