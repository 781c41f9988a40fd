//! Circuits, and who sends how fast, at a moment: what the schedulers without slots change, event by event.

use super::room::Room;
use crate::problem::{Crossing, EPSILON, Mode, Problem};
use crate::scheduler::{Share, Slot};
use crate::{Darkens, Summed};

/// Times that are nearer than so many slots, or parts of the time that has passed, are one.
const SAME: f64 = 1e-12;

/// Everything at a moment. Rates are in bytes a second.
#[derive(Clone)]
pub struct Stage<'a> {
    pub problem: &'a Problem<'a>,
    pub now_s: f64,
    /// Bytes that each transfer has still to send.
    pub left: Vec<f64>,
    /// How it is summed, once it has been given a rate.
    pub summed: Vec<Option<Summed>>,
    /// Whether it has sent a byte.
    pub has_begun: Vec<bool>,
    /// Rate that is kept free for it: it sends so fast once its circuits have light. 0 while it waits.
    pub grants: Vec<f64>,
    /// Those with a rate, in the order of their priority.
    pub granted: Vec<usize>,
    /// For each pair, when each of its circuits has light, oldest first.
    pub lit_s: Vec<Vec<f64>>,
    /// Ports of each unit that work.
    pub ports: Vec<u32>,
    rates: Vec<f64>,
}

impl<'a> Stage<'a> {
    /// Before the first event.
    pub fn new(problem: &'a Problem<'a>) -> Self {
        let count = problem.transfers.len();
        Self {
            problem,
            now_s: 0.0,
            left: problem.transfers.iter().map(|transfer| transfer.bytes).collect(),
            summed: vec![None; count],
            has_begun: vec![false; count],
            grants: vec![0.0; count],
            granted: Vec::new(),
            lit_s: problem.before.iter().map(|count| vec![0.0; *count as usize]).collect(),
            ports: (0..problem.units()).map(|unit| problem.ports(unit)).collect(),
            rates: vec![0.0; count],
        }
    }

    /// Bytes a second that a circuit carries.
    pub fn circuit_rate(&self) -> f64 {
        self.problem.lit_bytes / self.problem.instance.slot_s
    }

    /// How a transfer that has a rate is carried.
    pub fn mode(&self, index: usize) -> &'a Mode {
        self.problem.transfers[index].mode(self.summed[index].unwrap_or_default())
    }

    /// Times that are nearer are one.
    pub fn instant_s(&self) -> f64 {
        SAME * (self.problem.instance.slot_s + self.now_s)
    }

    /// Whether it must send until its end.
    pub fn must_go_on(&self, index: usize) -> bool {
        self.has_begun[index] && self.problem.transfers[index].contiguous && self.left[index] > 0.0
    }

    /// Circuits of a pair that have light.
    fn lit(&self, pair: usize) -> usize {
        let until_s = self.now_s + self.instant_s();
        self.lit_s[pair].iter().filter(|at_s| **at_s <= until_s).count()
    }

    /// The lanes that a transfer takes, and bytes on each for each of its own.
    fn lanes(&self, crossing: &Crossing) -> impl Iterator<Item = (usize, f64)> + use<> {
        let times = crossing.times;
        self.problem.lanes_of(crossing).map(move |lane| (lane, times))
    }

    /// Adds circuits between a pair until it has so many, on free ports and on those of circuits that nobody uses:
    /// those of pairs that are needed last go first.
    pub fn light(&mut self, room: &Room, pair: usize, circuits: u32, next_use: &[usize]) {
        while self.lit_s[pair].len() < circuits as usize {
            for unit in self.problem.pairs[pair] {
                if self.used_ports(unit) >= self.ports[unit] {
                    let idle = |other: &usize| {
                        let is_idle = self.lit_s[*other].len() > room.busy[*other] as usize;
                        *other != pair && is_idle && self.problem.pairs[*other].contains(&unit)
                    };
                    let last = (0..self.lit_s.len()).filter(idle).max_by_key(|p| next_use[*p]);
                    let Some(last) = last else { return };
                    self.lit_s[last].pop();
                }
            }
            self.lit_s[pair].push(self.now_s + self.problem.instance.dark_s);
            self.darken(pair);
        }
    }

    /// Whether circuits of these units may be ordered: nobody's light goes who must go on.
    pub fn may_order(&self, units: [usize; 2]) -> bool {
        let goes_dark = |pair: usize| match self.problem.instance.darkens {
            Darkens::Added => false,
            Darkens::Units => self.problem.pairs[pair].iter().any(|unit| units.contains(unit)),
            Darkens::All => true,
        };
        !self.granted.iter().any(|index| {
            self.must_go_on(*index) && self.mode(*index).crossings.iter().any(|c| goes_dark(c.pair))
        })
    }

    /// What a new circuit darkens beyond itself.
    pub fn darken(&mut self, added: usize) {
        let darkens = self.problem.instance.darkens;
        let light_s = self.now_s + self.problem.instance.dark_s;
        let units = self.problem.pairs[added];
        for (pair, lit) in self.problem.pairs.iter().zip(&mut self.lit_s) {
            let touches = pair.iter().any(|unit| units.contains(unit));
            if darkens == Darkens::All || (darkens == Darkens::Units && touches) {
                lit.iter_mut().for_each(|lit_s| *lit_s = light_s);
            }
        }
    }

    /// Ports of a unit without a circuit.
    pub fn free_ports(&self, unit: usize) -> u32 {
        self.ports[unit].saturating_sub(self.used_ports(unit))
    }

    /// Those that may pause give up what was granted to them on circuits.
    pub fn pause(&mut self, waiting: &mut Vec<usize>) {
        let may_pause = |index: &usize| !self.mode(*index).crossings.is_empty();
        let (paused, kept): (Vec<usize>, Vec<usize>) =
            self.granted.iter().partition(|index| may_pause(index));
        self.granted = kept;
        for index in paused {
            self.grants[index] = 0.0;
            waiting.push(index);
        }
        waiting.sort_unstable();
    }

    fn used_ports(&self, unit: usize) -> u32 {
        let pairs = self.problem.pairs.iter().zip(&self.lit_s);
        pairs.filter(|(pair, _)| pair.contains(&unit)).map(|(_, lit)| lit.len() as u32).sum()
    }

    /// Gives rates to those that have light, as they were granted: first those who must go on what they had.
    pub fn send(&mut self) {
        let before = std::mem::replace(&mut self.rates, vec![0.0; self.left.len()]);
        let mut lanes = Vec::with_capacity(self.lit_s.len() * self.problem.lanes);
        for pair in 0..self.lit_s.len() {
            let lit = self.lit(pair) as f64 * self.circuit_rate();
            lanes.extend(std::iter::repeat_n(lit, self.problem.lanes));
        }
        for goes_on in [true, false] {
            for &index in &self.granted {
                let granted = self.grants[index];
                let most = match goes_on {
                    true if self.must_go_on(index) => before[index].min(granted),
                    true => continue,
                    false => granted,
                };
                let crossings = &self.mode(index).crossings;
                let taken = || crossings.iter().flat_map(|one| self.lanes(one));
                let lit = taken().map(|(lane, times)| lanes[lane] / times);
                let more = lit.fold(most - self.rates[index], f64::min);
                // What rounding leaves of a lane is nothing.
                if more > EPSILON * granted {
                    taken().for_each(|(lane, times)| lanes[lane] -= more * times);
                    self.rates[index] += more;
                }
            }
        }
    }

    /// When something changes by itself: a transfer ends, or a circuit gets light.
    pub fn next_s(&self) -> f64 {
        let soon_s = self.now_s + self.instant_s();
        let ends = self.granted.iter().filter(|index| self.rates[**index] > 0.0);
        let ends =
            ends.map(|index| (self.now_s + self.left[*index] / self.rates[*index]).max(soon_s));
        let lights = self.lit_s.iter().flatten().copied().filter(|at_s| *at_s > soon_s);
        ends.chain(lights).fold(f64::INFINITY, f64::min)
    }

    /// Lets time pass in which nothing changes; returns what happened in it. Who has sent all has no rate any more.
    pub fn pass(&mut self, until_s: f64) -> Slot {
        let seconds = until_s - self.now_s;
        let instant_s = self.instant_s();
        let mut shares = Vec::new();
        for index in std::mem::take(&mut self.granted) {
            let rate = self.rates[index];
            if rate > 0.0 {
                self.has_begun[index] = true;
                let summed = self.summed[index].unwrap_or_default();
                shares.push(Share { transfer: index, summed, bytes: rate * seconds });
                self.left[index] -= rate * seconds;
            }
            let dust = (EPSILON * self.problem.transfers[index].bytes).max(rate * instant_s);
            if self.left[index] <= dust {
                (self.left[index], self.grants[index]) = (0.0, 0.0);
            } else {
                self.granted.push(index);
            }
        }
        shares.sort_by_key(|share| share.transfer);
        self.now_s += seconds;
        let circuits = self.lit_s.iter().map(|lit| lit.len() as u32).collect();
        Slot { seconds, circuits, shares }
    }

    /// Learns what was sent, and what is lit and works; if that is not as it was left, all rates are given anew.
    pub fn observe(&mut self, left: &[f64], circuits: &[u32], ports: &[u32]) {
        self.left.copy_from_slice(left);
        let was = self.lit_s.iter().map(|lit| lit.len() as u32);
        if !was.eq(circuits.iter().copied()) || self.ports != ports {
            let light_s = self.now_s + self.problem.instance.dark_s;
            for (lit, count) in self.lit_s.iter_mut().zip(circuits) {
                lit.resize(*count as usize, light_s);
            }
            self.ports.copy_from_slice(ports);
            self.granted.clear();
            self.grants.fill(0.0);
        }
        self.granted.retain(|index| self.left[*index] > 0.0);
    }
}
