//! Circuits for traffic that may pause, so that no unit falls behind: preemptive open shop on a general graph.
//!
//! Let T be the time in which the busiest unit's ports carry what it has left. Half of each pair's bytes go one way and
//! half the other: a bipartite matrix, whose rows and columns sum to T × P / 2 once idle ports are its diagonal. It is a
//! sum of matchings with P / 2 circuits at each side of each unit (Birkhoff; Gonzalez and Sahni 1976 for open shops).
//! One of them is lit until a pair has nothing left, or a unit no idle time. There are at most as many as pairs and
//! units, and without darkness all is sent after T, which is the least time for even P. A port too many stays idle.

use super::stage::Stage;
use crate::problem::{EPSILON, Problem};

/// Circuits in both directions of a matching, kept from event to event.
#[derive(Clone, Debug)]
pub struct Factors {
    /// From unit to unit; on the diagonal, idle ports.
    matched: Vec<Vec<u32>>,
    /// Until when they stay.
    until_s: f64,
}

/// What is left, in seconds of a circuit.
struct Left {
    pairs: Vec<Vec<f64>>,
    /// The ports of both directions together.
    idle: Vec<f64>,
    least: f64,
}

impl Factors {
    pub fn new(problem: &Problem<'_>) -> Self {
        Self { matched: vec![vec![0; problem.units()]; problem.units()], until_s: 0.0 }
    }

    /// Lights the circuits of the next matching, where the last one's time is over; returns when its own is. New
    /// circuits stay as long as they were dark, at least: whoever changes them sooner sends nothing at all.
    pub fn light(&mut self, stage: &mut Stage<'_>, waiting: &[usize], comes_s: f64) -> f64 {
        if stage.now_s + stage.instant_s() < self.until_s {
            return self.until_s;
        }
        let left = Left::new(stage, waiting);
        for (from, row) in self.matched.iter_mut().enumerate() {
            for (to, count) in row.iter_mut().enumerate() {
                *count = if left.allows(from, to) { *count } else { 0 };
            }
        }
        for unit in 0..self.matched.len() {
            while self.matched[unit].iter().sum::<u32>() < stage.ports[unit] / 2 {
                let mut seen = vec![false; self.matched.len()];
                if !self.augment(&left, &stage.ports, unit, &mut seen) {
                    break;
                }
            }
        }
        self.order(stage);
        let lights = stage.lit_s.iter().flatten().copied().filter(|at_s| *at_s > stage.now_s);
        let stays_s = lights.fold(f64::NEG_INFINITY, f64::max) + stage.problem.instance.dark_s;
        self.until_s = self.last_s(stage, &left).min(comes_s).max(stays_s);
        self.until_s
    }

    /// One circuit more from a unit, along an alternating path.
    fn augment(&mut self, left: &Left, ports: &[u32], from: usize, seen: &mut [bool]) -> bool {
        let units = self.matched.len();
        // Idle only if there is nothing to carry.
        let others = (0..units).filter(|to| *to != from).chain([from]);
        for to in others.filter(|to| left.allows(from, *to)).collect::<Vec<_>>() {
            if std::mem::replace(&mut seen[to], true) {
                continue;
            }
            let taken: u32 = (0..units).map(|unit| self.matched[unit][to]).sum();
            let freed = (0..units).filter(|unit| *unit != from && self.matched[*unit][to] > 0);
            let freed: Vec<usize> = freed.collect();
            if taken < ports[to] / 2 {
                self.matched[from][to] += 1;
                return true;
            }
            for unit in freed {
                if self.augment(left, ports, unit, seen) {
                    self.matched[unit][to] -= 1;
                    self.matched[from][to] += 1;
                    return true;
                }
            }
        }
        false
    }

    fn circuits(&self, [a, b]: [usize; 2]) -> u32 {
        self.matched[a][b] + self.matched[b][a]
    }

    /// Old circuits go before new ones come.
    fn order(&self, stage: &mut Stage<'_>) {
        let light_s = stage.now_s + stage.problem.instance.dark_s;
        for (lit, units) in stage.lit_s.iter_mut().zip(&stage.problem.pairs) {
            lit.truncate(self.circuits(*units) as usize);
        }
        for (pair, units) in stage.problem.pairs.iter().enumerate() {
            let wanted = self.circuits(*units) as usize;
            if wanted > stage.lit_s[pair].len() {
                stage.lit_s[pair].resize(wanted, light_s);
                stage.darken(pair);
            }
        }
    }

    /// When a pair has nothing left, or a unit no idle time.
    fn last_s(&self, stage: &Stage<'_>, left: &Left) -> f64 {
        let mut lasts = f64::INFINITY;
        for (pair, units) in stage.problem.pairs.iter().enumerate() {
            let circuits = f64::from(self.circuits(*units));
            if circuits > 0.0 {
                let lit_s = stage.lit_s[pair].iter().copied().fold(stage.now_s, f64::max);
                let seconds = left.pairs[units[0]][units[1]] / circuits;
                lasts = lasts.min(seconds + (lit_s - stage.now_s));
            }
        }
        for (unit, idle) in left.idle.iter().enumerate() {
            let ports = f64::from(2 * self.matched[unit][unit]);
            lasts = if ports > 0.0 { lasts.min(idle / ports) } else { lasts };
        }
        stage.now_s + lasts
    }
}

impl Left {
    fn new(stage: &Stage<'_>, waiting: &[usize]) -> Self {
        let problem = stage.problem;
        let mut lanes = vec![0.0; stage.lit_s.len() * problem.lanes];
        for index in waiting {
            for crossing in &problem.transfers[*index].mode(crate::Summed::ByServer).crossings {
                for lane in problem.lanes_of(crossing) {
                    lanes[lane] += stage.left[*index] * crossing.times / stage.circuit_rate();
                }
            }
        }
        let units = problem.units();
        let mut pairs = vec![vec![0.0; units]; units];
        let mut loads = vec![0.0; units];
        for ([a, b], lanes) in problem.pairs.iter().zip(lanes.chunks(problem.lanes)) {
            let busier = lanes.iter().copied().fold(0.0, f64::max);
            (pairs[*a][*b], pairs[*b][*a]) = (busier, busier);
            loads[*a] += busier;
            loads[*b] += busier;
        }
        let even = |unit: usize| f64::from(stage.ports[unit] / 2 * 2);
        let most = (0..units).filter(|unit| even(*unit) > 0.0);
        let most = most.map(|unit| loads[unit] / even(unit)).fold(0.0, f64::max);
        let idle = (0..units).map(|unit| (most * even(unit) - loads[unit]).max(0.0)).collect();
        Self { pairs, idle, least: EPSILON * most }
    }

    fn allows(&self, from: usize, to: usize) -> bool {
        if from == to { self.idle[from] > self.least } else { self.pairs[from][to] > self.least }
    }
}
