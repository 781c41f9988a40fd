//! `events`: no slots. Circuits and rates change when a transfer ends or comes, or a circuit gets light.
//!
//! 1. Transfers that wait begin in an order, each as soon as it finds its place, rates and ports ([`list`]). Who has
//!    begun keeps its rate and circuits until its end. Ports that nobody uses tune the circuits of those who wait for
//!    something else, so that they carry at once.
//! 2. Where traffic may pause, no unit needs to fall behind: circuits from matchings ([`factors`]).
//! 3. With foresight several orders are tried, that of `turns` among them, and the best one is changed at random while
//!    the bound is not reached: whoever ends late is moved forward, or summed elsewhere. The schedule of `turns` itself
//!    is the answer where none of them is better.

mod factors;
mod list;
mod room;
mod stage;

use wiresum_netem::Rng;

use super::{AT_BOUND, Objective, Options, Slot, in_slots, starves, turns};
use crate::bound;
use crate::problem::Problem;
use crate::timetable::{Interval, interval};
use crate::{ScheduleError, Summed, judge};
use factors::Factors;
use list::List;
use stage::Stage;

/// Most transfers for which `turns` is asked, too, and several orders are tried: each takes seconds then.
const FEW: usize = 2_000;
/// Rounds times the square of the transfers: a round takes about that long.
const EFFORT: usize = 4_000_000;
/// Rounds for few transfers.
const MOST_ROUNDS: usize = 1_000;
/// Events for each transfer, pair and unit, after which a schedule is taken to go round in circles.
const MOST_EVENTS: usize = 100;
/// Transfers that a round moves at most.
const MOVES: u64 = 4;
/// How often a round moves one of those that end last; otherwise any.
const LATE: f64 = 0.5;
/// How often a transfer that can be summed either way is asked to change that.
const FLIP: f64 = 0.2;

/// A schedule without slots in the making.
#[derive(Clone)]
pub struct Events<'a> {
    stage: Stage<'a>,
    list: List,
    factors: Option<Factors>,
    /// Those that have come and have no rate.
    waiting: Vec<usize>,
    /// Those that have not come, the next one last.
    coming: Vec<usize>,
}

/// A schedule that was tried.
struct Tried {
    list: List,
    slots: Vec<Slot>,
    /// When each transfer is complete, its update included.
    ends_s: Vec<f64>,
    value: f64,
    setups: u32,
}

/// With what is known at each event: the longest first, or for other objectives the shortest for its weight.
///
/// # Errors
/// The instance has slots.
pub fn online<'a>(
    problem: &'a Problem<'a>,
    options: &Options,
) -> Result<Events<'a>, ScheduleError> {
    refuse_slots(problem)?;
    let sort = if options.objective == Objective::Completion { longest } else { shortest };
    Ok(Events::new(problem, List::of(&sort(problem), 0.0), None))
}

/// With foresight.
///
/// # Errors
/// The instance has slots, or a job is never served.
pub fn run<'a>(
    problem: &'a Problem<'a>,
    options: &Options,
) -> Result<Vec<Interval>, ScheduleError> {
    refuse_slots(problem)?;
    let bound_s = bound::proven_s(problem);
    let value = |ends_s: &[f64]| options.objective.value(problem, &jobs_end_s(problem, ends_s));
    let is_few = problem.transfers.len() <= FEW;
    let slotted = is_few.then(|| turns::run(problem, options));
    let mut best: Option<Tried> = None;
    let mut lists = vec![(List::of(&longest(problem), 0.0), false)];
    if is_few {
        lists.push((List::of(&longest(problem), bound_s), false));
        for order in [busiest(problem), first(problem), shortest(problem)] {
            lists.extend([0.0, bound_s].map(|aim_s| (List::of(&order, aim_s), false)));
        }
    }
    if let Some(plan) = &slotted {
        let by = plan.turns.iter().map(|turn| Some(turn.summed)).collect();
        let mut order = first(problem);
        order.sort_by_key(|index| plan.turns[*index].shares.first().map(|(slot, _)| *slot));
        lists.push((List { by, ..List::of(&order, 0.0) }, false));
    }
    if may_pause(problem) {
        lists.push((List::of(&longest(problem), 0.0), true));
    }
    for (list, by_factors) in lists {
        let factors = by_factors.then(|| Factors::new(problem));
        match Events::new(problem, list, factors).run(f64::INFINITY, &value) {
            Ok(tried) => best = Tried::better(best, tried),
            // A unit with one port is in no matching.
            Err(_) if by_factors => {}
            Err(error) => return Err(error),
        }
    }
    let mut best = best.expect("a list at least");
    let mut search = Search { problem, rng: Rng::new(options.seed) };
    let is_done = |best: &Tried| {
        options.objective == Objective::Completion && best.value <= bound_s * (1.0 + AT_BOUND)
    };
    for _ in 0..rounds(problem, options) {
        if is_done(&best) {
            break;
        }
        let list = search.changed(&best);
        // What is later than the best so far need not be known to its end.
        let until_s = best.ends_s.iter().copied().fold(0.0, f64::max);
        let is_first = options.objective == Objective::Completion;
        let until_s = if is_first { until_s } else { f64::INFINITY };
        let tried = Events::new(problem, list, None).run(until_s, &value)?;
        best = Tried::better(Some(best), tried).expect("the best one");
    }
    let ours = best.intervals(problem);
    let Some(theirs) = slotted.map(|plan| in_slots(plan).0) else { return Ok(ours) };
    let cost = judge(problem.instance, &theirs)?;
    let theirs_end_s: Vec<f64> = cost.jobs.iter().map(|job| job.end_s).collect();
    let is_theirs = options.objective.value(problem, &theirs_end_s) < best.value * (1.0 - AT_BOUND);
    Ok(if is_theirs { theirs } else { ours })
}

fn refuse_slots(problem: &Problem<'_>) -> Result<(), ScheduleError> {
    if !problem.instance.slots {
        return Ok(());
    }
    Err(ScheduleError::Field {
        field: "slots".to_owned(),
        problem: "`events` changes circuits at any time: set it to false".to_owned(),
    })
}

/// Whether matchings can serve it: all that needs circuits may pause.
fn may_pause(problem: &Problem<'_>) -> bool {
    problem.transfers.iter().all(|transfer| {
        !transfer.contiguous || transfer.mode(Summed::ByServer).crossings.is_empty()
    })
}

fn rounds(problem: &Problem<'_>, options: &Options) -> usize {
    let count = problem.transfers.len();
    match options.rounds {
        0 => (EFFORT / (count * count)).min(MOST_ROUNDS),
        rounds => rounds,
    }
}

/// When each job is complete, from the ends of its transfers.
fn jobs_end_s(problem: &Problem<'_>, ends_s: &[f64]) -> Vec<f64> {
    let mut jobs = vec![0.0f64; problem.instance.jobs.len()];
    for (transfer, end_s) in problem.transfers.iter().zip(ends_s) {
        jobs[transfer.job] = jobs[transfer.job].max(*end_s);
    }
    jobs
}

/// Transfers by a key, the least first.
fn sorted(problem: &Problem<'_>, key: impl Fn(usize) -> f64) -> Vec<usize> {
    let keys: Vec<f64> = (0..problem.transfers.len()).map(key).collect();
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|a, b| keys[*a].total_cmp(&keys[*b]).then(a.cmp(b)));
    order
}

fn alone_s(problem: &Problem<'_>, index: usize) -> f64 {
    let transfer = &problem.transfers[index];
    let slots = problem.slots_alone(&[index], |_| transfer.bytes);
    slots * problem.instance.slot_s + transfer.mode(Summed::ByServer).update_s
}

fn longest(problem: &Problem<'_>) -> Vec<usize> {
    sorted(problem, |index| -alone_s(problem, index))
}

fn shortest(problem: &Problem<'_>) -> Vec<usize> {
    let weight = |index: usize| problem.instance.jobs[problem.transfers[index].job].weight;
    sorted(problem, |index| alone_s(problem, index) / weight(index))
}

fn first(problem: &Problem<'_>) -> Vec<usize> {
    sorted(problem, |index| problem.instance.jobs[problem.transfers[index].job].arrival_s)
}

/// Those whose units' ports have most to carry.
fn busiest(problem: &Problem<'_>) -> Vec<usize> {
    let all: Vec<usize> = longest(problem);
    let loads = problem.port_loads(&all, |index| problem.transfers[index].bytes);
    let load = |unit: usize| loads[unit] / f64::from(problem.ports(unit).max(1));
    let mut order = all;
    let key = |index: &usize| {
        let crossings = &problem.transfers[*index].mode(Summed::ByServer).crossings;
        let units = crossings.iter().flat_map(|crossing| problem.pairs[crossing.pair]);
        units.map(load).fold(0.0, f64::max)
    };
    order.sort_by(|a, b| key(b).total_cmp(&key(a)));
    order
}

impl<'a> Events<'a> {
    fn new(problem: &'a Problem<'a>, list: List, factors: Option<Factors>) -> Self {
        let mut coming = first(problem);
        coming.reverse();
        Self { stage: Stage::new(problem), list, factors, waiting: Vec::new(), coming }
    }

    /// Learns what was sent, and what is lit and works.
    pub fn observe(&mut self, left: &[f64], circuits: &[u32], ports: &[u32]) {
        self.stage.observe(left, circuits, ports);
        let stage = &self.stage;
        let mut waits: Vec<bool> = stage.left.iter().map(|left| *left > 0.0).collect();
        self.coming.iter().chain(&stage.granted).for_each(|index| waits[*index] = false);
        self.waiting = (0..waits.len()).filter(|index| waits[*index]).collect();
    }

    /// Decides until the next event.
    ///
    /// # Errors
    /// A job that is never served.
    pub fn step(&mut self) -> Result<Slot, ScheduleError> {
        let problem = self.stage.problem;
        let arrival_s =
            |index: usize| problem.instance.jobs[problem.transfers[index].job].arrival_s;
        let now_s = self.stage.now_s + self.stage.instant_s();
        while let Some(index) = self.coming.pop_if(|index| arrival_s(*index) <= now_s) {
            self.waiting.push(index);
        }
        let comes_s = self.coming.last().map_or(f64::INFINITY, |index| arrival_s(*index));
        let mut until_s = f64::INFINITY;
        if let Some(factors) = &mut self.factors {
            self.stage.pause(&mut self.waiting);
            until_s = factors.light(&mut self.stage, &self.waiting, comes_s);
        }
        self.list.begin(&mut self.stage, &mut self.waiting, self.factors.is_none());
        self.stage.send();
        until_s = until_s.max(now_s).min(self.stage.next_s()).min(comes_s);
        if until_s.is_infinite() {
            return Err(starves(problem, &self.stage.left));
        }
        Ok(self.stage.pass(until_s))
    }

    /// All of it, as intervals.
    ///
    /// # Errors
    /// A job that is never served.
    pub fn finish(self) -> Result<Vec<Interval>, ScheduleError> {
        let problem = self.stage.problem;
        Ok(self.run(f64::INFINITY, &|_| 0.0)?.intervals(problem))
    }

    /// Until all is sent, or until it is too late.
    fn run(mut self, until_s: f64, value: &impl Fn(&[f64]) -> f64) -> Result<Tried, ScheduleError> {
        let problem = self.stage.problem;
        let (mut slots, mut setups) = (Vec::new(), 0);
        let mut lit = problem.before.clone();
        let mut ends_s = vec![0.0; problem.transfers.len()];
        let most = MOST_EVENTS * (ends_s.len() + lit.len() + problem.units());
        while self.stage.left.iter().any(|left| *left > 0.0) {
            let slot = self.step()?;
            let more = slot.circuits.iter().zip(&lit).map(|(now, lit)| now.saturating_sub(*lit));
            setups += more.sum::<u32>();
            lit.clone_from(&slot.circuits);
            for share in &slot.shares {
                let update_s = problem.transfers[share.transfer].mode(share.summed).update_s;
                ends_s[share.transfer] = self.stage.now_s + update_s;
            }
            slots.push(slot);
            if slots.len() > most {
                return Err(starves(problem, &self.stage.left));
            }
            if self.stage.now_s > until_s {
                return Ok(Tried { list: self.list, slots, ends_s, value: f64::INFINITY, setups });
            }
        }
        let value = value(&ends_s);
        Ok(Tried { list: self.list, slots, ends_s, value, setups })
    }
}

impl Tried {
    /// The second only if it is better, or as good with fewer set-ups.
    fn better(best: Option<Self>, tried: Self) -> Option<Self> {
        let is_better = best.as_ref().is_none_or(|best| {
            let is_as_good = tried.value <= best.value * (1.0 + AT_BOUND);
            tried.value < best.value * (1.0 - AT_BOUND)
                || (is_as_good && tried.setups <= best.setups)
        });
        if is_better { Some(tried) } else { best }
    }

    /// Equal intervals that follow each other are one.
    fn intervals(&self, problem: &Problem<'_>) -> Vec<Interval> {
        let mut intervals: Vec<Interval> = Vec::new();
        let mut now_s = 0.0;
        for slot in &self.slots {
            let next = interval(problem, now_s, slot);
            now_s = next.until_s;
            match intervals.last_mut() {
                Some(last) if last.circuits == next.circuits && last.rates == next.rates => {
                    last.until_s = now_s;
                }
                _ => intervals.push(next),
            }
        }
        intervals
    }
}

/// Orders that are a little other than the best.
struct Search<'a> {
    problem: &'a Problem<'a>,
    rng: Rng,
}

impl Search<'_> {
    fn changed(&mut self, best: &Tried) -> List {
        let count = best.list.rank.len();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|index| best.list.rank[*index]);
        let mut by = best.list.by.clone();
        let last_s = best.ends_s.iter().copied().fold(0.0, f64::max);
        for _ in 0..=self.rng.below(MOVES) {
            let mut place = self.rng.below(count as u64) as usize;
            if self.rng.chance(LATE) {
                let late = |index: &usize| best.ends_s[*index] >= last_s * (1.0 - AT_BOUND);
                place = order.iter().position(late).unwrap_or(place);
            }
            let index = order.remove(place);
            let to = self.rng.below(place as u64 + 1) as usize;
            order.insert(to, index);
            let ways: Vec<Summed> = self.problem.transfers[index].ways().collect();
            if ways.len() > 1 && self.rng.chance(FLIP) {
                by[index] = Some(ways[self.rng.below(ways.len() as u64) as usize]);
            }
        }
        List { by, ..List::of(&order, best.list.aim_s) }
    }
}
