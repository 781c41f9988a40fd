//! Who begins at an event: those that wait, in an order, as soon as what they need is free.

use super::room::Room;
use super::stage::Stage;
use crate::Summed;
use crate::board::LEAST_SHARE;

/// What the order of a list says.
#[derive(Clone, Debug)]
pub struct List {
    /// Place of each transfer in the order.
    pub rank: Vec<usize>,
    /// Who is to sum it, where that is not left open.
    pub by: Vec<Option<Summed>>,
    /// Nobody takes more circuits than end it by then, while others wait; 0: everybody takes all there are.
    pub aim_s: f64,
}

impl List {
    /// Transfers in an order.
    pub fn of(order: &[usize], aim_s: f64) -> Self {
        let mut rank = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, index)| rank[*index] = place);
        Self { rank, by: vec![None; order.len()], aim_s }
    }

    /// Gives rates to those that wait: those who must go on first, and then, with `add`, by the order, with new
    /// circuits.
    pub fn begin(&self, stage: &mut Stage<'_>, waiting: &mut Vec<usize>, add: bool) {
        let mut room = Room::new(stage);
        let next_use = self.next_uses(stage, waiting);
        raise(stage, &mut room, false, &next_use);
        if add {
            // Who must go on, and has lost its light, comes first.
            waiting.sort_by_key(|index| (!stage.must_go_on(*index), self.rank[*index]));
        }
        waiting.retain(|index| !self.start(stage, &mut room, *index, add, &next_use));
        stage.granted.sort_by_key(|index| self.rank[*index]);
        if add {
            raise(stage, &mut room, true, &next_use);
            tune_ahead(stage, &room, waiting, &next_use);
        }
    }

    /// For each pair, who needs it next: its rank.
    fn next_uses(&self, stage: &Stage<'_>, waiting: &[usize]) -> Vec<usize> {
        let mut next = vec![usize::MAX; stage.lit_s.len()];
        for index in waiting {
            for crossing in &stage.problem.transfers[*index].mode(Summed::ByServer).crossings {
                next[crossing.pair] = next[crossing.pair].min(self.rank[*index]);
            }
        }
        next
    }

    fn start(
        &self,
        stage: &mut Stage<'_>,
        room: &mut Room,
        index: usize,
        add: bool,
        next_use: &[usize],
    ) -> bool {
        let transfer = &stage.problem.transfers[index];
        let known = stage.summed[index].filter(|_| stage.has_begun[index]).or(self.by[index]);
        for summed in transfer.ways().rev().filter(|by| known.is_none_or(|known| known == *by)) {
            let mode = transfer.mode(summed);
            let own = mode.most / stage.problem.instance.slot_s;
            if !room.has_place(mode) {
                continue;
            }
            let rate = room.rate(stage, mode, self.width(stage, index, summed).min(own), add);
            if rate > LEAST_SHARE * own {
                stage.summed[index] = Some(summed);
                stage.grants[index] = rate;
                stage.granted.push(index);
                room.place(mode);
                take(stage, room, index, rate, next_use);
                return true;
            }
        }
        false
    }

    /// Bytes a second that fill the circuits which end a transfer by the aim.
    fn width(&self, stage: &Stage<'_>, index: usize, summed: Summed) -> f64 {
        let left_s = self.aim_s - stage.now_s - stage.problem.instance.dark_s;
        let crossings = &stage.problem.transfers[index].mode(summed).crossings;
        if self.aim_s == 0.0 {
            return f64::INFINITY;
        }
        let widths = crossings.iter().map(|crossing| {
            let bytes = stage.left[index] * crossing.times;
            let circuits = (bytes / stage.circuit_rate() / left_s.max(f64::MIN_POSITIVE)).ceil();
            circuits.max(1.0) * stage.circuit_rate() / crossing.times
        });
        widths.fold(f64::INFINITY, f64::min)
    }
}

/// Gives more to those that have a rate; with `add`, on new circuits, where these carry longer than they are dark.
fn raise(stage: &mut Stage<'_>, room: &mut Room, add: bool, next_use: &[usize]) {
    for position in 0..stage.granted.len() {
        let index = stage.granted[position];
        let (mode, granted) = (stage.mode(index), stage.grants[index]);
        let most = mode.most / stage.problem.instance.slot_s - granted;
        let is_long = stage.left[index] > 2.0 * granted * stage.problem.instance.dark_s;
        if most > LEAST_SHARE * granted && (is_long || !add) {
            let more = room.rate(stage, mode, most, add);
            if more > LEAST_SHARE * granted {
                stage.grants[index] += more;
                take(stage, room, index, more, next_use);
            }
        }
    }
}

/// Takes what a transfer was granted more, with the circuits that it needs.
fn take(stage: &mut Stage<'_>, room: &mut Room, index: usize, more: f64, next_use: &[usize]) {
    let mode = stage.mode(index);
    room.grant(stage, mode, more);
    for crossing in &mode.crossings {
        stage.light(room, crossing.pair, room.busy[crossing.pair], next_use);
    }
}

/// Circuits of those that wait for something else are tuned already, on ports that nobody uses.
fn tune_ahead(stage: &mut Stage<'_>, room: &Room, waiting: &[usize], next_use: &[usize]) {
    for index in waiting {
        for crossing in &stage.problem.transfers[*index].mode(Summed::ByServer).crossings {
            let units = stage.problem.pairs[crossing.pair];
            let is_dark = stage.lit_s[crossing.pair].len() <= room.busy[crossing.pair] as usize;
            let is_free = units.iter().all(|unit| stage.free_ports(*unit) > 0);
            if is_dark && is_free && stage.may_order(units) {
                let circuits = stage.lit_s[crossing.pair].len() as u32 + 1;
                stage.light(room, crossing.pair, circuits, next_use);
            }
        }
    }
}
