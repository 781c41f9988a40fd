//! Who may send how fast: max-min fair shares of a node's links, by filling.
//!
//! XAgg (IEEE/ACM Transactions on Networking, 2023), §IV-C, Eq. (1) says which rates are feasible; among those, the max-min fair
//! ones are chosen. A level rises from zero for all flows alike; a flow stops where something holds it: its own cap, a full link,
//! or the rate at which its node can send their sum on.

/// What a node's links carry, in bit/s. `None` bounds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Children's flows, and results from the parents.
    pub ingress_bps: Option<u64>,
    /// Sums to the parents, and results to the children.
    pub egress_bps: Option<u64>,
    /// Whether results travel through these links. XAgg's Eq. (1) leaves them out: its root sends them past the tree.
    pub results: Results,
}

/// See [`Bounds::results`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Results {
    /// They come down the tree, through the same links.
    #[default]
    Here,
    /// They do not.
    Elsewhere,
}

/// One tree at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demands {
    /// Most that each child can send that is sending now, in bit/s.
    pub caps: Vec<u64>,
    /// All children of the tree here, sending or not: each gets every result.
    pub fan_in: u64,
    /// Whether the sum goes on to a parent.
    pub has_parent: bool,
    /// A child has not begun what the others send: they run ahead into the slots, and no sum leaves the node.
    pub is_blocked: bool,
    /// What the parent grants to the sum, in bit/s.
    pub granted: Option<u64>,
}

impl Demands {
    /// Copies of the sum's rate that leave the node, and that arrive at it.
    fn copies(&self, results: Results) -> (u64, u64) {
        let up = u64::from(self.has_parent);
        match results {
            Results::Here => (up + self.fan_in, up),
            Results::Elsewhere => (up, 0),
        }
    }
}

/// The rate of each flow, in bit/s, in the order of the trees and their caps.
///
/// Feasible: the sum of a tree's flows is sent on at the rate of the slowest, and with that both links carry everything. Max-min
/// fair: no flow can gain without one that is not faster losing. Where the way up holds a tree back, its slowest children stand
/// for it (all of them, if several are equally slow), and the others may run ahead. O(n²) for n flows.
#[must_use]
pub fn allocate(bounds: Bounds, trees: &[Demands]) -> Vec<Vec<u64>> {
    // Who is slowest is known only when everything but the way up has been shared.
    let everyone = trees.iter().map(|tree| vec![true; tree.caps.len()]).collect();
    let free = Filling::new(Bounds { egress_bps: None, ..bounds }, trees, everyone).fill(false);
    let slowest = |rates: &Vec<u64>| {
        let least = rates.iter().min().copied();
        rates.iter().map(|rate| Some(*rate) == least).collect()
    };
    let slowest = free.iter().map(slowest).collect();
    Filling::new(bounds, trees, slowest).fill(true)
}

/// The rate of a tree's sum: that of the slowest flow; 0 if the tree is blocked, or no one sends.
#[must_use]
pub fn sum_rate(tree: &Demands, rates: &[u64]) -> u64 {
    if tree.is_blocked { 0 } else { rates.iter().min().copied().unwrap_or(0) }
}

/// The state of filling.
struct Filling<'a> {
    bounds: Bounds,
    trees: &'a [Demands],
    /// Flows that hold back their tree's sum.
    slowest: Vec<Vec<bool>>,
    rates: Vec<Vec<Option<u64>>>,
    level: u64,
}

impl<'a> Filling<'a> {
    fn new(bounds: Bounds, trees: &'a [Demands], slowest: Vec<Vec<bool>>) -> Self {
        let rates = trees.iter().map(|tree| vec![None; tree.caps.len()]).collect();
        Self { bounds, trees, slowest, rates, level: 0 }
    }

    /// Every turn raises the level to where the next thing holds some flow, and stops that one.
    fn fill(mut self, minds_grants: bool) -> Vec<Vec<u64>> {
        while self.rising().next().is_some() {
            let (ingress, ingress_slope) = self.ingress();
            let (egress, egress_slope) = self.egress();
            let next_cap = self.rising().map(|(tree, flow)| self.trees[tree].caps[flow]).min();
            let grants =
                (0..self.trees.len()).filter(|tree| minds_grants && self.is_sum_rising(*tree));
            let next_grant = grants.filter_map(|tree| self.trees[tree].granted).min();
            let by_ingress = room(self.bounds.ingress_bps, ingress, ingress_slope);
            let by_egress = room(self.bounds.egress_bps, egress, egress_slope);
            let top = next_cap.into_iter().chain(next_grant).min().unwrap_or(u64::MAX);
            let step = top.saturating_sub(self.level).min(by_ingress).min(by_egress);
            self.level += step;
            self.stop(step == by_ingress, step == by_egress, minds_grants);
        }
        self.rates.into_iter().map(|t| t.into_iter().flatten().collect()).collect()
    }

    /// Flows that nothing holds yet.
    fn rising(&self) -> impl Iterator<Item = (usize, usize)> {
        let of_tree = |(tree, rates): (usize, &'_ Vec<Option<u64>>)| {
            let rising = rates.iter().enumerate().filter(|(_, rate)| rate.is_none());
            rising.map(|(flow, _)| (tree, flow)).collect::<Vec<_>>()
        };
        self.rates.iter().enumerate().flat_map(of_tree)
    }

    /// Whether a tree's sum grows with the level.
    fn is_sum_rising(&self, tree: usize) -> bool {
        let rates = &self.rates[tree];
        !self.trees[tree].is_blocked && !rates.is_empty() && rates.iter().all(Option::is_none)
    }

    fn sum(&self, tree: usize) -> u64 {
        let rates = self.rates[tree].iter().map(|rate| rate.unwrap_or(self.level));
        let rates = rates.collect::<Vec<_>>();
        sum_rate(&self.trees[tree], &rates)
    }

    /// What arrives, and how much more with each bit/s of the level.
    fn ingress(&self) -> (u128, u128) {
        let flows = self.rates.iter().flatten();
        let load: u128 = flows.map(|rate| u128::from(rate.unwrap_or(self.level))).sum();
        let (results, slope) = self.of_sums(|tree| tree.copies(self.bounds.results).1);
        (load + results, self.rising().count() as u128 + slope)
    }

    /// What leaves, and how much more with each bit/s of the level.
    fn egress(&self) -> (u128, u128) {
        self.of_sums(|tree| tree.copies(self.bounds.results).0)
    }

    fn of_sums(&self, copies: impl Fn(&Demands) -> u64) -> (u128, u128) {
        let mut total = (0, 0);
        for (index, tree) in self.trees.iter().enumerate() {
            let copies = u128::from(copies(tree));
            total.0 += copies * u128::from(self.sum(index));
            total.1 += copies * u128::from(self.is_sum_rising(index));
        }
        total
    }

    /// Fixes the rates of the flows that something holds at this level.
    fn stop(&mut self, is_ingress_full: bool, is_egress_full: bool, minds_grants: bool) {
        for index in 0..self.trees.len() {
            let tree = &self.trees[index];
            let is_granted = !minds_grants || tree.granted.is_none_or(|most| self.level < most);
            let is_squeezed = is_egress_full && tree.copies(self.bounds.results).0 > 0;
            let is_sum_held = self.is_sum_rising(index) && (is_squeezed || !is_granted);
            for flow in 0..tree.caps.len() {
                let is_held = is_sum_held && self.slowest[index][flow];
                let is_at_cap = tree.caps[flow] <= self.level;
                if self.rates[index][flow].is_none() && (is_ingress_full || is_held || is_at_cap) {
                    self.rates[index][flow] = Some(self.level);
                }
            }
        }
    }
}

/// How far the level may rise until a link is full.
fn room(bound: Option<u64>, load: u128, slope: u128) -> u64 {
    match bound {
        Some(bound) if slope > 0 => (u128::from(bound).saturating_sub(load) / slope) as u64,
        _ => u64::MAX,
    }
}
