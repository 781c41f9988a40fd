//! Time windows of ports, slot by slot: P4INC-AOI, Algorithms 1 to 3, with their errors corrected.
//!
//! Corrected: jobs that switches sum get bandwidth, too (Alg. 2, line 8, removes them); a window is feasible at its
//! midpoint, with each job's own update time (Alg. 3, line 9); a step that does not fit is halved, as a job of sixteen
//! workers otherwise takes 160 Gbit/s or nothing. Algorithm 2's matching of units and jobs is a choice of the heaviest
//! jobs of each unit, since a job that a switch may sum has one unit.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::{Options, Slots};
use crate::board::Board;
use crate::problem::{BITS, EPSILON, Problem};
use crate::scheduler::slots::Now;
use crate::{ScheduleError, Summed};

/// How often a step is halved before its job gets no more.
const HALVINGS: i32 = 4;
/// Rounds of Alg. 3's bisection.
const BISECTIONS: usize = 40;

pub fn run<'a>(problem: &'a Problem<'a>, options: &Options) -> Result<Slots<'a>, ScheduleError> {
    run_on(Board::new(problem, 0), options)
}

pub fn run_fixed<'a>(
    problem: &'a Problem<'a>,
    options: &Options,
) -> Result<Slots<'a>, ScheduleError> {
    run_on(Board::new(problem, 0).without_changes(), options)
}

fn run_on<'a>(board: Board<'a>, options: &Options) -> Result<Slots<'a>, ScheduleError> {
    let problem = board.problem;
    let step = options.step_bps / BITS * problem.instance.slot_s;
    let loads: Vec<[Vec<(usize, f64)>; 2]> = (0..problem.transfers.len())
        .map(|index| Summed::ALL.map(|summed| port_loads(problem, index, summed)))
        .collect();
    Ok(Slots::new(board, true, move |now| {
        // What has begun goes on, by a step at least; the rest of its rate is given anew.
        now.go_on(|_| step);
        let summed = places(now);
        for port in ports_by_window(now, &summed, &loads) {
            share(now, &summed, &loads, port, step);
        }
    }))
}

/// Alg. 2, lines 1–14: the heaviest jobs of each unit get the places that are free.
fn places(now: &Now<'_>) -> Vec<Summed> {
    let problem = now.problem();
    let mut summed: Vec<Summed> =
        (0..problem.transfers.len()).map(|t| now.summed(t).unwrap_or_default()).collect();
    let mut free: Vec<u32> = (0..problem.units())
        .map(|unit| problem.instance.units[unit].places - now.board.places_taken(now.slot, unit))
        .collect();
    let mut wait: Vec<(f64, usize)> = now
        .open()
        .filter(|index| now.summed(*index).is_none())
        .filter(|index| problem.transfers[*index].can_be(Summed::BySwitch))
        .map(|index| (relief(problem, index), index))
        .collect();
    wait.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (_, index) in wait {
        let units = &problem.transfers[index].mode(Summed::BySwitch).places;
        if units.iter().all(|unit| free[*unit] > 0) {
            units.iter().for_each(|unit| free[*unit] -= 1);
            summed[index] = Summed::BySwitch;
        }
    }
    summed
}

/// Bytes that a sum at the switch keeps off circuits; for jobs beside their server, a little of what it keeps off the
/// switch.
fn relief(problem: &Problem<'_>, index: usize) -> f64 {
    let transfer = &problem.transfers[index];
    let mode = transfer.mode(Summed::ByServer);
    let crossed: f64 = mode.crossings.iter().map(|crossing| crossing.times).sum();
    transfer.bytes * (crossed + EPSILON * problem.passed(mode))
}

/// Bytes on each virtual port for a byte of the transfer: switches of units first, then their circuits.
fn port_loads(problem: &Problem<'_>, index: usize, summed: Summed) -> Vec<(usize, f64)> {
    let Some(mode) = &problem.transfers[index].modes[summed as usize] else { return Vec::new() };
    let mut loads = vec![];
    let mut add = |port: usize, times: f64| match loads.iter_mut().find(|(p, _)| *p == port) {
        Some((_, load)) => *load += times,
        None => loads.push((port, times)),
    };
    let switches = mode.pools.iter().filter(|(pool, _)| problem.is_switch(*pool));
    switches.for_each(|(pool, times)| add(problem.unit_of_pool(*pool), *times));
    for crossing in &mode.crossings {
        for unit in problem.pairs[crossing.pair] {
            add(problem.units() + unit, crossing.times);
        }
    }
    loads
}

/// Alg. 3, and Alg. 2, line 16: virtual ports whose windows end last come first.
fn ports_by_window(
    now: &Now<'_>,
    summed: &[Summed],
    loads: &[[Vec<(usize, f64)>; 2]],
) -> Vec<usize> {
    let problem = now.problem();
    let mut demands: Vec<Vec<(f64, f64)>> = vec![Vec::new(); 2 * problem.units()];
    for index in now.open() {
        let way = summed[index];
        let update_s = problem.transfers[index].mode(way).update_s;
        for (port, times) in &loads[index][way as usize] {
            demands[*port].push((now.left[index] * times, update_s));
        }
    }
    let mut windows: Vec<(f64, usize)> = demands
        .iter()
        .enumerate()
        .filter(|(_, demands)| !demands.is_empty())
        .map(|(port, demands)| (window_s(demands, capacity(problem, port)), port))
        .collect();
    windows.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    windows.into_iter().map(|(_, port)| port).collect()
}

/// Bytes of a virtual port in a second.
fn capacity(problem: &Problem<'_>, port: usize) -> f64 {
    let slot_s = problem.instance.slot_s;
    match port.checked_sub(problem.units()) {
        None => problem.instance.units[port].switch_bps / BITS,
        Some(unit) => f64::from(problem.ports(unit)) * problem.lit_bytes / slot_s,
    }
}

/// Alg. 3: the least end of a window in which all demands end, with their updates.
fn window_s(demands: &[(f64, f64)], capacity: f64) -> f64 {
    let transfer_s = demands.iter().map(|(bytes, _)| bytes).sum::<f64>() / capacity.max(EPSILON);
    let update_s = demands.iter().map(|(_, update_s)| *update_s).fold(0.0, f64::max);
    let (mut low, mut high) = (transfer_s.max(update_s), transfer_s + update_s);
    for _ in 0..BISECTIONS {
        let middle = low.midpoint(high);
        let rate: f64 =
            demands.iter().map(|(bytes, update_s)| bytes / (middle - update_s).max(EPSILON)).sum();
        if rate <= capacity { high = middle } else { low = middle }
    }
    high
}

/// A job of a port, by its projected end.
#[derive(PartialEq)]
struct Waiting {
    end_s: f64,
    left: f64,
    index: usize,
    halvings: i32,
}

impl Eq for Waiting {}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_end = self.end_s.total_cmp(&other.end_s).then(self.left.total_cmp(&other.left));
        by_end.then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Alg. 2, lines 18–31: steps of rate for the jobs of a port, to the one that would end last.
fn share(
    now: &mut Now<'_>,
    summed: &[Summed],
    loads: &[[Vec<(usize, f64)>; 2]],
    port: usize,
    step: f64,
) {
    let slot_s = now.problem().instance.slot_s;
    let waiting = |now: &Now<'_>, index: usize, halvings| {
        let mode = now.problem().transfers[index].mode(summed[index]);
        let (left, given) = (now.left[index], now.given(index));
        let seconds = if given > 0.0 { left / given * slot_s } else { f64::INFINITY };
        Waiting { end_s: seconds + mode.update_s, left, index, halvings }
    };
    let is_here =
        |index: &usize| loads[*index][summed[*index] as usize].iter().any(|(of, _)| *of == port);
    let mut queue: BinaryHeap<Waiting> =
        now.open().filter(is_here).map(|index| waiting(now, index, 0)).collect();
    while let Some(Waiting { index, mut halvings, .. }) = queue.pop() {
        let way = summed[index];
        let most = now.problem().transfers[index].mode(way).most.min(now.left[index]);
        let room = now.room(index, way);
        let wanted = |halvings: i32| (step / 2f64.powi(halvings)).min(most - now.given(index));
        while halvings <= HALVINGS && wanted(halvings) > room * (1.0 + EPSILON) {
            halvings += 1;
        }
        if halvings > HALVINGS || wanted(halvings) <= now.least(index, way) {
            continue;
        }
        now.give(index, way, wanted(halvings).min(room));
        queue.push(waiting(now, index, halvings));
    }
}
