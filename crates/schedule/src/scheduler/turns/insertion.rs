//! The cheapest turn for one transfer on a board.

use crate::Summed;
use crate::board::{Board, LEAST_SHARE, Turn};
use crate::problem::{EPSILON, Mode, Transfer};

/// Price of a circuit at units without free ports, beyond that at units with all free.
const FULL: f64 = 1.0;

/// Rates below the highest one that are tried.
const MOST_LEVELS: usize = 8;

/// What a turn costs besides its circuits, each of which costs 1 to 3 in a slot.
#[derive(Clone, Copy, Debug)]
pub struct Prices {
    /// A set-up.
    pub setup: f64,
    /// A place in a slot.
    pub place: f64,
    /// Each slot that the turn ends later.
    pub late: f64,
}

impl Prices {
    /// While jobs have still to find room: ties are early.
    pub const ROOM: Self = Self { setup: 0.05, place: 0.0, late: 1e-6 };
    /// While set-ups are what is made fewer.
    pub const SETUPS: Self = Self { setup: 20.0, place: 5.0, late: 1e-6 };
}

/// What a turn has to keep to.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// First slot.
    pub from: usize,
    /// Slot after the last.
    pub until: usize,
    /// What it costs.
    pub prices: Prices,
}

/// The cheapest turn, and its price; None if there is no room.
pub fn cheapest(
    board: &mut Board<'_>,
    transfer: &Transfer,
    summed: Summed,
    span: Span,
) -> Option<(f64, Turn)> {
    if !transfer.contiguous {
        return pieces(board, transfer, summed, span);
    }
    let run = Run::new(board, transfer, summed, span);
    let most = run.most_bytes(board);
    let is_first_cheapest = run.mode.crossings.is_empty() || span.prices.late > 1.0;
    let mut best: Option<(f64, Shares)> = None;
    for from in span.from..(span.until + 1).saturating_sub(run.fewest) {
        let below = best.as_ref().map_or(f64::INFINITY, |(price, _)| *price);
        let is_too_late = span.prices.late * (from + run.fewest - 1) as f64 >= below;
        if is_too_late || (best.is_some() && is_first_cheapest) {
            break;
        }
        if most[from - span.from] >= run.bytes * (1.0 - EPSILON) {
            best = run.from(board, from, below).or(best);
        }
    }
    best.map(|(price, shares)| (price, Turn { summed, shares }))
}

/// Slot and bytes, in order of slots.
type Shares = Vec<(usize, f64)>;

/// How fast a turn is.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Bytes in a slot at most.
    most: f64,
    /// Whether it leaves what would not fill a circuit to the next slot.
    is_thrifty: bool,
}

/// What has to be sent in slots in a row.
struct Run<'t> {
    mode: &'t Mode,
    bytes: f64,
    /// Bytes of a slot below which it does not count as sending.
    least: f64,
    /// Slots that it takes at least.
    fewest: usize,
    span: Span,
    paces: Vec<Pace>,
}

impl<'t> Run<'t> {
    fn new(board: &Board<'_>, transfer: &'t Transfer, summed: Summed, span: Span) -> Self {
        let mode = transfer.mode(summed);
        Self {
            mode,
            bytes: transfer.bytes,
            least: LEAST_SHARE * mode.most.min(transfer.bytes),
            fewest: transfer.least_slots(summed).max(1),
            span,
            paces: paces(board, mode, transfer.bytes),
        }
    }

    /// For each slot of the span, the most bytes from then on without a pause.
    fn most_bytes(&self, board: &Board<'_>) -> Vec<f64> {
        let mut most = vec![0.0; self.span.until.saturating_sub(self.span.from)];
        let mut later = 0.0;
        for (slot, most) in (self.span.from..self.span.until).zip(&mut most).rev() {
            let room = board.most_room(slot, self.mode);
            later = if room > self.least { room + later } else { 0.0 };
            *most = later;
        }
        most
    }

    /// The cheapest from a slot on, if it costs less than `below`.
    fn from(&self, board: &mut Board<'_>, from: usize, mut below: f64) -> Option<(f64, Shares)> {
        let mut best = None;
        let mut is_slowed = true;
        for pace in &self.paces {
            // What did not slow it does not slow it at a higher pace either.
            if !is_slowed && !pace.is_thrifty {
                continue;
            }
            let mark = board.mark();
            let found;
            (found, is_slowed) = self.at(board, from, *pace, below);
            board.undo(mark);
            if let Some((price, _)) = &found {
                below = *price;
                best = found;
            }
        }
        best
    }

    /// Slots in a row from one on, each as full as the pace lets it be, while they cost less than `below`; and whether
    /// the pace was slower than the room.
    fn at(
        &self,
        board: &mut Board<'_>,
        from: usize,
        pace: Pace,
        below: f64,
    ) -> (Option<(f64, Shares)>, bool) {
        let Self { mode, span, .. } = *self;
        let (mut left, mut price, mut is_slowed) = (self.bytes, 0.0, false);
        let mut shares = Vec::new();
        for slot in from..span.until {
            let room = board.room(slot, mode, true).min(left);
            is_slowed |= room > pace.most;
            let mut bytes = room.min(pace.most);
            if pace.is_thrifty {
                bytes = without_a_part_circuit(board, slot, mode, bytes);
            }
            if bytes <= self.least {
                break;
            }
            price += price_of(board, slot, mode, bytes, span.prices);
            if price + span.prices.late * slot as f64 >= below {
                break;
            }
            board.put(slot, mode, bytes);
            shares.push((slot, bytes));
            left -= bytes;
            // What rounding leaves over is worth neither a slot nor a circuit, and is not sent.
            if left <= EPSILON * self.bytes {
                return (Some((price + span.prices.late * slot as f64, shares)), is_slowed);
            }
        }
        (None, is_slowed)
    }
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

/// Price of bytes in a slot: new circuits, dearer where ports are few, set-ups, and places.
fn price_of(board: &Board<'_>, slot: usize, mode: &Mode, bytes: f64, prices: Prices) -> f64 {
    let mut price = prices.place * mode.places.len() as f64;
    for crossing in &mode.crossings {
        let now = board.circuits(slot, crossing.pair);
        let needed = board.circuits_for(slot, *crossing, bytes).max(now);
        if needed == now {
            continue;
        }
        let full = board.problem.pairs[crossing.pair].map(|unit| board.fullness(slot, unit));
        let ports = 1.0 + FULL * (full[0] * full[0] + full[1] * full[1]);
        price += f64::from(needed - now) * ports;
        price += prices.setup * board.setups_by(slot, crossing.pair, needed);
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
                price += price_of(board, slot, mode, room, span.prices);
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
