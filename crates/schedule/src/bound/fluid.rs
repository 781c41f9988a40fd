//! A time before which no schedule completes all jobs, with slots or without: what passes the ports of a unit, or its
//! switch, takes its time, whoever goes first.
//!
//! Each resource is asked alone, over a *window*: the bytes that come after some time, or those of jobs whose servers
//! need some time for updates. What a switch may sum instead is left out as far as its places reach, what saves most
//! for its time in a place first, in parts (a fractional knapsack). A pair that is dark before is dark once. Where units
//! have odd numbers of ports the bound may be out of reach: three units with one port each are one pair at a time.

use crate::Summed;
use crate::problem::{EPSILON, Mode, Problem, Transfer};

/// Windows by their begin, and as many by their end.
const MOST_WINDOWS: usize = 6;
/// Halvings of the range in which a window's least time lies.
const HALVINGS: usize = 50;

/// Bytes that have to pass between two times.
#[derive(Clone, Copy)]
struct Window {
    /// Transfers that arrive later count.
    from_s: f64,
    /// Transfers with such an update, or a longer one, count, whoever sums them.
    update_s: f64,
}

/// What a resource has to carry, in its seconds.
#[derive(Clone, Default)]
struct Load {
    /// Whatever switches do.
    fixed_s: f64,
    /// What a sum at a switch saves, how long it has a place, and where.
    savings: Vec<(f64, f64, usize)>,
}

/// In seconds.
pub fn completion_s(problem: &Problem<'_>) -> f64 {
    let arrivals = problem.transfers.iter().map(|transfer| arrival_s(problem, transfer));
    let updates = problem.transfers.iter().map(Transfer::least_update_s);
    let froms = some_of(arrivals.collect()).into_iter().map(|from_s| (from_s, 0.0));
    let untils = some_of(updates.collect()).into_iter().map(|update_s| (0.0, update_s));
    let windows = froms.chain(untils).chain([(0.0, 0.0)]);
    let alone = problem.transfers.iter().map(|transfer| alone_s(problem, transfer));
    let windows =
        windows.map(|(from_s, update_s)| Window { from_s, update_s }.completion_s(problem));
    alone.chain(windows).fold(0.0, f64::max)
}

/// Some of the numbers, the least and the greatest among them, without 0.
fn some_of(mut numbers: Vec<f64>) -> Vec<f64> {
    numbers.retain(|number| *number > 0.0);
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    let last = numbers.len().saturating_sub(1);
    let count = MOST_WINDOWS.min(numbers.len());
    (0..count).map(|index| numbers[index * last / count.max(2).saturating_sub(1)]).collect()
}

fn arrival_s(problem: &Problem<'_>, transfer: &Transfer) -> f64 {
    problem.instance.jobs[transfer.job].arrival_s
}

/// When a transfer ends if it is alone.
fn alone_s(problem: &Problem<'_>, transfer: &Transfer) -> f64 {
    let arrival_s = arrival_s(problem, transfer);
    let ends = transfer.ways().map(|summed| {
        let mode = transfer.mode(summed);
        let is_dark = mode.crossings.iter().any(|crossing| problem.before[crossing.pair] == 0);
        let dark_s = if is_dark { problem.instance.dark_s } else { 0.0 };
        arrival_s.max(dark_s) + transfer.bytes * slowest(problem, mode) + mode.update_s
    });
    ends.fold(f64::INFINITY, f64::min)
}

/// Seconds for each byte, by its own links and the ports of its pairs.
fn slowest(problem: &Problem<'_>, mode: &Mode) -> f64 {
    let slots = mode.crossings.iter().map(|crossing| {
        let ports = problem.pairs[crossing.pair].map(|unit| problem.ports(unit));
        crossing.times / (problem.lit_bytes * f64::from(ports[0].min(ports[1])))
    });
    slots.fold(1.0 / mode.most, f64::max) * problem.instance.slot_s
}

impl Window {
    fn has(self, problem: &Problem<'_>, transfer: &Transfer) -> bool {
        arrival_s(problem, transfer) >= self.from_s && transfer.least_update_s() >= self.update_s
    }

    fn completion_s(self, problem: &Problem<'_>) -> f64 {
        let ports = (0..problem.units()).map(|unit| f64::from(problem.ports(unit)));
        let switches = problem.pools.iter().map(|_| 1.0);
        let loads = self.at_ports(problem).into_iter().chain(self.at_switches(problem));
        let lasts = ports.chain(switches).zip(loads).map(|(times, load)| {
            load.least_s(times, |unit| problem.instance.units[unit].places, self.update_s)
        });
        self.from_s + self.update_s + lasts.fold(0.0, f64::max)
    }

    /// By unit, in seconds of a circuit. A pair counts in its busier direction.
    fn at_ports(self, problem: &Problem<'_>) -> Vec<Load> {
        let mut lanes = vec![Load::default(); problem.pairs.len() * problem.lanes];
        for transfer in problem.transfers.iter().filter(|t| self.has(problem, t)) {
            let mode = transfer.mode(Summed::ByServer);
            for crossing in &mode.crossings {
                let slots = transfer.bytes * crossing.times / problem.lit_bytes;
                let slot_s = problem.instance.slot_s;
                let left =
                    if transfer.may_be_tree() { transfer.least_times(*crossing) } else { 0.0 };
                let by_switch_s = slots * slot_s * left / crossing.times;
                for lane in &mut lanes[problem.lanes_of(crossing)] {
                    lane.add(problem, transfer, slots * slot_s, by_switch_s);
                }
            }
        }
        let mut units = vec![Load::default(); problem.units()];
        for (pair, lanes) in lanes.chunks(problem.lanes).enumerate() {
            let busier = lanes.iter().max_by(|a, b| a.most_s().total_cmp(&b.most_s()));
            let Some(busier) = busier.filter(|lane| lane.most_s() > 0.0) else { continue };
            let is_dark =
                self.from_s == 0.0 && problem.before[pair] == 0 && busier.savings.is_empty();
            for unit in problem.pairs[pair] {
                let dark_s = if is_dark { problem.instance.dark_s } else { 0.0 };
                units[unit].fixed_s += busier.fixed_s + dark_s;
                units[unit].savings.extend(&busier.savings);
            }
        }
        units
    }

    /// By pool, in its seconds.
    fn at_switches(self, problem: &Problem<'_>) -> Vec<Load> {
        let mut pools = vec![Load::default(); problem.pools.len()];
        for transfer in problem.transfers.iter().filter(|t| self.has(problem, t)) {
            let seconds = |summed: Summed, pool: usize| {
                let mode = transfer.modes[summed as usize].as_ref();
                let times =
                    mode.and_then(|mode| mode.pools.iter().find(|(index, _)| *index == pool));
                let slots = times.map_or(0.0, |(_, t)| transfer.bytes * t / problem.pools[pool]);
                slots * problem.instance.slot_s
            };
            for (pool, _) in &transfer.mode(Summed::ByServer).pools {
                let by_switch_s = seconds(Summed::BySwitch, *pool);
                let by_server_s = seconds(Summed::ByServer, *pool);
                pools[*pool].add(problem, transfer, by_server_s, by_switch_s);
            }
        }
        pools
    }
}

impl Load {
    fn add(&mut self, problem: &Problem<'_>, transfer: &Transfer, server_s: f64, switch_s: f64) {
        self.fixed_s += server_s;
        let by_switch = transfer.modes[Summed::BySwitch as usize].as_ref();
        if let Some(mode) = by_switch {
            // One place is counted where there are several.
            let place_s = transfer.bytes / mode.most * problem.instance.slot_s;
            self.savings.push((server_s - switch_s, place_s, mode.places[0]));
        }
    }

    /// Without any sum.
    fn most_s(&self) -> f64 {
        self.fixed_s
    }

    /// The least time in which so many of the resource carry it, with places for a time more.
    fn least_s(mut self, times: f64, places: impl Fn(usize) -> u32, more_s: f64) -> f64 {
        self.savings.retain(|(saved, ..)| *saved > 0.0);
        if self.savings.is_empty() {
            return if self.fixed_s > 0.0 { self.fixed_s / times } else { 0.0 };
        }
        self.savings.sort_by(|a, b| (b.0 * a.1).total_cmp(&(a.0 * b.1)));
        let fits = |seconds: f64| {
            let mut free: Vec<Option<f64>> = Vec::new();
            let mut left_s = self.fixed_s;
            for (saved_s, place_s, unit) in &self.savings {
                free.resize(free.len().max(unit + 1), None);
                let free = free[*unit]
                    .get_or_insert_with(|| f64::from(places(*unit)) * (seconds + more_s));
                let taken_s = place_s.min(*free);
                *free -= taken_s;
                left_s -= saved_s * taken_s / place_s;
            }
            left_s <= times * seconds + EPSILON * self.fixed_s
        };
        let (mut low, mut high) = (0.0, self.fixed_s.max(EPSILON));
        while !fits(high) {
            high *= 2.0;
        }
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            if fits(middle) { high = middle } else { low = middle }
        }
        low
    }
}
