//! A time before which no schedule completes all jobs.
//!
//! For a time T, [`relaxation`] asks what any schedule that ends by T needs, summed over slots; [`dual`] looks for
//! prices at which that is more than there is. If it finds them, no schedule ends by T. They are searched for over the
//! times at which a job can end at all: ends of slots, and those with a job's update.

mod dual;
mod fluid;
mod relaxation;

use crate::problem::{EPSILON, Problem};
use dual::Start;

pub use relaxation::{Column, Relaxation, Row};

/// A proven bound, and what its relaxation would do at that time.
#[derive(Clone, Debug)]
pub struct Bound {
    /// No schedule completes all jobs before, in seconds.
    pub completion_s: f64,
    /// For each transfer, how much of it the relaxation sums at its switch: 0 to 1.
    pub by_switch: Vec<f64>,
}

/// Times at which a batch can be complete, ascending, by index.
#[derive(Clone, Debug)]
pub struct Times {
    slot_s: f64,
    /// What updates add to whole slots, ascending, from 0.
    rests_s: Vec<f64>,
}

impl Times {
    /// The bound of an instance.
    #[must_use]
    pub fn new(problem: &Problem<'_>) -> Self {
        let slot_s = problem.instance.slot_s;
        let modes = problem.transfers.iter().flat_map(|transfer| transfer.modes.iter().flatten());
        let rests = modes.map(|mode| mode.update_s - (mode.update_s / slot_s).floor() * slot_s);
        let mut rests_s: Vec<f64> = rests.chain([0.0]).collect();
        rests_s.sort_by(f64::total_cmp);
        rests_s.dedup_by(|a, b| (*a - *b).abs() <= EPSILON * slot_s);
        Self { slot_s, rests_s }
    }

    /// In seconds.
    #[must_use]
    pub fn seconds(&self, index: usize) -> f64 {
        let slots = (index / self.rests_s.len()) as f64;
        slots * self.slot_s + self.rests_s[index % self.rests_s.len()]
    }

    /// The last one that is not after a time.
    #[must_use]
    pub fn not_after(&self, seconds: f64) -> usize {
        let slots = (seconds / self.slot_s + EPSILON).floor();
        let rest_s = seconds - slots * self.slot_s + EPSILON * self.slot_s;
        let rests = self.rests_s.partition_point(|rest| *rest <= rest_s).max(1);
        slots as usize * self.rests_s.len() + rests - 1
    }

    /// Times within a slot.
    #[must_use]
    pub fn per_slot(&self) -> usize {
        self.rests_s.len()
    }
}

/// Whole slots until a time.
#[must_use]
pub fn slots_until(problem: &Problem<'_>, seconds: f64) -> usize {
    (seconds / problem.instance.slot_s + EPSILON).floor().max(0.0) as usize
}

/// The best bound that is found, in seconds: in slots, or without them where circuits may change at any time.
#[must_use]
pub fn proven_s(problem: &Problem<'_>) -> f64 {
    if problem.instance.slots {
        completion(problem).completion_s
    } else {
        fluid::completion_s(problem)
    }
}

/// Whether it is proven that no schedule completes all jobs by a time.
#[must_use]
pub fn refuses(problem: &Problem<'_>, by_s: f64) -> bool {
    if !problem.instance.slots {
        return fluid::completion_s(problem) > by_s * (1.0 + EPSILON);
    }
    let times = Times::new(problem);
    let relaxation = Relaxation::new(problem, times.seconds(times.not_after(by_s)));
    dual::refuses(&relaxation, &mut Start::new(problem.transfers.len()))
}

/// The best bound for schedules in slots.
#[must_use]
pub fn completion(problem: &Problem<'_>) -> Bound {
    let times = Times::new(problem);
    let mut start = Start::new(problem.transfers.len());
    // Below `low` nothing ends; at `high` the relaxation holds, or nothing is proven.
    let mut low = times.not_after(alone_s(problem));
    let mut step = 1;
    let mut refuses = |index: usize| {
        let relaxation = Relaxation::new(problem, times.seconds(index));
        dual::refuses(&relaxation, &mut start)
    };
    let mut high = low;
    while refuses(high) {
        low = high + 1;
        high = low + step;
        step *= 2;
    }
    while low < high {
        let middle = low.midpoint(high);
        if refuses(middle) { low = middle + 1 } else { high = middle }
    }
    Bound { completion_s: times.seconds(low), by_switch: start.by_switch }
}

/// When the slowest job ends if it is alone, in seconds.
fn alone_s(problem: &Problem<'_>) -> f64 {
    let slot_s = problem.instance.slot_s;
    let ends = problem.transfers.iter().map(|transfer| {
        let ways = transfer.ways().map(|summed| {
            let slots = transfer.release + transfer.least_slots(summed);
            slots as f64 * slot_s + transfer.mode(summed).update_s
        });
        ways.fold(f64::INFINITY, f64::min)
    });
    ends.fold(0.0, f64::max)
}
