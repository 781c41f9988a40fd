//! Who gets how much: max-min fair rates, with currents that cannot outrun those that feed them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Relative; a capacity whose level rose by less since it was queued is still the next to fill up.
const LEVEL_TOLERANCE: f64 = 1e-12;
/// Relative excess of a capacity that rounding explains.
const EXCESS_TOLERANCE: f64 = 1e-9;

/// A capacity: what it gives, and who takes part.
#[derive(Clone, Debug, Default)]
struct Capacity {
    rate_bps: f64,
    /// Currents that cross it, and how often.
    users: Vec<(u32, u32)>,
    /// Sum of how often.
    total: u32,
    left_bps: f64,
    /// The same sum, over currents without a rate yet.
    open: u32,
}

/// Capacities and the currents that share them. Currents come and go; rates are computed when asked for.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    capacities: Vec<Capacity>,
    /// Capacities with users, in no particular but always the same order; and where each is in this list.
    busy: Vec<u32>,
    place: Vec<u32>,
    /// By current: what it crosses, and how often.
    uses: Vec<Vec<(u32, u32)>>,
    rates_bps: Vec<f64>,
    /// By current: the computation in which it last got a rate.
    settled: Vec<u64>,
    /// Currents that take part, and those of them without a rate yet.
    active: usize,
    unsettled: usize,
    computation: u64,
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    waiting: Vec<u32>,
}

/// Not among the busy.
const NOWHERE: u32 = u32::MAX;

impl Sharing {
    /// Capacities of these rates, in bit/s.
    #[must_use]
    pub fn new(rates_bps: &[f64]) -> Self {
        let capacity = |rate_bps: &f64| Capacity { rate_bps: *rate_bps, ..Capacity::default() };
        Self {
            capacities: rates_bps.iter().map(capacity).collect(),
            place: vec![NOWHERE; rates_bps.len()],
            ..Self::default()
        }
    }

    /// Changes what a capacity gives.
    pub fn set_rate(&mut self, capacity: u32, rate_bps: f64) {
        self.capacities[capacity as usize].rate_bps = rate_bps;
    }

    /// Lets a current take part: `uses` are the capacities that it crosses, each once, and how often it crosses them.
    pub fn enter(&mut self, current: u32, uses: &[(u32, u32)]) {
        let index = current as usize;
        if self.uses.len() <= index {
            self.uses.resize(index + 1, Vec::new());
            self.rates_bps.resize(index + 1, 0.0);
            self.settled.resize(index + 1, 0);
        }
        self.active -= usize::from(!self.uses[index].is_empty());
        self.active += usize::from(!uses.is_empty());
        self.uses[index].clear();
        self.uses[index].extend_from_slice(uses);
        for &(number, times) in uses {
            let capacity = &mut self.capacities[number as usize];
            capacity.users.push((current, times));
            capacity.total += times;
            if capacity.users.len() == 1 {
                self.place[number as usize] = self.busy.len() as u32;
                self.busy.push(number);
            }
        }
    }

    /// Takes a current away; its rate is 0 from now on.
    pub fn leave(&mut self, current: u32) {
        let uses = std::mem::take(&mut self.uses[current as usize]);
        self.active -= usize::from(!uses.is_empty());
        self.rates_bps[current as usize] = 0.0;
        for &(number, times) in &uses {
            let capacity = &mut self.capacities[number as usize];
            capacity.users.retain(|(user, _)| *user != current);
            capacity.total -= times;
            if capacity.users.is_empty() {
                let place = std::mem::replace(&mut self.place[number as usize], NOWHERE);
                self.busy.swap_remove(place as usize);
                if let Some(&moved) = self.busy.get(place as usize) {
                    self.place[moved as usize] = place;
                }
            }
        }
    }

    /// bit/s of a current since the last computation; 0 if it does not take part.
    #[inline]
    #[must_use]
    pub fn rate_bps(&self, current: u32) -> f64 {
        self.rates_bps.get(current as usize).copied().unwrap_or(0.0)
    }

    /// Computes the max-min fair rates by progressive filling: all rise together; when a capacity is full those that cross it stay as
    /// they are, and so do those that follow them. What they leave the others take.
    ///
    /// O(U log C) for U uses of C capacities. `followers` writes those that may not be faster than a current to its second argument;
    /// those in `stopped` get nothing.
    pub fn compute(&mut self, stopped: &[u32], mut followers: impl FnMut(u32, &mut Vec<u32>)) {
        self.computation += 1;
        self.unsettled = self.active;
        for &number in &self.busy {
            let capacity = &mut self.capacities[number as usize];
            capacity.left_bps = capacity.rate_bps;
            capacity.open = capacity.total;
        }
        for &current in stopped {
            self.settle(current, 0.0, &mut followers);
        }
        let mut queue = std::mem::take(&mut self.queue).into_vec();
        queue.clear();
        let levels = self.busy.iter().filter_map(|&number| {
            Some(Reverse((self.capacities[number as usize].level()?.to_bits(), number)))
        });
        queue.extend(levels);
        self.queue = BinaryHeap::from(queue);
        while self.unsettled > 0
            && let Some(Reverse((queued, number))) = self.queue.pop()
        {
            self.fill(number, f64::from_bits(queued), &mut followers);
        }
    }

    /// The fullest capacity: every current that crosses it stays at its level. It may have been relieved since it was queued.
    fn fill(
        &mut self,
        number: u32,
        queued_bps: f64,
        followers: &mut impl FnMut(u32, &mut Vec<u32>),
    ) {
        let Some(level_bps) = self.capacities[number as usize].level() else { return };
        if level_bps > queued_bps * (1.0 + LEVEL_TOLERANCE) {
            self.queue.push(Reverse((level_bps.to_bits(), number)));
            return;
        }
        for index in 0..self.capacities[number as usize].users.len() {
            let (current, _) = self.capacities[number as usize].users[index];
            self.settle(current, level_bps, followers);
        }
    }

    /// Gives a current its rate, and the same to those that follow it.
    fn settle(
        &mut self,
        current: u32,
        rate_bps: f64,
        followers: &mut impl FnMut(u32, &mut Vec<u32>),
    ) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.push(current);
        while let Some(current) = waiting.pop() {
            let index = current as usize;
            let takes_part = self.uses.get(index).is_some_and(|uses| !uses.is_empty());
            if takes_part && self.settled[index] == self.computation {
                continue;
            }
            if takes_part {
                self.settled[index] = self.computation;
                self.unsettled -= 1;
                self.rates_bps[index] = rate_bps;
                for &(number, times) in &self.uses[index] {
                    let capacity = &mut self.capacities[number as usize];
                    capacity.left_bps -= rate_bps * f64::from(times);
                    capacity.open -= times;
                }
            }
            followers(current, &mut waiting);
        }
        self.waiting = waiting;
    }

    /// The capacity that gives more than it has, if there is one.
    #[must_use]
    pub fn overloaded(&self) -> Option<u32> {
        let is_over = |number: &&u32| {
            let capacity = &self.capacities[**number as usize];
            capacity.left_bps < -EXCESS_TOLERANCE * capacity.rate_bps
        };
        self.busy.iter().find(is_over).copied()
    }
}

impl Capacity {
    /// The common rate of those without one at which it is full.
    fn level(&self) -> Option<f64> {
        (self.open > 0).then(|| self.left_bps.max(0.0) / f64::from(self.open))
    }
}

#[cfg(test)]
mod tests {
    use wiresum_netem::Rng;

    use super::*;

    fn none(_: u32, _: &mut Vec<u32>) {}

    #[test]
    fn what_one_leaves_the_others_take() {
        let mut sharing = Sharing::new(&[10.0, 2.0]);
        sharing.enter(0, &[(0, 1)]);
        sharing.enter(1, &[(0, 1), (1, 1)]);
        sharing.compute(&[], none);
        assert_eq!((sharing.rate_bps(0), sharing.rate_bps(1)), (8.0, 2.0));
        sharing.leave(1);
        sharing.compute(&[], none);
        assert_eq!((sharing.rate_bps(0), sharing.rate_bps(1)), (10.0, 0.0));
    }

    #[test]
    fn a_tree_in_step_has_the_rate_of_its_busiest_link() {
        let mut sharing = Sharing::new(&[12.0, 100.0]);
        sharing.enter(0, &[(0, 3), (1, 1)]);
        sharing.enter(1, &[(1, 1)]);
        sharing.compute(&[], none);
        assert_eq!((sharing.rate_bps(0), sharing.rate_bps(1)), (4.0, 96.0));
    }

    #[test]
    fn a_capacity_that_gives_more_than_it_has_is_seen() {
        let mut sharing = Sharing::new(&[10.0, 2.0]);
        sharing.enter(0, &[(0, 1)]);
        sharing.compute(&[], none);
        assert_eq!(sharing.overloaded(), None);
        sharing.capacities[0].left_bps -= 1.0;
        assert_eq!(sharing.overloaded(), Some(0));
    }

    #[test]
    fn followers_are_no_faster() {
        let mut sharing = Sharing::new(&[2.0, 10.0]);
        sharing.enter(0, &[(0, 1)]);
        sharing.enter(1, &[(1, 1)]);
        sharing.compute(&[], |current, followers| followers.extend((current == 0).then_some(1)));
        assert_eq!((sharing.rate_bps(0), sharing.rate_bps(1)), (2.0, 2.0));
        sharing.compute(&[0], |current, followers| followers.extend((current == 0).then_some(1)));
        assert_eq!((sharing.rate_bps(0), sharing.rate_bps(1)), (0.0, 0.0));
    }

    /// Max-min fairness itself: nobody can have more without someone who has no more getting less, so each crosses a full capacity on
    /// which nobody has more.
    #[test]
    fn random_rates_are_max_min_fair() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let rates: Vec<f64> = (0..12).map(|_| 1.0 + rng.below(100) as f64).collect();
            let mut sharing = Sharing::new(&rates);
            let count = 1 + rng.below(30) as u32;
            for current in 0..count {
                let first = rng.below(6) as u32;
                let second = 6 + rng.below(6) as u32;
                sharing.enter(current, &[(first, 1), (second, 1 + rng.below(3) as u32)]);
            }
            for current in (0..count).filter(|current| current % 5 == 4) {
                sharing.leave(current);
            }
            sharing.compute(&[], none);
            assert_eq!(sharing.overloaded(), None, "seed {seed}");
            for current in (0..count).filter(|current| current % 5 != 4) {
                let rate = sharing.rate_bps(current);
                let is_bottleneck = |&(number, _): &(u32, u32)| {
                    let capacity = &sharing.capacities[number as usize];
                    let most = capacity.users.iter().map(|(user, _)| sharing.rate_bps(*user));
                    let is_full = capacity.left_bps.abs() < 1e-9 * capacity.rate_bps;
                    is_full && most.fold(0.0, f64::max) <= rate * (1.0 + 1e-9)
                };
                let uses = &sharing.uses[current as usize];
                assert!(uses.iter().any(is_bottleneck), "seed {seed}, current {current}");
            }
        }
    }
}
