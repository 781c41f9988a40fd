//! Shortest ways, and which of several equally short ones a flow takes.

use std::collections::VecDeque;

use crate::SimulationError;
use crate::scenario::Scenario;

/// Sites to which ways are kept at most. Those to one site take as much memory as there are sites, and whoever uses a way remembers it.
const MOST_KEPT: usize = 256;

/// Ways to a site, by direction that leads to it.
struct WaysTo {
    /// Where each site's directions begin in `directions`; one more than there are sites.
    begins: Vec<u32>,
    /// Directions that are on a shortest way.
    directions: Vec<u32>,
}

/// Who is next to whom. Ways to a site are searched when it is asked for, and kept for a while.
pub struct Routes {
    names: Vec<String>,
    forwards: Vec<bool>,
    /// By site: directions that leave it, and where they lead.
    leaving: Vec<Vec<(u32, u32)>>,
    ways: Vec<Option<WaysTo>>,
    /// Sites to which ways are kept, the oldest first.
    kept: VecDeque<usize>,
}

impl Routes {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let mut leaving = vec![Vec::new(); scenario.sites.len()];
        for (index, link) in scenario.links.iter().enumerate() {
            leaving[link.source].push((2 * index as u32, link.target as u32));
            leaving[link.target].push((2 * index as u32 + 1, link.source as u32));
        }
        Self {
            names: scenario.sites.iter().map(|site| site.name.clone()).collect(),
            forwards: scenario.sites.iter().map(|site| site.forwards).collect(),
            ways: leaving.iter().map(|_| None).collect(),
            kept: VecDeque::new(),
            leaving,
        }
    }

    /// The direction that a packet takes from `at` towards `target`; `None` if none leads there, or it is there. With another
    /// `choice` it may be another of several equally short ways.
    #[inline]
    pub fn next(&mut self, at: usize, target: usize, choice: u32) -> Option<u32> {
        if self.ways[target].is_none() {
            self.keep(target);
        }
        let ways = self.ways[target].as_ref()?;
        let (begin, end) = (ways.begins[at] as usize, ways.begins[at + 1] as usize);
        let candidates = &ways.directions[begin..end];
        match candidates.len() {
            0 => None,
            1 => Some(candidates[0]),
            count => Some(candidates[mix(choice, at) as usize % count]),
        }
    }

    fn keep(&mut self, target: usize) {
        if self.kept.len() == MOST_KEPT
            && let Some(oldest) = self.kept.pop_front()
        {
            self.ways[oldest] = None;
        }
        self.ways[target] = Some(self.search(target));
        self.kept.push_back(target);
    }

    /// What packets from one site to another choose by: they keep their order, and pairs spread over equal ways.
    #[inline]
    #[must_use]
    pub fn choice(source: usize, target: usize) -> u32 {
        (source as u32).wrapping_mul(0x9e37_79b1) ^ (target as u32).wrapping_mul(0x85eb_ca77)
    }

    pub(crate) fn unreachable(&self, source: usize, target: usize) -> SimulationError {
        SimulationError::Unreachable {
            source_name: self.names[source].clone(),
            target: self.names[target].clone(),
        }
    }

    /// Breadth first, from the target backwards. Only sites that forward have ways of others through them.
    fn search(&self, target: usize) -> WaysTo {
        let mut distance = vec![u32::MAX; self.leaving.len()];
        distance[target] = 0;
        let mut queue = VecDeque::from([target]);
        while let Some(site) = queue.pop_front() {
            if site != target && !self.forwards[site] {
                continue;
            }
            for &(_, neighbour) in &self.leaving[site] {
                let neighbour = neighbour as usize;
                if distance[neighbour] == u32::MAX {
                    distance[neighbour] = distance[site] + 1;
                    queue.push_back(neighbour);
                }
            }
        }
        let may_carry = |site: usize| site == target || self.forwards[site];
        let mut ways = WaysTo { begins: vec![0], directions: Vec::new() };
        for (site, leaving) in self.leaving.iter().enumerate() {
            let nearer = leaving.iter().filter(|(_, next)| {
                let next = *next as usize;
                may_carry(next) && distance[next].checked_add(1) == Some(distance[site])
            });
            ways.directions.extend(nearer.map(|(direction, _)| direction));
            ways.begins.push(ways.directions.len() as u32);
        }
        ways
    }
}

/// A hash of a choice and the place where it is made, so that choices at different places have nothing to do with each other.
fn mix(choice: u32, at: usize) -> u32 {
    let x = (u64::from(choice) << 32 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{GIGABIT, Tree, scenario};

    #[test]
    fn ways_are_forgotten_and_found_again() {
        let mut star = scenario(&Tree::star(2 * MOST_KEPT as u32), "pool", 4, GIGABIT);
        star.sites[0].forwards = true;
        let mut routes = Routes::new(&star);
        let ways = |routes: &mut Routes| -> Vec<_> {
            (1..star.sites.len()).map(|site| routes.next(0, site, 0)).collect()
        };
        let first = ways(&mut routes);
        assert!(first.iter().all(Option::is_some));
        assert_eq!(ways(&mut routes), first);
        assert_eq!(routes.ways.iter().flatten().count(), MOST_KEPT);
    }
}
