//! What is still free for those that wait: rates of switches, places, circuits and ports, beside what is granted.

use super::stage::Stage;
use crate::problem::{Crossing, Mode, whole};

/// What is granted of every resource.
pub struct Room {
    /// Bytes a second on each lane of each pair.
    lanes: Vec<f64>,
    /// Bytes a second that pools have left.
    pools: Vec<f64>,
    /// Places that are free.
    places: Vec<u32>,
    /// Circuits of each pair that are needed for what is granted.
    pub busy: Vec<u32>,
    /// Ports of each unit without such circuits.
    ports: Vec<u32>,
}

impl Room {
    /// Beside all that are granted something.
    pub fn new(stage: &Stage<'_>) -> Self {
        let problem = stage.problem;
        let slot_s = problem.instance.slot_s;
        let mut room = Self {
            lanes: vec![0.0; problem.pairs.len() * problem.lanes],
            pools: problem.pools.iter().map(|bytes| bytes / slot_s).collect(),
            places: problem.instance.units.iter().map(|unit| unit.places).collect(),
            busy: vec![0; problem.pairs.len()],
            ports: stage.ports.clone(),
        };
        for index in &stage.granted {
            room.place(stage.mode(*index));
            room.grant(stage, stage.mode(*index), stage.grants[*index]);
        }
        room
    }

    /// Whether a transfer that waits would find its place.
    pub fn has_place(&self, mode: &Mode) -> bool {
        mode.places.iter().all(|unit| self.places[*unit] > 0)
    }

    /// Takes its places.
    pub fn place(&mut self, mode: &Mode) {
        for unit in &mode.places {
            self.places[*unit] = self.places[*unit].saturating_sub(1);
        }
    }

    /// Takes so much of everything.
    pub fn grant(&mut self, stage: &Stage<'_>, mode: &Mode, rate: f64) {
        let problem = stage.problem;
        mode.pools.iter().for_each(|(pool, times)| self.pools[*pool] -= rate * times);
        for crossing in &mode.crossings {
            for lane in problem.lanes_of(crossing) {
                self.lanes[lane] += rate * crossing.times;
            }
            let load = self.busier(stage, crossing);
            let needed = whole(load / stage.circuit_rate()) as u32;
            let more = needed.saturating_sub(self.busy[crossing.pair]);
            self.busy[crossing.pair] += more;
            for unit in problem.pairs[crossing.pair] {
                self.ports[unit] = self.ports[unit].saturating_sub(more);
            }
        }
    }

    /// The highest rate that a transfer could have beyond what it has, at most so much; with `add`, on new circuits.
    pub fn rate(&self, stage: &Stage<'_>, mode: &Mode, most: f64, add: bool) -> f64 {
        let pools = mode.pools.iter().map(|(pool, times)| self.pools[*pool] / times);
        let mut rate = pools.fold(most, f64::min).max(0.0);
        while rate > 0.0 {
            // The highest rate below this one that needs a circuit fewer.
            let mut below: f64 = 0.0;
            let mut more: Vec<(usize, u32)> = Vec::with_capacity(mode.crossings.len());
            let mut is_lit = true;
            for crossing in &mode.crossings {
                let load = self.busier(stage, crossing);
                let circuit = stage.circuit_rate();
                let needed = whole((load + rate * crossing.times) / circuit) as u32;
                if needed > self.busy[crossing.pair] {
                    more.push((crossing.pair, needed - self.busy[crossing.pair]));
                    below = below.max((f64::from(needed - 1) * circuit - load) / crossing.times);
                    let units = stage.problem.pairs[crossing.pair];
                    is_lit &= needed as usize <= stage.lit_s[crossing.pair].len()
                        || (add && stage.may_order(units));
                }
            }
            if is_lit && self.has_ports(stage, &more) {
                return rate;
            }
            rate = if below < rate { below } else { 0.0 };
        }
        0.0
    }

    /// Bytes a second on the busier one of the lanes that a transfer takes.
    fn busier(&self, stage: &Stage<'_>, crossing: &Crossing) -> f64 {
        self.lanes[stage.problem.lanes_of(crossing)].iter().copied().fold(0.0, f64::max)
    }

    fn has_ports(&self, stage: &Stage<'_>, more: &[(usize, u32)]) -> bool {
        more.iter().flat_map(|(pair, _)| stage.problem.pairs[*pair]).all(|unit| {
            let here = more.iter().filter(|(pair, _)| stage.problem.pairs[*pair].contains(&unit));
            here.map(|(_, count)| *count).sum::<u32>() <= self.ports[unit]
        })
    }
}
