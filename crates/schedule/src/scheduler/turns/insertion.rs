//! The cheapest turn for one transfer on a board.

use crate::Summed;
use crate::board::{Board, LEAST_SHARE, Turn};
use crate::problem::{EPSILON, Mode, Transfer};

/// Price of a set-up, in circuits of a slot, while jobs have still to find room.
pub const SETUP: f64 = 0.05;
/// Price of a circuit at units without free ports, beyond that at units with all free.
const FULL: f64 = 1.0;
/// Price of a later slot, so that ties are early.
const LATE: f64 = 1e-6;

/// Rates below the highest one that are tried.
const MOST_LEVELS: usize = 8;

/// What a turn has to keep to.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// First slot.
    pub from: usize,
    /// Slot after the last.
    pub until: usize,
    /// Price of a set-up, in circuits of a slot.
    pub setup: f64,
    /// Price of each slot that the turn ends later.
    pub late: f64,
}

impl Span {
    /// Any time between two slots.
    pub fn new(from: usize, until: usize) -> Self {
        Self { from, until, setup: SETUP, late: LATE }
    }
}

/// The cheapest turn, and its price; None if there is no room.
pub fn cheapest(
    board: &mut Board<'_>,
    transfer: &Transfer,
    summed: Summed,
    span: Span,
) -> Option<(f64, Turn)> {
    let mode = transfer.mode(summed);
    if !transfer.contiguous {
        return pieces(board, transfer, summed, span);
    }
    let paces = paces(board, mode, transfer.bytes);
    let least = LEAST_SHARE * mode.most.min(transfer.bytes);
    let mut best: Option<(f64, Turn)> = None;
    for from in span.from..span.until {
        // A turn without circuits costs nothing but time: the first that fits is the cheapest.
        if best.is_some() && (mode.crossings.is_empty() || span.late > 1.0) {
            break;
        }
        if board.room(from, mode, true) <= least {
            continue;
        }
        for pace in &paces {
            let below = best.as_ref().map_or(f64::INFINITY, |(price, _)| *price);
            let mark = board.mark();
            let found = run_from(board, transfer, mode, from, span, *pace, below);
            board.undo(mark);
            if let Some((price, shares)) = found {
                best = Some((price, Turn { summed, shares }));
            }
        }
    }
    best
}

/// How fast a turn is.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Bytes in a slot at most.
    most: f64,
    /// Whether it leaves what would not fill a circuit to the next slot.
    is_thrifty: bool,
}

/// The rates that fill one circuit of its busiest pair, two circuits and so on; at last its own highest rate, thrifty
/// and not.
fn paces(board: &Board<'_>, mode: &Mode, bytes: f64) -> Vec<Pace> {
    let top = mode.most.min(bytes);
    let times = mode.crossings.iter().map(|crossing| crossing.times).fold(0.0, f64::max);
    if times == 0.0 {
        return vec![Pace { most: mode.most, is_thrifty: false }];
    }
    let circuit = board.problem.lit_bytes / times;
    let levels = (1..).map(|circuits| f64::from(circuits) * circuit);
    let levels = levels.take_while(|level| *level < top * (1.0 - EPSILON)).take(MOST_LEVELS);
    let levels = levels.map(|level| (level, false)).chain([(mode.most, false), (mode.most, true)]);
    levels.map(|(most, is_thrifty)| Pace { most, is_thrifty }).collect()
}

/// Slots in a row from one on, each as full as the pace lets it be, while they cost less than `below`.
fn run_from(
    board: &mut Board<'_>,
    transfer: &Transfer,
    mode: &Mode,
    from: usize,
    span: Span,
    pace: Pace,
    below: f64,
) -> Option<(f64, Vec<(usize, f64)>)> {
    let least = LEAST_SHARE * mode.most.min(transfer.bytes);
    let mut left = transfer.bytes;
    let mut price = 0.0;
    let mut shares = Vec::new();
    for slot in from..span.until {
        let mut bytes = board.room(slot, mode, true).min(left).min(pace.most);
        if pace.is_thrifty {
            bytes = without_a_part_circuit(board, slot, mode, bytes);
        }
        if bytes <= least {
            return None;
        }
        price += price_of(board, slot, mode, bytes, span.setup);
        if price + span.late * slot as f64 >= below {
            return None;
        }
        board.put(slot, mode, bytes);
        shares.push((slot, bytes));
        left -= bytes;
        // What rounding leaves over is worth neither a slot nor a circuit, and is not sent.
        if left <= EPSILON * transfer.bytes {
            return Some((price + span.late * slot as f64, shares));
        }
    }
    None
}

/// The bytes with which no new circuit of one pair is filled in part; the same if that is nothing.
fn without_a_part_circuit(board: &Board<'_>, slot: usize, mode: &Mode, bytes: f64) -> f64 {
    let [crossing] = mode.crossings[..] else { return bytes };
    let needed = board.circuits_for(slot, crossing, bytes);
    if needed <= board.circuits(slot, crossing.pair) {
        return bytes;
    }
    let fewer = board.bytes_with(slot, crossing, needed - 1);
    if fewer > 0.0 { fewer.min(bytes) } else { bytes }
}

/// Price of bytes in a slot: new circuits, dearer where ports are few, and set-ups.
fn price_of(board: &Board<'_>, slot: usize, mode: &Mode, bytes: f64, setup: f64) -> f64 {
    let mut price = 0.0;
    for crossing in &mode.crossings {
        let now = board.circuits(slot, crossing.pair);
        let needed = board.circuits_for(slot, *crossing, bytes).max(now);
        if needed == now {
            continue;
        }
        let full = board.problem.pairs[crossing.pair].map(|unit| board.fullness(slot, unit));
        let ports = 1.0 + FULL * (full[0] * full[0] + full[1] * full[1]);
        price += f64::from(needed - now) * ports;
        price += setup * board.setups_by(slot, crossing.pair, needed);
    }
    price
}

/// Pieces in any slots, where circuits have room first, then where ports are free, always in the order of slots.
fn pieces(
    board: &mut Board<'_>,
    transfer: &Transfer,
    summed: Summed,
    span: Span,
) -> Option<(f64, Turn)> {
    let mode = transfer.mode(summed);
    let mut shares = vec![0.0; span.until.saturating_sub(span.from)];
    let mut left = transfer.bytes;
    let mut price = 0.0;
    let mark = board.mark();
    let adds: &[bool] = if mode.crossings.is_empty() { &[false] } else { &[false, true] };
    for add in adds {
        for slot in span.from..span.until {
            let given = shares[slot - span.from];
            let room = board.room(slot, mode, *add).min(mode.most - given).min(left);
            let is_rest = left - room <= EPSILON * transfer.bytes;
            if room > LEAST_SHARE * transfer.bytes || (is_rest && room > 0.0) {
                price += price_of(board, slot, mode, room, span.setup);
                board.put(slot, mode, room);
                shares[slot - span.from] += room;
                // What rounding leaves over is worth neither a slot nor a circuit, and is not sent.
                left = if is_rest { 0.0 } else { left - room };
            }
        }
    }
    board.undo(mark);
    if left > 0.0 {
        return None;
    }
    let shares = shares.into_iter().enumerate().filter(|(_, bytes)| *bytes > 0.0);
    let shares = shares.map(|(slot, bytes)| (slot + span.from, bytes)).collect();
    Some((price, Turn { summed, shares }))
}
