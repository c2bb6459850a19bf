// SPDX-License-Identifier: GPL-2.0-only
//! Counts migrations by pair of CPUs, by reason and by distance.

use serde::Serialize;
use trace::{CpuPosition, MigrateReason};

pub const REASONS: [&str; 5] = ["wake-up", "fork", "exec", "balance", "affinity"];
pub const DISTANCES: [&str; 4] = ["same core", "same LLC", "same node", "other node"];

/// Migrations of one run.
#[derive(Clone, Debug)]
pub struct Moves {
    positions: Vec<CpuPosition>,
    /// Number of migrations, indexed by source and target CPU.
    matrix: Vec<u32>,
    /// Number of migrations, indexed by reason and distance.
    pub by_reason: [[u64; 4]; 5],
}

/// A pair of CPUs with migrations: source, target, number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cell(pub u32, pub u32, pub u32);

impl Moves {
    pub fn new(positions: &[CpuPosition]) -> Moves {
        Moves {
            positions: positions.to_vec(),
            matrix: vec![0; positions.len() * positions.len()],
            by_reason: [[0; 4]; 5],
        }
    }

    pub fn add(&mut self, from: u32, to: u32, reason: MigrateReason) {
        let cell = &mut self.matrix[from as usize * self.positions.len() + to as usize];
        *cell = cell.saturating_add(1);
        let reason = match reason {
            MigrateReason::Wakeup => 0,
            MigrateReason::Fork => 1,
            MigrateReason::Exec => 2,
            MigrateReason::Balance => 3,
            MigrateReason::Affinity => 4,
        };
        self.by_reason[reason][self.distance(from, to)] += 1;
    }

    /// Returns all pairs of CPUs with migrations.
    pub fn cells(&self) -> Vec<Cell> {
        let n = u32::try_from(self.positions.len()).unwrap_or(u32::MAX);
        let cells = self.matrix.iter().zip(0u32..);
        cells
            .filter(|&(&number, _)| number > 0)
            .map(|(&number, at)| Cell(at / n, at % n, number))
            .collect()
    }

    fn distance(&self, from: u32, to: u32) -> usize {
        let (from, to) = (self.positions[from as usize], self.positions[to as usize]);
        match () {
            () if from.node != to.node => 3,
            () if from.llc != to.llc => 2,
            () if from.core != to.core => 1,
            () => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_counted_by_cpus_reason_and_distance() {
        let positions: Vec<CpuPosition> = (0..8)
            .map(|cpu| CpuPosition {
                core: cpu / 2,
                llc: cpu / 4,
                node: 0,
            })
            .collect();
        let mut moves = Moves::new(&positions);
        moves.add(0, 1, MigrateReason::Wakeup);
        moves.add(0, 1, MigrateReason::Balance);
        moves.add(7, 0, MigrateReason::Balance);
        assert_eq!(moves.cells(), [Cell(0, 1, 2), Cell(7, 0, 1)]);
        assert_eq!((moves.by_reason[0], moves.by_reason[3]), ([1, 0, 0, 0], [1, 0, 1, 0]));
    }
}
