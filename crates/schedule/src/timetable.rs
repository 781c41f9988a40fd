//! A schedule of circuits and jobs as a document: what is lit and who sends how fast, from when until when.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::board::{Board, Turn};
use crate::cost::Cost;
use crate::instance::Circuits;
use crate::judge::SLACK;
use crate::problem::{BITS, EPSILON, Problem};
use crate::scheduler::{Share, Slot};

/// Value of [`Timetable::format`].
pub const TIMETABLE_FORMAT: &str = "wiresum-timetable/1";

/// Who sums a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Summed {
    /// Its parameter server; or nobody, for flows.
    #[default]
    #[serde(rename = "server")]
    ByServer,
    /// The switches of the units that have its workers; more than one where the instance has `trees`.
    #[serde(rename = "switch")]
    BySwitch,
}

impl Summed {
    /// Both ways.
    pub const ALL: [Self; 2] = [Self::ByServer, Self::BySwitch];
}

/// What is lit and who sends how fast, over time. Before, between and after intervals nothing runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timetable {
    /// [`TIMETABLE_FORMAT`].
    pub format: String,
    /// Who made it.
    pub scheduler: String,
    /// From which seed.
    pub seed: u64,
    /// Proven: no schedule completes all jobs before, in seconds. Absent where none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_s: Option<f64>,
    /// Completion over the bound, less 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<f64>,
    /// What is known of it.
    pub status: Status,
    /// Whether circuits and rates change with slots only, so that rates are averages over darkness, too.
    #[serde(default = "in_slots")]
    pub slots: bool,
    /// What it costs.
    pub cost: Cost,
    /// In order of time.
    pub intervals: Vec<Interval>,
}

fn in_slots() -> bool {
    true
}

/// What is known of a timetable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It completes at the bound.
    Optimal,
    /// It keeps all rules.
    Feasible,
}

/// A time in which neither circuits nor rates change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// When it begins, in seconds.
    pub from_s: f64,
    /// When it ends.
    pub until_s: f64,
    /// Every pair of units with circuits once. New ones are dark at first.
    pub circuits: Vec<Circuits>,
    /// Every job and flow that sends.
    pub rates: Vec<Rate>,
}

impl Interval {
    /// Whether it begins and ends with slots of so many seconds.
    #[must_use]
    pub fn keeps(&self, slot_s: f64) -> bool {
        let is_end = |s: f64| ((s / slot_s).round() * slot_s - s).abs() <= SLACK * slot_s;
        is_end(self.from_s) && is_end(self.until_s)
    }
}

/// How fast a job or a flow sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// The job's id.
    pub job: u32,
    /// The two units of a flow; absent for a synchronous job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<[String; 2]>,
    /// Who sums it; the same in all intervals.
    pub by: Summed,
    /// Rate of each worker, or of the flow: the average of the interval, its dark time included, in bit/s.
    pub rate_bps: f64,
}

/// A board and its turns as intervals, one for each slot; equal ones that follow each other are one.
///
/// # Panics
/// There is a turn for each transfer.
#[must_use]
pub fn intervals(board: &Board<'_>, turns: &[Turn]) -> Vec<Interval> {
    let problem = board.problem;
    let slot_s = problem.instance.slot_s;
    let used = turns.iter().filter_map(|turn| turn.shares.last()).map(|(slot, _)| slot + 1).max();
    let used = used.unwrap_or(0);
    let mut rates: Vec<Vec<Rate>> = vec![Vec::new(); used];
    assert_eq!(turns.len(), problem.transfers.len(), "a turn for each transfer");
    for (index, turn) in turns.iter().enumerate() {
        for (slot, bytes) in &turn.shares {
            rates[*slot].push(rate(problem, index, turn.summed, bytes * BITS / slot_s));
        }
    }
    let mut intervals: Vec<Interval> = Vec::new();
    for (slot, rates) in rates.into_iter().enumerate() {
        let circuits = circuits(board, slot);
        let (from_s, until_s) = (slot as f64 * slot_s, (slot + 1) as f64 * slot_s);
        match intervals.last_mut() {
            Some(last) if last.circuits == circuits && last.rates == rates => {
                last.until_s = until_s
            }
            _ => intervals.push(Interval { from_s, until_s, circuits, rates }),
        }
    }
    intervals
}

/// Intervals that keep the rules, in numbers, with those between them, in which circuits stay as they are. Circuits
/// that no transfer of the instance can use are left out.
#[must_use]
pub fn slots(problem: &Problem<'_>, intervals: &[Interval]) -> Vec<Slot> {
    let slot_s = problem.instance.slot_s;
    let units = problem.instance.units.iter().enumerate();
    let units: BTreeMap<&str, usize> = units.map(|(index, unit)| (&*unit.name, index)).collect();
    let pairs: BTreeMap<[usize; 2], usize> =
        problem.pairs.iter().enumerate().map(|(index, pair)| (*pair, index)).collect();
    let transfers = problem.transfers.iter().enumerate();
    let transfers: BTreeMap<(u32, Option<[&str; 2]>), usize> = transfers
        .map(|(index, t)| ((problem.instance.jobs[t.job].id, problem.ends(t)), index))
        .collect();
    let mut slots: Vec<Slot> = Vec::new();
    let mut now_s = 0.0;
    for &Interval { from_s, until_s, ref circuits, ref rates } in intervals {
        if from_s - now_s > EPSILON * slot_s {
            let idle = slots.last().map_or(&problem.before, |last| &last.circuits).clone();
            slots.push(Slot { seconds: from_s - now_s, circuits: idle, shares: Vec::new() });
        }
        let seconds = until_s - from_s;
        let mut slot = Slot { seconds, circuits: vec![0; problem.pairs.len()], shares: Vec::new() };
        for circuits in circuits {
            let [a, b] = circuits.between.each_ref().map(|name| units[&**name]);
            if let Some(pair) = pairs.get(&[a.min(b), a.max(b)]) {
                slot.circuits[*pair] = circuits.circuits;
            }
        }
        for rate in rates {
            let flow = rate.flow.as_ref().map(|names| names.each_ref().map(|name| &**name));
            let (transfer, bytes) = (transfers[&(rate.job, flow)], rate.rate_bps * seconds / BITS);
            slot.shares.push(Share { transfer, summed: rate.by, bytes });
        }
        slots.push(slot);
        now_s = until_s;
    }
    slots
}

/// What a scheduler decided at a time, as an interval from then on.
#[must_use]
pub fn interval(problem: &Problem<'_>, from_s: f64, slot: &Slot) -> Interval {
    let rates = slot.shares.iter().map(|share| {
        rate(problem, share.transfer, share.summed, share.bytes * BITS / slot.seconds)
    });
    Interval {
        from_s,
        until_s: from_s + slot.seconds,
        circuits: named(problem, |pair| slot.circuits[pair]),
        rates: rates.collect(),
    }
}

fn circuits(board: &Board<'_>, slot: usize) -> Vec<Circuits> {
    named(board.problem, |pair| board.circuits(slot, pair))
}

fn named(problem: &Problem<'_>, count: impl Fn(usize) -> u32) -> Vec<Circuits> {
    let name = |unit: usize| problem.instance.units[unit].name.clone();
    let lit = problem
        .pairs
        .iter()
        .enumerate()
        .map(|(pair, units)| Circuits { between: units.map(name), circuits: count(pair) });
    lit.filter(|circuits| circuits.circuits > 0).collect()
}

fn rate(problem: &Problem<'_>, index: usize, by: Summed, rate_bps: f64) -> Rate {
    let transfer = &problem.transfers[index];
    let flow = problem.ends(transfer).map(|units| units.map(str::to_owned));
    Rate { job: problem.instance.jobs[transfer.job].id, flow, by, rate_bps }
}
