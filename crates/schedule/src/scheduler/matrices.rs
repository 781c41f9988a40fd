//! Rivals that split the demand of all pairs into matchings of units, each of which stays for some slots on one port of
//! every unit. What arrives later is split when all matchings have had their time.
//!
//! They are published for switches whose circuits have one direction, so for permutations. Circuits have two here, so
//! permutations become matchings, which are found greedily, and a demand is that of the busier direction.

use std::collections::VecDeque;

use super::ordered::{go_on_slowly, refuse_synchronous, serve_all};
use super::slots::Now;
use super::{Options, Slots};
use crate::ScheduleError;
use crate::Summed;
use crate::board::Board;
use crate::problem::{EPSILON, Problem, whole};

/// Threshold in slots below which a matching need not cover the busiest units: it takes a whole slot anyhow.
const SMALLEST: f64 = 1.0 / 16.0;

/// A matching, by pairs, and the number of slots that it stays.
struct Stay {
    pairs: Vec<usize>,
    slots: usize,
}

/// What each pair has to send, in slots of a lit circuit, and the part of a slot that a new circuit is dark.
struct Demand<'a> {
    problem: &'a Problem<'a>,
    slots: Vec<f64>,
    dark: f64,
}

/// Threshold by threshold, halved each time: matchings of demands above it that cover the busiest units, for as long as
/// the least of them lasts (Solstice, CoNEXT '15, whose matrices are filled up so that all units are the busiest).
///
/// # Errors
/// A synchronous job needs a circuit that moves on while it sends.
pub fn solstice<'a>(problem: &'a Problem<'a>, _: &Options) -> Result<Slots<'a>, ScheduleError> {
    run(problem, |mut demand, _| {
        let mut stays = Vec::new();
        let mut least = demand.slots.iter().copied().fold(0.0, f64::max);
        while demand.is_left() {
            let loads = demand.loads();
            let most = loads.iter().copied().fold(0.0, f64::max);
            let is_busiest = |unit: usize| loads[unit] >= most * (1.0 - EPSILON);
            let busiest =
                |pair: usize| demand.problem.pairs[pair].iter().any(|unit| is_busiest(*unit));
            let pairs = demand.matching(|pair, slots| {
                (slots >= least).then_some(slots + if busiest(pair) { most } else { 0.0 })
            });
            let matched =
                |unit: usize| pairs.iter().any(|p| demand.problem.pairs[*p].contains(&unit));
            let is_fine = least < demand.dark.max(SMALLEST)
                || (0..loads.len()).all(|u| !is_busiest(u) || matched(u));
            if pairs.is_empty() || !is_fine {
                least /= 2.0;
                continue;
            }
            let lasts = pairs.iter().map(|pair| demand.slots[*pair]).fold(f64::INFINITY, f64::min);
            stays.push(demand.send(pairs, lasts));
        }
        stays
    })
}

/// Always the matching and the stay that carry most in their time, darkness included (Eclipse, SIGMETRICS '16).
///
/// # Errors
/// A synchronous job needs a circuit that moves on while it sends.
pub fn eclipse<'a>(problem: &'a Problem<'a>, _: &Options) -> Result<Slots<'a>, ScheduleError> {
    run(problem, |mut demand, _| {
        let mut stays = Vec::new();
        while demand.is_left() {
            let longest = demand.slots.iter().copied().fold(0.0, f64::max);
            let all = whole(longest + demand.dark).max(1.0);
            let doubled = std::iter::successors(Some(1.0), |slots| Some(slots * 2.0));
            let lasting = doubled.take_while(|slots| *slots < all).chain([all]);
            let choices = lasting.map(|slots| {
                let lasts = slots - demand.dark;
                let pairs = demand.matching(|_, slots| Some(slots.min(lasts)));
                let carried: f64 = pairs.iter().map(|pair| demand.slots[*pair].min(lasts)).sum();
                (carried / slots, lasts, pairs)
            });
            let best = choices.max_by(|a, b| a.0.total_cmp(&b.0)).expect("a stay of one slot");
            stays.push(demand.send(best.2, best.1));
        }
        stays
    })
}

/// As few matchings as the busiest unit has pairs, each for as long as its longest demand; long ones are split between
/// ports until all ports end at about the same time (Spectra, 2026).
///
/// # Errors
/// A synchronous job needs a circuit that moves on while it sends.
pub fn spectra<'a>(problem: &'a Problem<'a>, _: &Options) -> Result<Slots<'a>, ScheduleError> {
    run(problem, |mut demand, ports| {
        let mut stays = Vec::new();
        while demand.is_left() {
            let degrees = demand.degrees();
            let most = demand.slots.iter().copied().fold(0.0, f64::max);
            // Units with the most pairs first: each matching lowers the greatest degree.
            let pairs = demand.matching(|pair, slots| {
                let [a, b] = demand.problem.pairs[pair].map(|unit| degrees[unit]);
                Some(a.max(b) as f64 + 0.5 * slots / most)
            });
            let lasts = pairs.iter().map(|pair| demand.slots[*pair]).fold(0.0, f64::max);
            stays.push(demand.send(pairs, lasts));
        }
        equalise(stays, ports, demand.dark)
    })
}

/// Splits the longest stay while ports would end far apart otherwise: each part is dark once.
fn equalise(mut stays: Vec<Stay>, ports: usize, dark: f64) -> Vec<Stay> {
    let total: usize = stays.iter().map(|stay| stay.slots).sum();
    let fair = total.div_ceil(ports.max(1));
    let least = 1 + dark.ceil() as usize;
    for _ in 0..ports {
        let Some(longest) = stays.iter_mut().max_by_key(|stay| stay.slots) else { break };
        if longest.slots <= fair.max(2 * least) {
            break;
        }
        let slots = longest.slots - fair.max(least) + dark.ceil() as usize;
        longest.slots = fair.max(least);
        let pairs = longest.pairs.clone();
        stays.push(Stay { pairs, slots });
    }
    stays
}

/// The longest stays go first, to the port that is free first (LPT).
fn deal(mut stays: Vec<Stay>, queues: &mut [VecDeque<Stay>]) {
    let busy = |queue: &VecDeque<Stay>| queue.iter().map(|stay| stay.slots).sum::<usize>();
    stays.sort_by_key(|stay| std::cmp::Reverse(stay.slots));
    for stay in stays {
        if let Some(queue) = queues.iter_mut().min_by_key(|queue| busy(queue)) {
            queue.push_back(stay);
        }
    }
}

/// Splits what is left whenever all ports are through.
fn run<'a>(
    problem: &'a Problem<'a>,
    split: impl Fn(Demand<'a>, usize) -> Vec<Stay> + 'a,
) -> Result<Slots<'a>, ScheduleError> {
    refuse_synchronous(problem)?;
    let ports = (0..problem.units()).map(|unit| problem.ports(unit)).max().unwrap_or(0) as usize;
    let mut queues: Vec<VecDeque<Stay>> = (0..ports).map(|_| VecDeque::new()).collect();
    Ok(Slots::new(Board::new(problem, 0), false, move |now| {
        now.may_add = false;
        let demand = Demand::new(now);
        // Pairs may be through before their time, as several ports join the same two units.
        let has_more = |stay: &Stay| stay.pairs.iter().any(|pair| demand.slots[*pair] > 0.0);
        queues.iter_mut().for_each(|queue| queue.retain(has_more));
        if queues.iter().all(VecDeque::is_empty) {
            deal(split(demand, ports), &mut queues);
        }
        for queue in &mut queues {
            let Some(stay) = queue.front_mut() else { continue };
            stay.pairs.iter().for_each(|pair| now.board.light(now.slot, *pair, 1));
            stay.slots -= 1;
            if stay.slots == 0 {
                queue.pop_front();
            }
        }
        go_on_slowly(now);
        serve_all(now);
    }))
}

impl<'a> Demand<'a> {
    /// What is left of everything that has arrived.
    fn new(now: &Now<'a>) -> Self {
        let problem = now.problem();
        let mut lanes = vec![[0.0; 2]; problem.pairs.len()];
        for index in now.open() {
            for crossing in &problem.transfers[index].mode(Summed::ByServer).crossings {
                for lane in crossing.lanes() {
                    lanes[crossing.pair][lane] += now.left[index] * crossing.times;
                }
            }
        }
        let slots = lanes.into_iter().map(|[up, down]| up.max(down) / problem.lit_bytes).collect();
        Self { problem, slots, dark: problem.dark_bytes / problem.lit_bytes }
    }

    fn is_left(&self) -> bool {
        self.slots.iter().any(|slots| *slots > 0.0)
    }

    /// Load of each unit, in slots of a circuit.
    fn loads(&self) -> Vec<f64> {
        let mut loads = vec![0.0; self.problem.units()];
        for (pair, slots) in self.slots.iter().enumerate() {
            self.problem.pairs[pair].iter().for_each(|unit| loads[*unit] += slots);
        }
        loads
    }

    /// Pairs of each unit that are left.
    fn degrees(&self) -> Vec<usize> {
        let mut degrees = vec![0; self.problem.units()];
        for (pair, _) in self.slots.iter().enumerate().filter(|(_, slots)| **slots > 0.0) {
            self.problem.pairs[pair].iter().for_each(|unit| degrees[*unit] += 1);
        }
        degrees
    }

    /// Pairs of which each unit has one at most, the ones that are worth most first; those without a worth are left out.
    fn matching(&self, worth: impl Fn(usize, f64) -> Option<f64>) -> Vec<usize> {
        let left = self.slots.iter().enumerate().filter(|(_, slots)| **slots > 0.0);
        let mut worths: Vec<(f64, usize)> =
            left.filter_map(|(pair, slots)| Some((worth(pair, *slots)?, pair))).collect();
        worths.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut is_free = vec![true; self.problem.units()];
        let mut has_two = |(_, pair): &(f64, usize)| {
            let units = self.problem.pairs[*pair];
            let both = units.iter().all(|unit| is_free[*unit]);
            units.iter().for_each(|unit| is_free[*unit] &= !both);
            both
        };
        worths.into_iter().filter(|one| has_two(one)).map(|(_, pair)| pair).collect()
    }

    /// Takes a matching's bytes away, so many slots of each pair, or a little more, as stays are whole slots.
    fn send(&mut self, pairs: Vec<usize>, lasts: f64) -> Stay {
        let slots = whole(lasts + self.dark).max(1.0);
        for pair in &pairs {
            let left = self.slots[*pair] - (slots - self.dark);
            self.slots[*pair] = if left > EPSILON { left } else { 0.0 };
        }
        Stay { pairs, slots: slots as usize }
    }
}
