//! Who may stand in for an aggregator that is gone: the workers below it, at its parent.
//!
//! Every node but the root can be removed from a tree in the middle of a round. Each worker below it, however far, then has a
//! *substitute seat* at its parent: a contributor number beyond those of the parent's children. The numbers follow from the plan
//! alone, so nothing has to be agreed when a node dies.

use wiresum_wire::{Contributor, MAX_CONTRIBUTORS, NodeId};

use crate::{Child, PlanStream};

/// A worker below a child: a contributor when that child is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Substitute {
    /// The child, a node, whose place the worker takes in part.
    pub stands_for: Contributor,
    /// Rank of the worker.
    pub rank: u32,
}

/// Where a worker goes when a node above it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refuge {
    /// The node that is gone.
    pub removed: NodeId,
    /// Its parent, where the worker has a seat.
    pub node: NodeId,
    /// The worker's number there.
    pub contributor: Contributor,
    /// Everyone who goes there with it.
    pub team: Vec<u32>,
}

/// What a contributor's bit means beside those of the others; bitmaps of contributors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The child that it is, or stands for. If this bit is in, its own values are.
    pub child: u64,
    /// Who makes up that child: when all of them are in, the child is. A child makes up itself.
    pub team: u64,
    /// Who must not be in for its values to be taken: for a child, its substitutes.
    pub rivals: u64,
}

impl Seat {
    /// The seat in an incarnation in which nobody fills these.
    #[must_use]
    pub fn without(&self, vacant: u64) -> Self {
        Self { team: self.team & !vacant, ..*self }
    }

    /// The bitmap with this seat's child in it too, if all who make it up are.
    #[must_use]
    pub fn complete(&self, contributors: u64) -> u64 {
        if contributors & self.team == self.team { contributors | self.child } else { contributors }
    }
}

impl PlanStream {
    /// The seats at a node, by contributor number: first its children's, then their substitutes'.
    #[must_use]
    pub fn seats(&self, node: NodeId) -> Vec<Seat> {
        let count = self.fan_in(node);
        let own = (0..count).map(|child| 1 << child);
        let mut seats: Vec<Seat> =
            own.map(|bit| Seat { child: bit, team: bit, rivals: 0 }).collect();
        for substitute in self.substitutes(node) {
            let (child, own) = (usize::from(substitute.stands_for.0), 1 << seats.len());
            seats[child].rivals |= own;
            seats.push(Seat { child: 1 << child, team: 0, rivals: 0 });
        }
        for index in count..seats.len() {
            seats[index].team = seats[seats[index].child.trailing_zeros() as usize].rivals;
        }
        seats
    }

    /// The seats at a node that nobody fills in an incarnation that goes on without some workers, as a bitmap of
    /// contributors: theirs, those of nodes that have nobody else below them, and those that they have as substitutes.
    #[must_use]
    pub fn vacancies(&self, node: NodeId, is_absent: impl Fn(u32) -> bool) -> u64 {
        let is_vacant = |child: Child| match child {
            Child::Worker(rank) => is_absent(rank),
            Child::Node(_) => self.ranks_below(child).into_iter().all(&is_absent),
        };
        let children: Vec<bool> = self.children(node).map(is_vacant).collect();
        let substitutes = self.substitutes(node).into_iter().map(|s| is_absent(s.rank));
        let seats = children.into_iter().chain(substitutes);
        seats.enumerate().fold(0, |bits, (index, vacant)| bits | u64::from(vacant) << index)
    }

    /// The substitutes at a node; the first has the contributor number after the last child's, and so on.
    ///
    /// In the order of children and of the workers below them. A child whose substitutes would not fit below [`MAX_CONTRIBUTORS`] has none.
    #[must_use]
    pub fn substitutes(&self, node: NodeId) -> Vec<Substitute> {
        let children: Vec<Child> = self.children(node).collect();
        let mut substitutes = Vec::new();
        for (index, child) in children.iter().enumerate() {
            let ranks = self.ranks_below(*child);
            if children.len() + substitutes.len() + ranks.len() <= MAX_CONTRIBUTORS {
                let stands_for = Contributor(index as u8);
                substitutes.extend(ranks.into_iter().map(|rank| Substitute { stands_for, rank }));
            }
        }
        substitutes
    }

    /// Where a worker goes when a node above it is gone, one refuge for each of them that can be removed, from its parent upwards.
    #[must_use]
    pub fn refuges(&self, rank: u32) -> Vec<Refuge> {
        let parent = |node: &NodeId| self.parent_of(Child::Node(node.0)).map(|(above, _)| above);
        let home = self.parent_of(Child::Worker(rank)).map(|(node, _)| node);
        let above = std::iter::successors(home, parent);
        above.filter_map(|node| self.refuge(rank, node)).collect()
    }

    fn refuge(&self, rank: u32, removed: NodeId) -> Option<Refuge> {
        let (node, child) = self.parent_of(Child::Node(removed.0))?;
        let before = self.fan_in(node);
        let is_own = |s: &Substitute| s.rank == rank && s.stands_for == child;
        let index = self.substitutes(node).iter().position(is_own)?;
        let contributor = Contributor((before + index) as u8);
        let team = self.ranks_below(Child::Node(removed.0));
        Some(Refuge { removed, node, contributor, team })
    }

    /// Whether the workers below a node have somewhere to go when it is gone.
    #[must_use]
    pub fn is_removable(&self, node: NodeId) -> bool {
        self.parent_of(Child::Node(node.0)).is_some_and(|(parent, child)| {
            self.substitutes(parent).iter().any(|s| s.stands_for == child)
        })
    }

    /// The workers below a child that is a node, in the order of the tree.
    fn ranks_below(&self, child: Child) -> Vec<u32> {
        let Child::Node(node) = child else { return Vec::new() };
        let ranks = |child| match child {
            Child::Worker(rank) => vec![rank],
            Child::Node(_) => self.ranks_below(child),
        };
        self.children(NodeId(node)).flat_map(ranks).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plan, StreamLeg, StreamPlace};

    /// A stream of which each node has these children.
    fn stream(tree: &[(u16, Vec<Child>)]) -> PlanStream {
        let plan =
            Plan::from_json(include_str!("../../protocol/tests/plans/tree.json")).expect("valid");
        let place = |(node, _): &_| StreamPlace { node: *node, base: 0, slots: Some(8) };
        let leg = |child, parent| StreamLeg { child, parent, links: Vec::new() };
        let legs = tree
            .iter()
            .flat_map(|(node, children)| children.iter().map(move |child| leg(*child, *node)));
        PlanStream {
            places: tree.iter().map(place).collect(),
            legs: legs.collect(),
            ..plan.streams[1].clone()
        }
    }

    fn workers(ranks: std::ops::Range<u32>) -> Vec<Child> {
        ranks.map(Child::Worker).collect()
    }

    /// Removed nodes, where the worker goes, and its number there.
    fn refuges(tree: &PlanStream, rank: u32) -> Vec<(u16, u16, u8)> {
        let refuges = tree.refuges(rank).into_iter();
        refuges.map(|refuge| (refuge.removed.0, refuge.node.0, refuge.contributor.0)).collect()
    }

    #[test]
    fn substitutes_are_numbered_after_the_children_in_their_order() {
        let root = vec![Child::Node(1), Child::Worker(0), Child::Node(2)];
        let tree = stream(&[(0, root), (1, workers(1..3)), (2, workers(3..4))]);
        let found: Vec<_> =
            tree.substitutes(NodeId(0)).iter().map(|s| (s.stands_for.0, s.rank)).collect();
        assert_eq!(found, [(0, 1), (0, 2), (2, 3)]);
        let seats: Vec<_> =
            tree.seats(NodeId(0)).iter().map(|s| (s.child, s.team, s.rivals)).collect();
        let children = [(1, 1, 0b01_1000), (2, 2, 0), (4, 4, 0b10_0000)];
        let substitutes = [(1, 0b01_1000, 0), (1, 0b01_1000, 0), (4, 0b10_0000, 0)];
        assert_eq!(seats, [children, substitutes].concat());
        assert_eq!(refuges(&tree, 2), [(1, 0, 4)]);
        assert_eq!(tree.refuges(2)[0].team, [1, 2]);
        assert_eq!(refuges(&tree, 0), [], "its parent is the root");
    }

    #[test]
    fn all_workers_below_a_node_are_its_substitutes() {
        let tree = stream(&[
            (0, vec![Child::Node(1)]),
            (1, vec![Child::Worker(0), Child::Node(2)]),
            (2, workers(1..3)),
        ]);
        let ranks: Vec<_> = tree.substitutes(NodeId(0)).iter().map(|s| s.rank).collect();
        assert_eq!(ranks, [0, 1, 2]);
        assert_eq!(refuges(&tree, 0), [(1, 0, 1)]);
        assert_eq!(refuges(&tree, 1), [(2, 1, 2), (1, 0, 2)]);
        let teams: Vec<_> = tree.refuges(1).into_iter().map(|refuge| refuge.team).collect();
        assert_eq!(teams, [vec![1, 2], vec![0, 1, 2]]);
        assert_eq!([0, 1, 2].map(|node| tree.is_removable(NodeId(node))), [false, true, true]);
    }

    #[test]
    fn a_child_whose_substitutes_do_not_fit_has_none() {
        let tree = stream(&[
            (0, vec![Child::Node(1), Child::Node(2), Child::Node(3)]),
            (1, workers(0..40)),
            (2, workers(40..80)),
            (3, workers(80..101)),
        ]);
        assert_eq!(tree.substitutes(NodeId(0)).len(), 40 + 21);
        assert_eq!(refuges(&tree, 39), [(1, 0, 42)]);
        assert_eq!(refuges(&tree, 40), []);
        assert_eq!(refuges(&tree, 100), [(3, 0, 63)]);
        assert!(!tree.is_removable(NodeId(2)));
    }
}
