//! Circuits to the units that have most left, for batches of flows: whoever is busiest must not wait.
//!
//! A batch of flows that may pause ends as soon as its busiest unit does, if that unit's ports carry all the time
//! (preemptive open shop). So in each slot pairs get circuits in the order of what is left at the busier of their two
//! units, in slots of its ports. A circuit that is lit stays while its unit is little behind others, as a new one is
//! dark first. A pair has as few circuits as end it with the batch: parallel ones would each be dark once.

use super::ordered::{go_on_slowly, refuse_synchronous, serve_all};
use super::slots::Now;
use super::{Options, Slots};
use crate::ScheduleError;
use crate::Summed;
use crate::board::Board;
use crate::problem::{Problem, whole};

/// Slots by which a unit may have more left than another without taking the ports of its lit circuits.
const PATIENCE: f64 = 10.0;

/// The circuits of a slot: first those that the busiest units need, then more where ports are free.
///
/// # Errors
/// A synchronous job needs a circuit that moves on while it sends.
pub fn run<'a>(problem: &'a Problem<'a>, _: &Options) -> Result<Slots<'a>, ScheduleError> {
    refuse_synchronous(problem)?;
    Ok(Slots::new(Board::new(problem, 0), true, move |now| {
        let left = left_by_pair(now);
        for pair in needed_first(now, &left) {
            now.board.light(now.slot, pair, 1);
        }
        for pair in longest_first(now, &left) {
            let lit = f64::from(now.board.circuits(now.slot, pair));
            let more = whole(left[pair] - lit).max(0.0);
            now.board.light(now.slot, pair, more as u32);
        }
        now.may_add = false;
        go_on_slowly(now);
        serve_all(now);
    }))
}

/// What each pair has to send, in slots of a circuit, in its busier direction.
fn left_by_pair(now: &Now<'_>) -> Vec<f64> {
    let problem = now.problem();
    let mut lanes = vec![[0.0; 2]; problem.pairs.len()];
    for index in now.open() {
        for crossing in &problem.transfers[index].mode(Summed::ByServer).crossings {
            for lane in crossing.lanes() {
                lanes[crossing.pair][lane] += now.left[index] * crossing.times;
            }
        }
    }
    lanes.into_iter().map(|[up, down]| up.max(down) / problem.lit_bytes).collect()
}

/// Pairs once for each circuit that they need to end with the batch, those of the busiest units first.
fn needed_first(now: &Now<'_>, left: &[f64]) -> Vec<usize> {
    let problem = now.problem();
    let mut units = vec![0.0; problem.units()];
    for (pair, slots) in left.iter().enumerate() {
        for unit in problem.pairs[pair] {
            units[unit] += slots / f64::from(now.board.ports()[unit].max(1));
        }
    }
    let ends = units.iter().copied().fold(1.0, f64::max);
    let mut needs = Vec::new();
    for (pair, slots) in left.iter().enumerate().filter(|(_, slots)| **slots > 0.0) {
        let lit = now.board.lit(now.slot, pair);
        let [a, b] = problem.pairs[pair].map(|unit| units[unit]);
        for circuit in 0..whole(slots / ends).max(1.0) as u32 {
            let stays = if circuit < lit { PATIENCE } else { 0.0 };
            needs.push((a.max(b) + stays, pair));
        }
    }
    needs.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    needs.into_iter().map(|(_, pair)| pair).collect()
}

/// Pairs by what is left beside the circuits that they have, the longest first.
fn longest_first(now: &Now<'_>, left: &[f64]) -> Vec<usize> {
    let rest = |pair: usize| left[pair] - f64::from(now.board.circuits(now.slot, pair));
    let mut pairs: Vec<(f64, usize)> = (0..left.len()).map(|pair| (rest(pair), pair)).collect();
    pairs.retain(|(rest, _)| *rest > 0.0);
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    pairs.into_iter().map(|(_, pair)| pair).collect()
}
