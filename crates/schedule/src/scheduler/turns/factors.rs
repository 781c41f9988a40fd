//! Circuits for flows that may pause: counted over all slots, then dealt to them by Petersen's 2-factors.

use std::collections::BTreeMap;

use crate::Summed;
use crate::board::Board;
use crate::petersen;
use crate::problem::{Problem, whole};

/// Whether all transfers are flows that are there from the begin on.
pub fn suit(problem: &Problem<'_>) -> bool {
    problem.transfers.iter().all(|transfer| {
        let is_one_pair = transfer.mode(Summed::ByServer).crossings.len() <= 1;
        is_one_pair && !transfer.contiguous && transfer.release == 0
    })
}

/// Lights an empty board with what all transfers need, where each circuit is taken to be new in its slot.
pub fn light(board: &mut Board<'_>) {
    let problem = board.problem;
    let mut loads = vec![[0.0; 2]; problem.pairs.len()];
    for transfer in &problem.transfers {
        for crossing in &transfer.mode(Summed::ByServer).crossings {
            for lane in crossing.lanes() {
                loads[crossing.pair][lane] += transfer.bytes * crossing.times;
            }
        }
    }
    let carried = problem.lit_bytes - problem.dark_bytes;
    let circuits: Vec<([usize; 2], u32)> = problem
        .pairs
        .iter()
        .zip(loads)
        .map(|(units, [up, down])| (*units, whole(up.max(down) / carried) as u32))
        .collect();
    let pairs: BTreeMap<[usize; 2], usize> =
        problem.pairs.iter().enumerate().map(|(pair, units)| (*units, pair)).collect();
    let ports = (0..problem.units()).map(|unit| problem.ports(unit)).min().unwrap_or(0);
    let (slots, _) = petersen::split(problem.units(), ports, board.slots(), &circuits);
    for (slot, circuits) in slots.into_iter().enumerate() {
        for (units, count) in circuits {
            board.light(slot, pairs[&units], count);
        }
    }
}
