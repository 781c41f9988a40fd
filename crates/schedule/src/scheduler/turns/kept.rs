//! Circuits that nobody needs for a while stay lit until somebody needs their ports.

use crate::board::Board;

/// Never.
const NEVER: u32 = u32::MAX;

/// Keeps idle circuits lit in all slots, those that are needed soonest first.
pub fn keep(board: &mut Board<'_>) {
    let pairs = board.problem.pairs.len();
    let next_uses = next_uses(board);
    for (slot, next_use) in next_uses.chunks_exact(pairs.max(1)).enumerate() {
        let is_idle = |pair: &usize| board.lit(slot, *pair) > board.circuits(slot, *pair);
        let mut idle: Vec<(u32, usize)> =
            (0..pairs).filter(is_idle).map(|pair| (next_use[pair], pair)).collect();
        idle.sort_unstable();
        for (_, pair) in idle {
            let more = board.lit(slot, pair) - board.circuits(slot, pair);
            board.light(slot, pair, more);
        }
    }
}

/// Set-ups in all slots if idle circuits are kept like that; the board stays as it is.
pub fn setups(board: &mut Board<'_>) -> usize {
    let mark = board.mark();
    keep(board);
    let setups = board.setups();
    board.undo(mark);
    setups
}

/// For each slot and pair, the next slot after it with more circuits than in it.
fn next_uses(board: &Board<'_>) -> Vec<u32> {
    let pairs = board.problem.pairs.len();
    let mut next_uses = vec![NEVER; pairs * board.slots()];
    for slot in (0..board.slots().saturating_sub(1)).rev() {
        let (now, later) = next_uses[slot * pairs..].split_at_mut(pairs);
        for (pair, (now, later)) in now.iter_mut().zip(&*later).enumerate() {
            let needs_more = board.circuits(slot + 1, pair) > board.circuits(slot, pair);
            *now = if needs_more { slot as u32 + 1 } else { *later };
        }
    }
    next_uses
}
