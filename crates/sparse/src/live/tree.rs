//! Switches of a sparse job as a tree: who sends hot rows to whom.

use serde::{Deserialize, Serialize};

use super::job::{Job, JobError, wrong};
use crate::message::Sender;
use crate::summer::Child;

/// Switches as a tree. The first one is the root, which all sums end at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// For each switch but the first, the one above it, which has a smaller number.
    pub parents: Vec<u16>,
    /// For each worker, the switch that it sends hot rows to.
    pub leaves: Vec<u16>,
}

impl Tree {
    pub(super) fn validate(&self, workers: u32, switches: usize) -> Result<(), JobError> {
        if self.leaves.len() != workers as usize || self.parents.len() + 1 != switches {
            let problem = format!(
                "has {} parents and {} leaves: give one parent for each switch but the first, of {switches}, and one leaf for \
                 each worker, of {workers}",
                self.parents.len(),
                self.leaves.len()
            );
            return Err(wrong("tree", problem));
        }
        if let Some(worker) = self.leaves.iter().position(|leaf| usize::from(*leaf) >= switches) {
            let problem = format!("names switch {} for worker {worker}", self.leaves[worker]);
            return Err(wrong("tree", format!("{problem}, of {switches} numbered from 0")));
        }
        let late = self.parents.iter().zip(1..).find(|(parent, switch)| *parent >= switch);
        if let Some((parent, switch)) = late {
            let problem = format!("has switch {parent} above switch {switch}: number it before");
            return Err(wrong("tree", problem));
        }
        match (0..switches as u16).find(|switch| self.beneath(*switch) == 0) {
            Some(idle) => {
                let problem = format!("has no worker beneath switch {idle}: leave that switch out");
                Err(wrong("tree", problem))
            }
            None => Ok(()),
        }
    }

    /// The switch above, if there is one.
    fn parent(&self, switch: u16) -> Option<u16> {
        switch.checked_sub(1).map(|place| self.parents[usize::from(place)])
    }

    /// Workers whose rows a switch has, as a bitmap.
    fn beneath(&self, switch: u16) -> u64 {
        let is_beneath = |mut leaf: u16| loop {
            match self.parent(leaf) {
                _ if leaf == switch => return true,
                Some(above) => leaf = above,
                None => return false,
            }
        };
        let ranks = self.leaves.iter().enumerate().filter(|(_, leaf)| is_beneath(**leaf));
        ranks.fold(0, |ranks, (rank, _)| ranks | 1 << rank)
    }

    fn children(&self, switch: u16, workers: u32) -> Vec<Child> {
        let leaves = (0..workers).zip(&self.leaves).filter(|(_, leaf)| **leaf == switch);
        let inner = (1..).zip(&self.parents).filter(|(_, parent)| **parent == switch);
        let beneath = inner.map(|(number, _)| Child {
            sender: workers + u32::from(number),
            workers: self.beneath(number),
        });
        leaves.map(|(rank, _)| Child::worker(rank)).chain(beneath).collect()
    }
}

impl Job {
    /// Who sends hot rows to a switch.
    pub(super) fn children(&self, switch: u16) -> Vec<Child> {
        match &self.tree {
            Some(tree) => tree.children(switch, self.workers),
            None => Child::workers(self.workers),
        }
    }

    /// Workers that send hot rows to a node, a bit for each rank; none where it is no switch.
    #[must_use]
    pub fn contributors(&self, node: u16) -> u64 {
        let children = node.checked_sub(self.shards().0).map(|switch| self.children(switch));
        let workers = children.into_iter().flatten().filter(|child| child.sender < self.workers);
        workers.fold(0, |ranks, worker| ranks | worker.workers)
    }

    /// Participants that join a node: workers and switches that send to it.
    #[must_use]
    pub fn members_of(&self, node: u16) -> usize {
        match node.checked_sub(self.shards().0) {
            Some(switch) => self.children(switch).len(),
            None => self.senders() as usize,
        }
    }

    /// The node above a switch, if there is one.
    pub(super) fn parent(&self, switch: u16) -> Option<u16> {
        self.tree.as_ref()?.parent(switch).map(|parent| self.shards().0 + parent)
    }

    /// Switches among which positions are divided, the first ones.
    pub(super) fn roots(&self) -> u16 {
        if self.tree.is_some() { 1 } else { self.switches.len() as u16 }
    }

    /// The nodes that a worker sends hot rows to, by the number that their positions tell.
    pub(super) fn leaves(&self, rank: u32) -> Vec<u16> {
        let servers = self.shards().0;
        match &self.tree {
            Some(tree) => vec![servers + tree.leaves[rank as usize]],
            None => (servers..servers + self.switches.len() as u16).collect(),
        }
    }

    /// The number of a switch among senders.
    pub(super) fn sender_of(&self, switch: u16) -> Sender {
        self.workers + u32::from(switch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        Tree { parents: vec![0, 0, 1], leaves: vec![2, 3, 3, 0, 1] }
    }

    #[test]
    fn children_are_workers_and_then_switches_with_whom_they_stand_for() {
        let tree = tree();
        assert_eq!(tree.validate(5, 4), Ok(()));
        let switch = |number: u32, workers| Child { sender: 5 + number, workers };
        assert_eq!(tree.children(0, 5), [Child::worker(3), switch(1, 0b10110), switch(2, 1)]);
        assert_eq!(tree.children(1, 5), [Child::worker(4), switch(3, 0b110)]);
        assert_eq!(tree.children(3, 5), [Child::worker(1), Child::worker(2)]);
        assert_eq!(
            [0, 1, 2, 3].map(|switch| tree.parent(switch)),
            [None, Some(0), Some(0), Some(1)]
        );
    }

    #[test]
    fn a_tree_that_cannot_be_is_named() {
        for (wrong, says) in [
            (Tree { parents: vec![0, 0], ..tree() }, "2 parents and 5 leaves"),
            (Tree { leaves: vec![0; 4], ..tree() }, "3 parents and 4 leaves"),
            (Tree { leaves: vec![2, 3, 3, 0, 4], ..tree() }, "names switch 4 for worker 4, of 4"),
            (
                Tree { parents: vec![0, 3, 1], ..tree() },
                "switch 3 above switch 2: number it before",
            ),
            (Tree { leaves: vec![2, 1, 1, 0, 1], ..tree() }, "no worker beneath switch 3"),
        ] {
            let problem = wrong.validate(5, 4).expect_err("wrong").to_string();
            assert!(problem.contains(says), "{problem}");
        }
    }
}
