//! Ways through a network of switches, as a plan has them: which links each worker's contributions take, and the sums that they end in.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;
use wiresum_wire::{JobId, MAX_SWITCHED_WORKERS, NodeId, SubModelId};

use crate::Workers;

/// Addresses every switch on the way that sums for the packet's stream.
pub const ANY_NODE: NodeId = NodeId(u16::MAX);

/// Workers of a job at most: packets count them in 8 bits.
pub const MAX_WORKERS: u8 = MAX_SWITCHED_WORKERS as u8;

/// Where packets are sent from, handled and taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Site {
    /// A worker of the job.
    Worker(u8),
    /// A switch or server, by its number in plans.
    Node(NodeId),
}

/// One link in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The site that the link leads away from.
    pub from: Site,
    /// The site that the link leads to.
    pub to: Site,
    /// Which of the links of these two.
    pub link: u16,
}

impl Hop {
    /// The same link the other way round.
    #[must_use]
    pub fn back(self) -> Self {
        Self { from: self.to, to: self.from, link: self.link }
    }
}

/// A part of a worker's way, on which its packets have one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// What packets are addressed to: the node where it ends, or [`ANY_NODE`].
    pub node: NodeId,
    /// From its first site to the last.
    pub hops: Vec<Hop>,
}

/// The way of one worker's values: to the first node that sums them, from there as part of a sum to the next, up to the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The worker whose values take this way.
    pub worker: u8,
    /// In order; the first begins at the worker.
    pub legs: Vec<Leg>,
}

/// The ways of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ways {
    /// The job.
    pub job: JobId,
    /// The stream.
    pub sub_model: SubModelId,
    /// The way of each worker.
    pub of: Vec<Way>,
}

/// Why a way leads nowhere.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the way of worker {worker} {problem}")]
pub struct WayError {
    /// The worker whose way it is.
    pub worker: u8,
    /// What is wrong, and what to do.
    pub problem: &'static str,
}

impl Way {
    /// Where the sum is complete; `None` of a way without legs.
    #[must_use]
    pub fn root(&self) -> Option<Site> {
        self.legs.last().and_then(|leg| leg.hops.last()).map(|hop| hop.to)
    }

    /// Every hop, in order.
    pub fn hops(&self) -> impl Iterator<Item = &Hop> {
        self.legs.iter().flat_map(|leg| &leg.hops)
    }

    /// What the worker's packets are addressed to: the node that sums them first, or [`ANY_NODE`].
    #[must_use]
    pub fn first_address(&self) -> NodeId {
        self.legs.first().map_or(ANY_NODE, |leg| leg.node)
    }

    /// Whether its packets are summed at a node: they are addressed to it, or pass it without an address.
    #[must_use]
    pub fn is_summed_at(&self, node: NodeId) -> bool {
        self.legs.iter().any(|leg| match leg.node {
            ANY_NODE => leg.hops.iter().any(|hop| hop.to == Site::Node(node)),
            address => address == node,
        })
    }

    /// Where what is addressed to a node is addressed next.
    fn address_after(&self, node: NodeId) -> Option<NodeId> {
        let index = self.legs.iter().position(|leg| leg.node == node)?;
        self.legs.get(index + 1).map(|leg| leg.node)
    }

    /// Whether it leads from its worker to its root.
    ///
    /// # Errors
    /// The first [`WayError`].
    pub fn validate(&self) -> Result<(), WayError> {
        let problem = self.problem();
        problem.map_or(Ok(()), |problem| Err(WayError { worker: self.worker, problem }))
    }

    fn problem(&self) -> Option<&'static str> {
        if self.worker == MAX_WORKERS {
            return Some(
                "is of worker 255 or above, and packets count 255 workers: let servers sum",
            );
        }
        let mut at = Site::Worker(self.worker);
        for leg in &self.legs {
            if let Some(problem) = leg.problem(at) {
                return Some(problem);
            }
            at = leg.hops.last().map_or(at, |hop| hop.to);
        }
        if self.legs.is_empty() {
            return Some("has no legs: give it one to the root");
        }
        let is_open = self.legs.len() > 1 && self.legs.iter().any(|leg| leg.node == ANY_NODE);
        is_open.then_some("has several legs, one without an address: address each to its end")
    }

    /// The way of results, from the root to the worker: back, without what leads in a circle.
    #[must_use]
    pub fn down(&self) -> Vec<Hop> {
        let mut kept: Vec<Hop> = Vec::new();
        for hop in self.hops() {
            let before = kept.iter().position(|earlier| earlier.from == hop.to);
            match before {
                Some(index) => kept.truncate(index),
                None => kept.push(*hop),
            }
        }
        kept.into_iter().rev().map(Hop::back).collect()
    }

    /// Nodes that results do not pass although contributions do, as the way leads to them and back.
    pub fn detours(&self) -> impl Iterator<Item = Site> {
        let passed: BTreeSet<Site> = self.down().iter().map(|hop| hop.from).collect();
        self.hops().map(|hop| hop.to).filter(move |site| !passed.contains(site))
    }
}

impl Leg {
    fn problem(&self, begin: Site) -> Option<&'static str> {
        let mut visited = BTreeSet::from([begin]);
        let mut at = begin;
        for hop in &self.hops {
            if hop.from != at {
                return Some("is broken: each hop begins where the one before ends");
            }
            if matches!(hop.to, Site::Worker(_)) {
                return Some(
                    "leads over a worker, and workers do not forward: choose a path over switches",
                );
            }
            if !visited.insert(hop.to) {
                return Some("passes a node twice with one address: choose a path without circles");
            }
            at = hop.to;
        }
        if self.hops.is_empty() {
            return Some("has a leg without hops: leave it out");
        }
        let is_there = self.node == ANY_NODE || at == Site::Node(self.node);
        (!is_there).then_some("has a leg that ends at another node than its address")
    }
}

impl Ways {
    /// Where the stream's sums end.
    #[must_use]
    pub fn root(&self) -> Option<Site> {
        self.of.first().and_then(Way::root)
    }

    /// Workers that are summed at a node.
    #[must_use]
    pub fn members(&self, node: NodeId) -> Workers {
        let summed = self.of.iter().filter(|way| way.is_summed_at(node));
        summed.fold(Workers::NONE, |set, way| set.with(Workers::one(way.worker)))
    }

    /// Where the sum of a node goes: to the next address on its ways, or the root. `None` at the root.
    #[must_use]
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        let Some(Site::Node(root)) = self.root().filter(|root| *root != Site::Node(node)) else {
            return None;
        };
        Some(self.of.iter().find_map(|way| way.address_after(node)).unwrap_or(root))
    }

    /// Whether every way leads to one root, each worker has one, and each node's sums have one parent.
    ///
    /// # Errors
    /// The first [`WayError`].
    pub fn validate(&self) -> Result<(), WayError> {
        let root = self.root();
        let mut seen = BTreeSet::new();
        let mut parents = BTreeMap::new();
        for way in &self.of {
            way.validate()?;
            let error = |problem| Err(WayError { worker: way.worker, problem });
            if way.root() != root {
                return error("ends at another root than the others': sums must meet");
            }
            if !seen.insert(way.worker) {
                return error("is there twice: give it one");
            }
            for pair in way.legs.windows(2) {
                let (node, next) = (pair[0].node, pair[1].node);
                if *parents.entry(node).or_insert(next) != next {
                    return error(
                        "has a sum go on to another node than the others': it has one parent",
                    );
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: u16 = 9;

    /// A way over nodes, a link each; those that are addressed end a leg.
    fn way(worker: u8, nodes: &[u16], addressed: &[u16]) -> Way {
        let sites = nodes.iter().map(|node| Site::Node(NodeId(*node)));
        let froms = std::iter::once(Site::Worker(worker)).chain(sites.clone());
        let mut legs = vec![];
        let mut hops = vec![];
        for (from, to) in froms.zip(sites) {
            hops.push(Hop { from, to, link: 0 });
            if let Site::Node(node) = to
                && addressed.contains(&node.0)
            {
                legs.push(Leg { node, hops: std::mem::take(&mut hops) });
            }
        }
        if !hops.is_empty() {
            legs.push(Leg { node: ANY_NODE, hops });
        }
        Way { worker, legs }
    }

    fn stream(of: Vec<Way>) -> Ways {
        Ways { job: JobId(1), sub_model: SubModelId(1), of }
    }

    #[test]
    fn what_passes_a_node_without_an_address_is_summed_there_for_the_root() {
        let ways = stream(vec![way(0, &[1, 3, ROOT], &[]), way(1, &[2, 3, ROOT], &[])]);
        let members = |node| ways.members(NodeId(node));
        assert_eq!(
            [1, 2, 3].map(members),
            [1, 2, 3].map(|bits| Workers::from_bits([bits, 0, 0, 0]))
        );
        assert_eq!([1, 2, 3].map(|node| ways.parent(NodeId(node))), [Some(NodeId(ROOT)); 3]);
        assert_eq!(
            (ways.parent(NodeId(ROOT)), ways.root()),
            (None, Some(Site::Node(NodeId(ROOT))))
        );
    }

    #[test]
    fn what_is_addressed_is_summed_where_its_legs_end() {
        let of = vec![way(0, &[1, 3, ROOT], &[1, ROOT]), way(1, &[2, 3, ROOT], &[3, ROOT])];
        let ways = stream(of);
        ways.validate().expect("each sum has one parent");
        let members = |node| ways.members(NodeId(node)).bits()[0];
        assert_eq!([1, 2, 3, ROOT].map(members), [0b01, 0, 0b10, 0b11]);
        assert_eq!(ways.of[1].first_address(), NodeId(3));
    }

    #[test]
    fn a_sum_has_one_parent() {
        let of = vec![way(0, &[1, 2, ROOT], &[1, 2, ROOT]), way(1, &[1, 2, ROOT], &[1, ROOT])];
        let error = stream(of).validate().expect_err("node 1 cannot tell whose sum goes where");
        assert_eq!(error.worker, 1);
        assert!(error.problem.contains("one parent"), "{error}");
    }
}
